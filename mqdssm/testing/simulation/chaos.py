"""Faults at random times: crashes, network cuts, hardships of one server."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.memory_store.disk import DiskSpace
from mqdssm.testing.simulation.servers import CHANGING, RESETTING, PlannedCrash, SimulatedServer
from mqdssm.testing.simulation.stores import changes_of
from mqdssm.testing.simulation.world import World

_ACTIONS_MAX: Final = 12
"""A crash comes after fewer actions of an engine than this."""
_MOMENTS_MAX: Final = 6
"""A crash comes within the first three writes of an operation."""
_MANY_MOMENTS_MAX: Final = 40
"""A crash comes within the first twenty writes of an operation that writes much."""


class Chaos:
    """Source of faults, as long as the world is faulty.

    Args:
        world: the enterprise.
        rng: chance of crashes and cuts; hardships have their own.

    Attributes:
        counts: what went wrong, by name.
    """

    def __init__(self, world: World, rng: SeededRandom) -> None:
        self._world = world
        self._rng = rng
        self._later = SeededRandom("chaos of hardships", world.options.seed)
        self.counts: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin the faults; do nothing if they have begun."""
        if self._world.is_faulty:
            return
        self._world.begin_faults()
        options = self._world.options
        self._repeat(options.servers.crash_every_s, self._crash_server, self._rng)
        self._repeat(options.network.cut_every_s, self._cut_link, self._rng)
        fault_options = options.fault_options
        self._repeat(fault_options.full_every_s, self._fill_disk, self._later)
        self._repeat(fault_options.damaged_every_s, self._damage_entry, self._later)
        self._repeat(fault_options.jump_every_s, self._set_a_clock, self._later)

    def _repeat(self, every_s: int, action: Callable[[], None], rng: SeededRandom) -> None:
        """Run an action repeatedly, after random times of a given average; 0 means never."""
        if not every_s:
            return

        def go() -> None:
            if self._world.is_faulty:
                action()
                self._repeat(every_s, action, rng)

        self._world.schedule.after(rng.draw_between(1, 2000 * every_s) / 1000, go)

    def _crash_server(self) -> None:
        up = [candidate for candidate in self._world.servers if candidate.is_up]
        if not up:
            return
        server = self._rng.of(up)
        match self._rng.draw_below(6):
            case 0:
                server.crash()
            case 1:
                server.crash_soon(PlannedCrash(actions=self._rng.draw_below(_ACTIONS_MAX)))
            case 2 | 3:
                server.crash_soon(
                    PlannedCrash(moments=self._rng.draw_below(_MOMENTS_MAX), operations=CHANGING)
                )
            case 4:  # these operations are rare: let all servers crash in their next one
                for target in up:
                    moments = self._rng.draw_below(_MANY_MOMENTS_MAX)
                    target.crash_soon(PlannedCrash(moments=moments, operations=RESETTING))
            case _:
                server.crash_soon(PlannedCrash(moments=self._rng.draw_below(_MOMENTS_MAX)))

    def _cut_link(self) -> None:
        indexes = [server.index for server in self._world.servers if not server.retired]
        side = frozenset(index for index in indexes if self._rng.draw_one_in(2))
        self._world.network.divide(side, one_way=self._rng.draw_one_in(4))
        length_s = self._rng.draw_between(1, self._world.options.network.cut_max_s)
        self._world.schedule.after(float(length_s), self._world.network.heal)

    # -- hardships

    def _choose_server(self) -> SimulatedServer | None:
        up = [server for server in self._world.servers if server.is_up]
        return self._later.of(up) if up else None

    def _fill_disk(self) -> None:
        """Fill the disk of a random server, and free space after a random time."""
        server = self._choose_server()
        if server is None:
            return
        room = self._later.of((DiskSpace.LITTLE, DiskSpace.NONE))
        server.set_room(room)
        self.counts[f"disk with {room.value}"] += 1
        length_s = self._later.draw_between(1, self._world.options.fault_options.full_max_s)
        self._world.schedule.after(float(length_s), lambda: server.set_room(DiskSpace.PLENTY))

    def _damage_entry(self) -> None:
        """Make the number of an entry unreadable for a while, as other programs may."""
        server = self._choose_server()
        partitions = list(server.persisted) if server is not None else []
        if server is None or not partitions:
            return
        changes = changes_of(server.store, self._later.of(partitions))
        if not changes:
            return
        newest = self._later.draw_one_in(2)  # the newest number matters most
        entry = server.damage.add(changes[-1] if newest else self._later.of(changes))
        if entry is not None:
            self.counts["damaged entries"] += 1
            server.say(f"has a damaged entry: {entry}")
            length_s = self._later.draw_between(1, self._world.options.fault_options.damaged_max_s)
            damage = server.damage
            self._world.schedule.after(float(length_s), lambda: damage.repair_number(entry))

    def _set_a_clock(self) -> None:
        server = self._choose_server()
        if server is not None:
            most = 1000 * self._world.options.fault_options.jump_max_s
            server.set_clock(self._later.draw_between(-most, most) / 1000)
            self.counts["clocks set"] += 1
