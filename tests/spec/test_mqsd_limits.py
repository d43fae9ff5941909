"""Limits of a discovery server ([MS-MQSD] 5.1): sources, replies, bytes; the decisions S5, S16 and S19."""

from ipaddress import IPv4Network

import pytest
from support.discovery import client
from support.discovery.client import (
    CLIENT,
    NETWORK_1,
    OTHER_SITE,
    OWN_SITE,
    answered,
    knowing,
    listening,
    request,
)

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import server as do
from mqdssm.engines.discovery.answers import (
    BRIEF_ONE_IN,
    FLOOD,
    NO_REQUEST,
    TOO_MANY,
    TOO_MUCH,
    Answers,
    BriefAnswer,
)
from mqdssm.engines.discovery.rates import (
    BYTES_AT_ONCE,
    BYTES_PER_S,
    OVER_RATE_PER_S,
    CommonRate,
    SourceRates,
)
from mqdssm.engines.discovery.sources import sources_of
from mqdssm.model.discovery import TopologyServerReply
from mqdssm.wire.mqsd import decode


def is_whole(answer: object) -> bool:
    return isinstance(answer, bytes) and not isinstance(answer, BriefAnswer)


@pytest.mark.spec("MS-MQSD 5.1")
def test_a_source_gets_ten_replies_and_then_five_a_second() -> None:
    answers = knowing()
    outcomes = [answers.answer(request(), CLIENT[0], now / 1000) for now in range(10_000)]
    replies = [now for now, one in enumerate(outcomes) if is_whole(one)]
    assert replies[:10] == list(range(10))
    assert len(replies) == pytest.approx(10 + 5 * 10, abs=1)
    assert TOO_MANY in outcomes
    assert is_whole(answers.answer(request(), "10.1.0.21", 10))  # others are not concerned


@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize("forged_per_s", [12, 150, 900])
def test_forged_requests_do_not_keep_a_computer_from_its_answer(forged_per_s: int) -> None:
    """Decision S5: of what a source asks over its rate, one in three is answered briefly."""
    answers = knowing("PSC1", "PSC2", networks=[NETWORK_1, client.NETWORK_2])
    own_id, asked, got = client.guid_of("the client's own"), 0, []
    for number in range(forged_per_s * 60):
        now = number / forged_per_s
        assert answers.answer(request(), CLIENT[0], now) is not FLOOD
        if now >= asked:  # once a second, never in step with the forger
            asked += 1
            answer = answers.answer(request(request_id=own_id), CLIENT[0], now + 1e-4)
            got += [decode(answer)] if isinstance(answer, bytes) else []
    assert len(got) >= 60 / 4
    assert all(isinstance(one, TopologyServerReply) and one.correlation_id == own_id for one in got)


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_a_brief_reply_has_the_first_server_and_the_first_network() -> None:
    answers = knowing("OWN", "PSC2", "PSC3", networks=[NETWORK_1, client.NETWORK_2])
    outcomes = [answers.answer(request(), CLIENT[0], 0) for _ in range(100)]
    brief = next(one for one in outcomes if isinstance(one, BriefAnswer))
    reply = decode(brief)
    assert isinstance(reply, TopologyServerReply)
    assert (reply.correlation_id, reply.responding_site_id) == (client.REQUEST, OTHER_SITE)
    assert (reply.directory_service_servers, reply.connected_networks) == (
        ("10OWN",),
        (NETWORK_1,),
    )
    (action,) = [
        one
        for _ in range(BRIEF_ONE_IN)
        for one in listening(answers).step(do.RequestReceived(request(), CLIENT), 0)
        if isinstance(one, do.SendReply)
    ]
    assert action.is_brief


@pytest.mark.spec("MS-MQSD 3.2.5.1")
@pytest.mark.parametrize("ipx", [(), (7,)])
@pytest.mark.parametrize("networks", [1, 2, 32])
def test_one_of_the_own_site_is_always_answered(networks: int, ipx: tuple[int, ...]) -> None:
    """With all networks within the limits, with one beyond them: never more than was received."""
    known = [client.guid_of(f"network {number}") for number in range(networks)]
    answers = knowing("PSC2", site=OTHER_SITE, networks=known)
    asking = request(site=OTHER_SITE, ipx=ipx)
    told = [answered(answers, asking).connected_networks for _ in range(150)]
    assert told[:10] == [tuple(known)] * 10
    assert told[10:] == [(known[0],)] * 140
    # nor does it matter what all others have taken
    answers = knowing("PSC2", site=OTHER_SITE, networks=known, byte_rate=CommonRate(per_s=1, at_once=1))
    assert answered(answers, asking).connected_networks == (known[0],)


