"""Messages that wait for the timer, and the time at which it runs out ([MS-MQCN] notes <3> and <14>)."""

from typing import Final

from mqdssm.engines.notification.settings import ReceiverSettings
from mqdssm.model.notification import ChangeNotification


class Waiting:
    """Queue of messages in order of arrival; after too many of them none is kept.

    Args:
        settings: the limits.
    """

    def __init__(self, settings: ReceiverSettings) -> None:
        self._settings: Final = settings
        self._messages: list[ChangeNotification] = []
        self._bytes = 0
        self._too_many = False
        self._is_armed = False
        self._last: float | None = None

    def add(self, message: ChangeNotification, size: int) -> bool:
        """Add a message of this many octets; return False if there are too many to keep."""
        if self._too_many:
            return False
        self._messages.append(message)
        self._bytes += size
        settings = self._settings
        self._too_many = (
            len(self._messages) >= settings.messages_max or self._bytes > settings.waiting_bytes_max
        )
        if self._too_many:
            self._messages.clear()
        return not self._too_many

    def arm(self, now: float) -> float | None:
        """Mark the timer as started; return when it must run out, or None if it is running already.

        The note has two cases: more than 14 minutes after the last time the wait is one minute, else the rest
        of 15 minutes. The two meet at that limit, so that the time is the later one of both.
        """
        if self._is_armed:
            return None
        self._is_armed = True
        settled = now + self._settings.settle_s
        return settled if self._last is None else max(settled, self._last + self._settings.interval_s)

    def take(self, now: float) -> tuple[list[ChangeNotification], bool]:
        """Return all messages and remove them; the second value is True if there were too many to keep."""
        messages, too_many = self._messages, self._too_many
        self._messages, self._bytes = [], 0
        self._too_many = self._is_armed = False
        self._last = now
        return messages, too_many
