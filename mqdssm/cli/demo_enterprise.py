"""The small enterprise of ``mqdssm demo``: what is in it, and how it gets into the directory."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject
    from mqdssm.testing.openldap import OpenLdapServer

SITES: Final = ("Berlin", "Paris", "Oslo")
LINKS: Final = (("Berlin", "Paris", 5), ("Paris", "Oslo", 9), ("Berlin", "Oslo", 20))
MACHINES_A_SITE: Final = (("Berlin", 8), ("Paris", 7), ("Oslo", 5))
QUEUES_A_MACHINE: Final = 10
USERS: Final = ("ann", "ben", "cleo")
PURPOSES: Final = (
    "orders",
    "invoices",
    "shipping",
    "returns",
    "audit",
    "mail",
    "stock",
    "prices",
    "jobs",
    "log",
)
ENTERPRISE_SDDL: Final = "O:BAG:BAD:(A;;0x3000f;;;BA)(A;;0x20009;;;WD)"
# the administrator of a private server has no SID, so that what he creates would have no owner (decision M41)
OWNED_SDDL: Final = {
    "Site": "O:BAG:BAD:(A;;0x20020;;;WD)(A;;0xf0037;;;BA)",
    "QueueManager": "O:BAG:BAD:(A;;0x20020;;;WD)(A;;0xf00f7;;;BA)",
    "Queue": "O:BAG:BAD:(A;;0x20024;;;WD)(A;;0xf003f;;;BA)",
}
ALIAS_TARGET: Final = r"DIRECT=OS:legacy.example.org\private$\orders"


@dataclass(slots=True)
class Made:
    """What was made: names, and the GUIDs that the directory gave.

    Attributes:
        sites: by name.
        links: by the names of their sites.
        managers: by computer.
        gates: the routing server of each site, by site.
        queues: by path name.
        objects: what was handed to create, by GUID.
    """

    sites: dict[str, UUID] = field(default_factory=dict)
    links: dict[tuple[str, str], UUID] = field(default_factory=dict)
    managers: dict[str, UUID] = field(default_factory=dict)
    gates: dict[str, UUID] = field(default_factory=dict)
    queues: dict[str, UUID] = field(default_factory=dict)
    objects: "dict[UUID, DirectoryObject]" = field(default_factory=dict)

    def create(self, directory: "Directory", obj: "DirectoryObject") -> UUID:
        """Create an object, and remember what it was to be."""
        sddl = OWNED_SDDL.get(obj.element_name)
        if sddl is not None:
            from mqdssm.wire.dtyp import SecurityDescriptor

            setattr(obj, obj.field_name("Security"), bytes(SecurityDescriptor.from_sddl(sddl)))
        identifier = directory.create(obj)
        self.objects[identifier] = obj
        return identifier


def computers() -> Iterator[tuple[str, str]]:
    """Computer and its site; the first of each site will be its routing server."""
    for site, count in MACHINES_A_SITE:
        for number in range(1, count + 1):
            yield f"{site.lower()}{number:02}", site


def add_accounts(server: "OpenLdapServer") -> tuple[int, int]:
    """Add computers and users by plain LDAP adds, as other programs do; gives how many."""
    names = [name for name, _ in computers()]
    for name in names:
        server.add_computer(name)
    for user in USERS:
        server.add_user(user)
    return len(names), len(USERS)


def create_sites(directory: "Directory", made: Made) -> None:
    """Create sites and the links between them."""
    import mqdssm

    for name in SITES:
        made.sites[name] = made.create(directory, mqdssm.Site(name=name))
    for first, second, cost in LINKS:
        link = mqdssm.RoutingLink(
            site1_identifier=made.sites[first],
            site2_identifier=made.sites[second],
            actual_cost=cost,
            description=f"{first} - {second}",
        )
        made.links[first, second] = made.create(directory, link)


def create_managers(directory: "Directory", made: Made) -> None:
    """Create a queue manager on each computer: a routing server in each site, which the others use."""
    import mqdssm

    for name, site in computers():
        gate = made.gates.get(site)
        manager = mqdssm.QueueManager(
            computer_name=name,
            site_identifier_list=(made.sites[site],),
            operating_system_type=mqdssm.OperatingSystemType.WIN_SERVER,
            routing_server=gate is None,
            in_routing_server_identifier_list=() if gate is None else (gate,),
            out_routing_server_identifier_list=() if gate is None else (gate,),
        )
        made.managers[name] = made.create(directory, manager)
        made.gates.setdefault(site, made.managers[name])


def set_gates(directory: "Directory", made: Made) -> None:
    """Let the routing servers of both sites be the gates of each link."""
    import mqdssm

    for (first, second), identifier in made.links.items():
        gates = (made.gates[first], made.gates[second])
        link = mqdssm.RoutingLink(identifier=identifier, site_gate_identifier_list=gates)
        directory.write(link, attributes=["SiteGateIdentifierList"])


def create_queues(directory: "Directory", made: Made) -> int:
    """Create the queues, each a little different; gives how many."""
    import mqdssm

    levels = list(mqdssm.PrivacyLevel)
    for machine, _ in computers():
        for number, purpose in enumerate(PURPOSES[:QUEUES_A_MACHINE]):
            queue = mqdssm.Queue(
                pathname=rf"{machine}\{purpose}",
                label=f"{purpose.title()} of {machine}",
                quota=1000 * (number + 1),
                transactional=number % 2 == 0,
                journaling=number % 3 == 0,
                privacy_level=levels[number % len(levels)],
                base_priority=number - 5,
                type=uuid.uuid5(uuid.NAMESPACE_DNS, purpose),
            )
            made.queues[str(queue.pathname)] = made.create(directory, queue)
    return len(made.queues)


def compared(directory: "Directory", made: Made) -> str:
    """Compare what was created with what is read, attribute by attribute; gives the outcome in words."""
    kinds = dict.fromkeys(type(obj) for obj in made.objects.values())
    read = {found.identifier: found for kind in kinds for found in directory.search(kind)}
    lost, different, attributes = 0, 0, 0
    for identifier, wanted in made.objects.items():
        found = read.get(identifier)
        if found is None:
            lost += 1
            continue
        # of a queue manager's descriptor only the owner counts ([MS-MQDSSM] 3.1.6.1.1.8)
        computed = {"Security"} if wanted.element_name == "QueueManager" else set()
        fields = [wanted.field_name(name) for name in wanted.populated if name not in computed]
        attributes += len(fields)
        different += sum(getattr(found, name) != getattr(wanted, name) for name in fields)
    count = len(made.objects)
    return f"{count} created, {count - lost} read, {lost} lost; of {attributes} attributes {different} differ"


def add_lists(directory: "Directory", made: Made) -> tuple[str, UUID]:
    """Add an alias and distribution lists by plain LDAP adds; gives the alias's DN and the list's GUID."""
    from mqdssm.model.dn import DN
    from mqdssm.tables.alias import ALIAS_CLASS, ALIAS_FORMAT_NAME
    from mqdssm.tables.places import queue_dn, user_dn

    session = directory.session
    root = session.naming.root
    alias, everybody, north = (
        user_dn(root, name) for name in ("Legacy orders", "All orders", "Northern orders")
    )
    session.add(
        alias,
        {
            "objectClass": (b"top", ALIAS_CLASS.encode()),
            "objectGUID": (uuid.uuid4().bytes_le,),
            ALIAS_FORMAT_NAME: (ALIAS_TARGET.encode(),),
        },
    )

    def group(dn: DN, members: Sequence[DN]) -> UUID:
        identifier = uuid.uuid4()
        session.add(
            dn,
            {
                "objectClass": (b"top", b"group"),
                "objectGUID": (identifier.bytes_le,),
                "member": tuple(str(member).encode() for member in members),
            },
        )
        return identifier

    orders = {path.partition("\\")[0]: path for path in made.queues if path.endswith("orders")}
    queues = {machine: queue_dn(root, machine, "orders") for machine in orders}
    # the list within the list contains the outer one again: a cycle
    group(north, [queues["oslo01"], queues["oslo02"], everybody])
    identifier = group(everybody, [queues["berlin01"], queues["paris01"], alias, north])
    return str(alias), identifier
