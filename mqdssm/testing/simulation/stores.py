"""Stores of the simulation: what survives a crash, and crashes between two writes of one operation."""

from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.store.memory import Crash, MemoryStore, Moment


class CrashingStore:
    """A `MemoryStore` whose machine can lose its power in the middle of an operation (decision R15)."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def perform(self, operation: Operation) -> Result:
        """Perform an operation."""
        result: Result = self._store.perform(operation)
        return result

    def perform_torn(self, operation: Operation, moments: int) -> None:
        """Perform an operation up to a moment, and start anew from what was written.

        Args:
            operation: the operation.
            moments: there are two around each write; if it has fewer, it is done whole.
        """
        left = moments

        def count(_moment: Moment) -> None:
            nonlocal left
            if not left:
                raise Crash
            left -= 1

        self._store.on_write = count
        try:
            self._store.perform(operation)
        except Crash:
            pass
        finally:
            self._store = self._store.reopened()
