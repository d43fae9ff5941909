"""Clients that wait for replies of an engine."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Final

from mqdssm.engines.replication.actions import Event
from mqdssm.engines.replication.operations import ObjectOutcome
from mqdssm.model.hresults import Hresult

CLIENTS_MAX: Final = 1000
"""Requests that may be under way at once."""
CLIENT_WAIT_S: Final = 120.0
"""Seconds that a client waits: several times the engine's own limit for a request."""


class ReplyWaiters:
    """Passes requests to an engine and returns its replies to the callers.

    Any thread may use it.

    Args:
        put: takes an event for the engine.
    """

    def __init__(self, put: Callable[[Event], None]) -> None:
        self._put = put
        self._waiting: Final[dict[int, Future[ObjectOutcome]]] = {}
        self._lock: Final = Lock()
        self._last = 0
        self._is_open = True

    def ask(self, make: Callable[[int], Event], timeout_s: float = CLIENT_WAIT_S) -> ObjectOutcome:
        """Pass an event to the engine and wait for its `Reply`.

        Args:
            make: makes the event of its request number.
            timeout_s: how long to wait.

        Returns:
            Status and identifier of the reply. MQDS_NO_RSP_FROM_OWNER where there was none in time: it may
            have been done, or not. MQ_ERROR_SERVICE_NOT_AVAILABLE where nothing was done: too many requests,
            or stopped.
        """
        future: Future[ObjectOutcome] = Future()
        with self._lock:
            if not self._is_open or len(self._waiting) >= CLIENTS_MAX:
                return ObjectOutcome(status=Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE)
            self._last += 1
            request = self._last
            self._waiting[request] = future
        try:
            self._put(make(request))
            return future.result(timeout_s)
        except TimeoutError:
            return ObjectOutcome(status=Hresult.MQDS_NO_RSP_FROM_OWNER)
        finally:
            with self._lock:
                self._waiting.pop(request, None)

    def reply(self, request: int, outcome: ObjectOutcome) -> bool:
        """Pass a reply to its client; False if the client does not wait any more."""
        with self._lock:
            future = self._waiting.pop(request, None)
        if future is not None:
            future.set_result(outcome)
        return future is not None

    def close(self) -> None:
        """End waiting requests with MQDS_NO_RSP_FROM_OWNER and refuse new ones."""
        with self._lock:
            self._is_open = False
            waiting = list(self._waiting)
        for request in waiting:
            self.reply(request, ObjectOutcome(status=Hresult.MQDS_NO_RSP_FROM_OWNER))
