"""Establishing and closing a session ([MS-MQQB] 3.1.5.2 to 3.1.5.4, 3.1.5.9)."""

from itertools import count

import pytest
from support.session.bench import (
    CLIENT,
    SERVER,
    START,
    STRANGER,
    SessionBench,
    acceptor,
    acks,
    closing,
    essential,
    header,
    initiator,
    new_initiator,
    open_acceptor,
    open_initiator,
    packets,
    parameters,
    request,
    response,
)

from mqdssm.engines.actions import Dropped, Note, TimerFired
from mqdssm.engines.session import actions as do
from mqdssm.engines.session.actions import CloseReason
from mqdssm.engines.session.session import MessageSession
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.engines.session.timers import SessionState, SessionTimer
from mqdssm.model.guid import NULL_GUID
from mqdssm.model.packets import SessionAck


@pytest.mark.spec("MS-MQQB 3.1.5.2")
@pytest.mark.spec("MS-MQQB 3.1.7.12")
def test_waiting_messages_open_a_session():
    bench = new_initiator()
    assert essential(bench.step(do.MessagesWaiting())) == [do.Connect(connection=1)]
    assert bench.session.state is SessionState.CONNECTING
    assert essential(bench.step(do.MessagesWaiting())) == []


@pytest.mark.spec("MS-MQQB 3.1.5.2.3")
@pytest.mark.parametrize("destination", [NULL_GUID, SERVER])
def test_the_request_names_the_acceptor_unless_the_format_name_is_direct(destination):
    bench = new_initiator(destination)
    bench.step(do.MessagesWaiting())
    actions = bench.step(do.Connected(connection=1))
    assert packets(actions) == [request(destination, time_stamp=int(START * 1000))]
    assert bench.session.state is SessionState.WAITING_ECR


@pytest.mark.spec("MS-MQQB 3.1.2.1")
@pytest.mark.spec("MS-MQQB 3.1.6.6")
@pytest.mark.parametrize("bench", [initiator(), acceptor()], ids=["initiator", "acceptor"])
def test_a_session_is_established_within_a_minute(bench: SessionBench):
    assert essential(bench.wait(59.9)) == []
    assert closing(bench.wait(0.2)) is CloseReason.NOT_ESTABLISHED


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.2")
@pytest.mark.spec("MS-MQQB 3.1.5.10")
@pytest.mark.spec("MS-MQQB 3.1.3.2")
def test_an_acceptor_waits_for_a_request():
    session = MessageSession.accept(SessionSettings(identifier=SERVER))
    assert session.state is SessionState.WAITING_EC
    bench = SessionBench(session)
    assert essential(bench.step(do.Connected())) == []
    assert set(bench.due) == {SessionTimer.INITIALIZATION, SessionTimer.CLEANUP}


@pytest.mark.spec("MS-MQQB 3.1.5.3.1")
@pytest.mark.parametrize("server", [NULL_GUID, SERVER])
@pytest.mark.parametrize("is_ping_skipped", [True, False])
def test_a_request_is_answered_with_our_identifier(server, is_ping_skipped):
    bench = acceptor()
    actions = bench.receive(request(server, is_ping_skipped=is_ping_skipped))
    assert packets(actions) == [request(SERVER, is_ping_skipped=is_ping_skipped)]
    assert (bench.session.state, bench.session.remote_identifier) == (SessionState.WAITING_CP, CLIENT)


@pytest.mark.spec("MS-MQQB 3.1.5.3.1")
@pytest.mark.spec("MS-MQQB 2.2.1")
def test_a_request_for_another_queue_manager_is_refused_and_the_session_closed():
    """Decision T30: by the text it would be opened by the ConnectionParameters that follow."""
    bench = acceptor()
    actions = bench.receive(request(STRANGER))
    assert packets(actions) == [request(SERVER, is_refused=True)]
    assert closing(actions) is CloseReason.NOT_ADDRESSED
    assert bench.session.state is SessionState.CLOSED


@pytest.mark.spec("MS-MQQB 3.1.5.3.2")
@pytest.mark.spec("MS-MQQB 2.2.2.1")
@pytest.mark.parametrize(
    ("round_trip_s", "expected_ms"), [(0.0, 500), (0.05, 500), (0.2, 1600), (14.9, 119_200), (30.0, 120_000)]
)
def test_the_response_measures_the_round_trip(round_trip_s, expected_ms):
    bench = initiator()
    bench.wait(round_trip_s)
    assert packets(bench.receive(response())) == [parameters(recoverable_ms=expected_ms)]
    assert (bench.session.state, bench.session.remote_identifier) == (SessionState.WAITING_CPR, SERVER)


@pytest.mark.spec("MS-MQQB 3.1.5.3.2")
def test_the_time_stamp_has_32_bits():
    bench = new_initiator()
    bench.now = 2**32 / 1000 - 0.05
    bench.step(do.MessagesWaiting())
    sent = packets(bench.step(do.Connected(connection=1)))[0]
    bench.wait(0.1)
    assert packets(bench.receive(response(time_stamp=sent.time_stamp))) == [parameters(recoverable_ms=800)]


