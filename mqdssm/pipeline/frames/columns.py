"""Columns of the data frames of elements, from the mapping table.

No attribute is named in this module.
A column has the specification's name of its attribute, and its type follows from the element's model:

=====================  =========================  =================================================
abstract value         column                     remark
=====================  =========================  =================================================
GUID                   string                     lower case with hyphens, as PostgreSQL's uuid
string, SID, DN        string
integer, quota         long                       unsigned 32-bit values have no Arrow form in Spark
boolean                boolean
enumeration            string                     the specification's name, as ``Body``; an unknown
                                                  number is NULL (of MQIS tables: that number)
time                   timestamp                  UTC; abstract values are seconds since 1970
bytes                  binary                     the exact image: descriptors, keys, certificates
list                   array of the above
all attributes         map of arrays of binary    of raw entries; the server's spelling and order
=====================  =========================  =================================================

Times are timestamps, not seconds: other programs that open the Parquet file can compare them with dates,
without knowledge of the unit.

After these there are columns that no attribute of the abstract model has: values that could not be decoded,
and further contents of an entry. There are frames of the elements, of the objects that queue managers need
(settings, computers), and of raw entries (``ldap``).
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.fieldtypes import spec_name
from mqdssm.tables import TABLES
from mqdssm.tables.access import KINDS
from mqdssm.tables.dependent_objects import COMPUTER, SETTINGS, DependentObjectTable
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access, Computed, Missing, Row, RowMaker
from mqdssm.tables.schema import ORIGINAL_GUID_CLASSES
from mqdssm.tables.syntax import DN_TEXT, UINT32, UNICODE, Kind

# names of the types in folders, on the command line and in findings
TYPES: Final[Mapping[str, type[DirectoryObject]]] = types.MappingProxyType(
    {
        "enterprise": Enterprise,
        "site": Site,
        "routing-link": RoutingLink,
        "queue-manager": QueueManager,
        "queue": Queue,
        "user": User,
    }
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an element's data frame.

    Attributes:
        name: the specification's name of the attribute.
        field: name of the model's field.
        kind: kind of one value.
        many: whether the column is a list of such values.
        named: whether it is a map from names to such values.
    """

    name: str
    field: str
    kind: Kind
    many: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FrameType:
    """One type of data frame.

    Attributes:
        name: as on the command line.
        columns: all columns, in order.
        element: class of the abstract model; None for a type that has none.
        ldap_class: the class of the entries; None for raw entries of any class.
        rows: rows of the table for the columns that have one.
    """

    name: str
    columns: tuple[Column, ...]
    element: type[DirectoryObject] | None = None
    ldap_class: str | None = None
    rows: Mapping[str, Row] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Callable[[str], "FrameType"], tuple[str]]:
        return find_frame_type, (self.name,)

    def select(self, names: Sequence[str] | None = None) -> tuple[Column, ...]:
        """Return the columns with some names, in the order of the names; all for None.

        Raises:
            ValueError: a column that there is not, or one named twice.
        """
        if names is None:
            return self.columns
        if len(set(names)) < len(names):
            raise ValueError(f"a column is named twice: {', '.join(names)}")
        by_name = {column.name: column for column in self.columns}
        for name in names:
            if name not in by_name:
                if self.element is not None:
                    # suggests a similar name if the attribute does not exist at all
                    self.element.field_name(name)
                    raise ValueError(f"{self.element.element_name}.{name} cannot be read")
                raise ValueError(f"{self.name} has no column {name!r}; it has {', '.join(by_name)}")
        return tuple(by_name[name] for name in names)


def name_enum(value: Any) -> str:
    """Return the specification's name of an enumeration value.

    An unknown number is returned as text.
    """
    return spec_name(value) if isinstance(value, Enum) else str(value)


CONVERT: Final[Mapping[Kind, Callable[[Any], Any]]] = types.MappingProxyType(
    {Kind.GUID: str, Kind.ENUMERATION: name_enum}
)
"""Functions that convert values into their column's form; kinds without one need no conversion."""

UNREADABLE: Final = Column("Unreadable", "unreadable", Kind.TEXT, many=True)
"""``Attribute: reason`` for each value that could not be decoded; NULL if there is none."""
ORIGINAL_IDENTIFIER: Final = Column("OriginalIdentifier", "original_identifier", Kind.GUID)
"""The object's GUID before it was migrated to a server that makes GUIDs itself (decision M37)."""
STORED_SECURITY: Final = Column("StoredSecurity", "stored_security", Kind.BYTES)
"""The descriptor as the server holds it, if Security is a translation (decision M31); else NULL."""
RAW_TYPE: Final = "ldap"
"""The type of raw entries, which are of any class."""
DN_COLUMN: Final = Column("dn", "dn", Kind.DN)
OBJECT_CLASS: Final = Column("objectClass", "object_class", Kind.TEXT, many=True)
ATTRIBUTES: Final = Column("attributes", "attributes", Kind.BYTES, many=True, named=True)
"""All attributes of a raw entry but objectClass: description as the server wrote it -> values, in order."""

