"""Sender of change notifications for `connect(notify=…)`.

The queue manager of this machine sends the messages.
"""

import logging
from collections.abc import Iterable
from typing import Final

from mqdssm.drivers.threads import EventCounts
from mqdssm.drivers.transport import Transport
from mqdssm.engines.notification.sender import messages_of
from mqdssm.engines.notification.settings import SenderSettings
from mqdssm.errors import TransportError
from mqdssm.model.notice import Notice

log: Final = logging.getLogger(__name__)


class Notifier:
    """Client side of [MS-MQCN]; thread-safe if its queue manager is.

    Delivery is not guaranteed: a notification expires after five minutes. A receiver that missed one sees
    the change when it reads its objects anew.

    Args:
        transport: the queue manager that sends.
        settings: how; the sender's identifier must be the queue manager's.

    Attributes:
        counts: messages that were sent, and those that could not be.

    Raises:
        ValueError: the identifier is another one.
    """

    def __init__(self, transport: Transport, settings: SenderSettings) -> None:
        if settings.identifier != transport.identifier:
            raise ValueError(
                f"queue manager {transport.identifier} cannot send notifications of {settings.identifier}"
            )
        self._transport = transport
        self._settings = settings
        self.counts: Final = EventCounts()

    def __call__(self, notice: Notice) -> None:
        """Send Change Notification ([MS-MQCN] 3.3.4.1).

        Raises:
            ValueError: a notice that cannot be told, see `mqdssm.engines.notification.sender.messages_of`.
            TransportError: the queue manager does not take the message.
        """
        self.send((notice,))

    def send(self, notices: Iterable[Notice]) -> None:
        """Send several notices, in as few messages as the protocol version allows.

        Raises:
            ValueError: as `__call__`; those before it are sent.
            TransportError: as `__call__`.
        """
        for notification in messages_of(notices, self._settings):
            try:
                self._transport.send(notification.message, notification.destination)
            except TransportError:
                self.counts.add("not sent")
                raise
            self.counts.add("sent")
            log.debug("notification sent to %s", notification.destination)
