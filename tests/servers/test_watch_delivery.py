"""Delivery of changes on both kinds of servers: acknowledgements, repetitions, waits, what is written."""

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS, Kind
from support.watching.watchers import IMPATIENT, QUICK, watching

import mqdssm
from mqdssm.errors import ConfigError
from mqdssm.events.watching import delivery
from mqdssm.events.watching.watch import Watch
from mqdssm.model.watching import ObjectChange
from mqdssm.testing import OpenLdapServer

BOTH = ["openldap", pytest.param("samba", marks=pytest.mark.samba)]
IN_SOAK = [pytest.mark.samba, pytest.mark.soak]  # a state of a domain is long, and so is its journal


@dataclass
class Machine:
    """A machine of its own on a server, and queues that plain LDAP tools make there."""

    kind: Kind
    server: Any
    directory: mqdssm.Directory
    plain: PlainLdap
    name: str

    @property
    def dn(self) -> str:
        return f"CN=msmq,CN={self.name},CN=Computers,{self.server.base_dn}"

    def begin(self) -> None:
        self.kind.add_computer(self.server, self.name)
        self.plain.add(self.dn, {"objectClass": "mSMQConfiguration"} | self._guid())

    def _guid(self) -> dict[str, bytes]:
        return {"objectGUID": uuid4().bytes_le} if self.kind.keeps_guids else {}

    def queues(self, count: int, label: str = "0") -> list[str]:
        made = [f"CN=q{uuid4().hex[:8]},{self.dn}" for _ in range(count)]
        for dn in made:
            self.plain.add(dn, {"objectClass": "mSMQQueue", "mSMQLabelEx": label} | self._guid())
        return made

    def label(self, label: str, *dns: str) -> None:
        for dn in dns:
            self.plain.modify(dn, f"replace: mSMQLabelEx\nmSMQLabelEx: {label}")

    def watch(self, state: Path | None = None, *kinds: Any, **more: Any) -> Watch:
        kinds = kinds or (mqdssm.Queue,)
        more = {"rhythm": QUICK, "pauses": IMPATIENT} | more
        return self.directory.watch(*kinds, state=state, **more)

    def all(self, state: Path | None, *kinds: Any, **more: Any) -> list[ObjectChange]:
        """What happened before, of this machine; it is committed."""
        with self.watch(state, *kinds, once=True, **more) as watch:
            found = [one for one in watch if self.name.lower() in one.dn.lower()]
            watch.commit()
        return found


@contextmanager
def machine_on(kind: Kind, server: Any) -> Iterator[Machine]:
    with kind.connect(server) as directory:
        made = Machine(kind, server, directory, kind.plain(server), f"Y{uuid4().hex[:8].upper()}")
        made.begin()
        yield made


@pytest.fixture(params=BOTH)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    kind = KINDS[request.param]
    with machine_on(kind, request.getfixturevalue(f"{kind.name}_server")) as made:
        yield made


def labels(changes: list[ObjectChange]) -> list[tuple[str, str]]:
    return [tuple(one.changes["Label"]) for one in changes]


def test_without_a_commit_nothing_counts_as_told(machine: Machine, tmp_path: Path):
    state, dns = tmp_path / "state", machine.queues(5)
    machine.all(state)
    machine.label("1", *dns)
    told: list[list[ObjectChange]] = []
    for _ in range(2):
        with machine.watch(state) as watch:
            told.append([next(watch) for _ in dns])
    assert told[0] == told[1], "with the same ids and times, in the same order"
    assert len({one.id for one in told[0]}) == len(dns)
    assert all(one.time is not None for one in told[0])
    with machine.watch(state) as watch:
        assert [next(watch) for _ in range(2)] == told[0][:2]
        watch.commit()
        assert next(watch) == told[0][2]
    assert machine.all(state) == told[0][2:]
    assert machine.all(state) == []


