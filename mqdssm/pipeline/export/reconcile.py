"""Second reading of objects that changed while an export ran.

The manifest lists these objects.
A paged search may miss an object that is moved, or return it twice, and it returns the old state of an object
that changes later. So if the position of the server has changed, the keys and stamps of all objects are read
again. The columns about other objects are read again, too, since changes of these leave no stamp here
(`find_outdated_keys`). Objects that differ are removed from the files and read again,
until nothing differs, at most `ROUNDS_MAX` times.

Exported rows with outdated columns about other objects.

The row of a queue names its computer, and the row of a queue manager its routing servers. When those objects
change, the DN and the stamp of the exported object stay. So these columns are read again and compared.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from mqdssm.pipeline.documents import write_whole
from mqdssm.pipeline.export import objects
from mqdssm.pipeline.export.file_writer import ExportFiles, PartOptions, read_keys, read_rows, rewrite_file
from mqdssm.pipeline.export.journal import ExportFolder, ExportPlan, ItemFinished, ItemJournal
from mqdssm.pipeline.export.objects import KEY_COLUMNS, key_of_batch, make_schema
from mqdssm.pipeline.export.server_position import ChangeCounter, Marks, Since
from mqdssm.pipeline.export.worker import make_part_options
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES, UNREADABLE
from mqdssm.pipeline.ldif import REFERENCES_SERIES
from mqdssm.pipeline.manifest import ChangedObject, ChangeKind
from mqdssm.pipeline.texts import format_jsonl_records, read_csv, read_jsonl
from mqdssm.tables.references import REFERRED_CLASSES
from mqdssm.tables.row import Holder, Row

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

ROUNDS_MAX: Final = 3
"""Number of rounds after which an export of a changing directory ends without consistency."""

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaleObject:
    """Object whose exported state is not that of the directory.

    Attributes:
        key: of the object.
        dn: its current or last DN; None if unknown.
        guid: its objectGUID; None if unknown.
        kind: kind of change.
    """

    key: str
    dn: str | None
    guid: str | None
    kind: ChangeKind


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of `settle`.

    Attributes:
        consistent: True if the files show the directory at one moment.
        changed: objects that changed and were read again.
        marks: position of the server at that moment, or at the last attempt.
    """

    consistent: bool
    changed: tuple[ChangedObject, ...]
    marks: Marks


def settle(directory: "Directory", folder: ExportFolder, plan: ExportPlan) -> Settled:
    """Update the files of an export to the current state of the directory.

    Args:
        directory: that was read.
        folder: of the export, with all work items done.
        plan: of the export, with the position of the server at the beginning.

    Raises:
        DirectoryError: the directory could not be read.
    """
    noted = _Noted(folder.work)
    earlier = plan.marks
    for _ in range(ROUNDS_MAX):
        now = Marks.read(directory.session)
        if now.is_same_as(earlier):
            return Settled(consistent=True, changed=noted.changed, marks=now)
        since = now.make_since(earlier)
        count = silent = 0
        for name in plan.types:
            differing, unknown = _find_differing(directory, folder, plan, name, since)
            silent += unknown
            noted.note_before(name, differing)
            replaced = _replace(directory, folder, plan, name, differing)
            noted.note_after(name, replaced)
            count += len(replaced)
        log.info("%d objects changed while the export ran, and were read again", count)
        if silent:
            log.warning(
                "%d objects show this user no %s: changes are not seen", silent, "/".join(since.stamps)
            )
        if not count or silent or now.counter is ChangeCounter.TIME:  # too coarse for another round
            return Settled(not count and not silent, noted.changed, now)
        earlier = now
    now = Marks.read(directory.session)
    return Settled(consistent=now.is_same_as(earlier), changed=noted.changed, marks=now)


def _find_differing(
    directory: "Directory", folder: ExportFolder, plan: ExportPlan, name: str, since: Since
) -> tuple[list[StaleObject], int]:
    """Find the objects of a type whose rows are missing, outdated or left over.

    Returns:
        These objects, and the number of objects without a readable stamp.
    """
    current = objects.read_keys(directory, name, since)
    outdated = find_outdated_keys(directory, folder, plan, name, _list_files(folder, plan, name))
    flags = pc.fill_null(current.column("changed"), fill_value=False)
    changed = pc.or_(flags, pc.is_in(current.column("key"), value_set=outdated))
    unlike = find_differences(
        _read_exported_keys(folder, plan, name), current.set_column(3, "changed", changed)
    )
    return unlike, current.column("changed").null_count


def find_differences(exported: pa.Table, current: pa.Table) -> list[StaleObject]:
    """Return the objects that differ between files and the directory.

    Args:
        exported: key and DN of each row.
        current: from `objects.keys`.
    """
    if (
        exported.num_rows and exported.column("dn").null_count == exported.num_rows
    ):  # a type without a DN column
        current = current.set_column(1, "dn", pa.nulls(current.num_rows, pa.string()))
    unlike = _count_keys(exported).join(
        _count_keys(current), ["key", "dn"], join_type="full outer", right_suffix="_found"
    )
    same = pc.equal(unlike.column("count"), unlike.column("count_found"))
    keys = set(unlike.filter(pc.invert(pc.fill_null(same, fill_value=False))).column("key").to_pylist())
    keys.update(current.filter(current.column("changed")).column("key").to_pylist())
    if not keys:
        return []
    key_array = pa.array(sorted(keys), pa.string())
    before = _by_key(exported, key_array)
    after = _by_key(current, key_array)
    return [_compare_rows(key, before.get(key), after.get(key)) for key in sorted(keys)]


