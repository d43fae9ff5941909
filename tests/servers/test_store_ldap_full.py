"""Changes of the replication store that fail behind their write: the directory is full (decision R103)."""

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from support.store.fixtures import by_socket, cutter, server
from support.store.slapd_store import Cutter, LdapHarness
from support.store.world import NOT_FOUND, OK, World, guid, number

from mqdssm.directory.filters import Equal
from mqdssm.directory.session import Session
from mqdssm.engines.replication import operations as ops
from mqdssm.errors import GenericDirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition
from mqdssm.store.ldap import LdapStore
from mqdssm.store.ldap.places import DirectoryPlaces
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.testing.openldap import OpenLdapServer

__all__ = ["cutter", "server"]

FULL: Final = Hresult.MQ_ERROR_DS_IS_FULL


def recovered(world: World, partition_id: Guid | None = None) -> ops.Recovered:
    found = world.perform(ops.Recover(partition_id=partition_id or world.site))
    assert isinstance(found, ops.Recovered)
    return found


def own(world: World, partition_id: Guid | None = None) -> None:
    """Be the authority of a partition."""
    partition = DirectoryPartition(
        partition_id=partition_id or world.site, authority_name="PSC", owned=True, last=number(0)
    )
    world.perform(ops.SavePartition(partition=partition))


SIZES: Final = (10, 100, 1500, 3000)
"""Lengths of labels: entries of many sizes leave gaps of many sizes."""


class Filler:
    """Changes queues until there is no room."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queues: list[Guid] = []
        self._chance = random.Random(1)
        self._made = 0

    def fill(self) -> None:
        """Create queues until four in a row find no room."""
        refused = 0
        while refused < 4:
            assert self._made < 3000
            refused = 0 if self._create() else refused + 1

    def delete_until_refused(self) -> Guid:
        """Change things until a tombstone is written and its queue cannot be removed; which one."""
        for _ in range(1000):
            what = self._chance.random()
            queue = self._chance.choice(self.queues)
            if what < 0.35:
                self._create()
            elif what < 0.7:
                if self._is_cut_short(queue):
                    return queue
            else:
                self._took(
                    self.world.update(
                        queue, ((Propid.Q_LABEL, "y" * self._chance.choice((10, 2000))),), at=self._next
                    )
                )
        raise AssertionError("no deletion was cut short")

    @property
    def _next(self) -> int:
        return self.world.last + 1

    def _create(self) -> bool:
        self._made += 1
        made, label = guid(), "x" * self._chance.choice(SIZES)
        properties = self.world.queue(made, rf"web\q{self._made}", LABEL=label)
        if not self._took(self.world.create(properties, at=self._next)):
            return False
        self.queues.append(made)
        return True

    def _is_cut_short(self, queue: Guid) -> bool:
        if self._took(self.world.delete(queue, at=self._next)):
            self.queues.remove(queue)
            return False
        return recovered(self.world).highest > self.world.last

    def _took(self, outcome: ops.ObjectOutcome) -> bool:
        assert outcome.status in {OK, FULL}
        self.world.last += outcome.status == OK
        return outcome.status == OK


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_deletion_that_finds_no_room_is_finished_when_there_is_some(tmp_path: Path) -> None:
    with OpenLdapServer(tmp_path, durable=False, replication=True, database_bytes_max=1_000_000) as small:
        store = LdapStore.open(by_socket(small))
        world = World(SimpleNamespace(store=store))  # type: ignore[arg-type]
        own(world)
        machine = guid()
        assert world.create(world.machine(machine)).status == OK
        filler = Filler(world)
        filler.fill()
        queue = filler.delete_until_refused()
        assert recovered(world) == ops.Recovered(highest=number(world.last + 1), status=FULL)
        assert world.read(queue).status == OK
        store.close()
    with OpenLdapServer(tmp_path, durable=False, replication=True) as large:
        store = LdapStore.open(by_socket(large))
        world.harness.store = store
        assert recovered(world) == ops.Recovered(highest=number(world.last + 1), status=OK)
        assert world.read(queue).status == NOT_FOUND
        store.close()


@pytest.fixture
def world(server: OpenLdapServer, cutter: Cutter) -> Iterator[World]:
    harness = LdapHarness(by_socket(server), cutter)
    yield World(harness)
    harness.store.close()


def no_room(*_arguments: object, **_named: object) -> Any:
    """What slapd says of a write that needs a page more."""
    raise GenericDirectoryError("refused", ldap_code=80, server_text="internal error: MDB_MAP_FULL")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
def test_a_renaming_that_finds_no_room_is_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    own(world)
    queue = guid()
    assert world.create(world.machine(guid())).status == OK
    assert world.create(world.queue(queue, r"web\old")).status == OK
    with monkeypatch.context() as full:
        full.setattr(Session, "rename", no_room)
        assert world.update(queue, ((Propid.Q_PATHNAME, world.name(r"web\new")),)).status == FULL
        assert recovered(world) == ops.Recovered(highest=number(3), status=FULL)
    assert recovered(world) == ops.Recovered(highest=number(3), status=OK)
    session = world.harness.session  # type: ignore[attr-defined]
    (entry,) = StoreSearches(session, DirectoryPlaces(session)).find(Equal("objectGUID", bytes(queue)))
    assert entry.dn.lower().startswith("cn=new,")
    assert recovered(world).status == OK


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
def test_a_renaming_that_is_refused_for_good_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry keeps its name, which no property shows; the next start does not wait for it."""
    own(world)
    queue = guid()
    assert world.create(world.machine(guid())).status == OK
    assert world.create(world.queue(queue, r"web\old")).status == OK

    def refuse(*_arguments: object, **_named: object) -> None:
        raise GenericDirectoryError("refused", ldap_code=64, server_text="naming violation")

    monkeypatch.setattr(Session, "rename", refuse)
    assert world.update(queue, ((Propid.Q_PATHNAME, world.name(r"web\new")),)).status == OK
    assert world.values(queue)[Propid.Q_PATHNAME] == world.name(r"web\new")
    world.harness.reopen()
    assert recovered(world) == ops.Recovered(highest=number(3), status=OK)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_names_that_follow_are_written_when_there_is_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site is there and has its number; a link that waits for it still has a stand-in for it."""
    own(world, PEC_PARTITION_ID)
    at = int(world.recover(PEC_PARTITION_ID))
    site, link = guid(), guid()
    ends = ((Propid.L_ID, link), (Propid.L_NEIGHBOR1, site), (Propid.L_NEIGHBOR2, guid()), (Propid.L_COST, 7))
    named = ((Propid.S_SITEID, site), (Propid.S_PATHNAME, world.name("bern")), (Propid.S_PSC, "A"))
    assert world.create(ends, at=at + 1, partition_id=PEC_PARTITION_ID).status == OK
    with monkeypatch.context() as full:
        full.setattr("mqdssm.store.ldap.references._rewrite", no_room)
        assert world.create(named, at=at + 2, partition_id=PEC_PARTITION_ID).status == FULL
        assert world.read(site, ObjectType.SITE).status == OK
        assert recovered(world, PEC_PARTITION_ID).status == FULL
    assert recovered(world, PEC_PARTITION_ID) == ops.Recovered(highest=number(at + 2), status=OK)
    session = world.harness.session  # type: ignore[attr-defined]
    (entry,) = StoreSearches(session, DirectoryPlaces(session)).find(Equal("objectGUID", bytes(link)))
    assert world.name("bern").encode() in (entry.first("mSMQSite1") or b"")
