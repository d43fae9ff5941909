"""The client of discovery, rule by rule ([MS-MQSD] 3.1); decisions S2, S3, S4, S12 where it deviates."""

import pytest
from support.discovery.client import (
    ENTERPRISE,
    NET_A,
    NET_B,
    NET_C,
    NETWORK_1,
    NETWORK_2,
    OTHER_SITE,
    OWN_SITE,
    RAS,
    REQUEST,
    THIRD_SITE,
    Bench,
    asked,
    dropped,
    everything,
    guid_of,
    other_reply,
    own_reply,
    request,
    sent,
)

from mqdssm.engines.discovery import client as do
from mqdssm.engines.discovery.values import DiscoveryResult, Network
from mqdssm.model.guid import NULL_GUID

WAIT_S = 15.0
ELSEWHERE = "answer on a network that is not being asked"


@pytest.fixture
def bench() -> Bench:
    return Bench()


def finished(actions: list[do.Action]) -> DiscoveryResult | None:
    (action,) = actions
    assert isinstance(action, do.SearchFinished)
    return action.result


# --- 3.1.1 to 3.1.3


@pytest.mark.spec("MS-MQSD 3.1.1")
@pytest.mark.spec("MS-MQSD 3.1.1.1")
def test_the_lists_of_the_queue_manager_are_what_a_client_changes(bench: Bench) -> None:
    assert bench.client.directory_server_list == ()
    assert bench.client.connected_network_identifier_list == ()
    packet = sent(bench.discover(NET_A))
    assert (packet.enterprise_id, packet.site_id) == (ENTERPRISE, OWN_SITE)
    bench.receive(other_reply("PSC2", "BSC2"))
    bench.wait()
    assert bench.client.directory_server_list == ("PSC2", "BSC2")
    assert bench.client.connected_network_identifier_list == (NETWORK_2,)


@pytest.mark.spec("MS-MQSD 3.1.1")
@pytest.mark.spec("MS-MQSD 3.1.1.2")
def test_what_a_client_remembers_between_events(bench: Bench) -> None:
    (first,) = bench.discover(NET_A, NET_B)
    assert isinstance(first, do.Broadcast)
    # CurrentNetworkIndex, from 1 (decision S3), and NumberOfNetworkAddresses
    assert (first.number, first.total) == (1, 2)
    assert bench.client.last_successful_network is None
    (second,) = bench.receive(own_reply())
    assert isinstance(second, do.Broadcast)
    assert (second.number, second.total, second.network) == (2, 2, NET_B)
    assert bench.client.last_successful_network == NET_A
    # RequestID is the same on all networks
    assert sent([first]).request_id == sent([second]).request_id == REQUEST


@pytest.mark.spec("MS-MQSD 3.1.2.1")
def test_the_timer_runs_15_seconds_from_the_request(bench: Bench) -> None:
    assert bench.client.deadline is None
    bench.discover(NET_A)
    assert bench.left_s == WAIT_S
    assert dropped(bench.wait(14.999)) == "timer that was started anew"
    assert finished(bench.wait(0.002)) is None
    assert bench.client.deadline is None


@pytest.mark.spec("MS-MQSD 3.1.3")
def test_at_the_beginning_no_network_was_successful() -> None:
    client = do.DiscoveryClient(enterprise_id=ENTERPRISE)
    assert client.last_successful_network is None
    assert client.state is do.ClientState.IDLE
    (packet,) = client.step(do.Discover(networks=(NET_A,), request_id=REQUEST), 0)
    assert sent([packet]).enterprise_id == ENTERPRISE


# --- 3.1.4.1


@pytest.mark.spec("MS-MQSD 3.1.4.1")
def test_a_discovery_begins_on_the_first_network(bench: Bench) -> None:
    actions = bench.discover(NET_A, NET_B, NET_A)
    assert asked(actions) == [NET_A]
    assert bench.client.current_network == NET_A
    assert asked(bench.wait()) == [NET_B]  # and each network is asked once
    assert finished(bench.wait()) is None


@pytest.mark.spec("MS-MQSD 3.1.4.1")
def test_a_valid_answer_is_not_asked_for_again(bench: Bench) -> None:
    bench.discover(NET_A)
    result = finished(bench.receive(own_reply()))
    assert result is not None
    assert finished(bench.discover(NET_A)) is result
    assert bench.client.state is do.ClientState.IDLE
    # unless a network is one of remote access, or the caller wants it
    assert asked(bench.discover(NET_A, RAS)) == [NET_A]
    bench.wait()
    assert asked([bench.step(do.RequestSendFailed(network=RAS))[0]]) == []
    assert asked(bench.discover(NET_A, anew=True)) == [NET_A]


