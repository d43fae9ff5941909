"""Options of a seed for faults and unusual servers.

Disks, entries and clocks have faults. Servers may be foreign or hostile.
"""

from dataclasses import dataclass, replace
from typing import Final

from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.generations import Generation

_FOREIGN_EVERY: Final = 5
"""One run in this number has other programs that write, from generation `COMBINED` on."""
_HOSTILE_EVERY: Final = 3
"""One run in this number has a hostile server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """Rates and limits of faults that hit one server at a time; 0 means never.

    Attributes:
        full_every_s: about so often the disk of a server is full.
        full_max_s: how long at most, until room is made.
        damaged_every_s: about so often another program damages an entry of a server's directory.
        damaged_max_s: how long at most, until the entry is mended.
        jump_every_s: about so often the clock of a server that runs is set.
        jump_max_s: how far at most, forward or back.
        mixed: servers have different settings, as servers of several versions do.
        windows: number of servers in a thousand that propagate as Windows does, with its timers.
        trespassed: clients also ask for forbidden changes.
        lies_every_ms: average time between two lies of a hostile server; 0: there is no such server.
        bent: chance in a thousand that the hostile server falsifies a message of its engine.
        is_hostile_server_removed: in the end the administrator takes the hostile server away.
        foreign_every_s: about so often another program changes an object in a server's directory.
        look_s: how often servers look for such changes; 0: never.
    """

    full_every_s: int = 0
    full_max_s: int = 0
    damaged_every_s: int = 0
    damaged_max_s: int = 0
    jump_every_s: int = 0
    jump_max_s: int = 0
    mixed: bool = False
    windows: int = 0
    trespassed: bool = False
    lies_every_ms: int = 0
    bent: int = 0
    is_hostile_server_removed: bool = False
    foreign_every_s: int = 0
    look_s: int = 0

    @property
    def is_hostile(self) -> bool:
        """True if one server is hostile."""
        return self.lies_every_ms > 0


NONE: Final = FaultOptions()


def hardships_of(seed: int, generation: Generation) -> FaultOptions:
    """Return the hardships of a seed; each seed draws only some of them."""
    if generation < Generation.HARDSHIPS:
        return NONE
    rng = SeededRandom("hardships", seed)
    options = FaultOptions(
        full_every_s=_draw_or_zero(rng, (30, 120)),
        full_max_s=rng.of((5, 60, 300)),
        damaged_every_s=_draw_or_zero(rng, (20, 90)),
        damaged_max_s=rng.of((10, 90, 400)),
        jump_every_s=_draw_or_zero(rng, (6, 40)),
        jump_max_s=rng.of((3, 100, 10_000)),
        mixed=rng.draw_one_in(4),
        windows=rng.of((300, 1000)) if rng.draw_one_in(4) else 0,
        trespassed=rng.draw_one_in(3),
    )
    if generation < Generation.HOSTILE:
        return options
    if generation is Generation.FOREIGN:
        return replace(_with_other_programs(options, seed), windows=0)
    if generation >= Generation.COMBINED and SeededRandom("other programs", seed).draw_one_in(_FOREIGN_EVERY):
        options = _with_other_programs(options, seed)
    hostile = SeededRandom("hostile", seed)
    if generation < Generation.ALL or hostile.draw_one_in(_HOSTILE_EVERY):
        return _with_hostile_server(options, hostile)
    return options


def _with_other_programs(fault_options: FaultOptions, seed: int) -> FaultOptions:
    rng = SeededRandom("foreign", seed)
    return replace(fault_options, foreign_every_s=rng.of((2, 5, 20)), look_s=rng.of((2, 10, 40)))


def _with_hostile_server(fault_options: FaultOptions, rng: SeededRandom) -> FaultOptions:
    return replace(
        fault_options,
        lies_every_ms=rng.of((300, 1_500, 6_000)),
        bent=rng.of((0, 100, 500)),
        is_hostile_server_removed=rng.draw_one_in(3),
    )


def _draw_or_zero(rng: SeededRandom, choices: tuple[int, ...]) -> int:
    """Return one of the choices, or 0 in two of three cases."""
    return rng.of(choices) if rng.draw_one_in(3) else 0
