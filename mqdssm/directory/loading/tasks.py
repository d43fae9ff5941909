"""Changes on their way: one request each, in an order that keeps parents before children."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from mqdssm.directory.loading.items import Action, Item, Values
from mqdssm.directory.profile import Profile
from mqdssm.directory.requests import (
    Change,
    ChangeType,
    Control,
    encode_add,
    encode_delete,
    encode_modify,
)
from mqdssm.directory.responses import ADD_RESPONSE, DELETE_RESPONSE, MODIFY_RESPONSE
from mqdssm.model.dn import DN, normalize

RESULT_TAGS: Final = {
    Action.ADD: ADD_RESPONSE,
    Action.MODIFY: MODIFY_RESPONSE,
    Action.DELETE: DELETE_RESPONSE,
}
_BELOW: Final = "\0"
"""Before a name: its children; no normalised name begins so."""


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
class Task:
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
        order: its place among all; given by the queue.
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
    order: int = 0

    @classmethod
    def of(cls, item: Item) -> "Task":
        """The first task of an item.

        Raises:
            ValueError: its name is none.
        """
        parent = str(DN.parse(item.dn).parent)
        return cls(item, item.action, item.attributes, normalize(item.dn), normalize(parent))

    def parts(self) -> list["Task"]:
        """The same, attribute by attribute."""
        split = Split(len(self.attributes))
        return [
            Task(self.item, self.action, {name: values}, self.key, self.parent, split=split)
            for name, values in self.attributes.items()
        ]

    def encode(self, number: int, profile: Profile, controls: tuple[Control, ...] = ()) -> bytes:
        """The request.

        Raises:
            ValueError: it cannot be sent.
            DecodeError: a security descriptor that is none.
        """
        dn = self.item.dn
        if self.action is Action.DELETE:
            return encode_delete(number, dn, controls)
        controls = (*controls, *profile.write_controls(self.attributes))
        if self.action is Action.ADD:
            profile.check_name(dn)
            return encode_add(number, dn, self.attributes, controls)
        changes = [Change(ChangeType.REPLACE, name, values) for name, values in self.attributes.items()]
        return encode_modify(number, dn, changes, controls)


class Queue:
    """Tasks that wait, and those whose objects are being changed: no two may meet.

    Servers carry out the requests of one connection in any order: a child must not overtake its parent, a
    parent's deletion those of its children, nor one change of an object another.
    """

    def __init__(self) -> None:
        self._ready: deque[Task] = deque()
        self._busy: set[str] = set()  # being changed
        self._children: dict[str, set[int]] = {}  # below a name: being changed, or blocked
        self._held: dict[str, set[int]] = {}  # blocked themselves: their places in the order
        self._blocked: dict[str, list[Task]] = {}
        self._waiting = 0  # how many are blocked
        self._orders = count(1)

    def __len__(self) -> int:
        return len(self._ready) + self._waiting

    def put(self, task: Task) -> None:
        """One more, behind all that came before it."""
        task.order = next(self._orders)
        self._ready.append(task)

    def put_first(self, tasks: Sequence[Task]) -> None:
        """What was sent in vain: before all others."""
        self._ready.extendleft(reversed(tasks))

    def take(self) -> Task | None:
        """The next task that nothing is in the way of; its object is busy until `done`."""
        while self._ready:
            task = self._ready.popleft()
            blocker = self._blocker_of(task)
            if blocker is None:
                self._busy.add(task.key)
                self._children.setdefault(task.parent, set()).add(task.order)
                return task
            self._waiting += 1
            self._held.setdefault(task.key, set()).add(task.order)
            self._children.setdefault(task.parent, set()).add(task.order)
            self._blocked.setdefault(blocker, []).append(task)
        return None

    def _blocker_of(self, task: Task) -> str | None:
        for key in (task.key, task.parent):
            if key in self._busy or self._is_before(self._held.get(key), task):
                return key
        if task.action is Action.DELETE and self._is_before(self._children.get(task.key), task):
            return _BELOW + task.key
        return None

    @staticmethod
    def _is_before(orders: set[int] | None, task: Task) -> bool:
        """Whether one of some tasks came before this one."""
        return orders is not None and any(order < task.order for order in orders)

    def done(self, task: Task) -> None:
        """A task was answered: what waited for it may go on."""
        self._busy.discard(task.key)
        self._release(task.key)
        self._left(task)
        self._release(_BELOW + task.parent)

    def _left(self, task: Task) -> None:
        """A task is no longer one of those below its parent."""
        children = self._children[task.parent]
        children.discard(task.order)
        if not children:
            del self._children[task.parent]

    def _release(self, blocker: str) -> None:
        tasks = self._blocked.pop(blocker, [])
        for task in tasks:
            self._waiting -= 1
            self._left(task)
            self._held[task.key].discard(task.order)
            if not self._held[task.key]:
                del self._held[task.key]
        self.put_first(tasks)
