"""Types and columns that rules may speak of: those of the mapping table, and the technical ones."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqdssm.spark.columns import TYPES, Column, columns_of
from mqdssm.tables.syntax import Kind

UNREADABLE: Final = "Unreadable"
"""Column with ``Attribute: reason`` of each value that could not be decoded; NULL when all is well."""
EXTENSION: Final = "mSMQQueueNameExt"
"""Column with the stored second part of a long queue name."""
ORIGINAL: Final = "OriginalIdentifier"
"""Column with the GUID of a migrated object in its old directory (decision M37)."""
STORED_SECURITY: Final = "StoredSecurity"
"""Column with the descriptor as Active Directory holds it, where Security is a translation (decision M31)."""

DESCRIPTORS: Final = ("enterprise", "site", "queue-manager", "queue")
DIRECTORY: Final = "directory"
"""Not a type of objects: what a finding about the server itself is of."""


def _column(name: str, kind: Kind, *, many: bool = False) -> Column:
    return Column(name, "", kind, many)


SETTINGS: Final = (
    _column("Identifier", Kind.GUID),
    _column("FullPath", Kind.DN),
    _column("QueueManagerIdentifier", Kind.GUID),
    _column("Services", Kind.INTEGER),
    _column("RoutingServer", Kind.BOOLEAN),
    _column("DirectoryServer", Kind.BOOLEAN),
    _column("SupportingServer", Kind.BOOLEAN),
)
COMPUTER: Final = (
    _column("Identifier", Kind.GUID),
    _column("FullPath", Kind.DN),
    _column("Name", Kind.TEXT),
    _column("AccountName", Kind.TEXT),
    _column("DnsHostName", Kind.TEXT),
    _column("ServicePrincipalNames", Kind.TEXT, many=True),
    _column("Sid", Kind.SID),
    _column("OperatingSystemVersion", Kind.TEXT),
)
_UNREADABLE_COLUMN: Final = _column(UNREADABLE, Kind.TEXT, many=True)
_TECHNICAL: Final[Mapping[str, tuple[Column, ...]]] = {
    "queue": (
        _column(EXTENSION, Kind.TEXT),
        _column(ORIGINAL, Kind.GUID),
        _column(STORED_SECURITY, Kind.BYTES),
    ),
    "queue-manager": (_column(ORIGINAL, Kind.GUID), _column(STORED_SECURITY, Kind.BYTES)),
    "site": (_column(STORED_SECURITY, Kind.BYTES),),
    "enterprise": (_column(STORED_SECURITY, Kind.BYTES),),
    "settings": (_column(ORIGINAL, Kind.GUID),),
}


def _frame(name: str, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return (*columns, *_TECHNICAL.get(name, ()), _UNREADABLE_COLUMN)


FRAMES: Final[Mapping[str, tuple[Column, ...]]] = MappingProxyType(
    {
        **{name: _frame(name, columns_of(element)) for name, element in TYPES.items()},
        "settings": _frame("settings", SETTINGS),
        "computer": _frame("computer", COMPUTER),
    }
)
"""Every column that a rule may speak of, by the type's name on the command line."""
ALL: Final = tuple(FRAMES)
"""All types of objects."""
PLACED: Final = tuple(
    name for name, columns in FRAMES.items() if any(column.name == "FullPath" for column in columns)
)
"""Types whose objects say where they are."""
