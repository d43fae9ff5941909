"""Builder of LDAP entries from elements.

Create ([MS-MQDSSM] 3.1.6.1), the migration, the Spark writer, samples and comparisons make entries here,
without asking a server: an object that was made is the one that create makes. What others refer to is found
by a callable that the caller gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID, uuid5

from mqdssm.directory.entries import Entry
from mqdssm.directory.profile import Profile
from mqdssm.directory.profiles import PROFILES
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError, GenericDirectoryError
from mqdssm.events import security
from mqdssm.events.encode import (
    DESCRIPTOR,
    SERVICE_NAMES,
    DnsOf,
    Values,
    build_signing_values,
    compute_service_type,
    service_type_of,
    translate_values,
    values_of,
)
from mqdssm.events.machines import COMPUTER_CLASS
from mqdssm.events.new_entry import NewEntry
from mqdssm.events.object_names import parse_stored_path
from mqdssm.events.settings import MADE_BY_US
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.queuenames import rdn_of
from mqdssm.tables import TABLES, compute, places
from mqdssm.tables.dependent_objects import COPIED, SETTINGS_CLASS
from mqdssm.tables.references import REFERENCES, AttributeReference, ReferenceForm
from mqdssm.tables.row import Access, Row
from mqdssm.tables.schema_attributes import OWN_UUID
from mqdssm.tables.syntax import GUID, SID
from mqdssm.wire.sid import BUILTIN_ADMINISTRATORS, Sid

STORED: Final = Access.CREATE | Access.WRITE
NORMAL_ACCOUNT: Final = b"512"
"""userAccountControl of a user, [MS-ADTS] 2.2.16."""
WORKSTATION_ACCOUNT: Final = b"4096"
"""userAccountControl of a computer."""
KEY: Final = "Identifier"
NAME: Final = "Name"
"""Attribute that forms the RDN."""
_DERIVED: Final = UUID(OWN_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryTarget:
    """Kind and place of the directory for which entries are made.

    Attributes:
        profile: the kind of server.
        root: what [MS-MQDSSM] 2.2.1 writes as the root of the names.
        forest_root: the parent of the configuration naming context.
        keeps_guids: an object may have the objectGUID that it brings (decision M37).
        bound: who writes: descriptors that we have to make name this SID (decision M22).
    """

    profile: Profile
    root: DN
    forest_root: DN
    keeps_guids: bool
    bound: Sid | None = None

    @property
    def owner(self) -> Sid | None:
        """Owner of new descriptors: the bound SID, or the administrators (M41)."""
        nobody = BUILTIN_ADMINISTRATORS if self.profile.writes_default_security else None
        return self.bound or nobody

    @classmethod
    def of(cls, session: Session) -> Self:
        """Return the target for the directory of a session.

        Raises:
            DirectoryError: it cannot be asked.
        """
        naming = session.naming
        return cls(
            profile=session.profile,
            root=naming.root,
            forest_root=naming.configuration.parent,
            keeps_guids=session.keeps_guids,
            bound=security.sid_of(session.bound_sid()),
        )

    @classmethod
    def named(cls, profile: str, root: DN, *, keeps_guids: bool | None = None) -> Self:
        """Return the target for a directory without a connection, for LDIF.

        Args:
            profile: the kind of server, as ``openldap``.
            root: the root of the names.
            keeps_guids: see above; None: as such servers do.

        Raises:
            ConfigError: no such kind.
        """
        known_profile = PROFILES.get(profile)
        if known_profile is None:
            raise ConfigError(f"there is no profile {profile!r}: {', '.join(PROFILES)} are known")
        keeps = known_profile.makes_guid if keeps_guids is None else keeps_guids
        return cls(profile=known_profile, root=root, forest_root=root, keeps_guids=keeps)


class EntryBuilder:
    """Makes entries from elements.

    Every method raises DecodeError, MappingError or ValueError for values and names that no directory can
    hold, and GenericDirectoryError for what the specification refuses.

    Args:
        target: where they are to be.
        dns_of: where the objects of a class with some GUIDs are: GUID -> DN. What is to be made at the same
            time belongs in it, too.
        operational: write when objects were changed, which only ``slapadd`` takes.
        complete: make the GUIDs and security descriptors that an element lacks.
        from_elsewhere: elements bring GUIDs and times along, which are kept as far as the server lets us;
            False: objects are new, and their GUIDs are the session's to make.
    """

    def __init__(
        self,
        target: EntryTarget,
        dns_of: DnsOf,
        *,
        operational: bool = False,
        complete: bool = True,
        from_elsewhere: bool = True,
    ) -> None:
        self._target = target
        self._dns_of = dns_of
        self._operational = operational
        self._complete = complete
        self._from_elsewhere = from_elsewhere

    # -- elements; `names` are the attributes to store, None: all that are populated

    def enterprise(self, obj: Enterprise) -> NewEntry:
        """Make the entry of the enterprise object, CN=MsmqServices."""
        return self._build_entry("enterprise", obj, places.enterprise_dn(self._target.forest_root))

    def site(self, obj: Site, names: frozenset[str] | None = None) -> NewEntry:
        """Make the entry of a site."""
        entry = self._build_entry(
            "site", obj, places.site_dn(self._target.forest_root, obj.name or ""), names
        )
        if self._complete:
            image = security.compute_site_descriptor(
                supplied=_select_descriptor(obj, names), bound=self._target.owner
            )
            self._put_descriptor(entry, image)
        return entry

    def link(self, obj: RoutingLink, names: frozenset[str] | None = None) -> NewEntry:
        """Make the entry of a routing link."""
        return self._build_entry(
            "routing-link", obj, places.link_dn(self._target.forest_root, link_cn(obj)), names
        )

    def user(self, obj: User, name: str) -> NewEntry:
        """Make the entry of a user, with a new account of that name."""
        values: Values = {"sAMAccountName": (name.encode(),), "userAccountControl": (NORMAL_ACCOUNT,)}
        if obj.security_identifier is not None:
            values["objectSid"] = (SID.dump(obj.security_identifier),)
        entry = self._build_entry("user", obj, places.user_dn(self._target.root, name))
        entry.values = values | entry.values
        return entry

    def change_user(self, obj: User, dn: DN) -> NewEntry:
        """Make the changes for an existing user account: certificates and their digests."""
        values = values_of(TABLES[User], obj, obj.populated, STORED, self._dns_of)
        if obj.is_populated("Certificates"):
            values = build_signing_values(obj.certificates) | {k: raws for k, raws in values.items() if raws}
        return NewEntry("user", dn, TABLES[User].ldap_class, values)

    def queue(
        self, obj: Queue, computer: DN, sid: Sid | None = None, names: frozenset[str] | None = None
    ) -> NewEntry:
        """Make the entry of a queue.

        Args:
            obj: the queue.
            computer: where its computer is.
            sid: of the computer, for a descriptor that we have to make.
            names: see above.
        """
        path = parse_stored_path(obj.pathname or "")
        cn, extension = rdn_of(path.queue)
        entry = self._build_entry("queue", obj, places.queue_manager_of(computer).child("CN", cn), names)
        if extension is not None:
            entry.values["mSMQQueueNameExt"] = (extension.encode(),)
        if self._complete and DESCRIPTOR not in entry.values and self._target.profile.writes_default_security:
            self._put_descriptor(
                entry, security.compute_queue_descriptor(machine=sid, bound=self._target.owner)
            )
        return entry

    def queue_manager(
        self,
        obj: QueueManager,
        computer: DN,
        sid: Sid | None = None,
        existing: Entry | None = None,
        names: frozenset[str] | None = None,
    ) -> NewEntry:
        """Make the entry of a queue manager.

        `computer_keys` returns the values for its computer.

        Args:
            obj: the queue manager.
            computer: where its computer is.
            sid: of the computer, for a descriptor that we have to make.
            existing: the existing entry, with its roles: roles that `obj` does not say stay.
            names: see above.
        """
        names = obj.populated if names is None else names
        entry = self._build_entry("queue-manager", obj, places.queue_manager_of(computer), names)
        if existing is None:
            entry.values |= compute_service_values(obj, names)
        elif not names.isdisjoint(SERVICE_NAMES):
            entry.values["mSMQServiceType"] = service_type_of(obj, names, existing)
        if self._complete:
            # on every server: with the default of Active Directory's schema the machine could not make queues
            image = security.compute_machine_descriptor(
                supplied=_select_descriptor(obj, names),
                machine=sid,
                bound=self._target.owner,
                foreign="ForeignSystem" in names and obj.foreign_system,
            )
            self._put_descriptor(entry, image)
        return entry

    # -- objects that queue managers need

    def computer_keys(self, obj: QueueManager) -> Values:
        """Return the signing keys of a queue manager for its computer.

        See [MS-MQDSSM] 3.1.6.1.1.9.
        """
        return {k: raws for k, raws in build_signing_values(obj.public_signing_key_list).items() if raws}

    def change_computer(self, obj: QueueManager, dn: DN) -> NewEntry:
        """Make the changes for the existing computer of a queue manager."""
        return NewEntry("computer", dn, COMPUTER_CLASS, self.computer_keys(obj))

    def computer(
        self, name: str, domain: str, *, guid: UUID | None = None, sid: Sid | None = None
    ) -> NewEntry:
        """Make the entry of a computer account at its default place (decision M26).

        Args:
            name: of the computer.
            domain: the DNS domain that it is in.
            guid: its objectGUID, where that is ours to choose; None: one that follows from its name.
            sid: its objectSid, where that is ours to give: Active Directory gives it itself.
        """
        dn = places.computer_dn(self._target.root, name)
        host = f"{name.lower()}.{domain}"
        values = self._encode_identity("computer", dn, guid, derived=True)
        if sid is not None:
            values["objectSid"] = (bytes(sid),)
        values |= {
            "sAMAccountName": (f"{name}$".encode(),),
            "userAccountControl": (WORKSTATION_ACCOUNT,),
            "dNSHostName": (host.encode(),),
            "servicePrincipalName": (f"HOST/{name}".encode(), f"HOST/{host}".encode()),
        }
        return NewEntry("computer", dn, COMPUTER_CLASS, values, original=guid)

    def servers(self, site: str, guid: UUID | None = None) -> NewEntry:
        """Make the container of a site's server objects (decision M6)."""
        return self._build_container(
            places.servers_dn(self._target.forest_root, site), "serversContainer", guid
        )

    def server(self, site: str, computer: str, guid: UUID | None = None) -> NewEntry:
        """Make the server object of a computer in a site (decision M6)."""
        return self._build_container(
            places.server_dn(self._target.forest_root, site, computer), "server", guid
        )

    def settings(self, manager: NewEntry, site: str, original: UUID, guid: UUID | None = None) -> NewEntry:
        """Make the mSMQSettings entry of a queue manager in a site.

        See [MS-MQDSSM] 3.1.6.1.1.3.

        Args:
            manager: the queue manager's entry.
            site: name of the site.
            original: the queue manager's GUID, to which mSMQQMID refers.
            guid: its own objectGUID, where that is ours to choose; None: one that follows from its name.
        """
        return self._build_settings(manager.dn.parent.name, manager.values, site, original, guid)

    def settings_for(self, manager: Entry, original: UUID, site: str, computer: str) -> NewEntry:
        """Make the mSMQSettings entry of an existing queue manager, for another computer.

        Args:
            manager: the queue manager, with its roles.
            original: its GUID, to which mSMQQMID refers.
            site: name of the site.
            computer: name of the computer.
        """
        roles = {copied.configuration: tuple(manager.all(copied.configuration)) for copied in COPIED}
        return self._build_settings(computer, roles, site, original, None)

    def _build_settings(
        self, computer: str, roles: Values, site: str, original: UUID, guid: UUID | None
    ) -> NewEntry:
        dn = places.settings_dn(self._target.forest_root, site, computer)
        values = self._encode_identity(SETTINGS_CLASS, dn, guid, derived=True)
        for copied in COPIED:
            if copied.configuration == "objectGUID":
                values[copied.settings] = (GUID.dump(original),)
            elif raws := roles.get(copied.configuration):
                values[copied.settings] = raws
        entry = NewEntry("settings", dn, SETTINGS_CLASS, values, original=guid)
        (reference,) = REFERENCES[SETTINGS_CLASS].values()
        entry.refers[reference.attribute] = (original,)
        return entry

    def companion(
        self, type_name: str, ldap_class: str, rows: Mapping[str, Row], values: Mapping[str, Any]
    ) -> NewEntry:
        """Make the entry of a computer or mSMQSettings from given attributes.

        The caller sets its name.

        Args:
            type_name: ``computer`` or ``settings``.
            ldap_class: its class.
            rows: attribute -> its row.
            values: attribute -> its value; None: it has none.
        """
        keeps_guids = self._target.keeps_guids
        attributes: Values = {}
        if keeps_guids and values.get(KEY):
            attributes["objectGUID"] = (GUID.dump(UUID(values[KEY])),)
        for name, row in rows.items():
            value = values.get(name)
            is_plain = row.computed is None and name not in {KEY, NAME}
            if not is_plain or value is None or (name == "Sid" and not keeps_guids):
                continue
            if raws := row.encode(UUID(value) if row.kind == "GUID" else value):
                attributes[row.ldap[0]] = raws
        if type_name == "computer":
            attributes["userAccountControl"] = (WORKSTATION_ACCOUNT,)
        return NewEntry(type_name, self._target.root, ldap_class, attributes)

    # -- parts

    def _build_entry(
        self, type_name: str, obj: DirectoryObject, dn: DN, names: frozenset[str] | None = None
    ) -> NewEntry:
        table = TABLES[type(obj)]
        self._target.profile.check_name(str(dn))
        values = values_of(table, obj, obj.populated if names is None else names, STORED, self._dns_of)
        system_values: Values = {}
        if self._from_elsewhere:
            system_values = self._encode_identity(
                table.ldap_class, dn, obj.identifier, derived=self._complete
            )
            system_values |= self._encode_times(obj)
        stored = {name: raws for name, raws in values.items() if raws}
        values = system_values | translate_values(self._target.profile, table.ldap_class, stored)
        entry = NewEntry(type_name, dn, table.ldap_class, values, original=obj.identifier)
        for reference in REFERENCES.get(table.ldap_class, {}).values():
            if self._from_elsewhere or (reference.form is ReferenceForm.DN and reference.attribute in values):
                self._note(entry, reference, obj)
        return entry

    def _note(self, entry: NewEntry, reference: AttributeReference, obj: DirectoryObject) -> None:
        """Record the references of an entry, and the missing ones."""
        if not obj.is_populated(reference.adm):
            return
        value = getattr(obj, obj.field_name(reference.adm))
        guids = tuple(dict.fromkeys(value if isinstance(value, tuple) else () if value is None else (value,)))
        if not guids:
            return
        entry.refers[reference.attribute] = guids
        dns = self._dns_of(guids, reference.ldap_class)
        if missing := tuple(guid for guid in guids if guid not in dns):
            entry.missing[reference.attribute] = missing

    def _encode_times(self, obj: DirectoryObject) -> Values:
        """Return the creation and modification times that a client can write."""
        table, system_values = TABLES[type(obj)], {}
        if "CreateTime" in obj.populated and self._target.profile.create_time_written is not None:
            row = table.row("CreateTime")
            system_values[self._target.profile.create_time_written] = row.encode(getattr(obj, row.field))
        if "ModifyTime" in obj.populated and self._operational:
            row = table.row("ModifyTime")
            (raw,) = row.encode(getattr(obj, row.field))
            # operational attributes are written without a fraction
            system_values["modifyTimestamp"] = (raw.replace(b".0Z", b"Z"),)
        return system_values

    def _encode_identity(
        self, ldap_class: str, dn: DN, guid: UUID | None, *, derived: bool = False
    ) -> Values:
        """Return the attribute that identifies an entry.

        The attribute is objectGUID, or the one that keeps an earlier GUID (decision M37).
        """
        if guid is not None and not guid.int:
            raise ValueError(f"{dn}: the null GUID identifies nothing")
        if self._target.keeps_guids:
            new_guid = derive_guid(dn) if guid is None and derived else guid
            return {} if new_guid is None else {"objectGUID": (GUID.dump(new_guid),)}
        return self._target.profile.identity(ldap_class, guid, keeps_guids=False)

    def _build_container(self, dn: DN, ldap_class: str, guid: UUID | None) -> NewEntry:
        values = self._encode_identity(ldap_class, dn, guid, derived=True)
        return NewEntry("", dn, ldap_class, values | {"description": (MADE_BY_US.encode(),)}, original=guid)

    def _put_descriptor(self, entry: NewEntry, image: bytes) -> None:
        entry.values |= translate_values(self._target.profile, entry.ldap_class, {DESCRIPTOR: (image,)})


