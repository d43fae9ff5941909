"""Objects of each type for an export: columns, entries, keys and counts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.directory.filters import Equal, LdapFilter, any_of
from mqdssm.directory.session import Session
from mqdssm.pipeline.export.server_position import Since
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.bulk import Base, bases_of, filter_of_type, read_batches
from mqdssm.pipeline.frames.columns import DN_COLUMN, FRAME_TYPES

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

STORED: Final = ("*", "nTSecurityDescriptor")
"""Attributes that users write, enough to add an object again; a domain controller returns the security
descriptor only if it is named."""
_GUID: Final = "objectguid"
_GUID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class RawEntry:
    """One object as stored.

    Attributes:
        dn: DN of the object.
        attributes: description and values, as the server writes them.
    """

    dn: str
    attributes: Sequence[tuple[str, Sequence[bytes]]]

    @property
    def guid(self) -> str | None:
        """The objectGUID as text; None if there is none or it is damaged."""
        return next(
            (format_guid(values[0]) for name, values in self.attributes if name.lower() == _GUID), None
        )


def format_guid(guid: bytes | None) -> str | None:
    """Convert an objectGUID into text; None if there is none or it is damaged."""
    return str(UUID(bytes_le=guid)) if guid is not None and len(guid) == _GUID_BYTES else None


def read_raw_entries(session: Session, base: Base, search_filter: LdapFilter) -> Iterator[RawEntry]:
    """Yield the objects below a base, as a stream.

    Raises:
        DirectoryError: while iterating.
    """
    with base.allow_absence():
        for dn, attributes in session.find_raw(base.dn, search_filter, STORED):
            yield RawEntry(dn, tuple(attributes.items()))


KEY_SCHEMA: Final = pa.schema(
    [("key", pa.string()), ("dn", pa.string()), ("guid", pa.string()), ("changed", pa.bool_())]
)
KEY_COLUMNS: Final = ("Identifier", "FullPath", DN_COLUMN.name)
"""Columns that `key_of_batch` needs, as far as a type has them."""
KEYS_ASKED: Final = 100
"""Number of objects in one search; slapd needs longer for more of them than for two searches."""
_KEYS_BATCH: Final = 10_000
_KeyRow = tuple[str, str, str | None, bool | None]
"""A row of `KEY_SCHEMA`."""


def make_schema(type_name: str) -> pa.Schema:
    """Return the Arrow schema of a type."""
    return make_arrow_schema(FRAME_TYPES[type_name].columns)


def read(directory: "Directory", type_name: str, where: LdapFilter | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the objects of a type in record batches of bounded size.

    Args:
        directory: to read.
        type_name: of the objects.
        where: additional LDAP filter; None: all objects.

    Raises:
        DirectoryError: while iterating.
    """
    return read_batches(directory, FRAME_TYPES[type_name], where=where, attributes=STORED)


def read_entries(
    directory: "Directory", type_name: str, where: LdapFilter | None = None
) -> Iterator[RawEntry]:
    """Yield the objects of a type as stored LDAP entries; see `read`."""
    session = directory.session
    frame = FRAME_TYPES[type_name]
    for base in bases_of(session, frame):
        yield from read_raw_entries(session, base, filter_of_type(session, frame, where))


def make_filters(directory: "Directory", keys: Sequence[str]) -> Iterator[LdapFilter]:
    """Yield LDAP filters for objects by their keys, `KEYS_ASKED` objects each."""
    by_name = directory.session.profile.build_dn_filter
    for start in range(0, len(keys), KEYS_ASKED):
        some = [(key, guid_of(key)) for key in keys[start : start + KEYS_ASKED]]
        yield any_of(
            *(by_name(key) if guid is None else Equal("objectGUID", guid.bytes_le) for key, guid in some)
        )


def make_key(type_name: str, guid: str | None, dn: str) -> str:
    """Return the key of an object in its type: its objectGUID as text.

    Without an objectGUID it is the DN.
    For type ``ldap`` the key is the DN, as not every entry has an objectGUID.
    """
    return dn if guid is None or FRAME_TYPES[type_name].ldap_class is None else guid


def key_of_batch(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Return the key and the DN of each row.

    The DN is NULL if the type has no DN column.
    """
    names = batch.schema.names
    if DN_COLUMN.name in names:
        return batch.column(DN_COLUMN.name), batch.column(DN_COLUMN.name)
    dns = batch.column("FullPath") if "FullPath" in names else pa.nulls(batch.num_rows, pa.string())
    return pc.coalesce(batch.column("Identifier"), dns), dns


def guid_of(text: str) -> UUID | None:
    """Return the objectGUID of a key; None if the key is a DN."""
    try:
        return UUID(text)
    except ValueError:
        return None


def read_keys(directory: "Directory", type_name: str, since: Since) -> pa.Table:
    """Return the keys of all objects of a type as rows of `KEY_SCHEMA`.

    Column ``changed`` is True if the object changed since the marks, and NULL without a readable stamp.

    Raises:
        DirectoryError: the search failed.
    """
    session = directory.session
    batches: list[pa.RecordBatch] = []
    rows: list[_KeyRow] = []
    frame = FRAME_TYPES[type_name]
    for base in bases_of(session, frame):
        with base.allow_absence():
            for dn, guid, *stamps in session.rows(
                base.dn, filter_of_type(session, frame, None), ("objectGUID", *since.stamps)
            ):
                text = format_guid(guid)
                rows.append((make_key(type_name, text, dn), dn, text, since.is_changed(stamps)))
                if len(rows) >= _KEYS_BATCH:
                    batches.append(_make_key_batch(rows))
                    rows = []
    batches.append(_make_key_batch(rows))
    return pa.Table.from_batches(batches, schema=KEY_SCHEMA)


def count(directory: "Directory", type_name: str, limit: int | None = None) -> int:
    """Return the number of objects of a type, without reading their attributes.

    Args:
        directory: to read.
        type_name: of the objects.
        limit: number at which counting ends; None: count all.
    """
    session, frame = directory.session, FRAME_TYPES[type_name]
    total = 0
    for base in bases_of(session, frame):
        with base.allow_absence():
            names = session.rows(base.dn, filter_of_type(session, frame, None), ())
            total += sum(1 for _ in islice(names, None if limit is None else limit - total))
    return total


def are_fewer(directory: "Directory", type_names: Iterable[str], limit: int) -> bool:
    """Return True if some types have fewer objects than a limit in all.

    Counting ends at the limit.
    """
    total = 0
    for name in type_names:
        total += count(directory, name, limit - total)
        if total >= limit:
            return False
    return True


def _make_key_batch(rows: Sequence[_KeyRow]) -> pa.RecordBatch:
    values = zip(*rows, strict=True) if rows else ((),) * len(KEY_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(values, KEY_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=KEY_SCHEMA)
