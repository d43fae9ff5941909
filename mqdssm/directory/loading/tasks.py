"""Queue of change requests that keeps parents before children."""

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeAlias

from mqdssm.directory.entries import Entry
from mqdssm.directory.loading.items import Action, Item, Values
from mqdssm.directory.profile import Guard, Profile
from mqdssm.directory.requests import LdapControl, encode_add, encode_delete, encode_modify
from mqdssm.directory.responses import ADD_RESPONSE, DELETE_RESPONSE, MODIFY_RESPONSE
from mqdssm.directory.write_operations import changes_of
from mqdssm.model.dn import DN, normalize
from mqdssm.tables import adsyntax
from mqdssm.tables.schema import ATTRIBUTES

RESULT_TAGS: Final = {
    Action.ADD: ADD_RESPONSE,
    Action.MODIFY: MODIFY_RESPONSE,
    Action.DELETE: DELETE_RESPONSE,
}
_BELOW: Final = "\0"
"""Prefix of a name that means its children; no normalised name begins with it."""
_COMPARED: Final = (adsyntax.BOOLEAN, adsyntax.INTEGER, adsyntax.ENUMERATION)
Order: TypeAlias = tuple[int, ...]
"""Position among all tasks; the parts of a task follow its position."""


@dataclass(slots=True)
class Split:
    """Refused modify that is sent attribute by attribute, to find the refused ones.

    Attributes:
        left: how many are not answered yet.
        refused: attribute -> why.
        code: of the last refusal.
    """

    left: int
    refused: dict[str, str] = field(default_factory=dict)
    code: int | None = None


@dataclass(slots=True, eq=False)
class ChangeTask:
    """Change request for one object.

    Attributes:
        item: the item to which it belongs.
        action: kind of request; an add that finds another object there may become a modify.
        attributes: as `Item.attributes`.
        key: the object's name, normalised.
        parent: the name of the one above it, normalised.
        suspect: it was sent before, and nobody knows what became of that.
        attempts: how often it was sent.
        split: the modify that it is a part of.
        alone: it is not for a transaction (any more).
        read: the entry as it was compared with `Item.before`: only that object is changed, and its numbers
            and flags only if they still are as they were (decision M92).
        order: place among all tasks; assigned by the queue to a task without one.
    """

    item: Item
    action: Action
    attributes: Values
    key: str
    parent: str
    suspect: bool = False
    attempts: int = 0
    split: Split | None = None
    alone: bool = False
    read: Entry | None = None
    order: Order = ()

    @classmethod
    def of(cls, item: Item) -> "ChangeTask":
        """Make the first task of an item.

        Raises:
            ValueError: the name is no distinguished name.
        """
        parent = str(DN.parse(item.dn).parent)
        return cls(item, item.action, item.attributes, normalize(item.dn), normalize(parent))

    @property
    def was_sent(self) -> bool:
        """True if the server may have made a part of the change."""
        is_changed = self.split is not None or self.action is not self.item.action
        return bool(self.attempts) or self.suspect or is_changed

    def parts(self) -> list["ChangeTask"]:
        """Split the task into one task for each attribute."""
        split = Split(len(self.attributes))
        return [
            ChangeTask(
                self.item,
                self.action,
                {name: values},
                self.key,
                self.parent,
                split=split,
                read=self.read,
                order=(*self.order, number),
            )
            for number, (name, values) in enumerate(self.attributes.items())
        ]

    def guard(self, profile: Profile) -> Guard:
        """Return the name and conditions for the request."""
        if self.read is None:
            return Guard(self.item.dn)
        names = self.attributes if self.action is Action.MODIFY else ()
        return profile.guard(self.read, [name for name in names if _is_compared(name)])

    def encode(self, number: int, profile: Profile, controls: tuple[LdapControl, ...] = ()) -> bytes:
        """Encode the request.

        Raises:
            ValueError: it cannot be sent.
            DecodeError: a security descriptor that is none.
        """
        dn, guard = self.item.dn, self.guard(profile)
        controls = (*controls, *guard.controls)
        if self.action is Action.DELETE:
            return encode_delete(number, guard.name, controls)
        controls = (*controls, *profile.write_controls(self.attributes))
        if self.action is Action.ADD:
            profile.check_name(dn)
            return encode_add(number, dn, self.attributes, controls)
        return encode_modify(number, guard.name, changes_of(guard, self.attributes), controls)