def _select_descriptor(obj: Site | QueueManager, names: frozenset[str] | None) -> bytes | None:
    """Return the security descriptor of an object, if it is to be stored."""
    return obj.security if "Security" in (obj.populated if names is None else names) else None


def derive_guid(dn: DN) -> UUID:
    """Return a GUID derived from the DN of an object.

    Repeated runs therefore make equal GUIDs.
    """
    return uuid5(_DERIVED, dn.normalized)


def link_cn(link: RoutingLink) -> str:
    """Return the RDN value of a routing link ([MS-MQDSSM] 3.1.6.1.4.2).

    Raises:
        GenericDirectoryError: one of its sites is not set.
    """
    if link.site1_identifier is None or link.site2_identifier is None:
        raise GenericDirectoryError(
            "RoutingLink.Site1Identifier and Site2Identifier must be set to create it"
        )
    return compute.link_name(link.site1_identifier, link.site2_identifier)


def compute_service_values(manager: QueueManager, names: frozenset[str]) -> Values:
    """Return mSMQServiceType of a new queue manager, if one of its roles is given.

    All roles that are populated count then, also those not listed ([MS-MQDSSM] 3.1.6.1.1.5).
    """
    if names.isdisjoint(SERVICE_NAMES):
        return {}
    return {"mSMQServiceType": compute_service_type(manager, manager.populated, {})}


def make_dns_lookup(dns: Mapping[UUID, str]) -> DnsOf:
    """Return a look-up function for a map of all referenced objects, of any class."""
    return lambda guids, _: {guid: dns[guid] for guid in guids if guid in dns}
