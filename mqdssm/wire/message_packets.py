"""Conversion of the messages of one session from and to packets ([MS-MQQB] 2.2).

The messages of a session are often alike: they differ in number, time and body alone. If two in a row are
alike, the common octets of their packets are kept, and are neither encoded nor decoded again. The results are
those of `mqdssm.wire.mqqb` and `mqdssm.model.packet_messages`.
"""

from dataclasses import fields, replace
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple

from mqdssm.model.guid import Guid
from mqdssm.model.packet_messages import UnsupportedPacketError, message_of, packet_of
from mqdssm.model.packets import PACKET_BYTES_MAX, Packet, UserPacket
from mqdssm.model.transport import INFINITE, Message, MessageId
from mqdssm.wire.mqqb import decode_packet, encode_packet
from mqdssm.wire.mqqb_headers import PACKET_SIZE_AT
from mqdssm.wire.packet_framer import StreamReader

_SIZE: Final = Struct("<I")
_TIME_AND_NUMBER: Final = Struct("<II")
_TIME_AT: Final = 52  # UserHeader.SentTime and MessageID ([MS-MQMQ] 2.2.19.2)
_BODY_SIZES: Final = Struct("<II")
_BODY_SIZES_AT: Final = 32  # MessageSize and AllocationBodySize in MessagePropertiesHeader (2.2.19.3)
_PROPERTIES_BYTES: Final = 56  # without label, extension data and body
_VARYING: Final = frozenset({"identifier", "sent_at", "body", "authentication_level"})
"""Properties that differ from message to message; the last one is not in a packet."""
_shape_of: Final = attrgetter(
    "identifier.source", *(field.name for field in fields(Message) if field.name not in _VARYING)
)
"""Properties of a message that its packet has, but for number, time and body."""


class _CommonOctets(NamedTuple):
    """Octets of the packets of like messages, around those that differ.

    Attributes:
        start: from the begin of the packet.
        middle: behind PacketSize.
        properties: behind MessageID.
        end: behind AllocationBodySize, up to the body.
        sizes_at: offset of the sizes of the body.
        body_at: offset of the body.
    """

    start: bytes
    middle: bytes
    properties: bytes
    end: bytes
    sizes_at: int
    body_at: int


def _find_common_octets(packet: UserPacket, data: bytes) -> _CommonOctets | None:
    """Find the octets that the packets of like messages share.

    None if something else than padding stands behind the body, or there are security headers: signatures
    always differ.
    """
    parts = packet.security, packet.transaction, packet.debug, packet.soap, packet.multi_queue_format
    if any(part is not None for part in (*parts, packet.session)) or packet.extension_data:
        return None
    bare = replace(packet, label="", message_size=0, allocated_body=b"")
    properties_at = len(encode_packet(bare)) - _PROPERTIES_BYTES  # names before it have the same size again
    sizes_at = properties_at + _BODY_SIZES_AT
    body_at = properties_at + _PROPERTIES_BYTES + 2 * data[properties_at + 1]  # LabelLength
    return _CommonOctets(
        data[:PACKET_SIZE_AT],
        data[PACKET_SIZE_AT + _SIZE.size : _TIME_AT],
        data[_TIME_AT + _TIME_AND_NUMBER.size : sizes_at],
        data[sizes_at + _BODY_SIZES.size : body_at],
        sizes_at,
        body_at,
    )


class MessageEncoder:
    """Encoder of the messages of one session.

    Args:
        queue_manager_address: queue manager of their destination; NULL_GUID for direct format names.
    """

    def __init__(self, queue_manager_address: Guid) -> None:
        self._queue_manager_address: Final = queue_manager_address
        self._shape: tuple[Any, ...] | None = None
        self._common: _CommonOctets | None = None

    def encode(self, message: Message) -> bytes:
        """Return the packet of a message.

        Raises:
            ValueError: the message has no destination, or cannot be encoded.
        """
        shape, is_like_last = _shape_of(message), False
        if shape == self._shape:
            is_like_last = True
            if self._common is not None and (data := self._assemble(self._common, message)) is not None:
                return data
        packet = packet_of(message, queue_manager_address=self._queue_manager_address)
        data = encode_packet(packet)
        self._common = _find_common_octets(packet, data) if is_like_last else None
        self._shape = shape
        return data

    @staticmethod
    def _assemble(common: _CommonOctets, message: Message) -> bytes | None:
        """Return the packet of a message; None if a number in it is too large."""
        body, number = message.body, message.identifier.number
        size = len(body)
        behind = common.body_at + size
        padding = -behind % 4
        if behind + padding > PACKET_BYTES_MAX or not 0 <= number <= INFINITE:
            return None
        return b"".join(
            (
                common.start,
                _SIZE.pack(behind + padding),
                common.middle,
                _TIME_AND_NUMBER.pack(message.sent_at, number),
                common.properties,
                _BODY_SIZES.pack(size, size),
                common.end,
                body,
                bytes(padding),
            )
        )


class MessageFramer(StreamReader[Packet | Message]):
    """Reader of a byte stream that returns messages.

    A packet that is no message or has a SessionHeader is returned as it is. So is a packet that carries more
    than a message can hold (`UnsupportedPacketError`).
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: Message | None = None
        self._shape: tuple[Any, ...] | None = None
        self._common: _CommonOctets | None = None

    def _convert(self, data: bytes) -> Packet | Message:
        common, last = self._common, self._last
        if common is not None and last is not None:
            message = self._take_apart(common, last, data)
            if message is not None:
                return message
        packet = decode_packet(data)
        if not isinstance(packet, UserPacket) or packet.session is not None:
            return packet
        try:
            message = message_of(packet)
        except UnsupportedPacketError:
            return packet
        shape = _shape_of(message)
        self._common = _find_common_octets(packet, data) if shape == self._shape else None
        self._shape, self._last = shape, message
        return message

    @staticmethod
    def _take_apart(common: _CommonOctets, last: Message, data: bytes) -> Message | None:
        """Return the message of a packet; None if it is not like the last message."""
        sizes_at, body_at = common.sizes_at, common.body_at
        if (
            len(data) < body_at
            or data[:PACKET_SIZE_AT] != common.start
            or data[PACKET_SIZE_AT + _SIZE.size : _TIME_AT] != common.middle
            or data[_TIME_AT + _TIME_AND_NUMBER.size : sizes_at] != common.properties
            or data[sizes_at + _BODY_SIZES.size : body_at] != common.end
        ):
            return None
        size, allocated = _BODY_SIZES.unpack_from(data, sizes_at)
        behind = body_at + allocated
        if size != allocated or behind + -behind % 4 != len(data):
            return None
        sent_at, number = _TIME_AND_NUMBER.unpack_from(data, _TIME_AT)
        return last.make_variant(
            identifier=MessageId(last.identifier.source, number),
            sent_at=sent_at,
            destination=last.destination,
            body=data[body_at:behind],
        )
