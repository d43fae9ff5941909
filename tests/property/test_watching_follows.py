"""Any changes, told in any way, with lost connections and crashes: what is told is true, nothing is lost."""

from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from watched_world import TYPES, Listener, State, World, WorldReader

from mqdssm.events.watching.follower import Follower
from mqdssm.events.watching.mirror import Known, Mirror

WAYS = st.sampled_from(["deltas", "deltas", "deltas", "present", "full"])
CHANGES = st.tuples(st.sampled_from(["add", "set", "set", "rename", "remove", "move"]), st.integers(0, 99))


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

    def follow(self, way: str, *, stop_after: int | None = None, alarms: tuple[str, ...] = ()) -> None:
        hints = self.world.hints(self.place, by=way, false_alarms=alarms)
        was_complete = self.mirror.is_complete
        reader = WorldReader(self.world, self._meanwhile)
        follower = Follower(self.mirror, reader, TYPES, note=self._note)
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
            world.set(things[number % len(things)], f"v{number % 7}")
        case "rename" if machines:
            world.rename(machines[number % len(machines)])
        case "move" if queues:
            world.rename(queues[number % len(queues)])
        case "remove" if queues:
            world.remove(queues[number % len(queues)])


@given(
    first=st.lists(CHANGES, max_size=8),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("change"), CHANGES),
            st.tuples(st.just("change"), CHANGES),
            st.tuples(st.just("follow"), WAYS, st.lists(CHANGES, max_size=3)),
            st.tuples(st.just("cut"), WAYS, st.integers(0, 3)),
            st.tuples(st.just("alarm"), st.integers(0, 99)),
            st.tuples(st.sampled_from(["save", "crash"])),
        ),
        max_size=30,
    ),
    last=WAYS,
)
def test_what_is_told_is_what_happened(first, steps, last):
    world = World()
    for one in first:
        change(world, *one)
    listener = Listener(world)
    watcher = Watcher(world, listener)
    watcher.follow("full")
    listener.begin()
    for step in steps:
        match step:
            case ("change", (what, number)):
                change(world, what, number)
            case ("follow", way, meanwhile):
                watcher.pending = list(meanwhile)
                watcher.follow(way)
                watcher.pending.clear()
            case ("cut", way, stop_after):
                watcher.follow(way, stop_after=stop_after)
            case ("alarm", number):  # slapd tells of deletions by transactions that failed
                keys = world.of_type(*TYPES)
                watcher.follow("deltas", alarms=(keys[number % len(keys)],) if keys else ())
            case ("save",):
                watcher.save()
            case ("crash",):
                watcher.crash()
    watcher.follow(last)
    assert {key: State(one.dn, _value(one.body)) for key, one in watcher.mirror} == world.states()
    assert listener.believed == world.states()  # so every net change was told at least once
    told = listener.told
    for way in ("deltas", "present", "full"):  # and what is hinted at again is told no more
        watcher.follow(way)
    assert listener.told == told


def _value(body: str) -> str:
    import json

    (value,) = json.loads(body).values()
    return value
