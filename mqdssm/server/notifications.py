"""Change notifications of a directory server ([MS-MQCN] 3.3.4.1)."""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock
from typing import Final, Self

from mqdssm.drivers.notification.notifier import Notifier
from mqdssm.drivers.notification.watch_feed import LocalReceiver, WatchFeed
from mqdssm.drivers.threads import WorkerThread
from mqdssm.drivers.transport import Transport
from mqdssm.engines.notification.settings import SenderSettings
from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.events.facade import Directory
from mqdssm.events.watching.watch import Watch
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.notification import NotificationVersion

log: Final = logging.getLogger(__name__)

RETRY_S: Final = 30.0
"""Seconds until a watch that failed is tried again."""


class NotificationThread:
    """Watch that notifies the owners of changed objects; a context manager.

    Every write is watched, by replication, too. The state file says which changes were notified, so that
    those during a stop are notified after the next start.

    Args:
        directory: of the server.
        transport: its queue manager.
        version: of the messages.
        state: file of the watch.
        receiver: the server's own one, which is told what the watch sees; None: there is none.
        on_report: called with what an operator should know, once for each reason.

    Attributes:
        problem: why owners are not notified now; empty if they are.
    """

    def __init__(
        self,
        directory: Directory,
        transport: Transport,
        *,
        version: NotificationVersion,
        state: Path,
        receiver: LocalReceiver | None = None,
        on_report: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self._directory, self._state, self._on_report = directory, state, on_report
        notifier = Notifier(transport, SenderSettings(identifier=transport.identifier, version=version))
        self._feed: Final = WatchFeed(directory, receiver=receiver, notifier=notifier)
        self._stopping: Final = Event()
        self._lock: Final = Lock()
        self._watch: Watch | None = None
        self.problem = ""
        self._thread: Final = WorkerThread(self._run, "change notifications")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with self._lock:
            if self._watch is not None:
                self._watch.stop()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (MqdssmError, OSError) as error:  # OSError: the state cannot be written
                problem = str(error) if isinstance(error, MqdssmError) else f"{self._state}: {error.strerror}"
                if problem != self.problem:
                    self.problem = problem
                    self._on_report(f"owners of changed objects are not notified: {problem}")
                if isinstance(error, ConfigError):  # these options can never work
                    return
                self._stopping.wait(RETRY_S)

    def _note_ready(self, url: str) -> None:
        """Note that all that happened before has been told."""
        self.problem = ""
        self._feed.on_ready(url)

    def _follow(self) -> None:
        """Notify owners until the watch is stopped or fails."""
        with self._directory.watch(
            Queue, QueueManager, state=self._state, all_writes=True, on_ready=self._note_ready
        ) as watch:
            with self._lock:
                self._watch = watch
                if self._stopping.is_set():
                    return
            self._feed.run(watch)
