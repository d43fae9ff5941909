"""The checks bite: every defect is found by its recorded seed, which is clean without it (decision R64)."""

import pytest
from mutations import MUTATIONS, Mutation, search

from mqdssm.testing.simulation.options import options_of
from mqdssm.testing.simulation.run import Simulation

AT_LEAST = 20


def test_there_are_enough_of_them() -> None:
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS) >= AT_LEAST


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_defect_is_found(mutation: Mutation) -> None:
    violation = mutation.run().violation
    assert violation
    assert "Traceback" not in violation, "the defect itself is broken, nothing was found"


@pytest.mark.parametrize("seed", sorted({one.seed for one in MUTATIONS}))
def test_its_seed_is_clean_without_it(seed: int) -> None:
    assert not Simulation(options_of(seed)).run().violation


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_defect_is_found_soon(mutation: Mutation) -> None:
    assert search(mutation) is not None