def test_what_was_undone_before_it_was_committed_is_told_with_its_end(machine: Machine, tmp_path: Path):
    state, (dn, other) = tmp_path / "state", machine.queues(2)
    machine.all(state)
    machine.label("1", dn)
    with machine.watch(state) as watch:
        first = next(watch)
    machine.label("0", dn)
    machine.label("1", other)
    again = machine.all(state)
    assert again[0] == first
    assert sorted(labels(again)) == [("0", "1"), ("0", "1"), ("1", "0")]
    assert len({one.id for one in again}) == 3


def test_octets_that_are_told_again_have_their_value(machine: Machine, tmp_path: Path):
    state = tmp_path / "state"
    machine.all(state, mqdssm.QueueManager)
    machine.directory.session.modify(machine.dn, {"mSMQEncryptKey": [b"A-KEY"]})
    with machine.watch(state, mqdssm.QueueManager) as watch:
        first = next(watch)
    (again,) = machine.all(state, mqdssm.QueueManager)
    assert again == first
    assert again.changes["PublicEncryptionKeyList"].new == b"A-KEY"


def test_a_snapshot_tells_what_exists_and_goes_on_where_it_was_interrupted(machine: Machine, tmp_path: Path):
    state, dns = tmp_path / "state", machine.queues(6, "there")
    told = []
    with machine.watch(state, snapshot=True, computers=[machine.name]) as watch:
        told += [next(watch) for _ in range(4)]
        watch.commit()
        told.append(next(watch))
    machine.label("meanwhile", told[0].dn)
    rest = machine.all(state, computers=[machine.name])
    assert rest[0] == told[-1], "it was not committed"
    told += [one for one in rest[1:] if one.event == "existing"]
    assert sorted(one.dn.lower() for one in told) == sorted(dn.lower() for dn in dns)
    assert {one.event for one in told} == {"existing"}
    assert {one.changes["Label"] for one in told} == {(None, "there")}
    assert labels([one for one in rest if one.event == "changed"]) == [("there", "meanwhile")]
    (new,) = machine.queues(1)
    assert [(one.event, one.dn.lower()) for one in machine.all(state)] == [("created", new.lower())]


def test_once_ends_when_all_is_told(machine: Machine, tmp_path: Path):
    state, (dn,) = tmp_path / "state", machine.queues(1)
    assert machine.all(state) == []
    for number in range(3):
        machine.label(f"{number + 1}", dn)
        assert labels(machine.all(state)) == [(str(number), str(number + 1))]


def test_only_what_was_selected_is_told(machine: Machine, tmp_path: Path):
    other = Machine(
        machine.kind, machine.server, machine.directory, machine.plain, f"Z{uuid4().hex[:8].upper()}"
    )
    other.begin()
    state = tmp_path / "state"
    selected: dict[str, Any] = {"computers": [machine.name.lower()], "events": ["created", "deleted"]}
    machine.all(state, mqdssm.Queue, mqdssm.QueueManager, **selected)
    (mine,), _ = machine.queues(1), other.queues(1)
    machine.label("not told", mine)
    with machine.watch(state, mqdssm.Queue, mqdssm.QueueManager, once=True, **selected) as watch:
        told = list(watch)
        watch.commit()
    assert [(one.event, one.dn.lower()) for one in told] == [("created", mine.lower())]
    machine.plain.delete(mine)
    with machine.watch(state, mqdssm.Queue, mqdssm.QueueManager, once=True, **selected) as watch:
        told = list(watch)
    assert [(one.event, one.dn.lower()) for one in told] == [("deleted", mine.lower())]
    assert told[0].changes["Label"] == ("not told", None), "what is not told is known"


