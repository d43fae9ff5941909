"""SIGINT and SIGTERM end a command that runs for long: in good order, or soon, whatever it waits for."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

GRACE_S: Final = 2.0
"""Seconds that the command has to end by itself: standard output, or a server, may be blocked."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """The end of a command, which a signal asks for."""

    def __init__(self) -> None:
        self._asked, self._over = threading.Event(), threading.Event()
        self._stop: Callable[[], None] | None = None

    @property
    def is_asked(self) -> bool:
        """True once a signal came."""
        return self._asked.is_set()

    def stops(self, stop: Callable[[], None]) -> None:
        """Have a function called when a signal comes, or now where one came already."""
        self._stop = stop
        if self.is_asked:
            stop()

    def rest(self, seconds: float) -> bool:
        """Wait; False if the end is asked for."""
        return not self._asked.wait(seconds)

    def over(self) -> None:
        """Note that the command ended by itself."""
        self._over.set()

    def listen(self, signals: socket.socket) -> None:
        """Wait for a signal, then for the end; end the program where none comes."""
        with signals:
            while number := signals.recv(1):
                if number[0] in _SIGNALS:
                    break
            else:
                return
        self._asked.set()
        if self._stop is not None:
            self._stop()
        if not self._over.wait(GRACE_S):
            os._exit(0)  # as after SIGKILL nothing is lost: what was not written does not count as told


@contextmanager
def ending() -> Iterator[Ending]:
    """Let SIGINT and SIGTERM end what is in the block, with exit code 0.

    A thread hears of them, since a write that is blocked never returns to the interpreter.
    """
    end = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield end  # signals are another one's
        return
    here, there = socket.socketpair()
    there.setblocking(False)
    thread = threading.Thread(target=end.listen, args=(here,), name="signals", daemon=True)
    thread.start()
    woken = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
    before = [(one, signal.signal(one, lambda *_: None)) for one in _SIGNALS]
    try:
        yield end
    finally:
        end.over()
        for one, handler in before:
            signal.signal(one, handler)
        signal.set_wakeup_fd(woken)
        there.close()  # ends the thread
        thread.join()
