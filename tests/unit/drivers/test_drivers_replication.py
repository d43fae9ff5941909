"""The replication driver: a scripted engine, a recording queue manager, real threads."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

import pytest
from queue_managers import guid_of, sender_of, wait_until

from mqdssm.drivers import clients as clients_module
from mqdssm.drivers import outstanding as outstanding_module
from mqdssm.drivers.authentication import SignaturePolicy
from mqdssm.drivers.outstanding import GRACE_S, Outstanding, Sent
from mqdssm.drivers.receiving import ARRIVED_MAX
from mqdssm.drivers.replication import ReplicationDriver
from mqdssm.drivers.store_thread import StoreThread
from mqdssm.drivers.transport import REPLICATION, Arrival
from mqdssm.engines.replication.actions import (
    Action,
    ChangeObject,
    Event,
    Nacked,
    Note,
    Perform,
    Performed,
    Received,
    Reply,
    Send,
    Started,
    StartTimer,
    StopTimer,
    TakeOver,
    TimerFired,
)
from mqdssm.engines.replication.operations import LoadState, State
from mqdssm.errors import DirectoryNotConnected, TransportError
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import BSCAckMessage, ChangeReplyMessage, Command
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    HashAlgorithm,
    Message,
    MessageClass,
    MessageId,
    own_replication_queue,
    replication_queue,
)
from mqdssm.wire.mqdsrp import decode, encode

ACK = BSCAckMessage(site_id=guid_of("site"), bsc_machine_id=guid_of("BSC1"), bsc_name="BSC1")
SEND = Send(destination="PSC1", message=ACK, timeout_s=10, priority=3, ack_requested=True)


class ScriptedEngine:
    """Answers events as a test says, and keeps them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self.threads: set[int] = set()
        self.answers: dict[type, Callable[[Event], list[Action]]] = {}

    def step(self, event: Event, now: float) -> list[Action]:
        self.threads.add(threading.get_ident())
        self.events.append(event)
        self.times.append(now)
        return self.answers.get(type(event), lambda _event: [])(event)

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


class RecordingInbox:
    def __init__(self) -> None:
        self.arrivals: SimpleQueue[Arrival | None] = SimpleQueue()
        self.is_closed = False

    def receive(self, timeout_s: float) -> Arrival | None:
        return self.arrivals.get(timeout=timeout_s + 60)

    def purge(self) -> None:
        raise AssertionError

    def close(self) -> None:
        self.is_closed = True
        self.arrivals.put(None)


class RecordingTransport:
    machine_name = "BSC1"
    identifier = guid_of("BSC1")

    def __init__(self) -> None:
        self.inbox = RecordingInbox()
        self.sent: list[tuple[Message, object]] = []
        self.error: Exception | None = None

    def open(self, queue) -> RecordingInbox:
        assert queue == REPLICATION
        return self.inbox

    def send(self, message: Message, destination) -> MessageId:
        if self.error is not None:
            raise self.error
        self.sent.append((message, destination))
        return MessageId(self.identifier, len(self.sent))

    def close(self) -> None:
        raise AssertionError


class MemoryOnly:
    """A store that fails as often as it is told."""

    failures = 0
    defect: Exception | None = None

    def perform(self, operation):
        if self.defect is not None:
            raise self.defect
        if self.failures:
            self.failures -= 1
            raise DirectoryNotConnected("away")
        return State()

    def close(self) -> None:
        """Nothing to let go."""


class Bench:
    """A driver and what is around it."""

    def __init__(self, **changes) -> None:
        self.engine, self.transport, self.store = ScriptedEngine(), RecordingTransport(), MemoryOnly()
        thread = StoreThread(self.store, "store", retry_first_s=0.001)
        self.driver = ReplicationDriver(self.engine, thread, self.transport, **changes)
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.driver.run()
        except Exception as error:  # noqa: BLE001  tests look at it
            self.failure = error

    def start(self) -> "Bench":
        self.thread.start()
        wait_until(lambda: self.engine.events or self.failure)
        return self

    def arrive(self, message: Message, sender="PSC1", service=Service.PSC) -> None:
        known = None if sender is None else sender_of(sender, service)
        self.transport.inbox.arrivals.put(Arrival(message=message, sender=known))

    def counted(self, what: str) -> bool:
        return what in self.driver.counts.seen()

    def stop(self) -> None:
        self.driver.stop()
        if self.thread.is_alive():
            self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.stop()
    assert made.failure is None


