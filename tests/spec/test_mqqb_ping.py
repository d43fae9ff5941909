"""Pings before a session ([MS-MQQB] 3.1.5.2.2, 3.1.7.6 to 3.1.7.9), off unless a driver gives cookies."""

from itertools import count

import pytest
from support.session.bench import CLIENT, SERVER, SessionBench, essential, new_initiator, packets

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.session import answer_ping
from mqdssm.engines.session.timers import SessionState, SessionTimer
from mqdssm.model.packets import Ping


def pinging(first_cookie: int = 1, **settings: bool) -> SessionBench:
    bench = new_initiator(ping_cookies=count(first_cookie), **settings)
    bench.step(do.MessagesWaiting())
    return bench


def pong(cookie: int = 1, *, is_refused: bool = False) -> do.PingReceived:
    return do.PingReceived(ping=Ping(queue_manager=SERVER, cookie=cookie, is_refused=is_refused))


@pytest.mark.spec("MS-MQQB 3.1.1.3")
@pytest.mark.spec("MS-MQQB 3.1.7.6")
@pytest.mark.spec("MS-MQQB 2.2.7")
@pytest.mark.parametrize("is_server_class", [True, False])
def test_a_request_has_our_identifier_and_the_next_cookie(is_server_class):
    bench = new_initiator(ping_cookies=count(2**32 + 7), is_server_class=is_server_class)
    actions = bench.step(do.MessagesWaiting())
    request = Ping(queue_manager=CLIENT, cookie=7, is_client_class=not is_server_class)
    assert essential(actions) == [do.SendPing(ping=request)]
    assert bench.due == {SessionTimer.PING_RESPONSE: bench.now + 1.0}


@pytest.mark.spec("MS-MQQB 3.1.5.2.2")
@pytest.mark.spec("MS-MQQB 3.1.7.9")
def test_a_positive_response_opens_a_session_that_says_so():
    bench = pinging()
    assert essential(bench.step(pong())) == [do.Connect(connection=1)]
    (request,) = packets(bench.step(do.Connected(connection=1)))
    assert not request.is_ping_skipped


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.9")
@pytest.mark.spec("MS-MQQB 3.1.5.2.2")
@pytest.mark.spec("MS-MQQB 3.1.2.9")
@pytest.mark.spec("MS-MQQB 3.1.6.8")
@pytest.mark.parametrize("is_answered", [True, False])
def test_without_a_positive_response_the_next_attempt_follows_without_ping(is_answered):
    bench = pinging()
    if is_answered:
        assert essential(bench.step(pong(is_refused=True))) == []
    else:
        assert essential(bench.wait(1.0)) == []
    assert bench.session.state is SessionState.WAITING_RECONNECT
    assert essential(bench.wait(5.0)) == [do.Connect(connection=1)]
    (request,) = packets(bench.step(do.Connected(connection=1)))
    assert request.is_ping_skipped


@pytest.mark.spec("MS-MQQB 3.1.7.8")
def test_a_response_with_another_cookie_is_ignored():
    """Decision T36."""
    bench = pinging(first_cookie=5)
    assert essential(bench.step(pong(cookie=4))) == []
    assert bench.session.state is SessionState.PINGING
    assert essential(bench.step(pong(cookie=5))) == [do.Connect(connection=1)]


@pytest.mark.spec("MS-MQQB 3.1.7.8")
def test_a_response_that_nobody_waits_for_is_ignored():
    bench = new_initiator()
    assert essential(bench.step(pong())) == []
    bench = pinging()
    bench.step(pong())
    assert essential(bench.step(pong(is_refused=True))) == []
    assert bench.session.state is SessionState.CONNECTING


@pytest.mark.spec("MS-MQQB 3.1.7.7")
@pytest.mark.spec("MS-MQQB 2.1.2")
@pytest.mark.parametrize("is_accepting", [True, False])
@pytest.mark.parametrize("is_client_class", [True, False])
def test_an_acceptor_answers_with_cookie_and_type_of_the_request(is_accepting, is_client_class):
    request = Ping(queue_manager=CLIENT, cookie=9, is_client_class=is_client_class)
    assert answer_ping(request, SERVER, is_accepting=is_accepting) == Ping(
        queue_manager=SERVER, cookie=9, is_client_class=is_client_class, is_refused=not is_accepting
    )
