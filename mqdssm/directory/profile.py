"""Profiles that hold the differences between kinds of servers.

A profile is chosen from the root DSE or by name (``profile="openldap"``). Another server is another
class here, with the same methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID, uuid4

from mqdssm.directory.filters import And, Equal, any_of
from mqdssm.directory.recovery import has_values
from mqdssm.directory.responses import decode_controls, decode_deref
from mqdssm.errors import ConfigError, DirectoryError, GenericDirectoryError
from mqdssm.model.dn import DN, domain_of, fold_case

if TYPE_CHECKING:
    from mqdssm.directory.entries import Entry
    from mqdssm.directory.filters import LdapFilter
    from mqdssm.directory.requests import LdapControl, SearchScope
    from mqdssm.directory.responses import LdapResult, MessageBounds
    from mqdssm.directory.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Expected configuration of the servers of a profile.

    Attributes:
        size_limit: entries that a search returns where nobody configured anything: fewer prove nothing.
        references: what brings referenced objects along with a page, for people.
        references_hint: what to do where it is missing.
        watched_by: OID of a control that reports changes -> its name.
        watch_hint: why changes cannot be watched without one of these controls.
        index_place: DN and attribute of the configured indexes; None: such servers do not show them, or
            have those that are needed from the beginning.
        index_hint: what to do when looking up by GUID is slow.
        change_number: an attribute of the root whose value is the same on all servers in the same state;
            None: there is none.
        schema_hint: what to do when the schema is not as it must be.
        tree_hint: what to do when an object is missing that every event needs; {root} is the forest's root.
        naming_hint: what to do when the root DSE does not name the naming contexts.
        descriptor_hint: what to do when the enterprise shows no security descriptor.
    """

    size_limit: int
    references: str
    references_hint: str
    watched_by: Mapping[str, str]
    watch_hint: str
    index_place: tuple[str, str] | None = None
    index_hint: str
    change_number: str | None = None
    schema_hint: str
    tree_hint: str
    naming_hint: str
    descriptor_hint: str


AUTO: Final = "auto"

ROOT_DSE_ATTRIBUTES: Final = (
    "objectClass",
    "vendorName",
    "vendorVersion",
    "supportedCapabilities",
    "supportedControl",
    "supportedExtension",
    "supportedLDAPVersion",
    "supportedSASLMechanisms",
    "namingContexts",
    "defaultNamingContext",
    "rootDomainNamingContext",
    "configurationNamingContext",
    "schemaNamingContext",
    "subschemaSubentry",
    "dnsHostName",
)
"""Attributes that are requested by name: ``*`` does not include operational ones (decision M39)."""


@dataclass(frozen=True, slots=True)
class Naming:
    """Naming contexts of a server ([MS-MQDSSM] 2.2.1, 3.1.1.5, 3.1.6.15).

    Attributes:
        root: what 2.2.1 writes as the root of the names: computers, queues and users are below it.
            The root naming context unless another one was chosen (decision M8).
        configuration: CachedConfigurationNamingContext: sites, links and the enterprise are below it.
        schema: the schema naming context.
        default: the server's own default naming context.
        forest: base below which every object of the directory is found by its GUID.
        apart: naming contexts that a search from above does not come to, though their names are below.
    """

    root: DN
    configuration: DN
    schema: DN
    default: DN
    forest: DN
    apart: tuple[DN, ...] = ()

    @property
    def guid_bases(self) -> tuple[DN, ...]:
        """Bases that must be searched to find any object.

        No base is reached from another one.
        """
        bases: list[DN] = [self.forest]
        for dn in (self.root, self.configuration):
            if not any(self._is_reached(base, dn) for base in bases):
                bases.append(dn)
        return tuple(bases)

    def list_bases(self, *, configuration: bool) -> tuple[DN, ...]:
        """Return the bases that must be searched for objects of a class.

        Args:
            configuration: whether they are in the configuration naming context, or in the domains.
        """
        if configuration:
            return tuple(base for base in self.guid_bases if self._is_reached(base, self.configuration))
        return tuple(base for base in self.guid_bases if base != self.configuration)

    @property
    def of_catalog(self) -> "Naming":
        """Naming of a global catalog: all objects are below the root of all names."""
        return replace(self, root=DN(), forest=DN(), default=DN(), apart=())

    def find_other_domain(self, dn: DN) -> DN | None:
        """Return the domain of a name in Active Directory.

        None if it is the server's own domain.

        A name ends in its domain's, the components ``DC=``; the naming contexts of configuration and schema
        are on every domain controller.
        """
        if dn.is_at_or_below(self.configuration):
            return None
        domain = domain_of(dn)
        return None if domain == self.default else domain

    def _is_reached(self, base: DN, dn: DN) -> bool:
        """Return True if a search below `base` reaches `dn`."""
        if dn == base:
            return True
        return dn.is_below(base) and not any(
            (dn == context or dn.is_below(context)) and context.is_below(base) for context in self.apart
        )


