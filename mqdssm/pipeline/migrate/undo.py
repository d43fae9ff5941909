"""File ``undo.ldif``, which undoes the changes of a plan.

The LDIF restores the directory to its state before the plan was applied.
The file is on disk before the first change. When the plan has been applied, the file is reduced to what was
really done; a full copy is kept in case the plan is applied again. Each record is below a comment with the
row_id of its operation. Load it with ``ldapmodify -c``, which continues if an object was never made.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.directory.loading.existing_entries import AT_ONCE, read_entries_at
from mqdssm.directory.requests import OBJECT_CLASS, make_entry
from mqdssm.events.references import split_into_batches
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.documents import write_whole
from mqdssm.pipeline.migrate.moves import Move
from mqdssm.pipeline.migrate.plan_file import (
    Level,
    MigrationPlan,
    PlanAction,
    PlanKind,
    PlanOperation,
    Values,
    read_operations,
)
from mqdssm.tables import schema
from mqdssm.tables.ldif import fold

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

UNDO_NAME: Final = "undo.ldif"
WHOLE_NAME: Final = ".apply/undo-whole.ldif"
ROW: Final = "# row "
_PRIVATE: Final = 0o600
_MADE_BY_SERVERS: Final = frozenset({"objectguid", "whencreated", "whenchanged", "distinguishedname"})
"""Attributes that a domain controller refuses in an add."""
_NEW: Final = "changetype: delete"
"""Line of a record that undoes an add."""
_MOVED: Final = "changetype: modrdn"
"""Line of a record that undoes a move."""
_HEAD: Final = (
    "version: 1\n"
    "# mqdssm: undoes what was applied. Load: ldapmodify -c -f undo.ldif\n"
    "# (-c goes on where an object was never made.)\n\n"
)


def write_undo(session: "Session", folder: Path, plan: MigrationPlan) -> None:
    """Write LDIF that undoes all operations of a plan, for `begin_undo`.

    Args:
        session: to the target: references that are set last are not in the plan as they were.
        folder: of the plan.
        plan: the plan.

    Raises:
        OSError: it cannot be written.
    """
    records = _format_records(session, folder, plan)
    write_whole(folder / WHOLE_NAME, (text.encode() for text in records), mode=_PRIVATE)


def _format_records(session: "Session", folder: Path, plan: MigrationPlan) -> Iterator[str]:
    """Yield the lines of all records: the last operation is undone first.

    A moved object is moved back before its changes are undone, under its old DN: another object may have the
    new DN afterwards, and must not be changed if the file is loaded twice.
    """
    yield _HEAD
    move = _move_of(plan, folder)
    moved: list[PlanOperation] = []
    for operation, earlier in _list_undone(session, folder, plan.levels):
        is_modified = operation.action == PlanAction.MODIFY
        if move is not None and is_modified and DN.parse(operation.dn).is_at_or_below(move.new):
            moved.append(replace(operation, dn=str(move.restore_dn(DN.parse(operation.dn)))))
            continue
        yield from _record(session, operation, earlier)
        if operation.action == PlanAction.MOVE:
            for change in moved:
                yield from _record(session, change, {})


def _list_undone(
    session: "Session", folder: Path, levels: Sequence[Level]
) -> Iterator[tuple[PlanOperation, Values]]:
    """Yield the operations of all levels, the last level first.

    Earlier values of references come along.
    """
    for level in sorted(levels, key=lambda plan_level: -plan_level.number):
        for part in level.files:
            for batch in split_into_batches(read_operations(folder / part.path), AT_ONCE):
                earlier = _read_earlier(session, batch)
                for operation in batch:
                    yield operation, earlier.get(operation.row_id, {})


def _move_of(plan: MigrationPlan, folder: Path) -> Move | None:
    """Return the move of a plan that replaces a server; None for other plans."""
    if plan.kind is not PlanKind.REPLACEMENT:
        return None
    operations = chain.from_iterable(read_operations(folder / file.path) for file in plan.changes)
    moves = (Move.of(operation) for operation in operations if operation.action == PlanAction.MOVE)
    return next(moves, None)


def begin_undo(folder: Path) -> None:
    """Copy the LDIF of `write_undo` to the undo file, and wait until it is on disk.

    Raises:
        OSError: it cannot be written.
    """
    with (folder / WHOLE_NAME).open("rb") as whole:
        write_whole(folder / UNDO_NAME, whole, mode=_PRIVATE)


def keep_what_was_done(
    folder: Path, done_rows: Collection[int], partly: Collection[int], names: Mapping[int, str]
) -> int:
    """Reduce the undo file to the operations that were done, at least in part.

    Args:
        folder: of the plan.
        done_rows: row_ids of the operations that were made.
        partly: of those that were refused, but whose changes may be there in part.
        names: row_id -> name, of objects that were made under another one than planned.

    Returns:
        The number of records.
    """
    count = 0

    def records() -> Iterator[str]:
        nonlocal count
        yield _HEAD
        for row, lines in read_undo(folder / WHOLE_NAME):
            if row not in done_rows and not (row in partly and _NEW not in lines and _MOVED not in lines):
                continue
            named = [*fold("dn", names[row]), *_without_dn(lines)] if row in names else lines
            count += 1
            yield "\n".join([f"{ROW}{row}", *named, "", ""])

    write_whole(folder / UNDO_NAME, (text.encode() for text in records()), mode=_PRIVATE)
    return count


def read_undo(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of an undo file: the row_id of the operation, and the lines."""
    row: int | None = None
    lines: list[str] = []
    with path.open(encoding="utf-8") as file:
        for line in (text.rstrip("\n") for text in file):  # a line may be folded behind a blank
            if line.startswith(ROW):
                row, lines = int(line.removeprefix(ROW)), []
            elif line and row is not None:
                lines.append(line)
            elif row is not None:
                yield row, lines
                row = None


