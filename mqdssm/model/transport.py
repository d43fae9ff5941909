r"""Messages of queue managers, and the queues of our protocols.

See [MS-MQDMPR] 3.1.1.12.
Attributes have the specification's names in Python's spelling, and its defaults. Attributes that none of our
protocols sets or reads (transactions, tracing, encryption, dead-letter queues) are left out.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from mqdssm.model.frozen_records import give_quick_init, make_copier
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import DirectFormatName, DirectProtocol, FormatName, PathKind, PrivateFormatName

INFINITE: Final = 0xFFFF_FFFF
"""A time in seconds without an end ([MS-MQQB] 2.2, BaseHeader)."""
TIME_TO_REACH_QUEUE_S: Final = 345_600
"""Default time to reach the queue: four days ([MS-MQDMPR] 3.1.1.12)."""
PRIORITY_MAX: Final = 7
DEFAULT_PRIORITY: Final = 3
LABEL_CHARS_MAX: Final = 249
"""Longest label, in UTF-16 code units; a NUL follows it on the wire ([MS-MQMQ] 2.2.19.3)."""
BODY_BYTES_MAX: Final = 4 << 20
"""Largest packet, 4 MiB ([MS-MQMQ] 2.2.19.1, PacketSize)."""

REPLICATION_QUEUE: Final = "mqis_queue$"
"""Name of the private queue for directory replication ([MC-MQDSRP] 1.9)."""
REPLICATION_QUEUE_NUMBER: Final = 1
"""Number of the queue for directory replication ([MC-MQDSRP] 1.9)."""
NOTIFICATION_QUEUE: Final = "notify_queue$"
"""Name of the private queue for change notifications ([MS-MQCN] 1.9)."""
NOTIFICATION_QUEUE_NUMBER: Final = 3
"""Number of the queue for change notifications ([MS-MQCN] 1.9)."""


class MessageClass(IntEnum):
    """Message.Class, by its number on the wire ([MS-MQMQ] 2.2.18.1.6).

    Applications may use other numbers.
    """

    NORMAL = 0x0000
    REPORT = 0x0001
    ACK_REACH_QUEUE = 0x0002
    ORDER_ACK = 0x00FF
    ACK_RECEIVE = 0x4000
    NACK_BAD_DEST_QUEUE = 0x8000
    NACK_PURGED = 0x8001
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    NACK_QUEUE_EXCEED_QUOTA = 0x8003
    NACK_ACCESS_DENIED = 0x8004
    NACK_HOP_COUNT_EXCEEDED = 0x8005
    NACK_BAD_SIGNATURE = 0x8006
    NACK_BAD_ENCRYPTION = 0x8007
    NACK_COULD_NOT_ENCRYPT = 0x8008
    NACK_NOT_TRANSACTIONAL_QUEUE = 0x8009
    NACK_NOT_TRANSACTIONAL_MESSAGE = 0x800A
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C
    NACK_QUEUE_DELETED = 0xC000
    NACK_QUEUE_PURGED = 0xC001
    NACK_RECEIVE_TIMEOUT = 0xC002
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003
    NACK_RECEIVE_REJECTED = 0xC004


def is_nack(message_class: int) -> bool:
    """Return True for a Nack class ([MC-MQDSRP] 3.1.5.1).

    Nack classes are NackBadDestQueue to NackReceiveTimeoutAtSender.
    """
    first, last = MessageClass.NACK_BAD_DEST_QUEUE, MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
    return first <= message_class <= last


def is_acknowledgement(message_class: int) -> bool:
    """Return True for a class of acknowledgement ([MS-MQQB] 3.1.7.15).

    Queue managers make acknowledgements, unsigned.
    """
    negative = MessageClass.NACK_BAD_DEST_QUEUE <= message_class <= MessageClass.NACK_RECEIVE_REJECTED
    return negative or message_class in _ASKED_FOR


class Acknowledgements(IntFlag):
    """Message.AcknowledgementsRequested, by the flags of [MS-MQMQ] 2.2.19.3."""

    NONE = 0
    POSITIVE_ARRIVAL = 1
    POSITIVE_RECEIVE = 2
    NACK_REACH_QUEUE = 4
    FULL_REACH_QUEUE = POSITIVE_ARRIVAL | NACK_REACH_QUEUE
    NEGATIVE_RECEIVE = 8
    NACK_RECEIVE = NACK_REACH_QUEUE | NEGATIVE_RECEIVE
    FULL_RECEIVE = NACK_RECEIVE | POSITIVE_RECEIVE


class DeliveryGuarantee(IntEnum):
    """Message.DeliveryGuarantee ([MS-MQMQ] 2.2.19.2).

    Express messages do not survive a restart.
    """

    EXPRESS = 0
    RECOVERABLE = 1


class SenderIdentifierType(IntEnum):
    """Kind of Message.SenderIdentifier ([MS-MQMQ] 2.2.20.6)."""

    NONE = 0
    SID = 1
    QUEUE_MANAGER = 2


class AuthenticationLevel(IntEnum):
    """List of the fields that a message's signature covers ([MS-MQMQ] 2.5, 2.2.20.6)."""

    NONE = 0
    SIG10 = 1
    SIG20 = 3


