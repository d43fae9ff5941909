"""Changes that slapd reports before their transaction is committed.

slapd reports each operation of a transaction when it is executed, even if the commit fails later. A change is
passed on once the entry that is read is as new as reported, or once the transaction must be over: a newer
entry can be read, and slapd has one writer at a time (decision W15).

slapd makes sequence numbers from its clock, and they go back with it. A change whose number is older than one
that was given before is compared with nothing but itself, and waits for the time of a transaction otherwise.
How long it waits is measured by the watcher's monotonic clock.
"""

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, GreaterOrEqual, any_of
from mqdssm.directory.watching.hints import TouchedEntry
from mqdssm.directory.watching.link import Link

TRANSACTION_S_MAX: Final = 600.0
"""Maximum seconds of a transaction; slapd needs 176 s for 50,000 additions."""
HELD_MAX: Final = 100_000
"""Maximum changes held back; beyond it only the newest number is kept, and all ids are compared."""
KEY: Final = "entryUUID"
VERSION: Final = "entryCSN"
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 5.0
_COST_FACTOR: Final = 20
"""Minimum ratio of a pause to the searches before it."""
_SEARCH_KEYS: Final = 100
_CSNS: Final = re.compile(r"(?:^|,)csn=([^,]*)")
_TIME_FORMAT: Final = "%Y%m%d%H%M%S"
_TIME_LENGTH: Final = 14


def find_csns(cookie: str) -> tuple[str, ...]:
    """Return the sequence numbers in slapd's cookie.

    There is one for each server that accepts writes.
    """
    match = _CSNS.search(cookie)
    return tuple(filter(None, match[1].split(";"))) if match else ()


@dataclass(frozen=True, slots=True)
class _HintedChange:
    """Change that the server reported.

    Attributes:
        touched: the change.
        since: when the first change of this entry was told that still waits, by the monotonic clock.
        is_behind: the server gave a newer number before this one: its clock was set back.
    """

    touched: TouchedEntry
    since: float
    is_behind: bool

    def is_committed(self, version: str | None) -> bool:
        """Return True if an entry with this number is as new as reported, or newer.

        The number is None if the entry has none.
        """
        if version is None:
            return self.touched.gone
        if self.is_behind or _is_far_ahead(version, self.touched.version):
            return version == self.touched.version
        return bool(self.touched.version) and version >= self.touched.version


