"""Profile of Active Directory: domain controllers of Windows and of Samba."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

from mqdssm.directory.ber import integer, octet_string, sequence
from mqdssm.directory.filters import And, Equal, LdapFilter, any_of
from mqdssm.directory.profile import (
    Guard,
    GuidTarget,
    Naming,
    Profile,
    ServerFacts,
    choose_root,
    find_context,
    has_never_changed,
)
from mqdssm.directory.profiles import ad_errors, extended_dn
from mqdssm.directory.recovery import has_values
from mqdssm.directory.requests import LdapControl, SearchScope
from mqdssm.errors import DirectoryError, GenericDirectoryError, ObjectNotFound
from mqdssm.model.dn import DN, fold_case
from mqdssm.tables import rights
from mqdssm.tables.access import KINDS, flags_of_parts, from_directory, to_directory
from mqdssm.tables.schema import ORIGINAL_GUID_CLASSES
from mqdssm.wire.dtyp import SecurityDescriptor, Sid

if TYPE_CHECKING:
    from mqdssm.directory.entries import Entry
    from mqdssm.directory.responses import LdapResult, MessageBounds
    from mqdssm.directory.session import Session

CAPABILITY_OID: Final = b"1.2.840.113556.1.4.800"
"""LDAP_CAP_ACTIVE_DIRECTORY_OID ([MS-ADTS] 3.1.1.3.4.3.1)."""
SD_FLAGS_OID: Final = "1.2.840.113556.1.4.801"
DOMAIN_SCOPE_OID: Final = "1.2.840.113556.1.4.1339"
"""LDAP_SERVER_DOMAIN_SCOPE_OID: no references to other naming contexts."""
SHOW_DELETED_OID: Final = "1.2.840.113556.1.4.417"
"""LDAP_SERVER_SHOW_DELETED_OID."""
ASQ_OID: Final = "1.2.840.113556.1.4.1504"
"""LDAP_SERVER_ASQ_OID, attribute scoped query ([MS-ADTS] 3.1.1.3.4.1.18)."""
OWNER_GROUP_DACL: Final = 7
"""Parts of a descriptor that READ_CONTROL allows to read; the SACL needs a privilege."""
RDN_UNITS_MAX: Final = 64
"""UTF-16 units in the value of an RDN: rangeUpper of cn. Samba lets longer ones in, Windows does not."""

_ADMINISTRATORS: Final = "S-1-5-32-544"
_ENTERPRISE_ADMINS: Final = 519
"""RID of the group in the root domain ([MS-DTYP] 2.4.2.4)."""
_DESCRIPTOR: Final = "ntsecuritydescriptor"
_GUID_HEURISTIC: Final = 10
"""Index of fSpecifyGUIDOnAdd in dSHeuristics, from 0 ([MS-ADTS] 6.1.1.2.4.1.2)."""


class ActiveDirectory(Profile):
    """Profile of a domain controller.

    Domain controllers make objectGUIDs, translate rights, and separate naming contexts.
    """

    name: ClassVar[str] = "activedirectory"
    title: ClassVar[str] = "Active Directory"
    makes_guid: ClassVar[bool] = False
    writes_default_security: ClassVar[bool] = False
    create_time_attributes: ClassVar[tuple[str, ...]] = ("whenCreated",)
    modify_time_attributes: ClassVar[tuple[str, ...]] = ("whenChanged",)
    schema_hint: ClassVar[str] = (
        "the schema of Active Directory holds MSMQ's classes from the start: was this domain made by Windows "
        "2000 or later, or by Samba's provisioning?"
    )
    translates_security: ClassVar[bool] = True
    hides_sacls: ClassVar[bool] = True
    computer_account: ClassVar[str | None] = "sAMAccountName"
    original_guid: ClassVar[str | None] = "mSMQOwnerID"
    original_guid_classes: ClassVar[frozenset[str]] = ORIGINAL_GUID_CLASSES
    follows_renames: ClassVar[bool] = True
    change_counter: ClassVar[str | None] = "uSNChanged"
    split_key: ClassVar[str] = "uSNCreated"
    computes_rights: ClassVar[bool] = True
    restricts_parents: ClassVar[bool] = True
    has_catalog: ClassVar[bool] = True
    hidden_hint: ClassVar[str] = rights.HIDDEN
    twins_hint: ClassVar[str] = (
        "each had this GUID before (mSMQOwnerID): name the object by its objectGUID, "
        "and clear mSMQOwnerID of the others:"
    )
    no_replication: ClassVar[str] = (
        "its classes would extend the schema of the whole forest, which cannot be taken back, and domain "
        "controllers replicate themselves: give each replicating server an OpenLDAP directory of its own"
    )
    watched_through: ClassVar[str] = "update numbers"
    watch_key: ClassVar[str] = "objectGUID"
    watch_versions: ClassVar[tuple[str, ...]] = ("uSNChanged", "whenChanged")
    facts: ClassVar[ServerFacts] = ServerFacts(
        size_limit=1000,
        references="extended names",
        references_hint=f"a domain controller has the control {extended_dn.CONTROL_OID}: is this one?",
        watched_by={"1.2.840.113556.1.4.841": "DirSync", "1.2.840.113556.1.4.528": "change notification"},
        watch_hint="no DirSync, no change notification",
        index_hint="is the domain controller busy, or far away? its index of objectGUID is always there",
        schema_hint="an administrator of the schema has to mend it, or let it replicate",
        tree_hint="may this user see it? else restore it: every forest has it from the beginning",
        naming_hint="may this user read the root DSE?",
        descriptor_hint=f"grant {rights.READ.name} on it: every object has a descriptor",
    )

    def name_key(self, name: str) -> str:  # noqa: D102  see Profile
        # letters that NFKC gives may be capitals; a final sigma is a sigma (decision M132)
        return fold_case(fold_case(name)).replace("\u03c2", "\u03c3")

    def matches(self, root_dse: "Entry") -> bool:  # noqa: D102  see Profile
        return CAPABILITY_OID in root_dse.all("supportedCapabilities")

    def naming(self, root_dse: "Entry", override: str | None) -> Naming:  # noqa: D102  see Profile
        default = find_context(root_dse, "defaultNamingContext")
        forest = find_context(root_dse, "rootDomainNamingContext") or default
        configuration = find_context(root_dse, "configurationNamingContext")
        if forest is None or configuration is None:
            raise GenericDirectoryError(
                "the domain controller does not name its root domain and its configuration",
                hint="may this user read the root DSE?",
            )
        schema = find_context(root_dse, "schemaNamingContext") or configuration.child("CN", "Schema")
        domains = (default,) if default is not None and default != forest else ()
        return Naming(
            root=choose_root(override, forest),
            configuration=configuration,
            schema=schema,
            default=default or forest,
            forest=forest,
            apart=(configuration, schema, *domains),
        )

    def build_guid_target(self, naming: Naming, guid: UUID) -> GuidTarget:  # noqa: D102  see Profile
        guid_filter = Equal("objectGUID", guid.bytes_le)
        original_filter = Equal(str(self.original_guid), guid.bytes_le)
        bases = tuple(str(base) for base in naming.guid_bases)
        return GuidTarget(
            (f"<GUID={guid}>",),
            SearchScope.BASE,
            guid_filter,
            GuidTarget(bases, SearchScope.SUBTREE, original_filter),
        )

    def build_dn_filter(self, dn: str) -> LdapFilter:  # noqa: D102  see Profile
        return Equal("distinguishedName", dn.encode())

    def build_class_filter(self, ldap_class: str) -> LdapFilter:  # noqa: D102  see Profile
        match ldap_class.lower():
            case "user":  # computers are users, too, and so are service accounts of groups
                return And((Equal("objectCategory", b"person"), Equal("objectClass", b"user")))
            case "computer":
                return Equal("objectCategory", b"computer")
            case _:
                return Equal("objectClass", ldap_class.encode())

    def build_computer_filter(self, name: str) -> LdapFilter:  # noqa: D102  see Profile
        # the account's name is the computer's, but has 15 characters: of longer names only cn has all
        named = any_of(Equal("sAMAccountName", f"{name}$".encode()), Equal("cn", name.encode()))
        return And((self.build_class_filter("computer"), named))

    def list_deleted_controls(self) -> tuple[LdapControl, ...]:  # noqa: D102  see Profile
        return (LdapControl(SHOW_DELETED_OID, critical=True),)

    def read_controls(self, attributes: Iterable[str]) -> tuple[LdapControl, ...]:  # noqa: D102  see Profile
        if any(name.lower() == _DESCRIPTOR for name in attributes):
            return (_make_sd_flags_control(OWNER_GROUP_DACL),)
        return ()

    def explain_hidden(self, session: "Session", *, other_domains: bool) -> str:  # noqa: D102  see Profile
        token = [Sid.from_bytes(value) for value in session.get("", ["tokenGroups"]).all("tokenGroups")]
        if any(sid.domain is not None and sid.rid == _ENTERPRISE_ADMINS for sid in token):
            return ""
        if other_domains:
            return "objects of other domains may be hidden from this user, who is no Enterprise Admin"
        if any(str(sid) == _ADMINISTRATORS for sid in token):
            return ""
        return "objects may be hidden from this user, who is not in Administrators"

    def search_controls(self) -> tuple[LdapControl, ...]:  # noqa: D102  see Profile
        # otherwise every search of a domain returns references to the configuration and to DNS
        return (LdapControl(DOMAIN_SCOPE_OID),)

    def write_controls(self, attributes: Mapping[str, Sequence[bytes]]) -> tuple[LdapControl, ...]:  # noqa: D102  see Profile
        for name, values in attributes.items():
            if name.lower() == _DESCRIPTOR and values:
                # a part that is named and missing would be reset, or needs a right that the user lacks
                return (_make_sd_flags_control(flags_of_parts(SecurityDescriptor.from_bytes(values[0]))),)
        return ()

    def guard(self, entry: "Entry", unchanged: Iterable[str]) -> Guard:  # noqa: D102  see Profile
        # no assertion control: the object is named by its GUID, old values are deleted by value
        identity = entry.first("objectGUID")
        name = entry.dn if identity is None else f"<GUID={UUID(bytes_le=identity)}>"
        old = {attribute: entry.all(attribute) for attribute in unchanged}
        shows_change = ad_errors.is_other_value if old else has_never_changed
        return Guard(name, identity, old=old, shows_change=shows_change)

    def build_references_control(  # noqa: D102  see Profile
        self, root_dse: "Entry", references: Mapping[str, Sequence[str]]
    ) -> tuple[LdapControl, ...]:
        if not references or extended_dn.CONTROL_OID.encode() not in root_dse.all("supportedControl"):
            return ()
        return (extended_dn.make_control(),)

    def build_named_controls(self, root_dse: "Entry", attribute: str) -> tuple[LdapControl, ...]:  # noqa: D102  see Profile
        if ASQ_OID.encode() not in root_dse.all("supportedControl"):
            return ()
        return (LdapControl(ASQ_OID, critical=True, value=sequence(octet_string(attribute))),)

    def attach_references(  # noqa: D102  see Profile
        self,
        rows: list[tuple[Any, ...]],
        columns: Sequence[str],
        buffer: bytes,  # noqa: ARG002  it is all in the values
        messages: "Sequence[MessageBounds]",  # noqa: ARG002
    ) -> list[tuple[Any, ...]]:
        return [extended_dn.make_plain_row(row, columns) for row in rows]

    def encode_security(self, ldap_class: str, image: bytes) -> bytes:  # noqa: D102  see Profile
        kind = KINDS.get(ldap_class)
        return image if kind is None else bytes(to_directory(SecurityDescriptor.from_bytes(image), kind))

    def decode_security(self, ldap_class: str, image: bytes) -> bytes:  # noqa: D102  see Profile
        kind = KINDS.get(ldap_class)
        if kind is None:
            return image
        return bytes(from_directory(SecurityDescriptor.from_bytes(image), kind))

    def check_name(self, dn: str) -> None:  # noqa: D102  see Profile
        value = DN.parse(dn).name
        units = len(value.encode("utf-16-le")) // 2
        if units > RDN_UNITS_MAX:
            raise ValueError(
                f"{value[:20]!r}… is {units} UTF-16 units long: Active Directory allows {RDN_UNITS_MAX}"
            )

    def keeps_guids(self, session: "Session") -> bool:  # noqa: D102  see Profile
        services = session.naming.configuration.child("CN", "Services").child("CN", "Windows NT")
        try:
            entry = session.get(services.child("CN", "Directory Service"), ["dSHeuristics"])
        except ObjectNotFound:
            return False  # hidden from this user
        heuristics = entry.first("dSHeuristics") or b""
        return heuristics[_GUID_HEURISTIC : _GUID_HEURISTIC + 1] == b"1"

    def is_guid_refusal(self, error: DirectoryError) -> bool:  # noqa: D102  see Profile
        # without the Add-GUID right (50), or a server that never accepts a GUID (53; Samba always)
        return error.ldap_code in {19, 50, 53}

    def holds(self, stored: Mapping[str, Sequence[bytes]], sent: Mapping[str, Sequence[bytes]]) -> bool:  # noqa: D102  see Profile
        other_values = {name: values for name, values in sent.items() if name.lower() != _DESCRIPTOR}
        images = [values for name, values in sent.items() if name.lower() == _DESCRIPTOR]
        stored_descriptors = stored.get(_DESCRIPTOR, ())
        return has_values(stored, other_values) and all(
            len(stored_descriptors) == len(image) == 1 and _has_parts(stored_descriptors[0], image[0])
            for image in images
        )

    def explain(self, result: "LdapResult", operation: str, dn: str | None) -> DirectoryError | None:  # noqa: D102  see Profile
        return ad_errors.explain(result, operation, dn)

    def bound_sid(self, session: "Session") -> str | None:  # noqa: D102  see Profile
        # the token has the user's own SID among those of its groups, in no order that can be relied on
        token = [Sid.from_bytes(value) for value in session.get("", ["tokenGroups"]).all("tokenGroups")]
        accounts = [sid for sid in token if sid.domain is not None]
        if not accounts:
            return None
        search_filter = And(
            (Equal("objectClass", b"user"), any_of(*(Equal("objectSid", bytes(sid)) for sid in accounts)))
        )
        for entry in session.find(session.naming.default, search_filter, ["objectSid"]):
            value = entry.first("objectSid")
            if value is not None:
                return str(Sid.from_bytes(value))
        return str(accounts[0])  # of another domain: the first is the account itself


def _make_sd_flags_control(parts: int) -> LdapControl:
    """Return the control LDAP_SERVER_SD_FLAGS_OID for parts of descriptors.

    See [MS-ADTS] 3.1.1.3.4.1.11.
    """
    return LdapControl(SD_FLAGS_OID, critical=True, value=sequence(integer(parts)))


def _has_parts(stored_image: bytes, sent: bytes) -> bool:
    """Return True if a descriptor has all parts of the sent one.

    The server adds inherited entries.
    """
    stored, expected = SecurityDescriptor.from_bytes(stored_image), SecurityDescriptor.from_bytes(sent)
    parts = flags_of_parts(expected)
    return (
        (not parts & 1 or stored.owner == expected.owner)
        and (not parts & 2 or stored.group == expected.group)
        and (not parts & 4 or set(stored.explicit_aces()) == set(expected.explicit_aces()))
    )
