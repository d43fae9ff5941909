"""Objects of a directory as rows of an export's files, whatever their format."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from mqdssm.pipeline.export import objects
from mqdssm.pipeline.export.exported_keys import Held
from mqdssm.pipeline.export.file_writer import PARQUET, RowBatch
from mqdssm.pipeline.frames.raw import RawEntry
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
FORMATS: Final = (PARQUET, "csv", "jsonl", LDIF)
ENTRIES_TOGETHER: Final = 1_000
"""Entries that are written as LDIF at once."""


def head_of(kind: str, type_name: str) -> bytes:
    """What a text file of a format begins with."""
    return b"" if kind == LDIF else texts_of(kind)[1](objects.columns(type_name))


def all_rows(
    directory: "Directory",
    type_name: str,
    kind: str,
    dialect: str | None,
    where: "LdapFilter | None" = None,
) -> Iterator[RowBatch]:
    """The objects of a type.

    Args:
        directory: where they are.
        type_name: of the objects.
        kind: format.
        dialect: of LDIF.
        where: what they must satisfy besides; None: all.

    Raises:
        DirectoryError: while iterating.
    """
    if kind == LDIF:
        found = objects.entries(directory, type_name, where)
        profile = directory.session.profile
        return ldif_rows(found, type_name, profile, Dialect(dialect or Dialect.OPENLDAP))
    return batch_rows(objects.read(directory, type_name, where), kind)


def batch_rows(batches: Iterable[pa.RecordBatch], kind: str) -> Iterator[RowBatch]:
    """Rows of batches, for all formats but LDIF."""
    write = None if kind == PARQUET else texts_of(kind)[0]
    for batch in batches:
        keys, dns = objects.key_of_batch(batch)
        yield RowBatch(keys, dns, batch if write is None else list(write(batch)))


def ldif_rows(
    entries: Iterable[RawEntry], type_name: str, profile: "Profile", dialect: Dialect
) -> Iterator[RowBatch]:
    """Rows of LDIF; those of one series together.

    Args:
        entries: as they are stored.
        type_name: of the objects.
        profile: of the server that they are from.
        dialect: of the server that they are for.
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
    """An entry as LDIF for a kind of server; none if that server could not hold it."""
    from_ad = profile.translates_security
    if dialect is Dialect.AD:
        return to_ad(entry.dn, entry.attributes, as_stored if from_ad else into_ad())
    if not from_ad:
        return to_openldap(entry.dn, entry.attributes, as_stored)
    known = known_to_openldap(entry.dn, entry.attributes)
    return [] if known is None else to_openldap(entry.dn, known, profile.security_from_directory)


def without(rows: RowBatch, held: Held) -> RowBatch:
    """The rows whose objects are not held already by files of the same series."""
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
