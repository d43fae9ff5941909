"""Numbers of a queue manager's messages ([MS-MQQB] 3.1.1.3.2).

None is repeated after a restart.

Peers drop a message whose number they have had as a duplicate. The file has the first number that was never
reserved. Numbers are reserved in blocks ahead of their use, so that few messages cost a write (decision T40).
"""

import logging
from contextlib import closing
from pathlib import Path
from secrets import randbits
from threading import Lock
from typing import Any, Final, Self

from mqdssm.errors import ConfigError, TransportError
from mqdssm.events.durable_files import LockedDocument
from mqdssm.model.closeable import Closeable

log: Final = logging.getLogger(__name__)

BLOCK: Final = 10_000
"""Numbers that are reserved by one write: so many are left out behind a crash."""
_AHEAD: Final = BLOCK // 4
"""Number of reserved numbers below which more are reserved."""
_MODULUS: Final = 1 << 32  # MessageID has 32 bits: the first number follows the last one


class MessageNumbers(Closeable):
    """Iterator of MessageIdOrdinal, kept in a file; thread-safe.

    A new file begins with a random number: where the old one was lost, peers do not know it (decision T40).

    Args:
        file: holds the number; it is made with mode 0600.

    Attributes:
        problem: why no more numbers could be reserved, and how many are left; empty if they could.

    Raises:
        ConfigError: the file is damaged, cannot be read or written, or another queue manager has it.
    """

    def __init__(self, file: Path) -> None:
        self._lock: Final = Lock()
        self._is_closed = False
        self.problem = ""
        self._document: Final = LockedDocument(
            file, title="message numbers", owner="queue manager", parse=_parse_number
        )
        content = self._document.content
        self._next = randbits(32) if content is None else content
        self._reserved = 0
        try:
            self._reserve()
        except ConfigError:
            self._document.close()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        """Return the next number, of 32 bits.

        Raises:
            TransportError: the file cannot be written, and all reserved numbers are used; or it is closed.
        """
        with self._lock:
            if self._is_closed:  # the file may be another queue manager's by now
                raise TransportError("no message can be sent: the file of message numbers is closed")
            if self._reserved <= _AHEAD:
                self._try_to_reserve()
            self._reserved -= 1
            number, self._next = self._next, (self._next + 1) % _MODULUS
            return number

    def close(self) -> None:
        """Give the reserved numbers back, and unlock the file for other queue managers.

        Raises:
            ConfigError: the file cannot be written; it is safe as it is.
        """
        with self._lock, closing(self._document):
            if not self._is_closed:
                self._is_closed, self._reserved = True, 0
                self._write(self._next)

    def _try_to_reserve(self) -> None:
        try:
            self._reserve()
        except ConfigError as error:
            is_new, number = not self.problem, self._reserved
            left = f"{number} more messages can be sent" if number else "no message can be sent"
            self.problem = f"{left}: {error}"
            if not number:
                raise TransportError(self.problem) from error
            if is_new:
                log.warning("%s", self.problem)
        else:
            self.problem = ""

    def _reserve(self) -> None:
        self._write(self._next + BLOCK)
        self._reserved = BLOCK

    def _write(self, first: int) -> None:
        self._document.write(next=first % _MODULUS)


def _parse_number(document: Any) -> int:
    number: Any = document["next"]
    if type(number) is not int or not 0 <= number < _MODULUS:
        raise ValueError
    return number