def test_a_computer_that_does_not_exist_is_warned_of(machine: Machine, caplog: pytest.LogCaptureFixture):
    host = f"{machine.name}.{'.'.join(re.findall('DC=([^,]+)', machine.dn, re.IGNORECASE))}".lower()
    names = [machine.name, host, "a-nobody", "a-nobody"]
    assert list(machine.watch(snapshot=True, once=True, computers=names)) == []
    nobody, other = sorted(one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    assert nobody == "there is no computer named 'a-nobody': nothing is told of it until there is one"
    assert other == (
        f"there is no computer named '{host}': nothing is told of it until there is one; "
        f"did you mean {machine.name}?"
    )


def test_a_computer_with_a_name_of_dns_is_suggested(machine: Machine, caplog: pytest.LogCaptureFixture):
    label = machine.name[:-1]
    dn = f"CN={label}.example,CN=Computers,{machine.server.base_dn}"
    machine.plain.add(dn, {"objectClass": "computer"})
    assert list(machine.watch(once=True, snapshot=True, computers=[label])) == []
    assert f"did you mean {label}.example?" in caplog.text


@pytest.mark.parametrize("machine", BOTH[1:], indirect=True)
def test_a_computer_is_found_by_the_name_of_its_account(machine: Machine, tmp_path: Path):
    """An account has the name in NetBIOS, 15 characters; the computer may have a longer one."""
    state, short = tmp_path / "state", machine.name
    long = replace(machine, name=f"{short}-averylongname")
    account = {"objectClass": "computer", "sAMAccountName": f"{long.name[:15]}$"}
    long.plain.add(f"CN={long.name},CN=Computers,{machine.server.base_dn}", account)
    long.plain.add(long.dn, {"objectClass": "mSMQConfiguration"})
    machine.all(state)
    (dn,) = long.queues(1)
    assert [one.dn.lower() for one in long.all(state, computers=[long.name[:15]])] == [dn.lower()]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"events": ["made"]}, "there is no event made: use existing, created, changed, deleted"),
        ({"events": "created"}, "events is a list of names"),
        ({"computers": "WEB01"}, "computers is a list of names"),
        ({"computers": [" "]}, "computers: a name is empty"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(machine: Machine, wrong, words):
    with pytest.raises(ConfigError, match=words):
        machine.watch(**wrong)


def test_changes_without_any_commit_are_bounded(
    machine: Machine, tmp_path: Path, monkeypatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(delivery, "UNACKNOWLEDGED_MANY", 2)
    monkeypatch.setattr(delivery, "UNACKNOWLEDGED_MAX", 4)
    state, dns = tmp_path / "state", machine.queues(6)
    machine.all(state)
    machine.label("1", *dns)
    with machine.watch(state) as watch, pytest.raises(ConfigError, match="4 changes were told, and none"):
        list(watch)
    assert "2 changes were told, and none was acknowledged" in caplog.text
    with machine.watch(state) as watch:
        told = []
        for change in itertools.islice(watch, 6):
            told.append(change)
            watch.commit()
    assert sorted(one.dn.lower() for one in told) == sorted(dn.lower() for dn in dns)


class TestAsynchronousIteration:
    def test_who_cancels_a_wait_gets_the_change_the_next_time(self, machine: Machine, tmp_path: Path):
        state, (dn,) = tmp_path / "state", machine.queues(1)

        async def changes() -> list[ObjectChange]:
            found = []
            with machine.watch(state) as watch:
                for number in range(3):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(anext(watch), 0.3)
                    watch.commit()  # of what nobody got
                    await asyncio.to_thread(machine.label, str(number + 1), dn)
                    if number == 1:
                        await asyncio.sleep(0.5)  # it is there before it is asked for
                    found.append(await asyncio.wait_for(anext(watch), 30))
            return found

        machine.all(state)
        assert labels(asyncio.run(changes())) == [("0", "1"), ("1", "2"), ("2", "3")]
        assert labels(machine.all(state)) == [("2", "3")]

    def test_two_tasks_get_a_change_each(self, machine: Machine):
        dns = machine.queues(2)

        async def changes() -> list[ObjectChange]:
            with machine.watch() as watch:
                tasks = [asyncio.ensure_future(anext(watch)) for _ in dns]
                await asyncio.to_thread(settled, watch)
                await asyncio.to_thread(machine.label, "1", *dns)
                return await asyncio.wait_for(asyncio.gather(*tasks), 30)

        assert {one.dn.lower() for one in asyncio.run(changes())} == {dn.lower() for dn in dns}

    def test_no_thread_of_the_program_is_held(self, machine: Machine):
        (dn,) = machine.queues(1)

        async def changes() -> list[ObjectChange]:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            watches = [machine.watch() for _ in range(4)]
            tasks = [asyncio.ensure_future(anext(watch)) for watch in watches]
            for watch in watches:
                await asyncio.wait_for(asyncio.to_thread(settled, watch), 30)
            await asyncio.wait_for(asyncio.to_thread(machine.label, "1", dn), 30)
            found = await asyncio.wait_for(asyncio.gather(*tasks), 30)
            for watch in watches:
                watch.close()
            return found

        assert labels(asyncio.run(changes())) == [("0", "1")] * 4

    def test_an_error_ends_it_and_so_does_a_stop(self, machine: Machine, tmp_path: Path):
        async def last(watch: Watch) -> ObjectChange | None:
            with watch:
                following = asyncio.ensure_future(anext(watch, None))
                await asyncio.to_thread(settled, watch)
                watch.stop()
                return await asyncio.wait_for(following, 30)

        assert asyncio.run(last(machine.watch())) is None
        machine.all(tmp_path / "state")
        with machine.watch(tmp_path / "state", mqdssm.Site) as watch, pytest.raises(ConfigError):
            asyncio.run(anext(watch))


def settled(watch: Watch) -> None:
    while not watch.is_settled:
        watch.rest(0.02)


def test_what_is_written_follows_from_what_is_told(machine: Machine, tmp_path: Path, monkeypatch):
    """On Active Directory the place moves with every write of anybody."""
    monkeypatch.setattr(delivery, "SYNC_EVERY_S", 0.0)
    state, journal = tmp_path / "state", tmp_path / "state.journal"
    (dn,) = machine.queues(1)
    user, _ = machine.kind.add_user(machine.server, f"u{uuid4().hex[:8]}")
    with watching(machine.directory, mqdssm.Queue, state=state) as told:
        saved, size = (state.stat().st_ino, state.stat().st_mtime_ns), journal.stat().st_size
        for number in range(10):
            machine.plain.modify(user, f"replace: description\ndescription: {number}")
            told.watch.rest(0.25)  # each is looked at by itself
        assert journal.stat().st_size - size < 400, "one place at most"
        machine.label("1", dn)
        told.one("changed", dn)
        assert (state.stat().st_ino, state.stat().st_mtime_ns) == saved
        noted = [line for line in journal.read_text().splitlines() if '"key"' in line]
        assert len(noted) == 1
    assert (state.stat().st_ino, state.stat().st_mtime_ns) == saved, "nor at its end"
    assert machine.all(state) == [], "the place was noted"
    assert '"place"' in journal.read_text()


@pytest.mark.parametrize("kind", ["openldap", pytest.param("samba", marks=IN_SOAK)])
def test_a_long_journal_becomes_a_state(kind: str, tmp_path: Path, monkeypatch, request):
    """On an OpenLDAP of its own: the state of one that others use is long, and so is its journal."""
    with ExitStack() as stack:
        shared = kind == "samba"
        server = request.getfixturevalue("samba_server") if shared else stack.enter_context(OpenLdapServer())
        _outgrow_journals(stack.enter_context(machine_on(KINDS[kind], server)), tmp_path, monkeypatch)


def _outgrow_journals(machine: Machine, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mqdssm.events.watching.state_file.JOURNAL_BYTES_MIN", 2000)
    state, journal = tmp_path / "state", tmp_path / "state.journal"
    (dn,) = machine.queues(1)
    machine.all(state)
    longest = max(2000, state.stat().st_size) + 2000
    # the state that a journal belongs to: inodes say nothing, a third file may get that of the first
    states = [journal.read_text().splitlines()[0]]
    with watching(machine.directory, mqdssm.Queue, state=state) as told:
        for number in range(1, 3 * longest // 400):  # a note takes some 600 bytes
            machine.label(str(number), dn)
            told.wait(lambda one, n=number: one.changes and one.changes[-1].changes["Label"].new == str(n))
            assert journal.stat().st_size < longest
            begins = journal.read_text().splitlines()[0]
            states += [] if begins == states[-1] else [begins]
            if len(states) > 2:
                break
    assert len(set(states)) == 3, "each is another one"
    assert json.loads(state.read_text().splitlines()[0])["version"] == 2
    assert machine.all(state) == []
