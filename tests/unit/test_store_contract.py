"""The store in memory keeps the contract of all stores."""

import pytest
from store_contract import StoreContract

from mqdssm.store.memory import Crash, MemoryStore, Moment


class MemoryHarness:
    """A store in memory whose machine can lose its power."""

    crashes = Crash

    def __init__(self) -> None:
        self.store = MemoryStore()

    def arm(self, point: int) -> None:
        left = iter(range(point))

        def on_write(_moment: Moment) -> None:
            if next(left, None) is None:
                raise Crash

        self.store.on_write = on_write

    def disarm(self) -> None:
        self.store.on_write = None

    def reopen(self) -> None:
        self.store = self.store.reopened()


@pytest.fixture(scope="module")
def harness() -> MemoryHarness:
    return MemoryHarness()


@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
class TestMemoryStore(StoreContract):
    pass
