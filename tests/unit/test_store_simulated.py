"""The LDAP store on a simulated directory keeps the contract of all stores, and that of a real one (R146)."""

import pytest
from support.store.contract import StoreContract

from mqdssm.store.ldap import LdapStore
from mqdssm.testing.memory_store.disk import Crash
from mqdssm.testing.simulation.stores import DirectoryStore, crash_after


class SimulatedHarness:
    """A store on a simulated directory, which can lose its power."""

    crashes = Crash

    def __init__(self) -> None:
        self._kept = DirectoryStore()

    @property
    def store(self) -> LdapStore:
        return self._kept._store

    def arm(self, point: int) -> None:
        self._kept.disk.on_write = crash_after(point)

    def disarm(self) -> None:
        self._kept.disk.on_write = None

    def reopen(self) -> None:
        self._kept.reopen()


@pytest.fixture(scope="module")
def harness() -> SimulatedHarness:
    return SimulatedHarness()


@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
class TestSimulatedStore(StoreContract):
    """What is the same for every store."""
