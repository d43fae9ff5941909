"""A directory that exists only here, for the pure half of watching: objects, their history, and what is told.

Objects have one value each. A machine that gets another name takes what is below it along, and nobody is told
of that, as with servers.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from mqdssm.directory.watching.hints import Hints, TouchedEntry
from mqdssm.events.watching.watched_values import Seen
from mqdssm.model.watching import ChangeEvent, ObjectChange

CLASSES = {"queue": "msmqqueue", "queue-manager": "msmqconfiguration", "machine": "computer"}
VALUES = {"queue": "Label", "queue-manager": "QueueManagerVersion"}
TYPES = tuple(VALUES)


class State(NamedTuple):
    """What can be told of an object."""

    dn: str
    value: str


@dataclass
class Thing:
    """An object."""

    type: str
    name: str
    above: str
    value: str = ""
    version: str = ""


@dataclass
class World:
    """The directory; every change is numbered."""

    things: dict[str, Thing] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    history: dict[str, list[State | None]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    made: int = 0

    def add(self, type_name: str, above: str = "") -> str:
        self.made += 1
        key = str(UUID(int=self.made))
        self.things[key] = Thing(type_name, f"n{self.made}", above, "first")
        self._happened(key)
        return key

    def set(self, key: str, value: str) -> None:
        self.things[key].value = value
        self._happened(key)

    def rename(self, key: str) -> None:
        self.made += 1
        self.things[key].name = f"n{self.made}"
        self._happened(key)

    def remove(self, key: str) -> None:
        for below in [one for one, thing in self.things.items() if thing.above == key]:
            self.remove(below)
        del self.things[key]
        self._happened(key)

    def recreate(self, key: str) -> None:
        """Delete an object and make another one of its name."""
        old = self.things[key]
        self.remove(key)
        self.made += 1
        new = str(UUID(int=self.made))
        self.things[new] = Thing(old.type, old.name, old.above, "again")
        self._happened(new)

    def take_name(self, key: str, other: str) -> None:
        """Rename an object that is in the way, and take its name."""
        name = self.things[other].name
        self.rename(other)
        self.things[key].name, self.things[key].above = name, self.things[other].above
        self._happened(key)

    def hide(self, key: str) -> None:
        """Hide an object from the watcher's user, or show it again; no server tells of that."""
        self.hidden ^= {key}
        self._note_state(key)

    def restore(self, things: dict[str, Thing]) -> None:
        """Bring back a copy of the directory; no server tells of that."""
        self.things = deepcopy(things)
        for key in self.history:
            self._note_state(key)

    def of_type(self, *types: str) -> list[str]:
        return [key for key, thing in self.things.items() if thing.type in types and key not in self.hidden]

    def _happened(self, key: str) -> None:
        self.events.append(key)  # nobody tells of what stands below
        if key in self.things:
            self.things[key].version = f"v{len(self.events)}"
        for one in {*self.things, key}:
            self._note_state(one)

    def _note_state(self, key: str) -> None:
        past, state = self.history.setdefault(key, []), self.state(key)
        if not past or past[-1] != state:
            past.append(state)

    def dn(self, key: str) -> str:
        thing = self.things[key]
        return f"CN={thing.name},{self.dn(thing.above) if thing.above else 'DC=test'}"

    def state(self, key: str) -> State | None:
        if key not in self.things or key in self.hidden:
            return None
        return State(self.dn(key), self.things[key].value)

    def states(self) -> dict[str, State]:
        return {key: State(self.dn(key), self.things[key].value) for key in self.of_type(*TYPES)}

    # -- what a server tells

    def read_hints(self, place: str | None, *, by: str, false_alarms: Sequence[str] = ()) -> Hints:
        """What happened since a place, told in one of the ways that servers have."""
        now = str(len(self.events))
        if place is None or by == "full":
            return Hints(full=True, listing=self.listing, has_gap=True, place=now)
        touched = [self._touched(key) for key in dict.fromkeys(self.events[int(place) :])]
        touched += [TouchedEntry(key, gone=True) for key in false_alarms]
        if by == "present":
            return Hints(
                touched=tuple(one for one in touched if not one.gone),
                listing=self.listing,
                has_gap=True,
                place=now,
            )
        return Hints(touched=tuple(touched), place=now)

    def listing(self) -> list[TouchedEntry]:
        return [self._touched(key) for key in self.things if key not in self.hidden]

    def _touched(self, key: str) -> TouchedEntry:
        if key not in self.things or key in self.hidden:
            return TouchedEntry(key, gone=True)
        thing = self.things[key]
        return TouchedEntry(key, self.dn(key), frozenset({"top", CLASSES[thing.type]}), version=thing.version)


