"""Work of applying a plan: one file of operations, and its journal."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from uuid import UUID, uuid4

from mqdssm.directory.loading.existing_entries import GUID, guid_of
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions, Outcome
from mqdssm.directory.requests import make_entry
from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import lock_file
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.failures import SparkFailed
from mqdssm.pipeline.migrate.apply_journal import ApplyJournal, JournalLine, JournalWriter
from mqdssm.pipeline.migrate.moves import perform_move
from mqdssm.pipeline.migrate.places import ReferencedPlaces
from mqdssm.pipeline.migrate.plan_file import EntryRole, PlanAction, PlanOperation, Values, read_operations
from mqdssm.pipeline.migrate.report import TargetRefusal
from mqdssm.pipeline.runner import StopRequest
from mqdssm.tables import schema
from mqdssm.tables.references import find_references

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


class Absent(NamedTuple):
    """An object that should have been made, but is not in the target.

    Attributes:
        dn: its name in the plan; another object may have it.
        guid: the one that it had in the source; None for companions.
        row: table and row that it is the object of; None for companions.
    """

    dn: str
    guid: UUID | None
    row: tuple[str, int] | None

    @classmethod
    def of(cls, operation: PlanOperation, recorded: JournalLine) -> Self | None:
        """Return the object of a refused operation.

        Returns None if the target holds the object nevertheless.
        """
        if operation.action in {PlanAction.DELETE, PlanAction.MOVE} or _is_there(operation, recorded):
            return None
        is_object = operation.role == EntryRole.OBJECT
        row = (operation.table, operation.source_row) if is_object else None
        return cls(operation.dn, operation.guid, row)


def _is_there(operation: PlanOperation, recorded: JournalLine) -> bool:
    """Return True if the refusal concerns values of the object itself.

    No other object has its place then.
    """
    if operation.action != PlanAction.ADD:
        return recorded.effect is not Effect.MISSING
    if recorded.effect is not Effect.CONFLICT:
        return False
    differs = {name.lower() for name in recorded.attributes}
    is_same = bool(differs) and guid_of(operation.values) is not None and GUID.lower() not in differs
    return operation.role == EntryRole.CONTAINER or is_same


@dataclass(frozen=True, slots=True)
class Absences:
    """Index of the absent objects of a plan, by GUID, DN and row.

    Attributes:
        by_guid: GUID in the source -> DN.
        by_dn: normalised DN -> DN.
        by_row: table and row -> DN.
    """

    by_guid: Mapping[UUID, str] = field(default_factory=dict)
    by_dn: Mapping[str, str] = field(default_factory=dict)
    by_row: Mapping[tuple[str, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, some: Iterable[Absent]) -> Self:
        """Index absent objects."""
        absent = list(some)
        return cls(
            by_guid={absence.guid: absence.dn for absence in absent if absence.guid is not None},
            by_dn={normalize(absence.dn): absence.dn for absence in absent},
            by_row={absence.row: absence.dn for absence in absent if absence.row is not None},
        )

    def find_reason(self, operation: PlanOperation) -> str:
        """Return the reason why an operation is refused.

        The reason is empty if the operation depends on nothing that is absent.
        """
        if not self.by_dn or operation.action == PlanAction.DELETE:
            return ""
        dn = (
            self._of_row(operation)
            or self._find_absent_reference(operation)
            or self._find_absent_parent(operation)
        )
        return f"it depends on {dn}, which was refused" if dn else ""

    def _of_row(self, operation: PlanOperation) -> str | None:
        """Return the DN of the absent object whose companion an operation makes."""
        is_object = operation.role == EntryRole.OBJECT
        return None if is_object else self.by_row.get((operation.table, operation.source_row))

    def _find_absent_reference(self, operation: PlanOperation) -> str | None:
        for _, target in find_references(operation.ldap_class, operation.values):
            dn = self.by_guid.get(target) if isinstance(target, UUID) else self.by_dn.get(normalize(target))
            if dn is not None:
                return dn
        return None

    def _find_absent_parent(self, operation: PlanOperation) -> str | None:
        above = DN.parse(operation.dn).parent
        while above:
            if (dn := self.by_dn.get(above.normalized)) is not None:
                return dn
            above = above.parent
        return None


APPLY_NAME: Final = ".apply"
ERRORS_NAME: Final = "errors"
LOCK_WAIT_S: Final = 86_400.0
"""Longest wait for another attempt at the same file to end (speculation, or a task that Spark gave up)."""
FLUSH_EVERY: Final = 100
"""Outcomes after which the journal is flushed: a killed worker loses no more lines than these."""
OWN_PREFIX: Final = "msmq"
_NEVER_COMPARED: Final = frozenset({"whenchanged", "usnchanged"})


@dataclass(slots=True)
class FileDone:
    """Result of applying a file of operations.

    Attributes:
        part: its path in the plan.
        effects: ``role effect`` -> how many operations.
        refused: operations that the target refused.
        dangling: references that could not be set, since their targets do not exist.
        left: table and row of each operation that was not tried, since there were too many errors.
        stopped: there were too many errors.
        names: row_id -> DN of objects that were made with another DN than planned.
        absent: objects that do not exist, since the target refused them.
        unmoved: objects that are still where they were, since the target refused to move them.
    """

    part: str
    effects: Counter[str] = field(default_factory=Counter)
    refused: list[TargetRefusal] = field(default_factory=list)
    dangling: list[TargetRefusal] = field(default_factory=list)
    left: set[tuple[str, int]] = field(default_factory=set)
    stopped: bool = False
    names: dict[int, str] = field(default_factory=dict)
    absent: list[Absent] = field(default_factory=list)
    unmoved: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyTask:
    """Task for workers: apply one level of a plan, or the last references.

    References are last if they are set after all objects.

    Attributes:
        folder: of the plan.
        access: how workers get into the target.
        parts: files of operations; each is a piece of work.
        stage: empty, or ``later`` for the references.
        places: objects that references refer to.
        absences: objects that do not exist: operations that depend on them are refused.
        load: how changes are loaded.
        errors_max: errors of all workers together after which no more is tried; None: no limit.
    """

    folder: Path
    access: DirectoryAccess
    parts: tuple[str, ...]
    stage: str
    places: ReferencedPlaces
    absences: Absences
    load: LoadOptions
    errors_max: int | None

    def __call__(self, number: int, stop: StopRequest) -> FileDone:
        """Apply one file of operations.

        Operations that are done according to its journal are not repeated.

        Raises:
            Stopped: the stop was set: what was sent was answered and is in the journal.
            ConfigError: the folder cannot be written, or another program applies the same plan.
            DirectoryError: the target is gone.
        """
        journal = ApplyJournal(self.folder, self.parts[number], self.stage)
        lock = journal.path.with_suffix(".lock")
        with (
            convert_disk_errors(self.folder),
            lock_file(lock, wait_s=LOCK_WAIT_S, message=f"another program applies the plan in {self.folder}"),
            self.access.connect(read_only=False) as directory,
        ):
            return _File(self, self.parts[number], journal, directory.session, stop).apply()


@contextmanager
def convert_disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the disk of a plan's folder into `ConfigError`.

    Raises:
        ConfigError: it is full, or nothing may be written there; what was done is in the journal or is found
            done, so that the plan can be applied again.
        SparkFailed: unchanged but for the advice to apply the plan again.
    """
    try:
        yield
    except ConnectionError:
        raise  # not of the disk: the connection to Java is lost, and the session says why
    except SparkFailed as error:
        raise SparkFailed(f"{error}; apply the plan again: it goes on") from error
    except OSError as error:
        raise ConfigError(
            f"the plan in {folder} cannot be written: {error.strerror or error}; "
            "when that is mended, apply it again: it goes on"
        ) from error


