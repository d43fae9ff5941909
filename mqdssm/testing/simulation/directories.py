"""Stores on simulated LDAP directories: the store that ships, with our own LDAP client (decision R146)."""

from typing import Final

from mqdssm.directory.recovery import ReadBack
from mqdssm.engines.replication.operations import (
    HasObjects,
    ListObjects,
    LookupChanges,
    Operation,
    ReadObject,
    RemoveNeighbor,
    Result,
    SaveNeighbor,
    SavePartition,
)
from mqdssm.errors import DirectoryError
from mqdssm.store.disk import Crash, Room
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.ldap.connection import open_session
from mqdssm.testing.ldap.directory import SimulatedDirectory
from mqdssm.testing.simulation.stores import crash_after

ROOT: Final = "dc=example,dc=com"
_WRITTEN_AT_S: Final = 1_700_000_000.0
"""What the clocks of all directories show: writes are told apart by their counts."""
_READING: Final = (ReadObject, ListObjects, LookupChanges, HasObjects)
_STATE: Final = (SavePartition, SaveNeighbor, RemoveNeighbor)
"""Operations that write no objects, but the number up to which is purged."""


class DirectoryStore:
    """An `LdapStore` whose machine can lose its power around each LDAP write.

    Attributes:
        directory: the server.
        store: the store, as it was opened last.
    """

    def __init__(self) -> None:
        self.directory = SimulatedDirectory(ROOT, lambda: _WRITTEN_AT_S)
        self.store = self._opened()
        self._seen: dict[Operation, Result] = {}

    def _opened(self) -> LdapStore:
        session = open_session(self.directory)
        session.read_back = ReadBack(settle_s=0, limit_s=0)
        return LdapStore(session, closes_session=True)

    @property
    def room(self) -> Room:
        """How much its disk takes."""
        return self.directory.room

    @room.setter
    def room(self, room: Room) -> None:
        self.directory.room = room

    def perform(self, operation: Operation) -> Result:
        """Perform an operation."""
        self._forget(operation)
        result: Result = self.store.perform(operation)
        return result

    def look(self, operation: Operation) -> Result:
        """Perform a reading operation for the checks; its result stays while nobody writes."""
        seen = self._seen.get(operation)
        if seen is None:
            seen = self._seen[operation] = self.perform(operation)
        return seen

    def _forget(self, operation: Operation) -> None:
        """Forget what an operation may change."""
        if isinstance(operation, _STATE):
            self._seen = {one: seen for one, seen in self._seen.items() if not isinstance(one, LookupChanges)}
        elif not isinstance(operation, _READING):
            self._seen.clear()

    def perform_torn(self, operation: Operation, moments: int) -> None:
        """Perform an operation up to a moment around an LDAP write, and open the store anew.

        Args:
            operation: the operation.
            moments: there are two around each write; if it has fewer, it is done whole.
        """
        self._seen.clear()
        self.directory.on_write = crash_after(moments)
        try:
            self.store.perform(operation)
        except (Crash, DirectoryError):
            pass
        finally:
            self.directory.on_write = None
            self.reopen()

    def reopen(self) -> None:
        """Open the store as the next start does; its containers are there, and need no room."""
        self._seen.clear()
        self.store.close()
        self.store = self._opened()
