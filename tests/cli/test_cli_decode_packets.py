"""``mqdssm decode`` for packets of queue managers and for captures of their sessions."""

import pytest
from support.notification.strategies import IMAGES
from support.packets.captures import RST, CapturedConnection, pcap_of, pcapng_of
from support.packets.strategies import FRAMES

from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.messages import AlreadyPurgedMessage
from mqdssm.model.packets import (
    FormatNameElement,
    FormatNameType,
    MultiQueueFormatHeader,
    PacketQueue,
    QueueForm,
    UserPacket,
)
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.wire import mqdsrp
from mqdssm.wire.mqqb import encode_packet

PURGED = mqdsrp.encode(
    AlreadyPurgedMessage(site_id=NULL_GUID, partition_id=NULL_GUID, purged_seq_number=SequenceNumber(4096))
)
SOURCE = Guid(b"\xa1" * 16)
REQUEST, RESPONSE = FRAMES["mqqb-frame3-establish-request"], FRAMES["mqqb-frame4-establish-response"]
PARAMETERS, ACK = FRAMES["mqqb-frame5-parameters-request"], FRAMES["mqqb-frame8-session-ack"]
MESSAGE = FRAMES["mqqb-frame7-user-message"]


@pytest.fixture
def file(tmp_path):
    """Writes a file and names it."""

    def write(data):
        path = tmp_path / "captured.bin"
        path.write_bytes(data)
        return str(path)

    return write


def lines(result):
    parts = [line.partition(" ") for line in result.stdout.splitlines()]
    return {name: text.strip() for name, _, text in parts}


def message(queue, body, **fields):
    return encode_packet(
        UserPacket(
            source_queue_manager=SOURCE,
            sent_time=5,
            message_id=7,
            destination_queue=queue,
            message_size=len(body),
            allocated_body=body,
            **fields,
        )
    )


def session(connection=None):
    """A whole session: it is established, one message is sent and acknowledged."""
    connection = (connection or CapturedConnection()).open()
    connection.send(REQUEST).send(RESPONSE, by_server=True)
    connection.send(PARAMETERS).send(PARAMETERS, by_server=True)
    connection.send(MESSAGE).send(ACK, by_server=True)
    return connection.close()


KINDS = ["EstablishConnection"] * 2 + ["ConnectionParameters"] * 2 + ["UserMessage", "SessionAck"]


def test_the_printed_message_field_by_field(alone, file):
    shown = lines(alone("decode", "--kind", "mqqb", file(MESSAGE)))
    assert shown["BaseHeader.PacketSize"] == "2224"
    assert shown["BaseHeader.Flags.PR"] == "3"
    assert shown["UserHeader.Flags.DQ"] == "7 DIRECT"
    assert shown["UserHeader.DestinationQueue"] == "OS:a04bm02\\q"
    assert shown["SecurityHeader.Flags.ST"] == "1 SID"
    assert shown["MessagePropertiesHeader.Label"] == "mqsender label"
    assert shown["MessagePropertiesHeader.CorrelationID.Ordinal"] == "0"
    assert shown["MessagePropertiesHeader.MessageBody"].endswith("… (2000 bytes)")
    document = alone.json("decode", "--kind", "mqqb", file(MESSAGE))
    assert list(document) == ["BaseHeader", "UserHeader", "SecurityHeader", "MessagePropertiesHeader"]
    assert document["MessagePropertiesHeader"]["Flags"] == {"PA-NR": 15, "X": 0}


@pytest.mark.parametrize(
    ("queue", "body", "field", "value"),
    [
        (PacketQueue(QueueForm.DIRECT, "OS:PEC\\PRIVATE$\\mqis_queue$"), PURGED, "PurgedSeqNumber", 4096),
        (PacketQueue(QueueForm.PRIVATE_ON_DESTINATION, 1), PURGED, "PurgedSeqNumber", 4096),
        (PacketQueue(QueueForm.PRIVATE_ON_DESTINATION, 3), IMAGES["queue-changed"] + b"\0", "Version", 2),
    ],
    ids=["direct", "replication", "notification"],
)
def test_bodies_of_our_protocols_are_structures(alone, file, queue, body, field, value):
    document = alone.json("decode", "--kind", "mqqb", file(message(queue, body)))
    assert document["MessagePropertiesHeader"]["MessageBody"][field] == value
    shown = lines(alone("decode", "--kind", "mqqb", file(message(queue, body))))
    assert f"MessagePropertiesHeader.MessageBody.{field}" in shown


def test_a_damaged_body_and_a_damaged_packet(alone, file):
    queue = PacketQueue(QueueForm.PRIVATE_ON_DESTINATION, 1)
    result = alone("decode", "--kind", "mqqb", file(message(queue, PURGED[:-1])), code=1)
    assert "[MC-MQDSRP] 2.2.6.8 PurgedSeqNumber" in result.stderr
    assert "MessagePropertiesHeader.MessageBody.PartitionID" in result.stdout
    cut = alone("decode", "--kind", "mqqb", file(MESSAGE[:100]), code=1)
    assert "BaseHeader.PacketSize" in cut.stderr
    assert "BaseHeader.Flags.PR" in cut.stdout
    foreign = alone("decode", "--kind", "mqqb", file(b"GET / HTTP/1.1\r\n\r\n"), code=1)
    assert "VersionNumber at offset 0" in foreign.stderr