@pytest.mark.spec("MS-MQQB 3.1.5.3.2")
@pytest.mark.parametrize(
    ("destination", "answer", "reason"),
    [
        (NULL_GUID, response(client_guid=STRANGER), CloseReason.WRONG_PEER),
        (SERVER, response(server_guid=STRANGER), CloseReason.WRONG_PEER),
        (SERVER, response(is_refused=True), CloseReason.REFUSED),
        (NULL_GUID, response(server_guid=STRANGER), None),
    ],
)
def test_an_invalid_response_closes_the_session(destination, answer, reason):
    bench = initiator(destination)
    assert closing(bench.receive(answer)) is reason


@pytest.mark.spec("MS-MQQB 3.1.5.3.2")
def test_a_peer_that_is_another_machine_is_left_and_connected_later():
    """Decision T142: no message was sent to it, and the messages still wait."""
    bench = open_initiator()
    assert closing(bench.step(do.CloseSession(detail="web02"))) is CloseReason.DRIVER
    assert bench.session.state is SessionState.WAITING_RECONNECT
    actions = bench.wait(10.0)
    assert [action for action in actions if isinstance(action, do.Connect)] == [do.Connect(connection=2)]


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.2")
@pytest.mark.spec("MS-MQQB 3.1.5.4.1")
@pytest.mark.spec("MS-MQQB 2.2.2")
def test_the_acceptor_takes_over_the_times_and_answers_with_its_window():
    bench = acceptor(window_size=10)
    bench.receive(request())
    actions = bench.receive(parameters(7, recoverable_ms=900, ack_ms=30_000))
    assert essential(actions) == [
        do.SendPacket(packet=parameters(10, recoverable_ms=900, ack_ms=30_000)),
        do.SessionOpened(remote_identifier=CLIENT),
    ]
    assert bench.session.state is SessionState.OPEN
    assert SessionTimer.INITIALIZATION not in bench.due


@pytest.mark.spec("MS-MQQB 3.1.5.4.2")
@pytest.mark.spec("MS-MQQB 3.1.1.1.1.1")
def test_the_initiator_opens_the_session_with_the_response():
    bench = initiator()
    bench.receive(response())
    actions = bench.receive(parameters(7))
    assert essential(actions) == [do.SessionOpened(remote_identifier=SERVER)]
    assert bench.session.state is SessionState.OPEN
    assert SessionTimer.INITIALIZATION not in bench.due


@pytest.mark.spec("MS-MQQB 2.2.2.1")
@pytest.mark.spec("MS-MQQB 3.1.5.1.3")
@pytest.mark.parametrize(
    "packet",
    [
        parameters(recoverable_ms=499),
        parameters(recoverable_ms=120_001),
        parameters(ack_ms=19_999),
        parameters(ack_ms=120_001),
    ],
)
def test_times_out_of_range_close_the_session(packet):
    for bench in (acceptor(), initiator()):
        bench.receive(request() if bench.session.state is SessionState.WAITING_EC else response())
        assert closing(bench.receive(packet)) is CloseReason.OUT_OF_RANGE


def in_state(state: SessionState) -> SessionBench:
    """A session in a state, with an open connection where the state has one."""
    match state:
        case SessionState.CLOSED:
            return new_initiator()
        case SessionState.PINGING:
            bench = new_initiator(ping_cookies=count(1))
            bench.step(do.MessagesWaiting())
        case SessionState.CONNECTING:
            bench = new_initiator()
            bench.step(do.MessagesWaiting())
        case SessionState.WAITING_EC:
            bench = acceptor()
        case SessionState.WAITING_ECR:
            bench = initiator()
        case SessionState.WAITING_CP:
            bench = acceptor()
            bench.receive(request())
        case SessionState.WAITING_CPR:
            bench = initiator()
            bench.receive(response())
        case SessionState.OPEN:
            bench = open_initiator()
        case SessionState.WAITING_RECONNECT:
            bench = initiator()
            bench.step(do.ConnectionLost(connection=1))
    assert bench.session.state is state
    return bench


PACKETS = {
    "EstablishConnection": (request(), {SessionState.WAITING_EC, SessionState.WAITING_ECR}),
    "ConnectionParameters": (parameters(), {SessionState.WAITING_CP, SessionState.WAITING_CPR}),
    "SessionAck": (SessionAck(session=header()), {SessionState.OPEN}),
}
WITHOUT_CONNECTION = {SessionState.CLOSED, SessionState.PINGING, SessionState.WAITING_RECONNECT}


