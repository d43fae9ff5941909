"""The store in memory keeps the contract of all stores."""

import pytest
from hypothesis import given
from support.store.contract import StoreContract
from support.store.model import (
    CRASHES,
    PLANS,
    SPLITS,
    STEPS,
    check_propagation,
    check_replica,
    numbered_drafts,
)

from mqdssm.testing.memory_store.disk import Crash
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.simulation.stores import crash_after


class MemoryHarness:
    """A store in memory whose machine can lose its power."""

    crashes = Crash

    def __init__(self) -> None:
        self.store = MemoryStore()

    def arm(self, point: int) -> None:
        self.store.disk.on_write = crash_after(point)

    def disarm(self) -> None:
        self.store.disk.on_write = None

    def reopen(self) -> None:
        self.store = self.store.restart()


@pytest.fixture(scope="module")
def harness() -> MemoryHarness:
    return MemoryHarness()


@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
class TestMemoryStore(StoreContract):
    """What is the same for every store."""

    @given(numbered_drafts(), STEPS)
    def test_a_replica_is_what_the_model_is(self, harness, drafts, steps) -> None:
        check_replica(harness, drafts, steps)

    @given(PLANS, SPLITS, CRASHES)
    def test_propagation_in_any_batches_with_crashes(self, harness, plan, splits, points) -> None:
        check_propagation(harness, plan, splits, points)
