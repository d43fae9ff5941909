"""A watch whose connections are cut anywhere, or go silent: it goes on, and nothing is lost or invented."""

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.servers.plain_ldap import PlainLdap
from support.servers.proxy import Proxy
from support.servers.sessions import clear_text, options_for
from support.watching.watchers import IMPATIENT, QUICK, WAIT_S, Told

from mqdssm.directory.watching.hints import Rhythm
from mqdssm.directory.watching.link import Link
from mqdssm.errors import DirectoryNotConnected
from mqdssm.events.watching import watch
from mqdssm.events.watching.state_file import StateFile
from mqdssm.events.watching.watch import Watch
from mqdssm.testing import OpenLdapServer


@pytest.fixture
def proxy(openldap_server: OpenLdapServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", openldap_server.port) as running:
        yield running


@pytest.fixture
def queue(openldap_server: OpenLdapServer) -> str:
    name = f"F{uuid4().hex[:8]}"
    openldap_server.add_computer(name)
    plain, machine = PlainLdap(openldap_server), f"CN=msmq,CN={name},CN=Computers,{openldap_server.base_dn}"
    plain.add(machine, {"objectClass": "mSMQConfiguration", "objectGUID": uuid4().bytes_le})
    dn = f"CN=q,{machine}"
    return plain.add(dn, {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQLabelEx": "0"})


def watch_through(server: OpenLdapServer, proxy: Proxy, *, rhythm: Rhythm = QUICK) -> Told:
    told = Told(Watch(clear_text(server, proxy), ["queue"], rhythm=rhythm, pauses=IMPATIENT))
    thread = threading.Thread(target=told.run, name="watch", daemon=True)
    thread.start()
    told.wait(lambda one: one.watch.is_settled)
    return told


def label(server: OpenLdapServer, dn: str, text: str) -> None:
    PlainLdap(server).modify(dn, f"replace: mSMQLabelEx\nmSMQLabelEx: {text}")


def labels(told: Told, dn: str) -> list[tuple[str, str]]:
    return [tuple(one.changes["Label"]) for one in told.changes if one.dn.lower() == dn.lower()]


@pytest.mark.parametrize("after", [0, 1, 5, 40, 100, 200, 400, 800])
def test_connections_that_are_cut_anywhere(after, openldap_server, proxy, queue):
    told = watch_through(openldap_server, proxy)
    with told.watch:
        fault = proxy.arm(down=after)
        for number in range(1, 9):
            label(openldap_server, queue, str(number))
        told.wait(lambda _: fault.struck.is_set())
        told.wait(lambda one: labels(one, queue) and labels(one, queue)[-1][1] == "8")
        found = labels(told, queue)
        assert [old for old, _ in found] == ["0", *(new for _, new in found[:-1])]
        assert [int(new) for _, new in found] == sorted(int(new) for _, new in found)


@pytest.mark.parametrize("within", ["all", "computer", "part"])
def test_an_object_whose_name_is_damaged_stays_as_it_was_and_the_others_are_told(
    within, openldap_server, proxy, queue, monkeypatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(watch, "COMPARE_EVERY_S", 0.5)
    name = queue.split(",")[2].removeprefix("CN=")
    other = queue.replace("CN=q,", "CN=other,")
    guid = {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQLabelEx": "0"}
    PlainLdap(openldap_server).add(other, guid)
    part = {"naming_context": queue.partition(",")[2]} if within == "part" else {}
    computers = [name] if within == "computer" else []
    options = clear_text(openldap_server, proxy, **part)
    with Watch(options, ["queue"], rhythm=QUICK, pauses=IMPATIENT, computers=computers) as watched:
        told = Told(watched)
        threading.Thread(target=told.run, name="watch", daemon=True).start()
        told.wait(lambda one: one.watch.is_settled)
        damaged = re.compile(rb"(?<=cn=q),(?=cn=msmq,cn=" + name.encode() + b")", re.IGNORECASE)
        proxy.damage = lambda data: damaged.sub(b";", data)
        label(openldap_server, queue, "damaged")
        told.wait(lambda _: "is no distinguished name: no change of this object is told" in caplog.text)
        label(openldap_server, other, "1")
        told.wait(lambda one: labels(one, other) == [("0", "1")])
        proxy.damage = None
        label(openldap_server, queue, "mended")
        told.wait(lambda one: labels(one, queue) == [("0", "mended")])
    assert told.count(queue) == told.count(other) == 1, "nothing else is told, no deletion either"
    assert len(told.changes) == 2


def test_objects_below_an_entry_whose_name_is_damaged_are_read_again(openldap_server, proxy, queue):
    computer = queue.split(",", 2)[2]
    told = watch_through(openldap_server, proxy)
    with told.watch:
        damaged = re.compile(rb"(?<!,)(" + computer.split(",")[0].encode() + b"),", re.IGNORECASE)
        proxy.damage = lambda data: damaged.sub(rb"\1;", data)
        PlainLdap(openldap_server).modify(computer, "delete: dNSHostName")
        told.wait(lambda one: any("QualifiedPathname" in change.changes for change in one.changes))


def test_a_connection_that_a_firewall_forgot(openldap_server, proxy, queue):
    told = watch_through(openldap_server, proxy)
    with told.watch:
        proxy.only_this_connection = True
        proxy.arm(down=0, stall=True)
        label(openldap_server, queue, "nobody hears of it")
        told.wait(lambda one: labels(one, queue) == [("0", "nobody hears of it")])


def test_a_server_that_is_away_is_waited_for(openldap_server, proxy, queue):
    told = watch_through(openldap_server, proxy)
    troubles: list[str] = []
    told.watch._on_trouble = lambda error, _: troubles.append(str(error))
    with told.watch:
        proxy.refuse = True
        proxy.cut_all()
        told.wait(lambda _: len(troubles) >= 3)
        assert not told.watch.is_settled
        label(openldap_server, queue, "meanwhile")
        proxy.refuse = False
        told.wait(lambda one: labels(one, queue) == [("0", "meanwhile")])
        assert told.watch.is_settled


def test_the_next_server_is_watched_from_a_comparison_on(
    openldap_server, proxy, queue, monkeypatch: pytest.MonkeyPatch
):
    """What a place means is known to the server alone that gave it (decision W2)."""
    places: list[tuple[str, str | None]] = []
    made = watch.source_of

    def noting(link: Link, *more: Any) -> Any:
        source = made(link, *more)
        hints = source.read_hints
        source.read_hints = lambda place: (places.append((link.url, place)), hints(place))[1]
        return source

    monkeypatch.setattr(watch, "source_of", noting)
    second = openldap_server.url
    options = clear_text(openldap_server, proxy)
    other = options_for(openldap_server, second, tls="none")
    both = replace(options, endpoints=(*options.endpoints, *other.endpoints))
    told = Told(Watch(both, ["queue"], rhythm=QUICK, pauses=IMPATIENT))
    with told.watch:
        threading.Thread(target=told.run, name="watch", daemon=True).start()
        told.wait(lambda one: one.watch.is_settled)
        proxy.cut_all()  # the same one is tried again
        told.wait(lambda _: len(places) == 2)
        assert [url for url, _ in places] == [proxy.url] * 2
        assert places[1][1] is not None
        told.wait(lambda one: one.watch.is_settled)
        proxy.refuse = True
        proxy.cut_all()
        label(openldap_server, queue, "meanwhile")
        told.wait(lambda one: labels(one, queue) == [("0", "meanwhile")])
        assert told.watch.url == second
        assert places[-1] == (second, None)


def test_a_server_that_was_never_there_is_an_error(openldap_server, proxy):
    proxy.refuse = True
    with (
        Watch(clear_text(openldap_server, proxy), pauses=IMPATIENT) as watch,
        pytest.raises(DirectoryNotConnected),
    ):
        next(watch)


def test_a_stop_is_heard_while_nothing_happens(openldap_server, proxy):
    told = watch_through(openldap_server, proxy, rhythm=Rhythm(tick_s=0.05))
    told.watch.stop()
    told.wait(lambda one: one.watch._running.acquire(blocking=False), WAIT_S)
    told.watch._running.release()
    assert list(told.watch) == []
    told.watch.close()


def test_a_name_of_several_servers_is_one_server_for_a_watch(
    openldap_server, queue, monkeypatch: pytest.MonkeyPatch
):
    """As with the name of a domain: each time that it is looked up another address stands first.

    What the second server, where nobody is here, has not got yet would be missed for ever.
    """
    resolve, turns = socket.getaddrinfo, count()

    def in_turn(host: str, port: int, *more: int, **named: int) -> list[tuple[Any, ...]]:
        if host != "domain.example.com":
            return resolve(host, port, *more, **named)
        address = ("127.0.0.1", "127.0.0.2")[next(turns) % 2]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", in_turn)
    url = f"ldap://domain.example.com:{openldap_server.port}"
    named = options_for(openldap_server, url, tls="none", connect_timeout_s=5.0)
    with Watch(named, ["queue"], rhythm=QUICK, pauses=IMPATIENT) as watching:
        told = Told(watching)
        threading.Thread(target=told.run, name="watch", daemon=True).start()
        told.wait(lambda one: one.watch.is_settled)
        label(openldap_server, queue, "seen")
        told.wait(lambda one: labels(one, queue) == [("0", "seen")])
        assert next(turns) == 1, "it was looked up once"


def test_the_first_change_of_a_start_is_noted_before_it_is_told(openldap_server, queue, tmp_path: Path):
    """Decision W7: whoever kills the watcher now finds in the files what was told."""
    options = options_for(openldap_server)
    state, killed = tmp_path / "state", tmp_path / "killed"
    with Watch(options, ["queue"], state=state, rhythm=QUICK) as first:
        end_when_settled(first)
    label(openldap_server, queue, "1")
    with Watch(options, ["queue"], state=state, rhythm=QUICK) as second:
        change = next(second)
        assert change.changes["Label"] == ("0", "1")
        for suffix in ("", ".journal"):
            shutil.copy(f"{state}{suffix}", f"{killed}{suffix}")
    file = StateFile(killed)
    (doubt,) = file.load().doubts
    file.close()
    assert (doubt.id, doubt.event) == (change.id, change.event)
    assert doubt.known_object is not None
    assert '"Label":"1"' in doubt.known_object.body


def test_what_was_not_told_before_a_stop_is_told_at_the_next_start(openldap_server, queue, tmp_path: Path):
    options, state, other = options_for(openldap_server), tmp_path / "state", queue.replace("CN=q", "CN=r")
    plain = PlainLdap(openldap_server)
    plain.add(other, {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQLabelEx": "0"})
    with Watch(options, ["queue"], state=state, rhythm=QUICK) as first:
        end_when_settled(first)
    label(openldap_server, queue, "1")
    label(openldap_server, other, "1")
    with Watch(options, ["queue"], state=state, rhythm=QUICK) as second:
        told = [next(second)]
        second.commit()
        second.stop()
        assert next(second, None) is None
    with Watch(options, ["queue"], state=state, rhythm=QUICK) as third:
        told.append(next(third))
    assert {one.dn.lower() for one in told} == {queue.lower(), other.lower()}


def end_when_settled(watch: Watch) -> None:
    """Follow a watch that has nothing to tell until it has seen all there is."""
    watch._on_ready = lambda _: watch.stop()
    assert next(watch, None) is None
