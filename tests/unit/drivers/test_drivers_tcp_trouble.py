"""Connections that are cut anywhere, hostile peers, and a client without our code ([MS-MQQB] 3.1.5)."""

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from support.replication.queue_managers import guid_of, received, signed, wait_until
from support.replication.tcp_machines import QUICK, CuttingProxy, TcpMachines
from support.session.raw_client import BASE, SIGNATURE, RawClient, accept, packet, user_packet

from mqdssm.drivers.tcp import peer_recognition
from mqdssm.drivers.tcp.name_resolution import MachineNames
from mqdssm.drivers.tcp.session_connection import PendingBytes, SessionConnection
from mqdssm.drivers.transport import NOTIFICATION, REPLICATION
from mqdssm.model.guid import Guid
from mqdssm.model.names import parse_format_name
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.model.transport import (
    INFINITE,
    Acknowledgements,
    Message,
    notification_queue,
    replication_queue,
)

pytestmark = pytest.mark.slow  # waits for threads and sockets

RIGHT = replication_queue("RIGHT")


@pytest.fixture
def machines(tmp_path):
    made = TcpMachines(tmp_path)
    yield made
    made.close()


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_a_neighbour_that_starts_and_sends_is_connected_at_once(machines):
    """Decision T70: the next attempt would follow three seconds later."""
    sessions = replace(QUICK.sessions, retry_connect_s=0.05, retry_connect_max_s=60.0)
    left = machines.add("LEFT", sessions=sessions)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        machines.know("RIGHT", SocketAddress(*nobody.getsockname()))
    left.open(REPLICATION)  # else the message of RIGHT comes back
    left.send(signed("LEFT", b"waiting"), RIGHT)
    counts = machines.networks["LEFT"].counts
    wait_until(lambda: counts.copy().get("session closed: connection lost", 0) >= 7)
    right = machines.add("RIGHT")
    inbox, before = right.open(REPLICATION), time.monotonic()
    right.send(signed("RIGHT", b"here"), replication_queue("LEFT"))
    assert received(inbox).body == b"waiting"
    assert time.monotonic() - before < 2.5


def heard_from(stack: ExitStack, machines, host: str, identifier: bytes) -> None:
    """Open a session with LEFT from an address, and keep it."""
    here, there = (host, 0), machines.networks["LEFT"].address
    connection = stack.enter_context(socket.create_connection(there, timeout=5, source_address=here))
    RawClient(connection).open(identifier)


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_a_neighbour_that_is_back_at_another_address_is_connected_at_once(machines):
    """Decision T141: the next attempt would follow three seconds later, and later ones after a minute."""
    sessions = replace(QUICK.sessions, retry_connect_s=0.05, retry_connect_max_s=60.0)
    left = machines.add("LEFT", sessions=sessions)
    with socket.create_server(("127.0.0.5", 0)) as nobody:
        machines.know("RIGHT", SocketAddress(*nobody.getsockname()))
    left.send(signed("LEFT", b"waiting"), RIGHT)
    counts = machines.networks["LEFT"].counts
    wait_until(lambda: counts.copy().get("session closed: connection lost", 0) >= 7)
    with ExitStack() as stack:
        inbox, before = machines.add("RIGHT", host="127.0.0.6").open(REPLICATION), time.monotonic()
        heard_from(stack, machines, "127.0.0.6", bytes(range(16)))
        assert received(inbox).body == b"waiting"
        assert time.monotonic() - before < 2.5


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_a_session_with_an_old_address_ends_when_the_neighbour_comes_from_a_new_one(machines, monkeypatch):
    """Decision T141: its peer would acknowledge nothing for twice 20 seconds. A claim alone ends nothing."""
    monkeypatch.setattr(peer_recognition, "LOOK_UP_S", 0.1)
    left, own = machines.add("LEFT"), bytes(guid_of("RIGHT"))
    counts = machines.networks["LEFT"].counts
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.5", 0)))
        machines.know("RIGHT", SocketAddress(*silent.getsockname()))
        left.send(signed("LEFT", b"unanswered"), RIGHT)
        accept(stack.enter_context(silent.accept()[0]), own)
        for number in range(3):
            heard_from(stack, machines, f"127.0.0.{7 + number}", own)
            time.sleep(0.2)
        assert not [what for what in counts.copy() if "closed" in what]
        inbox, before = machines.add("RIGHT", host="127.0.0.6").open(REPLICATION), time.monotonic()
        heard_from(stack, machines, "127.0.0.6", own)
        assert received(inbox).body == b"unanswered"
        assert time.monotonic() - before < 2.5
    assert counts.copy()["session closed: the neighbour has another address"] == 1


