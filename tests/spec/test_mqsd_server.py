"""The server of discovery, rule by rule ([MS-MQSD] 3.2); the decisions S4, S5, S6, S13, S14, S16 and S19."""

from itertools import product
from pathlib import Path

import pytest
from support.discovery.client import (
    CLIENT,
    NETWORK_1,
    NETWORK_2,
    OTHER_SITE,
    OWN_SITE,
    REQUEST,
    answered,
    guid_of,
    knowing,
    knowledge,
    listening,
    other_reply,
    own_reply,
    request,
)

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import server as do
from mqdssm.engines.discovery.answers import (
    NO_REQUEST,
    NO_SERVERS,
    NOTHING_KNOWN,
    REPLY_BYTES_MAX,
    REQUEST_BYTES_MAX,
    Answers,
)
from mqdssm.engines.discovery.client import ClientState as AskingState
from mqdssm.engines.discovery.client import DiscoveryClient
from mqdssm.model.guid import NULL_GUID

ASKING = DiscoveryClient.STEPS


# --- what it answers from


@pytest.mark.spec("MS-MQSD 3.2.1")
@pytest.mark.spec("MS-MQSD 3.2.1.1")
def test_answers_follow_what_is_known() -> None:
    answers = Answers()
    assert answers.answer(request(), CLIENT[0], 0) is NOTHING_KNOWN
    answers.learn(knowledge("PSC2", networks=[NETWORK_1]))
    assert answered(answers, request()).connected_networks == (NETWORK_1,)
    answers.learn(knowledge("PSC3", site=OWN_SITE, networks=[NETWORK_2]))
    reply = answered(answers, request(site=OTHER_SITE))
    assert (reply.connected_networks, reply.responding_site_id) == ((NETWORK_2,), OWN_SITE)
    assert reply.directory_service_servers == ("10PSC3",)


# --- listening


@pytest.mark.spec("MS-MQSD 3.2.3")
def test_it_starts_to_listen() -> None:
    server = do.DiscoveryServer(knowing())
    assert server.step(do.RequestReceived(request(), CLIENT), 0) == [Dropped("RequestReceived while closed")]
    assert server.step(do.Start(), 0) == [do.Open()]
    assert server.step(do.Opened(), 0) == []
    assert server.state is do.SocketState.LISTENING


@pytest.mark.spec("MS-MQSD 3.2.5")
def test_after_an_answer_it_listens_for_the_next_request() -> None:
    server = listening()
    for number in range(3):
        (action,) = server.step(do.RequestReceived(request(request_id=guid_of(f"{number}")), CLIENT), number)
        assert isinstance(action, do.SendReply)
        assert action.destination == CLIENT
        assert server.state is do.SocketState.LISTENING


@pytest.mark.spec("MS-MQSD 3.2.5")
def test_a_network_error_reopens_the_socket() -> None:
    server = listening()
    assert server.step(do.ReplySendFailed(reason="network is down"), 0) == [do.Close(), do.Open()]
    assert server.step(do.RequestReceived(request(), CLIENT), 0) == [Dropped("RequestReceived while opening")]
    assert server.step(do.Opened(), 0) == []
    assert isinstance(server.step(do.RequestReceived(request(), CLIENT), 0)[0], do.SendReply)


@pytest.mark.spec("MS-MQSD 3.2.5")
@pytest.mark.parametrize("again", [False, True])
def test_a_socket_that_cannot_be_opened_ends_the_server(again: bool) -> None:
    server = listening() if again else do.DiscoveryServer(knowing())
    server.step(do.ReplySendFailed(reason="network is down") if again else do.Start(), 0)
    assert server.step(do.OpenFailed(reason="in use"), 0) == [do.Ended(reason="in use")]
    assert server.state is do.SocketState.ENDED


# --- 3.2.5.1


