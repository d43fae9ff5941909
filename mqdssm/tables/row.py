"""Rows of the mapping table.

A row describes the storage of one attribute of the abstract model in the directory: the conversion of its
value, the meaning of an unset value and the events that use it. The adapter, ``ldif/``, the documentation
and Spark's columns are derived from rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag, StrEnum
from typing import Any, Final

from mqdssm.errors import MappingError
from mqdssm.tables import schema
from mqdssm.tables.syntax import Kind, Syntax


class Access(IntFlag):
    """Events that use an attribute, by the tables of [MS-MQDSSM]."""

    READ = 1
    """The attribute can be read (3.1.6.10 and 3.1.6.11)."""
    CREATE = 2
    """A create stores the attribute in an LDAP attribute of its own (3.1.6.1.x.2 and following steps)."""
    WRITE = 4
    """A write changes the attribute (3.1.6.7.x.2 and following steps)."""
    FILTER = 8
    """The filter tables have an LDAP attribute for it (3.1.6.4.x.2); we filter by the others (M17)."""
    SORT = 16
    """Results can be sorted by the attribute: it is in the tables of 3.1.6.10 (3.1.6.4)."""
    NAME = 32
    """A create and a look-up make the object's DN from the attribute (2.2.1)."""


class Missing(Enum):
    """Meaning of an LDAP attribute that is absent ([MS-MQDSSM] 3.1.6.11)."""

    ERROR = "error"
    """The object cannot be read: GenericError."""
    ERROR_IF_ASKED = "error if asked by name"
    """GenericError if the attribute was requested by name, else it stays unpopulated (M26, M41)."""
    DEFAULT = "default"
    """The row's default takes its place."""
    UNPOPULATED = "unpopulated"
    """The attribute stays unpopulated."""


class Holder(Enum):
    """The entry that holds the LDAP attributes ([MS-MQDSSM] 3.1.6.20.1)."""

    OWN = "own entry"
    COMPUTER = "computer"


class Computed(StrEnum):
    """Computation of an abstract value that is not simply copied.

    ``compute`` has the pure parts.
    """

    COMPUTER_NAME = "computer name of the DN"
    FULL_PATH = "DN of the entry"
    DIRECTORY_PATH = "LDAP URL of the DN"
    PATHNAME = "computer and queue name of the DN, mSMQQueueNameExt"
    QUALIFIED_PATHNAME = "dNSHostName of the computer, queue name of the DN, mSMQQueueNameExt"
    DIRECTORY_SERVER_TYPE = "bits 0x02, 0x04, 0x08 of mSMQServiceType if mSMQDsServices is set"
    REMOTE_ACCESS_SERVER = "bit 0x10 of mSMQServiceType"
    QUEUE_MANAGERS = "Identifier of the queue manager at each DN"
    SITE = "Identifier of the site at the DN"
    CLUSTERED = "a servicePrincipalName contains MSClusterVirtualServer"
    SIGNING_KEYS = "mSMQSignCertificates; the digests in it are written to mSMQDigests"
    ENTERPRISE_NAME = "rootDomainNamingContext of the root DSE"


NO_DEFAULT: Final = object()
"""Marker in ``Row.default`` for a row without a default."""


