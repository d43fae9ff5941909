"""Connections that are cut anywhere, hostile peers, and a client without our code ([MS-MQQB] 3.1.5)."""

import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support.replication.queue_managers import guid_of, received, signed, wait_until
from support.replication.tcp_machines import CuttingProxy, TcpMachines

from mqdssm.drivers.transport import NOTIFICATION, REPLICATION
from mqdssm.model.names import parse_format_name
from mqdssm.model.transport import (
    INFINITE,
    Acknowledgements,
    Message,
    notification_queue,
    replication_queue,
)

RIGHT = replication_queue("RIGHT")
OWN = bytes(range(16))
BASE = struct.Struct("<BBHIII")
SIGNATURE = 0x524F494C


@pytest.fixture
def machines(tmp_path):
    made = TcpMachines(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(2))
def test_cut_connections_lose_nothing_and_repeat_nothing(machines, seed):
    left, right = machines.add("LEFT"), machines.add("RIGHT")
    chance = random.Random(seed)
    cuts = [chance.randrange(1, 700) for _ in range(6)] + [chance.randrange(600, 9000) for _ in range(6)]
    proxy = CuttingProxy(machines.networks["RIGHT"].address, cuts)
    with proxy as address:
        machines.know("RIGHT", address)
        inbox = right.open(REPLICATION)
        for number in range(150):
            left.send(signed("LEFT", b"%d" % number), RIGHT)
        bodies = [int(received(inbox).body) for _ in range(150)]
        assert sorted(bodies) == list(range(150))
        assert inbox.receive(0.1) is None, "nothing comes twice"
    assert proxy.connections > 8
    assert machines.networks["LEFT"].counts.seen().get("defect") is None


# --- a client of raw sockets: [MS-MQQB] 2.2 and [MS-MQMQ] 2.2.19 by struct alone


class Client:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        connection.settimeout(5)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> bytes:
        """One packet."""
        head = self._exactly(16)
        version, _, _, signature, size, _ = BASE.unpack(head)
        assert (version, signature) == (0x10, SIGNATURE)
        return head + self._exactly(size - 16)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            assert piece, "the peer has closed the connection"
            data += piece
        return data

    def is_closed(self) -> bool:
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def establish(self, server: bytes = bytes(16)) -> bytes:
        body = OWN + server + struct.pack("<IHH", 1234, 0x0310, 0) + bytes(512)
        self.send(packet(0x0B, struct.pack("<HH", 0, 2) + body))
        return self.read()

    def open(self) -> None:
        assert self.establish()[16:20] == struct.pack("<HH", 0, 2)
        self.send(packet(0x0B, struct.pack("<HHIIHH", 0, 3, 500, 20_000, 0, 64)))
        reply = self.read()
        assert reply[18:20] == b"\x03\0"
        assert struct.unpack_from("<II", reply, 20) == (500, 20_000)


def packet(flags: int, rest: bytes) -> bytes:
    return BASE.pack(0x10, 0, flags, SIGNATURE, 16 + len(rest), 0xFFFF_FFFF) + rest


def user_packet(number: int, body: bytes) -> bytes:
    name = "OS:right\\private$\\notify_queue$\0".encode("utf-16-le")
    queue = struct.pack("<H", len(name)) + name
    user = OWN + bytes(16) + struct.pack("<IIII", 0xFFFF_FFFF, 1_700_000_000, number, 0x0020_1C00) + queue
    user += bytes(-len(user) % 4)
    properties = struct.pack("<BBH20xIIIIIIII", 0, 0, 0, 0, 0, len(body), len(body), 0, 0x8003, 0x6801, 0)
    properties += body
    return packet(3, user + properties + bytes(-len(properties) % 4))


@contextmanager
def client(machines, name: str) -> Iterator[Client]:
    with socket.create_connection(machines.networks[name].address, timeout=5) as connection:
        yield Client(connection)


def test_a_client_without_our_code_has_a_session(machines):
    inbox = machines.add("RIGHT").open(NOTIFICATION)
    with client(machines, "RIGHT") as peer:
        peer.open()
        for number in range(32):
            peer.send(user_packet(number, b"body %d" % number))
        assert [received(inbox).body for _ in range(32)] == [b"body %d" % number for number in range(32)]
        ack = peer.read()
        assert struct.unpack_from("<HHHHIHHH", ack, 16) == (0, 1, 32, 0, 0, 0, 0, 64)
        peer.send(user_packet(31, b"again"))
        peer.send(user_packet(32, b"new"))
        assert received(inbox).body == b"new"


