"""Join by DuckDB in the workers of the local runner, without Java.

A worker joins one type of objects.
A full outer join by key compares the canonical forms of values (`mqdssm.pipeline.diff.sql`). Objects that may
differ, and those with a repeated key, are sorted and compared column by column. Memory has a limit; DuckDB
spills to the folder of the job.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.database import Database, format_file_list, open_database
from mqdssm.pipeline.diff import sql
from mqdssm.pipeline.diff.comparable_columns import ComparableType
from mqdssm.pipeline.diff.fields import KEY, SCHEMA, SIDE, FieldByField, Ground
from mqdssm.pipeline.diff.pairing import ORDER, Pair, select_shown_columns
from mqdssm.pipeline.diff.sql import DUCKDB, NEW, OLD
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.runner import Job, Piece, Runner, StopRequest
from mqdssm.pipeline.shared_folder import explain_full_disk

if TYPE_CHECKING:
    from mqdssm.pipeline.diff.sides import Side

SMALL_ROWS: Final = 50_000
"""Fewer objects of both sides than these are compared in this process, without workers."""
BATCH_ROWS: Final = 2_000
"""Rows of a batch, each of which may hold certificates of 1 MiB."""


class LocalJoin:
    """Join in workers of this machine; see `mqdssm.pipeline.diff.pairing.Join`.

    Args:
        runner: runs the workers.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def find(self, compared: Sequence[ComparableType], pair: Pair, folder: Path) -> tuple[Path, ...]:
        """See `Join`."""
        tasks = tuple(
            _make_task(comparable, pair)
            for comparable in sorted(compared, key=lambda comparable: comparable.type)
        )
        rows = sum(side.sets[comparable.type].rows for comparable in compared for side in pair.sides)
        names = tuple(f"comparing {task.compared.type}" for task in tasks)
        paths = self._runner.run(Job(JoinWork(folder, tasks), names, is_small=rows < SMALL_ROWS))
        return tuple(path for path in paths if path is not None)

    def sort(self, path: Path, folder: Path) -> tuple[Path, ...]:
        """See `Join`."""
        work = SortWork(path, folder)
        return tuple(self._runner.run(Job(work, (f"sorting {path.name}",), is_small=True)))


@dataclass(frozen=True, slots=True)
class SideFiles:
    """Files of a type on one side, pickled into workers.

    Attributes:
        letter: of the side.
        paths: Parquet files.
        columns: of the files.
        root: DN of the root of the side's tree; None for MQIS tables.
    """

    letter: str
    paths: tuple[str, ...]
    columns: frozenset[str]
    root: str | None


