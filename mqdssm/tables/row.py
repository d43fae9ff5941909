"""Rows of the one table.

A row says where one attribute of the abstract model is kept in the directory, how its value is carried,
what an unset value means and which events may touch it. The adapter, ``ldif/``, the documentation and
Spark's columns are derived from rows.
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
    """Which events know an attribute, by the tables of [MS-MQDSSM]."""

    READ = 1
    """It can be read (3.1.6.10 and 3.1.6.11)."""
    CREATE = 2
    """A create stores it in an attribute of its own (3.1.6.1.x.2 and what follows it)."""
    WRITE = 4
    """A write changes it (3.1.6.7.x.2 and what follows it)."""
    FILTER = 8
    """It has an LDAP attribute in the filter tables (3.1.6.4.x.2); others are filtered by us (M17)."""
    SORT = 16
    """Results can be sorted by it: it is in the tables of 3.1.6.10 (3.1.6.4)."""
    NAME = 32
    """A create and a look-up make the object's DN from it (2.2.1)."""


class Missing(Enum):
    """What an LDAP attribute that the entry does not have means ([MS-MQDSSM] 3.1.6.11)."""

    ERROR = "error"
    """The object cannot be read: GenericError."""
    ERROR_IF_ASKED = "error if asked by name"
    """GenericError if the attribute was asked for by name, else it stays unpopulated (M26, M41)."""
    DEFAULT = "default"
    """The row's default takes its place."""
    UNPOPULATED = "unpopulated"
    """The attribute stays unpopulated."""


class Holder(Enum):
    """The entry that holds the LDAP attributes ([MS-MQDSSM] 3.1.6.20.1)."""

    OWN = "own entry"
    COMPUTER = "computer"


class Computed(StrEnum):
    """How an abstract value is made where no value is simply copied; ``compute`` has the pure parts."""

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
"""Stands in ``Row.default`` where the row has none."""


_LETTERS: Final = {
    "R": Access.READ,
    "C": Access.CREATE,
    "W": Access.WRITE,
    "F": Access.FILTER,
    "S": Access.SORT,
    "N": Access.NAME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attribute of an element.

    Attributes:
        adm: the specification's name of the attribute.
        field: its name in the model.
        ldap: LDAP attributes that are read for it, in the order of [MS-MQDSSM] 3.1.6.10. ``whenCreated``,
            ``whenChanged`` and ``distinguishedName`` are abstract: a server's profile may know better ones.
        syntax: how values of the first LDAP attribute are carried.
        access: which events know it.
        missing: what an unset LDAP attribute means.
        propid: its number in MSMQ's own protocols ([MS-MQMQ] 2.3), if it has one of its own.
        sections: where [MS-MQDSSM] describes it.
        multi: the abstract value is a tuple.
        holder: the entry that holds it.
        computed: how it is made, where the value is not just carried by ``syntax``.
        kind: what (each item of) the abstract value is; that of the syntax unless computed otherwise.
        default: the abstract value where ``missing`` is DEFAULT.
        written: LDAP attributes that creates and writes send for it, where these are not ``ldap``.
        computer_ldap: LDAP attributes of the computer that are read besides ``ldap``.
        one_of_set: the LDAP attribute can hold several values though the abstract one is single (M10).
        unit: of numbers, as ``KB``.
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
        """Whether an unset LDAP attribute stands for ``default``."""
        return self.missing is Missing.DEFAULT

    @property
    def in_catalog(self) -> bool:
        """Whether a global catalog of Active Directory holds all that it is read from (decision M73)."""
        return all(map(schema.in_catalog, (*self.ldap, *self.computer_ldap)))

    def decode(self, values: Sequence[bytes]) -> Any:
        """The abstract value of an LDAP attribute, for rows that are not computed.

        Args:
            values: the attribute's values as the server sent them, at least one.

        Raises:
            MappingError: a value that the syntax does not know, or several where one is expected; the text
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
        """The values to send for an abstract value, for rows that are not computed.

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
                schema.attribute(self.ldap[0]).check_length(_length(raw, self.kind))
            except ValueError as error:
                raise MappingError(f"is too long or too short: {error}") from None
        return raw


_MEASURED: Final = frozenset((Kind.TEXT, Kind.BYTES, Kind.GUID))


def _length(raw: bytes, kind: Kind) -> int:
    """UTF-16 code units of text, else bytes: what ranges in Active Directory's schema count."""
    return len(raw.decode().encode("utf-16-le")) // 2 if kind is Kind.TEXT else len(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMaker:
    """Makes the rows of one element from columns that a reader can compare with the specification.

    Attributes:
        read: sections that tell how every attribute of the element is read.
        create: section that lists what a create stores.
        write: section that lists what a write changes.
        filter: section that lists what can be filtered by.
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
            syntax: of the first of them.
            events: letters of R(ead) C(reate) W(rite) F(ilter) S(ort) N(ame).
            unset: a member of Missing, or the default.
            propid: PROPID number or None.
            kind: of the abstract value, where it is not that of the syntax.
            see: more sections, with blanks between.
            **more: further attributes of the row.
        """
        access = Access(0)
        for letter in events:
            access |= _LETTERS[letter]
        missing = unset if isinstance(unset, Missing) else Missing.DEFAULT
        return Row(
            adm=adm,
            field=snake_case(adm),
            ldap=tuple(ldap.split()),
            syntax=syntax,
            access=access,
            missing=missing,
            default=unset if missing is Missing.DEFAULT else NO_DEFAULT,
            propid=propid,
            sections=self._sections(access, see),
            kind=kind or syntax.kind,
            **more,
        )

    def _sections(self, access: Access, see: str) -> tuple[str, ...]:
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


def snake_case(adm: str) -> str:
    """The model's name of an attribute: ``Site1Identifier`` is ``site1_identifier``."""
    return _WORD_BOUNDARY.sub("_", adm).lower()


_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
