"""Decisions about rows: each is compared with the target's entry.

Many rows are compared at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mqdssm.directory.entries import Entry
from mqdssm.errors import MqdssmError
from mqdssm.events.entry_builder import EntryTarget
from mqdssm.events.references import split_into_batches
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, User
from mqdssm.pipeline.migrate.candidates import Candidate, Candidates, reason_of
from mqdssm.pipeline.migrate.obsolete_settings import ObsoleteSettings
from mqdssm.pipeline.migrate.outcome import WORK_NAME, OutcomeWriter, TaskResult, display_values
from mqdssm.pipeline.migrate.plan_file import (
    CHILDREN,
    PARENTS,
    EntryRole,
    PlanAction,
    PlanOperation,
    Policy,
    plan_deletion,
)
from mqdssm.pipeline.migrate.progress import WorkerProgress
from mqdssm.pipeline.migrate.rows import SITE_GATES, ReadRow, Reason, key_of, read_row
from mqdssm.pipeline.migrate.shared_lookups import SharedLookups
from mqdssm.pipeline.migrate.sids import SidRewriter
from mqdssm.pipeline.migrate.staging import StagedPart, StagedRow, read_staged_rows
from mqdssm.pipeline.migrate.target import GUID_ATTRIBUTE, TargetView
from mqdssm.pipeline.runner import StopRequest
from mqdssm.tables.dependent_objects import SERVER_CLASS, SETTINGS_CLASS, SETTINGS_NAME
from mqdssm.tables.equality import find_differences
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable
from mqdssm.tables.schema import MANAGER_CLASS

if TYPE_CHECKING:
    from uuid import UUID

    from mqdssm.directory.session import Session

TOLD_NAME: Final = "progress"
ROWS_TOGETHER: Final = 500
"""Rows that are looked up together."""


@dataclass(frozen=True, slots=True)
class RowPlanOptions:
    """Options of a plan that workers need.

    Attributes:
        folder: of the plan.
        on_conflict: what to do with objects that exist and differ.
        create_computers: make the computers that the target lacks.
        domain: DNS name of the domain that new computers are in.
    """

    folder: Path
    on_conflict: Policy = "fail"
    create_computers: bool = False
    domain: str = ""


def read_planning_progress(folder: Path) -> WorkerProgress:
    """Return the progress of workers.

    The progress is the numbers of rows that the workers have decided about.
    """
    return WorkerProgress(folder / WORK_NAME / TOLD_NAME)


@dataclass(slots=True)
class _Prepared:
    """A row with its element and its candidates."""

    row: StagedRow
    read: ReadRow
    guid: str | None
    element: DirectoryObject
    candidates: list[Candidate] = field(default_factory=list)


class RowPlanner:
    """Decides about the rows of one staged file after another.

    Args:
        session: to the target.
        known: what is known of source and target.
        wanted: what was asked for.
        stop: ends the work between two batches; None: nothing does.
    """

    def __init__(
        self,
        session: "Session",
        lookups: SharedLookups,
        options: RowPlanOptions,
        stop: StopRequest | None = None,
    ) -> None:
        self._stop = stop or StopRequest()
        self._lookups = lookups
        self._options = options
        self._view = TargetView(session, lookups.empty)
        self._target = EntryTarget.of(session)
        self._keeps_create_time = self._target.profile.create_time_written is not None
        self._makers = Candidates(
            self._view,
            self._target,
            lookups,
            create_computers=options.create_computers,
            domain=options.domain,
        )

    def decide(self, part: StagedPart, number: int) -> TaskResult:
        """Decide about the rows of a staged file.

        Args:
            part: the file.
            number: of the file among all.

        Raises:
            DirectoryError: the target cannot be asked.
            ConfigError: the file is damaged.
            OSError: nothing can be written.
            Stopped: the stop was set.
        """
        writer = OutcomeWriter(self._options.folder, part.table, number)
        rewriter = SidRewriter(self._lookups.sids)
        table = MQIS_TABLES[part.table]
        try:
            for batch in self._stop.checking(split_into_batches(read_staged_rows(part), ROWS_TOGETHER)):
                self._plan_batch(table, batch, rewriter, writer)
                read_planning_progress(self._options.folder).tell(number, writer.done.counts["read"])
        except BaseException:
            writer.abandon()
            raise
        writer.done.unmapped = rewriter.unmapped
        return writer.close()

    def _plan_batch(
        self, table: MqisTable, rows: Sequence[StagedRow], rewriter: SidRewriter, writer: OutcomeWriter
    ) -> None:
        writer.done.counts["read"] += len(rows)
        prepared = list(self._read(table, rows, rewriter, writer))
        self._learn([item.element for item in prepared])
        valid_rows = []
        for prepared_row in prepared:
            try:
                prepared_row.candidates = self._makers.of(prepared_row.element)
            except (MqdssmError, ValueError) as error:
                writer.reject(prepared_row.row, prepared_row.guid, [Reason("", reason_of(error))])
                continue
            valid_rows.append(prepared_row)
        target_entries = _There(
            self._view, [candidate for item in valid_rows for candidate in item.candidates]
        )
        update = self._options.on_conflict == "update"
        obsolete = ObsoleteSettings(self._view, [item.candidates[0] for item in valid_rows] if update else [])
        for prepared_row in valid_rows:
            self._judge(table, prepared_row, target_entries, obsolete, writer)

    def _read(
        self, table: MqisTable, rows: Sequence[StagedRow], rewriter: SidRewriter, writer: OutcomeWriter
    ) -> Iterator[_Prepared]:
        for row in rows:
            key = key_of(table, row.cells)
            guid = None if key.guid is None else str(key.guid)
            duplicate = self._lookups.duplicates.get((table.name, row.number))
            if duplicate is not None:
                writer.reject(row, guid, [Reason("", duplicate)])
                continue
            gates = self._lookups.gates if table.element is RoutingLink else None
            read = read_row(
                table, row.cells, row.problems, keeps_create_time=self._keeps_create_time, gates=gates
            )
            if (
                key.guid is not None
                and self._lookups.gates.get(key.guid)
                and key.guid not in self._lookups.served
            ):
                read.lost[SITE_GATES.name] = row.cells[SITE_GATES.name]  # no link takes them
            if table.element is None:
                writer.write_lost_cells(row, guid, read.lost)
                continue
            if read.element is not None and not read.reasons:
                self._rewrite(table, read, rewriter)
            if read.element is None or read.reasons:
                writer.reject(row, guid, read.reasons)
                continue
            yield _Prepared(row, read, guid, read.element)

    def _rewrite(self, table: MqisTable, read: ReadRow, rewriter: SidRewriter) -> None:
        """Replace old SIDs in an element by new ones."""
        element = read.element
        assert element is not None  # noqa: S101  the caller has looked
        try:
            image = getattr(element, "security", None)
            if image:
                element.__dict__["security"] = rewriter.rewrite_descriptor(image, f"{table.name} Security")
            if isinstance(element, User) and element.security_identifier:
                where = f"{table.name} SecurityIdentifier"
                element.__dict__["security_identifier"] = rewriter.rewrite_sid(
                    element.security_identifier, where
                )
        except ValueError as error:
            column = table.list_holding("Security")[0].name
            read.reasons.append(Reason(column, f"it is no security descriptor: {reason_of(error)}"))

    def _learn(self, elements: Sequence[DirectoryObject]) -> None:
        """Look up, together, the users and queue managers that a batch of rows needs."""
        self._makers.learn_users(
            [
                user.security_identifier
                for user in elements
                if isinstance(user, User) and user.security_identifier
            ]
        )
        names, key = set(), self._target.profile.name_key
        for element in elements:
            if isinstance(element, Queue):
                names.add(key((element.pathname or "").partition("\\")[0]))
            elif isinstance(element, QueueManager) and not self._target.keeps_guids:
                names.add(key(element.computer_name or ""))
        self._makers.learn_managers(sorted(names - self._makers.accepted))
        self._makers.learn_managers_there(elements)

    # -- judging

    def _judge(
        self,
        table: MqisTable,
        prepared_row: _Prepared,
        target_entries: "_There",
        obsolete: ObsoleteSettings,
        writer: OutcomeWriter,
    ) -> None:
        """Write the operations for a row, or its conflicts.

        The row's own entry comes first, then related entries.
        """
        matches = [target_entries.of(candidate) for candidate in prepared_row.candidates]
        main_match = matches[0]
        if main_match.problem is not None:
            self._write_other(prepared_row, main_match.problem, main_match.entry, writer)
            return
        _refer_settings_to(prepared_row.candidates, main_match.entry)
        hides = self._target.profile.hides_sacls
        verdicts = [
            _reach_verdict(candidate, at, hides_sacls=hides)
            for candidate, at in zip(prepared_row.candidates, matches, strict=True)
        ]
        against = [verdict for verdict in verdicts if verdict.conflict]
        for verdict in against:
            self._tell(prepared_row, verdict, writer)
        gone = (
            list(self._plan_obsolete(prepared_row, obsolete, writer)) if main_match.entry is not None else []
        )
        writer.done.counts["conflicts"] += bool(against or gone)
        if against and self._options.on_conflict != "update":
            writer.done.counts["skipped" if self._options.on_conflict == "skip" else "stopped"] += 1
            if verdicts[0].action == PlanAction.ADD and prepared_row.guid is not None:
                writer.done.refused.append(
                    prepared_row.guid
                )  # nothing can be made below an entry that does not exist
            return
        for verdict in verdicts:
            writer.write_operation(
                verdict.candidate.level, self._make_operation(table, prepared_row, verdict)
            )
        for level, operation in gone:
            writer.write_operation(
                level, replace(operation, table=table.name, source_row=prepared_row.row.number)
            )
        writer.done.counts[_choose_row_action(verdicts, has_deletions=bool(gone))] += 1
        writer.write_lost_cells(
            prepared_row.row,
            prepared_row.guid,
            prepared_row.read.lost | self._list_dropped(table, prepared_row),
        )

    def _plan_obsolete(
        self, prepared_row: _Prepared, obsolete: ObsoleteSettings, writer: OutcomeWriter
    ) -> Iterator[tuple[int, PlanOperation]]:
        """Yield deletions of obsolete settings objects of a queue manager.

        Write Directory makes the same deletions.
        """
        manager = prepared_row.candidates[0]
        for entry in obsolete.of(manager):
            ldap_class, role, level = SETTINGS_CLASS, EntryRole.SETTINGS, CHILDREN
            if entry.name.name != SETTINGS_NAME:
                ldap_class, role, level = SERVER_CLASS, EntryRole.CONTAINER, PARENTS
            else:
                reason = "settings of a site that the queue manager does not serve: they are deleted"
                self._write_conflict(prepared_row, entry.dn, reason, writer)
            yield level, plan_deletion(manager.type, entry, ldap_class, role)

    def _write_other(
        self, prepared_row: _Prepared, problem: str, entry: Entry | None, writer: OutcomeWriter
    ) -> None:
        """Write a row whose GUID another object has.

        The row is a reject for ``update``, else a conflict.
        """
        if self._options.on_conflict == "update":
            writer.reject(prepared_row.row, prepared_row.guid, [Reason("", problem)])
            return
        dn = entry.dn if entry is not None else str(prepared_row.candidates[0].new_entry.dn)
        self._write_conflict(prepared_row, dn, problem, writer)
        writer.done.counts["conflicts"] += 1
        writer.done.counts["skipped" if self._options.on_conflict == "skip" else "stopped"] += 1
        if entry is None and prepared_row.guid is not None:
            writer.done.refused.append(
                prepared_row.guid
            )  # nothing can be made below an object that is elsewhere

    def _tell(self, prepared_row: _Prepared, verdict: "_Verdict", writer: OutcomeWriter) -> None:
        candidate, entry = verdict.candidate, verdict.entry
        assert entry is not None  # noqa: S101  a conflict has an entry
        differs = {
            name: {
                "here": display_values(name, candidate.new_entry.values.get(name, ())),
                "there": display_values(name, entry.all(name)),
            }
            for name in verdict.differs
        }
        reason = f"it exists and differs in {', '.join(verdict.differs)}"
        self._write_conflict(prepared_row, entry.dn, reason, writer, differs)

    def _write_conflict(
        self,
        prepared_row: _Prepared,
        dn: str,
        reason: str,
        writer: OutcomeWriter,
        differs: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Write down a conflict of a row with an entry of the target."""
        writer.write_conflict(
            prepared_row.row,
            type=prepared_row.candidates[0].type,
            guid=prepared_row.guid,
            dn=dn,
            policy=self._options.on_conflict,
            differs=dict(differs),
            reason=reason,
        )

    def _make_operation(
        self, table: MqisTable, prepared_row: _Prepared, verdict: "_Verdict"
    ) -> PlanOperation:
        candidate, entry = verdict.candidate, verdict.entry
        values = candidate.new_entry.values
        changed = [
            name
            for name in verdict.differs
            if name not in candidate.later and (name != GUID_ATTRIBUTE or candidate.overwrites)
        ]
        return PlanOperation(
            type=candidate.type,
            role=candidate.role,
            guid=candidate.guid,
            dn=str(candidate.new_entry.dn) if entry is None else entry.dn,
            action=verdict.action,
            ldap_class=candidate.new_entry.ldap_class,
            values=values if entry is None else {name: values.get(name, ()) for name in changed},
            before={} if entry is None else {name: tuple(entry.all(name)) for name in changed},
            same={}
            if entry is None
            else {name: raws for name, raws in values.items() if name not in verdict.differs},
            later=candidate.later,
            table=table.name,
            source_row=prepared_row.row.number,
        )

    def _list_dropped(self, table: MqisTable, prepared_row: _Prepared) -> dict[str, str]:
        """Return GUIDs that are not carried over, by column.

        The GUIDs are those of absent objects, and the enterprise's own.
        """
        texts = {}
        for adm, guids in prepared_row.candidates[0].dropped.items():
            columns = table.list_holding(adm)
            present = [column.name for column in columns if column.name in prepared_row.row.cells]
            name = present[0] if present else columns[0].name
            texts[name] = ", ".join(map(str, guids))
        candidate = prepared_row.candidates[0]
        if candidate.overwrites and candidate.guid is not None and not self._target.keeps_guids:
            texts[table.key] = str(candidate.guid)
        return texts