@pytest.mark.spec("MS-MQSD 3.1.4.1")
def test_every_discovery_has_the_request_id_that_it_is_given(bench: Bench) -> None:
    bench.discover(NET_A)
    bench.wait()
    other = guid_of("second request")
    (action,) = bench.step(do.Discover(networks=(NET_A,), request_id=other))
    assert sent([action]).request_id == other
    assert dropped(bench.receive(own_reply())) == "answer to another request"  # to the first one
    assert finished(bench.receive(own_reply(request=other))) is not None


@pytest.mark.spec("MS-MQSD 3.1.4.1")
def test_without_any_network_a_discovery_fails_at_once(bench: Bench) -> None:
    assert finished(bench.discover()) is None


# --- 3.1.5.1


@pytest.mark.spec("MS-MQSD 3.1.5.1")
def test_a_request_says_who_asks(bench: Bench) -> None:
    packet = sent(bench.discover(NET_A))
    assert packet.enterprise_id == ENTERPRISE
    assert packet.request_id == REQUEST
    assert packet.site_id == OWN_SITE
    assert not packet.is_ipx
    assert bench.left_s == WAIT_S


@pytest.mark.spec("MS-MQSD 3.1.5.1")
def test_each_request_empties_the_last_reply_and_starts_the_timer(bench: Bench) -> None:
    bench.discover(NET_A, NET_B)
    bench.receive(other_reply("PSC2"))
    bench.now += 3
    assert asked(bench.receive(other_reply("PSC3"))) == [NET_B]
    assert bench.client.state is do.ClientState.ASKING  # not ANSWERED: nobody has answered here
    assert bench.left_s == WAIT_S


# --- 3.1.5.2


@pytest.mark.spec("MS-MQSD 3.1.5.2")
@pytest.mark.parametrize(
    ("data", "network", "why"),
    [
        pytest.param(own_reply(), NET_B, ELSEWHERE, id="another network"),
        pytest.param(own_reply()[:-1], NET_A, "no topology packet", id="cut"),
        pytest.param(own_reply() + b"\0", NET_A, "no topology packet", id="too long"),
        pytest.param(b"", NET_A, "no topology packet", id="empty"),
        pytest.param(b"\0\3" + own_reply()[2:], NET_A, "no topology packet", id="unknown type"),
        pytest.param(request(), NET_A, "request of another client", id="a request"),
        pytest.param(own_reply(request=guid_of("x")), NET_A, "answer to another request", id="correlation"),
    ],
)
@pytest.mark.parametrize("answered", [False, True])
def test_what_is_discarded_changes_nothing(
    bench: Bench, data: bytes, network: Network, why: str, answered: bool
) -> None:
    bench.discover(NET_A, NET_B)
    if answered:
        bench.receive(other_reply("PSC2"))
    before = everything(bench.client)
    bench.now += 1
    assert dropped(bench.receive(data, network)) == why
    assert everything(bench.client) == before


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_late_replies_of_an_earlier_network_are_discarded(bench: Bench) -> None:
    bench.discover(NET_A, NET_B)
    bench.wait()
    assert dropped(bench.receive(own_reply(), NET_A)) == ELSEWHERE
    assert finished(bench.wait()) is None
    assert dropped(bench.receive(own_reply(), NET_B)) == ELSEWHERE
    assert bench.client.last_successful_network is None


@pytest.mark.spec("MS-MQSD 3.1.5.2")
@pytest.mark.parametrize("others_before", [0, 1])
def test_own_site_before_the_last_network_goes_on_at_once(bench: Bench, others_before: int) -> None:
    bench.discover(NET_A, NET_B)
    for _ in range(others_before):
        bench.receive(other_reply("PSC2"))
    assert asked(bench.receive(own_reply())) == [NET_B]
    assert bench.client.last_successful_network == NET_A
    assert bench.left_s == WAIT_S
    result = finished(bench.wait())  # TopologyServerReplyReceived
    assert result is not None
    assert result.is_own_site is (not others_before)  # a list counts more (decision S2)
    assert result.own_site_server
    assert result.network == NET_A


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_the_second_of_another_site_before_the_last_network_goes_on(bench: Bench) -> None:
    bench.discover(NET_A, NET_B)
    assert bench.receive(other_reply("PSC2")) == []
    assert asked(bench.receive(other_reply("PSC3", site=THIRD_SITE))) == [NET_B]
    result = finished(bench.wait())
    assert result is not None
    assert [one.name for one in result.servers] == ["PSC2"]  # the first one counts


