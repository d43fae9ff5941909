"""What an export reads of each type: where the objects are, their columns, and their keys."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.directory.filters import TRUE, Equal, LdapFilter, all_of, any_of
from mqdssm.errors import ObjectNotFound
from mqdssm.model.filters import Filter
from mqdssm.spark.arrow import BATCH_BYTES_MAX, BATCH_ROWS, arrow_schema, batches
from mqdssm.spark.columns import TYPES, columns_of
from mqdssm.spark.marks import Since
from mqdssm.spark.raw import RawEntry, RawReader
from mqdssm.tables import TABLES
from mqdssm.tables.places import search_base

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

LDAP: Final = "ldap"
"""The type that is all entries of the directory as they are."""
EXPORTED: Final = (*TYPES, LDAP)
"""All types, by their names on the command line."""
KEY_SCHEMA: Final = pa.schema(
    [("key", pa.string()), ("dn", pa.string()), ("guid", pa.string()), ("changed", pa.bool_())]
)
RAW_SCHEMA: Final = pa.schema(
    [
        ("dn", pa.string()),
        ("objectClass", pa.list_(pa.field("element", pa.string()))),
        ("attributes", pa.map_(pa.string(), pa.list_(pa.field("element", pa.binary())))),
    ]
)
KEYS_ASKED: Final = 100
"""Objects that are asked for in one search: more take slapd longer than two searches."""
_GUID_BYTES: Final = 16
_KEYS_BATCH: Final = 10_000


def columns(type_name: str) -> pa.Schema:
    """The columns of a type."""
    if type_name == LDAP:
        return RAW_SCHEMA
    return arrow_schema(columns_of(TYPES[type_name]))


def read(directory: "Directory", type_name: str) -> Iterator[pa.RecordBatch]:
    """All objects of a type as batches of bounded size.

    Raises:
        DirectoryError: while iterating.
    """
    if type_name == LDAP:
        return raw_batches(entries(directory, type_name))
    element = TYPES[type_name]
    return batches(directory.search(element), columns_of(element))


def read_some(directory: "Directory", type_name: str, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some objects of a type, by their keys; those that are gone are left out."""
    if type_name == LDAP:
        yield from raw_batches(some_entries(directory, type_name, wanted))
        return
    element = TYPES[type_name]
    for one in wanted:
        guid = guid_of(one)
        expression = Filter("FullPath", "==", one) if guid is None else Filter("Identifier", "==", guid)
        yield from batches(directory.search(element, expression), columns_of(element))


def entries(directory: "Directory", type_name: str) -> Iterator[RawEntry]:
    """All objects of a type as they are stored, each with the attributes that can be added again.

    Raises:
        DirectoryError: while iterating.
    """
    reader = RawReader(directory.session)
    for base, wanted in places(directory, type_name):
        try:
            yield from reader.entries(base, wanted)
        except ObjectNotFound:
            continue  # there is no such base, so nothing is below it


def some_entries(directory: "Directory", type_name: str, wanted: Sequence[str]) -> Iterator[RawEntry]:
    """Some objects of a type as they are stored, by their keys; those that are gone are left out."""
    reader = RawReader(directory.session)
    profile = directory.session.profile
    for start in range(0, len(wanted), KEYS_ASKED):
        terms: list[LdapFilter] = []
        for one in wanted[start : start + KEYS_ASKED]:
            guid = guid_of(one)
            terms.append(profile.dn_filter(one) if guid is None else Equal("objectGUID", guid.bytes_le))
        for base, of_type in places(directory, type_name):
            try:
                yield from reader.entries(base, all_of(of_type, any_of(*terms)))
            except ObjectNotFound:
                continue


def raw_batches(found: Iterable[RawEntry]) -> Iterator[pa.RecordBatch]:
    """Stored objects as batches of bounded size."""
    kept: list[RawEntry] = []
    size = 0
    for entry in found:
        kept.append(entry)
        size += sum(len(value) for _, values in entry.attributes for value in values)
        if len(kept) >= BATCH_ROWS or size >= BATCH_BYTES_MAX:
            yield _raw_batch(kept)
            kept, size = [], 0
    if kept:
        yield _raw_batch(kept)


def places(directory: "Directory", type_name: str) -> list[tuple[str, LdapFilter]]:
    """Where the objects of a type are: bases, and the filter below each."""
    session = directory.session
    if type_name == LDAP:
        return [(str(base), TRUE) for base in session.naming.guid_bases]
    ldap_class = TABLES[TYPES[type_name]].ldap_class
    base = search_base(ldap_class, session.naming.root, session.naming.configuration)
    return [(str(base), session.profile.class_filter(ldap_class))]


def key(type_name: str, guid: str | None, dn: str) -> str:
    """The key of an object within its type: its objectGUID as text; its name if it has none.

    Of entries as they are it is the name: not every one has an objectGUID.
    """
    return dn if type_name == LDAP or guid is None else guid


def key_of_batch(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The key of each row, and where the object is (NULL where its type does not tell)."""
    names = batch.schema.names
    if "dn" in names:
        return batch.column("dn"), batch.column("dn")
    dns = batch.column("FullPath") if "FullPath" in names else pa.nulls(batch.num_rows, pa.string())
    return pc.coalesce(batch.column("Identifier"), dns), dns


def guid_text(guid: bytes | None) -> str | None:
    """An objectGUID as text; None if there is none, or one that is damaged."""
    return str(UUID(bytes_le=guid)) if guid is not None and len(guid) == _GUID_BYTES else None


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


def _raw_batch(found: Sequence[RawEntry]) -> pa.RecordBatch:
    rows = [
        {
            "dn": entry.dn,
            "objectClass": _classes(entry),
            "attributes": [(name, list(values)) for name, values in entry.attributes],
        }
        for entry in found
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


def _classes(entry: RawEntry) -> list[str]:
    return [
        value.decode(errors="replace")
        for name, values in entry.attributes
        if name.lower() == "objectclass"
        for value in values
    ]


def _key_batch(rows: Sequence[tuple[str, str, str | None, bool]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(KEY_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, KEY_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=KEY_SCHEMA)
