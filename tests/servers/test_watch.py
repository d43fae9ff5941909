"""Watching a directory on both kinds of servers: changes by plain LDAP tools, restarts, state files."""

import asyncio
import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.replication.queue_managers import wait_until
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS, Kind
from support.watching.watchers import watching

import mqdssm
from mqdssm.errors import ConfigError, GenericDirectoryError
from mqdssm.events.watching.state_file import StateFile, WatchState
from mqdssm.model.watching import UNKNOWN, ObjectChange

_numbers = count(1)
_RUN = uuid4().hex[:5].upper()


@dataclass
class World:
    """A server, our directory on it, and the tools of others."""

    kind: Kind
    server: Any
    directory: mqdssm.Directory
    plain: PlainLdap

    def machine(self) -> str:
        """A computer with MSMQ; returns the DN of its queue manager."""
        name = f"W{_RUN}{next(_numbers)}"
        self.kind.add_computer(self.server, name)
        dn = f"CN=msmq,CN={name},CN=Computers,{self.directory.session.naming.root}"
        self.plain.add(dn, {"objectClass": "mSMQConfiguration"} | self._guid())
        return dn

    def _guid(self) -> dict[str, bytes]:
        return {"objectGUID": uuid4().bytes_le} if self.kind.keeps_guids else {}

    def queue(self, machine: str, label: str) -> str:
        dn = f"CN=q{next(_numbers)},{machine}"
        self.plain.add(dn, {"objectClass": "mSMQQueue", "mSMQLabelEx": label} | self._guid())
        return dn

    def label(self, dn: str, label: str) -> None:
        self.plain.modify(dn, f"replace: mSMQLabelEx\nmSMQLabelEx: {label}")

    def guid(self, dn: str) -> UUID:
        return UUID(bytes_le=self.directory.session.get(dn, ["objectGUID"]).first("objectGUID") or b"")

    def check(self, changes: list[ObjectChange]) -> None:
        """What was told of each object, one after the other, is a story: nothing is left out of it."""
        labels: dict[UUID | None, Any] = {}
        for one in changes:
            if "Label" in one.changes:
                assert one.changes["Label"].old == labels.get(one.guid, one.changes["Label"].old)
                labels[one.guid] = one.changes["Label"].new