class TaskQueue:
    """Queue of tasks in which conflicting tasks wait for each other.

    Servers carry out the requests of one connection in any order: a child must not overtake its parent, a
    parent's deletion those of its children, nor one change of an object another. So a task waits for all that
    came before it and are not done yet, whether these are sent, wait themselves or are sent again.
    """

    def __init__(self) -> None:
        self._ready: deque[ChangeTask] = deque()
        self._open: dict[str, set[Order]] = {}  # of an object: not over yet
        self._below: dict[str, set[Order]] = {}  # of what is right below a name: likewise
        self._parked: set[Order] = set()
        self._blocked: dict[str, list[ChangeTask]] = {}
        self._waiting = 0  # how many are blocked
        self._orders = count(1)

    def __len__(self) -> int:
        return len(self._ready) + self._waiting

    @property
    def is_ready(self) -> bool:
        """True if there is a task that is not known to be blocked."""
        return bool(self._ready)

    def put(self, task: ChangeTask) -> None:
        """Add a task behind all earlier ones; a repeated task keeps its position."""
        task.order = task.order or (next(self._orders),)
        self._enter(task)
        self._ready.append(task)

    def put_first(self, tasks: Sequence[ChangeTask]) -> None:
        """Queue failed tasks again, ahead of all others."""
        for task in tasks:
            self._enter(task)
        self._ready.extendleft(reversed(tasks))

    def take(self) -> ChangeTask | None:
        """Return the next task that is not blocked; conflicting tasks wait until `done`."""
        while self._ready:
            task = self._ready.popleft()
            blocker = self._blocker_of(task)
            if blocker is None:
                return task
            self._waiting += 1
            self._blocked.setdefault(blocker, []).append(task)
        return None

    def withdraw(self) -> None:
        """Remove tasks that were never sent; repeated tasks stay."""
        waiting = [*self._ready, *(task for tasks in self._blocked.values() for task in tasks)]
        sent_tasks = [task for task in waiting if task.was_sent]
        for task in waiting:
            if not task.was_sent:
                _leave(self._open, task.key, task.order)
                _leave(self._below, task.parent, task.order)
        self._blocked.clear()
        self._waiting = 0
        self._ready = deque(sorted(sent_tasks, key=lambda task: task.order))

    def park_task(self, task: ChangeTask) -> None:
        """Park a task whose object already exists.

        Tasks below the object may go on, others still wait.
        """
        self._parked.add(task.order)
        self._release(task.key)

    def done(self, task: ChangeTask) -> None:
        """Unblock the tasks that waited for an answered task.

        The tasks stay blocked if the answered task is put back at once.
        """
        self._parked.discard(task.order)
        _leave(self._open, task.key, task.order)
        _leave(self._below, task.parent, task.order)
        self._release(task.key)
        self._release(_BELOW + task.parent)

    def _enter(self, task: ChangeTask) -> None:
        self._open.setdefault(task.key, set()).add(task.order)
        self._below.setdefault(task.parent, set()).add(task.order)

    def _blocker_of(self, task: ChangeTask) -> str | None:
        if _is_before(self._open[task.key], task):
            return task.key
        if _is_before(self._open.get(task.parent, set()) - self._parked, task):
            return task.parent
        if task.action is Action.DELETE and _is_before(self._below.get(task.key, set()), task):
            return _BELOW + task.key
        return None

    def _release(self, blocker: str) -> None:
        tasks = self._blocked.pop(blocker, [])
        self._waiting -= len(tasks)
        self._ready.extendleft(reversed(tasks))


def _is_compared(name: str) -> bool:
    """Return True for attributes that servers compare exactly.

    GUIDs, single numbers and flags are compared so.
    """
    if name == "objectGUID":
        return True
    attribute = ATTRIBUTES.get(name.lower())
    return attribute is not None and attribute.single and attribute.syntax in _COMPARED


def _is_before(orders: AbstractSet[Order], task: ChangeTask) -> bool:
    """Return True if one of the orders is before that of a task."""
    return any(order < task.order for order in orders)


def _leave(names: dict[str, set[Order]], name: str, order: Order) -> None:
    orders = names[name]
    orders.discard(order)
    if not orders:
        del names[name]
