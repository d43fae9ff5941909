"""Two sides of a comparison made by hand, and what comparing all of their objects field by field finds."""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.model.dn import DN
from mqdssm.pipeline.diff.comparable_columns import ComparableType, compared_of
from mqdssm.pipeline.diff.fields import KEY, SIDE, FieldByField, Ground
from mqdssm.pipeline.diff.pairing import ORDER, Pair
from mqdssm.pipeline.diff.sides import Side, Sort
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.runner import Piece, StopRequest, Work
from mqdssm.pipeline.validate.datasets import read_dataset

COLUMNS = ("Identifier", "Label", "Quota", "Journaling", "Security", "CreateTime", "FullPath")
COMPARED = ("Label", "Quota", "Journaling", "Security", "FullPath")
ROOTS = ("DC=example,DC=com", "DC=other")


def compared_queues(columns: Sequence[str] = COMPARED) -> ComparableType:
    return compared_of("queue", columns)


def queue_pair(folder: Path, *sides: Sequence[Mapping[str, Any]], guid_map: Path | None = None) -> Pair:
    """Two trees with queues; rows hold some of `COLUMNS`."""
    schema = make_arrow_schema(FRAME_TYPES["queue"].select(COLUMNS))
    made = []
    for letter, rows, root in zip("AB", sides, ROOTS, strict=True):
        path = folder / f"{letter}.parquet"
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), path)
        made.append(
            Side(letter, Sort.EXPORT, letter, {"queue": read_dataset("queue", [path])}, DN.parse(root))
        )
    return Pair((made[0], made[1]), (Ground(ROOTS[0]), Ground(ROOTS[1])), guid_map)


def all_differences(pair: Pair, compared: ComparableType) -> list[dict[str, Any]]:
    """Without any join: every object is looked at. Keys are GUIDs, of which every object has one."""
    tables = []
    for place, side in enumerate(pair.sides):
        names = [column.name for column in FRAME_TYPES["queue"].columns if column.name in COLUMNS]
        table = side.sets["queue"].read_table(names)
        own = table.add_column(0, SIDE, pa.array([place] * table.num_rows, pa.int32()))
        tables.append(own.add_column(0, KEY, table["Identifier"]))
    rows = pa.concat_tables(tables).sort_by([(KEY, "ascending"), (SIDE, "ascending")]).combine_chunks()
    found = FieldByField(compared, *pair.grounds).find_differences(rows.to_batches())
    return in_order(row for batch in found for row in batch.to_pylist())


def in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: tuple(row[name] or "" for name in ORDER))


def rows_in(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The differences in files, in their order."""
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


@dataclass(frozen=True)
class KilledOnce:
    """Work whose first piece kills its worker when it is nearly done, and has left files.

    Attributes:
        work: the real one.
        marker: a file that is made then.
    """

    work: Work
    marker: Path

    @contextmanager
    def open(self, stop: StopRequest) -> Iterator[Piece]:
        with self.work.open(stop) as real:

            def piece(number: int) -> Any:
                found = real(number)
                with suppress(FileExistsError):
                    self.marker.touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
                return found

            yield piece


RELEASE = "release"
"""Name of the file, beside the markers, that ends the wait of `ReleasedOnce`."""


@dataclass(frozen=True)
class ReleasedOnce:
    """Work whose first piece waits, before it begins, until a test has done something and releases it.

    Attributes:
        work: the real one.
        marker: a file that is made then.
    """

    work: Work
    marker: Path

    @contextmanager
    def open(self, stop: StopRequest) -> Iterator[Piece]:
        with self.work.open(stop) as real:

            def piece(number: int) -> Any:
                with suppress(FileExistsError):
                    self.marker.touch(exist_ok=False)
                    while not (self.marker.parent / RELEASE).exists():
                        time.sleep(0.05)
                return real(number)

            yield piece


@dataclass(frozen=True)
class HeldOnce:
    """Work whose first piece, when it is nearly done, waits for a minute.

    Attributes:
        work: the real one.
        marker: a file that is made then.
    """

    work: Work
    marker: Path

    @contextmanager
    def open(self, stop: StopRequest) -> Iterator[Piece]:
        with self.work.open(stop) as real:

            def piece(number: int) -> Any:
                found = real(number)
                with suppress(FileExistsError):
                    self.marker.touch(exist_ok=False)
                    time.sleep(60)
                return found

            yield piece
