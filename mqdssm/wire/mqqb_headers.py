"""Headers of packets: the beginning of each one, and the optional headers.

See [MS-MQMQ] 2.2.19.1 and 2.2.20.
"""

from dataclasses import dataclass
from typing import Final

from mqdssm.model import packets
from mqdssm.model.transport import MessageId, SenderIdentifierType
from mqdssm.wire.codecs import BIT, GUID_PACKET, U8, U16, U32, U64, enum_of, unsigned
from mqdssm.wire.fields import (
    Align,
    Bytes,
    ByteSize,
    Const,
    FieldError,
    Flag,
    Ignored,
    Text16,
    TotalSize,
    Value,
    bits,
    header,
    when,
)
from mqdssm.wire.layout import Layout
from mqdssm.wire.queue_names import FORMAT_NAMES

VERSION: Final = 0x10
"""BaseHeader.VersionNumber ([MS-MQMQ] 2.2.19.1)."""
SIGNATURE: Final = 0x524F494C
"""BaseHeader.Signature ([MS-MQMQ] 2.2.19.1)."""
BASE_HEADER_BYTES: Final = 16
PACKET_SIZE_AT: Final = 8
"""Offset of BaseHeader.PacketSize ([MS-MQMQ] 2.2.19.1)."""
INTERNAL_PACKET_BYTES_MAX: Final = 572
"""Size of the longest internal packet, EstablishConnection ([MS-MQQB] 2.2.3)."""
PRESENT: Final = unsigned(1)
"""A bit that announces a header or a field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketStart:
    """Size and kind of a packet, by its BaseHeader alone ([MS-MQMQ] 2.2.19.1)."""

    is_internal: bool
    has_session_header: bool
    packet_size: int

    def __post_init__(self) -> None:
        if self.is_internal and self.packet_size > INTERNAL_PACKET_BYTES_MAX:
            problem = f"is {self.packet_size}, at most {INTERNAL_PACKET_BYTES_MAX} in an internal packet"
            raise FieldError("packet_size", problem)

    @property
    def total_bytes(self) -> int:
        """Size of the packet with its SessionHeader (decision T2).

        PacketSize leaves that header out.
        """
        is_trailing = self.has_session_header and not self.is_internal
        return self.packet_size + (SESSION_HEADER.least if is_trailing else 0)


BASE_HEADER: Final = Layout(
    PacketStart,
    "[MS-MQMQ] 2.2.19.1",
    Const("VersionNumber", U8, VERSION),
    Ignored("Reserved", U8),
    bits(
        "Flags",
        U16,
        Ignored("PR", unsigned(3)),
        Value("is_internal", BIT, "IN"),
        Value("has_session_header", BIT, "SH"),
        Ignored("DH", unsigned(1)),
        Ignored("X9-X8", unsigned(2)),
        Ignored("TR", unsigned(1)),
        Ignored("X6-X0", unsigned(7)),
    ),
    Const("Signature", U32, SIGNATURE),
    Value("packet_size", U32, "PacketSize", low=BASE_HEADER_BYTES, high=packets.PACKET_BYTES_MAX),
    Ignored("TimeToReachQueue", U32),
)

SESSION_HEADER: Final = Layout(
    packets.SessionHeader,
    "[MS-MQMQ] 2.2.20.4",
    Value("ack_sequence_number", U16, "AckSequenceNumber"),
    Value("recoverable_ack_sequence_number", U16, "RecoverableMsgAckSeqNumber"),
    Value("recoverable_ack_flags", U32, "RecoverableMsgAckFlags"),
    Value("user_message_sequence_number", U16, "UserMsgSequenceNumber"),
    Value("recoverable_message_sequence_number", U16, "RecoverableMsgSeqNumber"),
    Value("window_size", U16, "WindowSize", low=1),
    Ignored("Reserved", U16),
)


MESSAGE_IDENTIFIER: Final = Layout(
    MessageId,
    "[MS-MQMQ] 2.2.18.1.3",
    Value("source", GUID_PACKET, "QueueManagerGuid"),
    Value("number", U32, "Ordinal"),
)

TRANSACTION_HEADER: Final = Layout(
    packets.TransactionHeader,
    "[MS-MQMQ] 2.2.20.5",
    bits(
        "Flags",
        U32,
        Flag("connector", PRESENT, "CG"),
        Value("needs_final_ack", BIT, "FA"),
        Value("is_first", BIT, "FM"),
        Value("is_last", BIT, "LM"),
        Value("transaction_id", unsigned(20), "ID"),
        Ignored("X1-X8", unsigned(8)),
    ),
    Value("sequence_id", U64, "TxSequenceID"),
    Value("sequence_number", U32, "TxSequenceNumber", low=1),
    Value("previous_sequence_number", U32, "PreviousTxSequenceNumber", high=0xFFFF_FFFE),
    when("connector", Value("connector", GUID_PACKET, "ConnectorQMGuid")),
)

SECURITY_HEADER: Final = Layout(
    packets.SecurityHeader,
    "[MS-MQMQ] 2.2.20.6",
    bits(
        "Flags",
        U16,
        Value("sender_type", enum_of(unsigned(4), SenderIdentifierType), "ST"),
        Ignored("AU", unsigned(1)),
        Value("is_encrypted", BIT, "EB"),
        Value("has_default_provider", BIT, "DE"),
        Value("has_security_data", BIT, "AI"),
        Ignored("AS", unsigned(4)),
        Ignored("X12-X15", unsigned(4)),
    ),
    ByteSize("sender", U16, "SenderIdSize"),
    ByteSize("encryption_key", U16, "EncryptionKeySize"),
    ByteSize("signature", U16, "SignatureSize"),
    ByteSize("certificate", U32, "SenderCertSize", high=0xFFFF),
    ByteSize("provider_info", U32, "ProviderInfoSize"),
    Bytes("sender", "SecurityID"),
    Align(4),
    Bytes("encryption_key", "EncryptionKey"),
    Align(4),
    Bytes("signature", "Signature"),
    Align(4),
    Bytes("certificate", "SenderCert"),
    Align(4),
    Bytes("provider_info", "ProviderInfo"),
    Align(4),
)

DEBUG_HEADER: Final = Layout(
    packets.DebugHeader,
    "[MS-MQMQ] 2.2.20.8",
    bits("Flags", U16, Flag("queue", unsigned(2), "QT"), Ignored("X2-X15", unsigned(14))),
    Ignored("Reserved", U16),
    when("queue", Value("queue", GUID_PACKET, "QueueIdentifier")),
)

SOAP_HEADER: Final = Layout(
    packets.SoapHeader,
    "[MS-MQMQ] 2.2.20.7",
    Const("HeaderSectionID", U16, 0x0320),
    Ignored("Reserved", U16),
    ByteSize("header", U32, "HeaderDataLength", unit=2),
    Text16("header", "Header", omitted=True),
    Const("BodySectionID", U16, 0x0384),
    Ignored("Reserved1", U16),
    ByteSize("body", U32, "BodyDataLength", unit=2),
    Text16("body", "Body", omitted=True),
    Align(4),  # decision T8
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressHeader:
    """MQFAddressHeader: one of the three lists of queues ([MS-MQMQ] 2.2.20.2)."""

    names: tuple[packets.FormatNameElement, ...] = ()


def _make_address_header(number: int) -> Layout[AddressHeader]:
    return Layout(
        AddressHeader,
        "[MS-MQMQ] 2.2.20.2",
        TotalSize("HeaderSize", U32),
        Const("HeaderID", U16, number),
        Ignored("Reserved", U16),
        Value("names", FORMAT_NAMES, "FormatNameList"),
    )


@dataclass(frozen=True, slots=True)
class QueueList:
    """Codec of an MQFAddressHeader: the tuple of its queues ([MS-MQMQ] 2.2.20.2)."""

    layout: Layout[AddressHeader]

    @property
    def least(self) -> int:
        """Size of the shortest header in bytes."""
        return self.layout.least

    def read(
        self, data: bytes, offset: int, end: int, _section: str, _field: str
    ) -> tuple[tuple[packets.FormatNameElement, ...], int]:
        """Decode the header and the padding behind it.

        Raises:
            DecodeError: when it is wrong or does not fit before `end`.
        """
        address, behind = self.layout.read(data, offset, end)
        return address.names, min(end, behind + -behind % 4)

    def write(self, value: tuple[packets.FormatNameElement, ...]) -> bytes:
        """Encode the header.

        Raises:
            ValueError: a queue that cannot be encoded.
        """
        return self.layout.encode(AddressHeader(names=value))


MULTI_QUEUE_FORMAT_HEADER: Final = Layout(
    packets.MultiQueueFormatHeader,
    "[MS-MQMQ] 2.2.20.1",
    Value("destination", QueueList(_make_address_header(0x0064)), "Destination"),
    Value("administration", QueueList(_make_address_header(0x00C8)), "Administration"),
    Value("response", QueueList(_make_address_header(0x012C)), "Response"),
    *header(
        "Signature",  # 2.2.20.3
        Const("ID", U16, 0x015E),
        Ignored("Reserved", U16),
        ByteSize("signature", U32, "Size"),
        Bytes("signature", "Signature"),
    ),
    Align(4),
)
