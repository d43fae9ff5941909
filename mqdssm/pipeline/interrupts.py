"""Signals during work in this process: the first signal requests a stop at a safe place."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from mqdssm.pipeline.runner import StopRequest
from mqdssm.pipeline.worker import GRACE_S

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
_Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def deferred(stop: StopRequest) -> Iterator[None]:
    """Let a signal request a stop, and call its handler when the context ends (decision M110).

    A second signal calls its handler at once. The first signal does so after `GRACE_S` seconds. A signal
    without a Python handler keeps its effect. Signals reach the main thread alone, so this does nothing in
    another thread.

    Args:
        stop: set by the first signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = _Waiting(stop)
    try:
        yield
    finally:
        waiting.end()


class _Waiting:
    """Signal handlers that are deferred to the end of a context.

    Args:
        stop: set by the first signal.
    """

    def __init__(self, stop: StopRequest) -> None:
        self._stop = stop
        self._first: int | None = None
        self._timer: threading.Timer | None = None
        self._handlers: dict[int, _Handler] = {}
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._on_signal)

    def end(self) -> None:
        """Restore the handlers, and call the handler of the signal that was received first."""
        handlers = self._put_back()
        if self._first is not None and self._first in handlers:
            handlers[self._first](self._first, None)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._first is None:
            self._first = number
            self._stop.set()
            self._timer = threading.Timer(GRACE_S, self._insist, [number])
            self._timer.daemon = True
            self._timer.start()
            return
        handlers = self._put_back()
        if number in handlers:
            handlers[number](number, frame)

    def _insist(self, number: int) -> None:
        """Send the signal again, so that it also interrupts a system call of the main thread."""
        main = threading.main_thread().ident
        if not self._handlers or main is None:
            return
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, number)
        else:
            signal.raise_signal(number)

    def _put_back(self) -> dict[int, _Handler]:
        """Restore the handlers and return them; an empty dictionary if that was done before."""
        if self._timer is not None:
            self._timer.cancel()
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return handlers
