"""Window and acknowledgements of an open session ([MS-MQQB] 3.1.5.5, 3.1.5.8, 3.1.6.3, 3.1.6.4, 3.1.7.1)."""

import pytest
from support.session.bench import (
    SERVER,
    SessionBench,
    acceptor,
    acks,
    closing,
    essential,
    header,
    initiator,
    open_acceptor,
    open_initiator,
    parameters,
    request,
    response,
)

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.timers import SessionState, SessionTimer
from mqdssm.model.guid import NULL_GUID


def transmitted(actions: list[do.Action]) -> list[int]:
    sent = [action for action in actions if isinstance(action, do.TransmitMessages)]
    return [number for action in sent for number in action.numbers]


def acknowledged(actions: list[do.Action]) -> tuple[int, ...]:
    return tuple(
        number
        for action in actions
        if isinstance(action, do.MessagesAcknowledged)
        for number in action.numbers
    )


def returned(actions: list[do.Action]) -> tuple[int, ...]:
    return tuple(
        number for action in actions if isinstance(action, do.MessagesReturned) for number in action.numbers
    )


# --- the sender's window


@pytest.mark.spec("MS-MQQB 3.1.7.1")
@pytest.mark.parametrize(("own", "peer", "expected"), [(64, 64, 64), (3, 64, 3), (64, 3, 3), (64, 0, 1)])
def test_the_smaller_window_limits_a_sender(own, peer, expected):
    """Decision T25."""
    bench = open_initiator(window=peer, window_size=own)
    assert bench.session.send_capacity == expected
    actions = bench.send(*range(1, expected + 2))
    assert transmitted(actions) == list(range(1, expected + 1))
    assert returned(actions) == (expected + 1,)
    assert bench.session.send_capacity == 0


@pytest.mark.spec("MS-MQQB 3.1.7.1")
def test_messages_that_are_sent_together_fill_the_window_and_the_others_are_returned():
    bench = open_initiator(window=3)
    actions = bench.send_together(1, 2, 3, 4, 5)
    assert essential(actions) == [do.TransmitMessages(numbers=(1, 2, 3)), do.MessagesReturned(numbers=(4, 5))]
    assert acknowledged(bench.acknowledge(2, window=3)) == (1, 2)
    assert essential(bench.send_together(6, 7)) == [do.TransmitMessages(numbers=(6, 7))]
    assert essential(bench.send_together(8, 9)) == [do.MessagesReturned(numbers=(8, 9))]
    assert SessionTimer.ACK_WAIT in bench.due


@pytest.mark.spec("MS-MQQB 3.1.1.3.1")
def test_the_window_of_a_header_counts_from_now_on():
    """A peer that is short of memory reduces its window to 1."""
    bench = open_initiator()
    bench.send(1, 2)
    bench.acknowledge(1, window=1)
    assert bench.session.send_capacity == 0
    bench.acknowledge(2, window=64)
    assert bench.session.send_capacity == 64


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.5")
@pytest.mark.spec("MS-MQQB 3.1.1.3.1.2")
@pytest.mark.spec("MS-MQQB 3.1.5.5.1")
def test_a_recoverable_message_fills_the_window_until_it_is_stored():
    """Decision T31."""
    bench = open_initiator(window=2)
    bench.send(1, 2, is_recoverable=True)
    assert acknowledged(bench.acknowledge(2, window=2)) == ()
    assert bench.session.send_capacity == 0
    assert acknowledged(bench.acknowledge(2, base=1, flags=0b11, window=2)) == (1, 2)
    assert bench.session.send_capacity == 2


# --- acknowledgements that arrive


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.3")
@pytest.mark.spec("MS-MQQB 3.1.5.5.2")
@pytest.mark.spec("MS-MQQB 3.1.1.4")
def test_express_messages_are_acknowledged_by_their_count():
    bench = open_initiator()
    bench.send(11, 12, 13)
    assert acknowledged(bench.acknowledge(2)) == (11, 12)
    assert acknowledged(bench.acknowledge(2)) == ()
    assert acknowledged(bench.acknowledge(3)) == (13,)


