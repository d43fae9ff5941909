"""Any changes, told in any way, with lost connections and crashes: what is told is true, nothing is lost."""

import json
import random
from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st
from support.watching.watched_world import (
    TYPES,
    LateListener,
    Listener,
    NamesListener,
    State,
    Thing,
    World,
    WorldReader,
)

from mqdssm.events.watching.follower import Follower
from mqdssm.events.watching.journal import ObjectNote
from mqdssm.events.watching.watch_cache import KnownObject, WatchCache
from mqdssm.model.watching import ObjectChange

WAYS = ("deltas", "deltas", "deltas", "present", "present", "full")


@dataclass
class Watcher:
    """The loop around a follower, with a state that can be saved and lost."""

    world: World
    listener: Listener
    mirror: WatchCache = field(default_factory=WatchCache)
    place: str | None = None
    saved: tuple[WatchCache, str | None] = field(default_factory=lambda: (WatchCache(), None))
    notes: list[ObjectNote] = field(default_factory=list)
    acknowledged: int = 0
    places: list[tuple[int, str | None]] = field(default_factory=list)
    doubts: deque[ObjectNote] = field(default_factory=deque)
    ids: int = 0
    batch: int = 1
    pending: list[tuple[str, int]] = field(default_factory=list)
    all_writes: bool = False
    copy: dict[str, Thing] | None = None
    is_cut_off: bool = False

    def follow(self, way: str, *, stop_after: int | None = None, alarms: tuple[str, ...] = ()) -> None:
        if self.is_cut_off and way == "deltas":
            way = "present"  # as after each new connection
        was_complete = self.mirror.is_complete
        reader = WorldReader(self.world, self._meanwhile)
        follower = Follower(self.mirror, reader, TYPES, all_writes=self.all_writes, note=self._note)
        for note, change in follower.repeat_unacknowledged(self.doubts):
            self.listener.hear(replace(change, id=note.id))
            self.acknowledged = note.number
        hints = self.world.read_hints(self.place, by=way, false_alarms=alarms)
        for number, change in enumerate(follower.follow(hints)):
            assert was_complete, "the first look tells nothing"
            if number == stop_after:
                self.crash()  # this one was not handled, and nobody knows
                return
            self.listener.hear(change)
            if number % self.batch == 0:
                self.acknowledged = len(self.notes)
        self.acknowledged = len(self.notes)
        self.is_cut_off = self.is_cut_off and hints.listing is None
        self.place = hints.place
        self.places.append((len(self.notes), self.place))
        if not was_complete:
            self.save()
        if follower.take_unseen() or hints.has_gap:
            self.listener.look_at_all()

    def _note(self, key: str, known: KnownObject | None, change: ObjectChange | None) -> ObjectChange | None:
        self.ids += change is not None
        name = "" if change is None else str(self.ids)
        self.notes.append(ObjectNote(key=key, known_object=known, number=len(self.notes) + 1, id=name))
        return None if change is None else replace(change, id=name)

    def save(self) -> None:
        """Begin a new journal; it is not done while a change is open."""
        if self.acknowledged == len(self.notes):
            self.saved = deepcopy(self.mirror), self.place
            self.notes, self.places, self.acknowledged = [], [], 0

    def crash(self) -> None:
        self.is_cut_off = True
        self.mirror, self.place = deepcopy(self.saved[0]), self.saved[1]
        self.doubts.clear()
        for note in self.notes:
            if self.doubts or (note.is_change and note.number > self.acknowledged):
                self.doubts.append(note)
            else:
                self.mirror.put(note.key, note.known_object)
        counting = [place for number, place in self.places if number <= self.acknowledged]
        self.place = counting[-1] if counting else self.place

    def _meanwhile(self) -> None:
        if self.pending:
            change(self.world, *self.pending.pop())
            self.listener.look_at_all()


def change(world: World, what: str, number: int) -> None:
    """One change by somebody; what cannot be done is not."""
    machines = world.of_type("machine")
    queues, managers = world.of_type("queue"), world.of_type("queue-manager")
    things = queues + managers
    match what:
        case "add" if managers and number % 3:
            world.add("queue", managers[number % len(managers)])
        case "add":
            world.add("queue-manager", world.add("machine"))
        case "set" if things:
            world.set(things[number % len(things)], f"v{len(world.events)}")
        case "back" if things:  # undone, so that nothing seems to have happened
            key = things[number % len(things)]
            past = [one.value for one in world.history[key] if one is not None]
            world.set(key, past[-2] if len(past) > 1 else "first")
        case "rename" if machines:
            world.rename(machines[number % len(machines)])
        case "move" if queues:
            world.rename(queues[number % len(queues)])
        case "remove" if queues:
            world.remove(queues[number % len(queues)])
        case "recreate" if queues:
            world.recreate(queues[number % len(queues)])
        case "take" if len(queues) > 1:
            world.take_name(queues[number % len(queues)], queues[(number + 1) % len(queues)])


