"""Stores of the simulation, which survive crashes.

A crash may come between two writes of one operation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

from mqdssm.directory.filters import Equal
from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.session import Session
from mqdssm.engines.replication import operations as ops
from mqdssm.errors import DirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import DirectoryChange, Properties
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber
from mqdssm.store.ldap import LdapStore
from mqdssm.store.ldap.stored_entry import stored_entry_of
from mqdssm.store.performer import Store
from mqdssm.tables import properties as tables
from mqdssm.testing.ldap.connection import open_session
from mqdssm.testing.ldap.directory import SimulatedDirectory
from mqdssm.testing.memory_store.disk import Crash, Disk, Moment
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.memory_store.tables import StoredTables

_ROOT: Final = "dc=example,dc=com"
_WRITTEN_AT_S: Final = 1_700_000_000.0
"""Constant time of all directories' clocks; writes are distinguished by their counts."""
ALL: Final = 1 << 30
"""Limit above the number of changes and bytes of any partition."""
_UNSEEN: Final = frozenset(
    {
        ops.ReadObject,
        ops.ListObjects,
        ops.LookupChanges,
        ops.HasObjects,
        ops.FindForeign,
        ops.SaveNeighbor,
        ops.RemoveNeighbor,
    }
)
"""Operations that change nothing that the checks read."""


def crash_after(moments: int) -> Callable[[Moment], None]:
    """Return a call-back for each moment before and after a write.

    At one of these moments the call-back raises `Crash`.

    Args:
        moments: number of moments that pass first; there are two for each write.
    """
    remaining_moments = moments

    def count(_moment: Moment) -> None:
        nonlocal remaining_moments
        if not remaining_moments:
            raise Crash
        remaining_moments -= 1

    return count


class SimulatedStore(ABC):
    """Store whose machine can lose its power in the middle of an operation (R15).

    The reads of the simulation's checks are cached until a write.

    Attributes:
        disk: the disk that the store writes to; without space on it, an operation that has no status raises
            DirectoryError.
    """

    disk: Disk

    def __init__(self) -> None:
        self._reads: dict[tuple[ObjectType, Guid, Guid], ops.Result] = {}
        self._objects: dict[ops.Operation, ops.Result] = {}
        self._changes: dict[ops.Operation, ops.Result] = {}
        self._store = self.open()

    @abstractmethod
    def open(self) -> Store:
        """Open the store, for the first time or again after a crash; it needs no space."""

    def perform(self, operation: ops.Operation) -> ops.Result:
        """Perform an operation."""
        self._forget_after(operation)
        return self._store.perform(operation)

    def perform_torn(self, operation: ops.Operation, moments: int) -> None:
        """Perform an operation until a power loss, and reopen the store.

        The loss comes before or after a write.

        Args:
            operation: the operation.
            moments: moments before the power loss, two for each write; an operation with fewer is completed.
        """
        self.disk.on_write = crash_after(moments)
        try:
            self._store.perform(operation)
        except (Crash, DirectoryError):
            pass
        finally:
            self.disk.on_write = None
            self.reopen()

    def write_foreign(self, identifier: Guid, properties: Properties) -> None:
        """Change an object as another program does with plain LDAP: its number stays."""
        self._forget()
        self._write_foreign(identifier, properties)

    @abstractmethod
    def _write_foreign(self, identifier: Guid, properties: Properties) -> None:
        """Change an object beside the store."""

    def _forget(self) -> None:
        self._reads.clear()
        self._objects.clear()
        self._changes.clear()

    def reopen(self) -> None:
        """Reopen the store as the next start does."""
        self._forget()
        self._store.close()
        self._store = self.open()

    def look(self, operation: ops.Operation) -> ops.Result:
        """Perform a reading operation for the checks; the result is cached until a write."""
        cache = self._changes if isinstance(operation, ops.LookupChanges) else self._objects
        seen = cache.get(operation)
        if seen is None:
            seen = cache[operation] = self.perform(operation)
        return seen

    def read(self, object_type: ObjectType, identifier: Guid, partition_id: Guid) -> ops.Result:
        """Read an object for the checks; the result is cached until a write."""
        key = (object_type, identifier, partition_id)
        seen = self._reads.get(key)
        if seen is None:
            operation = ops.ReadObject(
                object_type=object_type, identifier=identifier, partition_id=partition_id
            )
            seen = self._reads[key] = self.perform(operation)
        return seen

    def _forget_after(self, operation: ops.Operation) -> None:
        """Remove from the cache what an operation may change."""
        kind = type(operation)
        if kind is ops.SavePartition:
            self._changes.clear()  # they carry the partition's purged number
        elif kind not in _UNSEEN:
            self._forget()