class HashAlgorithm(IntEnum):
    """Message.HashAlgorithm: the algorithms for signing ([MS-MQMQ] 2.2.19.3)."""

    MD5 = 0x8003
    SHA1 = 0x8004
    SHA256 = 0x800C
    SHA512 = 0x800E


@give_quick_init
@dataclass(frozen=True, slots=True)
class MessageId:
    """Identifier of a message, OBJECTID ([MS-MQMQ] 2.2.8).

    The identifier is the sending queue manager and its number of the message.
    """

    source: Guid = NULL_GUID
    number: int = 0

    def __str__(self) -> str:
        return f"{self.source}\\{self.number}"


NO_MESSAGE: Final = MessageId()


@give_quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message ([MS-MQDMPR] 3.1.1.12).

    Attributes:
        message_class: a `MessageClass`, or an application's own number.
        body: the content.
        body_type: variant type (``VT_…``) of the body.
        label: a text for people, up to 249 UTF-16 code units.
        application_tag: an application's own number, 32 bits.
        delivery: `RECOVERABLE` survives a restart.
        priority: 0 to 7, 7 goes first.
        time_to_reach_queue_s: whole seconds from `sent_at`, or `INFINITE`.
        time_to_be_received_s: whole seconds from `sent_at`, or `INFINITE`.
        acknowledgements: the requested kinds, sent to `administration_queue`.
        administration_queue: the queue for acknowledgements.
        response_queue: the queue for answers; of an acknowledgement, the destination of the original message.
        correlation: of an acknowledgement, the identifier of the original message.
        positive_journaling: keep a copy after delivery.
        negative_journaling: keep a copy after a failed delivery.
        connector_type: of a message through a connector; else GUID_NULL.
        sender_type: the kind of `sender`.
        sender: SenderIdentifier: a SID's bytes or a queue manager's GUID.
        authentication_level: sending: how to sign; received: kind of the verified signature, else NONE.
        hash_algorithm: algorithm of the digest that is signed.
        signature: as on the wire.
        identifier: sending queue manager and number there; set by the sending queue manager.
        sent_at: seconds since 1970; set by the sending queue manager.
        destination: the receiving queue; set by the sending queue manager.

    Raises:
        ValueError: a number, label or body out of its limits.
    """

    message_class: int = MessageClass.NORMAL
    body: bytes = b""
    body_type: int = 0
    label: str = ""
    application_tag: int = 0
    delivery: DeliveryGuarantee = DeliveryGuarantee.EXPRESS
    priority: int = DEFAULT_PRIORITY
    time_to_reach_queue_s: int = TIME_TO_REACH_QUEUE_S
    time_to_be_received_s: int = INFINITE
    acknowledgements: Acknowledgements = Acknowledgements.NONE
    administration_queue: FormatName | None = None
    response_queue: FormatName | None = None
    correlation: MessageId = NO_MESSAGE
    positive_journaling: bool = False
    negative_journaling: bool = False
    connector_type: Guid = NULL_GUID
    sender_type: SenderIdentifierType = SenderIdentifierType.NONE
    sender: bytes = b""
    authentication_level: AuthenticationLevel = AuthenticationLevel.NONE
    hash_algorithm: HashAlgorithm = HashAlgorithm.MD5
    signature: bytes = b""
    identifier: MessageId = NO_MESSAGE
    sent_at: int = 0
    destination: FormatName | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.priority <= PRIORITY_MAX:
            raise ValueError(f"priority {self.priority}: 0 to {PRIORITY_MAX} are allowed")
        seconds = self.time_to_reach_queue_s | self.time_to_be_received_s | self.sent_at
        numbers = self.message_class << 16 | self.body_type | self.application_tag | seconds
        if not 0 <= numbers <= INFINITE:  # checked together, for speed: each message is made on its way
            self._refuse_numbers()
        if self.label and (_count_units(self.label) > LABEL_CHARS_MAX or "\0" in self.label):
            raise ValueError(f"label {self.label[:50]!r}: up to {LABEL_CHARS_MAX} characters, no NUL")
        if len(self.body) > BODY_BYTES_MAX:
            raise ValueError(f"body has {len(self.body)} bytes, at most {BODY_BYTES_MAX}")

    def make_variant(
        self, *, identifier: MessageId, sent_at: int, destination: FormatName | None, body: bytes
    ) -> "Message":
        """Return a message that differs in its identifier, time, destination and body.

        The caller has checked these. Unlike `dataclasses.replace` this checks nothing again.
        """
        return _copy_with(self, identifier, sent_at, destination, body)

    def _refuse_numbers(self) -> None:
        """Raise a ValueError for the number that is out of its limits."""
        for name, bits in _NUMBERS:
            if not 0 <= getattr(self, name) < 1 << bits:
                raise ValueError(f"{name} {getattr(self, name)} does not fit in {bits} bits")

    @property
    def octets(self) -> int:
        """Octets of the body, label, sender, signature and direct format names.

        Queues limit these parts, whose size the sender chooses (decision T127).
        """
        characters = len(self.label)
        for name in (self.destination, self.administration_queue, self.response_queue):
            if isinstance(name, DirectFormatName):
                characters += len(name.address) + len(name.queue)
        return len(self.body) + len(self.sender) + len(self.signature) + 2 * characters

    @property
    def reach_deadline(self) -> float | None:
        """Latest time of arrival in the queue, in seconds since 1970; None: no limit."""
        return _compute_deadline(self.sent_at, self.time_to_reach_queue_s)

    @property
    def receive_deadline(self) -> float | None:
        """Latest time of the receipt, in seconds since 1970; None: no limit."""
        return _compute_deadline(self.sent_at, self.time_to_be_received_s)

    @property
    def transit_deadline(self) -> float | None:
        """Time from which sending is useless, in seconds since 1970; None: no limit.

        The earlier one of the two deadlines counts.
        """
        return _compute_deadline(self.sent_at, min(self.time_to_reach_queue_s, self.time_to_be_received_s))


_copy_with: Final = make_copier(Message, "identifier", "sent_at", "destination", "body")
_NUMBERS: Final = (
    ("message_class", 16),
    ("body_type", 32),
    ("application_tag", 32),
    ("time_to_reach_queue_s", 32),
    ("time_to_be_received_s", 32),
    ("sent_at", 32),
)
_ASKED_FOR: Final = {
    MessageClass.ACK_REACH_QUEUE: Acknowledgements.POSITIVE_ARRIVAL,
    MessageClass.ACK_RECEIVE: Acknowledgements.POSITIVE_RECEIVE,
}


def _compute_deadline(sent_at: int, seconds: int) -> float | None:
    """Return the end of a period ([MS-MQQB] 3.1.7.1), one second late.

    The reason is that `sent_at` is rounded down.
    """
    return None if seconds == INFINITE else float(sent_at + seconds + 1)


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def make_acknowledgement(message: Message, message_class: MessageClass) -> Message | None:
    """Make the acknowledgement that a message requests ([MS-MQQB] 3.1.7.15).

    Returns None if none is requested.
    A negative one carries the body; none is signed. Classes from NackQueueDeleted on concern the
    receipt, lower ones the arrival in the queue ([MS-MQMQ] 2.2.18.1.6).
    """
    if message.administration_queue is None:
        return None
    negative = message_class >= MessageClass.NACK_BAD_DEST_QUEUE
    receiving = message_class >= MessageClass.NACK_QUEUE_DELETED
    kind = Acknowledgements.NEGATIVE_RECEIVE if receiving else Acknowledgements.NACK_REACH_QUEUE
    requested = message.acknowledgements & _ASKED_FOR.get(message_class, kind)
    if not requested:
        return None
    return Message(
        message_class=message_class,
        body=message.body if negative else b"",
        body_type=message.body_type if negative else 0,
        label=message.label,
        delivery=message.delivery,
        time_to_reach_queue_s=INFINITE,
        response_queue=message.destination,
        correlation=message.identifier,
    )


def replication_queue(machine_name: str) -> DirectFormatName:
    r"""Return the replication queue of a machine by its address.

    REPLICATION_QUEUE_DIRECT is ``DIRECT=OS:<machine>\private$\mqis_queue$`` ([MC-MQDSRP] 1.9).

    Raises:
        ValueError: an invalid machine name.
    """
    return DirectFormatName(DirectProtocol.OS, machine_name, REPLICATION_QUEUE, PathKind.PRIVATE)


def own_replication_queue(queue_manager: Guid) -> PrivateFormatName:
    r"""Return the replication queue of a queue manager by its GUID.

    REPLICATION_QUEUE_PRIVATE is ``PRIVATE=<queue manager>\1`` ([MC-MQDSRP] 1.9).
    """
    return PrivateFormatName(queue_manager.uuid, REPLICATION_QUEUE_NUMBER)


def notification_queue(queue_manager: Guid) -> PrivateFormatName:
    r"""Return NOTIFY_QUEUE_PRIVATE: ``PRIVATE=<queue manager>\3`` ([MS-MQCN] 1.9)."""
    return PrivateFormatName(queue_manager.uuid, NOTIFICATION_QUEUE_NUMBER)
