"""Changes on their way: one request each, in an order that keeps parents before children."""

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
"""Before a name: its children; no normalised name begins so."""
_COMPARED: Final = (adsyntax.BOOLEAN, adsyntax.INTEGER, adsyntax.ENUMERATION)
Order: TypeAlias = tuple[int, ...]
"""A place among all tasks; those of the parts of a task are where that was."""


@dataclass(slots=True)
class Split:
    """A refused modify that is sent attribute by attribute, so that the guilty ones are found.

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
    """One request.

    Attributes:
        item: what it is for.
        action: what is sent; an add that finds another object there may become a modify.
        attributes: as `Item.attributes`.
        key: the object's name, normalised.
        parent: the name of the one above it, normalised.
        suspect: it was sent before, and nobody knows what became of that.
        attempts: how often it was sent.
        split: the modify that it is a part of.
        alone: it is not for a transaction (any more).
        read: the entry as it was compared with `Item.before`: only that object is changed, and its numbers
            and flags only if they still are as they were (decision M92).
        order: its place among all; given by the queue to what has none.
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
        """The first task of an item.

        Raises:
            ValueError: its name is none.
        """
        parent = str(DN.parse(item.dn).parent)
        return cls(item, item.action, item.attributes, normalize(item.dn), normalize(parent))

    @property
    def was_sent(self) -> bool:
        """True if the server may have made some of it."""
        is_changed = self.split is not None or self.action is not self.item.action
        return bool(self.attempts) or self.suspect or is_changed

    def parts(self) -> list["ChangeTask"]:
        """Return tasks that do the same, attribute by attribute."""
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
        """The form of the request."""
        if self.read is None:
            return Guard(self.item.dn)
        names = self.attributes if self.action is Action.MODIFY else ()
        return profile.guard(self.read, [name for name in names if _is_compared(name)])

    def encode(self, number: int, profile: Profile, controls: tuple[LdapControl, ...] = ()) -> bytes:
        """The request.

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
    """Tasks that wait, and those whose objects are being changed: no two may meet.

    Servers carry out the requests of one connection in any order: a child must not overtake its parent, a
    parent's deletion those of its children, nor one change of an object another. So a task waits for all that
    came before it and are not over yet, whether these are on their way, wait themselves or are sent again.
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
        """True if there is a task that may have nothing in its way."""
        return bool(self._ready)

    def put(self, task: ChangeTask) -> None:
        """One more, behind all that came before it; one that is sent again keeps its place."""
        task.order = task.order or (next(self._orders),)
        self._enter(task)
        self._ready.append(task)

    def put_first(self, tasks: Sequence[ChangeTask]) -> None:
        """Queue failed tasks again, ahead of all others."""
        for task in tasks:
            self._enter(task)
        self._ready.extendleft(reversed(tasks))

    def take(self) -> ChangeTask | None:
        """The next task that nothing is in the way of; others wait for it until `done`."""
        while self._ready:
            task = self._ready.popleft()
            blocker = self._blocker_of(task)
            if blocker is None:
                return task
            self._waiting += 1
            self._blocked.setdefault(blocker, []).append(task)
        return None

    def withdraw(self) -> None:
        """Forget what was never sent; what was, and is to be sent again, stays until it is over."""
        waiting = [*self._ready, *(task for tasks in self._blocked.values() for task in tasks)]
        kept = [task for task in waiting if task.was_sent]
        for task in waiting:
            if not task.was_sent:
                _leave(self._open, task.key, task.order)
                _leave(self._below, task.parent, task.order)
        self._blocked.clear()
        self._waiting = 0
        self._ready = deque(sorted(kept, key=lambda task: task.order))

    def park(self, task: ChangeTask) -> None:
        """A task met an object that is there: what is below that may go on, all else still waits."""
        self._parked.add(task.order)
        self._release(task.key)

    def done(self, task: ChangeTask) -> None:
        """A task was answered: what waited for it may go on, unless it is put back at once."""
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
    """True for attributes that servers compare exactly: the GUID, single numbers and flags as roles."""
    if name == "objectGUID":
        return True
    known = ATTRIBUTES.get(name.lower())
    return known is not None and known.single and known.syntax in _COMPARED


def _is_before(orders: AbstractSet[Order], task: ChangeTask) -> bool:
    """Return True if one of some tasks came before this one."""
    return any(order < task.order for order in orders)


def _leave(names: dict[str, set[Order]], name: str, order: Order) -> None:
    orders = names[name]
    orders.discard(order)
    if not orders:
        del names[name]
