"""Objects of a directory as rows of export files, in all formats."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from mqdssm.pipeline.export import objects
from mqdssm.pipeline.export.exported_keys import ExportedKeys
from mqdssm.pipeline.export.file_writer import PARQUET, RowBatch
from mqdssm.pipeline.export.objects import RawEntry
from mqdssm.pipeline.ldif import (
    Dialect,
    Record,
    as_stored,
    into_ad,
    known_to_openldap,
    to_ad,
    to_openldap,
)
from mqdssm.pipeline.texts import texts_of

if TYPE_CHECKING:
    from mqdssm.directory.filters import LdapFilter
    from mqdssm.directory.profile import Profile
    from mqdssm.events.facade import Directory

LDIF: Final = "ldif"
ENTRIES_TOGETHER: Final = 1_000
"""Largest number of LDIF records in a batch."""


def head_of(kind: str, type_name: str) -> bytes:
    """Return the first bytes of a text file: the header line for CSV, else nothing."""
    return b"" if kind == LDIF else texts_of(kind)[1](objects.columns(type_name))


def all_rows(
    directory: "Directory",
    type_name: str,
    kind: str,
    dialect: str | None,
    where: "LdapFilter | None" = None,
) -> Iterator[RowBatch]:
    """Yield the objects of a type as batches of rows.

    Args:
        directory: to read.
        type_name: of the objects.
        kind: format.
        dialect: of LDIF.
        where: additional LDAP filter; None: all objects.

    Raises:
        DirectoryError: while iterating.
    """
    if kind == LDIF:
        found = objects.entries(directory, type_name, where)
        profile = directory.session.profile
        return ldif_rows(found, type_name, profile, Dialect(dialect or Dialect.OPENLDAP))
    return batch_rows(objects.read(directory, type_name, where), kind)


def batch_rows(batches: Iterable[pa.RecordBatch], kind: str) -> Iterator[RowBatch]:
    """Convert record batches into rows of a format other than LDIF."""
    write = None if kind == PARQUET else texts_of(kind)[0]
    for batch in batches:
        keys, dns = objects.key_of_batch(batch)
        yield RowBatch(keys, dns, batch if write is None else list(write(batch)))


def ldif_rows(
    entries: Iterable[RawEntry], type_name: str, profile: "Profile", dialect: Dialect
) -> Iterator[RowBatch]:
    """Convert entries into rows of LDIF, each batch of one series.

    Args:
        entries: as they are stored.
        type_name: of the objects.
        profile: of the source server.
        dialect: of the target server.
    """
    pending: dict[int, list[tuple[str, str, bytes]]] = {}
    for entry in entries:
        key = objects.key(type_name, entry.guid, entry.dn)
        for record in records(entry, profile, dialect):
            rows = pending.setdefault(record.series, [])
            rows.append((key, entry.dn, record.data))
            if len(rows) >= ENTRIES_TOGETHER:
                yield _rows(record.series, pending.pop(record.series))
    for series in sorted(pending):
        yield _rows(series, pending[series])


def records(entry: RawEntry, profile: "Profile", dialect: Dialect) -> list[Record]:
    """Return the LDIF records of an entry for a kind of server; empty if it cannot hold the entry."""
    from_ad = profile.translates_security
    if dialect is Dialect.AD:
        return to_ad(entry.dn, entry.attributes, as_stored if from_ad else into_ad())
    if not from_ad:
        return to_openldap(entry.dn, entry.attributes, as_stored)
    known = known_to_openldap(entry.dn, entry.attributes)
    return [] if known is None else to_openldap(entry.dn, known, profile.security_from_directory)


def without(rows: RowBatch, held: ExportedKeys) -> RowBatch:
    """Return the rows whose objects are not yet in files of the same series."""
    there = held.get(rows.series)
    if not there:
        return rows
    pairs = zip(rows.keys.to_pylist(), rows.dns.to_pylist(), strict=True)
    kept = [place for place, pair in enumerate(pairs) if pair not in there]
    if len(kept) == len(rows):
        return rows
    places = pa.array(kept, pa.int64())
    if isinstance(rows.data, pa.RecordBatch):
        data: pa.RecordBatch | list[bytes] = rows.data.take(places)
    else:
        data = [rows.data[place] for place in kept]
    return RowBatch(rows.keys.take(places), rows.dns.take(places), data, rows.series)


def _rows(series: int, rows: Sequence[tuple[str, str, bytes]]) -> RowBatch:
    keys, dns, data = zip(*rows, strict=True)
    return RowBatch(pa.array(keys, pa.string()), pa.array(dns, pa.string()), list(data), series)