@pytest.mark.spec("MS-MQQB 3.1.5.5.3")
def test_recoverable_messages_are_acknowledged_by_flags_alone():
    """Decision T22: by the text, 21 would be deleted with 22 though it is on no disk."""
    bench = open_initiator()
    bench.send(21, 22, 23, is_recoverable=True)
    assert acknowledged(bench.acknowledge(3, base=2, flags=0b1)) == (22,)
    assert acknowledged(bench.acknowledge(3, base=1, flags=0b101)) == (21, 23)


@pytest.mark.spec("MS-MQQB 3.1.5.5.3")
def test_the_kinds_have_numbers_of_their_own():
    bench = open_initiator()
    bench.send(1)
    bench.send(2, is_recoverable=True)
    bench.send(3)
    bench.send(4, is_recoverable=True)
    assert acknowledged(bench.acknowledge(4, base=2, flags=0b1)) == (1, 3, 4)
    assert bench.session.unacknowledged == 1


@pytest.mark.spec("MS-MQQB 3.1.5.5.3")
def test_a_stored_message_may_be_reported_before_it_is_counted():
    bench = open_initiator()
    bench.send(1, 2, is_recoverable=True)
    assert acknowledged(bench.acknowledge(1, base=1, flags=0b11)) == (1, 2)
    assert acknowledged(bench.acknowledge(2)) == ()


@pytest.mark.spec("MS-MQQB 3.1.5.5.3")
@pytest.mark.parametrize(
    "fields",
    [
        {"ack": 3},
        {"ack": 0xFFFF},
        {"ack": 2, "base": 2, "flags": 0b1},
        {"ack": 2, "base": 1, "flags": 0b10},
        {"ack": 2, "base": 0, "flags": 0b1},
        {"ack": 2, "base": 0xFFFF, "flags": 0b1},
        {"ack": 2, "base": 7},
    ],
)
def test_an_acknowledgement_of_what_was_never_sent_closes_the_session(fields):
    """Decision T23; nothing of it counts."""
    bench = open_initiator()
    bench.send(1)
    bench.send(2, is_recoverable=True)
    actions = bench.acknowledge(**fields)
    assert closing(actions) is CloseReason.NEVER_SENT
    assert (acknowledged(actions), returned(actions)) == ((), (1, 2))


@pytest.mark.spec("MS-MQQB 3.1.5.5.3")
def test_a_count_that_goes_back_closes_the_session():
    bench = open_initiator()
    bench.send(1, 2)
    bench.acknowledge(2)
    assert closing(bench.acknowledge(1)) is CloseReason.NEVER_SENT


@pytest.mark.spec("MS-MQQB 3.1.5.5.5")
@pytest.mark.parametrize(
    ("sent", "recoverable", "reason"),
    [
        (2, 1, None),
        (1, 1, CloseReason.MISCOUNTED),
        (3, 1, CloseReason.MISCOUNTED),
        (2, 0, CloseReason.MISCOUNTED),
        (2, 2, CloseReason.MISCOUNTED),
    ],
)
def test_counts_that_differ_close_the_session(sent, recoverable, reason):
    bench = open_acceptor()
    bench.message()
    bench.message(is_recoverable=True)
    assert closing(bench.acknowledge(sent=sent, recoverable=recoverable)) is reason


@pytest.mark.spec("MS-MQQB 3.1.5.8.4")
@pytest.mark.parametrize("is_recoverable", [False, True])
def test_a_header_in_a_message_counts_that_message(is_recoverable):
    """Decision T32: by the text, each recoverable message with a header would close the session."""
    bench = open_acceptor()
    bench.send(1)
    actions = bench.message(
        is_recoverable=is_recoverable, session_header=header(1, sent=1, recoverable=int(is_recoverable))
    )
    assert essential(actions) == [
        do.AcceptMessage(token=1, is_recoverable=is_recoverable),
        do.MessagesAcknowledged(numbers=(1,)),
    ]


