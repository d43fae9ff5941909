"""End of a long-running command by SIGINT or SIGTERM, also while it is blocked."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

GRACE_S: Final = 2.0
"""Seconds in which the command has to end by itself: standard output or a server may be blocked."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """State of a command that a signal can end.

    Args:
        grace_s: seconds in which the command has to end by itself.
    """

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._asked, self._over = threading.Event(), threading.Event()
        self._stop: Callable[[], None] | None = None

    @property
    def is_asked(self) -> bool:
        """True after a signal."""
        return self._asked.is_set()

    def on_signal(self, stop: Callable[[], None]) -> None:
        """Register a function to call on a signal; it is called at once after a signal."""
        self._stop = stop
        if self.is_asked:
            stop()

    def rest(self, seconds: float) -> bool:
        """Wait for some seconds; return False after a signal."""
        return not self._asked.wait(seconds)

    def note_end(self) -> None:
        """Record that the command ended by itself."""
        self._over.set()

    def listen(self, signals: socket.socket) -> None:
        """Wait for a signal, and exit the program after the time of grace at the latest."""
        with signals:
            while number := signals.recv(1):
                if number[0] in _SIGNALS:
                    break
            else:
                return
        self._asked.set()
        if self._stop is not None:
            self._stop()
        if not self._over.wait(self._grace_s):
            os._exit(0)  # as after SIGKILL nothing is lost: what was not written does not count as told


@contextmanager
def end_on_signals(grace_s: float = GRACE_S) -> Iterator[Ending]:
    """Let SIGINT and SIGTERM end the block, with exit code 0.

    A thread receives the signals, since a blocked write never returns to the interpreter.
    """
    end = Ending(grace_s)
    if threading.current_thread() is not threading.main_thread():
        yield end  # signals are another one's
        return
    here, write_socket = socket.socketpair()
    write_socket.setblocking(False)
    thread = threading.Thread(target=end.listen, args=(here,), name="signals", daemon=True)
    thread.start()
    woken = signal.set_wakeup_fd(write_socket.fileno(), warn_on_full_buffer=False)
    before = [(signal_number, signal.signal(signal_number, lambda *_: None)) for signal_number in _SIGNALS]
    try:
        yield end
    finally:
        end.note_end()
        for number, handler in before:
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        write_socket.close()  # ends the thread
        thread.join()