@pytest.mark.spec("MS-MQSD 3.1.5.2")
@pytest.mark.parametrize("others_before", [0, 1])
def test_own_site_on_the_last_network_ends_it(bench: Bench, others_before: int) -> None:
    bench.discover(NET_A)
    for _ in range(others_before):
        bench.receive(other_reply("PSC2"))
    result = finished(bench.receive(own_reply(), source="10.1.0.9"))
    if others_before:  # LastTopologyServerReply has the list
        assert bench.client.directory_server_list == ("PSC2",)
        assert bench.client.connected_network_identifier_list == (NETWORK_2,)
    else:
        assert result == DiscoveryResult(
            servers=(),
            connected_networks=(NETWORK_1,),
            site=OWN_SITE,
            is_own_site=True,
            network=NET_A,
            answered_by="10.1.0.9",
            own_site_server="10.1.0.9",
        )
    assert bench.client.last_successful_network == NET_A
    assert bench.client.deadline is None


@pytest.mark.spec("MS-MQSD 3.1.5.2")
@pytest.mark.parametrize("last", [False, True])
def test_the_first_of_another_site_starts_the_timer_anew(bench: Bench, last: bool) -> None:
    bench.discover(*([NET_A] if last else [NET_A, NET_B]))
    bench.now += 14
    assert bench.receive(other_reply("PSC2")) == []
    assert bench.client.state is do.ClientState.ANSWERED
    assert bench.client.last_successful_network == NET_A
    assert bench.left_s == WAIT_S


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_the_second_of_another_site_on_the_last_network_ends_it(bench: Bench) -> None:
    bench.discover(NET_A)
    bench.receive(other_reply("PSC2", networks=[NETWORK_1, NETWORK_2]))
    result = finished(bench.receive(other_reply("PSC3", site=THIRD_SITE)))
    assert result is not None
    assert ([one.name for one in result.servers], result.site) == (["PSC2"], OTHER_SITE)
    assert bench.client.directory_server_list == ("PSC2",)
    assert bench.client.connected_network_identifier_list == (NETWORK_1, NETWORK_2)
    assert bench.client.last_successful_network == NET_A


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_an_earlier_list_is_not_lost_on_a_silent_last_network(bench: Bench) -> None:
    """Decision S2: by the text the client would end with nothing that it learnt."""
    bench.discover(NET_A, NET_B)
    bench.receive(other_reply("PSC2"))
    bench.wait()
    result = finished(bench.wait())
    assert result is not None
    assert bench.client.directory_server_list == ("PSC2",)
    assert result.network == NET_A


@pytest.mark.spec("MS-MQSD 3.1.5.2")
@pytest.mark.parametrize("own_first", [False, True])
def test_a_list_wins_whatever_the_order_of_networks(bench: Bench, own_first: bool) -> None:
    """Decision S2: an answer without a list does not take the one with a list away."""
    bench.discover(NET_A, NET_B)
    for data in (own_reply(), other_reply("PSC2")) if own_first else (other_reply("PSC2"), own_reply()):
        while bench.client.state is do.ClientState.ANSWERED:
            bench.wait()
        actions = bench.receive(data, source="10.1.0.9" if data == own_reply() else "10.1.0.8")
    result = finished(actions if bench.client.state is do.ClientState.IDLE else bench.wait())
    assert result is not None
    assert (result.is_own_site, result.answered_by, result.own_site_server) == (False, "10.1.0.8", "10.1.0.9")
    assert [one.name for one in result.servers] == ["PSC2"]
    assert bench.client.directory_server_list == ("PSC2",)
    assert bench.client.connected_network_identifier_list == (NETWORK_2,)


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_a_client_of_no_site_has_no_server_of_its_own_site() -> None:
    """An answer without a list says nothing to it, and is not the end of the wait."""
    bench = Bench(do.DiscoveryClient())
    bench.discover(NET_A)
    assert dropped(bench.receive(own_reply())) == "answer without a list to a client of no site"
    bench.receive(other_reply("PSC2"))
    result = finished(bench.wait())
    assert result is not None
    assert [one.name for one in result.servers] == ["PSC2"]


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_of_two_of_the_own_site_the_first_counts(bench: Bench) -> None:
    """Decision S2."""
    bench.discover(NET_A, NET_B)
    bench.receive(own_reply(networks=[NETWORK_1]))
    result = finished(bench.receive(own_reply(networks=[NETWORK_2])))
    assert result is not None
    assert (result.network, result.connected_networks) == (NET_A, (NETWORK_1,))
    assert bench.client.last_successful_network == NET_B


# --- 3.1.6.1


