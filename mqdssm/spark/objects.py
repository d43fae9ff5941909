"""What an export reads of each type: where the objects are, their columns, and their keys."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.directory.filters import TRUE, Equal, LdapFilter, all_of, any_of
from mqdssm.errors import ObjectNotFound
from mqdssm.spark.arrow import BATCH_BYTES_MAX, BATCH_ROWS, arrow_schema
from mqdssm.spark.bulk import read_batches
from mqdssm.spark.bulk_ldap import raw_batches
from mqdssm.spark.columns import DN_COLUMN, FRAME_TYPES
from mqdssm.spark.marks import Since
from mqdssm.spark.raw import STORED, RawEntry, guid_text, raw_entries
from mqdssm.tables.places import search_base

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


def columns(type_name: str) -> pa.Schema:
    """The columns of a type."""
    return arrow_schema(FRAME_TYPES[type_name].columns)


def read(
    directory: "Directory", type_name: str, wanted: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Objects of a type as batches of bounded size.

    Args:
        directory: where they are.
        type_name: of the objects.
        wanted: keys of the objects; None: all.

    Raises:
        DirectoryError: while iterating.
    """
    for where in _filters(directory, wanted):
        yield from _read(directory, type_name, where)


def _read(directory: "Directory", type_name: str, where: LdapFilter | None) -> Iterator[pa.RecordBatch]:
    frame = FRAME_TYPES[type_name]
    if frame.ldap_class is not None:
        return read_batches(directory, frame, where=where)
    return raw_batches(
        directory.session,
        frame.columns,
        where=where,
        base=None,
        attributes=STORED,
        rows_max=BATCH_ROWS,
        bytes_max=BATCH_BYTES_MAX,
    )


def entries(
    directory: "Directory", type_name: str, wanted: Sequence[str] | None = None
) -> Iterator[RawEntry]:
    """Objects of a type as they are stored.

    Args:
        directory: where they are.
        type_name: of the objects.
        wanted: keys of the objects; None: all.

    Raises:
        DirectoryError: while iterating.
    """
    for where in _filters(directory, wanted):
        for base, of_type in places(directory, type_name):
            yield from raw_entries(
                directory.session, base, of_type if where is None else all_of(of_type, where)
            )


def _filters(directory: "Directory", wanted: Sequence[str] | None) -> Iterator[LdapFilter | None]:
    """Filters for objects by their keys, some at a time; None: all objects."""
    if wanted is None:
        yield None
        return
    by_name = directory.session.profile.dn_filter
    for start in range(0, len(wanted), KEYS_ASKED):
        some = [(one, guid_of(one)) for one in wanted[start : start + KEYS_ASKED]]
        yield any_of(
            *(by_name(one) if guid is None else Equal("objectGUID", guid.bytes_le) for one, guid in some)
        )


def places(directory: "Directory", type_name: str) -> list[tuple[str, LdapFilter]]:
    """Where the objects of a type are: bases, and the filter below each."""
    session = directory.session
    ldap_class = FRAME_TYPES[type_name].ldap_class
    if ldap_class is None:
        return [(str(base), TRUE) for base in session.naming.guid_bases]
    base = search_base(ldap_class, session.naming.root, session.naming.configuration)
    return [(str(base), session.profile.class_filter(ldap_class))]


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
    """The keys of all objects of a type, and whether they were changed.

    Raises:
        DirectoryError: the search did not come to an end.
    """
    session = directory.session
    found: list[pa.RecordBatch] = []
    rows: list[tuple[str, str, str | None, bool]] = []
    for base, wanted in places(directory, type_name):
        try:
            for dn, guid, *stamps in session.rows(base, wanted, ("objectGUID", *since.stamps)):
                text = guid_text(guid)
                rows.append((key(type_name, text, dn), dn, text, since.is_changed(stamps)))
                if len(rows) >= _KEYS_BATCH:
                    found.append(_key_batch(rows))
                    rows = []
        except ObjectNotFound:
            continue  # there is no such base, so nothing is below it
    found.append(_key_batch(rows))
    return pa.Table.from_batches(found, schema=KEY_SCHEMA)


def count(directory: "Directory", type_name: str) -> int:
    """How many objects of a type there are now: names only, which costs a fraction of reading them."""
    total = 0
    for base, wanted in places(directory, type_name):
        try:
            total += sum(1 for _ in directory.session.rows(base, wanted, ()))
        except ObjectNotFound:
            continue
    return total


def _key_batch(rows: Sequence[tuple[str, str, str | None, bool]]) -> pa.RecordBatch:
    values = zip(*rows, strict=True) if rows else ((),) * len(KEY_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(values, KEY_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=KEY_SCHEMA)