class _File:
    """Applies one file of operations."""

    def __init__(
        self, task: ApplyTask, part: str, journal: ApplyJournal, session: "Session", stop: StopRequest
    ) -> None:
        self._task = task
        self._stop = stop
        self._journal = journal
        self._session = session
        self._path = task.folder / part
        self._recorded = journal.read()
        self._pending: dict[int, PlanOperation] = {}
        self._missing: dict[int, tuple[str, ...]] = {}
        self._errors = ErrorCount(task.folder, task.errors_max)
        self._stopped = False
        self._done = FileDone(part)

    def apply(self) -> FileDone:
        before = ApplyJournal(self._task.folder, self._done.part).read() if self._task.stage else {}
        with self._journal.open_for_writing() as lines:
            items = self._list_items(before, lines)
            outcomes = self._session.loader.load(items, self._task.load, is_enough=self._is_enough)
            for count, outcome in enumerate(outcomes, 1):
                self._note(outcome, lines)
                if count % FLUSH_EVERY == 0:
                    lines.flush()
            self._stop.check()
            if self._stopped:
                self._leave(items)
        return self._done

    def _is_enough(self) -> bool:
        """Return True if no further change may begin.

        There are too many errors of all workers, or a stop was requested.
        """
        self._stopped = self._stopped or self._errors.are_too_many
        return self._stopped or self._stop.is_set

    def _leave(self, items: Iterator[Item]) -> None:
        """Count the operations that were not tried, whether the loader took them or not."""
        for operation in self._pending.values():
            self._count_as_left(operation)
        for _ in items:
            pass  # nothing is yielded any more, but the rest is counted

    def _count_as_left(self, operation: PlanOperation) -> None:
        self._done.stopped = True
        self._done.left.add((operation.table, operation.source_row))

    def _list_items(self, before: Mapping[int, JournalLine], lines: JournalWriter) -> Iterator[Item]:
        """Yield the changes that are still to be made, for the loader."""
        for operation in read_operations(self._path):
            row = operation.row_id
            recorded = self._recorded.get(row)
            if self._stop.is_set:
                return
            if self._task.stage and not operation.later:
                continue
            if recorded is not None and recorded.is_over:
                self._count(operation, recorded)
            elif self._stopped:
                self._count_as_left(operation)
            elif self._task.stage and not (row in before and before[row].is_done):
                continue  # the operation itself was refused
            elif not self._task.stage and (why := self._task.absences.find_reason(operation)):
                self._record(operation, JournalLine(row, Effect.REJECTED, text=why), lines)
            elif operation.action == PlanAction.MOVE:
                self._record(operation, perform_move(self._session, operation), lines)
            else:
                item = (
                    self._make_reference_change(operation, before)
                    if self._task.stage
                    else self._make_item(operation)
                )
                if item is None:
                    self._record(operation, self._with_missing(JournalLine(row, Effect.EQUAL)), lines)
                    continue
                self._pending[row] = operation
                yield item

    def _make_item(self, operation: PlanOperation) -> Item | None:
        """Return the change for an operation; None if nothing is to be written (yet)."""
        row, ldap_class = operation.row_id, operation.ldap_class
        match operation.action:
            case PlanAction.ADD:
                dn = self._task.places.name_of(ldap_class, operation.dn)
                values = make_entry((ldap_class,), operation.values)
                return Item(row=row, action=Action.ADD, dn=dn, attributes=values, ldap_class=ldap_class)
            case PlanAction.MODIFY if operation.values:
                return Item(
                    row=row,
                    action=Action.MODIFY,
                    dn=operation.dn,
                    attributes=operation.values,
                    before=operation.before,
                    ldap_class=ldap_class,
                )
            case PlanAction.DELETE:
                return Item(
                    row=row, action=Action.DELETE, dn=operation.dn, before=_select_required_values(operation)
                )
        return None

    def _make_reference_change(
        self, operation: PlanOperation, before: Mapping[int, JournalLine]
    ) -> Item | None:
        """Return the change that sets waiting references.

        Returns None if none of them can be set.
        """
        values, missing = self._task.places.look_up_values(operation.ldap_class, operation.later)
        self._missing[operation.row_id] = tuple(missing)
        for name, guids in missing.items():
            text = f"{name} refers to {', '.join(guids)}, which is not there"
            recorded = JournalLine(operation.row_id, Effect.REJECTED, text=text, attributes=(name,))
            self._done.dangling.append(_make_refusal(operation, recorded))
        # an attribute none of whose targets exists keeps its values
        values = {name: raws for name, raws in values.items() if raws or name not in missing}
        if not values:
            return None
        dn = before[operation.row_id].dn or operation.dn
        return Item(
            row=operation.row_id,
            action=Action.MODIFY,
            dn=dn,
            attributes=values,
            before={},
            ldap_class=operation.ldap_class,
        )

    def _note(self, outcome: Outcome, lines: JournalWriter) -> None:
        operation = self._pending.pop(outcome.row)
        is_guid_known = "objectGUID" in operation.values or operation.action != PlanAction.ADD
        recorded = JournalLine.of(outcome, operation.dn, keeps_guid=is_guid_known)
        if operation.action == PlanAction.DELETE and outcome.effect is Effect.MISSING:
            recorded = JournalLine(outcome.row, Effect.DELETED)  # it was deleted already
        self._record(operation, self._with_missing(recorded), lines)

    def _with_missing(self, recorded: JournalLine) -> JournalLine:
        """Add references without target to the line of a done operation, for a retry."""
        missing = self._missing.pop(recorded.row, ())
        return recorded._replace(attributes=missing) if missing and recorded.is_done else recorded

    def _record(self, operation: PlanOperation, recorded: JournalLine, lines: JournalWriter) -> None:
        lines.add(recorded)
        self._count(operation, recorded)
        if not recorded.is_done:
            self._errors.add()

    def _count(self, operation: PlanOperation, recorded: JournalLine) -> None:
        self._done.effects[f"{operation.role} {recorded.effect}"] += 1
        if not recorded.is_done:
            self._done.refused.append(_make_refusal(operation, recorded))
            if operation.action == PlanAction.MOVE:
                self._done.unmoved.append(operation.dn)
            if not self._task.stage and (absent := Absent.of(operation, recorded)) is not None:
                self._done.absent.append(absent)
        elif recorded.dn is not None:
            self._done.names[recorded.row] = recorded.dn