@pytest.mark.spec("MS-MQSD 3.2.5.1")
@pytest.mark.parametrize("length", range(52, 60))
def test_a_request_too_short_for_an_ipx_network_is_one_of_ip(length: int) -> None:
    data = (request() + b"\x01\0\0\0\xff\xff\xff\xff")[:length]
    reply = answered(knowing(), data)
    assert reply.connected_network_mask == 0
    assert reply.correlation_id == REQUEST


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_the_reply_has_the_request_id_and_all_networks() -> None:
    networks = [guid_of(f"network {number}") for number in range(32)]
    reply = answered(knowing(networks=networks), request())
    assert reply.correlation_id == REQUEST
    assert reply.connected_networks == tuple(networks)


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_no_more_networks_than_a_reply_holds() -> None:
    networks = [guid_of(f"network {number}") for number in range(33)]
    assert answered(knowing(networks=networks), request()).connected_networks == tuple(networks[:32])


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_no_network_at_all_is_one_nil_guid() -> None:
    """Decision S6."""
    assert answered(knowing(networks=[]), request()).connected_networks == (NULL_GUID,)


@pytest.mark.spec("MS-MQSD 3.2.5.1")
@pytest.mark.parametrize("site", [OWN_SITE, OTHER_SITE], ids=["other", "own"])
@pytest.mark.parametrize("networks", [1, 2, 32])
def test_the_mask_is_nothing_over_ip_and_a_bit_for_each_network_over_ipx(networks: int, site) -> None:
    answers = knowing(networks=[guid_of(f"network {number}") for number in range(networks)])
    assert answered(answers, request(site=site)).connected_network_mask == 0
    mask = answered(answers, request(site=site, ipx=[0xFFFF_FFFF])).connected_network_mask
    assert mask.bit_count() == networks


@pytest.mark.spec("MS-MQSD 3.2.5.1")
@pytest.mark.parametrize("ipx", [(), (7,)])
def test_one_of_the_own_site_gets_no_list(ipx: tuple[int, ...]) -> None:
    answers = knowing("PSC2", "BSC2", site=OTHER_SITE)
    reply = answered(answers, request(site=OTHER_SITE, ipx=ipx))
    assert reply.is_own_site
    assert reply.responding_site_id is None
    raw = answers.answer(request(site=OTHER_SITE, ipx=ipx), CLIENT[0], 0)
    assert isinstance(raw, bytes)
    assert raw[28:32] == bytes(4)  # DirectoryServiceServerSize
    assert len(raw) == 32 + 16


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_one_of_another_site_gets_the_site_and_the_list() -> None:
    answers = knowing("PSC2", "BSC2", site=OTHER_SITE)
    reply = answered(answers, request(site=OWN_SITE))
    assert reply.responding_site_id == OTHER_SITE
    assert reply.directory_service_servers == ("10PSC2", "10BSC2")
    raw = answers.answer(request(site=OWN_SITE), CLIENT[0], 0)
    assert isinstance(raw, bytes)
    assert int.from_bytes(raw[28:32], "little") == len("10PSC2,10BSC2\0".encode("utf-16-le"))
    assert len(raw) == 32 + 16 + 16 + 28


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_without_a_server_other_sites_get_nothing() -> None:
    """Decision S14: a list of no servers would say that the client is of our own site."""
    answers = Answers()
    answers.learn(knowledge())
    assert answers.answer(request(site=OWN_SITE), CLIENT[0], 0) is NO_SERVERS
    assert answered(answers, request(site=OTHER_SITE)).is_own_site


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_the_reply_goes_to_the_sender_alone() -> None:
    server = listening()
    for client in (CLIENT, ("10.1.0.21", 1), ("10.255.255.255", 1801)):
        (action,) = server.step(do.RequestReceived(request(), client), 0)
        assert isinstance(action, do.SendReply)
        assert action.destination == client


# --- what is never answered, and never too much (decisions S4, S5, S13)


@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(request()[:51], id="cut"),
        pytest.param(request() + b"\x02\0\0\0" + bytes(4), id="fewer IPX networks than counted"),
        pytest.param(request() + b"\x01\0\0\0" + bytes(8), id="more than counted"),
        pytest.param(request() + b"\x00\0\0\0" + bytes(4), id="none is counted"),
        pytest.param(request() + b"\x21\0\0\0" + bytes(4 * 33), id="33 networks"),
        pytest.param(request() + b"\x20\0\0\0" + bytes(4 * 32 + 1), id="a byte too many"),
        pytest.param(b"\0\3" + request()[2:], id="unknown type"),
        pytest.param(own_reply(), id="a reply"),
        pytest.param(other_reply("PSC2"), id="a reply with a list"),
        pytest.param(bytes(65_507), id="the longest datagram"),
    ],
)
def test_a_wrong_packet_is_never_answered(data: bytes) -> None:
    assert knowing().answer(data, CLIENT[0], 0) is NO_REQUEST
    # nor is what is left of it where a driver reads no more than it has to
    assert knowing().answer(data[: REQUEST_BYTES_MAX + 1], CLIENT[0], 0) is NO_REQUEST


