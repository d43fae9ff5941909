"""The order in which a follower tells of objects that take each other's names."""

from dataclasses import replace

import pytest
from support.watching.watched_world import TYPES, NamesListener, World, WorldReader

from mqdssm.directory.watching.hints import Hints
from mqdssm.events.watching.follower import Follower
from mqdssm.events.watching.watch_cache import WatchCache

pytestmark = pytest.mark.spec("MS-MQCN 3.2.3")
CHAIN = 400


class Watched:
    """A world whose objects are known, and a listener that holds them by name."""

    def __init__(self, queues: int) -> None:
        self.world, self.mirror = World(), WatchCache()
        self.manager = self.world.add("queue-manager", self.world.add("machine"))
        self.queues = [self.world.add("queue", self.manager) for _ in range(queues)]
        self.reader = WorldReader(self.world, lambda: None)
        self.listener = NamesListener(self.world)
        self.follower = Follower(self.mirror, self.reader, TYPES)
        assert not list(self.follower.follow(self.world.read_hints(None, by="full")))
        self.listener.begin()
        self.ids = 0

    def follow(self, hints: Hints) -> list[tuple[str, str]]:
        """Events and keys in the order in which they are told."""
        told = []
        for change in self.follower.follow(hints):
            self.ids += 1
            self.listener.hear(replace(change, id=str(self.ids)))
            told.append((change.event.value, str(change.guid)))
        assert self.listener.names == {state.dn: key for key, state in self.world.states().items()}
        return told


def test_the_first_comparison_waits_until_the_server_is_ready():
    world = World()
    world.add("queue-manager", world.add("machine"))
    reads: list[None] = []
    mirror = WatchCache()
    follower = Follower(mirror, WorldReader(world, lambda: reads.append(None)), TYPES)
    assert not list(follower.follow(Hints()))
    assert not reads
    assert not mirror.is_complete
    list(follower.follow(Hints(full=True)))
    assert (len(reads), mirror.is_complete) == (1, True)


@pytest.mark.slow
def test_each_name_of_a_long_chain_is_free_before_it_is_taken():
    watched = Watched(CHAIN)
    place = str(len(watched.world.events))
    for key, other in zip(watched.queues[::-1], watched.queues[::-1][1:], strict=False):
        watched.world.take_name(other, key)
    hints = watched.world.read_hints(place, by="deltas")
    told = watched.follow(Hints(touched=hints.touched[::-1]))
    assert {key for _, key in told} == set(watched.queues)


def test_what_was_read_before_its_turn_is_not_told_as_it_was_before():
    """A batch is read at once; in it is an older state of the object that had another one's name."""
    watched = Watched(2)
    first, second = watched.queues
    place = str(len(watched.world.events))
    watched.world.take_name(second, first)
    watched.world.set(first, "older")
    by_key = {one.key: one for one in watched.world.read_hints(place, by="deltas").touched}
    reads = 0

    def change_before_the_third_read() -> None:
        nonlocal reads
        reads += 1
        if reads == 3:
            watched.world.set(first, "newer")

    watched.reader.meanwhile = change_before_the_third_read
    told = watched.follow(Hints(touched=(by_key[second], by_key[first])))
    assert told == [("changed", first), ("changed", second)]
    assert watched.listener.believed[first].value == "newer"