class Commits:
    """Holds changes back until they are committed or their transaction is over."""

    def __init__(self, link: Link, base: str) -> None:
        """Initialize without changes.

        Args:
            link: to the server.
            base: the naming context that is watched.
        """
        self._link = link
        self._base = base
        self._new: dict[str, _HintedChange] = {}
        self._held_changes: dict[str, _HintedChange] = {}
        self._covered: dict[str, float] = {}  # number -> since when it waits; empty: of several servers
        self._given: dict[str, str] = {}  # id of a server -> the newest number that it gave
        self._readable: dict[str, str] = {}  # id of a server -> its newest number that was read
        self._due = 0.0
        self._pause_s = _FIRST_PAUSE_S

    @property
    def is_clear(self) -> bool:
        """True if every reported change can be read, or was never committed."""
        return not (self._new or self._held_changes or self._covered)

    def tell(self, touched: Iterable[TouchedEntry]) -> None:
        """Take reported changes."""
        now = time.monotonic()
        for change in touched:
            before = self._held_changes.pop(change.key, None) or self._new.get(change.key)
            is_behind = self._give(change.version)
            self._new[change.key] = _HintedChange(change, now if before is None else before.since, is_behind)

    def cover(self, csns: Sequence[str], known_csns: Sequence[str] = ()) -> None:
        """Take sequence numbers from the server.

        Args:
            csns: whose changes it will not tell: they may not be committed yet.
            known_csns: whose changes are known.
        """
        now = time.monotonic()
        for csn in (*csns, *known_csns):
            self._give(csn)
        self._covered |= dict.fromkeys(csns, now)
        self._begin(now)

    def _give(self, csn: str) -> bool:
        """Record a number from a server.

        Returns True if the server gave a newer one before.
        """
        server = _server_of(csn)
        newest = self._given.get(server, "")
        self._given[server] = max(csn, newest)
        return bool(csn) and csn < newest

    def wait_s(self, longest_s: float) -> float:
        """Return the seconds until the next search is due, at most `longest_s`."""
        if self.is_clear:
            return longest_s
        return min(longest_s, max(0.0, self._due - time.monotonic()))

    def take(self) -> tuple[tuple[TouchedEntry, ...], bool]:
        """Return the changes that can be acted on.

        Also returns True if all covered transactions are over.

        Raises:
            DirectoryError: the server could not be asked.
        """
        new, self._new = self._new, {}
        free = self._find_committed(new.values())
        touched = [held_change.touched for key, held_change in new.items() if key in free]
        if len(free) < len(new):
            self._held_changes |= {key: held_change for key, held_change in new.items() if key not in free}
            self._begin(time.monotonic())
        if not self.is_clear and time.monotonic() >= self._due:
            touched += self._look_again()
        released, is_over = self._release(time.monotonic())
        if len(self._held_changes) > HELD_MAX:
            is_behind = any(held_change.is_behind for held_change in self._held_changes.values())
            self.cover(
                [
                    ""
                    if is_behind
                    else max(held_change.touched.version for held_change in self._held_changes.values())
                ]
            )
            self._held_changes.clear()
        return (*touched, *released), is_over

    def _begin(self, now: float) -> None:
        self._due = now
        self._pause_s = _FIRST_PAUSE_S

    def _look_again(self) -> list[TouchedEntry]:
        """Search again and return the changes that can be read now."""
        began = time.monotonic()
        self._find_newest()  # first: transactions that are over then can be read below
        free = self._find_committed(self._held_changes.values())
        ended = time.monotonic()
        self._due = ended + max(self._pause_s, _COST_FACTOR * (ended - began))
        self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)
        return [self._held_changes.pop(key).touched for key in list(self._held_changes) if key in free]

    def _release(self, now: float) -> tuple[list[TouchedEntry], bool]:
        """Return the changes whose transaction is over.

        Also returns True if all covered transactions are over.
        """
        began = now - TRANSACTION_S_MAX
        over = [
            key
            for key, held_change in self._held_changes.items()
            if held_change.since < began
            or (not held_change.is_behind and self._is_over(held_change.touched.version))
        ]
        was_covered = bool(self._covered)
        # A number of long ago is over at once. Where the server's clock is that much behind, a transaction
        # that goes on while somebody connects is found by the next comparison of ids.
        if all(
            since < began or self._is_over(csn) or _is_long_ago(csn) for csn, since in self._covered.items()
        ):
            self._covered = {}
        return [self._held_changes.pop(key).touched for key in over], was_covered and not self._covered

    def _find_committed(self, changes: Iterable[_HintedChange]) -> set[str]:
        """Return the keys of the changes that can be read, as reported or newer."""
        by_key = {change.touched.key: change for change in changes}
        keys = list(by_key)
        versions: dict[str, str] = {}
        for start in range(0, len(keys), _SEARCH_KEYS):
            named = any_of(*(Equal(KEY, key.encode()) for key in keys[start : start + _SEARCH_KEYS]))
            for entry in self._link.find(self._base, named, (KEY, VERSION)):
                key = (entry.first(KEY) or b"").decode(errors="replace").lower()
                versions[key] = self._note(entry)
        return {key for key, change in by_key.items() if change.is_committed(versions.get(key))}

    def _find_newest(self) -> None:
        """Search entries that are newer than the changes held back."""
        csns = list(
            filter(
                None,
                (
                    *self._covered,
                    *(held_change.touched.version for held_change in self._held_changes.values()),
                ),
            )
        )
        if csns:
            newer = GreaterOrEqual(VERSION, min(csns).encode())
            for entry in self._link.find(self._base, newer, (VERSION,)):
                self._note(entry)

    def _note(self, entry: Entry) -> str:
        """Record and return the sequence number of an entry that was read."""
        csn = (entry.first(VERSION) or b"").decode(errors="replace")
        server = _server_of(csn)
        newest_given = self._given.get(server)
        if newest_given and not _is_far_ahead(csn, newest_given):
            self._readable[server] = max(csn, self._readable.get(server, ""))
        return csn

    def _is_over(self, csn: str) -> bool:
        """Return True if a number of the same server can be read that is not older."""
        return bool(csn) and self._readable.get(_server_of(csn), "") >= csn


def _is_far_ahead(csn: str, reference: str) -> bool:
    """Return True if a number is so far ahead of a given one that it was imported.

    An imported number proves nothing.
    """
    written, before = _time_of(csn), _time_of(reference)
    return written is not None and before is not None and written - before > TRANSACTION_S_MAX


def _is_long_ago(csn: str) -> bool:
    """Return True if a number is older than the longest transaction.

    The clocks of server and watcher decide.
    """
    written = _time_of(csn)
    return written is not None and time.time() - written > TRANSACTION_S_MAX


def _time_of(csn: str) -> float | None:
    """Return the time of a number in seconds since 1970, by the server's clock.

    None if it has none.
    """
    try:
        return datetime.strptime(csn[:_TIME_LENGTH], _TIME_FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _server_of(csn: str) -> str:
    """Return the id of the server that gave a sequence number."""
    return "".join(csn.split("#")[2:3])