@pytest.mark.spec("MC-MQDSRP 3.1.3.3")
def test_the_first_event_is_the_start(bench):
    bench.start()
    assert bench.engine.events == [Started()]
    assert abs(bench.engine.times[0] - time.time()) < 5


def test_everything_happens_in_one_thread(bench):
    bench.engine.answers[Started] = lambda _: [
        Perform(token=1, operation=LoadState()),
        StartTimer(name="x", after_s=0),
    ]
    bench.start()
    bench.arrive(Message(body=encode(ACK)))
    wait_until(lambda: len(bench.engine.events) == 4)
    assert {type(event) for event in bench.engine.events} == {Started, Performed, TimerFired, Received}
    assert bench.engine.threads == {bench.thread.ident}


def test_operations_come_back_even_if_the_directory_was_away(bench):
    bench.store.failures = 3
    bench.engine.answers[Started] = lambda _: [Perform(token=7, operation=LoadState())]
    bench.start()
    wait_until(lambda: bench.engine.of(Performed))
    assert bench.engine.of(Performed) == [Performed(token=7, result=State())]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_what_is_sent_has_the_attributes_of_the_specification(bench):
    plain = replace(SEND, ack_requested=False, timeout_s=1200, priority=0)
    bench.engine.answers[Started] = lambda _: [SEND, plain]
    bench.start()
    wait_until(lambda: len(bench.transport.sent) == 2)
    (first, to), (second, _) = bench.transport.sent
    own = own_replication_queue(bench.transport.identifier)
    assert to == replication_queue("PSC1")
    assert first == Message(
        message_class=MessageClass.NORMAL,
        body=encode(ACK),
        time_to_reach_queue_s=10,
        time_to_be_received_s=10,
        priority=3,
        delivery=DeliveryGuarantee.EXPRESS,
        acknowledgements=Acknowledgements.NACK_REACH_QUEUE,
        administration_queue=own,
        response_queue=own,
        hash_algorithm=HashAlgorithm.MD5,
        authentication_level=AuthenticationLevel.SIG20,
    )
    assert (second.administration_queue, second.response_queue) == (None, None)
    assert second.acknowledgements == Acknowledgements.NONE
    assert (second.time_to_reach_queue_s, second.priority) == (1200, 0)


def test_how_messages_are_signed_is_a_setting():
    policy = SignaturePolicy(hash_algorithm=HashAlgorithm.SHA512, level=AuthenticationLevel.SIG10)
    bench = Bench(policy=policy)
    bench.engine.answers[Started] = lambda _: [SEND]
    bench.start()
    wait_until(lambda: bench.transport.sent)
    message = bench.transport.sent[0][0]
    assert message.hash_algorithm is HashAlgorithm.SHA512
    assert message.authentication_level is AuthenticationLevel.SIG10
    bench.stop()


def test_priority_8_of_the_specification_is_7(bench):
    bench.engine.answers[Started] = lambda _: [replace(SEND, priority=8)]
    bench.start()
    wait_until(lambda: bench.transport.sent)
    assert bench.transport.sent[0][0].priority == 7


@pytest.mark.parametrize(
    "wrong",
    [
        replace(SEND, destination="no machine"),
        replace(SEND, destination=""),
        replace(SEND, timeout_s=-1),
        replace(SEND, message=replace(ACK, bsc_name="x" * 300)),
        replace(SEND, message=replace(ACK, bsc_name="a\0b")),
    ],
    ids=["blank", "empty", "time", "long", "NUL"],
)
def test_what_cannot_be_sent_is_counted_and_the_work_goes_on(bench, wrong):
    bench.engine.answers[Started] = lambda _: [wrong, SEND]
    bench.start()
    wait_until(lambda: bench.transport.sent)
    assert bench.driver.counts.seen() == {"not sent": 1}


def test_a_full_queue_manager_is_like_a_loss(bench):
    bench.transport.error = TransportError("full")
    bench.engine.answers[Started] = lambda _: [SEND, Note(what="after")]
    bench.start()
    wait_until(lambda: bench.counted("after"))
    assert bench.driver.counts.seen() == {"not sent": 1, "after": 1}


