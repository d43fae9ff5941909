"""Comparison of two sources, from the options to sorted differences.

GUIDs that identify an object on both sides of a comparison.

An object has its GUID; if a directory made a new one, the GUID that it had before (decision M37), replaced by
the GUID map of a migration. References are converted to the same GUIDs. Accounts are identified by their SID,
and the enterprise is the only object of its type (decision M44).
"""

import contextlib
import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import ConfigError, require_packages
from mqdssm.pipeline.diff.comparable_columns import (
    KEY,
    REFERRED,
    ComparableType,
    LeftOut,
    check_ignored,
    choose,
    list_needed_types,
)
from mqdssm.pipeline.diff.fields import Differences, Ground
from mqdssm.pipeline.diff.pairing import Join, JoinRunner, Pair
from mqdssm.pipeline.diff.recheck import recheck_differences
from mqdssm.pipeline.diff.sides import GivenSide, Side, Sort, SourceReading, open_side
from mqdssm.pipeline.diff.sql import NEW, OLD
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.frames.columns import ORIGINAL_IDENTIFIER
from mqdssm.pipeline.migrate.planning import choose_source_engine
from mqdssm.pipeline.migrate.sids import SidMap, load_sid_map
from mqdssm.pipeline.migrate.target import resolve_sids
from mqdssm.pipeline.mqis.mapping import SourceMapping, list_spark_settings, load_mapping, refuse_secret
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.shared_folder import make_scratch
from mqdssm.pipeline.spark_options import HERE, SparkOptions

_READ_ROWS: Final = 65_536


def write_map(file: Path, folder: Path) -> Path:
    """Write a GUID map as a Parquet file for the join.

    Args:
        file: CSV with columns ``old`` and ``new`` among others.
        folder: for the new file.

    Raises:
        ConfigError: the file cannot be read, or is no GUID map.
    """
    target = folder / "guid-map.parquet"
    schema = pa.schema([(OLD, pa.string()), (NEW, pa.string())])
    pairs = _read_pairs(file)
    with pq.ParquetWriter(target, schema) as writer:
        while some := list(islice(pairs, _READ_ROWS)):
            writer.write_table(pa.table([list(column) for column in zip(*some, strict=True)], schema=schema))
    return target


def check_map(file: Path) -> None:
    """Check the first lines of a GUID map.

    Raises:
        ConfigError: the file cannot be read, or is no GUID map.
    """
    for number, _ in enumerate(_read_pairs(file)):
        if number:
            return


