"""Clients and servers of discovery against each other, while datagrams are lost, doubled, late or wrong."""

import heapq
from dataclasses import dataclass, field
from itertools import count

from hypothesis import example, given
from hypothesis import strategies as st
from support.discovery.client import (
    NETWORK_1,
    NETWORK_2,
    OTHER_SITE,
    OWN_SITE,
    REQUEST,
    THIRD_SITE,
    guid_of,
    other_reply,
    own_reply,
    request,
    servers,
)

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import client as do
from mqdssm.engines.discovery import server as serve
from mqdssm.engines.discovery.answers import REPLY_BYTES_MAX, Answers, BriefAnswer
from mqdssm.engines.discovery.values import ANSWER_WAIT_S, DiscoveryResult, Knowledge, Network
from mqdssm.model.discovery import TopologyClientRequest, TopologyServerReply
from mqdssm.wire.mqsd import decode

CLIENT = ("10.1.0.20", 40_000)
SITES = (OWN_SITE, OTHER_SITE, THIRD_SITE)
WRONG = (
    b"",
    b"\0\2",
    own_reply(request=guid_of("old")),
    other_reply("X", request=guid_of("old")),
    b"\0\1" * 26,
)


@dataclass(frozen=True)
class Fault:
    """What happens to one datagram: arrivals, in seconds after it was sent; none: it is lost."""

    arrivals: tuple[float, ...]


delays = st.floats(0, 40, allow_nan=False)
faults = st.builds(Fault, st.lists(delays, max_size=3).map(tuple))
noise = st.lists(st.tuples(st.floats(0, 90), st.integers(0, 3), st.sampled_from(WRONG)), max_size=8)


@dataclass
class Air:
    """Networks with servers on them; what happens is in one queue by time."""

    sites: list[list[int]]  # for each network the sites of its servers
    faults: list[Fault]
    now: float = 0.0
    result: list[DiscoveryResult | None] = field(default_factory=list)
    answers_in_time: list[tuple[int, int]] = field(default_factory=list)  # network, site
    dropped: int = 0

    def __post_init__(self) -> None:
        self.networks = tuple(Network(f"10.{number}.255.255") for number in range(len(self.sites)))
        self.client = do.DiscoveryClient(site_id=OWN_SITE)
        self._numbers = count()
        self._queue: list[tuple[float, int, int, bytes, str]] = []
        self.asked: list[int] = []
        self._servers = [
            [self._server(site, f"S{number}N{at}") for at, site in enumerate(some)]
            for number, some in enumerate(self.sites)
        ]

    @staticmethod
    def _server(site: int, name: str) -> serve.DiscoveryServer:
        answers = Answers()
        answers.learn(Knowledge(site=SITES[site], servers=servers(name), networks=(NETWORK_1, NETWORK_2)))
        server = serve.DiscoveryServer(answers)
        server.step(serve.Start(), 0)
        server.step(serve.Opened(), 0)
        return server

    def later(self, seconds: float, network: int, data: bytes, source: str) -> None:
        heapq.heappush(self._queue, (self.now + seconds, next(self._numbers), network, data, source))

    def run(self) -> None:
        """To the end of the discovery, and of everything that is still under way."""
        self.take(do.Discover(networks=self.networks, request_id=REQUEST))
        while self._queue or self.client.deadline is not None:
            deadline = self.client.deadline
            if self._queue and (deadline is None or self._queue[0][0] < deadline):
                self.now, _, network, data, source = heapq.heappop(self._queue)
                self.take(do.ReplyReceived(network=self.networks[network], data=data, source=source))
            else:
                assert deadline is not None
                self.now = deadline
                self.take(do.Waited())

    def take(self, event: do.Event) -> None:
        before = self.client.current_network
        actions = self.client.step(event, self.now)
        if isinstance(event, do.ReplyReceived) and not any(isinstance(one, Dropped) for one in actions):
            assert event.network == before
        for action in actions:
            match action:
                case do.Broadcast(network=network, data=data):
                    self.asked.append(self.networks.index(network))
                    self.broadcast(self.asked[-1], data)
                case do.SearchFinished(result=result):
                    self.result.append(result)
                case Dropped():
                    self.dropped += 1

    def broadcast(self, network: int, data: bytes) -> None:
        for at, server in enumerate(self._servers[network]):
            for action in server.step(serve.RequestReceived(data, CLIENT), self.now):
                assert isinstance(action, serve.SendReply)
                fault = self.faults.pop() if self.faults else Fault((0.1,))
                for seconds in fault.arrivals:
                    self.later(seconds, network, action.data, f"10.{network}.0.{at + 1}")


sites = st.lists(st.lists(st.integers(0, 2), max_size=3), min_size=1, max_size=4)