def _count_keys(table: pa.Table) -> pa.Table:
    """Count each pair of key and DN.

    A missing DN becomes empty, as NULL equals nothing in a join.
    """
    filled = pa.table({"key": table.column("key"), "dn": pc.fill_null(table.column("dn"), "")})
    counted = filled.group_by(["key", "dn"]).aggregate([([], "count_all")])
    return counted.rename_columns(["key", "dn", "count"])


def _by_key(table: pa.Table, key_array: pa.Array) -> dict[str, dict[str, str | None]]:
    rows = table.filter(pc.is_in(table.column("key"), value_set=key_array)).to_pylist()
    return {row["key"]: row for row in rows}


def _compare_rows(
    key: str, before: dict[str, str | None] | None, after: dict[str, str | None] | None
) -> StaleObject:
    guid = objects.guid_of(key)
    old_guid = str(guid) if guid is not None else None
    if after is None:
        return StaleObject(key, None if before is None else before["dn"], old_guid, "deleted")
    kind: ChangeKind = "added" if before is None else "modified"
    return StaleObject(key, after["dn"], old_guid or after["guid"], kind)


def _read_exported_keys(folder: ExportFolder, plan: ExportPlan, name: str) -> pa.Table:
    """Return key and DN of all objects of a type in the files."""
    tables = [
        read_keys(folder, plan, item)
        for item in _list_files(folder, plan, name)
        if item.series != REFERENCES_SERIES
    ]
    return pa.concat_tables(tables) if tables else pa.table({"key": [], "dn": []}, schema=_HELD_SCHEMA)


def _list_files(folder: ExportFolder, plan: ExportPlan, name: str) -> list[ItemFinished]:
    return [item for journal in folder.list_journals(plan, name) for item in journal.read()]


_HELD_SCHEMA: Final = pa.schema([("key", pa.string()), ("dn", pa.string())])


def _replace(
    directory: "Directory",
    folder: ExportFolder,
    plan: ExportPlan,
    name: str,
    differing: Iterable[StaleObject],
) -> list[StaleObject]:
    """Replace objects in the files of a type by their current state.

    Returns those that really changed.
    """
    stale_objects = list(differing)
    if not stale_objects:
        return []
    gone = pa.array(
        [stale_object.key for stale_object in stale_objects if stale_object.kind != "added"], pa.string()
    )
    for item, journal in enumerate(folder.list_journals(plan, name)):
        _take_out(make_part_options(folder, plan, name, item), plan, journal, gone)
    again = [stale_object.key for stale_object in stale_objects if stale_object.kind != "deleted"]
    written = _read_again(directory, folder, plan, name, again) if again else set()
    # an added object without a row was deleted meanwhile, or the format cannot hold it
    return [
        stale_object
        for stale_object in stale_objects
        if stale_object.kind != "added" or stale_object.key in written
    ]


def _take_out(options: PartOptions, plan: ExportPlan, journal: ItemJournal, gone: pa.Array) -> None:
    """Rewrite the files of a work item without some objects.

    Only files that hold such objects are rewritten.
    """
    folder = options.folder
    files = journal.read()
    for place, item in enumerate(files):
        keys = read_keys(folder, plan, item).column("key")
        if not pc.any(pc.is_in(keys, value_set=gone)).as_py():
            continue
        new = rewrite_file(options, item, plan, _choose_number(files, item.series), gone)
        files[place] = new
        journal.replace(files)  # the old file is no part of the export from here on
        (folder.path / item.file.path).unlink()
        folder.locate_keys(item.file.path).unlink(missing_ok=True)


def _choose_number(files: Iterable[ItemFinished], series: int) -> int:
    return 1 + max(item.number for item in files if item.series == series)


def _read_again(
    directory: "Directory", folder: ExportFolder, plan: ExportPlan, name: str, keys: list[str]
) -> set[str]:
    """Read objects by their keys into new files, and return the keys that were found."""
    journal = folder.list_journals(plan, name)[0]
    parts = ExportFiles(make_part_options(folder, plan, name, 0), journal.read())
    written: set[str] = set()
    try:
        for where in objects.make_filters(directory, keys):
            for rows in read_rows(directory, name, plan.format, plan.dialect, where):
                written.update(rows.keys.to_pylist())
                for complete in parts.add(rows):
                    journal.add(complete)
        for complete in parts.finish(empty=False):
            journal.add(complete)
    finally:
        parts.abandon()
    return written


