"""Batches of changes: planned in order, requests sent together (decision R15)."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.entries import parse_name
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.responses import LdapResult
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError, MappingError, ObjectAlreadyExists
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget
from mqdssm.events.references import split_into_batches
from mqdssm.model.dn import DN, normalize
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult, name_of
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType
from mqdssm.store.ldap.change_planner import (
    REFERENCES_MAX,
    ChangePlan,
    PlannedChange,
    Planner,
    make_placeholder,
    path_of,
    reduce_entry,
)
from mqdssm.store.ldap.places import domain_of
from mqdssm.store.ldap.references import EntryRenamer, complete
from mqdssm.store.ldap.settings_objects import SettingsObjects
from mqdssm.store.ldap.stored_entry import StoredEntry, stored_entry_of
from mqdssm.store.ldap.view import DirectoryView, StoreSearches, ViewReader
from mqdssm.tables.ldap_results import is_full
from mqdssm.tables.properties import references_of

log = logging.getLogger(__name__)

CHANGES_AT_ONCE: Final = 512
"""Number of changes that are looked up and sent together."""
DELETED_TYPE: Final = "mqisObjectType"
ATTEMPTS_MAX: Final = 4
"""Number of attempts at a change if the directory has changed since it was read."""

SUCCESS, NO_SUCH_OBJECT, NOT_LEAF, EXISTS, FAILED_ASSERTION = 0, 32, 66, 68, 122
_BUSY: Final = frozenset({51, 52})
_STALE: Final = frozenset({NO_SUCH_OBJECT, EXISTS, FAILED_ASSERTION})


@dataclass(frozen=True, slots=True)
class ChangeFailure:
    """Reason why a change was not made.

    Attributes:
        status: HRESULT.
        stale: True if the directory has changed since it was read: the change may be planned again.
    """

    status: int
    stale: bool = False


@dataclass(slots=True)
class _Run:
    """Plans that can be carried out together."""

    plans: list[tuple[PlannedChange, ChangePlan]] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)  # normalised DNs
    deleted_objects: set[Guid] = field(default_factory=set)
    alone: bool = False

    def has_room_for(self, plan: ChangePlan) -> bool:
        """Return True if a plan can be carried out at the same time.

        Nothing that it touches is being deleted. An object that is created again waits, too: the server
        accepts its GUID only once, and a crash could leave both entries.
        """
        if not self.plans:
            return True
        if self.alone or plan.ahead or plan.before or plan.behind:
            return False
        if plan.identifier in self.deleted_objects:
            return False
        if not self.deleted:
            return True
        dns = [DN.parse(request.item.dn) for request in (*plan.first, *plan.last)]
        touched = {name for dn in dns for name in (dn.normalized, dn.parent.normalized)}
        return not (touched & self.deleted)

    def clear(self) -> None:
        """Remove all plans."""
        self.plans, self.deleted, self.deleted_objects, self.alone = [], set(), set(), False

    def add(self, change: PlannedChange, plan: ChangePlan) -> None:
        """Add a plan."""
        self.plans.append((change, plan))
        self.deleted |= {normalize(request.item.dn) for request in plan.last}
        self.deleted_objects |= {entry.identifier for entry in plan.gone if entry.identifier is not None}
        self.alone = bool(plan.ahead or plan.before or plan.behind)


class _Course:
    """Planner of changes in order, while earlier requests may be under way.

    Args:
        changes: the changes.
        planner: returns a planner for the rest of the changes.

    Attributes:
        failures: failures by row.
        identifiers: GUIDs of the objects of the planned changes.
    """

    def __init__(
        self, changes: Sequence[PlannedChange], planner: Callable[[Sequence[PlannedChange]], Planner]
    ) -> None:
        self.failures: dict[int, ChangeFailure] = {}
        self.identifiers: list[Guid | None] = []
        self._changes = changes
        self._make_planner = planner
        self._planner = planner(changes)
        self._next_plan: ChangePlan | None = None  # plan of the next change
        self._error: Exception | None = None

    def take_run(self) -> _Run | None:
        """Return a run with the next plan; None if there is none."""
        run = _Run()
        return run if self._take(run) is not None else None

    def plan_again(self, run: _Run) -> None:
        """Plan the only change of a run again, with the current state of the directory."""
        self.identifiers.pop()
        run.clear()
        self._planner = self._make_planner(self._changes[len(self.identifiers) :])
        self._take(run)

    def take_requests(self, run: _Run) -> Iterator[ChangeInFlight]:
        """Yield the first requests of a run.

        Following changes that can be made with the run add their first requests.
        """
        for change, plan in list(run.plans):
            if change.row not in self.failures:
                yield from plan.first
        try:
            while (next_plan := self._take(run)) is not None:
                yield from next_plan.first
        except Exception as error:  # noqa: BLE001  raised by `check`, after the answers to earlier requests
            self._error = error

    def check(self) -> None:
        """Raise the error of planning, if there was one."""
        if self._error is not None:
            raise self._error

    def _take(self, run: _Run) -> ChangePlan | None:
        """Plan the next change, and add it to a run if both can be carried out together."""
        at = len(self.identifiers)
        if at == len(self._changes) or (run.plans and self.failures):
            return None
        change = self._changes[at]
        plan, self._next_plan = self._next_plan or self._planner.plan(change), None
        if plan.status != Hresult.MQ_OK:
            self.failures[change.row] = ChangeFailure(plan.status)
            return None
        if not run.has_room_for(plan):
            self._next_plan = plan
            return None
        self.identifiers.append(plan.identifier)
        run.add(change, plan)
        return plan


class ChangeApplier:
    """Writer of changes of one partition."""

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self._session = session
        self._reader = reader
        self._view_reader = ViewReader(reader)
        self.entry_renamer = EntryRenamer(session, reader)
        self.settings_objects = SettingsObjects(session, reader)
        self._maker = EntryBuilder(EntryTarget.of(session), lambda _guids, _class: {})
        self._domain = domain_of(reader.places.root)

    def apply(
        self, changes: Sequence[PlannedChange], view: DirectoryView | None = None
    ) -> tuple[int, int, list[Guid | None]]:
        """Make changes; those that depend on each other are made in order.

        Args:
            changes: the changes.
            view: a view that was read for them already; it is read again if it turns out to be outdated.

        Returns:
            The number of changes from the beginning that are durable, the status of the next one (or MQ_OK),
            and the GUIDs of their objects.

        Raises:
            DirectoryError: the directory cannot be reached.
        """
        identifiers: list[Guid | None] = []
        attempts = 0
        while len(identifiers) < len(changes):
            some = changes[len(identifiers) : len(identifiers) + CHANGES_AT_ONCE]
            guids, failure = self._apply_some(some, view)
            view = None
            identifiers += guids
            attempts = 1 if guids else attempts + 1
            if failure is not None and not (failure.stale and attempts < ATTEMPTS_MAX):
                return len(identifiers), failure.status, identifiers
        return len(identifiers), Hresult.MQ_OK, identifiers

    def view(self, changes: Sequence[PlannedChange]) -> DirectoryView:
        """Return the stored entries that a batch of changes refers to."""
        refers = [
            guid
            for change in changes
            if change.command is not Command.DELETE
            for _, guids in references_of(change.concern.type, change.concern.properties.items())
            for guid in guids[:REFERENCES_MAX]
        ]
        by_name = [change.numbers.number for change in changes if change.concern.identifier is None]
        concerns = [change.concern for change in changes]
        return self._view_reader.view(changes[0].numbers.partition, concerns, refers, by_name)

    def _apply_some(
        self, changes: Sequence[PlannedChange], view: DirectoryView | None
    ) -> tuple[list[Guid | None], ChangeFailure | None]:
        """Make some changes.

        Returns the GUIDs of the first changes that are durable, and the next failure.
        """
        course = _Course(changes, lambda rest: self._make_planner(rest, view if rest is changes else None))
        failures = course.failures
        moves = self.entry_renamer.moves
        while (run := course.take_run()) is not None:
            if self.entry_renamer.moves != moves:
                # the plan has the old name: a deletion would not find the entry
                moves = self.entry_renamer.moves
                course.plan_again(run)
                if not run.plans:
                    break
            self._carry_out(run, course)
            if failures:
                break
        identifiers = course.identifiers
        with _log_damage():
            self._complete(changes, identifiers)
        if not failures:
            return identifiers, None
        row = min(failures)
        return identifiers[: row - changes[0].row], failures[row]

    def _make_planner(self, changes: Sequence[PlannedChange], view: DirectoryView | None = None) -> Planner:
        return Planner(self.view(changes) if view is None else view, self._maker, self._domain)

    def _complete(self, changes: Sequence[PlannedChange], identifiers: Sequence[Guid | None]) -> None:
        """Do the follow-up work of changes of sites and machines, even of known ones.

        References to new objects get their DNs. Queues move to the machine that has their computer's name
        now. Settings objects follow their machines and sites.
        """
        written = [
            (change.concern, guid)
            for change, guid in zip(changes, identifiers, strict=False)
            if change.command is not Command.DELETE and change.concern.type in _REFERRED
        ]
        if not written:
            return
        complete(self._session, self._reader, [guid for _, guid in written])
        names = (path_of(concern) for concern, _ in written if concern.type is ObjectType.MACHINE)
        aside = list(
            self.entry_renamer.find_displaced(encoded for name in names if (encoded := _encode_name(name)))
        )
        for stored_entry in aside:
            self.entry_renamer.move_queues(parse_name(stored_entry.dn))
        machines = [guid for concern, guid in written if concern.type is ObjectType.MACHINE]
        self.settings_objects.follow([*machines, *(entry.identifier for entry in aside)])
        self.settings_objects.follow_sites(
            guid for concern, guid in written if concern.type is ObjectType.SITE
        )

    def _follow_deletions(self, gone: Sequence[StoredEntry]) -> None:
        """Do the follow-up work of deletions."""
        machines = [stored_entry.identifier for stored_entry in gone if _of_machine(stored_entry)]
        with _log_damage():
            settled = self.entry_renamer.restore_displaced(gone)
            self.settings_objects.follow([*machines, *settled], machines)

    def remove(self, entries: Iterable[StoredEntry]) -> None:
        """Remove objects and tombstones.

        Entries with others below them become placeholders.

        Raises:
            DirectoryError: the directory cannot be reached, or refuses a request.
        """
        for some in split_into_batches(entries, CHANGES_AT_ONCE):
            failures: dict[int, ChangeFailure] = {}
            requests = [
                ChangeInFlight(
                    item=Item(
                        row=row,
                        action=Action.DELETE if changes is None else Action.MODIFY,
                        dn=stored_entry.dn,
                        attributes=changes or {},
                    ),
                    condition=stored_entry.unchanged,
                )
                for row, stored_entry in enumerate(some)
                for changes in (reduce_entry(stored_entry),)
            ]
            non_leaves = self._send(requests, failures)
            self._leave_placeholders(non_leaves, failures)
            self._follow_deletions(some)
            refused = next((failure for failure in failures.values() if not failure.stale), None)
            if refused is not None:
                raise GenericDirectoryError(f"objects could not be removed: {name_of(refused.status)}")

    # -- one run

    def _carry_out(self, run: _Run, course: "_Course") -> None:
        """Carry out a run, adding further plans from the course while possible."""
        plans, failures = run.plans, course.failures
        ahead = self._send([request for _, plan in plans for request in plan.ahead], failures)
        self._leave_placeholders(ahead, failures)
        self.entry_renamer.rename(renaming for _, plan in plans for renaming in plan.before)
        self._send(course.take_requests(run), failures)
        course.check()
        last = [request for change, plan in plans if change.row not in failures for request in plan.last]
        non_leaves = self._send(last, failures)
        if non_leaves:
            self._leave_placeholders(non_leaves, failures)
        self.entry_renamer.rename(
            renaming for change, plan in plans if change.row not in failures for renaming in plan.behind
        )
        gone = [
            stored_entry for change, plan in plans if change.row not in failures for stored_entry in plan.gone
        ]
        if gone:
            self._follow_deletions(gone)

    def _send(
        self, requests: Iterable[ChangeInFlight], failures: dict[int, ChangeFailure]
    ) -> list[ChangeInFlight]:
        """Send requests; return deletions that failed.

        A deletion fails if the entry has others below it.
        """
        non_leaves: list[ChangeInFlight] = []
        if requests == []:
            return non_leaves
        for request, result in self._session.loader.send(requests):
            if result.code == SUCCESS or (
                result.code == NO_SUCH_OBJECT and request.item.action is Action.DELETE
            ):
                continue
            if result.code == NOT_LEAF and request.item.action is Action.DELETE:
                non_leaves.append(request)
                continue
            failure = self._make_failure(request, result)
            row = request.item.row
            # a stale request may follow from a failure of the same change
            if row not in failures or failures[row].stale:
                failures[row] = failure
        return non_leaves

    def _make_failure(self, request: ChangeInFlight, result: LdapResult) -> ChangeFailure:
        if result.code in _BUSY:
            raise GenericDirectoryError(
                "the server is too busy", dn=request.item.dn, ldap_code=result.code, server_text=result.text
            )
        if result.code in _STALE:
            return ChangeFailure(Hresult.MQ_ERROR_DS_ERROR, stale=True)
        error = self._session.profile.explain(result, request.item.action, request.item.dn)
        if isinstance(error, ObjectAlreadyExists):
            return ChangeFailure(Hresult.MQ_ERROR_DS_ERROR, stale=True)
        full = is_full(result.code, result.text, request.item.dn)
        log.error(
            "%s of %s: LDAP result %d %s%s",
            request.item.action,
            request.item.dn,
            result.code,
            result.text,
            ": the directory is full" if full else "",
        )
        return ChangeFailure(Hresult.MQ_ERROR_DS_IS_FULL if full else Hresult.MQ_ERROR_DS_ERROR)

    def _leave_placeholders(
        self, requests: Iterable[ChangeInFlight], failures: dict[int, ChangeFailure]
    ) -> None:
        """Turn entries of deleted objects with entries below into placeholders.

        See decision R53.
        """
        replaced = []
        for request in requests:
            dn = request.item.dn
            entry = next(iter(self._reader.any_of([self._session.profile.build_dn_filter(dn)])), None)
            if entry is None:
                continue
            stored_entry = stored_entry_of(entry)
            if stored_entry.type is ObjectType.SITE:
                self.settings_objects.clear(DN.parse(dn))
                if not self._send([request], failures):
                    continue
            item = Item(
                row=request.item.row, action=Action.MODIFY, dn=dn, attributes=make_placeholder(stored_entry)
            )
            replaced.append(ChangeInFlight(item=item, condition=request.condition))
        self._send(replaced, failures)


_REFERRED: Final = frozenset({ObjectType.SITE, ObjectType.MACHINE})
"""Types that other objects refer to by their DNs."""


def _of_machine(stored_entry: StoredEntry) -> bool:
    """Return True for a machine, or the tombstone of one."""
    return stored_entry.type is ObjectType.MACHINE or stored_entry.entry.get(DELETED_TYPE) == (
        b"%d" % ObjectType.MACHINE,
    )


@contextmanager
def _log_damage() -> Iterator[None]:
    """Log errors of damaged entries in follow-up work (decision R83).

    The changes that were already made do not fail.
    """
    try:
        yield
    except MappingError as error:
        log.error("what follows from a change could not all be done: %s", error)  # noqa: TRY400


def _encode_name(name: str | None) -> bytes:
    try:
        return (name or "").encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no directory can store
        return b""
