"""Stores of the simulation, which survive crashes, also between two writes of one operation."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from mqdssm.engines.replication import operations as ops
from mqdssm.errors import DirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import DirectoryChange
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber
from mqdssm.testing.memory_store.disk import Crash, DiskSpace, Moment
from mqdssm.testing.memory_store.store import MemoryStore

ALL: Final = 1 << 30
"""Limit above the number of changes and bytes of any partition."""
_READING: Final = (ops.ReadObject, ops.ListObjects, ops.LookupChanges, ops.HasObjects)
_STATE: Final = (ops.SavePartition, ops.SaveNeighbor, ops.RemoveNeighbor)
"""Operations that write no objects, but may change the purged number that changes carry."""


class SimulatedStore(Protocol):
    """Store for an engine's operations, which survives crashes of the server.

    Attributes:
        room: free space on the disk; without space, an operation that has no status raises DirectoryError.
    """

    room: DiskSpace

    def perform(self, operation: ops.Operation) -> ops.Result:
        """Perform an operation."""

    def look(self, operation: ops.Operation) -> ops.Result:
        """Perform a reading operation for the checks; the result is cached until a write."""

    def perform_torn(self, operation: ops.Operation, moments: int) -> None:
        """Perform an operation until a power loss, then lose everything that is not durable."""


def crash_after(moments: int) -> Callable[[Moment], None]:
    """Return a call-back for each moment before and after a write, which raises `Crash` at one moment.

    Args:
        moments: number of moments that pass first; there are two for each write.
    """
    left = moments

    def count(_moment: Moment) -> None:
        nonlocal left
        if not left:
            raise Crash
        left -= 1

    return count


class WatchedStore(ABC):
    """Store with a cache for the reads of the simulation's checks, which writes invalidate."""

    def __init__(self) -> None:
        self._objects: dict[ops.Operation, ops.Result] = {}
        self._changes: dict[ops.Operation, ops.Result] = {}

    @abstractmethod
    def perform(self, operation: ops.Operation) -> ops.Result:
        """Perform an operation."""

    def look(self, operation: ops.Operation) -> ops.Result:
        """Perform a reading operation for the checks; the result is cached until a write."""
        known = self._changes if isinstance(operation, ops.LookupChanges) else self._objects
        seen = known.get(operation)
        if seen is None:
            seen = known[operation] = self.perform(operation)
        return seen

    def forget(self) -> None:
        """Clear the cache of the checks."""
        self._objects.clear()
        self._changes.clear()

    def forget_after(self, operation: ops.Operation) -> None:
        """Remove from the cache what an operation may change."""
        if isinstance(operation, _READING):
            return
        self._changes.clear()
        if not isinstance(operation, _STATE):
            self._objects.clear()


class CrashingStore(WatchedStore):
    """A `MemoryStore` whose machine can lose its power in the middle of an operation (decision R15)."""

    def __init__(self) -> None:
        super().__init__()
        self._store = MemoryStore()

    @property
    def room(self) -> DiskSpace:
        """Free space on the disk."""
        return self._store.disk.room

    @room.setter
    def room(self, room: DiskSpace) -> None:
        self._store.disk.room = room

    def perform(self, operation: ops.Operation) -> ops.Result:
        """Perform an operation."""
        self.forget_after(operation)
        result: ops.Result = self._store.perform(operation)
        return result

    def perform_torn(self, operation: ops.Operation, moments: int) -> None:
        """Perform an operation until a power loss, and reopen the store with what was written.

        Args:
            operation: the operation.
            moments: moments before the power loss, two for each write; an operation with fewer is completed.
        """
        self.forget()
        self._store.disk.on_write = crash_after(moments)
        try:
            self._store.perform(operation)
        except (Crash, DirectoryError):
            pass
        finally:
            self._store = self._store.reopened()


def everything(
    partition_id: Guid,
    *,
    after: SequenceNumber = MIN,
    up_to: SequenceNumber = MAX,
    enterprise_scope: bool = False,
) -> ops.LookupChanges:
    """Return a look-up of all objects and tombstones of a partition, or of a range of numbers."""
    return ops.LookupChanges(
        partition_id=partition_id,
        after=after,
        up_to=up_to,
        enterprise_scope=enterprise_scope,
        count_max=ALL,
        bytes_max=ALL,
    )


def changes_of(
    store: SimulatedStore, partition_id: Guid, *, after: SequenceNumber = MIN, up_to: SequenceNumber = MAX
) -> tuple[DirectoryChange, ...]:
    """Return all objects and tombstones of a partition, or of a range of numbers, as changes."""
    found = store.look(everything(partition_id, after=after, up_to=up_to))
    return found.changes if isinstance(found, ops.ChangesFound) else ()


def copy_to(store: SimulatedStore, copy: SimulatedStore) -> None:
    """Copy everything that has a number to another, empty store."""
    state = store.perform(ops.LoadState())
    if not isinstance(state, ops.PersistedState):
        return
    for partition in state.partitions:
        copy.perform(ops.SavePartition(partition=partition))
        found = store.perform(everything(partition.partition_id))
        changes = found.changes if isinstance(found, ops.ChangesFound) else ()
        copy.perform(ops.ApplyChanges(partition_id=partition.partition_id, changes=changes))
    for neighbor in state.neighbors:
        copy.perform(ops.SaveNeighbor(neighbor=neighbor))
