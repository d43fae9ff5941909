"""Discovery under test: names, packets, and a client on a clock of the test's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import client as do
from mqdssm.engines.discovery import server as serve
from mqdssm.engines.discovery.answers import Answers
from mqdssm.engines.discovery.rates import CommonRate
from mqdssm.engines.discovery.values import ANSWER_WAIT_S, Knowledge, Network
from mqdssm.model.discovery import (
    DirectoryServiceServer,
    TopologyClientRequest,
    TopologyServerReply,
)
from mqdssm.model.guid import Guid
from mqdssm.wire.mqsd import decode, encode

_NAMES = UUID("6d1f9a64-2f3c-4f0e-8b1d-5b3f0c2a9e77")


def guid_of(name: str) -> Guid:
    """The GUID that stands for a name in these tests."""
    return Guid.of(uuid5(_NAMES, name))


ENTERPRISE, OWN_SITE, OTHER_SITE, THIRD_SITE = map(guid_of, ("enterprise", "own", "other", "third"))
NETWORK_1, NETWORK_2 = guid_of("network 1"), guid_of("network 2")
REQUEST = guid_of("request")
NET_A, NET_B, NET_C = (Network(f"10.{number}.0.255") for number in (1, 2, 3))
CLIENT = ("10.1.0.20", 40_000)
RAS = Network("10.9.0.2", remote_access=True)


def servers(*names: str) -> tuple[DirectoryServiceServer, ...]:
    return tuple(map(DirectoryServiceServer.of, names))


def own_reply(*, request: Guid = REQUEST, networks: Sequence[Guid] = (NETWORK_1,)) -> bytes:
    """What a server of the client's own site answers."""
    return encode(TopologyServerReply(correlation_id=request, connected_networks=tuple(networks)))


def other_reply(
    *names: str,
    request: Guid = REQUEST,
    site: Guid = OTHER_SITE,
    networks: Sequence[Guid] = (NETWORK_2,),
) -> bytes:
    """What a server of another site answers."""
    return encode(
        TopologyServerReply(
            correlation_id=request,
            connected_networks=tuple(networks),
            responding_site_id=site,
            directory_service_servers=servers(*names or ("PSC2",)),
        )
    )


def request(*, request_id: Guid = REQUEST, site: Guid = OWN_SITE, ipx: Sequence[int] = ()) -> bytes:
    return encode(
        TopologyClientRequest(
            enterprise_id=ENTERPRISE, request_id=request_id, site_id=site, ipx_networks=tuple(ipx)
        )
    )


def knowledge(*names: str, site: Guid = OTHER_SITE, networks: Sequence[Guid] = (NETWORK_2,)) -> Knowledge:
    return Knowledge(site=site, servers=servers(*names), networks=tuple(networks))


def knowing(*names: str, byte_rate: CommonRate | None = None, **more) -> Answers:
    answers = Answers(byte_rate=byte_rate)
    answers.learn(knowledge(*names or ("PSC2",), **more))
    return answers


def answered(answers: Answers, data: bytes, source: str = CLIENT[0], now: float = 0.0) -> TopologyServerReply:
    answer = answers.answer(data, source, now)
    assert isinstance(answer, bytes), answer
    reply = decode(answer)
    assert isinstance(reply, TopologyServerReply)
    return reply


def listening(answers: Answers | None = None) -> serve.DiscoveryServer:
    server = serve.DiscoveryServer(answers or knowing())
    assert server.step(serve.Start(), 0) == [serve.Open()]
    assert server.step(serve.Opened(), 0) == []
    return server


@dataclass
class Bench:
    """A client of `OWN_SITE`, and the time."""

    client: do.DiscoveryClient = field(
        default_factory=lambda: do.DiscoveryClient(enterprise_id=ENTERPRISE, site_id=OWN_SITE)
    )
    now: float = 1000.0

    def step(self, event: do.Event) -> list[do.Action]:
        return self.client.step(event, self.now)

    def discover(self, *networks: Network, **more: bool) -> list[do.Action]:
        return self.step(do.Discover(networks=networks, request_id=REQUEST, **more))

    def receive(
        self, data: bytes, network: Network | None = None, source: str = "10.1.0.7"
    ) -> list[do.Action]:
        where = network or self.client.current_network or NET_A
        return self.step(do.ReplyReceived(network=where, data=data, source=source))

    def wait(self, seconds: float = ANSWER_WAIT_S) -> list[do.Action]:
        """Let time pass, and say that the wait is over."""
        self.now += seconds
        return self.step(do.Waited())

    @property
    def left_s(self) -> float | None:
        """Seconds until the wait is over."""
        return None if self.client.deadline is None else self.client.deadline - self.now


def asked(actions: Sequence[do.Action]) -> list[Network]:
    """Where requests were sent."""
    return [one.network for one in actions if isinstance(one, do.Broadcast)]


def sent(actions: Sequence[do.Action]) -> TopologyClientRequest:
    """The one request that was sent."""
    (packet,) = [decode(one.data) for one in actions if isinstance(one, do.Broadcast)]
    assert isinstance(packet, TopologyClientRequest)
    return packet


def dropped(actions: list[do.Action]) -> str:
    (action,) = actions
    assert isinstance(action, Dropped)
    return action.what


def everything(client: do.DiscoveryClient) -> dict[str, object]:
    """All of a client's state but the clock, for "and perform no further processing"."""
    return {name: value for name, value in vars(client).items() if name not in {"_now", "_heard"}}
