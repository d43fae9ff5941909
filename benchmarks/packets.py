"""Encoding and decoding a packet of a session: [packet-codec]."""

from typing import Any, Final

from benchmarks.codec import BATCH, TYPICAL, faster_form
from benchmarks.harness import Goal, Outcome, Skipped, interleaved
from benchmarks.world import World
from mqdssm.model.guid import Guid
from mqdssm.model.packets import PacketQueue, QueueForm, SecurityHeader, UserPacket
from mqdssm.model.transport import Acknowledgements, SenderIdentifierType
from mqdssm.wire.mqdsrp import DIRECTORY_CHANGE
from mqdssm.wire.mqqb import decode_packet, encode_packet

PACKET_CODEC: Final = Goal(
    name="packet-codec",
    title="encoding and decoding the UserMessage packet of a signed replication message, 756 bytes",
    against="the same layout in construct, flags as numbers, the faster of its two forms",
    goal=3,
    direction="at_least",
)
SENDER: Final = Guid(bytes(range(16)))
BODY: Final = DIRECTORY_CHANGE.encode(TYPICAL)
PACKET: Final = UserPacket(
    source_queue_manager=SENDER,
    sent_time=1_700_000_000,
    message_id=4_711,
    destination_queue=PacketQueue(QueueForm.DIRECT, "OS:PEC01\\private$\\mqis_queue$"),
    admin_queue=PacketQueue(QueueForm.PRIVATE_ON_SOURCE, 1),
    security=SecurityHeader(
        sender_type=SenderIdentifierType.QUEUE_MANAGER,
        has_default_provider=True,
        sender=bytes(SENDER),
        signature=bytes(128),
    ),
    acknowledgements=Acknowledgements.FULL_REACH_QUEUE,
    label="replication",
    message_size=len(BODY),
    allocated_body=BODY,
)


def construct_layout() -> Any:
    """The headers as construct's users would declare them, for packets of this form.

    It is given what it is good at: flags stay numbers, GUIDs and texts bytes.

    Raises:
        Skipped: construct is not installed.
    """
    try:
        import construct as c
    except ImportError:
        raise Skipped("packet-codec: construct is not installed") from None
    properties = c.Struct(
        "Flags" / c.Int8ul,
        "LabelLength" / c.Int8ul,
        "MessageClass" / c.Int16ul,
        "CorrelationID" / c.Bytes(20),
        "BodyType" / c.Int32ul,
        "ApplicationTag" / c.Int32ul,
        "MessageSize" / c.Int32ul,
        "AllocationBodySize" / c.Int32ul,
        "PrivacyLevel" / c.Int32ul,
        "HashAlgorithm" / c.Int32ul,
        "EncryptionAlgorithm" / c.Int32ul,
        "ExtensionSize" / c.Int32ul,
        "Label" / c.Bytes(c.this.LabelLength * 2),
        "ExtensionData" / c.Bytes(c.this.ExtensionSize),
        "MessageBody" / c.Bytes(c.this.AllocationBodySize),
    )
    security = c.Struct(
        "Flags" / c.Int16ul,
        "SenderIdSize" / c.Int16ul,
        "EncryptionKeySize" / c.Int16ul,
        "SignatureSize" / c.Int16ul,
        "SenderCertSize" / c.Int32ul,
        "ProviderInfoSize" / c.Int32ul,
        "SecurityID" / c.Aligned(4, c.Bytes(c.this.SenderIdSize)),
        "EncryptionKey" / c.Aligned(4, c.Bytes(c.this.EncryptionKeySize)),
        "Signature" / c.Aligned(4, c.Bytes(c.this.SignatureSize)),
        "SenderCert" / c.Aligned(4, c.Bytes(c.this.SenderCertSize)),
        "ProviderInfo" / c.Aligned(4, c.Bytes(c.this.ProviderInfoSize)),
    )
    return c.Struct(
        "VersionNumber" / c.Const(0x10, c.Int8ul),
        "Reserved" / c.Int8ul,
        "BaseFlags" / c.Int16ul,
        "BaseSignature" / c.Const(0x524F494C, c.Int32ul),
        "PacketSize" / c.Int32ul,
        "TimeToReachQueue" / c.Int32ul,
        "SourceQueueManager" / c.Bytes(16),
        "QueueManagerAddress" / c.Bytes(16),
        "TimeToBeReceived" / c.Int32ul,
        "SentTime" / c.Int32ul,
        "MessageID" / c.Int32ul,
        "Flags" / c.Int32ul,
        "DestinationQueue"
        / c.Switch(
            c.this.Flags >> 10 & 7,
            {3: c.Int32ul, 5: c.Bytes(16), 7: c.Aligned(4, c.Prefixed(c.Int16ul, c.GreedyBytes))},
        ),
        "AdminQueue" / c.Switch(c.this.Flags >> 13 & 7, {2: c.Int32ul, 3: c.Int32ul, 5: c.Bytes(16)}),
        "ResponseQueue" / c.Switch(c.this.Flags >> 16 & 7, {2: c.Int32ul, 3: c.Int32ul, 5: c.Bytes(16)}),
        "Security" / c.If(c.this.Flags & 0x80000, security),
        "Properties" / c.Aligned(4, properties),
    )


def packet_codec(world: World | None, *, quick: bool) -> Outcome:
    """Encode and decode the same packet on both sides; the directory is not needed."""
    del world
    image, layout = encode_packet(PACKET), construct_layout()
    values = layout.parse(image)
    if layout.build(values) != image or decode_packet(image) != PACKET:
        raise AssertionError("the two layouts are not the same")
    construct_form = faster_form(layout, image, values)
    batch = BATCH // 10 if quick else BATCH

    def ours() -> None:
        for _ in range(batch):
            decode_packet(encode_packet(PACKET))

    def theirs() -> None:
        build, parse = construct_form.build, construct_form.parse
        for _ in range(batch):
            parse(build(values))

    return interleaved(ours, theirs, 3 if quick else 15).speed(PACKET_CODEC, batch, "packets")


ROWS: Final = {PACKET_CODEC: packet_codec}
