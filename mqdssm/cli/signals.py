"""SIGTERM and SIGHUP as exceptions, so that commands clean up."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final, Never

SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
EXIT_CODE_BASE: Final = 128
"""Base of the exit code after a signal, as in shells; the number of the signal is added."""


class Terminated(KeyboardInterrupt):
    """Exception for a signal that ends the program; like KeyboardInterrupt it is no `Exception`.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def termination() -> Iterator[None]:
    """Raise `Terminated` in the main thread for signals that would end the program at once.

    Ignored signals stay ignored, as under ``nohup``. After the first signal further ones are ignored, so that
    nothing interrupts the clean-up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # where no signal arrives
        return
    ours = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, _: FrameType | None) -> Never:
        for one in ours:
            signal.signal(one, signal.SIG_IGN)
        raise Terminated(number)

    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
