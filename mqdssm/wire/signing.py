"""Bytes that a message's signature covers ([MS-MQMQ] 2.5).

[MS-MQMQ] 2.2.20.6 refers to that section.

The specification lists fields, but not the form of each in the hashed bytes. Here each has the form of its
packet, numbers little-endian, without padding; absent fields have no bytes; each queue has one form, although
packets abbreviate some; the prefix of a private queue is in small letters, as in [MC-MQDSRP] 1.9
(decision R57).
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import DirectFormatName, FormatName, PrivateFormatName, PublicFormatName
from mqdssm.model.packet_messages import format_direct
from mqdssm.model.transport import AuthenticationLevel, Message, MessageId

_UTF16: Final = "utf-16-le"

_Image: TypeAlias = Callable[[Message], bytes]


def _encode_object_id(value: MessageId) -> bytes:
    return bytes(value.source) + struct.pack("<I", value.number)


def _encode_label(label: str) -> bytes:
    return (label + "\0").encode(_UTF16) if label else b""


@lru_cache(maxsize=1024)
def _encode_queue(name: FormatName | None) -> bytes:
    """Return a queue's bytes in a UserHeader ([MS-MQMQ] 2.2.20.1), without padding.

    Raises:
        ValueError: a format name that cannot be in a signed message.
    """
    match name:
        case None:
            return b""
        case DirectFormatName():
            data = (format_direct(name) + "\0").encode(_UTF16)
            return struct.pack("<H", len(data)) + data
        case PrivateFormatName(guid=guid, number=number, journal=False):
            return bytes(Guid.of(guid)) + struct.pack("<I", number)
        case PublicFormatName(guid=guid):
            return bytes(Guid.of(guid))
    raise ValueError(f"a message with {name} cannot be signed")


def _encode_connector(connector: Guid) -> bytes:
    return b"" if connector == NULL_GUID else bytes(connector)


_MSMQ_10: Final[tuple[tuple[str, _Image], ...]] = (
    ("MessagePropertiesHeader.CorrelationID", lambda message: _encode_object_id(message.correlation)),
    ("MessagePropertiesHeader.ApplicationTag", lambda message: struct.pack("<I", message.application_tag)),
    ("MessagePropertiesHeader.MessageBody", lambda message: message.body),
    ("MessagePropertiesHeader.Label", lambda message: _encode_label(message.label)),
    ("UserHeader.ResponseQueue", lambda message: _encode_queue(message.response_queue)),
    ("UserHeader.AdminQueue", lambda message: _encode_queue(message.administration_queue)),
)
_MSMQ_20: Final[tuple[tuple[str, _Image], ...]] = (
    *_MSMQ_10,
    ("UserHeader.SourceQueueManager", lambda message: bytes(message.identifier.source)),
    ("UserHeader.Flags.DM", lambda message: struct.pack("<B", message.delivery)),
    ("BaseHeader.Flags.PR", lambda message: struct.pack("<B", message.priority)),
    (
        "UserHeader.Flags.JP << 1 | JN",
        lambda message: struct.pack("<B", message.positive_journaling << 1 | message.negative_journaling),
    ),
    (
        "MessagePropertiesHeader.Flags & 0x0F",
        lambda message: struct.pack("<B", message.acknowledgements & 0x0F),
    ),
    ("MessagePropertiesHeader.MessageClass", lambda message: struct.pack("<H", message.message_class)),
    ("MessagePropertiesHeader.BodyType", lambda message: struct.pack("<I", message.body_type)),
    ("UserHeader.ConnectorType", lambda message: _encode_connector(message.connector_type)),
    ("UserHeader.DestinationQueue", lambda message: _encode_queue(message.destination)),
)
FIELDS: Final[Mapping[AuthenticationLevel, tuple[tuple[str, _Image], ...]]] = {
    AuthenticationLevel.SIG10: _MSMQ_10,
    AuthenticationLevel.SIG20: _MSMQ_20,
}
"""Fields that a signature covers, in order, with functions for their bytes ([MS-MQMQ] 2.5.1, 2.5.2)."""


def select_signed_bytes(message: Message, level: AuthenticationLevel) -> bytes:
    """Return the bytes to hash for a signature of a level ([MS-MQQB] 3.1.7.1.4).

    Raises:
        ValueError: AuthenticationLevel None, or a queue with a format name that cannot be signed.
    """
    if level not in FIELDS:
        raise ValueError("a message of AuthenticationLevel None has no signature")
    return b"".join(image(message) for _, image in FIELDS[level])
