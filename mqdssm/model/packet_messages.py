r"""Messages of queue managers from and to packets.

See [MS-MQDMPR] 3.1.7.1.30-3.1.7.1.32.
`packet_of` makes the packet that carries a message, `message_of` the message that a packet carries. A packet
may hold more than a `Message`: a transaction, encryption, SOAP, extension data; then `message_of` names it.
"""

from typing import Final

from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import (
    DirectFormatName,
    FormatName,
    PathKind,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
)
from mqdssm.model.packets import (
    NO_QUEUE,
    PacketQueue,
    PrivateQueueName,
    QueueForm,
    SecurityHeader,
    SessionHeader,
    UserPacket,
)
from mqdssm.model.transport import (
    HashAlgorithm,
    Message,
    MessageClass,
    MessageId,
    SenderIdentifierType,
)

_PREFIX: Final = "DIRECT="
_UPPER_PRIVATE: Final = f"\\{PathKind.PRIVATE.value.upper()}"
_LOWER_PRIVATE: Final = f"\\{PathKind.PRIVATE.value}"


class UnsupportedPacketError(ValueError):
    """A packet that carries more than a `Message` can hold.

    Attributes:
        message_class: class of the negative acknowledgement that fits, or None.
    """

    def __init__(self, problem: str, message_class: MessageClass | None = None) -> None:
        super().__init__(problem)
        self.message_class = message_class


def format_direct(name: DirectFormatName) -> str:
    r"""Return a direct format name as packets have it: ``OS:web01\private$\orders``.

    The prefix of a private queue is in small letters, as in [MC-MQDSRP] 1.9 (decision R57).
    """
    text = str(name).removeprefix(_PREFIX)
    return text.replace(_UPPER_PRIVATE, _LOWER_PRIVATE, 1) if name.kind is PathKind.PRIVATE else text


def message_of(packet: UserPacket) -> Message:
    """Return the message that a packet carries.

    The authentication level is `NONE`: verifying the signature decides it ([MS-MQQB] 3.1.5.8.3). The trace
    queue, the list of all destinations and the certificate have no place in a message and are left out.

    Raises:
        UnsupportedPacketError: a transaction, an encrypted body, SOAP, extension data, a signature with an
            unknown hash algorithm, or a queue that has no format name.
    """
    _check_supported(packet)
    security = packet.security or SecurityHeader()
    admin_queue = format_name_of(packet, packet.admin_queue)
    return Message(
        message_class=packet.message_class,
        body=packet.body,
        body_type=packet.body_type,
        label=packet.label,
        application_tag=packet.application_tag,
        delivery=packet.delivery,
        priority=packet.priority,
        time_to_reach_queue_s=packet.time_to_reach_queue_s,
        time_to_be_received_s=packet.time_to_be_received_s,
        acknowledgements=packet.acknowledgements,
        administration_queue=admin_queue,
        response_queue=format_name_of(packet, packet.response_queue),
        correlation=packet.correlation_id,
        positive_journaling=packet.positive_journaling,
        negative_journaling=packet.negative_journaling,
        connector_type=packet.connector_type or NULL_GUID,
        sender_type=security.sender_type,
        sender=security.sender,
        hash_algorithm=_HASH_ALGORITHMS.get(packet.hash_algorithm, HashAlgorithm.MD5),
        signature=security.signature,
        identifier=MessageId(packet.source_queue_manager, packet.message_id),
        sent_at=packet.sent_time,
        destination=format_name_of(packet, packet.destination_queue),
    )


_HASH_ALGORITHMS: Final = {int(algorithm): algorithm for algorithm in HashAlgorithm}


def _check_supported(packet: UserPacket) -> None:
    """Refuse a packet that carries more than a message can hold.

    The error names the part.
    """
    security = packet.security or SecurityHeader()
    has_unknown_hash = bool(security.signature) and packet.hash_algorithm not in _HASH_ALGORITHMS
    for is_there, part, message_class in (
        (packet.transaction, "TransactionHeader", MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE),
        (security.is_encrypted, "encrypted body", MessageClass.NACK_BAD_ENCRYPTION),
        (has_unknown_hash, f"HashAlgorithm {packet.hash_algorithm:#x}", MessageClass.NACK_BAD_SIGNATURE),
        (packet.soap, "SoapHeader", None),
        (packet.extension_data, "ExtensionData", None),
    ):
        if is_there:
            identifier = f"{packet.source_queue_manager}\\{packet.message_id}"
            raise UnsupportedPacketError(
                f"message {identifier} has a part that is not supported: {part}", message_class
            )


