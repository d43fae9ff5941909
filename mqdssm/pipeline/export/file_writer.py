"""Writer of the files of an export.

A file has a temporary name and a running SHA-256 until it is renamed at the end.

Objects of a directory as rows of export files, in all formats.

Keys of the objects in the finished files of an export, and removal of objects from files.
"""

import contextlib
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdssm.events.durable_files import sync_folder
from mqdssm.pipeline.export import objects
from mqdssm.pipeline.export.journal import ExportFolder, ExportPlan, ItemFinished
from mqdssm.pipeline.export.objects import KEY_COLUMNS, RawEntry, key_of_batch
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.ldif import (
    REFERENCES_SERIES,
    Dialect,
    Record,
    as_stored,
    make_ad_translation,
    select_for_openldap,
    to_ad,
    to_openldap,
)
from mqdssm.pipeline.manifest import ExportedFile
from mqdssm.pipeline.texts import texts_of

if TYPE_CHECKING:
    from mqdssm.directory.filters import LdapFilter
    from mqdssm.directory.profile import Profile
    from mqdssm.events.facade import Directory

PARQUET: Final = "parquet"
"""The format whose files hold the keys of their objects; the other formats are texts."""
FILE_BYTES: Final = 256 * 1024 * 1024
"""Bytes after which a file ends, for any number of rows: certificates reach 1 MiB each."""
PRIVATE_MODE: Final = 0o600
READABLE_MODE: Final = 0o666
"""Mode of files that others may read, as the umask allows."""
_BUFFER_BYTES: Final = 1024 * 1024

KEYS_SCHEMA: Final = pa.schema([("key", pa.string()), ("dn", pa.string()), ("bytes", pa.int64())])
"""Schema of the keys of a file: key and DN of each object, and bytes of its row in the file."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Batch of objects to write.

    Attributes:
        keys: objectGUID of each object as text; its DN if it has none.
        dns: DN of each object; NULL if its type has no DN column.
        data: a record batch for Parquet, else the text of each object.
        series: order of loading (LDIF): files of a lower series first.
    """

    keys: pa.Array
    dns: pa.Array
    data: "pa.RecordBatch | Sequence[bytes]"
    series: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def objects(self) -> int:
        """Number of objects; 0 if the rows only add references to objects of other files."""
        return 0 if self.series == REFERENCES_SERIES else len(self)

    def slice(self, start: int, stop: int) -> "RowBatch":
        """Return the rows from `start` up to, not including, `stop`."""
        size = min(stop, len(self)) - start
        if isinstance(self.data, pa.RecordBatch):
            data: pa.RecordBatch | Sequence[bytes] = self.data.slice(start, size)
        else:
            data = self.data[start:stop]
        return RowBatch(self.keys.slice(start, size), self.dns.slice(start, size), data, self.series)


