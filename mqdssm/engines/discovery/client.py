"""The client of discovery as a state machine ([MS-MQSD] 3.1).

It asks on one network after the other and waits on each for an answer. A server of the client's own site
ends the wait at once; one of another site makes it wait once more, and the second of them ends it. Of all
answers the best is kept, whatever the network (decision S2): the first with a list, else the first of the
own site.

Everything that can happen in a state stands in `DiscoveryClient.STEPS`; all else is dropped.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery.values import ANSWER_WAIT_S, DiscoveryResult, Network
from mqdssm.errors import DecodeError
from mqdssm.model.discovery import TopologyClientRequest, TopologyServerReply
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.wire.mqsd import decode, encode


class ClientState(StrEnum):
    """State of the client."""

    IDLE = "idle"  # no request is out
    ASKING = "asking"  # asked on a network, nobody has answered: LastTopologyServerReply is empty
    ANSWERED = "answered"  # a server of another site has answered there; one of the own may still


class Signal(StrEnum):
    """What may happen; datagrams are told apart by what they say."""

    DISCOVER = "get directory server list"
    OWN_SITE = "reply of the own site"
    OTHER_SITE = "reply of another site"
    WAITED = "no server response"
    SEND_FAILED = "request not sent"
    NETWORKS_CHANGED = "networks changed"


# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Discover:
    """Get Directory Server List ([MS-MQSD] 3.1.4.1).

    Attributes:
        networks: all that the computer is connected to, in the order in which they are asked.
        request_id: of this discovery, unique (chance).
        anew: ask also where an earlier answer still holds.
    """

    networks: tuple[Network, ...]
    request_id: Guid
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReceived:
    """A datagram arrived (3.1.5.2).

    Attributes:
        network: where.
        data: all of it.
        source: the sender's address.
    """

    network: Network
    data: bytes
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """`DiscoveryClient.deadline` is over: No Server Response (3.1.6.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSendFailed:
    """A request could not be sent; nobody will answer it (decision S12)."""

    network: Network


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworksChanged:
    """The computer is now connected to these networks (decision S12)."""

    networks: tuple[Network, ...]


Event: TypeAlias = Discover | ReplyReceived | Waited | RequestSendFailed | NetworksChanged

# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """Send a request on a network (3.1.5.1).

    Attributes:
        network: where.
        data: the datagram.
        number: which of all networks it is, from 1: CurrentNetworkIndex (decision S3).
        total: NumberOfNetworkAddresses.
    """

    network: Network
    data: bytes
    number: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFinished:
    """Get Directory Server List is over.

    Attributes:
        result: what was learnt; None: nobody answered on any network.
    """

    result: DiscoveryResult | None


Action: TypeAlias = Broadcast | SearchFinished | Dropped


Handler: TypeAlias = Callable[["DiscoveryClient", Any], list[Action]]
"""Any: the event that belongs to the signal."""
_SIGNALS: Final[Mapping[type, Signal]] = MappingProxyType(
    {
        Discover: Signal.DISCOVER,
        Waited: Signal.WAITED,
        RequestSendFailed: Signal.SEND_FAILED,
        NetworksChanged: Signal.NETWORKS_CHANGED,
    }
)
_NEXT: Final = frozenset({ClientState.ASKING, ClientState.IDLE})
"""The next network, or the end."""
_ANSWERED: Final = frozenset({ClientState.ANSWERED})
_IDLE: Final = frozenset({ClientState.IDLE})


class DiscoveryClient:
    """Finds directory servers, network by network.

    Args:
        enterprise_id: Enterprise.Identifier.
        site_id: Site.Identifier; nil: of no site, so that every server tells its list.
        wait_s: Wait For Response Timer, in seconds.

    Attributes:
        state: where it is.
        deadline: monotonic seconds at which the wait is over; None: nothing is waited for.
        directory_server_list: LocalQueueManager.DirectoryServerList, names alone (3.1.7.1).
        connected_network_identifier_list: LocalQueueManager.ConnectedNetworkIdentifierList (3.1.7.2).
        last_successful_network: LastSuccessfulNetworkAddress; None: it is not valid.
    """

    def __init__(
        self, *, enterprise_id: Guid = NULL_GUID, site_id: Guid = NULL_GUID, wait_s: float = ANSWER_WAIT_S
    ) -> None:
        self._enterprise_id, self._site_id, self._wait_s = enterprise_id, site_id, wait_s
        self.state = ClientState.IDLE
        self.deadline: float | None = None
        self.directory_server_list: tuple[str, ...] = ()
        self.connected_network_identifier_list: tuple[Guid, ...] = ()
        self.last_successful_network: Network | None = None
        self._result: DiscoveryResult | None = None  # of the last discovery that was not in vain
        self._heard: DiscoveryResult  # what the answer at work says
        self._now = float("-inf")
        self._begin(Discover(networks=(), request_id=NULL_GUID))

    def step(self, event: Event, now: float) -> list[Action]:
        """Take one event.

        Args:
            event: what happened.
            now: monotonic seconds; never less than before.

        Returns:
            What is to be done, in order; then `deadline` says when `Waited` is due.
        """
        assert now >= self._now, "the driver's clock goes backwards"  # noqa: S101  a belief, not data
        self._now = now
        signal = self._judged(event) if isinstance(event, ReplyReceived) else _SIGNALS[type(event)]
        if isinstance(signal, Dropped):
            return [signal]
        row = self.STEPS.get((self.state, signal))
        if row is None:
            return [Dropped(what=f"{signal} while {self.state}")]
        handler, targets = row
        actions = handler(self, event)
        assert self.state in targets, f"{signal} led to {self.state}"  # noqa: S101  a belief, not data
        assert (self.deadline is None) is (self.state is ClientState.IDLE)  # noqa: S101  a belief, not data
        return actions

    @property
    def current_network(self) -> Network | None:
        """The network from which an answer is awaited; None if there is none."""
        return None if self.state is ClientState.IDLE else self._asked[-1]

    def _begin(self, event: Discover) -> None:
        self._request_id = event.request_id
        self._asked: list[Network] = []  # its length is CurrentNetworkIndex
        self._to_ask: deque[Network] = deque(dict.fromkeys(event.networks))
        self._best: DiscoveryResult | None = None

    def _judged(self, event: ReplyReceived) -> Signal | Dropped:
        """Return the reply in a datagram, or why it is discarded (the first three rules of 3.1.5.2)."""
        if event.network != self.current_network:
            return Dropped(what="answer on a network that is not being asked")
        try:
            reply = decode(event.data)
        except DecodeError:
            return Dropped(what="no topology packet")
        if not isinstance(reply, TopologyServerReply):
            return Dropped(what="request of another client")
        if reply.correlation_id != self._request_id:
            return Dropped(what="answer to another request")
        if reply.is_own_site and self._site_id == NULL_GUID:
            return Dropped(what="answer without a list to a client of no site")
        self._heard = DiscoveryResult.of(
            reply, own_site=self._site_id, network=event.network, answered_by=event.source
        )
        return Signal.OWN_SITE if reply.is_own_site else Signal.OTHER_SITE

    # --- handlers

    def _on_discover(self, event: Discover) -> list[Action]:
        """Get Directory Server List (3.1.4.1)."""
        dialled = any(network.remote_access for network in event.networks)
        if self.last_successful_network is not None and not dialled and not event.anew:
            return [SearchFinished(result=self._result)]
        self._begin(event)
        return self._next()

    def _on_own_site(self, event: ReplyReceived) -> list[Action]:
        """A server of the own site ends the wait (3.1.5.2, the rules for DirectoryServiceServerSize 0)."""
        self.last_successful_network = event.network
        self._keep_best()
        return self._next()

    def _on_first_of_other_site(self, event: ReplyReceived) -> list[Action]:
        """The first answer on a network gives the others another wait (3.1.5.2)."""
        self.last_successful_network = event.network
        self._keep_best()
        self.state, self.deadline = ClientState.ANSWERED, self._now + self._wait_s
        return []

    def _on_second_of_other_site(self, event: ReplyReceived) -> list[Action]:
        """The second one ends the wait (3.1.5.2)."""
        self.last_successful_network = event.network
        return self._next()

    def _on_no_response(self, _event: Waited) -> list[Action]:
        """No Server Response (3.1.6.1)."""
        if self.deadline is None or self._now < self.deadline:
            return [Dropped(what="timer that was started anew")]
        return self._next()

    def _on_send_failed(self, event: RequestSendFailed) -> list[Action]:
        """Nobody was asked, so nobody is waited for (decision S12)."""
        if event.network != self.current_network:
            return [Dropped(what="failure on a network that is not being asked")]
        return self._next()

    def _on_networks_changed(self, event: NetworksChanged) -> list[Action]:
        """Ask where nobody was asked yet, and no longer where we are not any more (decision S12)."""
        self._forget(event)
        known = {*self._asked, *self._to_ask}
        self._to_ask = deque(one for one in self._to_ask if one in event.networks)
        self._to_ask.extend(one for one in dict.fromkeys(event.networks) if one not in known)
        return [] if self.current_network in event.networks else self._next()

    def _on_networks_changed_idle(self, event: NetworksChanged) -> list[Action]:
        self._forget(event)
        return []

    # --- what several handlers do

    def _next(self) -> list[Action]:
        """Sending a TopologyClientRequest (3.1.5.1) on the next network; after the last one the end."""
        if not self._to_ask:
            return self._finish()
        network = self._to_ask.popleft()
        self._asked.append(network)
        self.state, self.deadline = ClientState.ASKING, self._now + self._wait_s
        request = TopologyClientRequest(
            enterprise_id=self._enterprise_id, request_id=self._request_id, site_id=self._site_id
        )
        number = len(self._asked)
        total = number + len(self._to_ask)
        return [Broadcast(network=network, data=encode(request), number=number, total=total)]

    def _keep_best(self) -> None:
        """Keep the first answer with a list, else the first one (decision S2)."""
        best, heard = self._best, self._heard
        if best is None:
            self._best = heard
            return
        winner = heard if heard.servers and not best.servers else best
        own_site_server = best.own_site_server or heard.own_site_server
        self._best = replace(winner, own_site_server=own_site_server)

    def _finish(self) -> list[Action]:
        """The end of 3.1.5.2 and 3.1.6.1; Populate DirectoryServerList and …NetworkIdentifierList (3.1.7)."""
        self.state, self.deadline = ClientState.IDLE, None
        best = self._best
        if best is None:
            self.last_successful_network = None
            return [SearchFinished(result=None)]
        if not best.is_own_site:
            self.directory_server_list = tuple(server.name for server in best.servers)
        self.connected_network_identifier_list = best.connected_networks
        self._result = best
        return [SearchFinished(result=best)]

    def _forget(self, event: NetworksChanged) -> None:
        if self.last_successful_network not in event.networks:
            self.last_successful_network = None

    # fmt: off
    STEPS: ClassVar[
        Mapping[tuple[ClientState, Signal], tuple[Handler, frozenset[ClientState]]]
    ] = MappingProxyType({
        (ClientState.IDLE, Signal.DISCOVER):             (_on_discover, _NEXT),  # 3.1.4.1
        (ClientState.IDLE, Signal.NETWORKS_CHANGED):     (_on_networks_changed_idle, _IDLE),  # S12
        (ClientState.ASKING, Signal.OWN_SITE):           (_on_own_site, _NEXT),  # 3.1.5.2
        (ClientState.ASKING, Signal.OTHER_SITE):         (_on_first_of_other_site, _ANSWERED),  # 3.1.5.2
        (ClientState.ASKING, Signal.WAITED):             (_on_no_response, _NEXT),  # 3.1.6.1
        (ClientState.ASKING, Signal.SEND_FAILED):        (_on_send_failed, _NEXT),  # S12
        (ClientState.ASKING, Signal.NETWORKS_CHANGED):   (_on_networks_changed, _NEXT),  # S12
        (ClientState.ANSWERED, Signal.OWN_SITE):         (_on_own_site, _NEXT),  # 3.1.5.2
        (ClientState.ANSWERED, Signal.OTHER_SITE):       (_on_second_of_other_site, _NEXT),  # 3.1.5.2
        (ClientState.ANSWERED, Signal.WAITED):           (_on_no_response, _NEXT | _ANSWERED),  # 3.1.6.1
        (ClientState.ANSWERED, Signal.NETWORKS_CHANGED): (_on_networks_changed, _NEXT | _ANSWERED),  # S12
    })
    # fmt: on
    """What is done about a signal in a state, and where that may lead; what is missing is dropped."""
