"""Reports to systemd, which may have started the server (sd_notify(3))."""

import logging
import os
import socket
import time
from collections.abc import Callable
from threading import Event
from typing import Final

log: Final = logging.getLogger(__name__)

REPORTS: Final = 3
"""Reports in the time that the watchdog of systemd allows between two."""


def notify_manager(state: str) -> None:
    """Report the state of this process to systemd.

    Nothing is done if systemd has not started it.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            manager.connect("\0" + address[1:] if address.startswith("@") else address)
            manager.send(state.encode())
        except OSError as error:
            log.warning("systemd cannot be told %s: %s", state, error)


class Watchdog:
    """Reports to systemd that threads work (WATCHDOG=1).

    Each report comes after the threads have proved it. One that hangs proves nothing: then no report is sent,
    and systemd restarts the service (decisions T155, T161).

    Args:
        probe: asks the threads to call a function.
        interval_s: seconds between two reports.
        clock: monotonic seconds.

    Attributes:
        interval_s: seconds between two reports.
    """

    def __init__(
        self,
        probe: Callable[[Callable[[], object]], object],
        interval_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interval_s: Final = interval_s
        self._probe, self._clock = probe, clock
        self._is_proved: Final = Event()
        self._is_asked = False  # while a probe has not been reported
        self._reported_at: float | None = None

    @classmethod
    def of_environment(cls, probe: Callable[[Callable[[], object]], object]) -> "Watchdog | None":
        """Return the watchdog that systemd wants; None if it wants none.

        See sd_watchdog_enabled(3).
        """
        microseconds, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID")
        if not microseconds.isdecimal() or int(microseconds) == 0 or pid not in {None, str(os.getpid())}:
            return None
        return cls(probe, int(microseconds) / 1e6 / REPORTS)

    def turn(self) -> None:
        """Report the proof that has come, and ask for the next one when it is time.

        Call it at least twice in each interval.
        """
        now = self._clock()
        if self._is_asked and self._is_proved.is_set():
            self._is_asked, self._reported_at = False, now
            notify_manager("WATCHDOG=1")
        is_due = self._reported_at is None or now >= self._reported_at + self.interval_s
        if not self._is_asked and is_due:
            self._is_proved.clear()
            self._is_asked = True
            self._probe(self._is_proved.set)