class DigestingFile(io.RawIOBase):
    """Write-only file that computes the SHA-256 of its content.

    Args:
        path: of the file, which is replaced.
        is_private: True: create it with mode 0600.

    Attributes:
        size: bytes written so far.
        is_given_up: True: `write` ignores its data.
    """

    def __init__(self, path: Path, *, is_private: bool = True) -> None:
        super().__init__()
        path.unlink(missing_ok=True)  # of an interrupted attempt
        mode = PRIVATE_MODE if is_private else READABLE_MODE
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        self._file = os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES)
        self._digest = hashlib.sha256()
        self.size = 0
        self.is_given_up = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write data and add it to the digest; return its size in bytes."""
        if self.is_given_up:
            return memoryview(data).nbytes
        self._digest.update(data)
        self._file.write(data)
        count = memoryview(data).nbytes
        self.size += count
        return count

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.size

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written so far, in lower-case hexadecimal."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Sync the file to the disk and close it."""
        if self.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()
            super().close()


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Options of the files of one work item.

    Attributes:
        folder: of the export.
        type_name: type of the objects.
        format: ``parquet``, ``csv``, ``jsonl`` or ``ldif``.
        compression: of Parquet.
        item: number of the work item.
        file_rows: rows after which a file ends.
        head: first bytes of text files.
        schema: of Parquet; None for the other formats.
        readable: let others read the files, as the umask allows, unless they may hold password hashes.
    """

    folder: ExportFolder
    type_name: str
    format: str
    compression: str
    item: int
    file_rows: int
    head: bytes = b""
    schema: "pa.Schema | None" = field(default=None, repr=False)
    readable: bool = False

    @property
    def is_private(self) -> bool:
        """True if only the owner can read the files.

        Files of LDIF and of the type ``ldap`` are private, because stored entries may hold password hashes.
        """
        has_hashes = self.format == "ldif" or FRAME_TYPES[self.type_name].ldap_class is None
        return has_hashes or not self.readable

    def name(self, series: int, number: int) -> str:
        """Return the name of a file.

        In the order of names, files of LDIF have parents before children.
        """
        parts = [f"{series:03d}"] if self.format == "ldif" else []
        return "-".join(["part", *parts, f"{self.item:03d}", f"{number:05d}"]) + f".{self.format}"


class ExportFile:
    """Export file that is being written.

    Args:
        options: of its work item.
        series: of the file.
        number: of the file in its series.
    """

    def __init__(self, options: PartOptions, series: int, number: int) -> None:
        self._options = options
        self._series = series
        self.relative = f"{options.type_name}/{options.name(series, number)}"
        self._target = options.folder.path / self.relative
        self._draft = options.folder.work / f"{self._target.name}.{options.type_name}.{os.getpid()}"
        self._file = DigestingFile(self._draft, is_private=options.is_private)
        self._keys: list[pa.RecordBatch] = []
        self._parquet: pq.ParquetWriter | None = None
        self.rows = 0
        self.objects = 0
        if options.format != PARQUET:
            self._file.write(options.head)

    @property
    def room(self) -> int:
        """Number of rows that still fit into the file."""
        return 0 if self._file.size >= FILE_BYTES else max(0, self._options.file_rows - self.rows)

    def add(self, rows: RowBatch) -> None:
        """Write rows to the file."""
        if self._options.format == PARQUET:
            if self._parquet is None:
                self._parquet = self._open_writer(rows.data)
            self._parquet.write_batch(rows.data)
        else:
            self._file.write(b"".join(rows.data))
            sizes = pa.array(map(len, rows.data), pa.int64())
            self._keys.append(pa.RecordBatch.from_arrays([rows.keys, rows.dns, sizes], schema=KEYS_SCHEMA))
        self.rows += len(rows)
        self.objects += rows.objects

    def finish(self) -> ItemFinished:
        """Close the file and rename it to its final name.

        For a text format its keys are written.
        """
        if self._options.format != PARQUET:
            self._write_keys()
        else:
            (self._parquet or self._open_writer(None)).close()
        self._file.close()
        self._draft.replace(self._target)
        sync_folder(self._target.parent)
        file = ExportedFile(path=self.relative, rows=self.objects, sha256=self._file.sha256)
        return ItemFinished(file=file, item=self._options.item, series=self._series, bytes=self._file.size)

    def _open_writer(self, first: "pa.RecordBatch | None") -> pq.ParquetWriter:
        """Return a Parquet writer.

        Columns that repeat in the first rows get dictionaries.
        """
        return pq.ParquetWriter(
            self._file,
            self._options.schema,
            compression=self._options.compression,
            use_dictionary=[] if first is None else list_repeating(first),
        )

    def abandon(self) -> None:
        """Close and remove the unfinished file."""
        self._file.is_given_up = True
        if self._parquet is not None:
            self._parquet.close()
        with contextlib.suppress(OSError):  # a full disk, which was reported before
            self._file.close()
        self._draft.unlink(missing_ok=True)

    def _write_keys(self) -> None:
        table = pa.Table.from_batches(self._keys, schema=KEYS_SCHEMA)
        pq.write_table(table, self._options.folder.locate_keys(self.relative), compression="zstd")


def list_repeating(batch: pa.RecordBatch) -> list[str]:
    """Return the Parquet paths of the columns whose values repeat.

    Repeating columns get a dictionary encoding. A dictionary of values that are all different costs time and
    space. Lists and maps always get one.
    """
    return [
        path
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        for path in _list_repeating_paths(name, column)
    ]


def _list_repeating_paths(name: str, column: pa.Array) -> tuple[str, ...]:
    if pa.types.is_map(column.type):
        return f"{name}.key_value.key", f"{name}.key_value.value.list.element"
    if pa.types.is_list(column.type):
        return (f"{name}.list.element",)
    few = not pa.types.is_boolean(column.type) and pc.count_distinct(column).as_py() * 2 <= len(column)
    return (name,) if few else ()


class ExportFiles:
    """Writer of the files of one work item, with one open file a series.

    Args:
        options: of the files.
        finished: files that exist already.
    """

    def __init__(self, options: PartOptions, finished: Iterable[ItemFinished]) -> None:
        self._options = options
        self._open: dict[int, ExportFile] = {}
        self._next: dict[int, int] = {}
        for item in finished:
            self._next[item.series] = max(self._next.get(item.series, 0), item.number + 1)

    def add(self, rows: RowBatch) -> Iterator[ItemFinished]:
        """Write rows, and yield each file that they complete."""
        start = 0
        while start < len(rows):
            part = self._open.get(rows.series)
            if part is None:
                part = self._open[rows.series] = self._begin(rows.series)
            stop = start + part.room
            part.add(rows if start == 0 and stop >= len(rows) else rows.slice(start, stop))
            start = stop
            if not part.room:
                del self._open[rows.series]
                yield part.finish()

    def finish(self, *, empty: bool) -> list[ItemFinished]:
        """Finish the open files and return them.

        With `empty`, a file without rows is written if there is none.
        """
        if empty and not self._open and not self._next:
            self._open[0] = self._begin(0)
        return [self._open.pop(series).finish() for series in sorted(self._open)]

    def abandon(self) -> None:
        """Close and remove the open files."""
        while self._open:
            self._open.popitem()[1].abandon()

    def _begin(self, series: int) -> ExportFile:
        number = self._next.get(series, 0)
        self._next[series] = number + 1
        return ExportFile(self._options, series, number)


_BATCH_ROWS: Final = 10_000


ExportedKeys = Mapping[int, set[tuple[str, str | None]]]
"""Series -> key and DN of each object in its files."""


def read_keys(folder: ExportFolder, plan: ExportPlan, item: ItemFinished) -> pa.Table:
    """Return key and DN of each row of a file, in order.

    For text files each row has its size in bytes, too.
    """
    if plan.format != "parquet":
        return pq.read_table(folder.locate_keys(item.file.path), schema=KEYS_SCHEMA)
    path = folder.path / item.file.path
    names = [name for name in KEY_COLUMNS if name in pq.read_schema(path).names]
    batches = pq.read_table(path, columns=names).combine_chunks().to_batches()
    if not batches:
        return KEYS_SCHEMA.empty_table()
    keys, dns = key_of_batch(batches[0])
    return pa.Table.from_arrays([keys, dns, pa.nulls(len(keys), pa.int64())], schema=KEYS_SCHEMA)


def read_exported_keys(folder: ExportFolder, plan: ExportPlan, files: Iterable[ItemFinished]) -> ExportedKeys:
    """Return the keys and DNs of the objects in some files."""
    exported_keys: dict[int, set[tuple[str, str | None]]] = {}
    for item in files:
        keys = read_keys(folder, plan, item)
        pairs = zip(keys.column("key").to_pylist(), keys.column("dn").to_pylist(), strict=True)
        exported_keys.setdefault(item.series, set()).update(pairs)
    return exported_keys


def rewrite_file(
    options: PartOptions, item: ItemFinished, plan: ExportPlan, number: int, gone: pa.Array
) -> ItemFinished:
    """Write a copy of a file without some objects, under a new number.

    The old file stays.

    Args:
        options: for the files of its work item.
        item: the file.
        plan: of the export.
        number: of the new file in its series.
        gone: keys of the objects to leave out.
    """
    keys = read_keys(options.folder, plan, item)
    keep = pc.invert(pc.is_in(keys.column("key"), value_set=gone)).combine_chunks()
    path = options.folder.path / item.file.path
    part = ExportFile(options, item.series, number)
    try:
        source = (
            _read_batches(path) if plan.format == "parquet" else _read_texts(path, len(options.head), keys)
        )
        start = 0
        for data in source:
            mask = keep.slice(start, len(data))
            kept_keys = keys.slice(start, len(data)).filter(mask).combine_chunks()
            start += len(data)
            kept_rows = (
                data.filter(mask)
                if isinstance(data, pa.RecordBatch)
                else [text for text, is_kept in zip(data, mask.to_pylist(), strict=True) if is_kept]
            )
            if kept_keys.num_rows:  # they fit: the old file held them
                part.add(
                    RowBatch(
                        _join_chunks(kept_keys, "key"),
                        _join_chunks(kept_keys, "dn"),
                        kept_rows,
                        item.series,
                    )
                )
        return part.finish()
    except BaseException:
        part.abandon()
        raise


def _join_chunks(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def _read_batches(path: "Path") -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=_BATCH_ROWS)


def _read_texts(path: "Path", head: int, keys: pa.Table) -> Iterator[list[bytes]]:
    """Yield the texts of the rows of a file, in lists of up to `_BATCH_ROWS`."""
    sizes = keys.column("bytes").to_pylist()
    with path.open("rb") as file:
        file.seek(head)
        for start in range(0, len(sizes), _BATCH_ROWS):
            yield [file.read(size) for size in sizes[start : start + _BATCH_ROWS]]


LDIF: Final = "ldif"
ENTRIES_TOGETHER: Final = 1_000
"""Largest number of LDIF records in a batch."""


def head_of(kind: str, type_name: str) -> bytes:
    """Return the first bytes of a text file: the header line for CSV, else nothing."""
    return b"" if kind == LDIF else texts_of(kind)[1](objects.make_schema(type_name))


def read_rows(
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
        entries = objects.read_entries(directory, type_name, where)
        profile = directory.session.profile
        return convert_to_ldif(entries, type_name, profile, Dialect(dialect or Dialect.OPENLDAP))
    return convert_batches(objects.read(directory, type_name, where), kind)


def convert_batches(batches: Iterable[pa.RecordBatch], kind: str) -> Iterator[RowBatch]:
    """Convert record batches into rows of a format other than LDIF."""
    write = None if kind == PARQUET else texts_of(kind)[0]
    for batch in batches:
        keys, dns = objects.key_of_batch(batch)
        yield RowBatch(keys, dns, batch if write is None else list(write(batch)))


def convert_to_ldif(
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
        key = objects.make_key(type_name, entry.guid, entry.dn)
        for record in make_records(entry, profile, dialect):
            rows = pending.setdefault(record.series, [])
            rows.append((key, entry.dn, record.data))
            if len(rows) >= ENTRIES_TOGETHER:
                yield _make_rows(record.series, pending.pop(record.series))
    for series in sorted(pending):
        yield _make_rows(series, pending[series])


def make_records(entry: RawEntry, profile: "Profile", dialect: Dialect) -> list[Record]:
    """Return the LDIF records of an entry for a kind of server.

    The result is empty if such a server cannot hold the entry.
    """
    from_ad = profile.translates_security
    if dialect is Dialect.AD:
        return to_ad(entry.dn, entry.attributes, as_stored if from_ad else make_ad_translation())
    if not from_ad:
        return to_openldap(entry.dn, entry.attributes, as_stored)
    known_attributes = select_for_openldap(entry.dn, entry.attributes)
    return (
        [] if known_attributes is None else to_openldap(entry.dn, known_attributes, profile.decode_security)
    )


def without(rows: RowBatch, exported_keys: ExportedKeys) -> RowBatch:
    """Return the rows whose objects are not yet in files of the same series."""
    exported_pairs = exported_keys.get(rows.series)
    if not exported_pairs:
        return rows
    pairs = zip(rows.keys.to_pylist(), rows.dns.to_pylist(), strict=True)
    new_places = [place for place, pair in enumerate(pairs) if pair not in exported_pairs]
    if len(new_places) == len(rows):
        return rows
    places = pa.array(new_places, pa.int64())
    if isinstance(rows.data, pa.RecordBatch):
        data: pa.RecordBatch | list[bytes] = rows.data.take(places)
    else:
        data = [rows.data[place] for place in new_places]
    return RowBatch(rows.keys.take(places), rows.dns.take(places), data, rows.series)


def _make_rows(series: int, rows: Sequence[tuple[str, str, bytes]]) -> RowBatch:
    keys, dns, data = zip(*rows, strict=True)
    return RowBatch(pa.array(keys, pa.string()), pa.array(dns, pa.string()), list(data), series)