def _select_required_values(operation: PlanOperation) -> Values:
    """Return the values that an entry must have to be deleted.

    The value () stands for an MSMQ attribute that the entry must lack.
    """
    allowed = schema.list_allowed_attributes(operation.ldap_class)
    names = {name.lower() for name in allowed} - _NEVER_COMPARED
    before = {name: raws for name, raws in operation.before.items() if name.lower() in names}
    had = {name.lower() for name in before}
    new = {name for name in allowed if name.lower().startswith(OWN_PREFIX) and name.lower() not in had}
    return before | dict.fromkeys(new, ())


def _make_refusal(operation: PlanOperation, recorded: JournalLine) -> TargetRefusal:
    return TargetRefusal(
        table=operation.table,
        row=operation.source_row,
        type=operation.type,
        role=operation.role or EntryRole.OBJECT,
        dn=recorded.dn or operation.dn,
        attributes=recorded.attributes,
        code=recorded.code,
        reason=recorded.text,
    )


class ErrorCount:
    """Counter of the errors of all workers.

    The counter adds up the sizes of files; each worker appends to its own file.

    Args:
        folder: of the plan.
        most: how many are allowed; None: any number.
    """

    def __init__(self, folder: Path, most: int | None) -> None:
        self._folder = folder / APPLY_NAME / ERRORS_NAME
        self._most = most
        self._own = self._folder / uuid4().hex

    def add(self) -> None:
        """Count one more error."""
        if self._most is not None:
            with self._own.open("ab") as file:
                file.write(b".")

    @property
    def are_too_many(self) -> bool:
        """True if there are more errors than allowed."""
        if self._most is None:
            return False
        with os.scandir(self._folder) as files:
            return sum(file.stat().st_size for file in files) > self._most