@dataclass(frozen=True, slots=True)
class _At:
    """Entry of the target at the DN of a candidate, and what is wrong with it."""

    entry: Entry | None
    problem: str | None = None


class _There:
    """Entries of the target for some candidates, looked up together."""

    def __init__(self, view: TargetView, candidates: Sequence[Candidate]) -> None:
        self._view = view
        self._by_guid: dict[str, dict[UUID, list[Entry]]] = {}
        self._by_dn: dict[str, dict[str, Entry]] = {}
        by_class: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            if candidate.role != EntryRole.CONTAINER:
                by_class.setdefault(candidate.new_entry.ldap_class, []).append(candidate)
        for ldap_class, some in by_class.items():
            names = sorted(
                {name for candidate in some for name in (*candidate.new_entry.values, *candidate.later)}
            )
            guids = [
                candidate.guid for candidate in some if candidate.guid is not None and not candidate.is_there
            ]
            self._by_guid[ldap_class] = view.by_guid(guids, ldap_class, names)
            dns = [str(candidate.new_entry.dn) for candidate in some]
            self._by_dn[ldap_class] = view.by_dn(dns, ldap_class, names)

    def of(self, candidate: Candidate) -> _At:
        """Return the entry of the target for a candidate."""
        new_entry = candidate.new_entry
        if candidate.role == EntryRole.CONTAINER:
            return _At(self._view.find_at(new_entry.dn, ["description"]))
        entry = self._by_dn[new_entry.ldap_class].get(new_entry.dn.normalized)
        if candidate.guid is None or candidate.is_there:
            return _At(entry)
        twins = self._by_guid[new_entry.ldap_class].get(candidate.guid, [])
        duplicates = [twin for twin in twins if twin.name != new_entry.dn]
        if duplicates:
            return _At(
                entry, f"the directory has an object with the GUID {candidate.guid} at {duplicates[0].dn}"
            )
        return _At(entry)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Decision about a candidate."""

    candidate: Candidate
    entry: Entry | None
    action: str
    differs: tuple[str, ...] = ()
    conflict: bool = False


def _reach_verdict(candidate: Candidate, at: _At, *, hides_sacls: bool) -> _Verdict:
    new_entry, entry = candidate.new_entry, at.entry
    if entry is None and candidate.is_there:  # planned without a directory
        return _Verdict(candidate, None, PlanAction.MODIFY, tuple(new_entry.values))
    if entry is None:
        return _Verdict(candidate, None, PlanAction.ADD)
    if candidate.role == EntryRole.CONTAINER:
        return _Verdict(_without_values(candidate), entry, PlanAction.EQUAL)
    values = new_entry.values
    if candidate.role != EntryRole.OBJECT:  # a related entry has a GUID of its own
        values = {name: raws for name, raws in values.items() if name != GUID_ATTRIBUTE}
        candidate.new_entry.values = values
    differs = find_differences(values, entry.attributes, new_entry.ldap_class, hides_sacls=hides_sacls)
    differs += tuple(candidate.later)
    if not differs:
        return _Verdict(candidate, entry, PlanAction.EQUAL)
    # a waiting reference may be absent: an earlier migration, too, would have written it last
    harmless = [
        name for name in differs if not entry.all(name) and (candidate.merges or name in candidate.later)
    ]
    against = set(differs).difference(harmless)
    return _Verdict(candidate, entry, PlanAction.MODIFY, differs, bool(against) and not candidate.overwrites)


def _choose_row_action(verdicts: Sequence[_Verdict], *, has_deletions: bool) -> PlanAction:
    """Return the action by which a row counts.

    The action is that of the row's own entry, or a change of related entries.
    """
    if verdicts[0].action == PlanAction.ADD:
        return PlanAction.ADD
    is_equal = not has_deletions and all(verdict.action == PlanAction.EQUAL for verdict in verdicts)
    return PlanAction.EQUAL if is_equal else PlanAction.MODIFY


def _without_values(candidate: Candidate) -> Candidate:
    """Return a candidate without values: a container that exists is left as it is."""
    candidate.new_entry.values = {}
    return candidate


def _refer_settings_to(candidates: Sequence[Candidate], manager: Entry | None) -> None:
    """Let settings objects refer to the queue manager's GUID in the target.

    Settings objects are unchanged if the queue manager does not exist there.
    """
    raw = None if manager is None else manager.first(GUID_ATTRIBUTE)
    if raw is None or candidates[0].new_entry.ldap_class != MANAGER_CLASS:
        return
    for candidate in candidates:
        if candidate.role == EntryRole.SETTINGS:
            for name in candidate.new_entry.refers:
                candidate.new_entry.values[name] = (raw,)
            candidate.later = {}