@pytest.mark.spec("MS-MQQB 3.1.5.5.5")
def test_a_message_whose_header_miscounts_is_accepted_before_the_session_closes():
    """[MS-MQMQ] 2.2.20.4 <14>: the message goes to its queue, and the receiver closes the session."""
    actions = open_acceptor().message(session_header=header(sent=9))
    assert essential(actions)[0] == do.AcceptMessage(token=1, is_recoverable=False)
    assert closing(actions) is CloseReason.MISCOUNTED


# --- waiting for acknowledgements


@pytest.mark.spec("MS-MQQB 3.1.2.4")
@pytest.mark.spec("MS-MQQB 3.1.6.3")
@pytest.mark.parametrize(("destination_is_direct", "wait_s"), [(True, 40.0), (False, 20.0)])
def test_a_session_without_acknowledgements_is_closed(destination_is_direct, wait_s):
    bench = open_initiator(**({} if destination_is_direct else {"destination": SERVER}))
    bench.send(1)
    assert bench.due[SessionTimer.ACK_WAIT] == bench.now + wait_s
    assert closing(bench.wait(wait_s)) is None, "packets of the peer have arrived since the session began"
    actions = bench.wait(wait_s)
    assert closing(actions) is CloseReason.NOT_ACKNOWLEDGED
    assert returned(actions) == (1,)


@pytest.mark.spec("MS-MQQB 3.1.5.4.1")
@pytest.mark.spec("MS-MQQB 3.1.2.4")
@pytest.mark.parametrize(("server", "wait_s"), [(NULL_GUID, 60.0), (SERVER, 30.0)])
def test_the_acceptor_waits_as_long_as_the_initiator_says(server, wait_s):
    bench = acceptor()
    bench.receive(request(server))
    bench.receive(parameters(ack_ms=30_000))
    bench.send(1)
    assert bench.due[SessionTimer.ACK_WAIT] == bench.now + wait_s
    bench.message()
    assert bench.due[SessionTimer.ACK_SEND] == bench.now + 15.0


@pytest.mark.spec("MS-MQQB 3.1.6.3")
@pytest.mark.spec("MS-MQQB 3.1.5.1")
def test_any_packet_is_a_sign_of_life():
    bench = open_initiator()
    bench.send(1)
    for _ in range(5):
        bench.wait(39.0)
        bench.message()
        assert closing(bench.wait(1.0)) is None
    assert closing(bench.wait(80.0)) is CloseReason.NOT_ACKNOWLEDGED


@pytest.mark.spec("MS-MQQB 3.1.5.5.5")
def test_an_acknowledgement_restarts_the_wait_while_messages_are_unacknowledged():
    bench = open_initiator()
    bench.send(1, 2)
    bench.wait(30.0)
    bench.acknowledge(1)
    assert bench.due[SessionTimer.ACK_WAIT] == bench.now + 40.0
    bench.acknowledge(2)
    assert SessionTimer.ACK_WAIT not in bench.due


# --- acknowledgements that are sent


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.4")
@pytest.mark.spec("MS-MQQB 3.1.6.4")
@pytest.mark.spec("MS-MQQB 3.1.2.5")
def test_an_acknowledgement_follows_after_half_the_ack_wait_time():
    bench = open_acceptor()
    bench.message()
    assert acks(bench.wait(9.9)) == []
    assert acks(bench.wait(0.2)) == [header(1)]
    assert SessionTimer.ACK_SEND not in bench.due, "decision T33"


def test_acknowledgements_that_are_sent_sooner():
    bench = open_acceptor(ack_send_max_s=0.2)
    bench.message()
    assert acks(bench.wait(0.1)) == []
    assert acks(bench.wait(0.2)) == [header(1)], "decision T47"


