"""Stores on simulated LDAP directories: the product's store and LDAP client (decision R146)."""

from typing import Final

from mqdssm.directory.recovery import ReadBack
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.ldap.connection import open_session
from mqdssm.testing.ldap.directory import SimulatedDirectory
from mqdssm.testing.simulation.stores import SimulatedStore

ROOT: Final = "dc=example,dc=com"
_WRITTEN_AT_S: Final = 1_700_000_000.0
"""Constant time of all directories' clocks; writes are distinguished by their counts."""


class DirectoryStore(SimulatedStore):
    """An `LdapStore` on a simulated directory.

    Attributes:
        directory: the server.
    """

    def __init__(self) -> None:
        self.directory = SimulatedDirectory(ROOT, lambda: _WRITTEN_AT_S)
        self.disk = self.directory.disk
        super().__init__()

    def open(self) -> LdapStore:
        """Open a store with a session of its own; its containers exist after the first time."""
        session = open_session(self.directory)
        session.read_back = ReadBack(settle_s=0, limit_s=0)
        return LdapStore(session, closes_session=True)