@pytest.mark.slow
@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize("sources", [1, 200, 4000, 60_000])
def test_a_flood_brings_no_network_more_than_it_costs_and_the_byte_rate(sources: int) -> None:
    """Decision S5: forged requests of many sources are no way to send more than they hold."""
    answers = knowing(*(f"SERVER{number:09}" for number in range(100)))
    received = sent = whole = 0
    seconds, per_s = 10, 5000
    for number in range(seconds * per_s):
        site = OWN_SITE if number % 7 else OTHER_SITE
        data = request(site=site)
        source = f"10.{number % sources // 62_500}.{number % sources // 250 % 250}.{number % 250}"
        answer = answers.answer(data, source, number / per_s)
        received += len(data)
        if isinstance(answer, bytes):
            sent += len(answer)
            whole += len(answer) if len(answer) > 100 and is_whole(answer) else 0
    assert whole <= BYTES_AT_ONCE + BYTES_PER_S * seconds
    assert sent <= received + BYTES_AT_ONCE + BYTES_PER_S * seconds
    # who asks for the first time meanwhile has an answer soon
    tries = [answers.answer(request(), f"10.99.0.{host}", seconds) for host in range(10)]
    assert sum(isinstance(one, bytes) for one in tries) >= 3
    if sources > 1:
        assert TOO_MUCH in tries or any(isinstance(one, BriefAnswer) for one in tries)


def test_a_common_rate_is_a_bucket() -> None:
    rate = CommonRate(per_s=100, at_once=1000)
    assert rate.take(600, 50)
    assert not rate.take(401, 50)
    assert rate.take(400, 50)
    assert not rate.take(1, 50)
    assert not rate.take(101, 51)
    assert rate.take(100, 51)
    assert rate.take(1000, 1e9)
    assert not rate.take(1, 1e9)
    for wrong in ({"per_s": 0, "at_once": 1}, {"per_s": 1, "at_once": 0}):
        with pytest.raises(ValueError, match="too few"):
            CommonRate(**wrong)


@pytest.mark.slow
@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize("site", [OWN_SITE, OTHER_SITE], ids=["other site", "own site"])
def test_sources_over_their_rate_have_a_rate_together(site) -> None:
    """A reply costs most of the time that a request takes: what a flood gets is lost for all others."""
    answers, seconds, per_s, sources = knowing("PSC2", site=OTHER_SITE), 4, 20_000, 200
    replies = 0
    for number in range(seconds * per_s):
        source = f"10.9.0.{number % sources}"
        replies += isinstance(answers.answer(request(site=site), source, number / per_s), bytes)
    assert replies <= sources * (10 + 5 * seconds) + OVER_RATE_PER_S * (seconds + 1)
    assert replies >= OVER_RATE_PER_S * seconds
    for host in range(50):  # and who asks now and then is answered
        assert isinstance(answers.answer(request(site=site), f"10.99.0.{host}", seconds), bytes)


@pytest.mark.spec("MS-MQSD 5.1")
def test_a_source_that_goes_on_and_on_is_muted() -> None:
    """Decision S16: after 200 requests over its rate without a whole reply, for a tenth of a second."""
    server = listening()
    told = [server.step(do.RequestReceived(request(), CLIENT), 0) for _ in range(10 + 199)]
    assert not any(isinstance(one, do.Mute) for actions in told for one in actions)
    dropped, mute = server.step(do.RequestReceived(request(), CLIENT), 0)
    assert dropped == Dropped("flood of one source")
    assert mute == do.Mute(source=CLIENT[0], seconds=0.1)
    # what is in the buffer still arrives; it counts from the beginning, as it does after a whole reply
    assert not any(isinstance(one, do.Mute) for one in server.step(do.RequestReceived(request(), CLIENT), 0))
    told = [server.step(do.RequestReceived(request(), CLIENT), now / 900) for now in range(1, 3000)]
    assert not any(isinstance(one, do.Mute) for actions in told for one in actions)


