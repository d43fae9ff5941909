"""Types and columns that can be compared.

A comparable column is on both sides, and no other column implies it. The others are listed with a reason, so
that nobody takes them as equal.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError
from mqdssm.model.elements import QueueManager
from mqdssm.model.enums import DirectoryServerType
from mqdssm.model.fieldtypes import spec_name
from mqdssm.model.suggestions import suggest_name
from mqdssm.pipeline.frames.columns import (
    CONVERT,
    FRAME_TYPES,
    ORIGINAL_IDENTIFIER,
    UNREADABLE,
    Column,
    FrameType,
)
from mqdssm.pipeline.validate.rules.rule import FRAMES
from mqdssm.tables import TABLES
from mqdssm.tables.references import REFERENCES
from mqdssm.tables.row import Access, Computed, Holder, Missing, Row
from mqdssm.tables.syntax import Kind

if TYPE_CHECKING:
    from mqdssm.pipeline.diff.sides import Side

KEY: Final = "Identifier"
SELF_SAID: Final = Access.CREATE | Access.WRITE | Access.NAME
_OF_QUEUE_MANAGERS: Final = frozenset(
    attribute
    for row in TABLES[QueueManager].rows
    if row.holder is Holder.COMPUTER and row.access & SELF_SAID
    for attribute in row.written
)
"""LDAP attributes of computer objects that hold properties of a queue manager."""
"""`SELF_SAID`: access of attributes that a creator sets. A server sets or computes the others."""
DIRECTORY_SERVER_TYPE: Final = "DirectoryServerType"
_BY: Final[Mapping[str, str]] = {
    "user": "SecurityIdentifier",  # the same account may have another GUID in each directory (decision M44)
}
CERTIFICATES: Final = ("CertificateDigestList", "Certificates")
"""Columns that make an account a user of MSMQ. A directory holds all accounts, MQIS only such users."""
REFERRED: Final = ("site", "queue-manager")
"""Types whose objects are referred to by GUID."""
SINGLE: Final = frozenset({"enterprise"})
"""Types with one object in each source, which are compared without regard to GUIDs (decision M44)."""


@dataclass(frozen=True, slots=True)
class Field:
    """Column that is compared.

    Attributes:
        column: of the frame.
        row: of the mapping table; None if no attribute holds the column.
        default: value that NULL stands for; None: no value.
        lenient: True if NULL in MQIS tables equals any value, as a directory needs the attribute.
        refers: True if the column names other objects by their GUIDs.
    """

    column: Column
    row: Row | None
    default: Any = None
    lenient: bool = False
    refers: bool = False

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def ignores_case(self) -> bool:
        """True if the case of letters is ignored.

        The join may convert such values to lower case.
        """
        return self.column.kind in {Kind.TEXT, Kind.DN}

    @property
    def is_place(self) -> bool:
        """True if the column is the DN of the object.

        The DN is compared without the root of the tree.
        """
        return self.row is not None and self.row.computed is Computed.FULL_PATH


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Type, column or group of objects that is not compared.

    Attributes:
        type: of the objects.
        column: its name, or words for a group of objects; empty: the whole type.
        reason: for the message.
    """

    type: str
    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.type}{'.' if self.column else ''}{self.column}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ComparableType:
    """Type of objects and its compared columns. Pickling keeps the names alone.

    Attributes:
        type: name, as on the command line.
        fields: in the order of the mapping table.
    """

    type: str
    fields: tuple[Field, ...]

    def __reduce__(
        self,
    ) -> tuple[Callable[[str, tuple[str, ...]], "ComparableType"], tuple[str, tuple[str, ...]]]:
        return compared_of, (self.type, tuple(field.name for field in self.fields))

    @property
    def frame(self) -> FrameType:
        """Frame type of the objects."""
        return FRAME_TYPES[self.type]

    @property
    def identity(self) -> str:
        """Name of the column that identifies an object, unless it is NULL."""
        return _BY.get(self.type, KEY)


def compared_of(type_name: str, columns: Sequence[str]) -> ComparableType:
    """Return a comparable type with these columns."""
    frame = FRAME_TYPES[type_name]
    fields = (field_of(type_name, column, frame.rows.get(column.name)) for column in frame.select(columns))
    return ComparableType(type_name, tuple(fields))


