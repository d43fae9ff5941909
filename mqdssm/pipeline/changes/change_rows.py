"""Rows of changes, with the columns of the changed objects."""

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from mqdssm.directory.filters import Equal, any_of
from mqdssm.events.facade import Directory
from mqdssm.model.watching import ChangeEvent, ObjectChange
from mqdssm.pipeline.frames.arrow import find_arrow_type, make_arrow_schema
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import Column, FrameType
from mqdssm.tables.syntax import Kind

SEQUENCE: Final = "Sequence"
CHANGE_ID: Final = "ChangeId"
CHANGE_COLUMNS: Final = (
    Column(SEQUENCE, "sequence", Kind.INTEGER),
    Column(CHANGE_ID, "id", Kind.TEXT),
    Column("Change", "event", Kind.TEXT),
    Column("ObjectType", "type", Kind.TEXT),
    Column("ObjectGuid", "guid", Kind.GUID),
    Column("ObjectName", "dn", Kind.DN),
    Column("SeenTime", "time", Kind.TIME),
    Column("ChangedAttributes", "changes", Kind.TEXT, many=True),
)
"""Columns of a change, before those of its object."""
_IDENTIFIER: Final = "Identifier"
_KEYS_ASKED: Final = 200
"""Number of GUIDs of one search."""


def change_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of changes.

    Args:
        columns: of the objects, from `FrameType.columns`.
    """
    return make_arrow_schema((*CHANGE_COLUMNS, *columns))


def change_rows(
    directory: Directory,
    frame: FrameType,
    columns: Sequence[Column],
    changes: Sequence[ObjectChange],
    first: int,
) -> pa.RecordBatch:
    """Return the rows of changes, with the current columns of their objects.

    See decision M102.
    The columns of an object that does not exist any more, or that has no objectGUID, are NULL.

    Args:
        directory: session with the server that reported the changes; others may not have them yet.
        frame: the type of the objects.
        columns: of the objects.
        changes: at least one.
        first: sequence number of the first change.

    Raises:
        DirectoryError: the objects cannot be read.
    """
    change_guids = [None if change.event is ChangeEvent.DELETED else change.guid for change in changes]
    guids = [guid for guid in dict.fromkeys(change_guids) if guid is not None]
    objects = pa.Table.from_batches(
        _read_objects(directory, frame, columns, guids),
        make_arrow_schema((_select_identifier(frame), *_select_other_columns(columns))),
    )
    place = {guid: row for row, guid in enumerate(objects.column(_IDENTIFIER).to_pylist())}
    chosen = objects.take(pa.array([place.get(str(guid)) for guid in change_guids], pa.int64()))
    change_arrays = [_make_array(column, changes, first) for column in CHANGE_COLUMNS]
    object_arrays = [_join_chunks(chosen.column(column.name)) for column in columns]
    return pa.RecordBatch.from_arrays([*change_arrays, *object_arrays], schema=change_schema(columns))


def _read_objects(
    directory: Directory, frame: FrameType, columns: Sequence[Column], guids: Sequence[UUID]
) -> Iterator[pa.RecordBatch]:
    selected = (_select_identifier(frame), *_select_other_columns(columns))
    for start in range(0, len(guids), _KEYS_ASKED):
        some = guids[start : start + _KEYS_ASKED]
        where = any_of(*(Equal("objectGUID", guid.bytes_le) for guid in some))
        yield from read_batches(directory, frame, selected, where=where)


def _select_identifier(frame: FrameType) -> Column:
    (column,) = frame.select([_IDENTIFIER])
    return column


def _select_other_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(column for column in columns if column.name != _IDENTIFIER)


def _join_chunks(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _make_array(column: Column, changes: Sequence[ObjectChange], first: int) -> pa.Array:
    values: list[Any]
    if column.name == SEQUENCE:
        values = list(range(first, first + len(changes)))
    elif column.kind is Kind.GUID:
        values = [None if change.guid is None else str(change.guid) for change in changes]
    elif column.many:
        values = [sorted(change.changes) for change in changes]
    else:
        values = [getattr(change, column.field) for change in changes]
    return pa.array(values, find_arrow_type(column))
