"""Messages of a closed session, and further attempts ([MS-MQQB] 3.1.5.9, 3.1.6.1)."""

from itertools import pairwise

import pytest
from support.session.bench import (
    closing,
    essential,
    initiator,
    new_initiator,
    open_acceptor,
    open_initiator,
    parameters,
    response,
)

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.timers import SessionState, SessionTimer


@pytest.mark.spec("MS-MQQB 3.1.5.9")
@pytest.mark.spec("MS-MQQB 3.1.1.6")
def test_unacknowledged_messages_are_returned_in_their_order():
    bench = open_initiator()
    bench.send(5)
    bench.send(3, is_recoverable=True)
    bench.send(9)
    bench.acknowledge(1)
    actions = bench.step(do.ConnectionLost(connection=1))
    assert essential(actions) == [do.MessagesReturned(numbers=(3, 9))]
    assert bench.session.state is SessionState.WAITING_RECONNECT
    assert (bench.session.unacknowledged, bench.session.send_capacity) == (0, 0)


@pytest.mark.spec("MS-MQQB 3.1.5.9")
def test_an_acceptor_returns_its_messages_and_does_not_connect():
    bench = open_acceptor()
    bench.send(1)
    assert essential(bench.step(do.ConnectionLost())) == [do.MessagesReturned(numbers=(1,))]
    assert (bench.session.state, bench.due) == (SessionState.CLOSED, {})
    assert essential(bench.step(do.MessagesWaiting())) == []


@pytest.mark.spec("MS-MQQB 3.1.6.1")
@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_the_next_attempt_is_made_after_five_seconds():
    bench = initiator()
    bench.step(do.ConnectionLost(connection=1))
    assert essential(bench.wait(4.9)) == []
    assert essential(bench.wait(0.2)) == [do.Connect(connection=2)]
    assert bench.session.state is SessionState.CONNECTING


def delays(bench, attempts: int) -> list[float]:
    """Times between attempts that all fail."""
    waits = []
    for number in range(1, attempts + 1):
        bench.step(do.ConnectionLost(connection=number))
        waits.append(bench.due[SessionTimer.RETRY_CONNECT] - bench.now)
        bench.wait(waits[-1])
    return waits


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_attempts_become_rarer_up_to_a_bound():
    """Decision T20."""
    assert delays(initiator(), 7) == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0]
    assert max(delays(initiator(), 100)) == 60.0


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_attempts_of_many_neighbours_are_spread():
    """Decision T20."""
    assert delays(initiator(chance=0.5), 2) == [5.625, 11.25]
    assert delays(initiator(chance=1.0), 6)[-1] == 75.0


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_a_neighbour_that_is_heard_is_connected_five_seconds_after_the_last_attempt():
    """Decision T70: it may have been started a minute before the next attempt is due."""
    bench = initiator()
    delays(bench, 4)
    bench.step(do.ConnectionLost(connection=5))
    assert bench.due[SessionTimer.RETRY_CONNECT] == bench.now + 60.0
    bench.wait(2.0)
    for _ in range(3):  # whoever opens sessions again and again causes no more attempts
        bench.step(do.NeighborHeard())
    assert essential(bench.wait(2.9)) == []
    assert essential(bench.wait(0.2)) == [do.Connect(connection=6)]
    bench.step(do.ConnectionLost(connection=6))
    assert bench.due[SessionTimer.RETRY_CONNECT] == bench.now + 5.0
    bench.step(do.NothingWaiting())
    bench.wait(20.0)
    assert essential(bench.step(do.NeighborHeard())) == []


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_a_neighbour_that_is_heard_later_is_connected_at_once():
    bench = initiator()
    delays(bench, 4)
    bench.step(do.ConnectionLost(connection=5))
    bench.wait(30.0)
    bench.step(do.NeighborHeard())
    assert essential(bench.wait(0.0)) == [do.Connect(connection=6)]


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_an_attempt_at_an_old_address_ends_when_the_neighbour_is_heard_elsewhere():
    """Decision T141."""
    bench = new_initiator()
    bench.step(do.MessagesWaiting())
    delays(bench, 4)
    bench.wait(3.0)
    assert essential(bench.step(do.NeighborHeard())) == [], "the attempt goes on if the address is right"
    actions = bench.step(do.NeighborHeard(is_elsewhere=True))
    assert closing(actions) is do.CloseReason.MOVED
    assert essential(bench.wait(1.9)) == []
    assert essential(bench.wait(0.2)) == [do.Connect(connection=6)], "five seconds after the last attempt"
    bench.step(do.NeighborHeard(is_elsewhere=True))
    assert bench.due[SessionTimer.RETRY_CONNECT] == pytest.approx(bench.now + 4.9)


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_an_open_session_is_left_when_the_neighbour_is_heard_elsewhere():
    """Decision T141: the peer at the old address would acknowledge nothing."""
    bench = open_initiator()
    bench.wait(30.0)
    bench.send(1, 2)
    assert essential(bench.step(do.NeighborHeard())) == []
    actions = bench.step(do.NeighborHeard(is_elsewhere=True))
    assert closing(actions) is do.CloseReason.MOVED
    assert do.MessagesReturned(numbers=(1, 2)) in actions
    assert essential(bench.wait(0.0)) == [do.Connect(connection=2)], "at once: the last attempt is old"
    idle = open_initiator()
    idle.send(1)
    idle.acknowledge(1)
    idle.step(do.NeighborHeard(is_elsewhere=True))
    assert (idle.session.state, idle.due) == (SessionState.CLOSED, {})


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_an_acknowledgement_makes_attempts_frequent_again():
    bench = initiator()
    delays(bench, 3)
    bench.step(do.Connected(connection=4))
    bench.receive(response(time_stamp=int(bench.now * 1000)))
    bench.receive(parameters())
    bench.send(1, 2)
    bench.acknowledge(1)
    bench.step(do.ConnectionLost(connection=4))
    assert bench.due[SessionTimer.RETRY_CONNECT] == bench.now + 5.0


