"""Generations of options.

A recorded seed keeps the options that existed when it was recorded.

All other seeds may draw every option. A new option needs a new generation, and is drawn from that generation
on. Seeds of regressions, mutants and tests are recorded here.
"""

from collections.abc import Mapping
from enum import IntEnum
from itertools import chain
from typing import Final

from mqdssm.samples.seeded_random import SeededRandom


class Generation(IntEnum):
    """Set of options that a seed may draw; each generation includes the earlier ones."""

    FIRST = 1
    SERVICES = 2
    """Services that write, restored PSCs, several changes of the topology at a time."""
    REINSTALLED = 3
    """PSCs that lose their directories."""
    FAILING = 4
    """Operations that fail."""
    HARDSHIPS = 5
    """`mqdssm.testing.simulation.fault_options`."""
    HOSTILE = 6
    """A hostile server, in each seed."""
    DIRECTORIES = 7
    """Stores on directories, in every tenth seed."""
    ALL = 8
    """A hostile server, and stores on directories, in some seeds and not in others."""
    FOREIGN = 9
    """Other programs that write into the directories, in each seed; every partition keeps its owner."""
    SHORT = 10
    """As `ALL`; runs with stores on directories have half of the time."""
    EVERY = 11
    """As `FOREIGN` in one run of ten, else as `SHORT`."""
    COMBINED = 12
    """As `SHORT`; one run of five has other programs that write, with servers and stores of any kind."""


FOREIGN_SEEDS: Final = range(340_000, 350_000)
"""Seeds of generation `FOREIGN`."""
_FOREIGN_EVERY: Final = 10
"""One run in this number has other programs that write, in generation `EVERY`."""


_RECORDED: Final[Mapping[Generation, tuple[int, ...]]] = {
    Generation.FIRST: (*range(1, 51), 57, 65, 68, 74, 265, 514, 565, 578, 605, 703, 1_389),
    Generation.SERVICES: (
        *range(2_000, 2_005),
        *(2_023, 2_037, 2_249, 2_396, 2_431, 3_579, 3_758, 3_786, 6_282, 9_685),
    ),
    Generation.REINSTALLED: (12_025, 12_042, 12_043, 13_999, 20_068, 200_472, 210_947),
    Generation.FAILING: (
        *range(220_006, 220_011),
        *(230_000, 230_002, 230_003, 230_009, 230_015, 230_020, 230_023, 230_027, 230_049),
    ),
    Generation.HARDSHIPS: (
        *range(300_000, 300_008),
        300_386,
        *(310_019, 310_049, 310_126, 310_162, 310_241, 310_363, 310_477, 310_684, 310_689, 310_742, 310_817),
        *(312_203, 313_095),
    ),
    Generation.HOSTILE: (
        *range(320_000, 320_006),
        *(320_019, 320_050, 320_063, 320_066, 320_112, 320_604, 320_614),
    ),
    Generation.DIRECTORIES: (330_180, 330_330),
    Generation.ALL: (
        *(700_381, 702_224, 702_442, 703_254, 705_550, 705_662, 706_484, 710_022, 711_827, 711_850),
    ),
    Generation.FOREIGN: tuple(range(340_000, 340_006)),
    Generation.SHORT: (
        *(
            500_000,
            500_007,
            500_052,
            707_426,
            708_406,
            709_386,
            709_675,
            712_099,
            713_791,
            715_699,
            718_640,
            720_339,
            728_457,
            730_972,
            800_015,
        ),
    ),
    Generation.EVERY: (
        230_065,
        500_003,
        802_368,
        816_772,
        816_883,
        850_013,
        850_552,
        851_195,
        860_000,
        860_375,
        860_421,
    ),
    Generation.COMBINED: (
        890_078,
        890_431,
        900_417,
        920_256,
        921_794,
        923_935,
        924_308,
        925_168,
        937_474,
        937_639,
    ),
}
RECORDED: Final[Mapping[int, Generation]] = dict(
    chain.from_iterable(((seed, generation) for seed in seeds) for generation, seeds in _RECORDED.items())
)
"""The generations of seeds that are recorded."""


def generation_of(seed: int) -> Generation:
    """Return the generation of a seed.

    A seed that is not recorded may draw every option.
    """
    return RECORDED.get(seed, Generation.FOREIGN if seed in FOREIGN_SEEDS else Generation.COMBINED)


def narrow(generation: Generation, seed: int) -> Generation:
    """Return the generation of one run: in place of `EVERY` the one that it draws."""
    if generation is not Generation.EVERY:
        return generation
    has_other_programs = SeededRandom("generation", seed).draw_one_in(_FOREIGN_EVERY)
    return Generation.FOREIGN if has_other_programs else Generation.SHORT