class CrashingStore(SimulatedStore):
    """A `MemoryStore` on a simulated disk."""

    def __init__(self) -> None:
        self.disk = Disk()
        self._tables = StoredTables()
        super().__init__()

    def open(self) -> MemoryStore:
        """Open a store on the tables that were written."""
        return MemoryStore(self.disk, self._tables)

    def _write_foreign(self, identifier: Guid, properties: Properties) -> None:
        self.open().write_foreign(identifier, properties)


class DirectoryStore(SimulatedStore):
    """An `LdapStore`, the product's, on a simulated directory (decision R146).

    Attributes:
        directory: the server.
    """

    def __init__(self) -> None:
        self.directory = SimulatedDirectory(_ROOT, lambda: _WRITTEN_AT_S)
        self.disk = self.directory.disk
        super().__init__()

    def open(self) -> LdapStore:
        """Open a store with a session of its own.

        The first opening makes the containers.
        """
        return LdapStore(self._open_session(), closes_session=True)

    def _open_session(self) -> Session:
        session = open_session(self.directory)
        session.read_back = ReadBack(settle_s=0, limit_s=0)
        return session

    def _write_foreign(self, identifier: Guid, properties: Properties) -> None:
        with closing(self._open_session()) as session:
            write_beside(session, identifier, properties)


def write_beside(session: Session, identifier: Guid, properties: Properties) -> None:
    """Change an object with plain LDAP, as a program beside its store."""
    for entry in list(session.find(session.naming.forest, Equal(tables.OBJECT_GUID, identifier), ["*"])):
        stored_entry = stored_entry_of(entry)
        if stored_entry.type is not None:
            changes = tables.changes_of(stored_entry.type, stored_entry.entry, properties)
            changes.pop(tables.EXACT, None)  # other programs do not know it
            with suppress(DirectoryError):  # the disk is full
                session.modify(entry.dn, changes)


def look_up_everything(
    partition_id: Guid,
    *,
    after: SequenceNumber = MIN,
    up_to: SequenceNumber = MAX,
    enterprise_scope: bool = False,
) -> ops.LookupChanges:
    """Return a look-up of a partition's objects and tombstones.

    A range of numbers may limit the look-up.
    """
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
    """Return a partition's objects and tombstones as changes.

    A range of numbers may limit the changes.
    """
    result = store.look(look_up_everything(partition_id, after=after, up_to=up_to))
    return result.changes if isinstance(result, ops.ChangesFound) else ()


def copy_to(store: SimulatedStore, copy: SimulatedStore) -> None:
    """Copy everything that has a number to another, empty store."""
    state = store.perform(ops.LoadState())
    if not isinstance(state, ops.PersistedState):
        return
    for partition in state.partitions:
        copy.perform(ops.SavePartition(partition=partition))
        result = store.perform(look_up_everything(partition.partition_id))
        changes = result.changes if isinstance(result, ops.ChangesFound) else ()
        copy.perform(ops.ApplyChanges(partition_id=partition.partition_id, changes=changes))
    for neighbor in state.neighbors:
        copy.perform(ops.SaveNeighbor(neighbor=neighbor))
