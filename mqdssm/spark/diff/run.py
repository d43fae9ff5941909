"""A whole comparison, from two sources to sorted differences."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import ConfigError
from mqdssm.spark.cluster import HERE, SparkOptions, probe, scratch
from mqdssm.spark.diff import candidates
from mqdssm.spark.diff.candidates import Pair
from mqdssm.spark.diff.compared import Compared, LeftOut, check_ignored, choose, needed
from mqdssm.spark.diff.differences import Differences, compare
from mqdssm.spark.diff.fields import Ground
from mqdssm.spark.diff.identity import check_map, read_map, referred
from mqdssm.spark.diff.recheck import rechecked
from mqdssm.spark.diff.sides import Given, Reading, Side, Sort, opened
from mqdssm.spark.migrate.gathering import resolved
from mqdssm.spark.migrate.sids import SidMap, load_sid_map
from mqdssm.spark.runner import RETRIES
from mqdssm.spark.session import check_spark, spark_session
from mqdssm.spark.sources.jdbc import spark_settings
from mqdssm.spark.sources.mapping import SourceMapping, load_mapping, refuse_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Asked:
    """What shall be compared.

    Attributes:
        types: of objects; None: all that both sides hold.
        ignored: attributes to leave out, as ``Label`` or ``queue.Label``.
        guid_map: the GUID map of a migration; None: no GUID was changed.
        recheck: how often objects of directories that differ are read again.
        mending: LDIF shall be made of what differs.
        sid_map: file of old and new SIDs; those of MQIS tables are replaced.
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
    """What came of it; the files are there until the comparison is left.

    Attributes:
        a: the first side.
        b: the second side.
        compared: the types, and their attributes.
        left_out: what was not compared, and why.
        differences: what differs.
        pair: the sides, and what is known of them.
        settled: differences that were none any more when the objects were read again.
    """

    a: Side
    b: Side
    compared: tuple[Compared, ...]
    left_out: tuple[LeftOut, ...]
    differences: Differences
    pair: Pair
    settled: int = 0

    @property
    def objects(self) -> tuple[int, int]:
        """How many objects of both sides were compared."""
        first, second = (sum(side.sets[one.type].rows for one in self.compared) for side in (self.a, self.b))
        return first, second


@contextlib.contextmanager
def comparison(a: Given, b: Given, asked: Asked, *, on: SparkOptions = HERE) -> Iterator[Comparison]:
    """Compare two sources.

    Args:
        a: the first one.
        b: the one that is held against it.
        asked: what of them.
        on: where Spark runs.

    Yields:
        What differs, for as long as the context lasts.

    Raises:
        ConfigError: a source that is not there or not whole, no Java or pyspark, a wrong name.
        DirectoryError: a directory cannot be read.
        SparkFailed: Spark itself failed, as when the disk is full.
    """
    check_spark()
    check_ignored(asked.ignored)
    if asked.guid_map is not None:
        check_map(asked.guid_map)
    check_tables((a, b), asked)
    reading = _reading((a, b), asked, on)
    mapping = SourceMapping() if asked.mapping is None else load_mapping(asked.mapping)
    with contextlib.ExitStack() as stack:
        conf = {**RETRIES, **spark_settings(mapping)}
        spark = stack.enter_context(spark_session("mqdssm diff", conf=conf, on=on))
        first, second = _opened(stack, spark, (a, b), asked, reading)
        folder = stack.enter_context(scratch(on, "mqdssm-diff-"))
        probe(spark, on, [Path(side.sets[one].paths[0]) for side in (first, second) for one in side.sets])
        yield _compared(spark, first, second, asked, folder)


def check_tables(given: Sequence[Given], asked: Asked) -> None:
    """Refuse what is for MQIS tables where there are none, and secrets in the URL of a database.

    Raises:
        ConfigError: such a thing.
    """
    for one in given:
        if one.database:
            refuse_secret(one.database)
    if not any(one.is_mqis for one in given):
        for name, file in (("--sid-map", asked.sid_map), ("--mapping", asked.mapping)):
            if file is not None:
                raise ConfigError(f"{name} is for MQIS tables: none of the sides is any")


def _reading(given: Sequence[Given], asked: Asked, on: SparkOptions) -> Reading:
    """How sources are read; names of accounts in the map of SIDs are those of the directory.

    Raises:
        ConfigError: the map cannot be used.
    """
    sids = SidMap() if asked.sid_map is None else load_sid_map(asked.sid_map)
    if sids.names:
        directory = next((one for one in given if one.is_directory), None)
        if directory is None:
            raise ConfigError(
                f"{asked.sid_map} names accounts ({min(sids.names.values())}): only a directory tells which "
                "SIDs they have, and none of the sides is one"
            )
        with directory.connected() as connected:
            sids = resolved(connected.session, sids)
    return Reading(on, asked.mapping, sids)


def _opened(
    stack: contextlib.ExitStack,
    spark: "SparkSession",
    given: Sequence[Given],
    asked: Asked,
    reading: Reading,
) -> tuple[Side, Side]:
    """Open both sides; a directory is read only as far as the other side can be held against it."""
    found: dict[str, Side] = {}
    types = asked.types
    # folders first: what they hold is known without reading it
    for letter, one in sorted(zip("AB", given, strict=True), key=lambda pair: pair[1].is_directory):
        wanted = needed(types, mending=asked.mending)
        side = stack.enter_context(opened(spark, letter, one, wanted, reading))
        found[letter] = side
        if types is None and not side.is_directory:
            types = frozenset(side.sets)
    return found["A"], found["B"]


def _compared(spark: "SparkSession", a: Side, b: Side, asked: Asked, folder: Path) -> Comparison:
    compared, left_out = choose(a, b, asked.types, asked.ignored)
    grounds = (ground(a, asked.guid_map), ground(b, asked.guid_map))
    guid_map = None if asked.guid_map is None else read_map(spark, asked.guid_map)
    pair = Pair((a, b), grounds, guid_map)
    found = candidates.find(spark, compared, pair, folder)
    differences = compare(spark, compared, found, pair, folder)
    kept = rechecked(spark, differences, compared, pair, folder, times=asked.recheck)
    return Comparison(a, b, compared, left_out, kept, pair, settled=differences.count - kept.count)


def ground(side: Side, guid_map: Path | None) -> Ground:
    """What has to be known of a side to compare its values.

    Raises:
        ConfigError: the GUID map cannot be used.
    """
    root = "" if side.root is None else str(side.root)
    hides_sacls = bool(side.profile) and PROFILES[side.profile].hides_sacls
    return Ground(root, side.sort is Sort.MQIS, hides_sacls, referred(side, guid_map))
