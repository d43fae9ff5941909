"""File of message dates that prevents replays after a restart (decision R180).

For each sender the file has a date up to which messages may have been taken. That date is written before a
message behind it is taken, some seconds ahead, so that few messages cost a write.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, Final

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import LockedDocument
from mqdssm.model.closeable import Closeable

LEAD_S: Final = 2
"""Seconds that a date is written ahead: so long a sender may not be heard behind a crash.

Clients give up after ten seconds (`REQUEST_TIMEOUT_S`): a reply to a server
that is back has to count in time.
"""
MARKS_MAX: Final = 1000
"""Senders in the file, some 40 KB; beyond it the oldest dates count for all senders."""


class ReplayMarks(Closeable):
    """Latest possible date of accepted messages of each sender; thread-safe.

    The dates are kept in a file.

    Args:
        file: holds the dates; it is made with mode 0600 when the first message is taken.

    Attributes:
        is_new: there was no file: nobody knows what was taken before.
        problem: why the file could not be written the last time; empty if it was.
        floor: first date that may be taken, of any sender, in seconds since 1970.

    Raises:
        ConfigError: the file is damaged or cannot be read, or another server has it.
    """

    def __init__(self, file: Path) -> None:
        self._lock: Final = Lock()
        self._document: Final = LockedDocument(file, title="replay marks", owner="server", parse=_parse_dates)
        self.is_new: Final = self._document.content is None
        self.floor, self._before = self._document.content or (0, {})
        self._marks: Mapping[str, int] = self._before
        self._latest: dict[str, int] = {}  # of senders whose messages were taken since the start
        self._others = self.floor  # value in the file
        self.problem = ""
        self._now = 0  # time of the newest message that was taken

    def floor_of(self, sender: str) -> int:
        """Return a sender's first date that was not accepted before the start."""
        return max(self.floor, self._before.get(sender, -1) + 1)

    def cover(self, sender: str, date: int, floor: int, now: float) -> None:
        """Write a date to the file before the message is accepted.

        Nothing is written if the file covers the date already.

        Args:
            sender: who signed the message.
            date: of the message, seconds since 1970.
            floor: as `ReplayMarks.floor`, where the file is new.
            now: seconds since 1970.

        Raises:
            ConfigError: the file cannot be written: the message may not be taken.
        """
        with self._lock:
            self._now = int(now)
            latest = max(date, self._latest.get(sender, date))
            if date > self._marks.get(sender, -1):
                # senders whose dates are almost reached share a write
                dates = {**self._latest, sender: latest}.items()
                due = {key: at + LEAD_S for key, at in dates if at > self._marks.get(key, -1) - LEAD_S // 2}
                self._write({**self._marks, **due}, max(self._others, floor if self.is_new else 0))
            self._latest[sender] = latest

    def close(self) -> None:
        """Write the exact dates and unlock the file for other servers.

        Raises:
            ConfigError: the file cannot be written; it is safe as it is.
        """
        with self._lock, closing(self._document):
            if self._latest:
                self._write({**self._marks, **self._latest}, self._others)
                self._latest = {}

    def _write(self, marks: Mapping[str, int], floor: int) -> None:
        newest = sorted(marks.items(), key=lambda item: item[1], reverse=True)
        latest_marks = dict(newest[:MARKS_MAX])
        if len(newest) > MARKS_MAX:
            # a date ahead of the clock is no reason to refuse others: one machine could silence all (R98)
            floor = max(floor, min(newest[MARKS_MAX][1], self._now + LEAD_S) + 1)
        try:
            self._document.write(floor=floor, senders=latest_marks)
        except ConfigError as error:
            self.problem = str(error)
            raise
        self.problem = ""
        self._marks, self._others = latest_marks, floor
        self._latest = {sender: at for sender, at in self._latest.items() if sender in latest_marks}


def _parse_dates(document: Any) -> tuple[int, dict[str, int]]:
    floor, senders = document["floor"], document["senders"]
    if not all(type(date) is int for date in (floor, *senders.values())):
        raise ValueError
    return floor, senders
