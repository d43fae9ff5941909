"""Session with the global catalog of a forest (decision M73)."""

import threading
from typing import TYPE_CHECKING

from mqdssm.errors import GenericDirectoryError

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


class Forest:
    """Session with a global catalog that is opened on first use; thread-safe."""

    def __init__(self, session: "Session") -> None:
        """Initialize without connecting."""
        self._session = session
        self._lock = threading.Lock()
        self._catalog: Session | None = None
        self._closed = False

    @property
    def catalog(self) -> "Session":
        """Session with the global catalog, for searches in all domains.

        Raises:
            DirectoryNotConnected: no global catalog could be reached.
            GenericDirectoryError: it is one of another forest.
        """
        with self._lock:
            if self._catalog is None:
                self._catalog = type(self._session)(self._session.options.of_catalog)
                if self._closed:
                    self._catalog.close()
            catalog = self._catalog
        ours, theirs = self._session.naming.configuration, catalog.naming.configuration
        if ours != theirs:
            raise GenericDirectoryError(
                f"{catalog.server_url} is the global catalog of another forest: it has {theirs}, not {ours}",
                hint="name a global catalog of this forest with catalog=",
            )
        return catalog

    def close(self) -> None:
        """Close the session with the global catalog permanently."""
        with self._lock:
            self._closed = True
            if self._catalog is not None:
                self._catalog.close()
