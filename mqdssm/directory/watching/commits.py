"""Changes that slapd told of before their transaction was committed: nobody can read them yet.

slapd tells of each operation of a transaction when it is executed, also where the commit fails afterwards. A
change is passed on once what is read is at least as new as what was told, or once the transaction must be
over: something newer can be read, and slapd has one writer at a time (decision W15).
"""

import re
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, GreaterOrEqual, any_of
from mqdssm.directory.watching.hints import Touched
from mqdssm.directory.watching.link import Link

TRANSACTION_S_MAX: Final = 600.0
"""Every transaction is over after so many seconds; slapd needs 176 s for one of 50,000 additions."""
HELD_MAX: Final = 100_000
"""Changes that are held back; of more, only the last one is remembered, and all ids are compared."""
KEY: Final = "entryUUID"
VERSION: Final = "entryCSN"
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 5.0
_COST_FACTOR: Final = 20
"""A pause is at least so many times as long as the searches before it."""
_SEARCH_KEYS: Final = 100
_CSNS: Final = re.compile(r"(?:^|,)csn=([^,]*)")
_TIME_FORMAT: Final = "%Y%m%d%H%M%S"
_TIME_LENGTH: Final = 14


def csns_in(cookie: str) -> tuple[str, ...]:
    """Return the sequence numbers in slapd's cookie, one of each server that is written to."""
    found = _CSNS.search(cookie)
    return tuple(filter(None, found[1].split(";"))) if found else ()


class Commits:
    """Holds changes back until they are committed, or until their transaction is over."""

    def __init__(self, link: Link, base: str) -> None:
        """Hold back nothing.

        Args:
            link: to the server.
            base: the naming context that is watched.
        """
        self._link = link
        self._base = base
        self._new: dict[str, Touched] = {}
        self._held: dict[str, Touched] = {}
        self._covered: tuple[str, ...] = ()
        self._readable: dict[str, str] = {}  # id of a server -> its newest number that was read
        self._since = self._due = 0.0
        self._pause_s = _FIRST_PAUSE_S

    @property
    def is_clear(self) -> bool:
        """True if every change that was told can be read, or will never be made."""
        return not (self._new or self._held or self._covered)

    def tell(self, touched: Iterable[Touched]) -> None:
        """Take changes that the server told of."""
        for one in touched:
            self._held.pop(one.key, None)
            self._new[one.key] = one

    def cover(self, csns: Sequence[str]) -> None:
        """Take sequence numbers whose changes the server will not tell: they may not be committed yet."""
        self._covered = (*self._covered, *csns)
        self._begin(time.monotonic())

    def wait_s(self, longest_s: float) -> float:
        """Return how long nothing has to be looked for, in seconds."""
        if self.is_clear:
            return longest_s
        return min(longest_s, max(0.0, self._due - time.monotonic()))

    def take(self) -> tuple[tuple[Touched, ...], bool]:
        """Return the changes that can be acted on, and True if what was covered is over.

        Raises:
            DirectoryError: the server could not be asked.
        """
        new, self._new = self._new, {}
        free = self._committed(new.values())
        touched = [one for key, one in new.items() if key in free]
        if len(free) < len(new):
            self._held |= {key: one for key, one in new.items() if key not in free}
            self._begin(time.monotonic())
        if not self.is_clear and time.monotonic() >= self._due:
            touched += self._look_again()
        released, is_over = self._release(time.monotonic())
        if len(self._held) > HELD_MAX:
            self.cover([max(one.version for one in self._held.values())])
            self._held.clear()
        return (*touched, *released), is_over

    def _begin(self, now: float) -> None:
        self._since = self._due = now
        self._pause_s = _FIRST_PAUSE_S

    def _look_again(self) -> list[Touched]:
        """Return what can be read now as it was told."""
        began = time.monotonic()
        self._find_newest()  # before anything else is read: what is over then can be read
        free = self._committed(self._held.values())
        ended = time.monotonic()
        self._due = ended + max(self._pause_s, _COST_FACTOR * (ended - began))
        self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)
        return [self._held.pop(key) for key in list(self._held) if key in free]

    def _release(self, now: float) -> tuple[list[Touched], bool]:
        """Return what is over, whatever became of it, and True if what was covered is over."""
        is_late = now - self._since > TRANSACTION_S_MAX
        over = [key for key, one in self._held.items() if is_late or self._is_over(one.version)]
        was_covered = bool(self._covered)
        if is_late or all(map(self._is_over, self._covered)):
            self._covered = ()
        return [self._held.pop(key) for key in over], was_covered and not self._covered

    def _committed(self, touched: Iterable[Touched]) -> set[str]:
        """Return the keys of those that are read as they were told, or newer."""
        told = list(touched)
        versions: dict[str, str] = {}
        for start in range(0, len(told), _SEARCH_KEYS):
            named = any_of(*(Equal(KEY, one.key.encode()) for one in told[start : start + _SEARCH_KEYS]))
            for entry in self._link.find(self._base, named, (KEY, VERSION)):
                key = (entry.first(KEY) or b"").decode(errors="replace").lower()
                versions[key] = self._note(entry)
        return {one.key for one in told if _is_as_told(one, versions.get(one.key))}

    def _find_newest(self) -> None:
        """Look for entries that are newer than what is held back."""
        csns = [*self._covered, *(one.version for one in self._held.values() if one.version)]
        if csns:
            newer = GreaterOrEqual(VERSION, min(csns).encode())
            for entry in self._link.find(self._base, newer, (VERSION,)):
                self._note(entry)

    def _note(self, entry: Entry) -> str:
        """Return the number of an entry that can be read; no transaction before it is going on."""
        csn = (entry.first(VERSION) or b"").decode(errors="replace")
        server = _server_of(csn)
        if _age_s(csn) > -TRANSACTION_S_MAX:  # an imported number of the future says nothing
            self._readable[server] = max(csn, self._readable.get(server, ""))
        return csn

    def _is_over(self, csn: str) -> bool:
        return bool(csn) and (
            self._readable.get(_server_of(csn), "") >= csn or _age_s(csn) > TRANSACTION_S_MAX
        )


def _is_as_told(one: Touched, version: str | None) -> bool:
    if version is None:
        return one.gone
    return bool(one.version) and version >= one.version


def _age_s(csn: str) -> float:
    """Return how long ago a number was given, in seconds, by the clocks of server and watcher."""
    try:
        made = datetime.strptime(csn[:_TIME_LENGTH], _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return 0.0
    return time.time() - made.timestamp()


def _server_of(csn: str) -> str:
    """Return the id of the server that gave a sequence number."""
    return "".join(csn.split("#")[2:3])