class _Noted:
    """Changed objects of an export, kept on disk.

    The changes are needed if the export is killed and resumed.

    Args:
        work: the folder ``.export``.
    """

    def __init__(self, work: Path) -> None:
        self._path = work / "changed.json"
        self._changes: dict[tuple[str, str], ChangedObject] = {}
        if self._path.exists():
            pairs = _KNOWN.validate_json(self._path.read_bytes())
            self._changes = {(change.type, key): change for key, change in pairs}

    @property
    def changed(self) -> tuple[ChangedObject, ...]:
        """All changed objects."""
        return tuple(self._changes.values())

    def note_before(self, name: str, differing: Sequence[StaleObject]) -> None:
        """Write the differing objects to the disk before the files change."""
        self._write(self._with(name, differing))

    def note_after(self, name: str, replaced: Sequence[StaleObject]) -> None:
        """Add the objects that really changed, and write the list to the disk."""
        self._changes = self._with(name, replaced)
        self._write(self._changes)

    def _with(self, name: str, differing: Iterable[StaleObject]) -> dict[tuple[str, str], ChangedObject]:
        changes = dict(self._changes)
        for stale_object in differing:
            now = ChangedObject(type=name, dn=stale_object.dn, guid=stale_object.guid, what=stale_object.kind)
            changes[name, stale_object.key] = _merge_changes(changes.get((name, stale_object.key)), now)
        return changes

    def _write(self, changed_objects: Mapping[tuple[str, str], ChangedObject]) -> None:
        if changed_objects or self._path.exists():
            write_whole(
                self._path,
                [
                    _KNOWN.dump_json(
                        [(key, changed_object) for (_, key), changed_object in changed_objects.items()]
                    )
                ],
            )


_KNOWN: Final = TypeAdapter(list[tuple[str, ChangedObject]])


def _merge_changes(earlier: ChangedObject | None, now: ChangedObject) -> ChangedObject:
    """Combine two changes of an object.

    Of added and modified the earlier one counts, else the later.
    An object that was removed from the files and not read again, as after a kill, only seems to be added.
    """
    if earlier is not None and {earlier.what, now.what} == {"added", "modified"}:
        return now.model_copy(update={"what": earlier.what})
    return now


_READERS: Final = {"csv": read_csv, "jsonl": read_jsonl}

_TOLD: Final = pa.schema([("key", pa.string()), ("told", pa.binary())])
"""Key of an object, and its columns about other objects as JSON, which is equal for equal values."""


def list_foreign_columns(type_name: str) -> tuple[str, ...]:
    """Return the columns of a type that come from other objects.

    The computer and referred objects are such others.
    """
    return tuple(name for name, row in FRAME_TYPES[type_name].rows.items() if _is_of_others(row))


def _is_of_others(row: Row) -> bool:
    return row.holder is Holder.COMPUTER or bool(row.computer_ldap) or row.computed in REFERRED_CLASSES


def find_outdated_keys(
    directory: "Directory", folder: ExportFolder, plan: ExportPlan, name: str, files: Iterable[ItemFinished]
) -> pa.Array:
    """Return the keys of rows with outdated columns about other objects.

    New objects are among them. The result is empty for LDIF, whose stored entries have no such columns.

    Args:
        directory: that was read.
        folder: of the export.
        plan: of the export.
        name: of the type.
        files: of the type.

    Raises:
        DirectoryError: the search failed.
    """
    compared_columns = list_foreign_columns(name)
    if not compared_columns or plan.format == "ldif":
        return pa.array([], pa.string())
    frame = FRAME_TYPES[name]
    selected_columns = [
        column for column in frame.rows if column in compared_columns or column in KEY_COLUMNS
    ] + [UNREADABLE.name]
    exported_batches = [
        _encode_columns(batch, compared_columns)
        for item in files
        for batch in _read_exported_rows(folder, plan, item, selected_columns)
    ]
    current_batches = [
        _encode_columns(batch, compared_columns)
        for batch in read_batches(directory, frame, frame.select(selected_columns))
    ]
    now, before = (
        pa.Table.from_batches(batches, schema=_TOLD) for batches in (current_batches, exported_batches)
    )
    # also returns objects that the files do not hold
    return now.join(before, _TOLD.names, join_type="left anti").column("key")


def _read_exported_rows(
    folder: ExportFolder, plan: ExportPlan, item: ItemFinished, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of an export file."""
    path = folder.path / item.file.path
    if plan.format == "parquet":
        yield from pq.read_table(path, columns=names).to_batches()
    else:
        table = _READERS[plan.format](path, make_schema(item.file.path.partition("/")[0]))
        yield from table.select(names).to_batches()


def _encode_columns(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return key and JSON of some columns of each row.

    The decoding errors of these columns are included.
    """
    keys, _ = key_of_batch(batch)
    reasons = [
        [reason for reason in all_of or () if reason.partition(":")[0] in names]
        for all_of in batch.column(UNREADABLE.name).to_pylist()
    ]
    lost = pa.array(reasons, pa.list_(pa.string()))
    selection = pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in names), lost], names=[*names, UNREADABLE.name]
    )
    return pa.RecordBatch.from_arrays(
        [keys, pa.array(format_jsonl_records(selection), pa.binary())], schema=_TOLD
    )
