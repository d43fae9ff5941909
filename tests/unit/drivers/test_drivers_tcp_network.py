"""Two queue managers exchange messages over TCP ([MS-MQQB] 3.1.5, 3.1.7)."""

from dataclasses import replace
from ipaddress import ip_address

import pytest
from support.replication.queue_managers import guid_of, nack, received, signed, wait_until
from support.replication.tcp_machines import QUICK, TcpMachines

from mqdssm.drivers.queue_manager.local_queue_manager import QueueManagerSettings
from mqdssm.drivers.tcp.name_resolution import NameResolver
from mqdssm.drivers.tcp.network import TcpNetwork
from mqdssm.drivers.transport import NOTIFICATION, REPLICATION
from mqdssm.errors import TransportError
from mqdssm.model.names import parse_format_name
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.model.transport import (
    INFINITE,
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    Message,
    MessageClass,
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


@pytest.fixture
def pair(machines):
    return machines.add("LEFT"), machines.add("RIGHT")


@pytest.mark.spec("MS-MQQB 3.1.7.1.6")
def test_signed_messages_in_the_order_of_priorities(pair):
    left, right = pair
    inbox = right.open(REPLICATION)
    for number in range(200):
        left.send(signed("LEFT", b"%d" % number), RIGHT)
    assert [received(inbox).body for _ in range(200)] == [b"%d" % number for number in range(200)]
    arrived = received_with_sender(left, inbox)
    assert (arrived.message.authentication_level, arrived.sender.machine_name) == (
        AuthenticationLevel.SIG20,
        "LEFT",
    )


def received_with_sender(left, inbox):
    left.send(signed("LEFT", b"last", priority=7), RIGHT)
    arrival = inbox.receive(5)
    assert arrival is not None
    return arrival


@pytest.mark.spec("MS-MQQB 3.1.5.8.10")
@pytest.mark.spec("MS-MQQB 3.1.7.15")
def test_acknowledgements_come_back_to_the_sender(pair):
    left, right = pair
    own, _ = left.open(REPLICATION), right.open(REPLICATION)
    asked = {"acknowledgements": Acknowledgements.FULL_RECEIVE | Acknowledgements.POSITIVE_ARRIVAL}
    left.send(replace(signed("LEFT"), **asked), RIGHT)
    assert nack(own) is MessageClass.ACK_REACH_QUEUE
    left.send(signed("LEFT"), notification_queue(guid_of("RIGHT")))
    assert nack(own) is MessageClass.NACK_BAD_DEST_QUEUE
    left.send(replace(signed("LEFT"), authentication_level=AuthenticationLevel.NONE), RIGHT)
    assert nack(own) is MessageClass.NACK_BAD_SIGNATURE


def test_a_machine_sends_to_itself(machines):
    left = machines.add("LEFT")
    inbox = left.open(NOTIFICATION)
    left.send(Message(body=b"own"), notification_queue(guid_of("LEFT")))
    assert received(inbox).body == b"own"


@pytest.mark.spec("MS-MQQB 3.1.7.4")
def test_messages_by_ip_address(machines):
    here = QueueManagerSettings(addresses=frozenset({ip_address("127.0.0.1")}))
    left, right = machines.add("LEFT"), machines.add("RIGHT", settings=replace(QUICK, queue_manager=here))
    machines.hosts[ip_address("127.0.0.1")] = machines.networks["RIGHT"].address
    inbox = right.open(NOTIFICATION)
    left.send(Message(body=b"by address"), parse_format_name(r"DIRECT=TCP:127.0.0.1\private$\notify_queue$"))
    assert received(inbox).body == b"by address"


@pytest.mark.spec("MS-MQQB 3.1.7.1.1")
@pytest.mark.spec("MS-MQQB 3.1.7.1.2")
def test_messages_wait_for_a_machine_that_starts_later(machines):
    left = machines.add("LEFT")
    own = left.open(REPLICATION)
    left.send(signed("LEFT", b"soon"), RIGHT)
    left.send(signed("LEFT", b"late", time_to_reach_queue_s=10), replication_queue("NOBODY.invalid"))
    machines.clock.now += 20
    left.wake()
    assert nack(own) is MessageClass.NACK_REACH_QUEUE_TIMEOUT
    assert received(machines.add("RIGHT").open(REPLICATION)).body == b"soon"


def test_long_and_recoverable_messages(pair):
    left, right = pair
    inbox = right.open(NOTIFICATION)
    queue = notification_queue(guid_of("RIGHT"))
    body = bytes(range(256)) * 15_000
    for _ in range(5):
        left.send(Message(body=body, delivery=DeliveryGuarantee.RECOVERABLE), queue)
    assert all(received(inbox).body == body for _ in range(5))
    with pytest.raises(ValueError, match=r"too long for a message: .*PacketSize: is \d+, at most 4194304"):
        left.send(Message(body=bytes(4 << 20)), queue)
    with pytest.raises(ValueError, match=r"too long for a message: .*PacketSize: is \d+, at most 4194304"):
        left.send(Message(body=bytes((4 << 20) - 110)), queue)
    left.send(Message(body=bytes((4 << 20) - 300)), queue)
    left.send(Message(body=b"after a long one"), queue)
    assert [len(received(inbox).body) for _ in range(2)] == [(4 << 20) - 300, len(b"after a long one")]


def test_a_stranger_sends_what_cannot_be_stored(machines):
    """Names of queues may take more room in the store than in the packet that came."""
    right = machines.add("RIGHT")
    inbox, settled = right.open(NOTIFICATION), []
    queue = notification_queue(guid_of("RIGHT"))
    long = Message(
        body=bytes(4 << 20),
        delivery=DeliveryGuarantee.RECOVERABLE,
        destination=queue,
        time_to_reach_queue_s=INFINITE,
        acknowledgements=Acknowledgements.NACK_REACH_QUEUE,
        administration_queue=queue,
    )
    assert right.offer([long], settled.append)
    wait_until(lambda: settled == [True])
    assert right.counts.copy() == {
        "refused: recoverable message that fits no packet": 1,
        "given up: acknowledgement": 1,
    }
    right.send(Message(body=b"still there", delivery=DeliveryGuarantee.RECOVERABLE), queue)
    assert received(inbox).body == b"still there"


def test_a_stored_message_is_not_verified_again(machines):
    """Its date and the replay marks would speak against it after a restart."""
    left, right = machines.add("LEFT"), machines.add("RIGHT")
    right.open(REPLICATION)
    left.send(replace(signed("LEFT", b"stored"), delivery=DeliveryGuarantee.RECOVERABLE), RIGHT)
    assert left.flush(5)
    right.close()
    machines.clock.now += 100_000
    arrival = machines.add("RIGHT").open(REPLICATION).receive(5)
    assert arrival is not None
    assert (arrival.message.body, arrival.sender.machine_name) == (b"stored", "LEFT")
    assert arrival.message.authentication_level is AuthenticationLevel.SIG20


@pytest.mark.spec("MS-MQQB 3.1.1.3.2")
@pytest.mark.spec("MS-MQQB 3.1.3.1")
def test_a_restarted_queue_manager_repeats_no_number(machines):
    left, right = machines.add("LEFT"), machines.add("RIGHT")
    inbox = right.open(NOTIFICATION)
    first = left.send(Message(body=b"before"), notification_queue(guid_of("RIGHT")))
    assert received(inbox).body == b"before"
    left.close()
    again = machines.add("LEFT").send(Message(body=b"after"), notification_queue(guid_of("RIGHT")))
    assert (received(inbox).body, again.number) == (b"after", (first.number + 1) % 2**32)


def test_one_queue_manager_and_one_address(machines, tmp_path):
    machines.add("LEFT")
    network = machines.networks["LEFT"]
    with pytest.raises(ValueError, match="one queue manager"):
        network.add("OTHER", guid_of("OTHER"))
    other = TcpNetwork(network.address, tmp_path / "other", NameResolver())
    with pytest.raises(TransportError, match=r"cannot listen on 127\.0\.0\.1:\d+: .*in use"):
        other.add("OTHER", guid_of("OTHER"))


def test_too_many_connections_are_refused(machines):
    left = machines.add("LEFT")
    right = machines.add("RIGHT", connections_of_address_max=0)
    inbox = right.open(NOTIFICATION)
    left.send(Message(body=b"x"), notification_queue(guid_of("RIGHT")))
    wait_until(lambda: machines.networks["RIGHT"].counts.copy().get("refused: too many connections"))
    assert inbox.receive(0) is None


def test_an_unknown_machine_is_named(machines, caplog):
    left = machines.add("LEFT")
    left.send(Message(), notification_queue(guid_of("NOBODY")))
    wait_until(lambda: "no machine has the identifier" in caplog.text)
    assert SocketAddress("h").port == 1801
