"""Stores on simulated LDAP directories: the product's store and LDAP client (decision R146)."""

from typing import Final

from mqdssm.directory.recovery import ReadBack
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.errors import DirectoryError
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.ldap.connection import open_session
from mqdssm.testing.ldap.directory import SimulatedDirectory
from mqdssm.testing.memory_store.disk import Crash, DiskSpace
from mqdssm.testing.simulation.stores import WatchedStore, crash_after

ROOT: Final = "dc=example,dc=com"
_WRITTEN_AT_S: Final = 1_700_000_000.0
"""Constant time of all directories' clocks; writes are distinguished by their counts."""


class DirectoryStore(WatchedStore):
    """An `LdapStore` whose machine can lose its power around each LDAP write.

    Attributes:
        directory: the server.
        store: the store, as it was opened last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = SimulatedDirectory(ROOT, lambda: _WRITTEN_AT_S)
        self.store = self._opened()

    def _opened(self) -> LdapStore:
        session = open_session(self.directory)
        session.read_back = ReadBack(settle_s=0, limit_s=0)
        return LdapStore(session, closes_session=True)

    @property
    def room(self) -> DiskSpace:
        """Free space on the disk."""
        return self.directory.room

    @room.setter
    def room(self, room: DiskSpace) -> None:
        self.directory.room = room

    def perform(self, operation: Operation) -> Result:
        """Perform an operation."""
        self.forget_after(operation)
        result: Result = self.store.perform(operation)
        return result

    def perform_torn(self, operation: Operation, moments: int) -> None:
        """Perform an operation until a power loss before or after an LDAP write, and reopen the store.

        Args:
            operation: the operation.
            moments: moments before the power loss, two for each write; an operation with fewer is completed.
        """
        self.forget()
        self.directory.on_write = crash_after(moments)
        try:
            self.store.perform(operation)
        except (Crash, DirectoryError):
            pass
        finally:
            self.directory.on_write = None
            self.reopen()

    def reopen(self) -> None:
        """Reopen the store as the next start does; its containers exist, and need no space."""
        self.forget()
        self.store.close()
        self.store = self._opened()