class Machines:
    """Directory of machines that have their own names, for `NameResolver`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def find(self, machine: str | Guid) -> MachineNames | None:
        """Return the names of a machine, after a while."""
        time.sleep(0.2)
        for name in self._names:
            if machine in {name.casefold(), guid_of(name)}:
                return MachineNames(name, "", guid_of(name))
        return None


@pytest.mark.spec("MS-MQQB 3.1.5.3.2")
def test_another_machine_at_the_address_of_a_neighbour_gets_no_message(machines):
    """Decision T142: DNS still has the address of RIGHT, which the machine OTHER has got."""
    left, other = machines.add("LEFT", directory=Machines("LEFT", "RIGHT", "OTHER")), machines.add("OTHER")
    counts = machines.networks["LEFT"].counts
    machines.know("RIGHT", machines.networks["OTHER"].address)
    left.send(signed("LEFT", b"for RIGHT"), RIGHT)
    wait_until(lambda: counts.copy().get("session closed: closed by the driver", 0) >= 2)
    (session,) = [row for row in machines.networks["LEFT"].sessions() if row.is_initiator]
    assert f"another machine, {guid_of('OTHER')}" in session.problem
    inbox = machines.add("RIGHT").open(REPLICATION)
    assert received(inbox).body == b"for RIGHT"
    assert other.counts.copy() == {}, "it had no message that it could refuse"


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
    assert machines.networks["LEFT"].counts.copy().get("defect") is None


@contextmanager
def client(machines, name: str) -> Iterator[RawClient]:
    with socket.create_connection(machines.networks[name].address, timeout=5) as connection:
        yield RawClient(connection)


@pytest.mark.spec("MS-MQQB 2.1.1")
@pytest.mark.spec("MS-MQQB 3.1.1.7.1")
@pytest.mark.spec("MS-MQQB 3.1.1.7.2")
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
    assert machines.networks["LEFT"].counts.copy()["session opened"] == 1


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
    assert machines.networks["RIGHT"].counts.copy().get("defect") is None


def test_half_open_connections_are_bounded(machines):
    right = machines.add("RIGHT", connections_of_address_max=5)
    inbox = right.open(NOTIFICATION)
    network = machines.networks["RIGHT"]
    with client(machines, "RIGHT") as before:
        before.open()
        peers = [socket.create_connection(network.address) for _ in range(20)]
        wait_until(lambda: network.counts.copy().get("closed: too many connections") == 16)
        assert len(network.sessions()) == 5
        with client(machines, "RIGHT") as later:
            later.open()
            for number, peer in enumerate((before, later)):
                peer.send(user_packet(number, b"%d" % number))
                assert received(inbox).body == b"%d" % number
        for half_open in peers:
            half_open.close()


def test_of_too_many_sessions_the_idle_one_ends(machines):
    """So nobody is kept out by sessions that others open and do not use."""
    right = machines.add("RIGHT", connections_max=3)
    inbox = right.open(NOTIFICATION)
    with ExitStack() as stack:
        first, idle, third = (stack.enter_context(client(machines, "RIGHT")) for _ in range(3))
        for peer in (first, idle, third):
            peer.open()
        first.send(user_packet(1, b"first"))
        assert received(inbox).body == b"first"
        fourth = stack.enter_context(client(machines, "RIGHT"))
        fourth.open()
        assert idle.is_closed()
        for number, peer in enumerate((first, third, fourth), 2):
            peer.send(user_packet(number, b"again"))
            assert received(inbox).body == b"again"


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
    wait_until(lambda: left.counts.copy().get("refused: NACK_BAD_DEST_QUEUE") == 10)
    left.send(Message(body=b"ours"), notification_queue(guid_of("RIGHT")))
    assert received(inbox).body == b"ours"


def test_lookups_of_strangers_names_do_not_hold_up_own_messages(machines):
    """Strangers choose names in acknowledgements; each look-up may take as long as DNS likes."""
    left, right = machines.add("LEFT"), machines.add("RIGHT")
    inbox, network = right.open(NOTIFICATION), machines.networks["LEFT"]
    resolve, over = network._resolver.resolve, threading.Event()

    def slow(address):
        if str(address).startswith("stranger"):
            over.wait(10)
        return resolve(address)

    network._resolver.resolve = slow
    asking = Message(acknowledgements=Acknowledgements.NACK_REACH_QUEUE, time_to_reach_queue_s=INFINITE)
    try:
        for number in range(20):
            admin = parse_format_name(rf"DIRECT=OS:stranger{number}\private$\q")
            nowhere = parse_format_name(r"DIRECT=OS:LEFT\private$\nowhere")
            left.offer([replace(asking, destination=nowhere, administration_queue=admin)])
        wait_until(lambda: left.counts.copy().get("refused: NACK_BAD_DEST_QUEUE") == 20)
        left.send(Message(body=b"ours"), notification_queue(guid_of("RIGHT")))
        assert received(inbox).body == b"ours"
    finally:
        over.set()


def test_warnings_of_strangers_names_are_limited(machines, caplog):
    left = machines.add("LEFT", flush_s=0.1)
    resolver = machines.networks["LEFT"]._resolver
    resolve = resolver.resolve
    resolver.resolve = lambda address: resolve(guid_of("NOBODY") if isinstance(address, str) else address)
    asking = Message(acknowledgements=Acknowledgements.NACK_REACH_QUEUE, time_to_reach_queue_s=INFINITE)
    for number in range(30):
        admin = parse_format_name(rf"DIRECT=OS:stranger{number}\private$\q")
        nowhere = parse_format_name(r"DIRECT=OS:LEFT\private$\nowhere")
        left.offer([replace(asking, destination=nowhere, administration_queue=admin)])
    wait_until(lambda: "further warnings" in caplog.text)
    assert caplog.text.count("cannot be reached for an acknowledgement") <= 20
    caplog.clear()
    left.send(Message(), notification_queue(guid_of("NOBODY")))
    wait_until(lambda: "no machine has the identifier" in caplog.text)


def test_an_old_connection_that_ends_leaves_the_session_alone(machines):
    """A connection that was made when its time was over has the number of the next one."""
    left, right = machines.add("LEFT"), machines.add("RIGHT")
    inbox, network = right.open(NOTIFICATION), machines.networks["LEFT"]
    queue = notification_queue(guid_of("RIGHT"))
    left.send(Message(body=b"one"), queue)
    assert received(inbox).body == b"one"
    (neighbor,) = network._neighbors.values()
    old = SessionConnection(neighbor, neighbor.connection.number, PendingBytes(1))
    network._loop.call_soon_threadsafe(neighbor.on_lost, old, "old")
    left.send(Message(body=b"two"), queue)
    assert received(inbox).body == b"two"
    assert network.counts.copy()["session opened"] == 1


def test_a_session_that_cannot_go_on_leaves_the_others_alone(machines, caplog):
    machines.add("RIGHT")
    network, resumed = machines.networks["RIGHT"], []

    def defective() -> None:
        raise KeyError("planted")

    class Session:
        def __init__(self, resume) -> None:
            self.connection = type("Connection", (), {"resume": staticmethod(resume)})()

    network._sessions = lambda: [Session(defective), Session(lambda: resumed.append(1))]
    held = threading.Event()
    network._loop.call_soon_threadsafe(held.wait, 5)
    for _ in range(3):
        network.wake()
    held.set()
    wait_until(lambda: network.counts.copy().get("defect"))
    wait_until(lambda: resumed)
    assert resumed == [1], "one round for three calls"
    network.wake()
    wait_until(lambda: resumed == [1, 1])
    del network._sessions
    caplog.clear()
