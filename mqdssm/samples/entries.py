"""The LDAP entries of a sample enterprise, made by the adapter's own rules: no attribute is mapped here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from mqdssm.events.encode import SERVICE_NAMES, Values, service_type, values_of
from mqdssm.events.settings import MADE_BY_US
from mqdssm.events.signing import signing_values
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.names import PathName
from mqdssm.model.queuenames import rdn_of
from mqdssm.samples.elements import MachineRoles
from mqdssm.samples.plan import Plan
from mqdssm.tables import TABLES, compute, places
from mqdssm.tables.row import Access
from mqdssm.tables.settings import COPIED, LDAP_CLASS
from mqdssm.tables.syntax import GUID, SID

WORKSTATION_ACCOUNT = b"4096"  # userAccountControl, [MS-ADTS] 2.2.16
NORMAL_ACCOUNT = b"512"
STORED = Access.CREATE | Access.WRITE


@dataclass(slots=True)
class Entry:
    """One entry before it is written.

    Attributes:
        type: of the object, as on the command line; empty for what only holds others.
        dn: its name.
        ldap_class: its structural class.
        values: its attributes, apart from objectClass and the naming attribute.
    """

    type: str
    dn: DN
    ldap_class: str
    values: Values = field(default_factory=dict)

    @property
    def guid(self) -> UUID | None:
        """The objectGUID, if it has one."""
        raw = self.values.get("objectGUID")
        return UUID(bytes_le=raw[0]) if raw else None

    def pairs(self) -> Iterator[tuple[str, str | bytes]]:
        """The entry as LDIF has it."""
        yield "dn", str(self.dn)
        yield "objectClass", "top"
        yield "objectClass", self.ldap_class
        name, value = self.dn.rdn[0]
        yield name.lower(), value
        for attribute, raws in self.values.items():
            for raw in raws:
                yield attribute, raw


class Entries:
    """Makes entries of elements.

    Args:
        plan: the enterprise.
        operational: write when objects were changed, which only ``slapadd`` takes.
    """

    def __init__(self, plan: Plan, *, operational: bool) -> None:
        self._plan = plan
        self._operational = operational
        self._known = self._referred()

    def _referred(self) -> dict[UUID, str]:
        """The DNs of what others refer to: sites and their routing servers."""
        plan, root = self._plan, self._plan.root_dn
        known = {}
        for site in range(plan.sites):
            known[plan.guid("site", site)] = str(places.site_dn(root, plan.place(site).name))
            gate = plan.gate(site)
            known[plan.guid("machine", gate)] = str(places.queue_manager_dn(root, plan.machine_name(gate)))
        return known

    def refer(self, guid: UUID, dn: DN) -> None:
        """Make known where another object is that is referred to."""
        self._known[guid] = str(dn)

    def _dns_of(self, guids: Sequence[UUID], ldap_class: str) -> Mapping[UUID, str]:
        del ldap_class  # every GUID here is of one object
        return {guid: self._known[guid] for guid in guids if guid in self._known}

    def _values(self, obj: DirectoryObject) -> Values:
        """The attributes of an element's own entry, with those that no event writes."""
        table = TABLES[type(obj)]
        values = values_of(table, obj, obj.populated, STORED, self._dns_of)
        own: Values = {}
        if obj.identifier is not None:
            own["objectGUID"] = (GUID.dump(obj.identifier),)
        for adm, attribute in (("CreateTime", "whenCreated"), ("ModifyTime", "modifyTimestamp")):
            if adm in obj.populated and (attribute == "whenCreated" or self._operational):
                raw = table.row(adm).encode(getattr(obj, table.row(adm).field))
                # operational attributes are written without a fraction
                own[attribute] = raw if attribute == "whenCreated" else (raw[0].replace(b".0Z", b"Z"),)
        return own | {name: raws for name, raws in values.items() if raws}

    # -- elements

    def enterprise(self, obj: Enterprise) -> Entry:
        """CN=MsmqServices."""
        dn = places.enterprise_dn(self._plan.root_dn)
        return Entry("enterprise", dn, TABLES[Enterprise].ldap_class, self._values(obj))

    def site(self, obj: Site) -> Iterator[Entry]:
        """A site, and the container of its servers."""
        dn = places.site_dn(self._plan.root_dn, obj.name or "")
        yield Entry("site", dn, TABLES[Site].ldap_class, self._values(obj))
        yield self._container(places.servers_dn(self._plan.root_dn, dn.name), "serversContainer")

    def link(self, obj: RoutingLink) -> Entry:
        """A routing link."""
        name = compute.link_name(obj.site1_identifier or UUID(int=0), obj.site2_identifier or UUID(int=0))
        dn = places.link_dn(self._plan.root_dn, name)
        return Entry("routing-link", dn, TABLES[RoutingLink].ldap_class, self._values(obj))

    def user(self, obj: User, name: str) -> Entry:
        """A user."""
        values = {"sAMAccountName": (name.encode(),), "userAccountControl": (NORMAL_ACCOUNT,)}
        if obj.security_identifier is not None:
            values["objectSid"] = (SID.dump(obj.security_identifier),)
        dn = places.user_dn(self._plan.root_dn, name)
        return Entry("user", dn, TABLES[User].ldap_class, values | self._values(obj))

    def queue(self, obj: Queue) -> Entry:
        """A queue."""
        path = PathName.parse(obj.pathname or "")
        name = rdn_of(path.queue)
        values = self._values(obj)
        if name.extension is not None:
            values["mSMQQueueNameExt"] = (name.extension.encode(),)
        computer = path.computer.upper()  # as the plan writes all machines, and slapd all that is below
        dn = places.queue_manager_dn(self._plan.root_dn, computer).child("CN", name.cn)
        return Entry("queue", dn, TABLES[Queue].ldap_class, values)

    # -- machines

    def machine(self, made: MachineRoles) -> tuple[Entry, Entry]:
        """The computer and the queue manager of a machine."""
        computer = self._computer(made)
        manager = made.manager
        values = self._values(manager)
        values["mSMQServiceType"] = service_type(manager, frozenset(SERVICE_NAMES) & manager.populated, {})
        dn = places.queue_manager_of(computer.dn)
        return computer, Entry("queue-manager", dn, TABLES[QueueManager].ldap_class, values)

    def _computer(self, made: MachineRoles) -> Entry:
        plan, name = self._plan, made.manager.computer_name or ""
        host = f"{name.lower()}.{plan.domain}"
        values: Values = {
            "objectGUID": (GUID.dump(plan.guid("computer", made.number)),),
            "objectSid": (bytes(plan.computer_sid(made.number)),),
            "sAMAccountName": (f"{name}$".encode(),),
            "userAccountControl": (WORKSTATION_ACCOUNT,),
            "dNSHostName": (host.encode(),),
            "servicePrincipalName": (f"HOST/{name}".encode(), f"HOST/{host}".encode()),
            "operatingSystem": (made.system.name.encode(),),
            "operatingSystemVersion": (made.system.version.encode(),),
        }
        values |= {
            k: raws for k, raws in signing_values(made.manager.public_signing_key_list).items() if raws
        }
        return Entry("computer", places.computer_dn(plan.root_dn, name), "computer", values)

    def settings(self, made: MachineRoles, manager: Entry, site: str) -> tuple[Entry, Entry]:
        """The server object and the mSMQSettings of a machine in a site ([MS-MQDSSM] 3.1.6.1.1.3)."""
        plan, name = self._plan, made.manager.computer_name or ""
        server = self._container(places.server_dn(plan.root_dn, site, name), "server")
        values: Values = {"objectGUID": (GUID.dump(plan.guid("settings", made.number, site)),)}
        for copied in COPIED:
            if raws := manager.values.get(copied.configuration):
                values[copied.settings] = raws
        return server, Entry("settings", places.settings_dn(plan.root_dn, site, name), LDAP_CLASS, values)

    def _container(self, dn: DN, ldap_class: str) -> Entry:
        values: Values = {
            "objectGUID": (GUID.dump(self._plan.guid("container", dn)),),
            "description": (MADE_BY_US.encode(),),
        }
        return Entry("", dn, ldap_class, values)
