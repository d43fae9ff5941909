"""Hypothesis strategies for packets of the binary protocol, and the frames that Microsoft prints."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from mqdssm.model.packets import (
    HOPS_MAX,
    ConnectionParameters,
    DebugHeader,
    EstablishConnection,
    FinalAck,
    FormatNameElement,
    FormatNameType,
    MultiQueueFormatHeader,
    OrderAck,
    Packet,
    PacketQueue,
    Ping,
    PrivateQueueName,
    QueueForm,
    SecurityHeader,
    SessionAck,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
    UserPacket,
)
from mqdssm.model.transport import Acknowledgements, DeliveryGuarantee, MessageId, SenderIdentifierType
from support.replication.strategies import GUIDS, TEXT, U32

FRAMES: dict[str, bytes] = {
    vector["id"]: bytes.fromhex(vector["hex"])
    for vector in json.loads(
        (Path(__file__).parents[2] / "vectors" / "packets.json").read_text(encoding="utf-8")
    )
}
"""Frames 1 to 8 of [MS-MQQB] 4.1; the end of frame 7 is completed (tests/vectors/sources.md)."""
PINGS_PRINTED = [FRAMES["mqqb-frame1-ping-request"], FRAMES["mqqb-frame2-ping-response"]]
PACKETS_PRINTED = [image for name, image in FRAMES.items() if "ping" not in name]

U8, U16, U64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 64))
SOME_BYTES = st.binary(max_size=9)
HOSTED = st.builds(PrivateQueueName, queue_manager=GUIDS, number=U32)
FORMS: dict[QueueForm, st.SearchStrategy[Any]] = {
    QueueForm.NONE: st.none(),
    QueueForm.SAME_AS_ADMIN: st.none(),
    QueueForm.PRIVATE_ON_SOURCE: U32,
    QueueForm.PRIVATE_ON_DESTINATION: U32,
    QueueForm.PRIVATE_ON_ADMIN_HOST: U32,
    QueueForm.PUBLIC: GUIDS,
    QueueForm.PRIVATE: HOSTED,
    QueueForm.DIRECT: TEXT,
}


def queues(*forms: int) -> st.SearchStrategy[PacketQueue]:
    """Queues in these forms."""
    return st.sampled_from([QueueForm(form) for form in forms]).flatmap(
        lambda form: st.builds(PacketQueue, st.just(form), FORMS[form])
    )


SESSION_HEADERS = st.builds(
    SessionHeader,
    ack_sequence_number=U16,
    recoverable_ack_sequence_number=U16,
    recoverable_ack_flags=U32,
    user_message_sequence_number=U16,
    recoverable_message_sequence_number=U16,
    window_size=st.integers(1, 2**16 - 1),
)
TRANSACTION_HEADERS = st.builds(
    TransactionHeader,
    sequence_id=U64,
    sequence_number=st.integers(1, 2**32 - 1),
    previous_sequence_number=st.integers(0, 2**32 - 2),
    transaction_id=st.integers(0, 2**20 - 1),
    needs_final_ack=st.booleans(),
    is_first=st.booleans(),
    is_last=st.booleans(),
    connector=st.none() | GUIDS,
)
SECURITY_HEADERS = st.builds(
    SecurityHeader,
    sender_type=st.sampled_from([SenderIdentifierType.SID, SenderIdentifierType.QUEUE_MANAGER]),
    is_encrypted=st.booleans(),
    has_default_provider=st.booleans(),
    has_security_data=st.booleans(),
    sender=SOME_BYTES,
    encryption_key=SOME_BYTES,
    signature=SOME_BYTES,
    certificate=SOME_BYTES,
    provider_info=SOME_BYTES,
)
ELEMENTS = st.one_of(
    st.builds(FormatNameElement, st.just(FormatNameType.PUBLIC), GUIDS),
    st.builds(FormatNameElement, st.just(FormatNameType.PRIVATE), HOSTED),
    st.builds(FormatNameElement, st.just(FormatNameType.DIRECT), TEXT),
    st.builds(FormatNameElement, st.just(FormatNameType.DISTRIBUTION_LIST), GUIDS),
)
LISTS = st.lists(ELEMENTS, max_size=4).map(tuple)
MULTI_QUEUE_FORMAT_HEADERS = st.builds(
    MultiQueueFormatHeader, destination=LISTS, administration=LISTS, response=LISTS, signature=SOME_BYTES
)
ALLOCATED = st.tuples(SOME_BYTES, st.binary(max_size=3))


@st.composite
def user_packets(draw: st.DrawFn) -> UserPacket:
    """UserMessage packets with any of the optional headers."""
    body, spare = draw(ALLOCATED)
    transaction = draw(st.none() | TRANSACTION_HEADERS)
    debug = draw(st.none() | st.builds(DebugHeader, queue=st.none() | GUIDS))
    return UserPacket(
        priority=0 if transaction else draw(st.integers(0, 7)),
        is_traced=debug is not None and draw(st.booleans()),
        time_to_reach_queue_s=draw(U32),
        source_queue_manager=draw(GUIDS),
        queue_manager_address=draw(GUIDS),
        time_to_be_received_s=draw(U32),
        sent_time=draw(U32),
        message_id=draw(U32),
        hop_count=draw(st.integers(0, HOPS_MAX)),
        delivery=DeliveryGuarantee.RECOVERABLE if transaction else draw(st.sampled_from(DeliveryGuarantee)),
        negative_journaling=draw(st.booleans()),
        positive_journaling=draw(st.booleans()),
        destination_queue=draw(queues(0, 3, 5, 7)),
        admin_queue=draw(queues(0, 2, 3, 5, 6, 7)),
        response_queue=draw(queues(*QueueForm)),
        connector_type=draw(st.none() | GUIDS),
        transaction=transaction,
        security=draw(st.none() | SECURITY_HEADERS),
        acknowledgements=draw(st.integers(0, 15).map(Acknowledgements)),
        message_class=draw(U16),
        correlation_id=draw(st.builds(MessageId, GUIDS, U32)),
        body_type=draw(U32),
        application_tag=draw(U32),
        message_size=len(body),
        privacy_level=draw(U32),
        hash_algorithm=draw(U32),
        encryption_algorithm=draw(U32),
        label=draw(TEXT),
        extension_data=draw(SOME_BYTES),
        allocated_body=body + spare,
        debug=debug,
        soap=draw(st.none() | st.builds(SoapHeader, header=TEXT, body=TEXT)),
        multi_queue_format=draw(st.none() | MULTI_QUEUE_FORMAT_HEADERS),
        session=draw(st.none() | SESSION_HEADERS),
        reserved=draw(U8),
    )


INTERNAL_PACKETS: st.SearchStrategy[Packet] = st.one_of(
    st.builds(
        EstablishConnection,
        client_guid=GUIDS,
        server_guid=GUIDS,
        time_stamp=U32,
        is_ping_skipped=st.booleans(),
        is_server_class=st.booleans(),
        is_refused=st.booleans(),
        has_quality_of_service=st.booleans(),
        reserved=U8,
    ),
    st.builds(
        ConnectionParameters,
        recoverable_ack_timeout_ms=st.integers(500, 120_000),
        ack_timeout_ms=st.integers(20_000, 120_000),
        window_size=U16,
        is_refused=st.booleans(),
        reserved=U8,
    ),
    st.builds(SessionAck, session=SESSION_HEADERS, reserved=U8),
)
PACKETS: st.SearchStrategy[Packet] = INTERNAL_PACKETS | user_packets()
PINGS = st.builds(
    Ping,
    queue_manager=GUIDS,
    cookie=U32,
    is_client_class=st.booleans(),
    is_refused=st.booleans(),
    reserved=st.integers(0, 2**14 - 1),
)
_SEQUENCE = {
    "sequence_id": U64,
    "sequence_number": st.integers(1, 2**32 - 1),
    "previous_sequence_number": st.integers(0, 2**32 - 2),
}
ORDER_ACKS = st.builds(OrderAck, **_SEQUENCE)
FINAL_ACKS = st.builds(FinalAck, **_SEQUENCE, message=st.builds(MessageId, GUIDS, U32))
