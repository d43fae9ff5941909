"""What differs from server to server, in one object: there is no `if` on the kind of server elsewhere.

A profile is chosen from the root DSE or by name (``profile="openldap"``). Another server is another
class here, with the same methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol
from uuid import UUID

from mqdssm.errors import ConfigError, DirectoryError, GenericDirectoryError
from mqdssm.model.dn import DN

if TYPE_CHECKING:
    from mqdssm.directory.entries import Entry
    from mqdssm.directory.filters import LdapFilter
    from mqdssm.directory.requests import Control, Scope
    from mqdssm.directory.responses import LdapResult

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
"""Asked for by name: operational attributes are not part of ``*`` (decision M39)."""


@dataclass(frozen=True, slots=True)
class Naming:
    """Where things are ([MS-MQDSSM] 2.2.1, 3.1.1.5, 3.1.6.15).

    Attributes:
        root: what 2.2.1 writes as the root of the names: computers, queues and users are below it.
            The root naming context unless another one was chosen (decision M8).
        configuration: CachedConfigurationNamingContext: sites, links and the enterprise are below it.
        schema: the schema naming context.
        default: the server's own default naming context.
        forest: below it every object of the directory is found by its GUID.
    """

    root: DN
    configuration: DN
    schema: DN
    default: DN
    forest: DN

    @property
    def guid_bases(self) -> tuple[DN, ...]:
        """What must be searched to find any object: no base lies below another one."""
        bases: list[DN] = [self.forest]
        for dn in (self.root, self.configuration):
            if not any(dn == base or dn.is_below(base) for base in bases):
                bases.append(dn)
        return tuple(bases)


@dataclass(frozen=True, slots=True)
class GuidTarget:
    """How to ask for one object by its objectGUID ([MS-MQDSSM] 3.1.6.19, decision M9)."""

    bases: tuple[str, ...]
    scope: "Scope"
    filter: "LdapFilter"


class Identity(Protocol):
    """What a profile may ask the directory to find out who is bound (a session offers it)."""

    def bound_name(self) -> str | None:
        """The DN that the connection is bound as, if the server can say."""

    def get(self, target: str | DN | UUID, attributes: Sequence[str]) -> "Entry":
        """Read one object."""


class Profile(ABC):
    """A kind of directory server.

    Attributes:
        name: as in ``profile="openldap"``.
        title: for people.
        makes_guid: objectGUID is made by us and sent with an add.
        writes_default_security: objects get a security descriptor from us (decision M41).
        create_time_attributes: where CreateTime is read from, first one that is there.
        modify_time_attributes: where ModifyTime is read from, first one that is there.
        operational_attributes: needed by the mapping, and returned only when asked for by name.
        schema_hint: what to do when the schema is missing.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    makes_guid: ClassVar[bool]
    writes_default_security: ClassVar[bool]
    create_time_attributes: ClassVar[tuple[str, ...]]
    modify_time_attributes: ClassVar[tuple[str, ...]]
    operational_attributes: ClassVar[tuple[str, ...]]
    schema_hint: ClassVar[str]

    @abstractmethod
    def recognises(self, root_dse: "Entry") -> bool:
        """Whether this is the server's kind."""

    @abstractmethod
    def naming(self, root_dse: "Entry", override: str | None) -> Naming:
        """The naming contexts, with the base of computers and users replaced by `override`.

        Raises:
            GenericDirectoryError: the root DSE names none.
            ConfigError: the override is no DN.
        """

    @abstractmethod
    def guid_target(self, naming: Naming, guid: UUID) -> GuidTarget:
        """How to look an object up by its objectGUID."""

    @abstractmethod
    def dn_filter(self, dn: str) -> "LdapFilter":
        """A filter that matches the object of that DN, for looking up many at once."""

    @abstractmethod
    def class_filter(self, ldap_class: str) -> "LdapFilter":
        """A filter for objects of a class, and no others (decision M32)."""

    @abstractmethod
    def read_controls(self, attributes: Iterable[str]) -> "tuple[Control, ...]":
        """Controls that reading these attributes needs (decision M13)."""

    @abstractmethod
    def write_controls(self, attributes: Iterable[str]) -> "tuple[Control, ...]":
        """Controls that writing these attributes needs."""

    @abstractmethod
    def references_control(
        self, root_dse: "Entry", references: Mapping[str, Sequence[str]]
    ) -> "tuple[Control, ...]":
        """What makes a page bring along the objects that its entries refer to; none if it cannot."""

    @abstractmethod
    def explain(self, result: "LdapResult", operation: str, dn: str | None) -> DirectoryError | None:
        """The error for a result that means something special on this server; None: the general one."""

    @abstractmethod
    def bound_sid(self, session: Identity) -> str | None:
        """The SID of the bound identity, if it has one (decision M22)."""


def choose(root_dse: "Entry", wanted: str, profiles: Mapping[str, Profile]) -> Profile:
    """The profile of a server.

    Raises:
        ConfigError: no profile of that name.
        GenericDirectoryError: the root DSE fits none.
    """
    if wanted != AUTO:
        try:
            return profiles[wanted.lower()]
        except KeyError:
            known = ", ".join(repr(name) for name in (AUTO, *profiles))
            raise ConfigError(f"profile={wanted!r} is unknown: use one of {known}") from None
    for profile in profiles.values():
        if profile.recognises(root_dse):
            return profile
    raise GenericDirectoryError(
        f"this kind of directory server is not known: {describe(root_dse)}",
        hint=f"if it behaves like one of {', '.join(profiles)}, say so with profile=",
    )


def describe(root_dse: "Entry") -> str:
    """What a root DSE says about its server, for people."""
    found = []
    for attribute in ("vendorName", "vendorVersion", "objectClass", "namingContexts"):
        values = root_dse.all(attribute)
        if values:
            found.append(f"{attribute}={', '.join(value.decode(errors='replace') for value in values)}")
    return "; ".join(found) or "its root DSE shows nothing to this user"


def context(root_dse: "Entry", attribute: str) -> DN | None:
    """A naming context of the root DSE.

    Raises:
        GenericDirectoryError: it is no distinguished name.
    """
    value = root_dse.first(attribute)
    return context_dn(value, attribute) if value else None


def context_dn(value: bytes, attribute: str) -> DN:
    """A naming context as a name.

    Raises:
        GenericDirectoryError: it is none.
    """
    try:
        return DN.parse(value.decode())
    except ValueError as error:
        raise GenericDirectoryError(f"the root DSE's {attribute} is no distinguished name: {error}") from None


def chosen_root(override: str | None, root: DN) -> DN:
    """The base of computers and users.

    Raises:
        ConfigError: the override is no DN.
    """
    if override is None:
        return root
    try:
        return DN.parse(override)
    except ValueError as error:
        raise ConfigError(f"naming_context={override!r} is no distinguished name: {error}") from None
