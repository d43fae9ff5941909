"""The join: which objects of two sides may differ, found by hashes of their canonical forms.

Spark makes one text of each object, in which values that are certainly equal are written alike (letters of
one case, sets sorted, defaults filled in), and hashes it. Of objects with one key the hashes are combined:
two rows, one of each side, whose hashes cancel out, are equal. So a key and two numbers of each object are
shuffled, and none becomes an object of Python. What does not cancel out is a candidate, which is looked at
field by field.

The hash is keyed by two random numbers of each run: nobody can prepare objects that look alike to it.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from mqdssm.spark.diff.compared import Compared, Field
from mqdssm.spark.diff.fields import Ground
from mqdssm.spark.diff.identity import below_root, keyed
from mqdssm.tables.syntax import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from mqdssm.spark.diff.sides import Side

TYPE, KEY, SIDE = "__type", "__key", "__side"
"""Columns of the join: number of the type, key of the object, 0 for A and 1 for B."""
_LETTERS: Final = frozenset({Kind.TEXT, Kind.DN})
"""Kinds whose values are one in letters of any case."""
_SEED_BITS: Final = 63


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides, and what has to be known of them.

    Attributes:
        sides: A and B.
        grounds: of each, what comparing its values needs.
        guid_map: as `keyed` takes it; None: no GUID was changed.
    """

    sides: tuple["Side", "Side"]
    grounds: tuple[Ground, Ground]
    guid_map: "DataFrame | None" = None


def find(spark: "SparkSession", compared: Sequence[Compared], pair: Pair, folder: Path) -> dict[str, Path]:
    """Find the keys of all objects that may differ: one job for all types.

    Args:
        spark: the session.
        compared: what is compared.
        pair: the sides.
        folder: an empty folder.

    Returns:
        Type -> folder of Parquet files with the keys; types without any are not in it.
    """
    from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

    seeds = [secrets.randbits(_SEED_BITS) for _ in range(2)]
    respelt = any(ground.names for ground in pair.grounds)
    parts = []
    for number, one in enumerate(compared):
        for place, side in enumerate(pair.sides):
            frame = prepared(spark, one, side, pair.guid_map)
            text = F.to_json(F.struct(*_canonical(one, side, respelt=respelt)))
            hashes = (F.xxhash64(F.lit(seed), text).alias(f"__h{i}") for i, seed in enumerate(seeds))
            own = (F.lit(number).alias(TYPE), F.col(KEY), F.lit(place).alias(SIDE))
            parts.append(frame.select(*own, *hashes))
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    combined = rows.groupBy(TYPE, KEY).agg(
        F.count("*").alias("all"),
        F.sum(SIDE).alias("ofb"),
        F.bit_xor("__h0").alias("h0"),
        F.bit_xor("__h1").alias("h1"),
    )
    same = (F.col("all") == 2) & (F.col("ofb") == 1) & (F.col("h0") == 0) & (F.col("h1") == 0)
    target = folder / "candidates"
    combined.where(~same).select(TYPE, KEY).write.partitionBy(TYPE).parquet(target.as_uri())
    found = {one.type: target / f"{TYPE}={number}" for number, one in enumerate(compared)}
    return {name: path for name, path in found.items() if path.is_dir()}


def count(folder: Path) -> int:
    """How many keys a folder of `find` holds."""
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def prepared(
    spark: "SparkSession", compared: Compared, side: "Side", guid_map: "DataFrame | None"
) -> "DataFrame":
    """The objects of a type that are compared, with their keys."""
    return keyed(side.sets[compared.type].frame(spark), compared, side, guid_map)


def _canonical(compared: Compared, side: "Side", *, respelt: bool) -> "list[Column]":
    """The columns of an object in a form in which only equal ones are alike."""
    return [_of_field(field, side, respelt=respelt).alias(field.name) for field in compared.fields]


def _of_field(field: Field, side: "Side", *, respelt: bool) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    column = F.col(f"`{field.name}`")
    if field.refers and respelt:
        return F.lit(side.letter)  # never alike: who is meant is found out later
    if field.column.many:
        each = F.transform(column, F.lower) if field.column.kind in _LETTERS else column
        return F.sort_array(F.array_distinct(F.coalesce(each, F.array())))
    if field.is_place:
        return below_root(column, side)
    plain = F.lower(column) if field.column.kind in _LETTERS else column
    return plain if field.default is None else F.coalesce(plain, _default(field))


def _default(field: Field) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    value: Any = field.default
    return F.lit(value.lower() if field.column.kind in _LETTERS else value)
