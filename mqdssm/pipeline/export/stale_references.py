"""What rows of an export tell of other objects, and which of them tell what is not so any more.

A queue's row names its computer, a queue manager's its routing servers. When those change, nothing of the
object itself does: neither its name nor its stamp. So these columns alone are read once more, and compared.
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
"""An object, and what its row tells of others, as text that is equal where the values are."""


def columns_told(type_name: str) -> tuple[str, ...]:
    """The columns of a type that are made of other objects: of the computer, or of those referred to."""
    return tuple(name for name, row in FRAME_TYPES[type_name].rows.items() if _is_of_others(row))


def _is_of_others(row: Row) -> bool:
    return row.holder is Holder.COMPUTER or bool(row.computer_ldap) or row.computed in REFERRED_CLASSES


def outdated(
    directory: "Directory", folder: ExportFolder, plan: ExportPlan, name: str, files: Iterable[ItemFinished]
) -> pa.Array:
    """The keys of the objects whose rows tell of others what is not so any more.

    Args:
        directory: that was read.
        folder: of the export.
        plan: what was exported. LDIF has objects as they are stored, which tells nothing of others.
        name: of the type.
        files: those of the type.

    Raises:
        DirectoryError: the search did not come to an end.
    """
    told = columns_told(name)
    if not told or plan.format == "ldif":
        return pa.array([], pa.string())
    frame = FRAME_TYPES[name]
    wanted = [one for one in frame.rows if one in told or one in KEY_COLUMNS] + [UNREADABLE.name]
    held = [_told(batch, told) for one in files for batch in _held(folder, plan, one, wanted)]
    found = [_told(batch, told) for batch in read_batches(directory, frame, frame.select(wanted))]
    now, before = (pa.Table.from_batches(batches, schema=_TOLD) for batches in (found, held))
    # what is not held at all is found by its key
    return now.join(before, _TOLD.names, join_type="left anti").column("key")


def _held(
    folder: ExportFolder, plan: ExportPlan, one: ItemFinished, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Some columns of a file."""
    path = folder.path / one.file.path
    if plan.format == "parquet":
        yield from pq.read_table(path, columns=names).to_batches()
    else:
        table = _READERS[plan.format](path, columns(one.file.path.partition("/")[0]))
        yield from table.select(names).to_batches()


def _told(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """What the rows tell of others; of what could not be decoded, only what belongs to these columns."""
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
