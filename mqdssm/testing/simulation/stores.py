"""Stores of the simulation: what survives a crash, and crashes between two writes of one operation."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from mqdssm.engines.replication.operations import (
    ApplyChanges,
    ChangesFound,
    HasObjects,
    ListObjects,
    LoadState,
    LookupChanges,
    Operation,
    PersistedState,
    ReadObject,
    RemoveNeighbor,
    Result,
    SaveNeighbor,
    SavePartition,
)
from mqdssm.errors import DirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import DirectoryChange
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber
from mqdssm.store.disk import Crash, DiskSpace, Moment
from mqdssm.store.memory import MemoryStore

ALL: Final = 1 << 30
"""More than there are."""
_READING: Final = (ReadObject, ListObjects, LookupChanges, HasObjects)
_STATE: Final = (SavePartition, SaveNeighbor, RemoveNeighbor)
"""Operations that write no objects, but perhaps the number up to which is purged, which changes carry."""


class SimulatedStore(Protocol):
    """What an engine's operations are performed on; it outlives a crash.

    Attributes:
        room: how much its disk takes; an operation that finds none, and has no status, is a DirectoryError.
    """

    room: DiskSpace

    def perform(self, operation: Operation) -> Result:
        """Perform an operation."""

    def look(self, operation: Operation) -> Result:
        """Perform a reading operation for the checks; its result stays while nobody writes."""

    def perform_torn(self, operation: Operation, moments: int) -> None:
        """Perform an operation up to a moment, then lose everything that is not durable."""


def crash_after(moments: int) -> Callable[[Moment], None]:
    """Return what lets a machine lose its power: it is called around each write, and raises `Crash`.

    Args:
        moments: so many are let pass; there are two around each write.
    """
    left = moments

    def count(_moment: Moment) -> None:
        nonlocal left
        if not left:
            raise Crash
        left -= 1

    return count


class WatchedStore(ABC):
    """A store that the simulation's checks look at: what was read for them stays while nobody writes."""

    def __init__(self) -> None:
        self._objects: dict[Operation, Result] = {}
        self._changes: dict[Operation, Result] = {}

    @abstractmethod
    def perform(self, operation: Operation) -> Result:
        """Perform an operation."""

    def look(self, operation: Operation) -> Result:
        """Perform a reading operation for the checks; its result stays while nobody writes."""
        known = self._changes if isinstance(operation, LookupChanges) else self._objects
        seen = known.get(operation)
        if seen is None:
            seen = known[operation] = self.perform(operation)
        return seen

    def forget(self) -> None:
        """Forget what was read for the checks."""
        self._objects.clear()
        self._changes.clear()

    def forget_after(self, operation: Operation) -> None:
        """Forget what an operation may change."""
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
        """How much its disk takes."""
        return self._store.disk.room

    @room.setter
    def room(self, room: DiskSpace) -> None:
        self._store.disk.room = room

    def perform(self, operation: Operation) -> Result:
        """Perform an operation."""
        self.forget_after(operation)
        result: Result = self._store.perform(operation)
        return result

    def perform_torn(self, operation: Operation, moments: int) -> None:
        """Perform an operation up to a moment, and start anew from what was written.

        Args:
            operation: the operation.
            moments: there are two around each write; if it has fewer, it is done whole.
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
) -> LookupChanges:
    """What asks for all objects and tombstones of a partition, or those with numbers in a range."""
    return LookupChanges(
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
    """All objects and tombstones of a partition, or those with numbers in a range, as changes."""
    found = store.look(everything(partition_id, after=after, up_to=up_to))
    return found.changes if isinstance(found, ChangesFound) else ()


def copy_to(store: SimulatedStore, copy: SimulatedStore) -> None:
    """Back a directory up: put everything that has a number into another, empty one."""
    state = store.perform(LoadState())
    if not isinstance(state, PersistedState):
        return
    for partition in state.partitions:
        copy.perform(SavePartition(partition=partition))
        changes = changes_of(store, partition.partition_id)
        copy.perform(ApplyChanges(partition_id=partition.partition_id, changes=changes))
    for neighbor in state.neighbors:
        copy.perform(SaveNeighbor(neighbor=neighbor))
