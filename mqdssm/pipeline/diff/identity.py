"""GUIDs that identify an object on both sides of a comparison.

An object has its GUID; if a directory made a new one, the GUID that it had before (decision M37), replaced by
the GUID map of a migration. References are converted to the same GUIDs. Accounts are identified by their SID,
and the enterprise is the only object of its type (decision M44).
"""

import csv
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdssm.errors import ConfigError
from mqdssm.pipeline.diff.comparable_columns import KEY, REFERRED
from mqdssm.pipeline.diff.sql import NEW, OLD
from mqdssm.pipeline.frames.columns import ORIGINAL_IDENTIFIER

if TYPE_CHECKING:
    from mqdssm.pipeline.diff.sides import Side

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
    pairs = _pairs(file)
    with pq.ParquetWriter(target, schema) as writer:
        while some := list(islice(pairs, _READ_ROWS)):
            writer.write_table(pa.table([list(column) for column in zip(*some, strict=True)], schema=schema))
    return target


def check_map(file: Path) -> None:
    """Check the first lines of a GUID map.

    Raises:
        ConfigError: the file cannot be read, or is no GUID map.
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
    """Return the common GUIDs of referred objects, where they are not the GUIDs of this side.

    Args:
        side: of the objects.
        file: a GUID map; None: no map.

    Returns:
        GUID on this side -> GUID that both sides are compared by.
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