(_STORED_EXTENSION,) = TABLES[Queue].row("Pathname").written
NAME_EXTENSION: Final = RowMaker(read="3.1.6.11.2.1")(
    _STORED_EXTENSION, _STORED_EXTENSION, UNICODE, "R", Missing.UNPOPULATED, propid=None
)
"""The stored second part of a long queue name, from which `Pathname` is computed."""
SERVICE_TYPE: Final = RowMaker(read="3.1.6.1.1.5")(
    "mSMQServiceType", "mSMQServiceType", UINT32, "R", 0, propid=None
)
"""The stored roles of a queue manager, which its flags repeat."""
_STORED: Final[Mapping[str, Row]] = types.MappingProxyType(
    {TABLES[Queue].ldap_class: NAME_EXTENSION, TABLES[QueueManager].ldap_class: SERVICE_TYPE}
)
"""Rows for stored attributes from which elements are computed, by LDAP class."""
_PLACE: Final = RowMaker(read="2.2.1")(
    "FullPath", "distinguishedName", DN_TEXT, "R", Missing.ERROR, propid=None, computed=Computed.FULL_PATH
)
"""Row for the DN of an object, for the element without such an attribute: the enterprise."""


def _make_column(row: Row) -> Column:
    return Column(row.adm, row.field, row.kind, row.multi)


def _make_frame(name: str, table: ElementTable | DependentObjectTable) -> FrameType:
    """Return the frame of a table.

    The frame has the table's rows that can be read, then further contents of an entry.
    """
    rows = [row for row in table.rows if Access.READ in row.access]
    if table.ldap_class in _STORED:
        rows.append(_STORED[table.ldap_class])
    if all(row.computed is not Computed.FULL_PATH for row in rows):
        rows.append(_PLACE)
    columns = [*map(_make_column, rows)]
    if table.ldap_class in ORIGINAL_GUID_CLASSES:
        columns.append(ORIGINAL_IDENTIFIER)
    if table.ldap_class in KINDS:
        columns.append(STORED_SECURITY)
    return FrameType(
        name=name,
        columns=(*columns, UNREADABLE),
        element=table.element if isinstance(table, ElementTable) else None,
        ldap_class=table.ldap_class,
        rows=types.MappingProxyType({row.adm: row for row in rows}),
    )


FRAME_TYPES: Final[Mapping[str, FrameType]] = types.MappingProxyType(
    {
        **{name: _make_frame(name, TABLES[element]) for name, element in TYPES.items()},
        "settings": _make_frame("settings", SETTINGS),
        "computer": _make_frame("computer", COMPUTER),
        RAW_TYPE: FrameType(RAW_TYPE, (DN_COLUMN, OBJECT_CLASS, ATTRIBUTES)),
    }
)
"""All types of frames; the last one, raw entries, is not limited to an LDAP class."""


def find_frame_type(name: str) -> FrameType:
    """Find a type of frame by its name, in any case.

    The name is that of the command line or that of the specification.

    Raises:
        ValueError: there is no such type.
    """
    key = name.replace("-", "").lower()
    for type_name, frame in FRAME_TYPES.items():
        if type_name.replace("-", "") == key:
            return frame
    raise ValueError(f"{name!r} is no type: use one of {', '.join(FRAME_TYPES)}")


def element_of(frame: FrameType, row: Mapping[str, Any]) -> DirectoryObject:
    """Make an element of a row; columns that only a server fills in are left out.

    Args:
        frame: the type.
        row: column -> value, as Arrow's rows have them; NULL is an attribute that is not set.

    Raises:
        ValueError: a value that the attribute does not accept; the text names the attribute.
    """
    element = TYPES[frame.name]
    values = {
        name: row[name]
        for name, of_table in frame.rows.items()
        if row.get(name) is not None and _is_said(of_table) and of_table.field in element.model_fields
    }
    return element.model_validate(values)


def _is_said(row: Row) -> bool:
    """Return True if the creator of an object can set an attribute.

    Returns False if only a server computes it.
    """
    return row.computed is None or bool(row.access & (Access.CREATE | Access.WRITE | Access.NAME))
