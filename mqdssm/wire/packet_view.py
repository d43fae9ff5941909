"""Packets field by field ([MS-MQQB] 2.2).

Bodies are those of [MC-MQDSRP] 2.2 and [MS-MQCN] 2.2.

For people who read a capture: the fields before a damage are shown, as for the other kinds of messages.
"""

from collections.abc import Callable
from typing import Final

from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.packets import (
    PACKET_BYTES_MAX,
    FormatNameType,
    PacketKind,
    PacketQueue,
    PrivateQueueName,
    QueueForm,
    UserPacket,
    kind_of,
)
from mqdssm.model.transport import (
    NOTIFICATION_QUEUE,
    NOTIFICATION_QUEUE_NUMBER,
    REPLICATION_QUEUE,
    REPLICATION_QUEUE_NUMBER,
    MessageClass,
)
from mqdssm.wire import mqcn, mqdsrp
from mqdssm.wire.mqqb import FINAL_ACK, ORDER_ACK, decode_packet, layout_of
from mqdssm.wire.mqqb_headers import BASE_HEADER, SESSION_HEADER
from mqdssm.wire.show import Shown, Tree, show, show_header

SHOWN_BYTES_MAX: Final = PACKET_BYTES_MAX + SESSION_HEADER.least
"""Largest packet with the SessionHeader that its size leaves out (decision T2)."""
_PRIVATE_QUEUES: Final = {
    REPLICATION_QUEUE_NUMBER: REPLICATION_QUEUE,
    NOTIFICATION_QUEUE_NUMBER: NOTIFICATION_QUEUE,
}
_BODIES: Final[dict[str, Callable[[bytes], Shown]]] = {
    REPLICATION_QUEUE: mqdsrp.show_message,
    NOTIFICATION_QUEUE: mqcn.show_message,
}


def show_packet(data: bytes) -> Shown:
    """Read a packet field by field, as far as it can be read.

    The body of a message to a queue of ours is a structure: replication, change notification, or the
    acknowledgement of transactional messages (decision T14).
    """
    data = bytes(data)
    try:
        layout = layout_of(data)
    except DecodeError as error:
        return show_header(BASE_HEADER, data, error, name="BaseHeader")
    packet_view = show(layout, data)
    _name_queues(packet_view.fields)
    if packet_view.error is not None:
        return packet_view
    packet = decode_packet(data)
    body = show_body(packet) if isinstance(packet, UserPacket) else None
    if body is None:
        return packet_view
    properties = {**packet_view.fields["MessagePropertiesHeader"], "MessageBody": body.fields}
    return Shown({**packet_view.fields, "MessagePropertiesHeader": properties}, body.error)


def name_packet(data: bytes) -> str:
    """Return the name of a packet's kind, as ``UserMessage``.

    The name of a damaged packet is an empty text.
    """
    try:
        return kind_of(decode_packet(data)).value
    except DecodeError:
        return ""


def _name_queues(fields: Tree) -> None:
    """Replace the lists of queues of a MultiQueueFormatHeader by their format names."""
    lists = fields.get("MultiQueueFormatHeader", {})
    for name in ("Destination", "Administration", "Response"):
        if name in lists:
            lists[name] = [_format_name(*element) for element in lists[name]]


def _format_name(kind: FormatNameType, name: Guid | PrivateQueueName | str) -> str:
    prefix = "DL" if kind is FormatNameType.DISTRIBUTION_LIST else kind.name
    if isinstance(name, PrivateQueueName):
        return f"{prefix}={name.queue_manager}\\{name.number:x}"
    return f"{prefix}={name}"


def show_body(packet: UserPacket) -> Shown | None:
    """Read the body of a message to a queue of this protocol.

    None for another queue, or an encrypted body.
    """
    match kind_of(packet):
        case PacketKind.ORDER_ACK:
            return show(ORDER_ACK, packet.body)
        case PacketKind.FINAL_ACK:
            return show(FINAL_ACK, packet.body)
    if packet.message_class != MessageClass.NORMAL or (packet.security and packet.security.is_encrypted):
        return None
    read_body = _BODIES.get(queue_name_of(packet.destination_queue))
    return None if read_body is None else read_body(packet.body)


def queue_name_of(queue: PacketQueue) -> str:
    """Return the name of a protocol's private queue, as ``mqis_queue$``.

    For any other queue it is an empty text.
    """
    form, name = queue
    if form is QueueForm.PRIVATE_ON_DESTINATION and isinstance(name, int):
        return _PRIVATE_QUEUES.get(name, "")
    if form is QueueForm.DIRECT and isinstance(name, str):
        prefix, _, private = name.partition("\\")[2].lower().partition("\\")
        return private if prefix == "private$" else ""
    return ""