@pytest.mark.spec("MS-MQQB 3.1.5.3")
@pytest.mark.spec("MS-MQQB 3.1.5.4")
@pytest.mark.spec("MS-MQQB 3.1.5.5")
@pytest.mark.parametrize("kind", PACKETS)
@pytest.mark.parametrize("state", SessionState)
def test_a_packet_that_the_state_does_not_allow_closes_the_session(state, kind):
    packet, states = PACKETS[kind]
    bench = in_state(state)
    actions = bench.receive(packet)
    if state in states:
        assert closing(actions) in {None, CloseReason.WRONG_PEER}
    elif state in WITHOUT_CONNECTION:
        assert actions == [Dropped(what="event of another connection")]
    else:
        assert closing(actions) is CloseReason.UNEXPECTED
        assert any(isinstance(action, Note) and action.is_warning for action in actions)


@pytest.mark.spec("MS-MQQB 3.1.5.8")
@pytest.mark.parametrize("state", SessionState)
def test_a_message_before_the_session_is_open_closes_it(state):
    actions = in_state(state).message()
    if state is SessionState.OPEN:
        assert essential(actions) == [do.AcceptMessage(token=1, is_recoverable=False)]
    elif state in WITHOUT_CONNECTION:
        assert essential(actions) == []
    else:
        assert closing(actions) is CloseReason.UNEXPECTED
        assert not any(isinstance(action, do.AcceptMessage) for action in actions)


@pytest.mark.spec("MS-MQQB 3.1.5.9")
@pytest.mark.spec("MS-MQQB 3.1.4.2")
@pytest.mark.parametrize("state", SessionState)
def test_stopping_ends_every_state_for_good(state):
    bench = in_state(state)
    actions = bench.step(do.Stop())
    assert closing(actions) is (None if state in WITHOUT_CONNECTION else CloseReason.STOPPED)
    assert (bench.session.state, bench.due) == (SessionState.CLOSED, {})
    assert essential(bench.step(do.MessagesWaiting())) == []
    assert essential(bench.wait(1000)) == []


@pytest.mark.spec("MS-MQQB 3.1.4.2")
def test_what_arrived_is_acknowledged_before_stopping():
    bench = open_acceptor()
    bench.message()
    actions = bench.step(do.Stop())
    assert [packet.ack_sequence_number for packet in acks(actions)] == [1]
    assert isinstance(essential(actions)[-1], do.CloseConnection)


@pytest.mark.spec("MS-MQQB 3.1.7.3")
@pytest.mark.spec("MS-MQQB 3.1.5.9")
@pytest.mark.parametrize("state", [state for state in SessionState if state not in WITHOUT_CONNECTION])
def test_a_lost_connection_closes_the_session(state):
    bench = in_state(state)
    is_open, connection = state is SessionState.OPEN, bench.session._core.connection
    actions = bench.step(do.ConnectionLost(connection=connection, reason="reset"))
    assert closing(actions) is None
    is_initiator_waiting = connection == 1
    expected = SessionState.WAITING_RECONNECT if is_initiator_waiting else SessionState.CLOSED
    assert bench.session.state is expected
    assert set(bench.due) <= {SessionTimer.RETRY_CONNECT}, is_open


@pytest.mark.spec("MS-MQQB 3.1.5.1.3")
@pytest.mark.spec("MS-MQQB 3.1.5.1.2")
@pytest.mark.parametrize("state", [state for state in SessionState if state not in WITHOUT_CONNECTION])
def test_a_malformed_packet_closes_the_session(state):
    actions = in_state(state).step(do.CloseSession(detail="bad signature"))
    assert closing(actions) is CloseReason.DRIVER
    assert any(isinstance(action, Note) and action.detail == "bad signature" for action in actions)


@pytest.mark.spec("MS-MQQB 3.1.7.3")
def test_events_of_an_earlier_connection_change_nothing():
    bench = initiator()
    bench.step(do.ConnectionLost(connection=1))
    assert essential(bench.wait(5.0)) == [do.Connect(connection=2)]
    for event in (
        do.Connected(connection=1),
        do.ConnectionLost(connection=1),
        do.PacketReceived(packet=response(), connection=1),
        do.MessageReceived(token=1, is_recoverable=True, connection=1),
    ):
        assert bench.step(event) == [Dropped(what="event of another connection")]
    assert bench.session.state is SessionState.CONNECTING


@pytest.mark.spec("MS-MQQB 3.1.2")
def test_timers_that_are_reported_too_early_or_too_late():
    bench = initiator()
    early = bench.session.step(TimerFired(name=SessionTimer.INITIALIZATION), bench.now + 59)
    assert [(action.name, round(action.after_s)) for action in early] == [("session initialization", 1)]
    assert bench.session.step(TimerFired(name=SessionTimer.ACK_WAIT), bench.now + 59) == [
        Dropped(what="timer that does not run")
    ]
    assert bench.session.step(TimerFired(name="unknown"), bench.now + 59) == [
        Dropped(what="timer that does not run")
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"window_size": 0},
        {"window_size": 0x8000},
        {"unstored_max": 0},
        {"ack_wait_s": 19.0},
        {"ack_wait_s": 121.0},
        {"initialization_s": 0.0},
        {"retry_connect_max_s": 1.0},
    ],
)
def test_settings_out_of_range_are_refused_by_name(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        SessionSettings(identifier=CLIENT, **changes)