def test_timers(bench):
    fired = bench.engine.answers
    fired[Started] = lambda _: [
        StartTimer(name="late", after_s=0.05),
        StartTimer(name="soon", after_s=0.01),
        StartTimer(name="stopped", after_s=0.02),
        StopTimer(name="stopped"),
        StartTimer(name="anew", after_s=0.01),
        StartTimer(name="anew", after_s=0.1),
    ]
    bench.start()
    wait_until(lambda: len(bench.engine.events) == 4)
    assert [event.name for event in bench.engine.of(TimerFired)] == ["soon", "late", "anew"]


def test_a_timer_that_starts_itself_lets_others_in(bench):
    again = [StartTimer(name="again", after_s=0)]
    bench.engine.answers = {Started: lambda _: again, TimerFired: lambda _: again}
    bench.start()
    bench.arrive(Message(body=encode(ACK)))
    wait_until(lambda: bench.engine.of(Received))
    assert bench.engine.times == sorted(bench.engine.times)


@pytest.mark.spec("MC-MQDSRP 3.1.5.1")
class TestArrivals:
    """What of a message in the queue reaches the engine."""

    def test_a_replication_message(self, bench):
        bench.start()
        bench.arrive(Message(body=encode(ACK)))
        wait_until(lambda: bench.engine.of(Received))
        assert bench.engine.of(Received) == [Received(message=ACK, sender="PSC1")]

    @pytest.mark.parametrize(
        ("message", "sender", "service", "why"),
        [
            (Message(body=b""), "PSC1", Service.PSC, "cannot be decoded"),
            (Message(body=b"\1" + encode(ACK)[1:]), "PSC1", Service.PSC, "cannot be decoded"),
            (Message(body=encode(ACK)[:-1]), "PSC1", Service.PSC, "cannot be decoded"),
            (Message(body=encode(ACK) + b"\0"), "PSC1", Service.PSC, "cannot be decoded"),
            (Message(body=encode(ACK)), "C14", Service.NONE, "not from a directory server"),
            (Message(body=encode(ACK)), "FRS1", Service.ROUTING | Service.RAS, "not from a directory server"),
            (Message(body=encode(ACK)), None, Service.NONE, "not from a directory server"),
            (Message(message_class=MessageClass.REPORT, body=encode(ACK)), "PSC1", Service.PSC, "class"),
            (Message(message_class=MessageClass.ACK_REACH_QUEUE), None, Service.NONE, "class"),
            (Message(message_class=MessageClass.NACK_RECEIVE_REJECTED), None, Service.NONE, "class"),
            (Message(message_class=0xE1FF), "PSC1", Service.PSC, "class"),
            (
                Message(message_class=MessageClass.NACK_BAD_SIGNATURE, body=encode(ACK)),
                None,
                Service.NONE,
                "acknowledges nothing of ours",
            ),
        ],
    )
    def test_what_is_dropped_and_counted(self, bench, message, sender, service, why):
        bench.start()
        bench.arrive(message, sender, service)
        wait_until(lambda: bench.counted(f"dropped: {why}"))
        assert bench.engine.events == [Started()]

    def test_any_directory_server_is_heard(self, bench):
        bench.start()
        for service in (Service.BSC, Service.PSC, Service.PEC, Service.PSC | Service.ROUTING):
            bench.arrive(Message(body=encode(ACK)), "X", service)
        wait_until(lambda: len(bench.engine.of(Received)) == 4)

    def nack(self, bench, **changes) -> Message:
        made = Message(
            message_class=MessageClass.NACK_BAD_SIGNATURE,
            body=bench.transport.sent[0][0].body,
            correlation=MessageId(bench.transport.identifier, 1),
            response_queue=replication_queue("EVIL"),
        )
        return replace(made, **changes)

    @pytest.mark.parametrize(
        ("message_class", "bad_signature"),
        [
            (MessageClass.NACK_BAD_SIGNATURE, True),
            (MessageClass.NACK_BAD_DEST_QUEUE, False),
            (MessageClass.NACK_REACH_QUEUE_TIMEOUT, False),
            (MessageClass.NACK_QUEUE_EXCEED_QUOTA, False),
            (MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER, False),
        ],
    )
    def test_a_negative_acknowledgement_of_a_message_of_ours(self, bench, message_class, bad_signature):
        bench.engine.answers[Started] = lambda _: [SEND]
        bench.start()
        wait_until(lambda: bench.transport.sent)
        bench.arrive(self.nack(bench, message_class=message_class), None)
        wait_until(lambda: bench.engine.of(Nacked))
        assert bench.engine.of(Nacked) == [
            Nacked(message=ACK, destination="PSC1", bad_signature=bad_signature)
        ], "the machine that we sent it to, whatever the acknowledgement says"
        bench.arrive(self.nack(bench), None)
        wait_until(lambda: bench.counted("dropped: acknowledges nothing of ours"))

    def test_nobody_makes_us_sign_what_he_likes(self, bench):
        """Else 3.3.7.9 would have us sign and send the body of any forged acknowledgement (decision R58)."""
        bench.engine.answers[Started] = lambda _: [SEND, replace(SEND, ack_requested=False)]
        bench.start()
        wait_until(lambda: len(bench.transport.sent) == 2)
        other = encode(replace(ACK, bsc_name="OTHER"))
        assert decode(other) != ACK
        for forged in (
            self.nack(bench, body=other),
            self.nack(bench, correlation=MessageId(bench.transport.identifier, 3)),
            self.nack(bench, correlation=MessageId(guid_of("PSC1"), 1)),
            self.nack(bench, correlation=MessageId(bench.transport.identifier, 2)),
        ):
            bench.arrive(forged, None)
        wait_until(lambda: bench.driver.counts.seen().get("dropped: acknowledges nothing of ours") == 4)
        assert bench.engine.of(Nacked) == []

    def test_no_more_are_decoded_than_the_engine_takes(self, bench):
        gate = threading.Event()
        bench.engine.answers[Started] = lambda _: gate.wait(10) and []
        bench.start()
        for _ in range(ARRIVED_MAX + 50):
            bench.arrive(Message(body=encode(ACK)))
        left = bench.transport.inbox.arrivals
        wait_until(lambda: left.qsize() == 49)  # one is in hand
        gate.set()
        wait_until(lambda: len(bench.engine.of(Received)) == ARRIVED_MAX + 50)


