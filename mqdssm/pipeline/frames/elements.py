"""Rows of frames as elements of the abstract model, to be written back into a directory."""

from collections.abc import Mapping
from typing import Any

from mqdssm.model.base import DirectoryObject
from mqdssm.pipeline.frames.columns import TYPES, FrameType
from mqdssm.tables.row import Access, Row


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
    """Return True if the creator of an object can set an attribute, False if only a server computes it."""
    return row.computed is None or bool(row.access & (Access.CREATE | Access.WRITE | Access.NAME))