@given(sites, st.lists(faults, max_size=12), noise)
@example([[1], []], [], [])  # decision S2: the second network is silent
@example([[1, 0], [2]], [Fault((0.0,)), Fault((20.0,))], [])
def test_a_discovery_always_ends_and_tells_the_truth(sites, faults, noise) -> None:
    air = Air(sites, list(faults))
    for seconds, network, data in noise:
        air.later(seconds, network % len(sites), data, "10.0.0.66")
    air.run()

    # it ends, once, after at most two waits on each network, which are asked in order
    (result,) = air.result
    assert air.asked == list(range(len(sites)))
    assert air.client.state is do.ClientState.IDLE
    if result is None:
        assert air.client.last_successful_network is None
        return
    # what it tells, a server said that is on that network
    number = air.networks.index(result.network)
    at = int(result.answered_by.rpartition(".")[2]) - 1
    assert SITES[sites[number][at]] == result.site
    assert result.is_own_site is (result.site == OWN_SITE)
    assert [one.name for one in result.servers] == ([] if result.is_own_site else [f"S{number}N{at}"])
    assert result.connected_networks == (NETWORK_1, NETWORK_2)


@given(sites)
def test_without_faults_the_outcome_is_the_best_there_is(sites) -> None:
    air = Air(sites, [])
    air.run()
    (result,) = air.result
    everybody = [site for some in sites for site in some]
    # two of other sites may have answered before one of the own, who is then not waited for (3.1.5.2)
    heard = [site for some in sites for site in some[: _heard(some)]]
    assert (result is None) is (not everybody)
    if result is not None:
        lists = [site for site in heard if site]
        assert result.is_own_site is (not lists)  # an answer with a list counts more (decision S2)
        assert bool(result.own_site_server) is (0 in heard)
        assert result.is_own_site or result.site == SITES[lists[0]]


def _heard(some: list[int]) -> int:
    """How many answers on a network are listened to: up to the first of the own site, or the second."""
    for number, site in enumerate(some, 1):
        if site == 0 or number == 2:
            return number
    return len(some)


@given(st.lists(faults, max_size=12), noise, sites)
def test_nothing_makes_it_take_longer_than_two_waits_on_each_network(faults, noise, sites) -> None:
    air = Air(sites, list(faults))
    ends = []
    for seconds, network, data in noise:
        air.later(seconds, network % len(sites), data, "10.0.0.66")
    take = air.take

    def watched(event: do.Event) -> None:
        take(event)
        if air.result and not ends:
            ends.append(air.now)

    air.take = watched  # type: ignore[method-assign]
    air.run()
    assert ends[0] <= 2 * ANSWER_WAIT_S * len(sites)


@given(st.lists(st.sampled_from(WRONG), max_size=20))
def test_noise_alone_changes_nothing(wrong) -> None:
    air = Air([[0]], [Fault((14.9,))])
    for number, data in enumerate(wrong):
        air.later(number / 10, 0, data, "10.0.0.66")
    air.run()
    (result,) = air.result
    assert result is not None
    assert air.now >= 14.9
    assert air.dropped == len(wrong)


requests = st.builds(
    lambda site, ipx, tail: request(site=SITES[site], ipx=ipx) + tail,
    st.integers(0, 2),
    st.lists(st.integers(0, 0xFFFF_FFFF), max_size=32),
    st.binary(max_size=8),
)


@given(
    st.lists(
        st.tuples(st.one_of(st.binary(max_size=200), requests), st.integers(1, 3), st.floats(0, 2)),
        max_size=60,
    ),
    st.sampled_from([(), ("PSC2",), tuple(f"SERVER{number}" for number in range(200))]),
)
def test_a_server_answers_requests_alone_and_never_too_much(datagrams, names) -> None:
    answers, now = Answers(), 0.0
    answers.learn(Knowledge(site=OTHER_SITE, servers=servers(*names), networks=(NETWORK_2,)))
    replies: dict[str, list[float]] = {}
    received = sent = 0
    for data, host, seconds in datagrams:
        now += seconds
        answer = answers.answer(data, f"10.1.0.{host}", now)
        received += len(data)
        if not isinstance(answer, bytes):
            continue
        asked, told = decode(data), decode(answer)
        assert isinstance(asked, TopologyClientRequest)
        assert isinstance(told, TopologyServerReply)
        assert told.correlation_id == asked.request_id
        assert told.is_ipx is asked.is_ipx
        assert told.is_own_site is (asked.site_id == OTHER_SITE)
        assert len(answer) <= REPLY_BYTES_MAX
        if isinstance(answer, BriefAnswer) or len(answer) <= len(data):
            sent += len(answer)
            assert sent <= received
            continue
        times = replies.setdefault(f"10.1.0.{host}", [])
        times.append(now)
        assert all(number + 1 <= 10 + 5 * (now - one) + 1e-6 for number, one in enumerate(reversed(times)))
