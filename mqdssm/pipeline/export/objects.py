"""What an export reads of each type: where the objects are, their columns, and their keys."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.directory.filters import Equal, LdapFilter, any_of
from mqdssm.pipeline.export.server_position import Since
from mqdssm.pipeline.frames.arrow import arrow_schema
from mqdssm.pipeline.frames.bases import bases_of
from mqdssm.pipeline.frames.bulk import read_batches, wanted_of
from mqdssm.pipeline.frames.columns import DN_COLUMN, FRAME_TYPES
from mqdssm.pipeline.frames.raw import STORED, RawEntry, guid_text, raw_entries

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

KEY_SCHEMA: Final = pa.schema(
    [("key", pa.string()), ("dn", pa.string()), ("guid", pa.string()), ("changed", pa.bool_())]
)
KEY_COLUMNS: Final = ("Identifier", "FullPath", DN_COLUMN.name)
"""Columns that `key_of_batch` needs, as far as a type has them."""
KEYS_ASKED: Final = 100
"""Objects that are asked for in one search: more take slapd longer than two searches."""
_KEYS_BATCH: Final = 10_000
_KeyRow = tuple[str, str, str | None, bool | None]
"""A row of `KEY_SCHEMA`."""


def columns(type_name: str) -> pa.Schema:
    """The columns of a type."""
    return arrow_schema(FRAME_TYPES[type_name].columns)


def read(directory: "Directory", type_name: str, where: LdapFilter | None = None) -> Iterator[pa.RecordBatch]:
    """Objects of a type as batches of bounded size.

    Args:
        directory: where they are.
        type_name: of the objects.
        where: what they must satisfy besides; None: all.

    Raises:
        DirectoryError: while iterating.
    """
    return read_batches(directory, FRAME_TYPES[type_name], where=where, attributes=STORED)


def entries(directory: "Directory", type_name: str, where: LdapFilter | None = None) -> Iterator[RawEntry]:
    """Objects of a type as they are stored; see `read`."""
    session = directory.session
    frame = FRAME_TYPES[type_name]
    for base in bases_of(session, frame):
        yield from raw_entries(session, base, wanted_of(session, frame, where))


def filters(directory: "Directory", keys: Sequence[str]) -> Iterator[LdapFilter]:
    """Filters for objects by their keys, some at a time."""
    by_name = directory.session.profile.dn_filter
    for start in range(0, len(keys), KEYS_ASKED):
        some = [(one, guid_of(one)) for one in keys[start : start + KEYS_ASKED]]
        yield any_of(
            *(by_name(one) if guid is None else Equal("objectGUID", guid.bytes_le) for one, guid in some)
        )


def key(type_name: str, guid: str | None, dn: str) -> str:
    """The key of an object within its type: its objectGUID as text; its name if it has none.

    Of entries as they are it is the name: not every one has an objectGUID.
    """
    return dn if guid is None or FRAME_TYPES[type_name].ldap_class is None else guid


def key_of_batch(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The key of each row, and where the object is (NULL where its type does not tell)."""
    names = batch.schema.names
    if DN_COLUMN.name in names:
        return batch.column(DN_COLUMN.name), batch.column(DN_COLUMN.name)
    dns = batch.column("FullPath") if "FullPath" in names else pa.nulls(batch.num_rows, pa.string())
    return pc.coalesce(batch.column("Identifier"), dns), dns


def guid_of(text: str) -> UUID | None:
    """The objectGUID that a key is; None for a name."""
    try:
        return UUID(text)
    except ValueError:
        return None


def keys(directory: "Directory", type_name: str, since: Since) -> pa.Table:
    """The keys of all objects of a type, and whether they were changed: NULL where nothing tells.

    Raises:
        DirectoryError: the search did not come to an end.
    """
    session = directory.session
    found: list[pa.RecordBatch] = []
    rows: list[_KeyRow] = []
    frame = FRAME_TYPES[type_name]
    for base in bases_of(session, frame):
        with base.perhaps_absent():
            for dn, guid, *stamps in session.rows(
                base.dn, wanted_of(session, frame, None), ("objectGUID", *since.stamps)
            ):
                text = guid_text(guid)
                rows.append((key(type_name, text, dn), dn, text, since.is_changed(stamps)))
                if len(rows) >= _KEYS_BATCH:
                    found.append(_key_batch(rows))
                    rows = []
    found.append(_key_batch(rows))
    return pa.Table.from_batches(found, schema=KEY_SCHEMA)


def count(directory: "Directory", type_name: str, limit: int | None = None) -> int:
    """Count the objects of a type by their names, which costs a fraction of reading them.

    Args:
        directory: where they are.
        type_name: of the objects.
        limit: number that is enough to know; None: count all.
    """
    session, frame = directory.session, FRAME_TYPES[type_name]
    total = 0
    for base in bases_of(session, frame):
        with base.perhaps_absent():
            names = session.rows(base.dn, wanted_of(session, frame, None), ())
            total += sum(1 for _ in islice(names, None if limit is None else limit - total))
    return total


def are_fewer(directory: "Directory", type_names: Iterable[str], limit: int) -> bool:
    """Return True if there are fewer objects of some types than a limit; counting ends at the limit."""
    total = 0
    for name in type_names:
        total += count(directory, name, limit - total)
        if total >= limit:
            return False
    return True


def _key_batch(rows: Sequence[_KeyRow]) -> pa.RecordBatch:
    values = zip(*rows, strict=True) if rows else ((),) * len(KEY_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(values, KEY_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=KEY_SCHEMA)