@dataclass(frozen=True, slots=True)
class JoinTask:
    """Comparison of one type of objects.

    Attributes:
        compared: the type and its columns.
        sides: A and B.
        schema: columns that one of the sides has.
        grounds: properties of each side for comparing values.
        guid_map: Parquet file of changed GUIDs; None: no map.
        respelt: True if some objects have different GUIDs on the two sides.
    """

    compared: ComparableType
    sides: tuple[SideFiles, SideFiles]
    schema: pa.Schema
    grounds: tuple[Ground, Ground]
    guid_map: str | None
    respelt: bool

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of all files to read."""
        changed = () if self.guid_map is None else (self.guid_map,)
        return (*self.sides[0].paths, *self.sides[1].paths, *changed)


def _make_task(compared: ComparableType, pair: Pair) -> JoinTask:
    changed = pair.guid_map if sql.is_mapped(compared) else None
    return JoinTask(
        compared,
        (_list_files(compared, pair.sides[0]), _list_files(compared, pair.sides[1])),
        make_arrow_schema(select_shown_columns(compared, pair.sides)),
        pair.grounds,
        None if changed is None else str(changed),
        pair.has_other_names,
    )


def _list_files(compared: ComparableType, side: "Side") -> SideFiles:
    dataset = side.sets[compared.type]
    paths = tuple(str(Path(path).resolve()) for path in dataset.paths)
    return SideFiles(
        side.letter, paths, frozenset(dataset.types), None if side.root is None else str(side.root)
    )


@dataclass(frozen=True, slots=True)
class JoinWork:
    """Comparison of types of objects (`mqdssm.pipeline.runner.Work`).

    Attributes:
        folder: for the differences, and for data that does not fit into memory.
        tasks: each is a piece of work.
    """

    folder: Path
    tasks: tuple[JoinTask, ...]

    @contextmanager
    def open(self, stop: StopRequest) -> Iterator[Piece]:
        """See `Work`. A piece returns its file of differences, or None if there are none."""

        def compare(number: int) -> Path | None:
            task = self.tasks[number]
            folder = self.folder / f"join-{number}"
            shutil.rmtree(folder, ignore_errors=True)  # a worker that crashed may have left it
            with explain_full_disk(folder):
                folder.mkdir()
                with open_database(folder, task.files, stop) as database:
                    return _compare(database, task, folder)

        yield compare


@dataclass(frozen=True, slots=True)
class SortWork:
    """Sort of a file of differences (`mqdssm.pipeline.runner.Work`).

    Attributes:
        path: of the file.
        folder: an empty folder for the result.
    """

    path: Path
    folder: Path

    @contextmanager
    def open(self, stop: StopRequest) -> Iterator[Piece]:
        """See `Work`."""

        def sort(_: int) -> Path:
            with (
                explain_full_disk(self.folder),
                open_database(self.folder, [str(self.path)], stop) as database,
            ):
                return _sort_file(database, self.path, self.folder)

        yield sort


def _compare(database: Database, task: JoinTask, folder: Path) -> Path | None:
    """Find and sort the differences of a type.

    Returns their file, or None without differences.
    """
    for side in task.sides:
        database.run(f"create view {side.letter} as {_build_objects_query(task, side)}")
    database.run(_build_candidates_query(task))
    batches = (
        _cast_types(batch, task.schema)
        for batch in database.read_batches(_build_rows_query(task), BATCH_ROWS)
    )
    path = folder / "unsorted.parquet"
    count = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for batch in FieldByField(task.compared, *task.grounds).find_differences(batches):
            writer.write_batch(batch)
            count += batch.num_rows
    return _sort_file(database, path, folder) if count else None


def _build_objects_query(task: JoinTask, side: SideFiles) -> str:
    """Return the query for the objects of a side with their keys."""
    has_map = task.guid_map is not None
    key = sql.build_key(task.compared, side.columns, side.root, DUCKDB, has_map=has_map)
    query = f"select *, {key} as {KEY} from {format_file_list(side.paths)}"
    if task.guid_map is not None:
        changed = f"(select distinct on ({OLD}) {OLD}, {NEW} from {format_file_list([task.guid_map])})"
        key_sql = sql.build_own_key(task.compared, side.columns, DUCKDB)
        query += f" left join {changed} as changed on {key_sql} = changed.{OLD}"
    return query


def _build_candidates_query(task: JoinTask) -> str:
    """Return the query for the keys of objects that may differ.

    The query makes the table ``wanted``.
    """
    a, b = (side.letter for side in task.sides)
    forms = []
    for side in task.sides:
        cells = [
            f"{sql.build_canonical(field, side.letter, side.root, DUCKDB, respelt=task.respelt)} as c{number}"
            for number, field in enumerate(task.compared.fields)
        ]
        once = f"{KEY} not in (select {KEY} from repeated)"
        forms.append(f"(select {', '.join([KEY, *cells])} from {side.letter} where {once})")
    differs = [f"x.c{number} is distinct from y.c{number}" for number in range(len(task.compared.fields))]
    where = " or ".join([f"x.{KEY} is null", f"y.{KEY} is null", *differs])
    twice = " union ".join(
        f"select {KEY} from {table} group by {KEY} having count(*) > 1" for table in (a, b)
    )
    return (
        f"create table wanted as with repeated as materialized ({twice} union select '') "
        f"select {KEY} from repeated union all "
        f"select coalesce(x.{KEY}, y.{KEY}) from {forms[0]} as x full join {forms[1]} as y "
        f"on x.{KEY} = y.{KEY} where {where}"
    )


def _build_rows_query(task: JoinTask) -> str:
    """Return the query for the objects of both sides that may differ.

    The rows are in the order of their keys.
    """
    parts = []
    for place, side in enumerate(task.sides):
        cells = [
            DUCKDB.quote_column(name) if name in side.columns else f"null as {DUCKDB.quote_column(name)}"
            for name in task.schema.names
        ]
        picked = ", ".join([KEY, f"{place} as {SIDE}", *cells])
        parts.append(f"select {picked} from {side.letter} where {KEY} in (select {KEY} from wanted)")
    return f"{' union all '.join(parts)} order by {KEY}, {SIDE}"


def _cast_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with their columns cast to the types of `schema`."""
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    names = [KEY, SIDE, *schema.names]
    return pa.RecordBatch.from_arrays([batch.column(KEY), batch.column(SIDE), *columns], names=names)


def _sort_file(database: Database, path: Path, folder: Path) -> Path:
    """Sort a file of differences by DuckDB, which spills to disk."""
    target = folder / "sorted.parquet"
    order = ", ".join(f"coalesce({name}, '')" for name in ORDER)
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer:
        query = f"select * from {format_file_list([str(path)])} order by {order}"
        for batch in database.read_batches(query, BATCH_ROWS):
            writer.write_batch(_of_differences(batch))
    path.unlink()
    return target


def _of_differences(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [batch.column(field.name).cast(field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
