"""The notification queue at both ends: opened, dequeued, what is dropped ([MS-MQCN] 3.2.3, 3.2.5, 3.3.3)."""

import threading
from uuid import UUID

import pytest
from support.notification.receivers import (
    COMPUTER,
    OURS,
    ReceiverBench,
    body,
    deletion,
    manager,
    queue,
)
from support.replication.queue_managers import Clock, guid_of, key_of, sender_of, wait_until

from mqdssm.drivers.authentication.keyring import PinnedKeys
from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.notification.notifier import Notifier
from mqdssm.drivers.notification.receiver import NotificationDriver
from mqdssm.drivers.transport import NOTIFICATION, Arrival
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.receiver import NotificationReceiver
from mqdssm.engines.notification.settings import ReceiverSettings, SenderSettings
from mqdssm.engines.notification.state import LocalState
from mqdssm.errors import TransportError
from mqdssm.model.elements import Queue
from mqdssm.model.guid import Guid
from mqdssm.model.names import DirectFormatName, DirectProtocol, PathKind
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import NotificationEvent, NotificationUpdates
from mqdssm.model.transport import (
    NOTIFICATION_QUEUE,
    AuthenticationLevel,
    Message,
    MessageClass,
    SenderIdentifierType,
    notification_queue,
)
from mqdssm.testing.in_process_network import InProcessNetwork
from mqdssm.wire.mqcn import encode

pytestmark = pytest.mark.slow  # waits for threads and sockets

ONE = UUID(int=1)
DELETION = encode(body(NotificationEvent.DELETE_QUEUE, ONE))
HERE = notification_queue(Guid.of(OURS))


class Held:
    """What a directory would answer."""

    def __init__(self) -> None:
        self.queues = {ONE: queue(1), UUID(int=2): queue(2)}
        self.reads: list[do.Operation] = []
        self.defect: Exception | None = None

    def perform(self, operation: do.Operation) -> do.Result:
        self.reads.append(operation)
        if self.defect is not None:
            raise self.defect
        if isinstance(operation, do.ReadAll):
            return do.AllRead(manager=manager(), queues=tuple(self.queues.values()))
        if isinstance(operation, do.ReadQueueManager):
            return do.QueueManagerRead(manager=manager())
        return do.QueueRead(queue=self.queues.get(operation.identifier))


class Ends:
    """A receiver, a sender, and a network between them."""

    def __init__(self, **settings: float) -> None:
        self.network = InProcessNetwork()
        self.clock = Clock()
        admin = guid_of("ADMIN")
        known = PinnedKeys({admin: sender_of("ADMIN")})
        self.sender = self.network.add("ADMIN", admin, signer=Signer(admin, key_of("ADMIN")))
        self.receiver = self.network.add(COMPUTER, Guid.of(OURS), verifier=Verifier(known, 0))
        self.held = Held()
        made = ReceiverSettings(identifier=OURS, computer_name=COMPUTER, **settings)
        self.driver = NotificationDriver(
            NotificationReceiver(made), self.held, self.receiver, clock=self.clock
        )

    def start(self) -> None:
        self.driver.start()
        assert self.driver.known.wait(10)

    def close(self) -> None:
        try:
            self.driver.stop()
        finally:
            self.network.close()


@pytest.fixture
def ends():
    made = Ends(settle_s=0.0, interval_s=0.0)
    yield made
    made.close()


@pytest.mark.spec("MS-MQCN 3.2.3")
class TestReceiving:
    def test_the_queue_is_open_for_as_long_as_the_driver_works(self, ends):
        ends.start()
        inbox = ends.receiver.open(NOTIFICATION)
        assert not inbox.is_closed
        ends.driver.stop()
        assert inbox.is_closed

    def test_one_message_after_the_other(self, ends):
        ends.start()
        for number in (1, 2):
            del ends.held.queues[UUID(int=number)]
            ends.sender.send(
                Message(body=encode(body(NotificationEvent.DELETE_QUEUE, UUID(int=number)))), HERE
            )
            wait_until(lambda: len(ends.driver.queues) == len(ends.held.queues))

    def test_the_state_is_read_at_the_start(self, ends):
        ends.start()
        assert ends.held.reads == [do.ReadAll()]
        assert ends.driver.queues == (queue(1), queue(2))
        assert ends.driver.queue_manager == manager()

    def test_without_a_queue_manager_nothing_works(self, ends):
        ends.receiver.close()
        with pytest.raises(TransportError):
            ends.driver.run()

    def test_the_engine_is_of_this_queue_manager(self, ends):
        settings = ReceiverSettings(identifier=ONE, computer_name=COMPUTER)
        with pytest.raises(ValueError, match="is not queue manager"):
            NotificationDriver(NotificationReceiver(settings), ends.held, ends.receiver)

    def test_a_defect_ends_it_and_is_raised(self, ends):
        ends.start()
        ends.held.defect = ZeroDivisionError("ours")
        ends.driver.refresh()
        wait_until(lambda: ends.receiver.open(NOTIFICATION).is_closed or not ends.driver._thread.is_alive)
        with pytest.raises(ZeroDivisionError):
            ends.driver.stop()


