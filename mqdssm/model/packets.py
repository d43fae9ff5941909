"""Packets of the binary protocol between queue managers.

See [MS-MQQB] 2.2 and [MS-MQMQ] 2.2.19 and 2.2.20.
Fields have the specification's names in Python's spelling. Sizes, counts and the flags that announce a header
are computed from the fields; reserved bits are ignored when received and 0 when sent. The binary layout is in
`mqdssm.wire.mqqb`; `mqdssm.model.packet_messages` makes messages of packets.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

from mqdssm.model.frozen_records import give_quick_init
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.transport import (
    DEFAULT_PRIORITY,
    INFINITE,
    NO_MESSAGE,
    Acknowledgements,
    DeliveryGuarantee,
    HashAlgorithm,
    MessageClass,
    MessageId,
    SenderIdentifierType,
)

SESSION_PORT: Final = 1801
"""TCP port of queue managers ([MS-MQQB] 2.1.1)."""
PACKET_BYTES_MAX: Final = 4 << 20
"""Largest PacketSize ([MS-MQMQ] 2.2.19.1)."""
HOPS_MAX: Final = 0x1D
"""Most routing servers that a message passes ([MS-MQMQ] 2.2.19.2, Flags.RC)."""
ORDER_QUEUE: Final = "order_queue$"
"""Name of the private queue for acknowledgements of transactional messages ([MS-MQQB] 2.2.4)."""
ORDER_QUEUE_NUMBER: Final = 4
"""Number of the queue for acknowledgements of transactional messages ([MS-MQQB] 2.2.4)."""
ORDER_ACK_LABEL: Final = "QM Ordering Ack"
"""Label of an OrderAck and a FinalAck packet ([MS-MQQB] 2.2.4, 2.2.5)."""
ORDER_ACK_BYTES: Final = 36
"""Size of the body of an OrderAck and a FinalAck packet ([MS-MQQB] 2.2.4, 2.2.5)."""
RC4: Final = 0x6801
"""EncryptionAlgorithm of messages that are not encrypted, as in [MS-MQQB] 4.1.7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Ping for a session between queue managers, or its reply.

    A Ping asks if a queue manager would accept a session ([MS-MQQB] 2.2.7).

    Attributes:
        queue_manager: QMGuid, the queue manager that made this packet.
        cookie: number of the question; the reply has it, too.
        is_client_class: Flags.RC: the initiator's operating system is not of the server class.
        is_refused: Flags.RF, in a reply: a session would be refused.
        reserved: the unused bits of Flags, as received.
    """

    queue_manager: Guid
    cookie: int
    is_client_class: bool = False
    is_refused: bool = False
    reserved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EstablishConnection:
    """Request for a session, or the response ([MS-MQQB] 2.2.3).

    Attributes:
        client_guid: queue manager of the initiator.
        server_guid: queue manager of the acceptor; in a request for a direct format name NULL_GUID.
        time_stamp: milliseconds since the initiator's system started.
        is_ping_skipped: OperatingSystem.SE: no ping was sent for this session.
        is_server_class: OperatingSystem.OS: the initiator's operating system is of the server class.
        is_refused: InternalHeader.Flags.CS, in a response: the session is refused.
        has_quality_of_service: OperatingSystem.QS.
        reserved: BaseHeader.Reserved, as received.
    """

    client_guid: Guid
    server_guid: Guid
    time_stamp: int
    is_ping_skipped: bool
    is_server_class: bool
    is_refused: bool
    has_quality_of_service: bool = False
    reserved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionParameters:
    """Timeouts and window of a session ([MS-MQQB] 2.2.2).

    Attributes:
        recoverable_ack_timeout_ms: shortest time before recoverable messages are acknowledged.
        ack_timeout_ms: longest wait for an acknowledgement.
        window_size: number of messages that may be unacknowledged.
        is_refused: InternalHeader.Flags.CS: the session is refused.
        reserved: BaseHeader.Reserved, as received.
    """

    recoverable_ack_timeout_ms: int
    ack_timeout_ms: int
    window_size: int
    is_refused: bool = False
    reserved: int = 0


@give_quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader:
    """Acknowledgement of messages within a session ([MS-MQMQ] 2.2.20.4).

    Attributes:
        ack_sequence_number: number of messages received in this session.
        recoverable_ack_sequence_number: RecoverableMsgAckSeqNumber, lowest recoverable message that was
            stored since the last acknowledgement; 0: none.
        recoverable_ack_flags: bit k: the recoverable message `recoverable_ack_sequence_number` + k is stored.
        user_message_sequence_number: number of messages sent in this session.
        recoverable_message_sequence_number: number of recoverable messages sent in this session.
        window_size: number of messages that may be unacknowledged.
    """

    ack_sequence_number: int
    recoverable_ack_sequence_number: int
    recoverable_ack_flags: int
    user_message_sequence_number: int
    recoverable_message_sequence_number: int
    window_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAck:
    """Acknowledgement that is a packet of its own ([MS-MQQB] 2.2.6).

    Attributes:
        session: the acknowledgement.
        reserved: BaseHeader.Reserved, as received.
    """

    session: SessionHeader
    reserved: int = 0


class QueueForm(IntEnum):
    """Form of a queue's name: UserHeader.Flags.DQ, AQ and RQ ([MS-MQMQ] 2.2.19.2)."""

    NONE = 0
    SAME_AS_ADMIN = 1
    PRIVATE_ON_SOURCE = 2
    PRIVATE_ON_DESTINATION = 3
    PRIVATE_ON_ADMIN_HOST = 4
    PUBLIC = 5
    PRIVATE = 6
    DIRECT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQueueName:
    """PrivateQueueFormatName: a private queue by host and number.

    See [MS-MQMQ] 2.2.18.1.7.2.
    """

    queue_manager: Guid
    number: int


