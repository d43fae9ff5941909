"""By what an object of one side is found on the other.

By its GUID; where a directory made a new one, by the GUID that it had before (decision M37), and by what
the GUID map of a migration says. Objects that others refer to are then called by the same GUID on both sides,
too. Accounts are found by their SID, and the enterprise is the only one of its kind (decision M44).
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.errors import ConfigError
from mqdssm.spark.columns import ORIGINAL_IDENTIFIER
from mqdssm.spark.diff.compared import KEY, REFERRED, SINGLE, Compared

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from mqdssm.spark.diff.sides import Side

OLD, NEW = "old", "new"
"""Columns of a GUID map."""
NAMES: Final = ("FullPath", "Pathname", "ComputerName", "Name")
"""Columns that tell an object without a GUID from others, the best first."""
_NAMED: Final = "name:"
_READ_ROWS: Final = 65_536


def keyed(frame: "DataFrame", compared: Compared, side: "Side", guid_map: "DataFrame | None") -> "DataFrame":
    """Add column ``__key`` to the objects of a type; one that can be found by nothing has an empty one.

    Args:
        frame: the objects.
        compared: their type.
        side: that they are of.
        guid_map: columns `OLD` and `NEW`; None: no GUID was changed.
    """
    from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

    if compared.type in SINGLE:
        return frame.withColumn("__key", F.lit(compared.type))
    there = set(frame.columns)
    before = [ORIGINAL_IDENTIFIER.name] if compared.identity == KEY else [compared.identity]
    own = F.coalesce(*(F.col(name) for name in (*before, KEY) if name in there))
    joined, mapped = frame, own
    if guid_map is not None and compared.identity == KEY:
        joined = frame.join(guid_map, own == F.col(OLD), "left")
        mapped = F.coalesce(F.col(NEW), own)
    names = [_name(column, side) for column in NAMES if column in there]
    key = F.coalesce(mapped, *(F.concat(F.lit(_NAMED), name) for name in names), F.lit(""))
    return joined.withColumn("__key", key).drop(OLD, NEW)


def _name(column: str, side: "Side") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    if column == "FullPath" and side.root is not None:
        return below_root(F.col(column), side)
    return F.lower(column)


def below_root(dn: "Column", side: "Side") -> "Column":
    """A DN in lower case without the root of its tree; for finding what is certainly equal."""
    from pyspark.sql import functions as F  # noqa: N812

    ending = f",{side.root}".lower()
    lower = F.lower(dn)
    below = F.left(lower, F.length(lower) - len(ending))
    return F.when(F.endswith(lower, F.lit(ending)), below).otherwise(lower)


def read_map(spark: "SparkSession", file: Path) -> "DataFrame":
    """Read the GUID map of a migration, a CSV file with columns ``old`` and ``new`` among others.

    Raises:
        ConfigError: it cannot be read, or is no GUID map.
    """
    from pyspark.sql import functions as F  # noqa: N812

    check_map(file)
    frame = spark.read.csv(str(file), header=True, encoding="UTF-8")
    frame = frame.select(*(F.lower(F.trim(F.col(name))).alias(name) for name in (OLD, NEW)))
    return frame.where(F.col(OLD).isNotNull() & F.col(NEW).isNotNull()).dropDuplicates([OLD])


def check_map(file: Path) -> None:
    """Look at the first lines of a GUID map.

    Raises:
        ConfigError: it is none.
    """
    for number, _ in enumerate(_pairs(file)):
        if number:
            return


def _pairs(file: Path) -> Iterator[tuple[str, str]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            if not {OLD, NEW} <= set(reader.fieldnames or ()):
                raise ConfigError(f"{file} is no GUID map: its first line must name the columns old and new")
            for row in reader:
                yield str(UUID(row[OLD].strip())), str(UUID(row[NEW].strip()))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be used as a GUID map: {error}") from error


def referred(side: "Side", file: Path | None) -> Mapping[str, str]:
    """What the other side calls the objects of this one that others refer to, where that is another GUID.

    Args:
        side: whose references are read.
        file: a GUID map; None: there is none.

    Returns:
        GUID -> GUID on the common ground of both sides.
    """
    known = {
        real: before or real for name in REFERRED if name in side.sets for real, before in _guids(side, name)
    }
    wanted = set(known.values())
    mapped = {old: new for old, new in _pairs(file) if old in wanted} if file is not None else {}
    common = {real: mapped.get(own, own) for real, own in known.items()}
    return {real: other for real, other in common.items() if real != other}


def _guids(side: "Side", name: str) -> Iterator[tuple[str, str | None]]:
    there = side.sets[name]
    columns = [one for one in (KEY, ORIGINAL_IDENTIFIER.name) if one in there.types]
    for batch in there.batches(columns, _READ_ROWS):
        real = batch.column(0)
        before = batch.column(1) if len(columns) > 1 else pa.nulls(batch.num_rows, pa.string())
        known = pc.is_valid(real)
        yield from zip(real.filter(known).to_pylist(), before.filter(known).to_pylist(), strict=True)