def test_a_session_for_another_queue_manager_is_refused(machines):
    machines.add("RIGHT")
    with client(machines, "RIGHT") as peer:
        reply = peer.establish(server=b"x" * 16)
        assert reply[16:20] == struct.pack("<HH", 0, 0x12)
        assert peer.is_closed()


CLAIM = BASE.pack(0x10, 0, 3, SIGNATURE, 4 << 20, 0xFFFF_FFFF)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        BASE.pack(0x10, 0, 3, SIGNATURE, 0xFFFF_FFFF, 0),
        CLAIM + bytes(4096),
        packet(0x0B, struct.pack("<HHIIHH", 0, 3, 500, 20_000, 0, 64)),
        user_packet(1, b"before the session"),
    ],
    ids=["http", "4 GiB", "4 MiB before the session", "wrong state", "message before the session"],
)
def test_hostile_bytes_close_their_connection_alone(machines, data):
    left, right = machines.add("LEFT"), machines.add("RIGHT")
    inbox = right.open(REPLICATION)
    left.send(signed("LEFT", b"one"), RIGHT)
    assert received(inbox).body == b"one"
    with client(machines, "RIGHT") as peer:
        peer.send(data)
        assert peer.is_closed()
    left.send(signed("LEFT", b"two"), RIGHT)
    assert received(inbox).body == b"two"
    assert machines.networks["LEFT"].counts.seen()["session opened"] == 1


def test_random_bytes(machines):
    inbox = machines.add("RIGHT").open(NOTIFICATION)
    chance = random.Random(1)
    good = user_packet(1, b"good")
    for _ in range(40):
        with client(machines, "RIGHT") as peer:
            peer.open()
            damaged = bytearray(good)
            for _ in range(chance.randrange(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            peer.send(bytes(damaged))
    while inbox.receive(0.2) is not None:
        pass
    with client(machines, "RIGHT") as peer:
        peer.open()
        peer.send(user_packet(1 << 30, b"still there"))
        wait_until(lambda: (arrival := inbox.receive(0.1)) and arrival.message.body == b"still there")
    assert machines.networks["RIGHT"].counts.seen().get("defect") is None


def test_half_open_connections_are_bounded(machines):
    right = machines.add("RIGHT", connections_of_address_max=5)
    inbox = right.open(NOTIFICATION)
    peers = [socket.create_connection(machines.networks["RIGHT"].address) for _ in range(20)]
    wait_until(lambda: machines.networks["RIGHT"].counts.seen().get("refused: too many connections") == 15)
    for peer in peers:
        peer.close()
    time.sleep(0.1)
    with client(machines, "RIGHT") as one:
        one.open()
        one.send(user_packet(1, b"x"))
        assert received(inbox).body == b"x"


def test_octets_of_incomplete_packets_are_bounded(machines):
    left, right = machines.add("LEFT"), machines.add("RIGHT", pending_bytes_max=500_000)
    inbox = right.open(NOTIFICATION)
    left.send(Message(body=b"one"), notification_queue(guid_of("RIGHT")))
    assert received(inbox).body == b"one"
    with client(machines, "RIGHT") as first, client(machines, "RIGHT") as other:
        for peer, octets in ((first, 400_000), (other, 200_000)):
            peer.open()
            peer.send(CLAIM + bytes(octets))
        assert first.is_closed(), "the one with the most"
        left.send(Message(body=b"two"), notification_queue(guid_of("RIGHT")))
        assert received(inbox).body == b"two"


def test_acknowledgements_for_strangers_leave_room_for_own_messages(machines):
    left = machines.add("LEFT", neighbors_max=4, flush_s=0.1)
    inbox = machines.add("RIGHT").open(NOTIFICATION)
    asking = replace(
        Message(acknowledgements=Acknowledgements.NACK_REACH_QUEUE, time_to_reach_queue_s=INFINITE),
        destination=parse_format_name(r"DIRECT=OS:LEFT\private$\nowhere"),
    )
    for number in range(10):
        unreachable = parse_format_name(rf"DIRECT=TCP:127.9.0.{number + 1}\private$\q")
        left.offer([replace(asking, administration_queue=unreachable)])
    wait_until(lambda: left.counts.seen().get("refused: NACK_BAD_DEST_QUEUE") == 10)
    left.send(Message(body=b"ours"), notification_queue(guid_of("RIGHT")))
    assert received(inbox).body == b"ours"
