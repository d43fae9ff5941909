"""Interface of a queue manager for programs, for any network.

See [MS-MQDMPR] 3.1.7.1.

Implementation: `mqdssm.drivers.queue_manager.local_queue_manager.LocalQueueManager`.
Any thread may call every method.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

from mqdssm.drivers.authentication.keyring import TrustedSender
from mqdssm.model.frozen_records import give_quick_init
from mqdssm.model.guid import Guid
from mqdssm.model.names import FormatName
from mqdssm.model.transport import (
    NOTIFICATION_QUEUE,
    NOTIFICATION_QUEUE_NUMBER,
    REPLICATION_QUEUE,
    REPLICATION_QUEUE_NUMBER,
    Message,
    MessageId,
)

QUEUE_MESSAGES_MAX: Final = 10_000
"""Default maximum of messages in a queue: minutes of work for a directory server."""
QUEUE_BYTES_MAX: Final = 64 << 20
"""Default maximum octets of messages in a queue: sixteen of the longest messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """Private queue of the local queue manager ([MS-MQDMPR] 3.1.1.2).

    Attributes:
        name: as in its path name, without ``private$``.
        number: PrivateQueueNumber.
        authenticated: only messages with a good signature get in, besides acknowledgements, which have none.
        messages_max: how many messages it holds; more are refused with NackQueueExceedQuota.
        bytes_max: how many octets (`Message.octets`) it holds; likewise.
    """

    name: str
    number: int
    authenticated: bool = False
    messages_max: int = QUEUE_MESSAGES_MAX
    bytes_max: int = QUEUE_BYTES_MAX


REPLICATION: Final = LocalQueue(name=REPLICATION_QUEUE, number=REPLICATION_QUEUE_NUMBER, authenticated=True)
"""The replication queue; unsigned messages are refused ([MC-MQDSRP] 3.1.7.2.1, decision R17)."""
NOTIFICATION: Final = LocalQueue(name=NOTIFICATION_QUEUE, number=NOTIFICATION_QUEUE_NUMBER)
"""The notification queue ([MS-MQCN] 1.9)."""


@give_quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Received message.

    Attributes:
        message: it; `authentication_level` says how its signature was found good.
        sender: whose signature it is; None where the level is NONE.
        octets: of the message (`Message.octets`), counted once.
    """

    message: Message
    sender: TrustedSender | None
    octets: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Count the octets."""
        object.__setattr__(self, "octets", self.message.octets)


class Inbox(Protocol):
    """Queue that is open for receiving."""

    @property
    def is_closed(self) -> bool:
        """True if the queue is closed for receiving."""

    def receive(self, timeout_s: float) -> Arrival | None:
        """Take the first message, by priority and arrival ([MS-MQDMPR] 3.1.7.1.10).

        Returns:
            None after `timeout_s` without one, or at once when the queue is closed.
        """

    def purge(self) -> None:
        """Remove all messages; senders receive NackQueuePurged if they asked for it."""

    def close(self) -> None:
        """Close the queue for receiving.

        Waiting calls of `receive` return None, messages stay queued.
        """


class Transport(Protocol):
    """Queue manager."""

    @property
    def machine_name(self) -> str:
        """QueueManager.ComputerName."""

    @property
    def identifier(self) -> Guid:
        """QueueManager.Identifier."""

    def open(self, queue: LocalQueue) -> Inbox:
        """Open a local queue for receiving; create it if necessary.

        See [MS-MQDMPR] 3.1.7.1.5.

        Raises:
            ValueError: its number or name is another queue's, or it wants signatures that nobody verifies.
            TransportError: the queue manager is closed.
        """

    def send(self, message: Message, destination: FormatName) -> MessageId:
        """Accept a message for a queue.

        Messages are sent later, in the order of priorities.

        The queue manager sets its identifier, time and destination, and signs it where its
        AuthenticationLevel says so. Acknowledgements report the delivery, if the message asks for them.

        Raises:
            ValueError: a format name that nothing can be sent to from here, or that cannot be signed.
            TransportError: not taken: closed, too many messages wait already, or there is no key.
        """

    def close(self) -> None:
        """Stop the queue manager.

        Messages that wait for other machines are lost (Express).

        Raises:
            Exception: the defect that had stopped it already; once.
        """
