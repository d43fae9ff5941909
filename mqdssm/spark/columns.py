"""Columns of the elements as data frames, derived from the mapping table: no attribute is named here.

A column is called as the specification calls the attribute, and its type follows from the element's model:

=====================  =========================  =================================================
abstract value         column                     remark
=====================  =========================  =================================================
GUID                   string                     lower case with hyphens, as PostgreSQL's uuid
string, SID, DN        string
integer, quota         long                       unsigned 32-bit values have no Arrow form in Spark
boolean                boolean
enumeration            string                     the specification's name, as ``Body``; an unknown
                                                  number stays a number in text
time                   timestamp                  UTC; abstract values are seconds since 1970
bytes                  binary                     the exact image: descriptors, keys, certificates
list                   array of the above
=====================  =========================  =================================================

Times are timestamps, not seconds: whoever opens the Parquet file elsewhere sees an instant that needs no
explanation, compares it with a date and is not asked for the unit.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.fieldtypes import spec_name
from mqdssm.tables import TABLES
from mqdssm.tables.row import Access
from mqdssm.tables.syntax import Kind

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
    """

    name: str
    field: str
    kind: Kind
    many: bool = False


def element_of(name: str) -> type[DirectoryObject]:
    """Find an element by the specification's name or by that of the command line, in any case.

    Raises:
        ValueError: there is no such element, or it cannot be read.
    """
    wanted = name.replace("-", "").lower()
    for type_name, element in TYPES.items():
        if type_name.replace("-", "") == wanted:
            return element
    raise ValueError(f"{name!r} is no type: use one of {', '.join(TYPES)}")


def columns_of(element: type[DirectoryObject], names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """List the columns of an element, in the order of the mapping table or as asked for.

    Args:
        element: a class of the abstract model.
        names: the specification's names of the attributes wanted; None is all that can be read.

    Raises:
        ValueError: an attribute that the element does not have or that cannot be read, or one named twice.
    """
    columns = {
        row.adm: Column(row.adm, row.field, row.kind, row.multi)
        for row in TABLES[element].rows
        if Access.READ in row.access
    }
    if names is None:
        return tuple(columns.values())
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice: {', '.join(names)}")
    for name in names:
        if name not in columns:
            element.field_name(name)  # names the likely one where the attribute does not exist at all
            raise ValueError(f"{element.element_name}.{name} cannot be read")
    return tuple(columns[name] for name in names)


def enum_name(value: Any) -> str:
    """Name a value of an enumeration as the specification does; an unknown number stays a number."""
    return spec_name(value) if isinstance(value, Enum) else str(value)


CONVERT: Final[Mapping[Kind, Callable[[Any], Any]]] = types.MappingProxyType(
    {Kind.GUID: str, Kind.ENUMERATION: enum_name}
)
"""How values become what their column holds; the others are it already."""
