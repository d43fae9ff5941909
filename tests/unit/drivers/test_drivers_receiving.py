"""What of the messages in the replication queue reaches the engine ([MC-MQDSRP] 3.1.5.1)."""

import threading
import time
from dataclasses import replace

import pytest
from support.replication.driver_bench import ACK, SEND
from support.replication.queue_managers import guid_of, wait_until

from mqdssm.drivers.replication import message_reader as receiving
from mqdssm.drivers.replication import sent_messages as outstanding_module
from mqdssm.drivers.replication.message_reader import ARRIVED_MAX
from mqdssm.drivers.replication.sent_messages import GRACE_S, SentMessage, SentMessages
from mqdssm.engines.actions import StartTimer, TimerFired
from mqdssm.engines.replication.actions import Nacked, Received, Started
from mqdssm.model.replication import Service
from mqdssm.model.transport import (
    Message,
    MessageClass,
    MessageId,
    replication_queue,
)
from mqdssm.wire.mqdsrp import decode, encode


@pytest.mark.spec("MC-MQDSRP 3.1.5.1")
class TestArrivals:
    """What of a message in the queue reaches the engine."""

    def test_a_replication_message(self, bench):
        bench.start()
        bench.arrive(Message(body=encode(ACK)))
        wait_until(lambda: bench.engine.of(Received))
        assert bench.engine.of(Received) == [Received(message=ACK, sender="PSC1", machine_id=guid_of("PSC1"))]

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
        wait_until(lambda: bench.driver.counts.copy().get("dropped: acknowledges nothing of ours") == 4)
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

    def test_an_acknowledgement_that_is_here_before_send_has_returned(self, bench):
        """The network works while the driver learns how its message is called."""
        send = bench.transport.send

        def slow(message, destination):
            identifier = send(message, destination)
            bench.arrive(self.nack(bench), None)
            wait_until(bench.transport.inbox.arrivals.empty)
            time.sleep(0.1)
            return identifier

        bench.transport.send = slow
        bench.engine.answers[Started] = lambda _: [SEND]
        bench.start()
        wait_until(lambda: bench.engine.of(Nacked))
        assert not bench.driver.counts.copy()

    def test_messages_wait_in_their_queue_while_the_store_works(self, bench, monkeypatch):
        """Its limits are those of a queue; the engine has none for octets."""
        monkeypatch.setattr(receiving, "ARRIVED_MAX", 5)
        left = self.busy(bench, 20)
        wait_until(lambda: left.qsize() == 14)  # five in the engine, one in hand
        time.sleep(0.05)
        assert (left.qsize(), len(bench.engine.of(Received))) == (14, 5)
        bench.engine.begun = 3
        wait_until(lambda: left.qsize() == 11)
        time.sleep(0.05)
        assert (left.qsize(), len(bench.engine.of(Received))) == (11, 8), "room for three more"
        bench.engine.begun = None
        wait_until(lambda: len(bench.engine.of(Received)) == 20)

    def test_octets_are_limited_too_but_for_one_message(self, bench, monkeypatch):
        monkeypatch.setattr(receiving, "ARRIVED_BYTES_MAX", 2 * len(encode(ACK)))
        left = self.busy(bench, 6)
        wait_until(lambda: left.qsize() == 3)  # two in the engine, one in hand
        time.sleep(0.05)
        assert (left.qsize(), len(bench.engine.of(Received))) == (3, 2)
        monkeypatch.setattr(receiving, "ARRIVED_BYTES_MAX", 1)
        bench.engine.begun = None
        wait_until(lambda: len(bench.engine.of(Received)) == 6)

    def test_stop_does_not_wait_for_room(self, bench, monkeypatch):
        monkeypatch.setattr(receiving, "ARRIVED_MAX", 1)
        left = self.busy(bench, 5)
        wait_until(lambda: left.qsize() == 3)
        bench.stop()
        assert len(bench.engine.of(Received)) == 1

    def busy(self, bench, arrivals: int):
        """What is left in the queue of an engine that begins with no message, and has a timer."""
        again = [StartTimer(name="again", after_s=0.01)]
        bench.engine.answers |= {Started: lambda _: again, TimerFired: lambda _: again}
        bench.engine.begun = 0
        bench.start()
        for _ in range(arrivals):
            bench.arrive(Message(body=encode(ACK)))
        return bench.transport.inbox.arrivals


def test_outstanding_messages_are_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(outstanding_module, "OUTSTANDING_MAX", 2)
    outstanding = SentMessages()
    sent = [SentMessage(message=ACK, destination=f"PSC{number}") for number in range(3)]
    for number, one in enumerate(sent):
        outstanding.send(lambda number=number: MessageId(number=number), b"body", one, 100.0)

    def take(number: int, now: float) -> SentMessage | None:
        return outstanding.take(Message(correlation=MessageId(number=number), body=b"body"), now)

    assert take(0, 50) is None, "too many: the oldest is forgotten"
    assert take(1, 100 + GRACE_S) == sent[1]
    assert take(2, 100 + GRACE_S + 1) is None