def choose(
    a: "Side", b: "Side", types: Collection[str] | None, ignored: Collection[str]
) -> tuple[tuple[ComparableType, ...], tuple[LeftOut, ...]]:
    """Choose the types and columns to compare, and list those that are left out.

    Args:
        a: the first side.
        b: the second side.
        types: names of types; None: all that both sides have.
        ignored: columns to leave out, as ``Label`` or ``queue.Label``.

    Raises:
        ConfigError: an unknown type or column, or no common type.
    """
    check_ignored(ignored)
    comparable: list[ComparableType] = []
    left_out: list[LeftOut] = []
    for name in FRAMES:
        if types is not None and name not in types:
            continue
        lacking = [side for side in (a, b) if name not in side.sets]
        if lacking:
            # a directory may hold such objects although they were not read
            left_out += [
                LeftOut(name, "", f"{side.label} holds no such objects")
                for side in lacking
                if not side.is_directory
            ]
            continue
        fields, out = _select_fields(name, a, b, ignored)
        comparable.append(ComparableType(name, fields))
        left_out += out
        if name == "user" and (a.root is None) != (b.root is None):
            left_out.append(LeftOut(name, "accounts without certificates", "no users of MSMQ"))
    if not comparable:
        raise ConfigError(f"nothing to compare: {a.label} and {b.label} hold no type of objects in common")
    return tuple(comparable), tuple(left_out)


def check_ignored(ignored: Collection[str]) -> None:
    """Refuse the name of an unknown column.

    Raises:
        ConfigError: an unknown type or column; the message suggests a similar name.
    """
    column_names = {column.name for frame in FRAME_TYPES.values() for column in frame.columns}
    for attribute in ignored:
        type_name, _, column = attribute.rpartition(".")
        if type_name and type_name not in FRAMES:
            raise ConfigError(f"{attribute}: there is no type {type_name}; there are {', '.join(FRAMES)}")
        of_type = {field.name for field in FRAME_TYPES[type_name].columns} if type_name else column_names
        if column not in of_type:
            hint = suggest_name(column, of_type, otherwise="")
            raise ConfigError(f"there is no attribute {attribute} to ignore{hint}")


def _select_fields(
    name: str, a: "Side", b: "Side", ignored: Collection[str]
) -> tuple[tuple[Field, ...], list[LeftOut]]:
    frame = FRAME_TYPES[name]
    fields: list[Field] = []
    left_out: list[LeftOut] = []
    for column in frame.columns:
        if column.name in {KEY, _BY.get(name), ORIGINAL_IDENTIFIER.name}:
            continue  # these columns identify objects
        row = frame.rows.get(column.name)
        reason = _explain_left_out(frame, column, row, (a, b), ignored)
        if reason:
            left_out.append(LeftOut(name, column.name, reason))
        else:
            fields.append(field_of(name, column, row))
    return tuple(fields), left_out


def references_of(type_name: str) -> frozenset[str]:
    """Return the columns of a type that name other objects."""
    references = REFERENCES.get(FRAME_TYPES[type_name].ldap_class or "", {})
    return frozenset(reference.adm for reference in references.values())


def list_needed_types(types: Collection[str] | None, *, mending: bool) -> frozenset[str] | None:
    """Return the types that a comparison has to read; None: all.

    Args:
        types: names of the types to compare; None: all.
        mending: True if LDIF is made, which needs computers and the targets of references.
    """
    if types is None:
        return None
    refer = any(references_of(name) for name in types)
    more = (*REFERRED, "computer") if mending else REFERRED if refer else ()
    return frozenset((*types, *more))


def field_of(type_name: str, column: Column, row: Row | None) -> Field:
    """Return the rules for comparing a column.

    Args:
        type_name: of the objects.
        column: of the frame.
        row: of the mapping table.
    """
    default = None
    if row is not None and row.has_default:
        convert = CONVERT.get(column.kind)
        default = row.default if convert is None or column.many else convert(row.default)
    elif type_name == "queue-manager" and column.name == DIRECTORY_SERVER_TYPE:
        # not set if the queue manager is no directory server, which Standalone states ([MS-MQDSSM]
        # 3.1.6.11.1.5)
        default = spec_name(DirectoryServerType.STANDALONE)
    lenient = row is not None and row.missing in {Missing.ERROR, Missing.ERROR_IF_ASKED}
    return Field(column, row, default, lenient, column.name in references_of(type_name))


def _explain_left_out(
    frame: FrameType, column: Column, row: Row | None, sides: Sequence["Side"], ignored: Collection[str]
) -> str:
    """Return the reason for not comparing a column; empty if it is compared."""
    if column.name in ignored or f"{frame.name}.{column.name}" in ignored:
        return "ignored, as asked for"
    if row is not None:
        if row.holder is Holder.COMPUTER and not row.access & SELF_SAID:
            return "an attribute of the computer, compared there"
        if frame.element is None and row.ldap[0] in _OF_QUEUE_MANAGERS:
            return "an attribute of the queue manager, compared there"
        is_place = row.computed is Computed.FULL_PATH
        if frame.element is not None and not row.access & SELF_SAID and not is_place:
            return "set by the server, or follows from other attributes"
        if is_place and any(side.root is None for side in sides):
            return "MQIS tables are no tree"
    elif column != UNREADABLE:
        return "the stored form of another attribute"
    for side in sides:
        if column.name not in side.sets[frame.name].types:
            return f"{side.label} has no such column"
    return ""