class PacketQueue(NamedTuple):
    """A queue as a UserHeader names it ([MS-MQMQ] 2.2.18.1.5, 2.2.18.1.7).

    Attributes:
        form: form of the name.
        name: a private queue's number, a public queue's GUID, a `PrivateQueueName`, the text of a direct
            format name without ``DIRECT=``, or None.
    """

    form: QueueForm
    name: int | Guid | PrivateQueueName | str | None = None


NO_QUEUE: Final = PacketQueue(QueueForm.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionHeader:
    """Place of a message in its transaction ([MS-MQMQ] 2.2.20.5).

    Attributes:
        sequence_id: TxSequenceID as a 64-bit number.
        sequence_number: TxSequenceNumber, from 1.
        previous_sequence_number: PreviousTxSequenceNumber; 0: there is no previous message.
        transaction_id: Flags.ID, 20 bits.
        needs_final_ack: Flags.FA.
        is_first: Flags.FM, first message of the transaction.
        is_last: Flags.LM, last message of the transaction.
        connector: ConnectorQMGuid, or None.
    """

    sequence_id: int
    sequence_number: int
    previous_sequence_number: int
    transaction_id: int = 0
    needs_final_ack: bool = False
    is_first: bool = False
    is_last: bool = False
    connector: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityHeader:
    """Sender, signature and key of a message ([MS-MQMQ] 2.2.20.6).

    Attributes:
        sender_type: Flags.ST, the kind of `sender`.
        is_encrypted: Flags.EB, the body is encrypted.
        has_default_provider: Flags.DE, the default cryptographic provider made the signature.
        has_security_data: Flags.AI; ignored when received (decision T4).
        sender: SecurityID: a SID's bytes or a queue manager's GUID.
        encryption_key: EncryptionKey.
        signature: Signature.
        certificate: SenderCert, DER.
        provider_info: ProviderInfo: number and name of another cryptographic provider.

    Raises:
        ValueError: a sender without its kind.
    """

    sender_type: SenderIdentifierType = SenderIdentifierType.NONE
    is_encrypted: bool = False
    has_default_provider: bool = False
    has_security_data: bool = True
    sender: bytes = b""
    encryption_key: bytes = b""
    signature: bytes = b""
    certificate: bytes = b""
    provider_info: bytes = b""

    def __post_init__(self) -> None:
        if self.sender and self.sender_type is SenderIdentifierType.NONE:
            raise ValueError("SenderIdSize is not 0 where Flags.ST is 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugHeader:
    """Queue for trace messages ([MS-MQMQ] 2.2.20.8).

    Attributes:
        queue: GUID of a public queue, or None.
    """

    queue: Guid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapHeader:
    """Texts of an application ([MS-MQMQ] 2.2.20.7)."""

    header: str = ""
    body: str = ""


class FormatNameType(IntEnum):
    """Kind of a queue in a list of queues ([MS-MQMQ] 2.2.18.1.4)."""

    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    DISTRIBUTION_LIST = 6


class FormatNameElement(NamedTuple):
    """A queue in a list of queues, MQFFormatNameElement ([MS-MQMQ] 2.2.18.1.4).

    Attributes:
        type: kind of the queue.
        name: GUID of a public queue or a distribution list, a `PrivateQueueName`, or the text of a direct
            format name without ``DIRECT=``.
    """

    type: FormatNameType
    name: Guid | PrivateQueueName | str


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiQueueFormatHeader:
    """All queues of a message that was sent to several queues ([MS-MQMQ] 2.2.20.1)."""

    destination: tuple[FormatNameElement, ...] = ()
    administration: tuple[FormatNameElement, ...] = ()
    response: tuple[FormatNameElement, ...] = ()
    signature: bytes = b""


@give_quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class UserPacket:
    """Message of an application or a queue manager ([MS-MQMQ] 2.2.20).

    The specification's packet is UserMessage.
    The fields of the required headers are fields of the packet; each optional header is an object or None.

    Attributes:
        priority: BaseHeader.Flags.PR.
        is_traced: BaseHeader.Flags.TR; needs a `debug` header.
        time_to_reach_queue_s: BaseHeader.TimeToReachQueue, in seconds from `sent_time`.
        source_queue_manager: UserHeader.SourceQueueManager, the original sender.
        queue_manager_address: UserHeader.QueueManagerAddress; NULL_GUID for a direct format name.
        time_to_be_received_s: UserHeader.TimeToBeReceived, in seconds from `sent_time`.
        sent_time: UserHeader.SentTime, seconds since 1970.
        message_id: UserHeader.MessageID, number of the message at its sender.
        hop_count: UserHeader.Flags.RC.
        delivery: UserHeader.Flags.DM.
        negative_journaling: UserHeader.Flags.JN.
        positive_journaling: UserHeader.Flags.JP.
        destination_queue: UserHeader.DestinationQueue.
        admin_queue: UserHeader.AdminQueue.
        response_queue: UserHeader.ResponseQueue.
        connector_type: UserHeader.ConnectorType, or None.
        transaction: TransactionHeader.
        security: SecurityHeader.
        acknowledgements: MessagePropertiesHeader.Flags.
        message_class: MessagePropertiesHeader.MessageClass.
        correlation_id: MessagePropertiesHeader.CorrelationID.
        body_type: MessagePropertiesHeader.BodyType.
        application_tag: MessagePropertiesHeader.ApplicationTag.
        message_size: MessagePropertiesHeader.MessageSize, number of bytes of the body.
        privacy_level: MessagePropertiesHeader.PrivacyLevel.
        hash_algorithm: MessagePropertiesHeader.HashAlgorithm.
        encryption_algorithm: MessagePropertiesHeader.EncryptionAlgorithm.
        label: MessagePropertiesHeader.Label.
        extension_data: MessagePropertiesHeader.ExtensionData.
        allocated_body: AllocationBodySize bytes that begin with the body (decision T3).
        debug: DebugHeader.
        soap: SoapHeader.
        multi_queue_format: MultiQueueFormatHeader.
        session: SessionHeader behind the message.
        reserved: BaseHeader.Reserved, as received.

    Raises:
        ValueError: fields that contradict each other.
    """

    priority: int = DEFAULT_PRIORITY
    is_traced: bool = False
    time_to_reach_queue_s: int = INFINITE
    source_queue_manager: Guid
    queue_manager_address: Guid = NULL_GUID
    time_to_be_received_s: int = INFINITE
    sent_time: int
    message_id: int
    hop_count: int = 0
    delivery: DeliveryGuarantee = DeliveryGuarantee.EXPRESS
    negative_journaling: bool = False
    positive_journaling: bool = False
    destination_queue: PacketQueue
    admin_queue: PacketQueue = NO_QUEUE
    response_queue: PacketQueue = NO_QUEUE
    connector_type: Guid | None = None
    transaction: TransactionHeader | None = None
    security: SecurityHeader | None = None
    acknowledgements: Acknowledgements = Acknowledgements.NONE
    message_class: int = MessageClass.NORMAL
    correlation_id: MessageId = NO_MESSAGE
    body_type: int = 0
    application_tag: int = 0
    message_size: int
    privacy_level: int = 0
    hash_algorithm: int = HashAlgorithm.MD5
    encryption_algorithm: int = RC4
    label: str = ""
    extension_data: bytes = b""
    allocated_body: bytes
    debug: DebugHeader | None = None
    soap: SoapHeader | None = None
    multi_queue_format: MultiQueueFormatHeader | None = None
    session: SessionHeader | None = None
    reserved: int = 0

    def __post_init__(self) -> None:
        if self.message_size > len(self.allocated_body):
            raise ValueError(f"MessageSize {self.message_size} is more than AllocationBodySize")
        if self.is_traced and self.debug is None:
            raise ValueError("Flags.TR is set without a DebugHeader")
        if self.transaction is None:
            return
        if self.delivery is DeliveryGuarantee.EXPRESS:
            raise ValueError("Flags.DM of a transactional message is 0, must be 1")
        if self.priority:
            raise ValueError(f"Flags.PR of a transactional message is {self.priority}, must be 0")

    @property
    def body(self) -> bytes:
        """The content of the message."""
        return self.allocated_body[: self.message_size]


Packet: TypeAlias = EstablishConnection | ConnectionParameters | SessionAck | UserPacket
"""A packet of a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAck:
    """Body of an OrderAck packet ([MS-MQQB] 2.2.4.1).

    An OrderAck says that transactional messages were received.

    Attributes:
        sequence_id: TxSequenceID of the messages.
        sequence_number: TxSequenceNumber of the last of them.
        previous_sequence_number: TxPreviousSequenceNumber, `sequence_number` - 1.
    """

    sequence_id: int
    sequence_number: int
    previous_sequence_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalAck:
    """Body of a FinalAck packet ([MS-MQQB] 2.2.5.1).

    A FinalAck says that a transactional message was taken or rejected.

    Attributes:
        sequence_id: TxSequenceID of the message.
        sequence_number: TxSequenceNumber of the message.
        previous_sequence_number: TxPreviousSequenceNumber, of the message before it.
        message: SourceGUID and MessageID.
    """

    sequence_id: int
    sequence_number: int
    previous_sequence_number: int
    message: MessageId


class PacketKind(Enum):
    """Kind of a packet; the value is the specification's name ([MS-MQQB] 3.1.5.1.1)."""

    ESTABLISH_CONNECTION = "EstablishConnection"
    CONNECTION_PARAMETERS = "ConnectionParameters"
    SESSION_ACK = "SessionAck"
    USER_MESSAGE = "UserMessage"
    ORDER_ACK = "OrderAck"
    FINAL_ACK = "FinalAck"


_KINDS: Final = {
    EstablishConnection: PacketKind.ESTABLISH_CONNECTION,
    ConnectionParameters: PacketKind.CONNECTION_PARAMETERS,
    SessionAck: PacketKind.SESSION_ACK,
}


def kind_of(packet: Packet) -> PacketKind:
    """Return the kind of a packet ([MS-MQQB] 3.1.5.1.1).

    A packet with the marks of an OrderAck or a FinalAck is one; any other without Flags.IN is a UserMessage,
    whatever its class: acknowledgements to applications are UserMessages, too (decision T5).
    """
    if not isinstance(packet, UserPacket):
        return _KINDS[type(packet)]
    if not _is_to_order_queue(packet):
        return PacketKind.USER_MESSAGE
    if packet.message_class == MessageClass.ORDER_ACK:
        return PacketKind.ORDER_ACK
    return (
        PacketKind.FINAL_ACK if packet.message_class >= MessageClass.ACK_RECEIVE else PacketKind.USER_MESSAGE
    )


def _is_to_order_queue(packet: UserPacket) -> bool:
    """Return True if a packet has the form of an OrderAck or a FinalAck.

    Label, size, flags and queue are tested ([MS-MQQB] 3.1.5.1.1).
    """
    has_base_flags = packet.priority or packet.is_traced or packet.debug or packet.session
    if has_base_flags or packet.label != ORDER_ACK_LABEL or packet.message_size != ORDER_ACK_BYTES:
        return False
    form, name = packet.destination_queue
    if form is QueueForm.DIRECT:
        _, _, queue = str(name).partition("\\")
        return queue.lower() == f"private$\\{ORDER_QUEUE}"
    return form is QueueForm.PRIVATE_ON_DESTINATION and name == ORDER_QUEUE_NUMBER