@pytest.mark.spec("MS-MQSD 3.1.6.1")
@pytest.mark.parametrize("answered", [False, True])
def test_silence_before_the_last_network_goes_on(bench: Bench, answered: bool) -> None:
    bench.discover(NET_A, NET_B, NET_C)
    if answered:
        bench.receive(other_reply("PSC2"))
    assert asked(bench.wait()) == [NET_B]
    assert bench.left_s == WAIT_S
    assert asked(bench.wait()) == [NET_C]


@pytest.mark.spec("MS-MQSD 3.1.6.1")
def test_silence_everywhere_is_a_failure(bench: Bench) -> None:
    bench.discover(NET_A)
    assert finished(bench.receive(own_reply())) is not None
    assert bench.client.last_successful_network == NET_A
    bench.discover(NET_B, RAS)  # asks again: a network of remote access
    bench.wait()
    assert finished(bench.wait()) is None
    assert bench.client.last_successful_network is None  # ValidLastSuccessfulNetworkAddress is FALSE
    assert bench.client.connected_network_identifier_list == (NETWORK_1,)  # nothing is populated


@pytest.mark.spec("MS-MQSD 3.1.6.1")
@pytest.mark.parametrize(
    ("reply", "listed"), [(own_reply(), ()), (other_reply("PSC2"), ("PSC2",))], ids=["own", "other"]
)
@pytest.mark.parametrize("last", [False, True])
def test_silence_after_an_answer_is_success(
    bench: Bench, reply: bytes, listed: tuple[str, ...], last: bool
) -> None:
    if last and not listed:
        bench.discover(NET_A)
        assert finished(bench.receive(reply)) is not None  # nothing is left to wait for
        return
    bench.discover(*([NET_A] if last else [NET_A, NET_B]))
    bench.receive(reply)
    while bench.client.state is not do.ClientState.IDLE:
        actions = bench.wait()
    assert finished(actions) is not None
    assert bench.client.directory_server_list == listed
    assert bench.client.last_successful_network == NET_A


# --- 3.1.7


@pytest.mark.spec("MS-MQSD 3.1.7.1")
def test_the_list_of_servers_is_replaced_and_has_no_flags(bench: Bench) -> None:
    bench.discover(NET_A)
    bench.receive(other_reply("OLD1", "OLD2"))
    bench.wait()
    bench.discover(NET_A, anew=True)
    bench.receive(other_reply("10nt4pec", "BSC"))
    bench.wait()
    assert bench.client.directory_server_list == ("10nt4pec", "BSC")
    # one of the own site says that the list is right
    bench.discover(NET_A, anew=True)
    bench.receive(own_reply())
    assert bench.client.directory_server_list == ("10nt4pec", "BSC")


@pytest.mark.spec("MS-MQSD 3.1.7.2")
@pytest.mark.parametrize("reply", [own_reply, other_reply])
def test_the_list_of_networks_is_replaced(bench: Bench, reply) -> None:
    for networks in ([NETWORK_1, NETWORK_2], [NETWORK_2], [NULL_GUID]):
        bench.discover(NET_A, anew=True)
        bench.receive(reply(networks=networks))
        if bench.client.state is do.ClientState.ANSWERED:
            bench.wait()
        known = tuple(one for one in networks if one != NULL_GUID)  # decision S6
        assert bench.client.connected_network_identifier_list == known


# --- networks that come and go (decision S12)


def test_a_request_that_cannot_be_sent_is_not_waited_for(bench: Bench) -> None:
    bench.discover(NET_A, NET_B)
    assert asked(bench.step(do.RequestSendFailed(network=NET_A))) == [NET_B]
    assert "not being asked" in dropped(bench.step(do.RequestSendFailed(network=NET_A)))
    assert finished(bench.step(do.RequestSendFailed(network=NET_B))) is None


def test_a_network_that_goes_is_left_and_one_that_comes_is_asked(bench: Bench) -> None:
    bench.discover(NET_A, NET_B)
    assert asked(bench.step(do.NetworksChanged(networks=(NET_B, NET_C)))) == [NET_B]
    assert bench.step(do.NetworksChanged(networks=(NET_B, NET_C, NET_A))) == []
    (action,) = bench.wait()
    assert isinstance(action, do.Broadcast)
    assert (action.network, action.number, action.total) == (NET_C, 3, 3)
    assert finished(bench.step(do.NetworksChanged(networks=()))) is None


def test_an_answer_of_a_network_that_has_gone_is_asked_for_again(bench: Bench) -> None:
    bench.discover(NET_A)
    bench.receive(own_reply())
    assert bench.step(do.NetworksChanged(networks=(NET_A, NET_B))) == []
    assert finished(bench.discover(NET_A)) is not None
    assert bench.step(do.NetworksChanged(networks=(NET_B,))) == []
    assert asked(bench.discover(NET_B)) == [NET_B]