LETTERS: Final = {str(access.name)[0]: access for access in Access}
"""First letter of its name -> access, as in the rows of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of one attribute of an element.

    Attributes:
        adm: the specification's name of the attribute.
        field: its name in the model.
        ldap: LDAP attributes that are read for it, in the order of [MS-MQDSSM] 3.1.6.10. ``whenCreated``,
            ``whenChanged`` and ``distinguishedName`` are abstract: a server's profile may have better ones.
        syntax: conversion of the values of the first LDAP attribute.
        access: events that use it.
        missing: meaning of an unset LDAP attribute.
        propid: its number in MSMQ's own protocols ([MS-MQMQ] 2.3), if it has one of its own.
        sections: sections of [MS-MQDSSM] that describe it.
        multi: True if the abstract value is a tuple.
        holder: the entry that holds it.
        computed: the computation, if the value is not only converted by ``syntax``.
        kind: type of (each item of) the abstract value; that of the syntax unless computed otherwise.
        default: the abstract value if ``missing`` is DEFAULT.
        written: LDAP attributes that creates and writes send for it, if they differ from ``ldap``.
        computer_ldap: LDAP attributes of the computer that are read in addition to ``ldap``.
        one_of_set: the LDAP attribute can hold several values though the abstract one is single (M10).
        unit: unit of numbers, as ``KB``.
    """

    adm: str
    field: str
    ldap: tuple[str, ...]
    syntax: Syntax[Any]
    access: Access
    missing: Missing
    propid: int | None
    sections: tuple[str, ...]
    multi: bool = False
    holder: Holder = Holder.OWN
    computed: Computed | None = None
    kind: Kind
    default: Any = NO_DEFAULT
    written: tuple[str, ...] = ()
    computer_ldap: tuple[str, ...] = ()
    one_of_set: bool = False
    unit: str | None = None

    @property
    def has_default(self) -> bool:
        """True if an unset LDAP attribute means ``default``."""
        return self.missing is Missing.DEFAULT

    @property
    def in_catalog(self) -> bool:
        """True if global catalogs hold all LDAP attributes of the row.

        Only global catalogs of Active Directory count (decision M73).
        """
        return all(map(schema.is_in_catalog, (*self.ldap, *self.computer_ldap)))

    def decode(self, values: Sequence[bytes]) -> Any:
        """Convert the values of an LDAP attribute to the abstract value.

        Only rows that are not computed are converted.

        Args:
            values: the attribute's values as the server sent them, at least one.

        Raises:
            MappingError: an invalid value for the syntax, or several where one is expected; the text
                names the attribute and the value.
        """
        try:
            if self.multi:
                return tuple(map(self.syntax.load, values))
            if len(values) == 1:
                return self.syntax.load(values[0])
        except MappingError as error:
            raise MappingError(f"{self.ldap[0]} {error}") from None
        return self._decode_one_of(values)

    def _decode_one_of(self, values: Sequence[bytes]) -> Any:
        if not values:
            raise MappingError(f"{self.ldap[0]} has no value")
        distinct = {self.decode((value,)) for value in values}
        if len(distinct) > 1:
            raise MappingError(f"{self.ldap[0]} holds {len(values)} different values, one is expected")
        return distinct.pop()

    def encode(self, value: Any) -> tuple[bytes, ...]:
        """Convert an abstract value to the values to send.

        Only rows that are not computed are converted.

        Returns:
            The LDAP values; none for an empty text, octet string or list, which LDAP cannot store (M38).

        Raises:
            MappingError: a value that the syntax, or Active Directory's range for the attribute (M28),
                does not allow; the text names the attribute.
        """
        items = value if self.multi else (value,)
        try:
            raws = [self._encode_one(item) for item in items]
        except MappingError as error:
            raise MappingError(f"{self.ldap[0]} {error}") from None
        return tuple(dict.fromkeys(raw for raw in raws if raw))  # a set: a value twice is refused (20)

    def _encode_one(self, value: Any) -> bytes:
        raw = self.syntax.dump(value)
        if raw and self.kind in _MEASURED:
            try:
                schema.attribute(self.ldap[0]).check_length(_measure_length(raw, self.kind))
            except ValueError as error:
                raise MappingError(f"is too long or too short: {error}") from None
        return raw


_MEASURED: Final = frozenset((Kind.TEXT, Kind.BYTES, Kind.GUID))


def _measure_length(raw: bytes, kind: Kind) -> int:
    """Return the length that ranges of Active Directory's schema limit.

    The length is in UTF-16 units of text, else in bytes.
    """
    return len(raw.decode().encode("utf-16-le")) // 2 if kind is Kind.TEXT else len(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMaker:
    """Maker of the rows of one element.

    A reader can compare its columns with the specification.

    Attributes:
        read: sections about reading the attributes of the element.
        create: section with the attributes that a create stores.
        write: section with the attributes that a write changes.
        filter: section with the attributes for filters.
    """

    read: str
    create: str = ""
    write: str = ""
    filter: str = ""

    def __call__(
        self,
        adm: str,
        ldap: str,
        syntax: Syntax[Any],
        events: str,
        unset: Any,
        *,
        propid: int | None,
        kind: Kind | None = None,
        see: str = "",
        **more: Any,
    ) -> Row:
        """Make one row.

        Args:
            adm: the specification's name.
            ldap: LDAP names, with blanks between.
            syntax: syntax of the first LDAP attribute.
            events: letters of R(ead) C(reate) W(rite) F(ilter) S(ort) N(ame).
            unset: a member of Missing, or the default.
            propid: PROPID number or None.
            kind: type of the abstract value, if it differs from that of the syntax.
            see: more sections, with blanks between.
            **more: further attributes of the row.
        """
        access = Access(0)
        for letter in events:
            access |= LETTERS[letter]
        missing = unset if isinstance(unset, Missing) else Missing.DEFAULT
        return Row(
            adm=adm,
            field=convert_to_snake_case(adm),
            ldap=tuple(ldap.split()),
            syntax=syntax,
            access=access,
            missing=missing,
            default=unset if missing is Missing.DEFAULT else NO_DEFAULT,
            propid=propid,
            sections=self._list_sections(access, see),
            kind=kind or syntax.kind,
            **more,
        )

    def _list_sections(self, access: Access, see: str) -> tuple[str, ...]:
        text = " ".join(
            section
            for flag, section in (
                (Access.READ, self.read),
                (Access.CREATE, self.create),
                (Access.WRITE, self.write),
                (Access.FILTER, self.filter),
            )
            if flag in access
        )
        return tuple(dict.fromkeys(f"{text} {see}".split()))


def convert_to_snake_case(adm: str) -> str:
    """Return the model's name of an attribute.

    ``Site1Identifier`` gives ``site1_identifier``.
    """
    return _WORD_BOUNDARY.sub("_", adm).lower()


_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
