"""Types and columns that rules may use: those of the data source, for every kind of source."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqdssm.pipeline.frames import columns
from mqdssm.pipeline.frames.columns import FRAME_TYPES, NAME_EXTENSION, SERVICE_TYPE, Column

UNREADABLE: Final = columns.UNREADABLE.name
"""Column with ``Attribute: reason`` of each value that could not be decoded; NULL if there is none."""
EXTENSION: Final = NAME_EXTENSION.adm
"""Column with the stored second part of a long queue name."""
SERVICE: Final = SERVICE_TYPE.adm
"""Column with the stored roles of a queue manager."""
ORIGINAL: Final = columns.ORIGINAL_IDENTIFIER.name
"""Column with the GUID of a migrated object in its old directory (decision M37)."""
STORED_SECURITY: Final = columns.STORED_SECURITY.name
"""Column with the descriptor as Active Directory holds it, if Security is a translation (decision M31)."""

DIRECTORY: Final = "directory"
"""Type of findings about the server itself; no type of objects."""

FRAMES: Final[Mapping[str, tuple[Column, ...]]] = MappingProxyType(
    {name: frame.columns for name, frame in FRAME_TYPES.items() if frame.ldap_class is not None}
)
"""Columns that a rule may use, by the type's name on the command line; without raw entries."""


def _having(column: str) -> tuple[str, ...]:
    return tuple(name for name, found in FRAMES.items() if any(one.name == column for one in found))


ALL: Final = tuple(FRAMES)
"""All types of objects."""
PLACED: Final = _having("FullPath")
"""Types whose objects have a DN."""
SECURED: Final = _having("Security")
"""Types whose objects have a security descriptor for access checks."""
