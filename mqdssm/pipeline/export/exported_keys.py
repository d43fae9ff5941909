"""Keys of the objects in the finished files of an export, and removal of objects from files."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdssm.pipeline.export.file_writer import KEYS_SCHEMA, ExportFile, PartOptions, RowBatch
from mqdssm.pipeline.export.journal import ExportFolder, ExportPlan, ItemFinished
from mqdssm.pipeline.export.objects import KEY_COLUMNS, key_of_batch

if TYPE_CHECKING:
    from pathlib import Path

_BATCH_ROWS: Final = 10_000


ExportedKeys = Mapping[int, set[tuple[str, str | None]]]
"""Series -> key and DN of each object in its files."""


def keys_in(folder: ExportFolder, plan: ExportPlan, one: ItemFinished) -> pa.Table:
    """Return key and DN of each row of a file, in order, and its size in bytes for text files."""
    if plan.format != "parquet":
        return pq.read_table(folder.keys_path(one.file.path), schema=KEYS_SCHEMA)
    path = folder.path / one.file.path
    names = [name for name in KEY_COLUMNS if name in pq.read_schema(path).names]
    batches = pq.read_table(path, columns=names).combine_chunks().to_batches()
    if not batches:
        return KEYS_SCHEMA.empty_table()
    keys, dns = key_of_batch(batches[0])
    return pa.Table.from_arrays([keys, dns, pa.nulls(len(keys), pa.int64())], schema=KEYS_SCHEMA)


def read_exported_keys(folder: ExportFolder, plan: ExportPlan, files: Iterable[ItemFinished]) -> ExportedKeys:
    """Return the keys and DNs of the objects in some files."""
    held: dict[int, set[tuple[str, str | None]]] = {}
    for one in files:
        keys = keys_in(folder, plan, one)
        pairs = zip(keys.column("key").to_pylist(), keys.column("dn").to_pylist(), strict=True)
        held.setdefault(one.series, set()).update(pairs)
    return held


def rewritten(
    options: PartOptions, one: ItemFinished, plan: ExportPlan, number: int, gone: pa.Array
) -> ItemFinished:
    """Write a copy of a file without some objects, under a new number; the old file stays.

    Args:
        options: for the files of its work item.
        one: the file.
        plan: of the export.
        number: of the new file in its series.
        gone: keys of the objects to leave out.
    """
    keys = keys_in(options.folder, plan, one)
    keep = pc.invert(pc.is_in(keys.column("key"), value_set=gone)).combine_chunks()
    path = options.folder.path / one.file.path
    part = ExportFile(options, one.series, number)
    try:
        source = _batches(path) if plan.format == "parquet" else _texts(path, len(options.head), keys)
        start = 0
        for data in source:
            mask = keep.slice(start, len(data))
            kept = keys.slice(start, len(data)).filter(mask).combine_chunks()
            start += len(data)
            left = (
                data.filter(mask)
                if isinstance(data, pa.RecordBatch)
                else [text for text, wanted in zip(data, mask.to_pylist(), strict=True) if wanted]
            )
            if kept.num_rows:  # they fit: the old file held them
                part.add(RowBatch(_one(kept, "key"), _one(kept, "dn"), left, one.series))
        return part.finish()
    except BaseException:
        part.abandon()
        raise


def _one(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def _batches(path: "Path") -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=_BATCH_ROWS)


def _texts(path: "Path", head: int, keys: pa.Table) -> Iterator[list[bytes]]:
    """Yield the texts of the rows of a file, in lists of up to `_BATCH_ROWS`."""
    sizes = keys.column("bytes").to_pylist()
    with path.open("rb") as file:
        file.seek(head)
        for start in range(0, len(sizes), _BATCH_ROWS):
            yield [file.read(size) for size in sizes[start : start + _BATCH_ROWS]]
