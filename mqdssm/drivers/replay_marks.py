"""File of message dates that prevents replays after a restart (decision R180).

For each sender the file has a date up to which messages may have been taken. That date is written before a
message behind it is taken, some seconds ahead, so that few messages cost a write.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import locked, write_atomically

LEAD_S: Final = 10
"""Seconds that a date is written ahead: so long a sender may not be heard behind a crash."""
MARKS_MAX: Final = 1000
"""Senders in the file, some 40 KB; beyond it the oldest dates count for all senders."""
_FORMAT: Final = "mqdssm replay marks"


class ReplayMarks:
    """Date for each sender up to which messages may have been accepted, kept in a file; thread-safe.

    Args:
        file: holds the dates; it is made with mode 0600 when the first message is taken.

    Attributes:
        is_new: there was no file: nobody knows what was taken before.
        floor: first date that may be taken, of any sender, in seconds since 1970.

    Raises:
        ConfigError: the file is damaged or cannot be read, or another server has it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: Final = Lock()
        self._held: Final = ExitStack()
        try:
            lock_message = f"{file}: another server has this file: name another one"
            self._held.enter_context(
                locked(file.with_name(f"{file.name}.lock"), wait_s=0, message=lock_message)
            )
            self.is_new: Final = not file.exists()
            self.floor, self._before = (0, {}) if self.is_new else _read(file)
        except OSError as error:
            self._held.close()
            raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
        except ConfigError:
            self._held.close()
            raise
        self._marks: Mapping[str, int] = self._before
        self._latest: dict[str, int] = {}  # of senders whose messages were taken since the start
        self._others = self.floor  # value in the file
        self._now = 0  # time of the newest message that was taken

    def floor_of(self, sender: str) -> int:
        """Return the first date that certainly was not accepted from a sender before the start."""
        return max(self.floor, self._before.get(sender, -1) + 1)

    def cover(self, sender: str, date: int, floor: int, now: float) -> None:
        """Write a date to the file, unless it covers the date already, before the message is accepted.

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
        with self._lock, self._held:
            if self._latest:
                self._write({**self._marks, **self._latest}, self._others)
                self._latest = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, marks: Mapping[str, int], floor: int) -> None:
        newest = sorted(marks.items(), key=lambda item: item[1], reverse=True)
        latest_marks = dict(newest[:MARKS_MAX])
        if len(newest) > MARKS_MAX:
            # a date ahead of the clock is no reason to refuse others: one machine could silence all (R98)
            floor = max(floor, min(newest[MARKS_MAX][1], self._now + LEAD_S) + 1)
        write_atomically(
            self._file, [json.dumps({"format": _FORMAT, "floor": floor, "senders": latest_marks}), "\n"]
        )
        self._marks, self._others = latest_marks, floor
        self._latest = {sender: at for sender, at in self._latest.items() if sender in latest_marks}


def _read(file: Path) -> tuple[int, dict[str, int]]:
    """Read the first date that may be accepted, and the date of each sender.

    Raises:
        OSError: the file cannot be read.
        ConfigError: the file is damaged.
    """
    try:
        content: Any = json.loads(file.read_bytes())
        floor, senders = content["floor"], content["senders"]
        is_good = content["format"] == _FORMAT and all(
            type(value) is int for value in (floor, *senders.values())
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        is_good = False
    if not is_good:
        raise ConfigError(f"{file} is damaged, or no file of replay marks: remove it, or name another file")
    return floor, senders