def _read_pairs(file: Path) -> Iterator[tuple[str, str]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            if not {OLD, NEW} <= set(reader.fieldnames or ()):
                raise ConfigError(f"{file} is no GUID map: its first line must name the columns old and new")
            for row in reader:
                yield str(UUID(row[OLD].strip())), str(UUID(row[NEW].strip()))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be used as a GUID map: {error}") from error


def read_referred(side: "Side", file: Path | None) -> Mapping[str, str]:
    """Return the common GUIDs of referred objects.

    GUIDs that are the same on this side are left out.

    Args:
        side: of the objects.
        file: a GUID map; None: no map.

    Returns:
        GUID on this side -> GUID that both sides are compared by.
    """
    original_by_guid = {
        real: before or real
        for name in REFERRED
        if name in side.sets
        for real, before in _read_guids(side, name)
    }
    original_guids = set(original_by_guid.values())
    mapped = {old: new for old, new in _read_pairs(file) if old in original_guids} if file is not None else {}
    common = {real: mapped.get(original, original) for real, original in original_by_guid.items()}
    return {real: other for real, other in common.items() if real != other}


def _read_guids(side: "Side", name: str) -> Iterator[tuple[str, str | None]]:
    dataset = side.sets[name]
    columns = [column for column in (KEY, ORIGINAL_IDENTIFIER.name) if column in dataset.types]
    for batch in dataset.read_batches(columns, _READ_ROWS):
        real = batch.column(0)
        before = batch.column(1) if len(columns) > 1 else pa.nulls(batch.num_rows, pa.string())
        mask = pc.is_valid(real)
        yield from zip(real.filter(mask).to_pylist(), before.filter(mask).to_pylist(), strict=True)


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Options of a comparison.

    Attributes:
        types: of objects; None: all that both sides hold.
        ignored: attributes to leave out, as ``Label`` or ``queue.Label``.
        guid_map: the GUID map of a migration; None: no GUID was changed.
        recheck: number of times that different objects of directories are read again.
        mending: True if LDIF is made of the differences.
        sid_map: file of old and new SIDs, for the SIDs in MQIS tables.
        mapping: file with names of tables and columns of MQIS tables.
    """

    types: Collection[str] | None = None
    ignored: Collection[str] = ()
    guid_map: Path | None = None
    recheck: int = 1
    mending: bool = False
    sid_map: Path | None = None
    mapping: Path | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison.

    The files of the result exist as long as the context of `compare_sources` lasts.

    Attributes:
        a: the first side.
        b: the second side.
        compared: the types, and their attributes.
        left_out: types and columns that were not compared, with reasons.
        differences: of the objects.
        pair: the sides, and their properties.
        settled: number of differences that had disappeared when the objects were read again.
        engine: ``local`` or ``spark``.
    """

    a: Side
    b: Side
    compared: tuple[ComparableType, ...]
    left_out: tuple[LeftOut, ...]
    differences: Differences
    pair: Pair
    settled: int = 0
    engine: str = ""

    @property
    def objects(self) -> tuple[int, int]:
        """Numbers of compared objects of A and of B."""
        first, second = (
            sum(side.sets[comparable.type].rows for comparable in self.compared) for side in (self.a, self.b)
        )
        return first, second


@contextlib.contextmanager
def compare_sources(
    a: GivenSide,
    b: GivenSide,
    request: ComparisonRequest,
    *,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
) -> Iterator[Comparison]:
    """Compare two sources.

    Args:
        a: the first source.
        b: the second source.
        request: options of the comparison.
        engine: ``local``, ``spark`` or ``auto``, as for `mqdssm.pipeline.export.run.export`; a database needs
            Spark.
        workers: processes of the local engine; None: one a core, as far as there is memory.
        on: where Spark runs.

    Yields:
        The result, which is valid as long as the context lasts.

    Raises:
        ConfigError: a missing or incomplete source, a missing package, an unknown name.
        DirectoryError: a directory cannot be read.
        SparkFailed: Spark itself failed, as when the disk is full.
    """
    chosen = _choose_engine((a, b), engine, on, workers)
    check_ignored(request.ignored)
    if request.guid_map is not None:
        check_map(request.guid_map)
    check_tables((a, b), request)
    reading = _choose_reading((a, b), request, chosen)
    mapping = SourceMapping() if request.mapping is None else load_mapping(request.mapping)
    with (
        chosen.runner("mqdssm diff", conf=list_spark_settings(mapping), brief=False) as runner,
        contextlib.ExitStack() as stack,
    ):
        first, second = _open_sides(stack, runner, (a, b), request, reading)
        folder = stack.enter_context(make_scratch(chosen.on, "mqdssm-diff-"))
        result = _compare_sides(_join(runner, chosen, (first, second)), (first, second), request, folder)
        yield replace(result, engine=chosen.kind.value)


def _choose_engine(
    given_sides: Sequence[GivenSide], kind: str, on: SparkOptions, workers: int | None
) -> JobEngine:
    """Choose the engine, and check that it could run here. A database needs Spark.

    Raises:
        ConfigError: options that exclude each other, or a missing package.
    """
    has_database = any(side.database for side in given_sides)
    chosen = choose_source_engine(kind, on, workers, has_database=has_database)
    if chosen.is_local:
        require_packages("duckdb", extra="pipeline")
    return chosen


def _join(runner: Runner, engine: JobEngine, sides: tuple[Side, Side]) -> Join:
    """Return the join of an engine.

    Raises:
        ConfigError: the machines of the cluster do not see the files.
    """
    if engine.is_local:
        from mqdssm.pipeline.diff.local_join import LocalJoin

        return LocalJoin(runner)
    if not isinstance(runner, JoinRunner):
        raise TypeError(f"{engine.kind} has another runner")
    runner.check_workers(engine.on, [Path(side.sets[name].paths[0]) for side in sides for name in side.sets])
    return runner.join()


def check_tables(given_sides: Sequence[GivenSide], request: ComparisonRequest) -> None:
    """Refuse options for MQIS tables without tables, and secrets in a URL.

    The URL is that of a database.

    Raises:
        ConfigError: such an option or secret was given.
    """
    for given_side in given_sides:
        if given_side.database:
            refuse_secret(given_side.database)
    if not any(side.is_mqis for side in given_sides):
        for name, file in (("--sid-map", request.sid_map), ("--mapping", request.mapping)):
            if file is not None:
                raise ConfigError(f"{name} is for MQIS tables: none of the sides is any")


def _choose_reading(
    given_sides: Sequence[GivenSide], request: ComparisonRequest, engine: JobEngine
) -> SourceReading:
    """Return the reading options.

    Account names in the SID map are resolved in the directory.

    Raises:
        ConfigError: the SID map cannot be used.
    """
    sids = SidMap() if request.sid_map is None else load_sid_map(request.sid_map)
    if sids.names:
        directory = next((side for side in given_sides if side.is_directory), None)
        if directory is None:
            raise ConfigError(
                f"{request.sid_map} names accounts ({min(sids.names.values())}): only a directory tells "
                "which SIDs they have, and none of the sides is one"
            )
        with directory.connect() as connected:
            sids = resolve_sids(connected.session, sids)
    return SourceReading(engine, request.mapping, sids)


def _open_sides(
    stack: contextlib.ExitStack,
    runner: Runner,
    given_sides: Sequence[GivenSide],
    request: ComparisonRequest,
    reading: SourceReading,
) -> tuple[Side, Side]:
    """Open both sides; of a directory, read only the types that the other side holds."""
    opened_sides: dict[str, Side] = {}
    types = request.types
    # folders first: their types are known without reading them
    for letter, given_side in sorted(
        zip("AB", given_sides, strict=True), key=lambda pair: pair[1].is_directory
    ):
        columns = list_needed_types(types, mending=request.mending)
        side = stack.enter_context(open_side(runner, letter, given_side, columns, reading))
        opened_sides[letter] = side
        if types is None and not side.is_directory:
            types = frozenset(side.sets)
    return opened_sides["A"], opened_sides["B"]


def _compare_sides(
    join: Join, sides: tuple[Side, Side], request: ComparisonRequest, folder: Path
) -> Comparison:
    a, b = sides
    compared, left_out = choose(a, b, request.types, request.ignored)
    grounds = (make_ground(a, request.guid_map), make_ground(b, request.guid_map))
    guid_map = None if request.guid_map is None else write_map(request.guid_map, folder)
    pair = Pair(sides, grounds, guid_map)
    differences = Differences(join.find(compared, pair, folder))
    remaining = recheck_differences(join, differences, compared, pair, folder, times=request.recheck)
    return Comparison(a, b, compared, left_out, remaining, pair, settled=differences.count - remaining.count)


def make_ground(side: Side, guid_map: Path | None) -> Ground:
    """Return the properties of a side for comparing its values.

    Raises:
        ConfigError: the GUID map cannot be used.
    """
    root = "" if side.root is None else str(side.root)
    hides_sacls = bool(side.profile) and PROFILES[side.profile].hides_sacls
    return Ground(root, side.sort is Sort.MQIS, hides_sacls, read_referred(side, guid_map))
