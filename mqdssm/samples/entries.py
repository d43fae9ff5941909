"""LDAP entries of a sample enterprise, made by the adapter's entry builder.

No attribute is mapped in this module.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from mqdssm.events.entry_builder import EntryBuilder, EntryTarget, make_dns_lookup
from mqdssm.events.new_entry import NewEntry
from mqdssm.model.dn import DN
from mqdssm.model.elements import Enterprise, Queue, RoutingLink, Site, User
from mqdssm.model.names import PathName
from mqdssm.samples import elements
from mqdssm.samples.elements import MachineRoles
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.tables import places
from mqdssm.tables.ldif import list_base_tree_entries


class SampleEntries:
    """Builder of the entries of elements.

    Args:
        plan: the enterprise.
        operational: write the times of changes, which only ``slapadd`` accepts.
    """

    def __init__(self, plan: EnterprisePlan, *, operational: bool) -> None:
        self._plan = plan
        self._dns = self._dns_of_referenced()
        target = EntryTarget.named("openldap", plan.root_dn)
        # elements without a descriptor lack it on purpose
        self._maker = EntryBuilder(
            target, make_dns_lookup(self._dns), operational=operational, complete=False
        )

    def _dns_of_referenced(self) -> dict[UUID, str]:
        """Return the DNs of referenced objects: sites and their routing servers."""
        plan, root = self._plan, self._plan.root_dn
        dns = {}
        for site in range(plan.sites):
            dns[plan.compute_guid("site", site)] = str(places.site_dn(root, plan.name_site(site).name))
            gate = plan.find_gate(site)
            dns[plan.compute_guid("machine", gate)] = str(
                places.queue_manager_dn(root, plan.name_machine(gate))
            )
        return dns

    def refer(self, guid: UUID, dn: DN) -> None:
        """Add the DN of another referenced object."""
        self._dns[guid] = str(dn)

    # -- elements

    def make_enterprise(self, obj: Enterprise) -> NewEntry:
        """Make the entry of ``CN=MsmqServices``."""
        return self._maker.enterprise(obj)

    def make_site(self, obj: Site) -> Iterator[NewEntry]:
        """Make the entries of a site and of the container of its servers."""
        site_entry = self._maker.site(obj)
        yield site_entry
        servers = places.servers_dn(self._plan.root_dn, site_entry.dn.name)
        yield self._maker.servers(site_entry.dn.name, self._plan.compute_guid("container", servers))

    def make_link(self, obj: RoutingLink) -> NewEntry:
        """Make the entry of a routing link."""
        return self._maker.link(obj)

    def make_user(self, obj: User, name: str) -> NewEntry:
        """Make the entry of a user."""
        return self._maker.user(obj, name)

    def make_queue(self, obj: Queue) -> NewEntry:
        """Make the entry of a queue."""
        # upper case, as in the machine names of the plan, and in slapd's DNs below them
        computer = PathName.parse_stored(obj.pathname or "").computer.upper()
        return self._maker.queue(obj, places.computer_dn(self._plan.root_dn, computer))

    # -- machines

    def make_machine(self, machine: MachineRoles) -> tuple[NewEntry, NewEntry]:
        """Make the entries of the computer and the queue manager of a machine."""
        computer = self._make_computer(machine)
        return computer, self._maker.queue_manager(machine.manager, computer.dn)

    def _make_computer(self, machine: MachineRoles) -> NewEntry:
        plan, name = self._plan, machine.manager.computer_name or ""
        guid, sid = plan.compute_guid("computer", machine.number), plan.make_computer_sid(machine.number)
        computer = self._maker.computer(name, plan.domain, guid=guid, sid=sid)
        computer.values |= {
            "operatingSystem": (machine.system.name.encode(),),
            "operatingSystemVersion": (machine.system.version.encode(),),
        }
        computer.values |= self._maker.computer_keys(machine.manager)
        return computer

    def make_settings(self, machine: MachineRoles, manager: NewEntry, site: str) -> tuple[NewEntry, NewEntry]:
        """Make the server object and the mSMQSettings of a machine in a site.

        See [MS-MQDSSM] 3.1.6.1.1.3.
        """
        plan, name = self._plan, machine.manager.computer_name or ""
        server = places.server_dn(plan.root_dn, site, name)
        guid = plan.compute_guid("settings", machine.number, site)
        original = machine.manager.identifier or UUID(int=0)
        return (
            self._maker.server(site, name, plan.compute_guid("container", server)),
            self._maker.settings(manager, site, original, guid),
        )


BASE_TREE: Final = "base-tree.ldif"
OBJECTS: Final = "objects.ldif"


def build_base_tree(
    plan: EnterprisePlan, enterprises: Iterable[NewEntry]
) -> Iterator[Iterable[tuple[str, str | bytes]]]:
    """Yield the tree that holds the objects; the last entry is the enterprise.

    Entries are yielded as pairs.

    Args:
        plan: the enterprise.
        enterprises: the entry of its enterprise object; two entries if that is the defect.
    """
    top, *containers, _ = list_base_tree_entries(plan.root)
    yield [*top, ("objectSid", bytes(plan.domain_sid))]
    yield from containers
    for entry in enterprises:
        yield entry.list_pairs()


def make_objects(plan: EnterprisePlan, entries: SampleEntries) -> Iterator[NewEntry]:
    """Make all objects except the enterprise, parents first; each one on demand."""
    for number in range(plan.sites):
        yield from entries.make_site(elements.make_site(plan, number))
    for number in range(plan.users):
        yield entries.make_user(elements.make_user(plan, number), elements.make_user_name(plan, number))
    for number in range(plan.machines):
        machine = elements.make_machine(plan, number)
        computer, manager = entries.make_machine(machine)
        yield from (computer, manager)
        if machine.role.has_settings:
            for site in plan.sites_of(number):
                yield from entries.make_settings(machine, manager, plan.name_site(site).name)
        yield from map(entries.make_queue, Queues(plan, number))
    for first, second in plan.list_links():
        yield entries.make_link(elements.make_link(plan, first, second))