def test_outstanding_messages_are_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(outstanding_module, "OUTSTANDING_MAX", 2)
    outstanding = Outstanding()
    sent = [Sent(message=ACK, destination=f"PSC{number}") for number in range(3)]
    for number, one in enumerate(sent):
        outstanding.add(MessageId(number=number), b"body", one, 100.0)

    def take(number: int, now: float) -> Sent | None:
        return outstanding.take(Message(correlation=MessageId(number=number), body=b"body"), now)

    assert take(0, 50) is None, "too many: the oldest is forgotten"
    assert take(1, 100 + GRACE_S) == sent[1]
    assert take(2, 100 + GRACE_S + 1) is None


def change(bench: Bench, **changes):
    given = {
        "command": Command.CREATE,
        "object_type": ObjectType.QUEUE,
        "partition_id": PEC_PARTITION_ID,
        "path_name": "m\\q",
        "timeout_s": 10,
    }
    return bench.driver.change(**given | changes)


def replying(event: ChangeObject) -> list[Action]:
    return [Reply(request=event.request, status=0, identifier=event.identifier)]


class TestClients:
    """Requests and their replies."""

    def test_a_change_and_its_reply(self):
        bench = Bench(make_guid=lambda: guid_of("made"))
        bench.engine.answers[ChangeObject] = replying
        bench.start()
        outcome = change(bench)
        assert (outcome.status, outcome.identifier) == (0, guid_of("made"))
        assert change(bench, identifier=guid_of("given")).identifier == guid_of("given")
        assert change(bench, command=Command.DELETE).identifier is None
        first, *_ = bench.engine.of(ChangeObject)
        assert (first.command, first.path_name) == (Command.CREATE, "m\\q")
        bench.stop()

    def test_new_objects_get_guids_of_their_own(self, bench):
        bench.engine.answers[ChangeObject] = replying
        bench.start()
        assert len({change(bench).identifier for _ in range(5)}) == 5

    def test_other_requests(self, bench):
        bench.engine.answers[TakeOver] = lambda event: [Reply(request=event.request, status=5)]
        bench.start()
        made = bench.driver.ask(
            lambda request: TakeOver(request=request, partition_id=PEC_PARTITION_ID), timeout_s=5
        )
        assert made.status == 5

    def test_many_clients_get_their_own_replies(self, bench):
        held = []

        def hold(event: ChangeObject) -> list[Action]:
            held.append(event)
            if len(held) < 20:
                return []
            return [Reply(request=one.request, status=0, identifier=one.identifier) for one in reversed(held)]

        bench.engine.answers[ChangeObject] = hold
        bench.start()
        got = {}
        threads = [
            threading.Thread(
                target=lambda number=number: got.update(
                    {number: change(bench, identifier=guid_of(str(number))).identifier}
                )
            )
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert got == {number: guid_of(str(number)) for number in range(20)}

    def test_no_reply_in_time(self, bench):
        bench.start()
        assert change(bench, timeout_s=0.02).status == Hresult.MQDS_NO_RSP_FROM_OWNER
        bench.engine.answers[TimerFired] = lambda _: [Reply(request=1, status=0)]
        bench.engine.answers[ChangeObject] = lambda _: [StartTimer(name="x", after_s=0)]
        assert change(bench, timeout_s=0.05).status == Hresult.MQDS_NO_RSP_FROM_OWNER
        wait_until(lambda: bench.counted("reply to nobody"))

    def test_too_many_clients(self, bench, monkeypatch):
        monkeypatch.setattr(clients_module, "CLIENTS_MAX", 1)
        bench.start()
        waiting = threading.Thread(target=lambda: change(bench, timeout_s=30))
        waiting.start()
        wait_until(lambda: bench.engine.of(ChangeObject))
        assert change(bench).status == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
        bench.stop()
        waiting.join(10)
        assert not waiting.is_alive()

    def test_who_waits_at_the_end_hears_that_nobody_knows(self, bench):
        bench.start()
        got = []
        waiting = threading.Thread(target=lambda: got.append(change(bench, timeout_s=60).status))
        waiting.start()
        wait_until(lambda: bench.engine.of(ChangeObject))
        bench.stop()
        waiting.join(10)
        assert got == [Hresult.MQDS_NO_RSP_FROM_OWNER]
        assert change(bench).status == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE

    def test_who_asks_before_the_start_waits_for_it(self, bench):
        bench.engine.answers[ChangeObject] = replying
        got = []
        early = threading.Thread(target=lambda: got.append(change(bench).status))
        early.start()
        bench.start()
        early.join(10)
        assert got == [0]
        assert bench.engine.events[0] == Started()


def test_notes_are_counted(bench):
    bench.engine.answers[Started] = lambda _: [Note(what="dropped: x", detail="a"), Note(what="dropped: x")]
    bench.start()
    wait_until(lambda: bench.driver.counts.seen() == {"dropped: x": 2})


@pytest.mark.parametrize("where", ["engine", "store", "inbox"])
def test_a_defect_stops_everything_and_is_raised(where, caplog):
    bench = Bench()
    defect = RuntimeError(f"defect of {where}")
    if where == "engine":

        def fail(_event):
            raise defect

        bench.engine.answers[Started] = fail
    elif where == "store":
        bench.store.defect = defect
        bench.engine.answers[Started] = lambda _: [Perform(token=1, operation=LoadState())]
    else:
        bench.transport.inbox.receive = lambda _timeout: (_ for _ in ()).throw(defect)
    bench.start()
    bench.thread.join(10)
    assert bench.failure is defect
    assert bench.transport.inbox.is_closed
    assert change(bench).status == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    assert not [one for one in threading.enumerate() if one.name in {"store", "replication queue"}]


def test_a_reply_is_a_message_like_others(bench):
    """3.2.7.6: the reply's own attributes come from the engine."""
    reply = ChangeReplyMessage(site_id=guid_of("site"), request_identifier=1, result=0, requester_name="BSC1")
    bench.engine.answers[Received] = lambda event: [replace(SEND, destination=event.sender, message=reply)]
    bench.start()
    bench.arrive(Message(body=encode(ACK)), "PSC7")
    wait_until(lambda: bench.transport.sent)
    message, to = bench.transport.sent[0]
    assert (decode(message.body), to) == (reply, replication_queue("PSC7"))
