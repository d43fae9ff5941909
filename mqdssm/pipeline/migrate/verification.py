"""Verification of an applied plan.

Each operation is compared with its entry in the target.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.loading.existing_entries import AT_ONCE, guid_of, read_entries_at
from mqdssm.errors import ConfigError
from mqdssm.events.references import References, split_into_batches
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.migrate.apply_journal import LATER, ApplyJournal, JournalLine
from mqdssm.pipeline.migrate.outcome import display_values
from mqdssm.pipeline.migrate.places import MadeObject, MapRow, ReferencedPlaces
from mqdssm.pipeline.migrate.plan_file import EntryRole, PlanAction, PlanOperation, Values, read_operations
from mqdssm.pipeline.migrate.progress import WorkerProgress
from mqdssm.pipeline.migrate.report import LostRow
from mqdssm.pipeline.runner import StopRequest
from mqdssm.tables.equality import find_differences
from mqdssm.tables.references import find_references

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

TELL_EVERY: Final = 10
"""Batches after which a worker reports its progress."""


@dataclass(slots=True)
class FileVerification:
    """Result of verifying a file of operations.

    Attributes:
        equal: role -> number of entries that are as they should be.
        lost: entries that are not as they should be.
        guids: objects that did not keep their GUIDs.
    """

    equal: Counter[str] = field(default_factory=Counter)
    lost: list[LostRow] = field(default_factory=list)
    guids: list[MapRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask:
    """Task for workers: verify the files of a plan.

    Attributes:
        folder: of the plan.
        access: how workers get into the target.
        parts: files of operations and of equal objects; each is a piece of work.
        places: objects that references refer to.
        made_objects: normalised DN -> object that the plan makes there.
        progress: where workers say how far they are.
    """

    folder: Path
    access: DirectoryAccess
    parts: tuple[str, ...]
    places: ReferencedPlaces
    made_objects: Mapping[str, MadeObject]
    progress: WorkerProgress

    def __call__(self, number: int, stop: StopRequest) -> FileVerification:
        """Verify one file; refused operations are left out.

        Raises:
            Stopped: the stop was set; looked for between two batches.
            DirectoryError: the target cannot be asked.
            ConfigError: a file of the plan cannot be read.
        """
        part, verification = self.parts[number], FileVerification()
        journal = ApplyJournal(self.folder, part).read()
        later = ApplyJournal(self.folder, part, LATER).read()
        try:
            with self.access.connect() as directory:
                context = _Context(directory.session, self.made_objects)
                batches = split_into_batches(read_operations(self.folder / part), AT_ONCE)
                for count, batch in enumerate(stop.checking(batches), 1):
                    applied = [operation for operation in batch if _is_applied(operation, journal)]
                    verification.lost += _find_unrecorded(batch, journal, later)
                    _verify(context, self._list_expected(applied, journal, later), verification)
                    if count % TELL_EVERY == 0:
                        self.progress.tell(number, count * AT_ONCE)
        except OSError as error:
            raise ConfigError(f"{self.folder / part} cannot be read: {error.strerror or error}") from error
        return verification

    def _list_expected(
        self,
        batch: Iterable[PlanOperation],
        journal: Mapping[int, JournalLine],
        later: Mapping[int, JournalLine],
    ) -> list["_Expected"]:
        expected = []
        for operation in batch:
            recorded = journal.get(operation.row_id)
            dn = operation.dn_after if recorded is None or recorded.dn is None else recorded.dn
            is_moved = operation.action == PlanAction.MOVE
            values = dict(operation.same if is_moved else {**operation.same, **operation.values})
            set_last = later.get(operation.row_id)
            if operation.later and set_last is not None and set_last.is_done:
                references, _ = self.places.look_up_values(operation.ldap_class, operation.later)
                unresolved = set_last.attributes  # references whose targets do not exist
                values |= {name: raws for name, raws in references.items() if name not in unresolved}
            guid = operation.guid if is_moved else None if recorded is None else recorded.guid
            expected.append(_Expected(operation, dn, values, guid))
        return expected


@dataclass(frozen=True, slots=True)
class _Expected:
    operation: PlanOperation
    dn: str
    values: Values
    guid: UUID | None = None
    """objectGUID that the server chose for a new object."""


def _is_applied(operation: PlanOperation, journal: Mapping[int, JournalLine]) -> bool:
    if operation.action == PlanAction.EQUAL:
        return True
    recorded = journal.get(operation.row_id)
    return recorded is not None and recorded.is_done


def _find_unrecorded(
    batch: Iterable[PlanOperation], journal: Mapping[int, JournalLine], later: Mapping[int, JournalLine]
) -> Iterator[LostRow]:
    """Yield a loss for each operation without a result in a journal.

    The operation's row is counted nowhere else.
    """
    for operation in batch:
        recorded = journal.get(operation.row_id)
        if operation.action != PlanAction.EQUAL and recorded is None:
            yield _make_lost_row(operation, operation.dn, "nothing says what became of it")
        elif operation.later and recorded is not None and recorded.is_done and operation.row_id not in later:
            yield _make_lost_row(
                operation, recorded.dn or operation.dn, f"{', '.join(operation.later)}: never set"
            )


class _Context:
    """Objects that others depend on, as the target holds them.

    Args:
        session: to the target.
        made_objects: normalised DN -> object that the plan makes there.
    """

    def __init__(self, session: "Session", objects: Mapping[str, MadeObject]) -> None:
        self.session = session
        self._made_objects = objects
        self._references = References(session)
        self._guids: dict[tuple[UUID, str], bool] = {}

    def learn(self, expected: Iterable[_Expected]) -> None:
        """Look up, together, the parents and references of a batch of objects."""
        dns: dict[str, set[str]] = {}
        guids: dict[str, set[UUID]] = {}
        self._references.make_room()
        for item in expected:
            for above, parent in self._list_planned_above(item.dn):
                dns.setdefault(parent.ldap_class, set()).add(str(above))
            for reference, target in find_references(item.operation.ldap_class, item.values):
                if isinstance(target, str):
                    dns.setdefault(reference.ldap_class, set()).add(target)
                elif (target, reference.ldap_class) not in self._guids:
                    guids.setdefault(reference.ldap_class, set()).add(target)
        for ldap_class, names in dns.items():
            self._references.fetch_identifiers(sorted(names), ldap_class)
        for ldap_class, class_guids in guids.items():
            existing_dns = self._references.dns_of(sorted(class_guids), ldap_class)
            self._guids |= {(guid, ldap_class): guid in existing_dns for guid in class_guids}

    def find_problem(self, item: _Expected) -> str:
        """Return which parent or reference of an object is wrong, in words.

        The text is empty if none is wrong.
        """
        for above, parent in self._list_planned_above(item.dn):
            existing_guid = self._references.identifier_of(str(above), parent.ldap_class)
            if existing_guid is None or parent.guid not in {None, existing_guid}:
                return (
                    f"it is below {above}, which is not the object of the plan ({parent.guid or 'no GUID'})"
                )
        for reference, target in find_references(item.operation.ldap_class, item.values):
            if isinstance(target, str):
                is_there = self._references.identifier_of(target, reference.ldap_class) is not None
            else:
                is_there = self._guids[target, reference.ldap_class]
            if not is_there:
                return f"{reference.attribute} refers to {target}, which is not there"
        return ""

    def _list_planned_above(self, dn: str) -> Iterator[tuple[DN, MadeObject]]:
        """Yield the objects of the plan above another one."""
        above = DN.parse(dn).parent
        while above:
            if (parent := self._made_objects.get(above.normalized)) is not None:
                yield above, parent
            above = above.parent


def _verify(context: _Context, expected: Sequence[_Expected], verification: FileVerification) -> None:
    session = context.session
    context.learn(
        [expected_row for expected_row in expected if expected_row.operation.action != PlanAction.DELETE]
    )
    names = {name for target in expected for name in target.values}
    hides_sacls = session.profile.hides_sacls
    entries = read_entries_at(session, [target.dn for target in expected], names)
    for item in expected:
        entry = entries.get(normalize(item.dn))
        operation = item.operation
        lost = _compare_row(item, entry, context, hides_sacls=hides_sacls)
        if lost is not None:
            verification.lost.append(lost)
            continue
        verification.equal[operation.role] += 1
        guid = None if entry is None else guid_of(entry.attributes)
        old = operation.guid if operation.role == EntryRole.OBJECT else None
        if old is not None and guid is not None and guid != old:
            verification.guids.append(MapRow(operation.type, old, guid, item.dn))


def _compare_row(
    expected_row: _Expected, entry: Entry | None, context: _Context, *, hides_sacls: bool
) -> LostRow | None:
    """Compare an entry with what is expected.

    Returns the loss, or None if there is none.
    """
    operation = expected_row.operation
    differs: dict[str, dict[str, list[str]]] = {}
    if operation.action == PlanAction.DELETE:
        # a queue manager that was moved may have the place of a deleted one
        has_other_guid = entry is not None and guid_of(entry.attributes) not in {None, operation.guid}
        reason = "" if entry is None or has_other_guid else "it was deleted, and is there"
    elif entry is None:
        reason = "it is not there, or this user may not read it"
    else:
        for name in find_differences(
            expected_row.values, entry.attributes, operation.ldap_class, hides_sacls=hides_sacls
        ):
            differs[name] = {
                "wanted": display_values(name, tuple(expected_row.values[name])),
                "found": display_values(name, entry.all(name)),
            }
        guid = guid_of(entry.attributes)
        if differs:
            reason = f"it differs in {', '.join(differs)}"
        elif expected_row.guid is not None and guid != expected_row.guid:
            reason = f"it is another object ({guid}) than the one that was made ({expected_row.guid})"
        else:
            reason = context.find_problem(expected_row)
    if not reason:
        return None
    return _make_lost_row(operation, expected_row.dn, reason, differs)


def _make_lost_row(
    operation: PlanOperation,
    dn: str,
    reason: str,
    differs: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> LostRow:
    return LostRow(
        table=operation.table,
        row=operation.source_row,
        type=operation.type,
        role=operation.role,
        dn=dn,
        reason=reason,
        was_equal=operation.action == PlanAction.EQUAL,
        differs=differs or {},
    )