def format_name_of(packet: UserPacket, queue: PacketQueue) -> FormatName | None:
    """Return the format name of a queue of a packet ([MS-MQMQ] 2.2.19.2).

    Returns None if there is no queue.

    Raises:
        UnsupportedPacketError: a direct name that is none, or a private queue on a host without a GUID.
    """
    form, name = queue
    match form, name:
        case QueueForm.SAME_AS_ADMIN, _:
            return format_name_of(packet, packet.admin_queue)
        case QueueForm.PUBLIC, Guid():
            return PublicFormatName(name.uuid)
        case QueueForm.PRIVATE, PrivateQueueName(queue_manager=host, number=number):
            return PrivateFormatName(host.uuid, number)
        case QueueForm.DIRECT, str():
            try:
                return parse_format_name(_PREFIX + name)
            except ValueError as error:
                raise UnsupportedPacketError(str(error), MessageClass.NACK_BAD_DEST_QUEUE) from None
        case _, int():
            return PrivateFormatName(_host_of(packet, form).uuid, name)
    return None


def _host_of(packet: UserPacket, form: QueueForm) -> Guid:
    """Return the queue manager of a private queue of a packet.

    The packet names the queue by its number alone.
    """
    if form is QueueForm.PRIVATE_ON_SOURCE:
        return packet.source_queue_manager
    if form is QueueForm.PRIVATE_ON_DESTINATION:
        return packet.queue_manager_address
    match format_name_of(packet, packet.admin_queue):
        case PrivateFormatName(guid=guid):
            return Guid.of(guid)
    raise UnsupportedPacketError(
        "the response queue is on the administration queue's host, which has no GUID"
    )


def packet_of(
    message: Message,
    *,
    queue_manager_address: Guid,
    session: SessionHeader | None = None,
    certificate: bytes = b"",
) -> UserPacket:
    """Return the packet that carries a message.

    `message_of` turns the packet into an equal message.

    Args:
        message: with its identifier, destination and signature; the authentication level is not sent.
        queue_manager_address: the destination's queue manager; NULL_GUID for a direct format name.
        session: an acknowledgement that travels with the message.
        certificate: of the signature.

    Raises:
        ValueError: no destination, or a queue that a packet cannot name.
    """
    if message.destination is None:
        raise ValueError("a message without a destination cannot be sent")
    source = message.identifier.source
    destination = _queue_of(message.destination, destination=queue_manager_address)
    if destination.form is QueueForm.PRIVATE:
        raise ValueError(f"{message.destination} is no queue of the queue manager {queue_manager_address}")
    hosts = {"source": source, "destination": queue_manager_address}
    admin_queue = _queue_of(message.administration_queue, **hosts)
    response_queue = _queue_of(message.response_queue, **hosts)
    if response_queue == admin_queue != NO_QUEUE:
        response_queue = PacketQueue(QueueForm.SAME_AS_ADMIN)
    return UserPacket(
        priority=message.priority,
        time_to_reach_queue_s=message.time_to_reach_queue_s,
        source_queue_manager=source,
        queue_manager_address=queue_manager_address,
        time_to_be_received_s=message.time_to_be_received_s,
        sent_time=message.sent_at,
        message_id=message.identifier.number,
        delivery=message.delivery,
        negative_journaling=message.negative_journaling,
        positive_journaling=message.positive_journaling,
        destination_queue=destination,
        admin_queue=admin_queue,
        response_queue=response_queue,
        connector_type=None if message.connector_type == NULL_GUID else message.connector_type,
        security=_security_of(message, certificate),
        acknowledgements=message.acknowledgements,
        message_class=message.message_class,
        correlation_id=message.correlation,
        body_type=message.body_type,
        application_tag=message.application_tag,
        message_size=len(message.body),
        hash_algorithm=message.hash_algorithm,
        label=message.label,
        allocated_body=message.body,
        session=session,
    )


def _security_of(message: Message, certificate: bytes) -> SecurityHeader | None:
    """Return the SecurityHeader of a message with a sender or a signature.

    See [MS-MQDMPR] 3.1.7.1.30.
    """
    if message.sender_type is SenderIdentifierType.NONE and not (message.signature or certificate):
        return None
    return SecurityHeader(
        sender_type=message.sender_type,
        has_default_provider=bool(message.signature),
        sender=message.sender,
        signature=message.signature,
        certificate=certificate,
    )


def _queue_of(name: FormatName | None, *, destination: Guid, source: Guid | None = None) -> PacketQueue:
    """Return the shortest form of a queue's name in a packet ([MS-MQMQ] 2.2.19.2).

    Raises:
        ValueError: a format name that a packet cannot hold.
    """
    match name:
        case None:
            return NO_QUEUE
        case DirectFormatName():
            return PacketQueue(QueueForm.DIRECT, format_direct(name))
        case PublicFormatName(guid=guid):
            return PacketQueue(QueueForm.PUBLIC, Guid.of(guid))
        case PrivateFormatName(guid=guid, number=number, journal=False):
            host = Guid.of(guid)
            if host == source:
                return PacketQueue(QueueForm.PRIVATE_ON_SOURCE, number)
            if host == destination != NULL_GUID:
                return PacketQueue(QueueForm.PRIVATE_ON_DESTINATION, number)
            return PacketQueue(QueueForm.PRIVATE, PrivateQueueName(queue_manager=host, number=number))
    raise ValueError(f"a packet cannot name the queue {name}")
