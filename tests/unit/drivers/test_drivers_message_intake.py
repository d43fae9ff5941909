"""Messages that arrive: recoverable ones are lost by no failure, duplicates and full disks do no harm."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from support.replication.queue_managers import Clock, guid_of, key_of, sender_of, signed

from mqdssm.drivers.authentication.keyring import PinnedKeys
from mqdssm.drivers.authentication.replay_marks import ReplayMarks
from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.queue_manager.acknowledger import Acknowledger
from mqdssm.drivers.queue_manager.inbox import LocalInbox
from mqdssm.drivers.queue_manager.message_intake import (
    POSTPONED_MAX,
    POSTPONED_S,
    ArrivingMessage,
    MessageIntake,
)
from mqdssm.drivers.queue_manager.message_store import MessageStore
from mqdssm.drivers.threads import EventCounts
from mqdssm.drivers.transport import NOTIFICATION, REPLICATION
from mqdssm.errors import ConfigError, DirectoryError, TransportError
from mqdssm.model.transport import (
    Acknowledgements,
    DeliveryGuarantee,
    Message,
    MessageClass,
    MessageId,
    own_replication_queue,
)

LEFT = guid_of("LEFT")
QUEUES = (REPLICATION, NOTIFICATION)
RECOVERABLE = DeliveryGuarantee.RECOVERABLE


class Receiver:
    """The intake of a queue manager, its parts, and what it does."""

    def __init__(self, folder) -> None:
        self.clock, self.counts, self.settled, self.sent = Clock(), EventCounts(), [], []
        self.has_numbers = True
        self.store = MessageStore(folder / "messages.sqlite")
        self.marks = ReplayMarks(folder / "marks.json")
        self.keys = PinnedKeys({LEFT: sender_of("LEFT")})
        acknowledger = Acknowledger(
            next_identifier=self._next_identifier,
            enqueue=lambda _address, ack: self.sent.append(ack) or True,
            clock=self.clock,
            store=self.store,
            counts=self.counts,
            insecure_nacks=True,
        )
        self.inboxes = {queue.number: LocalInbox(queue, self.clock, acknowledger.leave) for queue in QUEUES}
        self.intake = MessageIntake(
            lambda name: self.inboxes.get(name.number),
            acknowledger,
            verifier=Verifier(self.keys, self.clock.now, marks=self.marks),
            store=self.store,
            clock=self.clock,
            counts=self.counts,
        )

    def _next_identifier(self) -> MessageId:
        if not self.has_numbers:
            raise TransportError("the disk is full")
        return MessageId(guid_of("RIGHT"), len(self.sent) + 1)

    def take(self, *messages: Message) -> list[bool]:
        """Process messages; return what their senders are told."""
        settled = []
        self.intake.process([ArrivingMessage(message, settled.append) for message in messages])
        return settled

    def bodies(self, number: int = REPLICATION.number) -> list[bytes]:
        return [arrival.message.body for arrival in iter(lambda: self.inboxes[number].receive(0), None)]

    @property
    def answers(self) -> list[MessageClass]:
        return [MessageClass(ack.message_class) for ack in self.sent]

    def fail_to_commit(self) -> None:
        """Let the next transaction end as on a full disk."""
        add = self.store.add_arrived

        def fail(queue, arrival):
            self.store.add_arrived = add
            add(queue, arrival)
            raise TransportError("the disk is full")

        self.store.add_arrived = fail

    def close(self) -> None:
        self.store.close()
        self.marks.close()


@pytest.fixture
def right(tmp_path) -> Iterator[Receiver]:
    with closing(Receiver(tmp_path)) as made:
        yield made


def message(number: int, **changes) -> Message:
    """A signed recoverable message, as it arrives."""
    made = replace(
        signed("LEFT", b"%d" % number),
        identifier=MessageId(LEFT, number),
        sent_at=int(Clock().now),
        destination=own_replication_queue(guid_of("RIGHT")),
        delivery=RECOVERABLE,
    )
    return Signer(LEFT, key_of("LEFT")).sign(replace(made, **changes))


def plain(number: int, **changes) -> Message:
    """An express message to a queue that wants no signatures."""
    destination = replace(own_replication_queue(guid_of("RIGHT")), number=NOTIFICATION.number)
    made = Message(
        body=b"%d" % number,
        identifier=MessageId(LEFT, number),
        sent_at=int(Clock().now),
        destination=destination,
        acknowledgements=Acknowledgements.FULL_REACH_QUEUE,
        administration_queue=own_replication_queue(LEFT),
    )
    return replace(made, **changes)


def test_a_signed_message_that_could_not_be_stored_is_accepted_when_it_comes_again(right):
    """Its signature was seen, but no queue has had the message (decision T125)."""
    assert right.take(message(1)) == [True]
    right.fail_to_commit()
    assert right.take(message(2), message(3)) == [False, False]
    assert right.take(message(2), message(3)) == [True, True]
    assert right.bodies() == [b"1", b"2", b"3"]
    assert right.take(message(3)) == [True], "a duplicate"
    assert right.bodies() == []
    assert right.answers == []


def test_a_full_disk_fills_no_log(right, caplog):
    """Each refused message comes again: the log says it a few times a minute, the counter always."""
    for number in range(1, 31):
        right.fail_to_commit()
        assert right.take(message(number)) == [False]
    told = [record.getMessage() for record in caplog.records]
    assert [text for text in told if "the disk is full" in text] == told[:3]
    assert told[3:] == ["further warnings of this kind are left out for 60 s"]
    assert right.counts.copy()["dropped: could not be stored"] == 30


def test_an_unreachable_directory_fills_no_log(right, caplog, monkeypatch):
    def fail(*_):
        raise DirectoryError("no answer")

    monkeypatch.setattr(PinnedKeys, "find_senders", fail)
    for number in range(1, 61):
        assert right.take(message(number)) == [False]
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 21
    assert told[-1] == "further warnings of this kind are left out for 60 s"


def test_a_replay_in_a_failed_batch_stays_a_replay(right):
    assert right.take(message(1)) == [True]
    forged = replace(message(1), identifier=MessageId(LEFT, 99))
    right.fail_to_commit()
    assert right.take(forged, message(2)) == [False, False]
    assert right.take(forged) == [True]
    assert right.bodies() == [b"1"]
    assert right.answers == [MessageClass.NACK_BAD_SIGNATURE]


def test_the_sender_is_told_of_a_message_that_a_crash_has_lost(tmp_path):
    """The replay mark was written, and the process was killed before the message was stored (T125)."""
    with closing(Receiver(tmp_path)) as before:
        before.fail_to_commit()
        assert before.take(message(1)) == [False]
    with closing(Receiver(tmp_path)) as right:
        assert right.take(message(1)) == [True]
        assert right.bodies() == []
        assert right.answers == [MessageClass.NACK_BAD_SIGNATURE]


@pytest.mark.parametrize("reason", ["directory", "marks"])
def test_a_recoverable_message_waits_until_it_can_be_verified(right, monkeypatch, reason):
    def fail(*_args) -> None:
        raise DirectoryError("no answer") if reason == "directory" else ConfigError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(
            *((PinnedKeys, "find_senders") if reason == "directory" else (ReplayMarks, "cover")), fail
        )
        assert right.take(message(1), message(2, delivery=DeliveryGuarantee.EXPRESS)) == [False, True]
    assert right.take(message(1)) == [True]
    assert right.bodies() == [b"1"]
    assert right.answers == []


@pytest.mark.slow
def test_a_message_that_can_never_be_verified_is_refused_after_an_hour(right, monkeypatch):
    def fail(*_args) -> None:
        raise DirectoryError("no answer")

    monkeypatch.setattr(PinnedKeys, "find_senders", fail)
    first = message(1, application_tag=int(right.clock.now) + POSTPONED_S)
    assert right.take(first) == [False]
    right.clock.now += POSTPONED_S - 1
    assert right.take(first) == [False]
    right.clock.now += 1
    assert right.take(first) == [True]
    assert right.answers == [MessageClass.NACK_BAD_SIGNATURE]
    later = [message(number, application_tag=int(right.clock.now)) for number in (2, 3)]
    tampered = [
        replace(later[0], identifier=MessageId(LEFT, 100 + number)) for number in range(POSTPONED_MAX)
    ]
    assert right.take(*tampered, *later) == [False] * (POSTPONED_MAX + 2)
    assert len(right.intake._postponed) == POSTPONED_MAX


def test_an_acknowledgement_without_a_number_stops_nobody(right):
    """A stranger's express message is refused while the disk is full."""
    right.has_numbers = False
    nowhere = replace(plain(1).destination, number=77)
    assert right.take(plain(1, destination=nowhere), message(1), plain(2)) == [True, True, True]
    assert right.bodies(NOTIFICATION.number) == [b"2"]
    assert right.counts.copy()["given up: acknowledgement"] == 2
    wanted = message(3, acknowledgements=Acknowledgements.FULL_REACH_QUEUE)
    assert right.take(plain(3, destination=nowhere), wanted) == [True, False], "it comes again"
    right.has_numbers = True
    assert right.take(wanted) == [True]
    assert right.answers == [MessageClass.ACK_REACH_QUEUE]


@pytest.mark.spec("MS-MQQB 3.1.5.8.1")
@pytest.mark.parametrize("make", [message, plain])
def test_a_late_copy_is_a_duplicate_and_not_expired(right, make):
    """Another answer would say that the message was not delivered."""
    limited = make(1, time_to_reach_queue_s=10, acknowledgements=Acknowledgements.NACK_REACH_QUEUE)
    assert right.take(limited) == [True]
    right.clock.now += 100
    late = make(2, time_to_reach_queue_s=10, acknowledgements=Acknowledgements.NACK_REACH_QUEUE)
    assert right.take(limited, late) == [True, True]
    assert [ack.correlation.number for ack in right.sent] == [2]
    assert right.answers == [MessageClass.NACK_REACH_QUEUE_TIMEOUT]


def test_a_message_that_the_carrier_refuses_is_answered_and_not_accepted(right):
    settled = []
    wanted = message(1, acknowledgements=Acknowledgements.FULL_REACH_QUEUE)
    refused = ArrivingMessage(wanted, settled.append, MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE)
    right.intake.process([refused])
    assert (right.bodies(), right.answers, settled) == ([], [refused.refusal], [True])
    assert [ack.correlation.number for ack in right.store.read_sent()] == [1], "it is recoverable"