@dataclass(frozen=True, slots=True)
class GuidTarget:
    """Search for one object by its objectGUID ([MS-MQDSSM] 3.1.6.19, decision M9).

    Attributes:
        bases: where to begin; one that does not exist holds no such object.
        scope: how far below.
        filter: matches the object wherever it is.
        otherwise: where else to look when nothing is found: a GUID that could not be kept (decision M37).
    """

    bases: tuple[str, ...]
    scope: "SearchScope"
    filter: "LdapFilter"
    otherwise: "GuidTarget | None" = None


def has_never_changed(_: "LdapResult") -> bool:
    """Return False: `Guard.shows_change` of a change that depends on nothing."""
    return False


@dataclass(frozen=True, slots=True)
class Guard:
    """Form of a change that is made only if the entry is still the one that was read.

    Attributes:
        name: name of the entry in the request.
        identity: objectGUID of the entry; None: it is not known.
        controls: controls of the request.
        old: attribute -> values that are deleted by value before the new ones are added.
        shows_change: True for a result by which the server says that the entry is not as it was read.
    """

    name: str
    identity: bytes | None = None
    controls: "tuple[LdapControl, ...]" = ()
    old: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    shows_change: "Callable[[LdapResult], bool]" = has_never_changed


class Profile(ABC):
    """Kind of directory server.

    Attributes:
        name: as in ``profile="openldap"``.
        title: for people.
        makes_guid: objectGUID is made by us and sent with an add.
        writes_default_security: objects get a security descriptor from us (decision M41).
        create_time_attributes: where CreateTime is read from, first one that is there.
        create_time_written: where the creation time of an object from elsewhere is kept; None: nowhere.
        modify_time_attributes: where ModifyTime is read from, first one that is there.
        schema_hint: what to do when the schema is missing.
        translates_security: descriptors are not stored as the abstract model has them (decision M31).
        hides_sacls: a SACL is shown to auditors alone: one that is not there may be (decision M81).
        computer_account: the attribute with the name of a computer's account, which counts more than its cn.
        original_guid: the attribute that keeps a GUID that could not become the objectGUID (decision M37).
        original_guid_classes: the classes that have it.
        follows_renames: references to an object by DN follow when it is renamed or moved.
        change_counter: an attribute that differs after every change of an object; None: there is none.
        asserted_version: an attribute that differs after every change of an entry, and that a change can
            assert ([RFC4528]); None: there is none.
        split_key: an attribute that every object has, that never changes, and by which the server orders:
            ranges of its values split a search into disjoint ones. Servers may have different ones.
        computes_rights: whether objects tell what the bound user may do, as ``allowedAttributesEffective``.
        restricts_parents: an object is made only below a parent of a class that the schema allows.
        has_catalog: there are global catalogs, for searches of several domains (decision M73).
        hidden_hint: what to say of an object that is not found because this user may not read it.
        holds_large_integers: integers above 2^31 - 1 may be stored, and compared with (decision M11).
        twins_hint: what to say of several objects that are found by one GUID.
        no_replication: why such a server cannot hold the replication store; empty: it can.
        watched_through: how such a server tells of changes: a key of `watching.sources`.
        watch_key: the attribute by which watched objects are told apart, and that never changes.
        watch_versions: attributes that differ after each change of an entry, as this one server has them.
        facts: what such servers are expected to be like.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    makes_guid: ClassVar[bool]
    writes_default_security: ClassVar[bool]
    create_time_attributes: ClassVar[tuple[str, ...]]
    create_time_written: ClassVar[str | None] = None
    modify_time_attributes: ClassVar[tuple[str, ...]]
    schema_hint: ClassVar[str]
    translates_security: ClassVar[bool] = False
    hides_sacls: ClassVar[bool] = False
    computer_account: ClassVar[str | None] = None
    original_guid: ClassVar[str | None] = None
    original_guid_classes: ClassVar[frozenset[str]] = frozenset()
    follows_renames: ClassVar[bool] = False
    change_counter: ClassVar[str | None] = None
    asserted_version: ClassVar[str | None] = None
    split_key: ClassVar[str]
    computes_rights: ClassVar[bool] = False
    restricts_parents: ClassVar[bool] = False
    has_catalog: ClassVar[bool] = False
    hidden_hint: ClassVar[str] = ""
    holds_large_integers: ClassVar[bool] = False
    twins_hint: ClassVar[str] = "is the unique overlay on objectGUID missing?"
    no_replication: ClassVar[str] = ""
    watched_through: ClassVar[str]
    watch_key: ClassVar[str]
    watch_versions: ClassVar[tuple[str, ...]]
    facts: ClassVar[ServerFacts]

    def name_key(self, name: str) -> str:
        """Return the comparison key of a name (decision M64).

        Names with equal keys are equal to the server.
        """
        return fold_case(name)

    @abstractmethod
    def matches(self, root_dse: "Entry") -> bool:
        """Return True if the server is of this kind."""

    @abstractmethod
    def naming(self, root_dse: "Entry", override: str | None) -> Naming:
        """Return the naming contexts, with the base of computers replaced.

        `override` is the base of computers and users.

        Raises:
            GenericDirectoryError: the root DSE names none.
            ConfigError: the override is no DN.
        """

    @abstractmethod
    def build_guid_target(self, naming: Naming, guid: UUID) -> GuidTarget:
        """Return the search for an object by its objectGUID."""

    def build_identifier_filter(self, ldap_class: str, guid: UUID) -> "LdapFilter":
        """Return a filter for the object of a class with a GUID (decision M37).

        The object has the GUID, or had it elsewhere.
        """
        guid_filter = Equal("objectGUID", guid.bytes_le)
        if self.original_guid is None or ldap_class not in self.original_guid_classes:
            return guid_filter
        return any_of(guid_filter, Equal(self.original_guid, guid.bytes_le))

    @abstractmethod
    def build_dn_filter(self, dn: str) -> "LdapFilter":
        """Return a filter that matches the object with a DN, for looking up many at once."""

    @abstractmethod
    def build_class_filter(self, ldap_class: str) -> "LdapFilter":
        """Return a filter for the objects of one class only (decision M32)."""

    def build_computer_filter(self, name: str) -> "LdapFilter":
        """Return a filter for the computers of a name, on indexed attributes (M16)."""
        return And((self.build_class_filter("computer"), Equal("cn", name.encode())))

    @abstractmethod
    def read_controls(self, attributes: Iterable[str]) -> "tuple[LdapControl, ...]":
        """Return the controls needed to read some attributes (decision M13)."""

    def list_deleted_controls(self) -> "tuple[LdapControl, ...]":
        """Return the controls that show deleted objects; none if the server has none."""
        return ()

    def explain_hidden(self, session: "Session", *, other_domains: bool) -> str:  # noqa: ARG002  a hook
        """Return why objects may be hidden from the bound user; empty if none are.

        Args:
            session: of the user.
            other_domains: objects of other domains of the forest matter, too.

        Raises:
            DirectoryError: the server cannot be asked.
        """
        return f"{self.title} does not tell whether its access rules hide objects from this user"

    def search_controls(self) -> "tuple[LdapControl, ...]":
        """Return the controls of every search that goes below its base."""
        return ()

    @abstractmethod
    def write_controls(self, attributes: Mapping[str, Sequence[bytes]]) -> "tuple[LdapControl, ...]":
        """Return the controls needed to write some attributes with their values."""

    @abstractmethod
    def guard(self, entry: "Entry", unchanged: Iterable[str]) -> Guard:
        """Return the guard for a change of an entry that was read (decision M92).

        Args:
            entry: as it was read; without its objectGUID only the attributes are compared.
            unchanged: single-valued attributes that must have the values that were read.
        """

    @abstractmethod
    def build_references_control(
        self, root_dse: "Entry", references: Mapping[str, Sequence[str]]
    ) -> "tuple[LdapControl, ...]":
        """Return the controls by which a page includes referenced objects.

        There may be none.
        """

    def build_named_controls(self, root_dse: "Entry", attribute: str) -> "tuple[LdapControl, ...]":  # noqa: ARG002  a hook
        """Return the controls by which a search also returns the objects of an attribute.

        The attribute names these objects. The result may be empty.
        """
        return ()

    def encode_security(self, ldap_class: str, image: bytes) -> bytes:  # noqa: ARG002  a hook
        """Convert a security descriptor of the abstract model to the form of this server.

        Args:
            ldap_class: of the object.
            image: as the abstract model has it.

        Raises:
            DecodeError: the image is no security descriptor.
        """
        return image

    def decode_security(self, ldap_class: str, image: bytes) -> bytes:  # noqa: ARG002  a hook
        """Convert a security descriptor of this server to the form of the abstract model.

        Raises:
            DecodeError: the image is no security descriptor.
        """
        return image

    def check_name(self, dn: str) -> None:  # noqa: B027  a hook: most servers refuse such names themselves
        """Raise ValueError for a new object's name that this kind of server refuses.

        Raises:
            ValueError: such a name.
        """

    def keeps_guids(self, session: "Session") -> bool:  # noqa: ARG002  a hook
        """Return True if the server keeps an objectGUID that an add has (decision M37)."""
        return self.makes_guid

    def is_guid_refusal(self, error: DirectoryError) -> bool:  # noqa: ARG002  a hook
        """Return True if an add was refused because of its objectGUID."""
        return False

    def identity(
        self, ldap_class: str, guid: UUID | None, *, keeps_guids: bool
    ) -> dict[str, tuple[bytes, ...]]:
        """Return an add's attributes that set or record the GUID (decision M37).

        Args:
            ldap_class: of the new object.
            guid: one that it brings along, or None.
            keeps_guids: the answer for this directory, if it is known.
        """
        if keeps_guids and (guid is not None or self.makes_guid):
            return {"objectGUID": ((guid or uuid4()).bytes_le,)}
        if guid is not None and self.original_guid is not None and ldap_class in self.original_guid_classes:
            return {self.original_guid: (guid.bytes_le,)}
        return {}

    def holds(self, stored: Mapping[str, Sequence[bytes]], sent: Mapping[str, Sequence[bytes]]) -> bool:
        """Return True if an entry has the values of a replacement.

        Args:
            stored: lower-case attribute -> values, as read.
            sent: attribute -> values, as replaced; none removes the attribute.
        """
        return has_values(stored, sent)

    def attach_references(
        self,
        rows: "list[tuple[Any, ...]]",
        columns: Sequence[str],  # noqa: ARG002  other servers need it
        buffer: bytes,
        messages: "Sequence[MessageBounds]",
    ) -> "list[tuple[Any, ...]]":
        """Return the rows of a page, each with the referenced objects.

        See `build_references_control`.

        Args:
            rows: the DN and the columns of each entry.
            columns: their names.
            buffer: the received octets.
            messages: where the entries lie in it.

        Returns:
            Rows with one item more: lower-case attribute -> list of `Dereferenced`.

        Raises:
            DecodeError: it cannot be read.
        """
        return [
            (*row, decode_deref(decode_controls(buffer, message.end, message.stop)))
            for row, message in zip(rows, messages, strict=True)
        ]

    @abstractmethod
    def explain(self, result: "LdapResult", operation: str, dn: str | None) -> DirectoryError | None:
        """Return the error for a result with a special meaning on this server.

        None for any other result.
        """

    @abstractmethod
    def bound_sid(self, session: "Session") -> str | None:
        """Return the SID of the bound identity; None if it has none (decision M22)."""


def choose(root_dse: "Entry", profile_name: str, profiles: Mapping[str, Profile]) -> Profile:
    """Choose the profile of a server.

    Raises:
        ConfigError: no profile of that name, or the server is of another known kind.
        GenericDirectoryError: the root DSE fits none.
    """
    recognised = next((profile for profile in profiles.values() if profile.matches(root_dse)), None)
    if profile_name != AUTO:
        try:
            chosen = profiles[profile_name.lower()]
        except KeyError:
            choices = ", ".join(repr(name) for name in (AUTO, *profiles))
            raise ConfigError(f"profile={profile_name!r} is unknown: use one of {choices}") from None
        if recognised is not None and not chosen.matches(root_dse):
            # with the names of another kind of server every list would be empty
            raise ConfigError(
                f"profile={profile_name!r}, but the server is {recognised.title}: "
                f"leave it out, or use {recognised.name!r}"
            )
        return chosen
    if recognised is not None:
        return recognised
    raise GenericDirectoryError(
        f"this kind of directory server is not known: {describe(root_dse)}",
        hint=f"if it behaves like one of {', '.join(profiles)}, say so with profile=",
    )


def describe(root_dse: "Entry") -> str:
    """Return a description of a server from its root DSE, for people."""
    facts = []
    for attribute in ("vendorName", "vendorVersion", "objectClass", "namingContexts"):
        values = root_dse.all(attribute)
        if values:
            facts.append(f"{attribute}={', '.join(value.decode(errors='replace') for value in values)}")
    return "; ".join(facts) or "its root DSE shows nothing to this user"


def find_context(root_dse: "Entry", attribute: str) -> DN | None:
    """Return a naming context of the root DSE; None if it is absent.

    Raises:
        GenericDirectoryError: it is no distinguished name.
    """
    value = root_dse.first(attribute)
    return parse_context_dn(value, attribute) if value else None


def parse_context_dn(value: bytes, attribute: str) -> DN:
    """Parse the DN of a naming context.

    Raises:
        GenericDirectoryError: the value is no distinguished name.
    """
    try:
        return DN.parse(value.decode())
    except ValueError as error:
        raise GenericDirectoryError(f"the root DSE's {attribute} is no distinguished name: {error}") from None


def choose_root(override: str | None, root: DN) -> DN:
    """Return the base of computers and users: the override, or else the root.

    Raises:
        ConfigError: the override is no DN.
    """
    if override is None:
        return root
    try:
        return DN.parse(override)
    except ValueError as error:
        raise ConfigError(f"naming_context=: {error}") from None
