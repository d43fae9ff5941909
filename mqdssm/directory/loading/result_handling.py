"""Handling of a server's answers to changes."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.loading.existing_entries import AT_ONCE, guid_of, owners_of, read_entries_at
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions, Outcome, Values
from mqdssm.directory.loading.tasks import ChangeTask, TaskQueue
from mqdssm.errors import DirectoryError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.model.dn import normalize
from mqdssm.tables.equality import are_equal, find_differences

if TYPE_CHECKING:
    from mqdssm.directory.responses import LdapResult
    from mqdssm.directory.session import Session

ATTEMPTS_MAX: Final = 5
"""Maximum attempts for a change if the server is busy, or others change the same object."""
BUSY_CODES: Final = frozenset({51, 52})
_NAMED: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

ErrorOf = Callable[["LdapResult", str, str | None], DirectoryError]


class ResultHandler:
    """Turns answers into outcomes or further tasks; look-ups are made in batches.

    Attributes:
        tired: the server was too busy: a pause is due.
    """

    def __init__(self, session: "Session", options: LoadOptions, queue: TaskQueue, error_of: ErrorOf) -> None:
        self._session = session
        self._options = options
        self._queue = queue
        self._error_of = error_of
        self._to_look: list[ChangeTask] = []
        self._to_identify: list[Outcome] = []
        self._together = min(AT_ONCE, options.window)
        self.tired = False

    @property
    def curious(self) -> bool:
        """True if a look-up is due."""
        return bool(self._to_look or self._to_identify)

    @property
    def full(self) -> bool:
        """True if there are enough tasks for a look-up."""
        return max(len(self._to_look), len(self._to_identify)) >= self._together

    # -- before anything is sent

    def prepare(self, items: Sequence[Item]) -> list[Outcome]:
        """Queue changes.

        Changes with expected old values are compared with the directory first.

        Args:
            items: at most `AT_ONCE`.

        Returns:
            Outcomes of those that need not be sent.

        Raises:
            DirectoryError: the look-up failed.
        """
        outcomes, tasks = [], []
        for item in items:
            try:
                tasks.append(ChangeTask.of(item))
            except ValueError as error:
                outcomes.append(make_refused_outcome(item, str(error)))
        compared = [task for task in tasks if task.item.before is not None and task.action is not Action.ADD]
        names = {name for task in compared for name in (*task.attributes, *(task.item.before or ()))}
        stored_entries = read_entries_at(self._session, [task.item.dn for task in compared], names)
        for task in tasks:
            outcome = self._check_unchanged(task, stored_entries.get(task.key)) if task in compared else None
            if outcome is None:
                self._queue.put(task)
            else:
                outcomes.append(outcome)
        return outcomes

    def _check_unchanged(self, task: ChangeTask, entry: Entry | None) -> Outcome | None:
        item, task.read = task.item, entry
        if entry is None:
            return _make_outcome(item, Effect.MISSING, text="there is no such object (any more)")
        if item.action is Action.MODIFY and not self._find_differences(
            task.attributes, entry, item.ldap_class
        ):
            return _make_outcome(item, Effect.EQUAL, guid=guid_of(entry.attributes))
        changed = tuple(
            name
            for name, values in (item.before or {}).items()
            if not are_equal(name, values, entry.all(name))
            and (item.action is Action.DELETE or self._find_differences({name: item.attributes[name]}, entry))
        )
        if not changed:
            return None
        return _make_outcome(
            item, Effect.CONFLICT, text="it was changed since this was planned", attributes=changed
        )

    def _find_differences(
        self, expected: Values, entry: Entry, ldap_class: str | None = None
    ) -> tuple[str, ...]:
        hides_sacls = self._session.profile.hides_sacls
        return find_differences(expected, entry.attributes, ldap_class, hides_sacls=hides_sacls)

    # -- answers

    def answer(self, task: ChangeTask, result: "LdapResult") -> Outcome | None:
        """Return the meaning of a server's answer to a task.

        None if it is not decided yet.

        What must be sent again is queued, in the place that it had; what met something stays in the queue's
        way until it was looked at.
        """
        if self._exists_already(task, result) or self._has_changed(task, result):
            self._queue.park_task(task)
            self._to_look.append(task)
            return None
        self._queue.done(task)
        if task.split is not None:
            return self._handle_part_answer(task, result)
        if result.code == 0:
            return self._handle_success(task)
        if result.code in BUSY_CODES and task.attempts < ATTEMPTS_MAX:
            self.tired = True
            self._queue.put(task)
            return None
        return self._handle_refusal(task, result)

    def _exists_already(self, task: ChangeTask, result: "LdapResult") -> bool:
        return (
            task.action is Action.ADD
            and result.code not in {0, *BUSY_CODES}
            and isinstance(self._error_of(result, task.action, task.item.dn), ObjectAlreadyExists)
        )

    def _has_changed(self, task: ChangeTask, result: "LdapResult") -> bool:
        """Return True if an object changed after its comparison.

        Also True if an attempt whose answer was lost changed it.
        """
        is_whole = task.read is not None and task.split is None
        guard = task.guard(self._session.profile)
        return is_whole and task.attempts < ATTEMPTS_MAX and guard.shows_change(result)

    def _handle_refusal(self, task: ChangeTask, result: "LdapResult") -> Outcome | None:
        error = self._error_of(result, task.action, task.item.dn)
        match task.action, error:
            case Action.ADD, ObjectNotFound():
                return _of_error(task, Effect.MISSING_PARENT, error)
            case Action.DELETE, ObjectNotFound() if task.suspect:
                return _make_outcome(task.item, Effect.DELETED)
            case _, ObjectNotFound():
                return _of_error(task, Effect.MISSING, error)
            case Action.MODIFY, _ if len(task.attributes) > 1:
                for part in task.parts():
                    self._queue.put(part)
                return None
            case _:
                return _of_error(
                    task, Effect.REJECTED, error, find_named_attributes(result.text, task.attributes)
                )

    def _handle_success(self, task: ChangeTask) -> Outcome | None:
        effect = {Action.MODIFY: Effect.UPDATED, Action.DELETE: Effect.DELETED}.get(task.action, Effect.ADDED)
        guid = guid_of(task.attributes) or guid_of(task.item.attributes)
        written = tuple(task.attributes) if effect is Effect.UPDATED else ()
        outcome = _make_outcome(task.item, effect, guid=guid, attributes=written)
        if self._options.identify and effect is Effect.ADDED and guid is None:
            self._to_identify.append(outcome)
            return None
        return outcome

    def _handle_part_answer(self, task: ChangeTask, result: "LdapResult") -> Outcome | None:
        split = task.split
        if split is None:
            raise ValueError("the task is no part of another")
        split.left -= 1
        if result.code != 0:
            error = self._error_of(result, task.action, task.item.dn)
            split.code = result.code
            split.refused[next(iter(task.attributes))] = str(error)
        if split.left:
            return None
        if not split.refused:  # the server accepted each part alone: everything is written
            return _make_outcome(task.item, Effect.UPDATED, attributes=tuple(task.item.attributes))
        (text, *_) = split.refused.values()
        return _make_outcome(
            task.item, Effect.REJECTED, code=split.code, text=text, attributes=tuple(split.refused)
        )

    # -- look-ups

    def look(self) -> list[Outcome]:
        """Perform one batch of look-ups; nothing is lost if it fails.

        Returns:
            Outcomes; what must be sent again is queued.

        Raises:
            DirectoryError: the look-up failed.
        """
        if self._to_look:
            outcomes = self._compare(self._to_look[:AT_ONCE])
            del self._to_look[:AT_ONCE]
        else:
            outcomes = self._add_guids(self._to_identify[:AT_ONCE])
            del self._to_identify[:AT_ONCE]
        return outcomes

    def _compare(self, tasks: list[ChangeTask]) -> list[Outcome]:
        """Compare the objects that adds collided with.

        An object is equal, different, or another object with their GUID.

        Changes whose object changed after the first comparison are compared again.
        """
        names = {name for task in tasks for name in (*task.attributes, *(task.item.before or ()))}
        stored_entries = read_entries_at(self._session, [task.item.dn for task in tasks], names)
        absent = [task for task in tasks if task.key not in stored_entries]
        guids = [guid for task in absent if (guid := guid_of(task.attributes)) is not None]
        owners = owners_of(self._session, guids)
        outcomes = []
        for task in tasks:
            self._queue.done(task)
            entry = stored_entries.get(task.key)
            if task.read is not None:
                outcome = self._send_again(task, entry)
            elif entry is not None:
                outcome = self._handle_existing(task, entry)
            else:
                guid = guid_of(task.attributes)
                outcome = self._handle_missing(task, None if guid is None else owners.get(guid))
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def _send_again(self, task: ChangeTask, entry: Entry | None) -> Outcome | None:
        outcome = self._check_unchanged(task, entry)
        if outcome is None:
            self._queue.put(task)
        elif outcome.effect is Effect.EQUAL and task.suspect:
            return _make_outcome(
                task.item, Effect.UPDATED, guid=outcome.guid, attributes=tuple(task.attributes)
            )
        return outcome

    def _handle_existing(self, task: ChangeTask, entry: Entry) -> Outcome | None:
        item, guid = task.item, guid_of(entry.attributes)
        expected = {name: raws for name, raws in task.attributes.items() if name.lower() != "objectclass"}
        changes = self._find_differences(expected, entry, item.ldap_class)
        classes = {raw.lower() for raw in entry.all("objectClass")}
        foreign = not {raw.lower() for raw in task.attributes.get("objectClass", ())} <= classes
        if not changes and not foreign:
            return _make_outcome(item, Effect.ADDED if task.suspect else Effect.EQUAL, guid=guid)
        if foreign or not self._options.update:
            text = "an object of another class has that name" if foreign else "other values are there"
            return _make_outcome(item, Effect.CONFLICT, text=text, attributes=changes, guid=guid)
        replacements = {name: expected[name] for name in changes}
        self._queue.put(
            ChangeTask(item, Action.MODIFY, replacements, task.key, task.parent, order=task.order)
        )
        return None

    def _handle_missing(self, task: ChangeTask, owner: str | None) -> Outcome | None:
        if owner is not None and normalize(owner) != task.key:
            text = f"another object has the same objectGUID: {owner}"
            return _make_outcome(task.item, Effect.CONFLICT, text=text, attributes=("objectGUID",))
        if task.attempts < ATTEMPTS_MAX:  # deleted in between
            self._queue.put(task)
            return None
        text = "an object is said to be there, but it cannot be seen: may this user read it?"
        return _make_outcome(task.item, Effect.CONFLICT, text=text)

    def _add_guids(self, outcomes: list[Outcome]) -> list[Outcome]:
        stored_entries = read_entries_at(self._session, [outcome.dn for outcome in outcomes], ())
        identified = []
        for outcome in outcomes:
            entry = stored_entries.get(normalize(outcome.dn))
            guid = None if entry is None else guid_of(entry.attributes)
            identified.append(Outcome(row=outcome.row, dn=outcome.dn, effect=outcome.effect, guid=guid))
        return identified


def find_named_attributes(text: str, attributes: Values) -> tuple[str, ...]:
    """Return the sent attributes that are named in a server's text."""
    words = {word.lower() for word in _NAMED.findall(text)}
    return tuple(name for name in attributes if name.lower() in words and name.lower() != "objectclass")


def _make_outcome(
    item: Item,
    effect: Effect,
    *,
    code: int | None = None,
    text: str = "",
    attributes: tuple[str, ...] = (),
    guid: UUID | None = None,
) -> Outcome:
    return Outcome(
        row=item.row, dn=item.dn, effect=effect, code=code, text=text, attributes=attributes, guid=guid
    )


def _of_error(
    task: ChangeTask, effect: Effect, error: DirectoryError, attributes: tuple[str, ...] = ()
) -> Outcome:
    attributes = attributes or (tuple(task.attributes) if task.action is Action.MODIFY else ())
    return _make_outcome(task.item, effect, code=error.ldap_code, text=str(error), attributes=attributes)


def make_refused_outcome(item: Item, words: str) -> Outcome:
    """Return the outcome of an item that cannot be sent."""
    return _make_outcome(item, Effect.REJECTED, text=words)
