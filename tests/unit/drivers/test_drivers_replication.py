"""The replication driver: a scripted engine, a recording queue manager, real threads."""

import logging
import threading
import time
from dataclasses import replace

import pytest
from support.replication.driver_bench import ACK, SEND, Bench, change
from support.replication.queue_managers import guid_of, wait_until

from mqdssm.drivers.authentication.signatures import SignaturePolicy
from mqdssm.drivers.replication.sent_messages import SentMessage, SentMessages
from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.replication.actions import ChangeObject, Perform, Performed, Received, Started
from mqdssm.engines.replication.operations import LoadState, PersistedState
from mqdssm.errors import TransportError
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import ChangeReplyMessage
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    HashAlgorithm,
    Message,
    MessageClass,
    own_replication_queue,
    replication_queue,
)
from mqdssm.wire.mqdsrp import decode, encode


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
    assert bench.engine.of(Performed) == [Performed(token=7, result=PersistedState())]


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


def test_an_acknowledgement_counts_as_long_as_its_message_may_be_under_way(bench, monkeypatch):
    """A message has its time to reach the queue, and what comes back of it has a minute more."""
    kept = []
    monkeypatch.setattr(SentMessages, "send", lambda _, send, *remembered: kept.append((send(), *remembered)))
    bench.engine.answers[Started] = lambda _: [replace(SEND, timeout_s=1200)]
    bench.start()
    wait_until(lambda: kept)
    ((_, body, sent, until),) = kept
    assert (body, sent) == (encode(ACK), SentMessage(message=ACK, destination="PSC1"))
    assert abs(until - (time.time() + 1200)) < 30


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
    assert bench.driver.counts.copy() == {"not sent": 1}


def test_a_full_queue_manager_is_like_a_loss(bench):
    bench.transport.error = TransportError("full")
    bench.engine.answers[Started] = lambda _: [SEND, Note(what="after")]
    bench.start()
    wait_until(lambda: bench.counted("after"))
    assert bench.driver.counts.copy() == {"not sent": 1, "after": 1}


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


def test_notes_are_counted(bench):
    bench.engine.answers[Started] = lambda _: [Note(what="dropped: x", detail="a"), Note(what="dropped: x")]
    bench.start()
    wait_until(lambda: bench.driver.counts.copy() == {"dropped: x": 2})


def test_warnings_are_in_the_log_of_an_operator(bench, caplog):
    caplog.set_level(logging.WARNING)
    warning = Note(what="kept", detail="for PSC1", is_warning=True)
    bench.engine.answers[Started] = lambda _: [Note(what="dropped: x", detail="a"), warning]
    bench.start()
    wait_until(lambda: caplog.messages == ["kept: for PSC1"])
    assert bench.driver.counts.copy() == {"dropped: x": 1, "kept": 1}


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


def test_a_queue_manager_that_is_closed_ends_the_driver_and_who_waits_is_told(caplog):
    """Nobody would notice a server that hears nothing any more."""
    bench = Bench()
    bench.start()
    got = []
    waiting = threading.Thread(target=lambda: got.append(change(bench, timeout_s=60).status))
    waiting.start()
    wait_until(lambda: bench.engine.of(ChangeObject))
    bench.transport.inbox.close()
    bench.thread.join(10)
    assert isinstance(bench.failure, TransportError)
    waiting.join(10)
    assert got == [Hresult.MQDS_NO_RSP_FROM_OWNER]


def test_a_driver_that_cannot_start_tells_who_waits(bench):
    def closed(_queue):
        raise TransportError("closed")

    failure = []

    def run() -> None:
        try:
            bench.driver.run()
        except TransportError as error:
            failure.append(error)

    bench.transport.open = closed
    got = []
    waiting = threading.Thread(target=lambda: got.append(change(bench, timeout_s=60).status))
    waiting.start()
    wait_until(lambda: bench.driver._clients._waiting)
    run()
    waiting.join(10)
    assert (len(failure), got) == (1, [Hresult.MQDS_NO_RSP_FROM_OWNER])
    assert change(bench).status == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE


def test_a_reply_is_a_message_like_others(bench):
    """3.2.7.6: the reply's own attributes come from the engine."""
    reply = ChangeReplyMessage(site_id=guid_of("site"), request_identifier=1, result=0, requester_name="BSC1")
    bench.engine.answers[Received] = lambda event: [replace(SEND, destination=event.sender, message=reply)]
    bench.start()
    bench.arrive(Message(body=encode(ACK)), "PSC7")
    wait_until(lambda: bench.transport.sent)
    message, to = bench.transport.sent[0]
    assert (decode(message.body), to) == (reply, replication_queue("PSC7"))
