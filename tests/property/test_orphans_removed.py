"""What random accidents leave behind is found, removed and brought back; everything else stays as it is."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.directory.element_strategies import TEXTS, UNSIGNED
from support.mqis.applied_plans import undo
from support.orphans.planted_orphans import OrphanWorld

import mqdssm
from mqdssm.model.dn import DN, normalize
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.server, pytest.mark.slow]
MACHINES = ("alpha", "beta", "gamma")
SITES = ("Oslo", "Rome", "Wien")
QUEUES = ("orders", "a=b.c_$", "q" * 80)
LINKS = ((0, 1), (0, 2), (1, 2))

QUEUE_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "label": TEXTS,
        "quota": UNSIGNED,
        "journaling": st.booleans(),
        "transactional": st.booleans(),
        "base_priority": st.integers(-32768, 32767),
        "type": st.uuids(),
        "multicast_address": st.just("234.1.2.3:8001"),
    },
)
MANAGER_VALUES = st.fixed_dictionaries(
    {"routing_server": st.booleans()}, optional={"queue_manager_quota": UNSIGNED, "journal_quota": UNSIGNED}
)
ACCIDENTS = st.lists(
    st.tuples(st.just("move the queue manager"), st.sampled_from(MACHINES))
    | st.tuples(st.just("delete the queue manager"), st.sampled_from(MACHINES))
    | st.tuples(st.just("move a queue"), st.sampled_from(MACHINES))
    | st.tuples(st.just("delete the site"), st.sampled_from(SITES)),
    max_size=5,
    unique_by=lambda accident: accident[1],
)


class Enterprise(OrphanWorld):
    """Three machines and three sites with random values, and what accidents make of them."""

    roles: dict[str, bool]
    expected: dict[str, str]

    def build(self, draw: Any) -> None:
        self.roles, self.expected = {}, {}
        self.sites = [self.directory.create(mqdssm.Site(name=name)) for name in SITES]
        for name, site in zip(MACHINES, self.sites, strict=True):
            self.server.add_computer(name)
            values = draw(MANAGER_VALUES, name)
            self.roles[name] = values["routing_server"]
            self.directory.create(
                mqdssm.QueueManager(computer_name=name, site_identifier_list=[site], **values)
            )
            for queue in QUEUES:
                self.directory.create(
                    mqdssm.Queue(pathname=f"{name}\\{queue}", **draw(QUEUE_VALUES, f"{name}\\{queue}"))
                )
        for one, two in LINKS:
            link = {"site1_identifier": self.sites[one], "site2_identifier": self.sites[two]}
            self.directory.create(mqdssm.RoutingLink(**link, actual_cost=1))

    def suffer(self, accident: str, name: str) -> None:
        """Let an accident happen, and write down what becomes an orphan by it."""
        session = self.directory.session
        manager = DN.parse(f"CN=msmq,CN={name},CN=Computers,{self.root}")
        match accident:
            case "move the queue manager":
                place = self.container(f"old {name}")
                session.rename(manager, "CN=msmq", str(place))
                self._lose_manager(place.child("CN", "msmq"), name)
            case "delete the queue manager":
                for dn in self.queues_below(manager):
                    session.delete(dn)
                session.delete(manager)
                self._lose_settings(name)
            case "move a queue":
                place = self.container(f"odd {name}")
                moved = self.queues_below(manager)[0]
                rdn = moved.partition(",")[0]
                session.rename(moved, rdn, str(place))
                self.expected[normalize(f"{rdn},{place}")] = "queue-without-queue-manager"
            case "delete the site":
                self._delete_site(name)

    def _lose_manager(self, dn: DN, name: str) -> None:
        self.expected[normalize(str(dn))] = "queue-manager-without-computer"
        for queue in self.queues_below(dn):
            self.expected[normalize(queue)] = "queue-of-orphan"
        self._lose_settings(name)

    def _lose_settings(self, name: str) -> None:
        if self.roles[name]:
            dn = normalize(str(self.settings_dn(SITES[MACHINES.index(name)], name)))
            if dn in self.entries():
                self.expected[dn] = "settings-without-queue-manager"

    def _delete_site(self, name: str) -> None:
        """Delete a site with all below it: of its links only the other end is left."""
        below = sorted((dn for dn in self.entries() if f"cn={name.lower()},cn=sites," in dn), key=len)
        for dn in reversed(below):
            self.directory.session.delete(dn)
            self.expected.pop(dn, None)
        number = SITES.index(name)
        for one, two in LINKS:
            if number in {one, two}:
                self.expected[self.link_between(self.sites[one], self.sites[two])] = "link-without-site"

    def link_between(self, one: UUID, two: UUID) -> str:
        return normalize(f"CN={one.hex}{two.hex},{self.enterprise}")

    def queues_below(self, manager: DN) -> list[str]:
        return sorted(dn for dn in self.entries() if dn.endswith(f",{manager.normalized}"))

    def clear(self, kept: set[str]) -> None:
        """Delete everything that was not there at the beginning, the lowest first."""
        for dn in sorted(self.entries().keys() - kept, key=len, reverse=True):
            self.directory.session.delete(dn)


@pytest.fixture(scope="module")
def world() -> Iterator[Enterprise]:
    with OpenLdapServer(durable=False) as server:
        login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        with mqdssm.connect(server.ldapi_url, **login) as directory:
            yield Enterprise(server, server.ldapi_url, directory)


@settings(phases=[Phase.generate], max_examples=12)
@given(st.data())
def test_only_what_accidents_left_behind_is_removed(world: Enterprise, data: st.DataObject) -> None:
    kept = set(world.entries())
    try:
        world.build(data.draw)
        with TemporaryDirectory() as folder:
            plan = Path(folder) / "plan"
            assert world.find(plan).plan is None  # nothing happened yet
            for accident in data.draw(ACCIDENTS, "accidents"):
                world.suffer(*accident)
            before = world.entries()
            removable = {dn: (rule, True) for dn, rule in world.expected.items()}
            found = {dn: kind for dn, kind in world.listed().items() if kind[0] != "stale-reference"}
            assert found == removable
            result = world.find(plan)
            assert (result.plan is None) == (not removable)
            if result.plan is not None:
                report = world.apply(plan, len(removable))
                assert report.is_fine, report
                assert not world.find().listing.removable
                after = world.entries()
                assert before.keys() - after.keys() == removable.keys()
                assert after == {dn: before[dn] for dn in after}
                undo(world.server, plan)
            assert world.entries() == before
    finally:
        world.clear(kept)
