"""Exported rows with outdated columns about other objects.

The row of a queue names its computer, and the row of a queue manager its routing servers. When those objects
change, the DN and the stamp of the exported object stay. So these columns are read again and compared.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.export.journal import ExportFolder, ExportPlan, ItemFinished
from mqdssm.pipeline.export.objects import KEY_COLUMNS, columns, key_of_batch
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES, UNREADABLE
from mqdssm.pipeline.texts import jsonl_records, read_csv, read_jsonl
from mqdssm.tables.references import REFERRED_CLASSES
from mqdssm.tables.row import Holder, Row

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

_READERS: Final = {"csv": read_csv, "jsonl": read_jsonl}

_TOLD: Final = pa.schema([("key", pa.string()), ("told", pa.binary())])
"""Key of an object, and its columns about other objects as JSON, which is equal for equal values."""


def columns_told(type_name: str) -> tuple[str, ...]:
    """Return the columns of a type that come from other objects: the computer, or referred objects."""
    return tuple(name for name, row in FRAME_TYPES[type_name].rows.items() if _is_of_others(row))


def _is_of_others(row: Row) -> bool:
    return row.holder is Holder.COMPUTER or bool(row.computer_ldap) or row.computed in REFERRED_CLASSES


def outdated(
    directory: "Directory", folder: ExportFolder, plan: ExportPlan, name: str, files: Iterable[ItemFinished]
) -> pa.Array:
    """Return the keys of the objects whose rows have outdated columns about other objects.

    New objects are among them. The result is empty for LDIF, whose stored entries have no such columns.

    Args:
        directory: that was read.
        folder: of the export.
        plan: of the export.
        name: of the type.
        files: of the type.

    Raises:
        DirectoryError: the search failed.
    """
    told = columns_told(name)
    if not told or plan.format == "ldif":
        return pa.array([], pa.string())
    frame = FRAME_TYPES[name]
    wanted = [one for one in frame.rows if one in told or one in KEY_COLUMNS] + [UNREADABLE.name]
    held = [_told(batch, told) for one in files for batch in _held(folder, plan, one, wanted)]
    found = [_told(batch, told) for batch in read_batches(directory, frame, frame.select(wanted))]
    now, before = (pa.Table.from_batches(batches, schema=_TOLD) for batches in (found, held))
    # also returns objects that the files do not hold
    return now.join(before, _TOLD.names, join_type="left anti").column("key")


def _held(
    folder: ExportFolder, plan: ExportPlan, one: ItemFinished, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of an export file."""
    path = folder.path / one.file.path
    if plan.format == "parquet":
        yield from pq.read_table(path, columns=names).to_batches()
    else:
        table = _READERS[plan.format](path, columns(one.file.path.partition("/")[0]))
        yield from table.select(names).to_batches()


def _told(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return key and JSON of some columns of each row, with the decoding errors of these columns."""
    keys, _ = key_of_batch(batch)
    reasons = [
        [one for one in all_of or () if one.partition(":")[0] in names]
        for all_of in batch.column(UNREADABLE.name).to_pylist()
    ]
    lost = pa.array(reasons, pa.list_(pa.string()))
    shown = pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in names), lost], names=[*names, UNREADABLE.name]
    )
    return pa.RecordBatch.from_arrays([keys, pa.array(jsonl_records(shown), pa.binary())], schema=_TOLD)