L = TypeVar("L", bound=Listener)


def begin(seed: int, kind: type[L], **more: bool) -> tuple[random.Random, L, Watcher]:
    """A small world that is known: long stories without gaps find more than short ones that shrink."""
    chance = random.Random(seed)
    world = World()
    for _ in range(12):
        change(world, *some_change(chance))
    listener = kind(world)
    watcher = Watcher(world, listener, **more)
    watcher.follow("full")
    listener.begin()
    return chance, listener, watcher


@given(st.integers(0, 2**32))
def test_what_is_told_is_what_happened(seed):
    chance, listener, watcher = begin(seed, Listener)
    for _ in range(50):
        step(chance, watcher)
    watcher.follow(chance.choice(WAYS))
    assert {key: State(one.dn, _value(one.body)) for key, one in watcher.mirror} == watcher.world.states()
    assert listener.believed == watcher.world.states()  # so every net change was told at least once
    told = listener.told
    for way in ("deltas", "present", "full"):  # and what is hinted at again is told no more
        watcher.follow(way)
    assert listener.told == told


def some_change(chance: random.Random) -> tuple[str, int]:
    what = chance.choice(["add", "add", "set", "set", "set", "back", "rename", "remove", "move"])
    return what, chance.randrange(100)


def step(chance: random.Random, watcher: Watcher) -> None:
    """Something happens to the directory, or to the watcher."""
    match chance.choice(["change"] * 8 + ["follow"] * 4 + ["cut", "alarm", "save", "crash"]):
        case "change":
            change(watcher.world, *some_change(chance))
        case "follow":
            watcher.pending = [some_change(chance) for _ in range(chance.choice([0, 0, 1, 4]))]
            watcher.follow(chance.choice(WAYS))
            watcher.pending.clear()
        case "cut":
            watcher.batch = chance.choice([1, 1, 3, 10])
            watcher.follow(chance.choice(WAYS), stop_after=chance.randrange(8))
        case "alarm":  # slapd tells of deletions by transactions that failed
            watcher.follow("deltas", alarms=tuple(watcher.world.of_type(*TYPES)[:1]))
        case "save":
            watcher.save()
        case "crash":
            watcher.crash()


def lose_or_see(chance: random.Random, watcher: Watcher) -> None:
    """A copy of the directory is restored, or rights change: the next connection must notice."""
    world, queues = watcher.world, watcher.world.of_type("queue")
    match chance.choice(["copy", "restore", "hide", "show"]):
        case "copy":
            watcher.copy = deepcopy(world.things)
        case "restore" if watcher.copy is not None:
            world.restore(watcher.copy)
            watcher.is_cut_off = True
        case "hide" if queues:
            world.hide(chance.choice(queues))
            watcher.is_cut_off = True
        case "show" if world.hidden:
            world.hide(chance.choice(sorted(world.hidden)))
            watcher.is_cut_off = True


@given(st.integers(0, 2**32))
def test_restored_and_hidden_objects_are_told_at_the_next_connection(seed):
    chance, listener, watcher = begin(seed, Listener)
    for _ in range(50):
        step(chance, watcher)
        if chance.random() < 0.2:
            lose_or_see(chance, watcher)
    watcher.follow(chance.choice(("deltas", "present")))
    assert listener.believed == watcher.world.states()


@given(st.integers(0, 2**32))
def test_a_name_is_told_as_gone_before_it_is_told_as_taken(seed):
    chance, listener, watcher = begin(seed, NamesListener)
    for _ in range(30):
        for _ in range(chance.choice([0, 1, 1, 5])):
            what = chance.choice(["add", "set", "move", "remove", "recreate", "recreate", "take", "rename"])
            change(watcher.world, what, chance.randrange(100))
        if chance.random() < 0.5:
            step(chance, watcher)
    watcher.follow(chance.choice(WAYS))
    assert listener.names == {state.dn: key for key, state in watcher.world.states().items()}


def _value(body: str) -> str:
    (value,) = json.loads(body).values()
    return value


@given(st.integers(0, 2**32))
def test_who_reads_for_himself_ends_with_what_is_there(seed):
    """Decision C29: he reads what he hears of a little later, and now and then everything."""
    chance, listener, watcher = begin(seed, LateListener, all_writes=True)
    for _ in range(50):
        step(chance, watcher)
        if chance.random() < 0.2:
            listener.look_at_all()
    watcher.follow(chance.choice(WAYS))
    assert listener.believed == watcher.world.states()