@pytest.mark.spec("MS-MQCN 3.2.1.2")
@pytest.mark.spec("MS-MQCN 3.2.1.2.1")
@pytest.mark.parametrize("name", [COMPUTER, COMPUTER.upper()])
def test_the_queue_is_named_notify_queue(ends, name):
    assert NOTIFICATION_QUEUE == "notify_queue$"
    ends.start()
    del ends.held.queues[ONE]
    path = DirectFormatName(DirectProtocol.OS, name, "notify_queue$", PathKind.PRIVATE)
    assert str(path) == f"DIRECT=OS:{name}\\PRIVATE$\\notify_queue$"
    ends.sender.send(Message(body=DELETION), path)
    wait_until(lambda: ends.driver.queues == (queue(2),))


@pytest.mark.spec("MS-MQCN 3.2.5")
class TestProcessing:
    @pytest.mark.parametrize(
        "message",
        [
            Message(body=b""),
            Message(body=b"\0"),
            Message(body=b"\3\1"),  # no version
            Message(body=DELETION[:-3]),
            Message(body=DELETION + b"\1"),
            Message(body=b"\2\2" + DELETION[2:]),
            Message(body=encode(NotificationUpdates(updates=(deletion(ONE),)))[:-20]),
        ],
    )
    def test_what_cannot_be_decoded_is_dropped_and_the_next_one_is_taken(self, ends, message):
        ends.start()
        ends.held.queues.clear()
        ends.sender.send(message, HERE)
        ends.sender.send(Message(body=DELETION), HERE)
        wait_until(lambda: ends.driver.queues == (queue(2),))
        assert ends.driver.counts.copy()["dropped: cannot be decoded"] == 1

    @pytest.mark.parametrize("message_class", [MessageClass.REPORT, MessageClass.NACK_BAD_SIGNATURE, 0xE123])
    def test_other_classes_are_no_notifications(self, ends, message_class):
        assert (
            ends.driver.event_of(
                Arrival(message=Message(body=DELETION, message_class=message_class), sender=None)
            )
            is None
        )
        assert ends.driver.counts.copy() == {"dropped: class": 1}

    @pytest.mark.parametrize("with_unused_byte", [True, False])
    def test_version_1_is_updates_and_version_2_a_body(self, ends, with_unused_byte):
        for message in (
            NotificationUpdates(updates=(deletion(ONE), deletion(ONE))),
            body(NotificationEvent.DELETE_QUEUE, ONE),
        ):
            image = encode(message) if with_unused_byte else encode(message)[:-1]
            event = ends.driver.event_of(Arrival(message=Message(body=image), sender=None))
            assert event == do.NotificationReceived(notification=message, size=len(image))

    def test_what_is_known_of_the_sender_is_told(self, ends):
        made = Message(
            body=DELETION,
            sender_type=SenderIdentifierType.QUEUE_MANAGER,
            authentication_level=AuthenticationLevel.SIG10,
        )
        event = ends.driver.event_of(Arrival(message=made, sender=sender_of("PSC1")))
        assert event is not None
        assert event.sender_type is SenderIdentifierType.QUEUE_MANAGER
        assert event.authentication_level is AuthenticationLevel.SIG10
        assert event.from_directory_server

    def test_messages_wait_by_the_drivers_clock(self):
        ends = Ends(settle_s=60.0, interval_s=900.0)
        try:
            ends.start()
            ends.held.queues.clear()
            ends.sender.send(Message(body=DELETION), HERE)
            wait_until(lambda: "batch" in ends.driver._timers._due)
            ends.clock.now += 59.9
            assert not threading.Event().wait(0.3)
            assert ends.held.reads == [do.ReadAll()]
            ends.clock.now += 0.2
            wait_until(lambda: ends.driver.queues == (queue(2),))
        finally:
            ends.close()


@pytest.mark.spec("MS-MQCN 2.1")
@pytest.mark.spec("MS-MQCN 3.3.3")
def test_the_outgoing_queue_is_private_queue_3_of_the_owner(ends):
    seen = []
    ends.network.fault = lambda source, target, message: seen.append((source, target, message)) or ()
    settings = SenderSettings(identifier=ends.sender.identifier)
    change = Notice(
        operation=NotifiedOperation.QUEUE_DELETION,
        element=Queue(identifier=ONE),
        owner=OURS,
        machine=COMPUTER,
        server="dc1",
    )
    Notifier(ends.sender, settings)(change)
    wait_until(lambda: seen)
    ((source, target, message),) = seen
    assert (source, target) == ("ADMIN", COMPUTER)
    assert str(message.destination) == f"PRIVATE={str(OURS).upper()}\\3"
    assert message.time_to_reach_queue_s == 300
    assert message.sender == bytes(ends.sender.identifier)
    assert message.signature


@pytest.mark.spec("MS-MQCN 3.1.3")
def test_there_is_no_common_initialization():
    bench = ReceiverBench(queue(1))
    assert bench.engine.state.queues == {ONE: queue(1)}
    assert not bench.reads  # the first event starts it


@pytest.mark.spec("MS-MQCN 3.3.7")
def test_the_sender_does_nothing_by_itself(ends):
    threads = set(threading.enumerate())
    notifier = Notifier(ends.sender, SenderSettings(identifier=ends.sender.identifier))
    assert set(threading.enumerate()) == threads
    assert notifier.counts.copy() == {}


def test_a_state_that_was_kept_is_taken_over():
    state = LocalState(manager(), [queue(1), queue(2)])
    assert state.find(None, f"{COMPUTER.upper()}\\Q2") == queue(2)
    assert state.find(None, "web02\\q2") is None
    assert state.find(None) is None