def _read_earlier(session: "Session", batch: Sequence[PlanOperation]) -> dict[int, Values]:
    """Return the present values of references that are set last, by row_id."""
    some = [operation for operation in batch if operation.action == PlanAction.MODIFY and operation.later]
    if not some:
        return {}
    names = {name for operation in some for name in operation.later}
    entries = read_entries_at(session, [operation.dn for operation in some], names)
    old_values: dict[int, Values] = {}
    for operation in some:
        entry = entries.get(normalize(operation.dn))
        if entry is not None:
            old_values[operation.row_id] = {name: tuple(entry.all(name)) for name in operation.later}
    return old_values


def _record(session: "Session", operation: PlanOperation, earlier: Values) -> Iterator[str]:
    """Yield the lines of the record that undoes an operation."""
    lines = [f"{ROW}{operation.row_id}", *fold("dn", operation.dn_after)]
    if operation.action == PlanAction.ADD:
        lines.append(_NEW)
    elif operation.action == PlanAction.MODIFY:
        before = {**operation.before, **earlier}
        if not before:
            return
        lines += ["changetype: modify", *_format_replacements(before)]
    elif operation.action == PlanAction.MOVE:
        old = DN.parse(operation.dn)
        lines += [_MOVED, *fold("newrdn", str(DN((old.rdns[0],)))), "deleteoldrdn: 1"]
        lines += fold("newsuperior", str(old.parent))
    elif operation.action == PlanAction.DELETE:
        lines += ["changetype: add", *_format_attributes(session, operation)]
    yield from (f"{line}\n" for line in lines)
    yield "\n"


def _format_replacements(before: Values) -> Iterator[str]:
    for name, values in before.items():
        yield f"replace: {name}"
        for value in values:
            yield from fold(name, value)
        yield "-"


def _format_attributes(session: "Session", operation: PlanOperation) -> Iterator[str]:
    """Yield the lines with all attributes of a deleted object that may be written.

    On OpenLDAP these are all that were read, with auxiliary classes.
    """
    before = {name.lower(): values for name, values in operation.before.items()}
    classes: tuple[str, ...] = (operation.ldap_class,)
    if session.profile.makes_guid:
        classes = tuple(raw.decode() for raw in before.pop(OBJECT_CLASS.lower(), ())) or classes
    else:
        allowed = {name.lower() for name in schema.list_allowed_attributes(operation.ldap_class)}
        before = {name: raws for name, raws in before.items() if name in allowed - _MADE_BY_SERVERS}
    for name, values in make_entry(classes, before).items():
        for value in values:
            yield from fold(name, value)


def _without_dn(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines after the DN, which may be folded."""
    seen = False
    for number, line in enumerate(lines):
        if number and not line.startswith(" "):
            seen = True
        if seen:
            yield line