@pytest.mark.spec("MS-MQSD 5.1")
def test_a_flood_of_the_own_site_is_muted_too() -> None:
    server = listening(knowing("PSC2", site=OWN_SITE))
    told = [server.step(do.RequestReceived(request(site=OWN_SITE), CLIENT), 0)[-1] for _ in range(10 + 200)]
    assert [isinstance(one, do.Mute) for one in told] == [False] * 209 + [True]


@pytest.mark.spec("MS-MQSD 5.1")
def test_computers_of_other_networks_are_not_answered() -> None:
    """Decision S19."""
    server = listening()
    server.sources = sources_of("10.1.0.5", ON_LINK, [IPv4Network("10.9.9.9/32")])
    for source, is_answered in (
        ("10.1.0.20", True),
        ("10.1.255.255", True),
        ("10.2.0.1", False),  # on a network that the address does not stand on
        ("10.9.9.9", True),
        ("10.9.9.8", False),
        ("127.0.0.1", False),
    ):
        (action,) = server.step(do.RequestReceived(request(), (source, 1801)), 0)
        assert isinstance(action, do.SendReply) is is_answered, source
        if not is_answered:
            assert action == Dropped("not from a network that is answered")


ON_LINK = [IPv4Network(one) for one in ("127.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.2.0.0/24")]


@pytest.mark.parametrize(
    ("listening_on", "networks"),
    [
        ("0.0.0.0", "10.1.0.0/16, 10.2.0.0/24, 127.0.0.0/8"),
        ("255.255.255.255", "10.1.0.0/16, 10.2.0.0/24, 127.0.0.0/8"),
        ("10.1.2.5", "10.1.0.0/16"),
        ("10.2.0.255", "10.2.0.0/24"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("192.168.0.1", "no network"),
    ],
)
def test_the_networks_of_an_address_are_answered(listening_on: str, networks: str) -> None:
    """Decision S19: of a computer with several networks those that it listens on."""
    assert str(sources_of(listening_on, ON_LINK)) == networks


def test_garbage_costs_a_source_nothing() -> None:
    answers = knowing()
    for _ in range(10_000):
        assert answers.answer(request()[:51], CLIENT[0], 0) is NO_REQUEST
        assert answers.answer(request() + b"\x02\0\0\0" + bytes(4), CLIENT[0], 0) is NO_REQUEST
    assert isinstance(answers.answer(request(), CLIENT[0], 0), bytes)


@pytest.mark.spec("MS-MQSD 5.1")
def test_the_table_of_sources_is_bounded() -> None:
    rates = SourceRates(sources_max=100)
    for number in range(10_000):
        source = f"10.0.{number // 250}.{number % 250}"
        assert rates.may(source, 0)
        rates.count(source, 0)
    assert len(rates) == 100


@pytest.mark.spec("MS-MQSD 5.1")
def test_a_busy_source_is_not_forgotten() -> None:
    """To have a source forgotten costs more requests than it brings replies (decision S5)."""
    rates = SourceRates(per_s=1, at_once=2, sources_max=100)
    replies = 0
    for number in range(20_000):
        source = "10.9.9.9" if number % 50 == 0 else f"10.0.{number // 250}.{number % 250}"
        if rates.may(source, 0):
            rates.count(source, 0)
            replies += source == "10.9.9.9"
    assert replies == 2


def test_other_rates_may_be_set() -> None:
    answers = Answers(SourceRates(at_once=12))
    answers.learn(client.knowledge("PSC2"))
    outcomes = [answers.answer(request(), CLIENT[0], 0) for _ in range(20)]
    assert sum(map(is_whole, outcomes)) == 12


def test_a_full_table_takes_new_sources() -> None:
    rates = SourceRates(per_s=1, at_once=2, sources_max=100)
    for number in range(100):
        rates.count(f"10.0.0.{number}", 0)
    for _ in range(2):
        assert rates.may("10.9.9.9", 0)
        rates.count("10.9.9.9", 0)
    assert not rates.may("10.9.9.9", 0)


def test_rates_that_let_nothing_through_are_refused() -> None:
    for wrong in ({"per_s": 0}, {"at_once": 0}, {"sources_max": 0}):
        with pytest.raises(ValueError, match="too few"):
            SourceRates(**wrong)