@pytest.mark.spec("MS-MQQB 3.1.2.3")
def test_a_session_that_only_opens_is_no_success():
    bench = initiator()
    delays(bench, 3)
    bench.step(do.Connected(connection=4))
    bench.receive(response(time_stamp=int(bench.now * 1000)))
    bench.receive(parameters())
    bench.send(1)
    bench.step(do.ConnectionLost(connection=4))
    assert bench.due[SessionTimer.RETRY_CONNECT] == bench.now + 40.0


@pytest.mark.spec("MS-MQQB 3.1.6.1")
def test_nothing_is_connected_when_no_message_waits_any_more():
    bench = initiator()
    bench.step(do.ConnectionLost(connection=1))
    bench.step(do.NothingWaiting())
    assert essential(bench.wait(100.0)) == []
    assert bench.session.state is SessionState.CLOSED
    assert essential(bench.step(do.MessagesWaiting())) == [do.Connect(connection=2)]


@pytest.mark.spec("MS-MQQB 3.1.5.9")
def test_a_session_whose_messages_are_acknowledged_closes_without_another_attempt():
    bench = open_initiator()
    bench.send(1)
    bench.acknowledge(1)
    bench.step(do.ConnectionLost(connection=1))
    assert (bench.session.state, bench.due) == (SessionState.CLOSED, {})
    assert essential(bench.step(do.MessagesWaiting())) == [do.Connect(connection=2)]


@pytest.mark.spec("MS-MQQB 3.1.5.9")
def test_messages_that_wait_outside_reopen_a_session():
    bench = open_initiator(window=1)
    bench.send(1)
    bench.step(do.MessagesWaiting())
    bench.acknowledge(1)
    bench.step(do.ConnectionLost(connection=1))
    assert bench.session.state is SessionState.WAITING_RECONNECT


@pytest.mark.spec("MS-MQQB 3.1.3.2")
def test_a_new_connection_counts_from_1_again():
    bench = open_initiator()
    bench.send(1, 2)
    bench.message(is_recoverable=True)
    bench.step(do.ConnectionLost(connection=1))
    bench.wait(5.0)
    bench.step(do.Connected(connection=2))
    bench.receive(response(time_stamp=int(bench.now * 1000)))
    bench.receive(parameters())
    bench.send(1, 2)
    assert closing(bench.step(do.MessageStored(token=1))) is None, "of the earlier connection"
    actions = bench.acknowledge(2)
    assert essential(actions) == [do.MessagesAcknowledged(numbers=(1, 2))]


@pytest.mark.spec("MS-MQQB 3.1.4.2")
def test_stopping_returns_messages_and_gives_up_attempts():
    bench = open_initiator()
    bench.send(1)
    actions = bench.step(do.Stop())
    assert do.MessagesReturned(numbers=(1,)) in actions
    assert (bench.session.state, bench.due) == (SessionState.CLOSED, {})


@pytest.mark.parametrize("state", SessionState)
def test_a_message_that_cannot_be_sent_is_returned(state):
    bench = new_initiator()
    if state is SessionState.OPEN:
        bench = open_initiator(window_size=1)
        bench.send(1)
    bench.session._core.state = state
    assert essential(bench.send(7)) == [do.MessagesReturned(numbers=(7,))]


def test_connections_have_different_numbers():
    bench = initiator()
    numbers = [1]
    for _ in range(5):
        bench.step(do.ConnectionLost(connection=numbers[-1]))
        numbers += [action.connection for action in bench.wait(100.0) if isinstance(action, do.Connect)][:1]
        bench.now, bench.due = bench.now, {}
    assert all(first < second for first, second in pairwise(numbers))
