"""A watch whose connections are cut anywhere, or go silent: it goes on, and nothing is lost or invented."""

import socket
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from plain_ldap import PlainLdap
from proxy import Proxy
from sessions import clear_text, options_for
from watchers import IMPATIENT, QUICK, WAIT_S, Told

from mqdssm.directory.watching.hints import Rhythm
from mqdssm.errors import DirectoryNotConnected
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
    with Watch(named, ["queue"], rhythm=QUICK, pauses=IMPATIENT) as watch:
        told = Told(watch)
        threading.Thread(target=told.run, name="watch", daemon=True).start()
        told.wait(lambda one: one.watch.is_settled)
        label(openldap_server, queue, "seen")
        told.wait(lambda one: labels(one, queue) == [("0", "seen")])
        assert next(turns) == 1, "it was looked up once"