def test_a_list_of_queues_is_named(alone, file):
    queues = MultiQueueFormatHeader(destination=(FormatNameElement(FormatNameType.DIRECT, "OS:a\\b"),))
    image = message(PacketQueue(QueueForm.NONE), b"", multi_queue_format=queues)
    document = alone.json("decode", "--kind", "mqqb", file(image))
    assert document["MultiQueueFormatHeader"]["Destination"] == ["DIRECT=OS:a\\b"]


@pytest.mark.parametrize("write", [pcap_of, pcapng_of])
@pytest.mark.parametrize("server", ["10.0.0.2", "fd00::2"])
def test_a_capture_of_a_session(alone, file, write, server):
    client = "10.0.0.1" if "." in server else "fd00::1"
    capture = file(write(session(CapturedConnection(client, server)).frames))
    items = alone.json("decode", "--pcap", capture)
    assert [item["packet"] for item in items] == KINDS
    assert {item["session"] for item in items} == {1}
    assert all(item["error"] is None for item in items)
    assert items[4]["fields"]["MessagePropertiesHeader"]["Label"] == "mqsender label"
    ends = ["10.0.0.1:40000", "10.0.0.2:1801"] if "." in server else ["[fd00::1]:40000", "[fd00::2]:1801"]
    assert [items[0]["source"], items[0]["destination"]] == ends
    assert items[0]["time"].startswith("2023-11-14T22:13:20.")
    people = alone("decode", "--pcap", capture)
    assert people.stdout.count("session 1") == len(KINDS)
    assert "1 sessions, 6 packets, 0 problems" in people.stderr


def test_segments_out_of_order_twice_and_of_several_sessions(alone, file):
    first, second = session(), session(CapturedConnection(client_port=40_001))
    frames = [frame for pair in zip(first.frames, second.frames, strict=True) for frame in pair]
    at = next(n for n, frame in enumerate(frames) if len(frame) > 1_000)
    frames[at], frames[at + 2] = frames[at + 2], frames[at]  # the message of the first session
    frames.insert(at + 6, frames[at])
    items = alone.json("decode", "--pcap", file(pcap_of(frames)))
    for number in (1, 2):
        assert [item["packet"] for item in items if item["session"] == number] == KINDS


def test_what_is_lost_or_damaged_is_named(alone, file):
    lost = session()
    del lost.frames[next(n for n, frame in enumerate(lost.frames) if len(frame) > 1_000)]
    broken = CapturedConnection(client_port=40_001).open().send(REQUEST).send(b"\xff" * 20)
    broken.segment(1, RST)
    damaged = CapturedConnection(client_port=40_002).open().send(MESSAGE[:62] + b"\0" + MESSAGE[63:]).close()
    frames = [*lost.frames, *broken.frames, *damaged.frames, b"short"]
    result = alone("decode", "--pcap", file(pcap_of(frames)), "-o", "json", code=1)
    items = alone.json("decode", "--pcap", file(pcap_of(frames)), code=1)
    problems = {item["session"]: item["error"] for item in items if item["error"]}
    assert "bytes of an incomplete packet" in problems[1]
    assert "VersionNumber at offset 0: is 255" in problems[2]
    assert "UserHeader.Flags.MP" in problems[3]
    (packet,) = [item for item in items if item["session"] == 3]
    assert packet["fields"]["UserHeader"]["MessageID"] == 2286, "the fields before the damage"
    assert "Traceback" not in result.stderr
    assert "1 unreadable frames" in alone("decode", "--pcap", file(pcap_of(frames)), code=1).stderr


def test_a_time_that_is_none_makes_a_frame_unreadable(alone, file):
    data = file(pcapng_of(session().frames[:3], begun_us=(1 << 64) - 1_000))
    assert "3 unreadable frames" in alone("decode", "--pcap", data).stderr


def test_another_port(alone, file):
    capture = file(pcap_of(session(CapturedConnection(server_port=11_801)).frames))
    assert alone.json("decode", "--pcap", capture) == []
    assert len(alone.json("decode", "--pcap", "--port", "11801", capture)) == len(KINDS)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no capture in the format pcap or pcapng"),
        (b"not a capture at all, but a text", "no capture in the format pcap or pcapng"),
        (pcap_of([], link_type=147), "its link type is 147"),
        (pcap_of([b"x"])[:24] + b"\0" * 8 + b"\xff" * 8, "a frame claims 4294967295 bytes"),
        (b"\x0a\x0d\x0d\x0a" + b"\xff" * 30, "no capture"),
    ],
    ids=["empty", "text", "wireless", "claim", "pcapng"],
)
def test_files_that_are_no_captures(alone, file, data, problem):
    result = alone("decode", "--pcap", file(data), code=6)
    assert problem in result.stderr
    assert "Traceback" not in result.stderr


def test_kind_or_pcap(alone, file):
    path = file(MESSAGE)
    assert "--kind" in alone("decode", path, code=2).stderr
    assert "leave out --kind" in alone("decode", "--pcap", "--kind", "mqqb", path, code=2).stderr