@dataclass
class WorldReader:
    """Reads the world; before each object something may happen to it."""

    world: World
    meanwhile: Callable[[], None]

    def all(self) -> Iterator[Seen]:
        yield from self._read(self.world.of_type(*TYPES))

    def read_some(self, type_name: str, keys: Sequence[str]) -> Iterator[Seen]:
        yield from self._read([key for key in keys if key in self.world.of_type(type_name)])

    def read_below(self, dn: str) -> Iterator[Seen]:
        yield from self._read([key for key in self.world.of_type(*TYPES) if self.world.dn(key).endswith(dn)])

    def read_referring(self) -> Iterator[Seen]:
        yield from ()  # nothing here names anything

    def _read(self, keys: Sequence[str]) -> Iterator[Seen]:
        for key in keys:
            self.meanwhile()
            if key not in self.world.things:
                continue
            thing = self.world.things[key]
            body = {VALUES[thing.type]: thing.value}
            yield Seen(
                key=key, type=thing.type, dn=self.world.dn(key), guid=key, body=body, version=thing.version
            )


@dataclass
class Listener:
    """Hears what is told, and believes it; complains of what was never so, or not in this order.

    Attributes:
        believed: what it thinks there is.
        reached: how far in the history of each object it has come.
        ids: of the changes that it took: what comes again is known by them.
    """

    world: World
    believed: dict[str, State] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    told: int = 0
    ids: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """What is there now need not be told."""
        self.believed = dict(self.world.states())
        self.reached = {key: len(past) - 1 for key, past in self.world.history.items()}

    def hear(self, change: ObjectChange) -> None:
        """Take a change, unless it was taken already."""
        if change.id in self.ids:
            return
        self.ids.add(change.id)
        self.told += 1
        key = str(change.guid)
        name = VALUES[change.type]
        before = self.believed.get(key)
        after: State | None = None
        if change.event is ChangeEvent.CREATED:
            after = State(change.dn, str(change.changes[name].new))
            assert before is None, change
        elif change.event is ChangeEvent.CHANGED:
            assert before is not None, change
            assert change.changes
            value, place = change.changes.get(name), change.changes.get("FullPath")
            assert value is None or value.old == before.value
            assert place is None or place.old == before.dn
            after = State(change.dn, before.value if value is None else str(value.new))
        else:
            assert before is not None, change
            assert change.dn == before.dn
        self._was_so(key, after)
        if after is None:
            self.believed.pop(key, None)
        else:
            self.believed[key] = after

    def _was_so(self, key: str, state: State | None) -> None:
        past = self.world.history[key]
        at = next((n for n in range(self.reached.get(key, 0), len(past)) if past[n] == state), None)
        assert at is not None, f"{key}: {state} was never so after {self.reached.get(key)}: {past}"
        self.reached[key] = at

    def look_at_all(self) -> None:
        """Nothing: it believes what it is told."""


class NamesListener(Listener):
    """Holds objects by name alone, as a consumer without GUIDs does."""

    def __post_init__(self) -> None:
        self.names: dict[str, str] = {}

    def begin(self) -> None:
        super().begin()
        self.names = {state.dn: key for key, state in self.believed.items()}

    def hear(self, change: ObjectChange) -> None:
        if change.id in self.ids:
            return
        super().hear(change)
        moved = change.changes.get("FullPath")
        if change.event is ChangeEvent.DELETED:
            self.names.pop(change.dn, None)
        elif moved is not None:
            self.names.pop(str(moved.old), None)
        if change.event is not ChangeEvent.DELETED:
            self.names[change.dn] = str(change.guid)


class LateListener(Listener):
    """Reads the world itself, when it hears that something happened, and whenever it likes."""

    def hear(self, change: ObjectChange) -> None:
        key = str(change.guid)
        state = self.world.states().get(key)
        if state is None:
            self.believed.pop(key, None)
        else:
            self.believed[key] = state

    def look_at_all(self) -> None:
        self.believed = self.world.states()
