"""Second reading of different objects of directories.

The objects may have changed during the comparison.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.directory.filters import any_of
from mqdssm.events.references import split_into_batches
from mqdssm.pipeline.diff.comparable_columns import KEY as IDENTIFIER
from mqdssm.pipeline.diff.comparable_columns import ComparableType
from mqdssm.pipeline.diff.fields import KEY, SCHEMA, SIDE, Differences, FieldByField, ObjectDifference
from mqdssm.pipeline.diff.pairing import Join, Pair, select_shown_columns
from mqdssm.pipeline.diff.sides import Side
from mqdssm.pipeline.export import objects
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import ORIGINAL_IDENTIFIER
from mqdssm.pipeline.texts import rows_of

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

TOGETHER: Final = 500
"""Number of differences that are read again together."""
PAUSE_S: Final = 2.0
"""Seconds between two rounds, as replication between servers takes a moment."""


def recheck_differences(
    join: Join,
    differences: Differences,
    compared: Sequence[ComparableType],
    pair: Pair,
    folder: Path,
    *,
    times: int,
) -> Differences:
    """Read different objects again, and return the differences that remain.

    Objects are read up to `times` times.

    Args:
        join: sorts the remaining differences.
        differences: of the comparison.
        compared: the types that were compared.
        pair: the sides; only directories are read again.
        folder: for new files.
        times: largest number of rounds.

    Raises:
        DirectoryError: a directory cannot be read any more.
    """
    if not any(side.is_directory for side in pair.sides):
        return differences
    remaining = differences
    for number in range(times):
        if not remaining.count:
            break
        if number:
            time.sleep(PAUSE_S)
        target = folder / f"recheck-{number}"
        target.mkdir()
        again = _recheck_once(
            remaining,
            {comparable.type: comparable for comparable in compared},
            pair,
            target / "again.parquet",
        )
        (target / "sorted").mkdir()
        remaining = Differences(join.sort(again, target / "sorted"))
    return remaining


def _recheck_once(
    differences: Differences, compared: Mapping[str, ComparableType], pair: Pair, file: Path
) -> Path:
    with contextlib.ExitStack() as stack:
        directories = [_connect_side(stack, side) for side in pair.sides]
        writer = stack.enter_context(pq.ParquetWriter(file, SCHEMA, compression="zstd"))
        for name, of_type in groupby(differences, key=lambda difference: difference.type):
            comparable = compared[name]
            looks = [_Look(comparable, pair, place, directory) for place, directory in enumerate(directories)]
            judge = FieldByField(comparable, *pair.grounds)
            for some in split_into_batches(of_type, TOGETHER):
                rows = pa.concat_tables([look.read_rows(some) for look in looks])
                rows = rows.sort_by([(KEY, "ascending"), (SIDE, "ascending")]).combine_chunks()
                for batch in judge.find_differences(rows.to_batches()):
                    writer.write_batch(batch)
    return file


def _connect_side(stack: contextlib.ExitStack, side: Side) -> "Directory | None":
    if not side.is_directory:
        return None
    return stack.enter_context(side.given.connect())


class _Look:
    """Reader of one side's objects: from its directory, else from the differences."""

    def __init__(
        self, compared: ComparableType, pair: Pair, place: int, directory: "Directory | None"
    ) -> None:
        self._type = compared.type
        self._frame = compared.frame
        self._place = place
        self._directory = directory
        self._common = {other: own_guid for own_guid, other in dict(pair.grounds[place].names).items()}
        self._schema = make_arrow_schema(select_shown_columns(compared, pair.sides))

    def read_rows(self, some: Sequence[ObjectDifference]) -> pa.Table:
        """Return the objects of this side in some differences, with their keys."""
        keyed_rows = [(difference.key, (difference.a, difference.b)[self._place]) for difference in some]
        guid_keys = (
            {self._find_guid(key, row): key for key, row in keyed_rows} if self._directory is not None else {}
        )
        local_rows = [
            (key, row)
            for key, row in keyed_rows
            if row is not None and self._find_guid(key, row) not in guid_keys
        ]
        guid_keys.pop(None, None)
        local_batch = rows_of([row for _, row in local_rows], self._schema)
        tables = [self._with_keys(local_batch, [key for key, _ in local_rows])]
        tables += [self._with_keys(batch, keys) for batch, keys in self._read(guid_keys)]
        return pa.concat_tables(tables)

    def _find_guid(self, key: str, row: Mapping[str, Any] | None) -> str | None:
        """Return the GUID to read an object by; None if it cannot be read by GUID."""
        if row is not None:
            text: str | None = row.get(IDENTIFIER)
            return text
        guid = self._common.get(key, key)
        return guid if objects.guid_of(guid) is not None else None

    def _read(self, guid_keys: Mapping[str | None, str]) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
        directory = self._directory
        if directory is None:
            return
        ldap_class = self._frame.ldap_class or ""
        profile = directory.session.profile
        for some in split_into_batches((guid for guid in guid_keys if guid is not None), objects.KEYS_ASKED):
            guids = [guid for guid in map(objects.guid_of, some) if guid is not None]
            where = any_of(*(profile.build_identifier_filter(ldap_class, guid) for guid in guids))
            for batch in objects.read(directory, self._type, where):
                yield batch, [self._find_key(row, guid_keys) for row in _list_identities(batch)]

    @staticmethod
    def _find_key(row: Sequence[str | None], guid_keys: Mapping[str | None, str]) -> str:
        return next(guid_keys[guid] for guid in row if guid in guid_keys)

    def _with_keys(self, batch: pa.RecordBatch, keys: Sequence[str]) -> pa.Table:
        names = set(batch.schema.names)
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in names
            else pa.nulls(len(keys), field.type)
            for field in self._schema
        ]
        key_columns = [pa.array(keys, pa.string()), pa.array([self._place] * len(keys), pa.int32())]
        return pa.Table.from_arrays([*key_columns, *columns], names=[KEY, SIDE, *self._schema.names])


def _list_identities(batch: pa.RecordBatch) -> Iterable[tuple[str | None, ...]]:
    """Return the GUIDs of each row.

    A row has a current GUID, and an original one if the type has it.
    """
    names = [name for name in (IDENTIFIER, ORIGINAL_IDENTIFIER.name) if name in batch.schema.names]
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)
