"""The messages that wait for the timer, and when it runs out ([MS-MQCN] notes <3> and <14>)."""

from typing import Final

from mqdssm.engines.notification.settings import ReceiverSettings
from mqdssm.model.notification import ChangeNotification


class Waiting:
    """Messages in the order in which they came; with too many of them none is kept.

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
        """Let a message of so many octets wait; False: there are too many, and nobody looks at them."""
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
        """Note that the timer is started; when it has to run out, or None where it runs already.

        The note speaks of two cases: more than 14 minutes after the last time one minute is waited for, else
        the rest of 15. They meet at the edge, so that this is the later one of the two.
        """
        if self._is_armed:
            return None
        self._is_armed = True
        settled = now + self._settings.settle_s
        return settled if self._last is None else max(settled, self._last + self._settings.interval_s)

    def take(self, now: float) -> tuple[list[ChangeNotification], bool]:
        """Take all, as the timer has run out; and whether there were too many to look at."""
        messages, too_many = self._messages, self._too_many
        self._messages, self._bytes = [], 0
        self._too_many = self._is_armed = False
        self._last = now
        return messages, too_many
