"""Watch of the directory that updates the data of a discovery server at once.

If the server does not report changes, or not to this user, the interval of `KnowledgeCache` remains. This is
reported once and tried again at intervals, since the server may be replaced.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Final

from mqdssm.drivers.discovery_knowledge import REFRESH_S, KnowledgeCache
from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.events.facade import Directory
from mqdssm.events.watching.watch import Watch
from mqdssm.model.elements import QueueManager, Site

log: Final = logging.getLogger(__name__)

STOP_WAIT_S: Final = 2.0
"""How long its end is waited for, in seconds: one that cannot reach its server ends with the program."""


class KnowledgeWatch:
    """Passes changes of queue managers and sites to a cache, from a separate thread (decision S17).

    Args:
        directory: the one that is watched, by connections of the watch.
        cache: what is kept true.
        tell: gets a sentence each time that there is another reason why the directory is not watched.
        retry_s: when a watch that failed is tried again, in seconds.
    """

    def __init__(
        self,
        directory: Directory,
        cache: KnowledgeCache,
        *,
        tell: Callable[[str], None] = log.warning,
        retry_s: float = REFRESH_S,
    ) -> None:
        self._directory, self._cache, self._tell, self._retry_s = directory, cache, tell, retry_s
        self._thread = Thread(target=self._run, name="discovery watch", daemon=True)
        self._stopped = Event()
        self._lock = Lock()
        self._watch: Watch | None = None
        self._told = ""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the directory while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            with self._lock:
                if self._watch is not None:
                    self._watch.stop()
            self._thread.join(STOP_WAIT_S)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow()
            except ConfigError as error:  # these options can never work
                self._say(error)
                return
            except MqdssmError as error:
                self._say(error)
                self._stopped.wait(self._retry_s)

    def _follow(self) -> None:
        with self._directory.watch(QueueManager, Site, on_ready=self._on_ready) as watch:
            with self._lock:
                self._watch = watch
                if self._stopped.is_set():
                    return
            for change in watch:
                self._cache.apply(change)

    def _on_ready(self, url: str) -> None:
        """Read the directory again: the watch does not report changes since the last reading."""
        log.info("%s is watched", url)
        self._told = ""
        self._cache.invalidate()

    def _say(self, error: MqdssmError) -> None:
        words = str(error)
        if words != self._told:
            self._told = words
            self._tell(words)