@pytest.mark.spec("MS-MQQB 3.1.6.4")
def test_an_acknowledgement_tells_what_we_have_sent():
    bench = open_acceptor(window_size=5)
    bench.send(1, 2)
    bench.send(3, is_recoverable=True)
    bench.message()
    assert acks(bench.wait(10.0)) == [header(1, sent=3, recoverable=1, window=5)]


@pytest.mark.spec("MS-MQQB 3.1.1.6.1")
@pytest.mark.parametrize(
    ("own", "peer", "half"), [(64, 64, 32), (64, 10, 5), (10, 64, 5), (64, 1, 1), (64, 3, 1)]
)
def test_half_a_window_is_acknowledged_at_once(own, peer, half):
    """Decision T26."""
    bench = open_acceptor(peer, window_size=own)
    for _ in range(half - 1):
        assert acks(bench.message()) == []
    assert acks(bench.message()) == [header(half, window=own)]


@pytest.mark.spec("MS-MQQB 3.1.1.6.1")
def test_a_window_that_shrinks_is_acknowledged_at_once():
    bench = open_acceptor()
    bench.message()
    assert acks(bench.acknowledge(sent=1, window=2)) == [header(1)]


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.6")
@pytest.mark.spec("MS-MQQB 3.1.5.8.7")
def test_a_recoverable_message_is_acknowledged_when_it_is_stored():
    bench = open_acceptor()
    bench.message(is_recoverable=True)
    assert bench.due[SessionTimer.ACK_SEND] == bench.now + 10.0
    bench.wait(1.0)
    bench.step(do.MessageStored(token=1))
    assert bench.due[SessionTimer.ACK_SEND] == bench.now + 0.5
    assert acks(bench.wait(0.5)) == [header(1, base=1, flags=0b1)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.7")
@pytest.mark.parametrize(("recoverable_ms", "after_s"), [(3_000, 3.0), (120_000, 10.0)])
def test_stored_messages_wait_no_longer_than_others(recoverable_ms, after_s):
    """Decision T27: the sender would close the session first."""
    bench = initiator()
    bench.receive(response())
    bench.session._core.recoverable_ack_s = recoverable_ms / 1000
    bench.receive(parameters())
    bench.message(is_recoverable=True)
    bench.step(do.MessageStored(token=1))
    assert bench.due[SessionTimer.ACK_SEND] == bench.now + after_s


@pytest.mark.spec("MS-MQQB 3.1.5.8.7")
def test_a_stored_message_does_not_delay_an_acknowledgement_that_is_due_sooner():
    bench = open_acceptor()
    bench.message()
    bench.wait(9.8)
    bench.message(is_recoverable=True)
    bench.step(do.MessageStored(token=2))
    assert acks(bench.wait(0.2)) == [header(2, base=1, flags=0b1)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.7")
def test_a_message_stored_after_its_acknowledgement_is_acknowledged_again():
    """Decision T33: UnackedReceivedMsgCount is 0 then."""
    bench = open_acceptor()
    bench.message(is_recoverable=True)
    assert acks(bench.wait(10.0)) == [header(1)]
    bench.step(do.MessageStored(token=1))
    assert acks(bench.wait(0.5)) == [header(1, base=1, flags=0b1)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.7")
def test_thirty_two_stored_messages_are_acknowledged_at_once():
    bench = open_acceptor(1000, window_size=1000)
    for _ in range(40):
        assert acks(bench.message(is_recoverable=True)) == []
    for token in range(1, 32):
        assert acks(bench.step(do.MessageStored(token=token))) == []
    assert acks(bench.step(do.MessageStored(token=32))) == [
        header(40, base=1, flags=0xFFFF_FFFF, window=1000)
    ]
    bench.step(do.MessageStored(token=33))
    assert acks(bench.wait(0.5)) == [header(40, base=33, flags=0b1, window=1000)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.7")
@pytest.mark.spec("MS-MQQB 3.1.5.5.3")
def test_messages_are_acknowledged_in_their_order():
    """Decision T22: a peer may take RecoverableMsgAckSeqNumber for the end of what is stored."""
    bench = open_acceptor(1000, window_size=1000)
    for _ in range(70):
        bench.message(is_recoverable=True)
    for token in range(2, 71):
        assert acks(bench.step(do.MessageStored(token=token))) == []
    assert [
        (ack.recoverable_ack_sequence_number, ack.recoverable_ack_flags.bit_count())
        for ack in acks(bench.step(do.MessageStored(token=1)))
    ] == [(1, 32), (33, 32), (65, 6)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.2")
@pytest.mark.spec("MS-MQQB 3.1.5.8.1")
def test_each_message_is_counted_and_given_to_the_queue_manager():
    """Decision T29: which of them are duplicates is no matter of the session."""
    bench = open_acceptor(2)
    for token in (1, 2):
        actions = bench.message(is_recoverable=True)
        assert essential(actions)[0] == do.AcceptMessage(token=token, is_recoverable=True)
    bench.step(do.MessageStored(token=2))
    actions = bench.step(do.MessageStored(token=1))
    assert acks(actions) == [header(2, base=1, flags=0b11)]
    assert acks(bench.step(do.MessageStored(token=1))) == []


@pytest.mark.spec("MS-MQQB 3.1.7.11")
@pytest.mark.spec("MS-MQQB 3.1.7.1.3")
def test_a_message_carries_an_acknowledgement_that_is_due_soon():
    bench = open_acceptor()
    bench.message()
    bench.message(is_recoverable=True)
    bench.wait(7.5)
    assert essential(bench.send(1)) == [do.TransmitMessages(numbers=(1,))]
    bench.wait(0.1)
    assert essential(bench.send(2)) == [do.TransmitMessages(numbers=(2,), session_header=header(2, sent=2))]
    assert SessionTimer.ACK_SEND not in bench.due
    assert essential(bench.send(3)) == [do.TransmitMessages(numbers=(3,))]


@pytest.mark.spec("MS-MQQB 3.1.7.11")
def test_the_first_of_messages_that_are_sent_together_carries_the_acknowledgement():
    """The header counts the message that carries it, and no later one (decision T32)."""
    bench = open_acceptor()
    bench.message()
    bench.wait(7.6)
    transmission = do.TransmitMessages(numbers=(1, 2), session_header=header(1, sent=1))
    assert essential(bench.send_together(1, 2)) == [transmission]


@pytest.mark.spec("MS-MQQB 3.1.5.8")
@pytest.mark.spec("MS-MQQB 3.1.1.6.1")
def test_express_messages_that_arrive_together_are_counted_together():
    """Decision T26: half a window, or more of it, is acknowledged at once."""
    bench = open_acceptor()
    assert acks(bench.step(do.ExpressReceived(messages=31))) == []
    assert acks(bench.step(do.ExpressReceived(messages=33))) == [header(64)]
    assert acks(bench.step(do.ExpressReceived(messages=2))) == []
    assert acks(bench.wait(10.0)) == [header(66)]


@pytest.mark.spec("MS-MQQB 3.1.5.8")
def test_express_messages_before_the_session_is_open_close_it():
    bench = acceptor()
    assert closing(bench.step(do.ExpressReceived(messages=2))) is CloseReason.UNEXPECTED


@pytest.mark.spec("MS-MQQB 3.1.7.11")
def test_a_message_carries_what_is_stored():
    bench = open_acceptor()
    bench.message(is_recoverable=True)
    bench.step(do.MessageStored(token=1))
    bench.wait(0.45)
    actions = bench.send(1, is_recoverable=True)
    carried = header(1, base=1, flags=0b1, sent=1, recoverable=1)
    assert essential(actions) == [do.TransmitMessages(numbers=(1,), session_header=carried)]
    assert acks(bench.wait(20.0)) == []


# --- limits


def test_a_peer_that_sends_more_than_can_be_stored_is_disconnected():
    """Decision T28; the driver stops reading at half of that."""
    bench = open_acceptor(unstored_max=10)
    for _ in range(5):
        assert bench.session.may_read
        bench.message(is_recoverable=True)
    assert not bench.session.may_read
    for _ in range(5):
        bench.message(is_recoverable=True)
    assert closing(bench.message()) is None
    assert closing(bench.message(is_recoverable=True)) is CloseReason.FLOODED


def test_a_session_that_holds_one_message_reads_it():
    """Decision T159: half of 1 was 0, and nothing was ever read."""
    bench = open_acceptor(unstored_max=1)
    assert bench.session.may_read
    bench.message(is_recoverable=True)
    assert not bench.session.may_read


@pytest.mark.spec("MS-MQQB 3.1.2.2")
@pytest.mark.spec("MS-MQQB 3.1.6.2")
@pytest.mark.parametrize("bench", [open_initiator(), open_acceptor()], ids=["initiator", "acceptor"])
def test_an_idle_session_is_closed(bench: SessionBench):
    assert closing(bench.wait(299.0)) is None
    bench.message()
    assert closing(bench.wait(300.0)) is None
    assert closing(bench.wait(2.0)) is CloseReason.IDLE
    assert bench.due == {}


@pytest.mark.spec("MS-MQQB 3.1.6.2")
def test_an_idle_session_does_not_open_again_for_messages_that_are_gone():
    """Messages that still waited would have been sent meanwhile."""
    bench = open_initiator()
    bench.step(do.MessagesWaiting())
    assert closing(bench.wait(301.0)) is CloseReason.IDLE
    assert bench.session.state is SessionState.CLOSED
    assert bench.due == {}


# --- 16 bits


@pytest.mark.spec("MS-MQQB 3.1.1.4")
@pytest.mark.parametrize("is_recoverable", [False, True])
def test_sequence_numbers_continue_at_0_after_65535(is_recoverable):
    """Decision T21."""
    bench = open_initiator()
    bench.session._core.sent.count = bench.session._core.sent._acknowledged = 0xFFFE
    bench.session._core.sent.recoverable_count = 0xFFFE
    bench.send(1, 2, 3, is_recoverable=is_recoverable)
    stored = {"base": 0xFFFF, "flags": 0b11} if is_recoverable else {}
    assert acknowledged(bench.acknowledge(0, **stored)) == (1, 2)
    stored = {"base": 1, "flags": 0b1} if is_recoverable else {}
    assert acknowledged(bench.acknowledge(1, **stored)) == (3,)


@pytest.mark.spec("MS-MQQB 3.1.1.4")
def test_the_recoverable_number_0_is_told_from_none_by_its_flags():
    bench = open_initiator()
    bench.session._core.sent.recoverable_count = 0xFFFF
    bench.send(1, is_recoverable=True)
    assert acknowledged(bench.acknowledge(1, base=0)) == ()
    assert acknowledged(bench.acknowledge(1, base=0, flags=0b1)) == (1,)


@pytest.mark.spec("MS-MQQB 3.1.1.4")
def test_numbers_that_were_never_sent_are_recognised_after_a_wrap():
    for fields in ({"ack": 12}, {"ack": 11, "base": 12, "flags": 1}, {"ack": 11, "base": 11, "flags": 2}):
        bench = open_initiator()
        sent = bench.session._core.sent
        sent.count = sent._acknowledged = sent.recoverable_count = 0x1_0000 + 10
        bench.send(1, is_recoverable=True)
        assert closing(bench.acknowledge(**fields)) is CloseReason.NEVER_SENT


@pytest.mark.spec("MS-MQQB 3.1.1.4")
def test_acknowledgements_continue_at_0_after_65535():
    bench = open_acceptor(2)
    received = bench.session._core.received
    received.count = received.recoverable_count = received._stored = received._reported = 0xFFFF
    bench.message(is_recoverable=True)
    actions = bench.step(do.MessageStored(token=1))
    assert acks(actions) == [header(0, base=0, flags=0b1)]
    bench.message(is_recoverable=True)
    assert acks(bench.step(do.MessageStored(token=2))) == [header(1, base=1, flags=0b1)]
