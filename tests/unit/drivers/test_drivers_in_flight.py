"""Messages that a carrier has until the peer acknowledges them ([MS-MQQB] 3.1.5.5, 3.1.5.9)."""

from itertools import count

import pytest
from support.replication.queue_managers import Clock, guid_of, nack, received, wait_until

from mqdssm.drivers.authentication.keyring import PinnedKeys
from mqdssm.drivers.authentication.signatures import Verifier
from mqdssm.drivers.queue_manager.local_queue_manager import (
    DeliveryState,
    LocalQueueManager,
    QueueManagerSettings,
)
from mqdssm.drivers.queue_manager.outgoing import OutgoingLimits, QueuedMessage
from mqdssm.drivers.transport import NOTIFICATION, REPLICATION
from mqdssm.errors import TransportError
from mqdssm.model.names import DirectFormatName, DirectProtocol, PathKind
from mqdssm.model.transport import (
    Acknowledgements,
    Message,
    MessageClass,
    MessageId,
    notification_queue,
    replication_queue,
)

RIGHT = replication_queue("RIGHT")


class Carrier:
    """A carrier with a window; what it has is acknowledged or given back by the test."""

    def __init__(self) -> None:
        self.window = 2
        self.flying: list[QueuedMessage] = []

    def deliver(self, source: LocalQueueManager, queued: QueuedMessage) -> DeliveryState:
        if queued.address == source.identifier:
            return DeliveryState.DELIVERED if source.offer((queued.message,)) else DeliveryState.REFUSED
        if len(self.flying) >= self.window:
            return DeliveryState.REFUSED
        self.flying.append(queued)
        return DeliveryState.IN_FLIGHT

    def land(self) -> list[QueuedMessage]:
        landed, self.flying = self.flying, []
        return landed

    def wake(self) -> None:
        pass

    def remove(self, queue_manager: LocalQueueManager) -> None:
        pass

    @property
    def bodies(self) -> list[bytes]:
        return [queued.message.body for queued in self.flying]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def carrier():
    return Carrier()


@pytest.fixture
def left(carrier, clock):
    settings = QueueManagerSettings(outgoing=OutgoingLimits(messages_max=4))
    made = LocalQueueManager(
        carrier, "LEFT", guid_of("LEFT"), numbers=count(1), clock=clock, settings=settings
    )
    made.start()
    yield made
    made.close()


def message(body: bytes, **changes) -> Message:
    own = notification_queue(guid_of("LEFT"))
    return Message(
        body=body, acknowledgements=Acknowledgements.FULL_REACH_QUEUE, administration_queue=own, **changes
    )


def flies(carrier: Carrier, *bodies: bytes) -> None:
    wait_until(lambda: carrier.bodies == list(bodies))


def test_what_is_given_back_goes_again_first(left, carrier):
    for body in (b"a", b"b", b"c"):
        left.send(message(body), RIGHT)
    flies(carrier, b"a", b"b")
    left.send(message(b"urgent", priority=7), RIGHT)
    left.take_back(reversed(carrier.land()))
    flies(carrier, b"urgent", b"a")
    left.confirm(carrier.land())
    flies(carrier, b"b", b"c")


def test_the_quota_counts_what_is_in_flight(left, carrier):
    for body in (b"a", b"b", b"c", b"d"):
        left.send(message(body), RIGHT)
    flies(carrier, b"a", b"b")
    with pytest.raises(TransportError, match="too many"):
        left.send(message(b"e"), RIGHT)
    left.confirm(carrier.land())
    flies(carrier, b"c", b"d")
    left.send(message(b"e"), RIGHT)


def test_purging_while_messages_are_in_flight(left, carrier):
    own = left.open(NOTIFICATION)
    for body in (b"a", b"b", b"c"):
        left.send(message(body), RIGHT)
    flies(carrier, b"a", b"b")
    left.purge_waiting(RIGHT)
    assert nack(own) is MessageClass.NACK_PURGED, "the one that waited"
    first, second = carrier.land()
    left.confirm((first,))
    left.take_back((second,))
    assert nack(own) is MessageClass.NACK_PURGED
    assert (own.receive(0.05), carrier.flying) == (None, [])


def test_what_is_given_back_too_late_expires(left, carrier, clock):
    own = left.open(NOTIFICATION)
    left.send(message(b"a", time_to_reach_queue_s=10), RIGHT)
    flies(carrier, b"a")
    clock.now += 20
    left.wake()
    assert own.receive(0.05) is None, "it may have arrived"
    left.take_back(carrier.land())
    assert nack(own) is MessageClass.NACK_REACH_QUEUE_TIMEOUT


def test_direct_names_with_other_addresses(carrier, clock):
    settings = QueueManagerSettings(any_direct_name=True)
    verifier = Verifier(PinnedKeys({}), clock.now)
    manager = LocalQueueManager(
        carrier,
        "LEFT",
        guid_of("LEFT"),
        numbers=count(1),
        clock=clock,
        settings=settings,
        verifier=verifier,
        on_work=lambda: None,
    )
    signed, free = manager.open(REPLICATION), manager.open(NOTIFICATION)
    for destination in (replication_queue("ALIAS"), other_notification_queue("ALIAS")):
        manager.offer([Message(body=b"x", destination=destination, sent_at=int(clock.now))])
        manager.turn()
    assert received(free).body == b"x"
    assert signed.receive(0) is None
    assert manager.counts.copy() == {"refused: NACK_BAD_DEST_QUEUE": 1}, "decision T46"
    manager.close()


def other_notification_queue(machine: str) -> DirectFormatName:
    return DirectFormatName(DirectProtocol.OS, machine, NOTIFICATION.name, PathKind.PRIVATE)


class Observer:
    """An observer that notes its calls."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def on_accepted(self, identifier: MessageId) -> None:
        self.calls.append(identifier.number)

    def on_confirmed(self) -> None:
        self.calls.append("confirmed")

    def on_given_up(self, message_class: MessageClass | None) -> None:
        self.calls.append(message_class)


def test_observers_are_told_once_what_becomes_of_a_message(left, carrier, clock):
    first, second, third, local = (Observer() for _ in range(4))
    left.open(NOTIFICATION)
    left.send(message(b"own"), notification_queue(guid_of("LEFT")), observer=local)
    left.send(message(b"a"), RIGHT, observer=first)
    left.send(message(b"b"), RIGHT, observer=second)
    flies(carrier, b"a", b"b")
    left.send(message(b"c", time_to_reach_queue_s=1), RIGHT, observer=third)
    assert not left.flush(0)
    landed = carrier.land()
    left.confirm(landed[:1])
    left.give_up(landed[1])
    clock.now += 10
    left.wake()
    assert left.flush(5)
    observers = (local, first, second, third)
    assert all(isinstance(observer.calls[0], int) for observer in observers)
    assert [observer.calls[1:] for observer in observers] == [
        ["confirmed"],
        ["confirmed"],
        [None],
        [MessageClass.NACK_REACH_QUEUE_TIMEOUT],
    ]


def test_a_closed_queue_manager_uses_no_number(carrier):
    numbers = count(1)
    manager = LocalQueueManager(carrier, "LEFT", guid_of("LEFT"), numbers=numbers, clock=Clock())
    manager.start()
    manager.close()
    with pytest.raises(TransportError, match="LEFT is closed"):
        manager.send(message(b"late"), RIGHT)
    assert next(numbers) == 1