@pytest.fixture(params=["openldap", pytest.param("samba", marks=pytest.mark.samba)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    kind = KINDS[request.param]
    server = request.getfixturevalue(f"{kind.name}_server")
    with kind.connect(server) as directory:
        yield World(kind, server, directory, kind.plain(server))


def test_changes_by_anyone_are_told_as_they_are_made(world: World):
    machine = world.machine()
    there = world.queue(machine, "there before")
    with watching(world.directory) as told:
        assert not told.changes, "what was there is not told"
        dn = world.queue(machine, "one")
        created = told.one("created", dn)
        guid = world.guid(dn)
        assert (created.type, created.guid) == ("queue", guid)
        assert created.changes["Label"] == (None, "one")
        world.label(dn, "two")
        changed = told.one("changed", dn)
        assert changed.guid == guid
        assert changed.changes["Label"] == ("one", "two")
        assert set(changed.changes) <= {"Label", "ModifyTime"}
        world.plain.modify(dn, "delete: mSMQLabelEx")
        told.wait(lambda one: one.changes[-1].changes.get("Label") == ("two", ""))
        world.plain.delete(dn)
        deleted = told.one("deleted", dn)
        assert (deleted.type, deleted.guid) == ("queue", guid)
        world.label(there, "touched")
        assert told.one("changed", there).changes["Label"] == ("there before", "touched")
        world.check(told.changes)


def test_a_write_of_the_same_values_is_no_change(world: World):
    machine = world.machine()
    dn, other = world.queue(machine, "same"), world.queue(machine, "other")
    with watching(world.directory, mqdssm.Queue) as told:
        world.label(dn, "same")
        world.label(other, "changed")
        told.one("changed", other)
        assert told.count(dn) == 0


def test_what_happened_meanwhile_is_told_at_the_next_start(world: World, tmp_path: Path):
    machine, state = world.machine(), tmp_path / "state"
    changed, deleted = world.queue(machine, "before"), world.queue(machine, "gone soon")
    guid = world.guid(deleted)
    with watching(world.directory, mqdssm.Queue, state=state):
        pass
    world.label(changed, "after")
    world.plain.delete(deleted)
    created = world.queue(machine, "new")
    both = world.queue(machine, "came and went")
    world.plain.delete(both)
    with watching(world.directory, mqdssm.Queue, state=state) as told:
        assert told.one("changed", changed).changes["Label"] == ("before", "after")
        assert told.one("created", created).changes["Label"] == (None, "new")
        gone = told.one("deleted", deleted)
        assert (gone.guid, gone.changes["Label"]) == (guid, ("gone soon", None))
        assert told.count(both) == 0
        assert len(told.changes) == 3
    with watching(world.directory, mqdssm.Queue, state=state) as told:
        assert not told.changes


def test_the_very_next_change_is_told_at_the_next_start(world: World, tmp_path: Path):
    """What the watcher ended behind, and nothing else, is known to it."""
    dn, state = world.queue(world.machine(), "0"), tmp_path / "state"
    with watching(world.directory, mqdssm.Queue, state=state):
        pass
    for number in range(1, 6, 2):
        world.label(dn, str(number))
        with watching(world.directory, mqdssm.Queue, state=state) as told:
            assert told.one("changed", dn).changes["Label"] == (str(number - 1), str(number))
            world.label(dn, str(number + 1))
            told.wait(lambda one: len(one.changes) == 2)
            assert told.changes[-1].changes["Label"] == (str(number), str(number + 1))


def test_queues_of_a_computer_with_another_name_have_other_names(world: World):
    machine = world.machine()
    dn = world.queue(machine, "moves along")
    computer, place = machine.split(",", 2)[1], machine.split(",", 2)[2]
    with watching(world.directory, mqdssm.Queue) as told:
        world.directory.session.rename(f"{computer},{place}", f"{computer}X")
        new = dn.replace(computer, f"{computer}X")
        moved = told.one("changed", new)
        assert moved.changes["FullPath"].old.lower() == dn.lower()
        assert moved.changes["FullPath"].new.lower() == new.lower()
        assert moved.changes["Pathname"].new.lower().startswith(f"{computer}x\\".removeprefix("CN=").lower())


def test_attributes_of_the_computer_belong_to_the_queue_manager(world: World):
    machine = world.machine()
    computer = machine.partition(",")[2]
    with watching(world.directory, mqdssm.QueueManager, mqdssm.Queue) as told:
        world.plain.modify(computer, "replace: dNSHostName\ndNSHostName: elsewhere.example.com")
        changed = told.one("changed", machine)
        assert changed.changes["QualifiedComputerName"].new == "elsewhere.example.com"


def test_links_follow_their_sites(world: World):
    sites = [world.directory.create(mqdssm.Site(name=f"S{_RUN}{next(_numbers)}")) for _ in range(2)]
    link = mqdssm.RoutingLink(site1_identifier=sites[0], site2_identifier=sites[1], actual_cost=5)
    with watching(world.directory, mqdssm.RoutingLink, mqdssm.Site) as told:
        guid = world.directory.create(link)
        created = told.wait(lambda one: [c for c in one.changes if c.guid == guid])[0]
        assert created.type == "routing-link"
        assert created.changes["ActualCost"] == (None, 5)
        assert {created.changes[f"Site{n}Identifier"].new for n in (1, 2)} == set(sites)
        world.plain.modify(created.dn, "replace: mSMQCost\nmSMQCost: 7")
        assert told.one("changed", created.dn).changes["ActualCost"] == (5, 7)


def test_one_watch_is_of_both_naming_contexts(world: World):
    machine, name = world.machine(), f"S{_RUN}{next(_numbers)}"
    with watching(world.directory) as told:
        guid = world.directory.create(mqdssm.Site(name=name))
        told.wait(lambda one: [c for c in one.changes if (c.event, c.guid) == ("created", guid)])
        told.one("created", world.queue(machine, "in the domain"))


def test_users_are_watched_while_they_have_certificates(world: World):
    dn, _ = world.kind.add_user(world.server, f"u{_RUN}{next(_numbers)}".lower())
    with watching(world.directory, mqdssm.User) as told:
        world.plain.modify(dn, "add: mSMQDigests\nmSMQDigests:: MDEyMzQ1Njc4OWFiY2RlZg==")
        created = told.one("created", dn)
        assert created.changes["CertificateDigestList"] == (None, (b"0123456789abcdef",))
        world.plain.modify(dn, "replace: mSMQDigests\nmSMQDigests:: YWJjZGVmMDEyMzQ1Njc4OQ==")
        assert told.one("changed", dn).changes["CertificateDigestList"] == (UNKNOWN, (b"abcdef0123456789",))
        world.plain.modify(dn, "delete: mSMQDigests")
        assert told.one("deleted", dn).guid == world.guid(dn)


def test_what_is_ignored_is_not_told(world: World):
    machine = world.machine()
    dn, other = world.queue(machine, "a"), world.queue(machine, "b")
    with watching(world.directory, mqdssm.Queue, ignore=["Label"]) as told:
        world.label(dn, "not told")
        world.plain.modify(
            other, "replace: mSMQLabelEx\nmSMQLabelEx: no\n-\nreplace: mSMQJournal\nmSMQJournal: TRUE"
        )
        changed = told.one("changed", other)
        assert set(changed.changes) - {"ModifyTime"} == {"Journaling"}
        assert told.count(dn) == 0


@pytest.mark.parametrize("ignore", ["Label", ["Lable"], ["label"]])
def test_what_cannot_be_ignored_is_refused(world: World, ignore: Any):
    with pytest.raises(ConfigError, match="ignore"):
        world.directory.watch(mqdssm.Queue, ignore=ignore)
    world.directory.watch(mqdssm.Queue, ignore=["Label", "ldap:mSMQMigrated"]).close()


def test_the_state_keeps_no_octets_and_is_for_its_owner_alone(world: World, tmp_path: Path):
    machine, state = world.machine(), tmp_path / "state"
    world.directory.session.modify(machine, {"mSMQEncryptKey": [b"PUBLIC-KEY-OF-THE-MACHINE"]})
    with watching(world.directory, mqdssm.QueueManager, state=state) as told:
        world.directory.session.modify(machine, {"mSMQEncryptKey": [b"ANOTHER-KEY"]})
        change = told.wait(lambda one: one.changes)[0].changes["PublicEncryptionKeyList"]
        assert change == (UNKNOWN, b"ANOTHER-KEY")
    for file in (state, tmp_path / "state.journal"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        text = file.read_text()
        assert "sha256" in text
        assert "KEY" not in text
        assert "UFVCTElDLUtFW" not in text  # the same as base64
        assert all(json.loads(line[line.index("{") :]) for line in text.splitlines())


def test_a_lost_place_leads_to_a_comparison_that_invents_nothing(world: World, tmp_path: Path):
    machine, state = world.machine(), tmp_path / "state"
    changed, deleted = world.queue(machine, "before"), world.queue(machine, "gone soon")
    with watching(world.directory, mqdssm.Queue, state=state):
        pass
    world.label(changed, "after")
    world.plain.delete(deleted)
    with edited(state) as known:
        known.server = "ldap://another.example.com"
    with watching(world.directory, mqdssm.Queue, state=state) as told:
        assert told.one("changed", changed).changes["Label"] == ("before", "after")
        told.one("deleted", deleted)
        assert len(told.changes) == 2


def test_a_server_that_was_set_back_is_compared(world: World, tmp_path: Path):
    """A place that is newer than the server: it was restored from a copy ([RFC4533] 3.3.2)."""
    machine, state = world.machine(), tmp_path / "state"
    changed, deleted = world.queue(machine, "before"), world.queue(machine, "gone soon")
    with watching(world.directory, mqdssm.Queue, state=state):
        pass
    world.label(changed, "after")
    world.plain.delete(deleted)
    with edited(state) as known:
        assert known.place is not None
        server, number, written = (*known.place.split(":"), "", "")[:3]
        newer = f"{server}:{int(number or 0) + 10**9}:{written}"
        known.place = newer if world.kind.name == "samba" else known.place.replace("csn=20", "csn=21")
    with watching(world.directory, mqdssm.Queue, state=state) as told:
        assert told.one("changed", changed).changes["Label"] == ("before", "after")
        told.one("deleted", deleted)
        assert len(told.changes) == 2
        world.label(changed, "and on")
        told.wait(lambda one: one.changes[-1].changes.get("Label") == ("after", "and on"))


@contextmanager
def edited(path: Path) -> Iterator[WatchState]:
    """The state in a file, to be changed."""
    file = StateFile(path)
    state = file.load()
    yield state
    file.save(state)
    file.close()


def test_a_state_of_other_objects_is_refused(world: World, tmp_path: Path):
    state = tmp_path / "state"
    in_use = pytest.raises(ConfigError, match="another watcher works with this state")
    with watching(world.directory, mqdssm.Site, state=state), in_use:
        world.directory.watch(mqdssm.Site, state=state)
    refused = pytest.raises(ConfigError, match="the state is of site, not of queue")
    with world.directory.watch(mqdssm.Queue, state=state) as watch, refused:
        next(watch)


def test_asynchronous_iteration(world: World):
    machine = world.machine()

    async def first() -> ObjectChange:
        with world.directory.watch(mqdssm.Queue) as watch:
            following = asyncio.ensure_future(anext(watch))
            await asyncio.to_thread(wait_until, lambda: watch.is_settled, 30)
            await asyncio.to_thread(world.queue, machine, "heard")
            return await asyncio.wait_for(following, 30)

    assert asyncio.run(first()).changes["Label"] == (None, "heard")


def test_a_directory_without_the_right_to_see_deletions_is_refused(samba_server):
    dn, password = KINDS["samba"].add_user(samba_server, f"u{_RUN}nobody".lower())
    user = f"{dn.partition(',')[0].removeprefix('CN=').removeprefix('cn=')}"
    with mqdssm.connect(
        samba_server.ldaps_url,
        user=f"{user}@{samba_server.realm.lower()}",
        password=password,
        ca_file=samba_server.ca_file,
    ) as directory:
        with (
            directory.watch() as watch,
            pytest.raises(GenericDirectoryError, match="may not see deleted") as said,
        ):
            next(watch)
        assert "dsacls" in said.value.hint
