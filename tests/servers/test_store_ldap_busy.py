"""What follows from changes of the replication store, where server or store stops while it is done."""

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
from support.store.fixtures import by_socket, cutter, server
from support.store.slapd_store import Cutter, LdapHarness
from support.store.world import OK, World, guid

from mqdssm.directory.filters import Equal
from mqdssm.directory.loading.items import Action
from mqdssm.directory.loading.loader import Loader
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.responses import LdapResult
from mqdssm.directory.session import Session
from mqdssm.engines.replication import operations as ops
from mqdssm.errors import DirectoryError
from mqdssm.model.dn import DN
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.store.ldap.places import DirectoryPlaces
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.testing.openldap import OpenLdapServer

__all__ = ["cutter", "server"]

UNAVAILABLE: Final = 52
CONSTRAINT: Final = 19


@pytest.fixture
def world(server: OpenLdapServer, cutter: Cutter) -> Iterator[World]:
    harness = LdapHarness(by_socket(server), cutter)
    yield World(harness)
    harness.store.close()


class Refusing:
    """Answers the next changes of one entry in the server's place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dn: str, code: int) -> None:
        self.left = 1
        original = Loader.send

        def send(
            loader: Loader, requests: Iterable[ChangeInFlight]
        ) -> Iterator[tuple[ChangeInFlight, LdapResult]]:
            for one in requests:
                if self.left and one.item.action is Action.MODIFY and one.item.dn == dn:
                    self.left -= 1
                    yield one, LdapResult(code)
                else:
                    yield from original(loader, [one])

        monkeypatch.setattr(Loader, "send", send)


def link_of(session: Session, which: Guid) -> Any:
    """The entry of a routing link."""
    places = DirectoryPlaces(session)
    (found,) = StoreSearches(session, places).find(Equal("objectGUID", bytes(which)))
    return found


def waiting_link(world: World, site: Guid, at: int) -> Guid:
    """A routing link that names a site which is not there yet."""
    link = guid()
    properties: Properties = (
        (Propid.L_NEIGHBOR1, site),
        (Propid.L_NEIGHBOR2, guid()),
        (Propid.L_COST, 7),
    )
    assert world.apply(world.sync(link, at, properties, PEC_PARTITION_ID)).status == OK
    return link


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.8")
def test_names_that_follow_are_written_when_the_server_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is being stopped refuses: the change is repeated, else a reference is wrong for good."""
    session = world.harness.session  # type: ignore[attr-defined]
    site, at = guid(), 1000 * int(time.time())
    link = waiting_link(world, site, at)
    dn = link_of(session, link).dn
    Refusing(monkeypatch, dn, UNAVAILABLE)
    properties: Properties = ((Propid.S_PATHNAME, world.name("rome")), (Propid.S_PSC, "A"))
    change = world.sync(site, at + 1, properties, PEC_PARTITION_ID)
    with pytest.raises(DirectoryError):
        world.apply(change)
    assert world.apply(change) == ops.Applied(count=1, status=OK)
    named = DN.parse(link_of(session, link).first("mSMQSite1").decode())
    assert named.parent != DirectoryPlaces(session).missing
    assert named.name == world.name("rome")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.8")
def test_what_one_entry_refuses_stops_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = world.harness.session  # type: ignore[attr-defined]
    site, at = guid(), 1000 * int(time.time()) + 500
    link = waiting_link(world, site, at)
    refusing = Refusing(monkeypatch, link_of(session, link).dn, CONSTRAINT)
    properties: Properties = ((Propid.S_PATHNAME, world.name("oslo")), (Propid.S_PSC, "A"))
    change = world.sync(site, at + 1, properties, PEC_PARTITION_ID)
    assert world.apply(change) == ops.Applied(count=1, status=OK)
    assert not refusing.left


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.8")
def test_an_object_that_a_batch_creates_again_waits_for_its_deletion(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two entries have its GUID: the server refuses the second one, or a crash leaves both."""
    codes, original = [], Loader.send

    def send(
        loader: Loader, requests: Iterable[ChangeInFlight]
    ) -> Iterator[tuple[ChangeInFlight, LdapResult]]:
        for request, result in original(loader, requests):
            codes.append(result.code)
            yield request, result

    machine = guid()
    world.apply(world.sync(machine, 1, world.machine(machine)))
    monkeypatch.setattr(Loader, "send", send)
    changes = (world.deletion(machine, 2), world.sync(machine, 3, world.machine(machine, "new")))
    assert world.apply(*changes) == ops.Applied(count=2, status=OK)
    assert set(codes) == {0}


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.parametrize("point", range(8))
def test_names_that_follow_are_written_at_the_next_start(world: World, point: int) -> None:
    """An authority does not repeat a client's change after a crash (decisions R54, R69)."""
    site, at = guid(), 1000 * int(time.time()) + 20 * point
    link = waiting_link(world, site, at)
    properties: Properties = (
        (Propid.S_SITEID, site),
        (Propid.S_PATHNAME, world.name("bern")),
        (Propid.S_PSC, "A"),
    )
    world.harness.arm(point)
    try:
        world.create(properties, at=at + 1, partition_id=PEC_PARTITION_ID)
    except DirectoryError:
        world.harness.disarm()
        world.harness.reopen()
        world.recover(PEC_PARTITION_ID)
    world.harness.disarm()
    session = world.harness.session  # type: ignore[attr-defined]
    named = DN.parse(link_of(session, link).first("mSMQSite1").decode())
    there = world.read(site, ObjectType.SITE).status == OK
    assert (named.parent != DirectoryPlaces(session).missing) is there