@pytest.mark.spec("MS-MQSD 5.1")
def test_two_servers_do_not_answer_each_other() -> None:
    """Whoever forges a request of one to the other gets one reply out of them."""
    one, other = listening(knowing("PSC1")), listening(knowing("PSC2"))
    (forged,) = one.step(do.RequestReceived(request(), ("10.1.0.2", 1801)), 0)
    assert isinstance(forged, do.SendReply)
    assert other.step(do.RequestReceived(forged.data, ("10.1.0.1", 1801)), 0) == [Dropped("no request")]


@pytest.mark.spec("MS-MQSD 5.1")
def test_a_longest_request_is_answered() -> None:
    data = request(ipx=range(32))
    assert len(data) == REQUEST_BYTES_MAX
    answered(knowing(), data)


@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize("networks", [1, 32])
def test_replies_fit_into_one_frame(networks: int) -> None:
    names = [f"SERVER{number:09}" for number in range(500)]
    answers = knowing(*names, networks=[guid_of(f"network {number}") for number in range(networks)])
    raw = answers.answer(request(), CLIENT[0], 0)
    assert isinstance(raw, bytes)
    assert REPLY_BYTES_MAX - 36 < len(raw) <= REPLY_BYTES_MAX
    told = [one.name for one in answered(answers, request()).directory_service_servers or ()]
    assert told == names[: len(told)]
    assert answers.left_out == 500 - len(told)


@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize("name", ["\ud800", "Düsseldorf", "\U0001f600", "x" * 256])
def test_names_of_any_characters_are_told_as_they_are(name: str) -> None:
    reply = answered(knowing(name, "LAST"), request())
    assert [one.name for one in reply.directory_service_servers or ()] == [name, "LAST"]


# --- the whole machine

EVENTS: tuple[do.Event, ...] = (
    do.Start(),
    do.Opened(),
    do.OpenFailed(reason="in use"),
    do.RequestReceived(request(), CLIENT),
    do.RequestReceived(b"garbage", CLIENT),
    do.ReplySendFailed(reason="network is down"),
    do.StopServer(),
)
PATHS: dict[do.SocketState, tuple[do.Event, ...]] = {
    do.SocketState.CLOSED: (),
    do.SocketState.OPENING: (do.Start(),),
    do.SocketState.LISTENING: (do.Start(), do.Opened()),
    do.SocketState.ENDED: (do.StopServer(),),
}


@pytest.mark.spec("MS-MQSD 3.2.5")
@pytest.mark.parametrize(("state", "event"), list(product(do.SocketState, EVENTS)))
def test_every_state_answers_every_event(state: do.SocketState, event: do.Event) -> None:
    server = do.DiscoveryServer(knowing())
    for step in PATHS[state]:
        server.step(step, 0)
    assert server.state is state
    actions = server.step(event, 0)
    row = do.DiscoveryServer.STEPS.get((state, type(event)))
    if row is None:
        assert actions == [Dropped(f"{type(event).__name__} while {state}")]
        assert server.state is state
    else:
        assert {server.state} == row[1]
    # whoever has a socket closes it before the end
    if state is do.SocketState.LISTENING and server.state is not do.SocketState.LISTENING:
        assert actions[0] == do.Close()
    assert (do.Open() in actions) is (
        server.state is do.SocketState.OPENING and state is not do.SocketState.OPENING
    )


def test_the_page_shows_both_machines() -> None:
    page = (Path(__file__).parents[2] / "docs" / "discovery.md").read_text(encoding="utf-8").splitlines()
    rows = [
        *(
            f"| {state} | {signal} | {', '.join(sorted(ends))} |"
            for (state, signal), (_, ends) in ASKING.items()
        ),
        *(
            f"| {state} | {event.__name__} | {', '.join(sorted(ends))} |"
            for (state, event), (_, ends) in do.DiscoveryServer.STEPS.items()
        ),
    ]
    states = {str(one) for one in (*do.SocketState, *AskingState)}
    assert [line for line in page if line.split(" ")[1:2] and line.split(" ")[1] in states] == rows
