"""Any changes, told in any way, with lost connections and crashes: what is told is true, nothing is lost."""

import json
import random
from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from watched_world import TYPES, LateListener, Listener, State, World, WorldReader

from mqdssm.events.watching.follower import Follower
from mqdssm.events.watching.mirror import Known, Mirror

WAYS = ("deltas", "deltas", "deltas", "present", "present", "full")


@dataclass
class Watcher:
    """The loop around a follower, with a state that can be saved and lost."""

    world: World
    listener: Listener
    mirror: Mirror = field(default_factory=Mirror)
    place: str | None = None
    saved: tuple[Mirror, str | None] | None = None
    notes: list[tuple[str, Known | None]] = field(default_factory=list)
    last: tuple[str, Known | None] | None = None
    in_doubt: bool = False
    pending: list[tuple[str, int]] = field(default_factory=list)
    all_writes: bool = False

    def follow(self, way: str, *, stop_after: int | None = None, alarms: tuple[str, ...] = ()) -> None:
        hints = self.world.hints(self.place, by=way, false_alarms=alarms)
        was_complete = self.mirror.is_complete
        reader = WorldReader(self.world, self._meanwhile)
        follower = Follower(self.mirror, reader, TYPES, all_writes=self.all_writes, note=self._note)
        for number, change in enumerate(follower.follow(hints)):
            assert was_complete, "the first look tells nothing"
            if number == stop_after:
                self.save()
                self.crash()  # this one was not handled, and nobody knows
                return
            self.listener.hear(change, again=self.in_doubt)
            self.in_doubt = False
        self.last = None
        self.place = hints.place
        if follower.take_unseen() or hints.has_gap:
            self.listener.look_at_all()

    def _note(self, key: str, known: Known | None) -> None:
        self.last = key, known
        self.notes.append(self.last)

    def save(self) -> None:
        self.saved = deepcopy(self.mirror), self.place
        self.notes = [] if self.last is None else [self.last]

    def crash(self) -> None:
        if self.saved is not None:
            self.mirror, self.place = deepcopy(self.saved[0]), self.saved[1]
            self.mirror.replay(self.notes)
            self.in_doubt = self.mirror.doubt is not None

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


@given(st.integers(0, 2**32))
def test_what_is_told_is_what_happened(seed):
    chance = random.Random(seed)  # long stories without gaps find more than short ones that shrink
    world = World()
    for _ in range(12):
        change(world, *some_change(chance))
    listener = Listener(world)
    watcher = Watcher(world, listener)
    watcher.follow("full")
    listener.begin()
    for _ in range(50):
        step(chance, watcher)
    watcher.follow(chance.choice(WAYS))
    assert {key: State(one.dn, _value(one.body)) for key, one in watcher.mirror} == world.states()
    assert listener.believed == world.states()  # so every net change was told at least once
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
            watcher.follow(chance.choice(WAYS), stop_after=chance.randrange(4))
        case "alarm":  # slapd tells of deletions by transactions that failed
            watcher.follow("deltas", alarms=tuple(watcher.world.of_type(*TYPES)[:1]))
        case "save":
            watcher.save()
        case "crash":
            watcher.crash()


def _value(body: str) -> str:
    (value,) = json.loads(body).values()
    return value


@given(st.integers(0, 2**32))
def test_who_reads_for_himself_ends_with_what_is_there(seed):
    """Decision C29: he reads what he hears of a little later, and now and then everything."""
    chance = random.Random(seed)
    world = World()
    for _ in range(12):
        change(world, *some_change(chance))
    listener = LateListener(world)
    watcher = Watcher(world, listener, all_writes=True)
    watcher.follow("full")
    for _ in range(50):
        step(chance, watcher)
        if chance.random() < 0.2:
            listener.look_at_all()
    watcher.follow(chance.choice(WAYS))
    assert listener.believed == world.states()
