"""The client of discovery as a state machine ([MS-MQSD] 3.1).

The client asks on one network after the other and waits on each for an answer. A server of the client's own
site ends the wait at once. The first server of another site starts one more wait, and the second one ends it.
The best answer of all networks is kept (decision S2): the first with a list, else the first of the own site.

`DiscoveryClient.STEPS` lists the signals that each state handles; all others are dropped.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
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
    ASKING = "asking"  # asked on a network, no answer yet: LastTopologyServerReply is empty
    ANSWERED = "answered"  # a server of another site has answered; one of the own site may still answer


class Signal(StrEnum):
    """Kinds of events; a datagram is classified by its content."""

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
        networks: all networks of the computer, in the order in which they are asked.
        request_id: unique identifier of this discovery (random).
        anew: True to ask even if an earlier answer is still valid.
    """

    networks: tuple[Network, ...]
    request_id: Guid
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReceived:
    """A datagram arrived (3.1.5.2).

    Attributes:
        network: the network from which it came.
        data: the whole datagram.
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
    """A request could not be sent, so that no answer will come (decision S12)."""

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
        network: the network.
        data: the datagram.
        number: position of the network among all networks, from 1: CurrentNetworkIndex (decision S3).
        total: NumberOfNetworkAddresses.
    """

    network: Network
    data: bytes
    number: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFinished:
    """Result of Get Directory Server List, at its end.

    Attributes:
        result: the best answer; None if no server answered on any network.
    """

    result: DiscoveryResult | None


Action: TypeAlias = Broadcast | SearchFinished | Dropped


Handler: TypeAlias = Callable[["DiscoveryClient", Any], list[Action]]
"""Any stands for the event type of the signal."""
_SIGNALS: Final[Mapping[type, Signal]] = {
    Discover: Signal.DISCOVER,
    Waited: Signal.WAITED,
    RequestSendFailed: Signal.SEND_FAILED,
    NetworksChanged: Signal.NETWORKS_CHANGED,
}
_NEXT: Final = frozenset({ClientState.ASKING, ClientState.IDLE})
"""States after the move to the next network: asking there, or idle after the last one."""
_ANSWERED: Final = frozenset({ClientState.ANSWERED})
_IDLE: Final = frozenset({ClientState.IDLE})


class DiscoveryClient:
    """Finds directory servers, network by network.

    Args:
        enterprise_id: Enterprise.Identifier.
        site_id: Site.Identifier; nil for a client of no site: every server then replies with its list.
        wait_s: Wait For Response Timer, in seconds.

    Attributes:
        state: its state.
        deadline: monotonic seconds at which the wait is over; None if nothing is waited for.
        directory_server_list: LocalQueueManager.DirectoryServerList, the names only (3.1.7.1).
        connected_network_identifier_list: LocalQueueManager.ConnectedNetworkIdentifierList (3.1.7.2).
        last_successful_network: LastSuccessfulNetworkAddress; None if it is not valid.
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
        self._result: DiscoveryResult | None = None  # of the last discovery that was answered
        self._heard: DiscoveryResult  # content of the reply that is being handled
        self._now = float("-inf")
        self._begin(Discover(networks=(), request_id=NULL_GUID))

    def step(self, event: Event, now: float) -> list[Action]:
        """Handle one event.

        Args:
            event: what happened.
            now: monotonic seconds; never less than before.

        Returns:
            The actions, in order. Afterwards `deadline` is the time at which `Waited` is due.
        """
        assert now >= self._now, "the driver's clock goes backwards"  # noqa: S101  a belief, not data
        self._now = now
        signal = self._judge_reply(event) if isinstance(event, ReplyReceived) else _SIGNALS[type(event)]
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
        """Network from which an answer is awaited; None if there is none."""
        return None if self.state is ClientState.IDLE else self._asked[-1]

    def _begin(self, event: Discover) -> None:
        self._request_id = event.request_id
        self._asked: list[Network] = []  # its length is CurrentNetworkIndex
        self._to_ask: deque[Network] = deque(dict.fromkeys(event.networks))
        self._best: DiscoveryResult | None = None

    def _judge_reply(self, event: ReplyReceived) -> Signal | Dropped:
        """Return the signal of a reply, or why the first three rules of 3.1.5.2 drop it."""
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
        """Start Get Directory Server List (3.1.4.1)."""
        dialled = any(network.remote_access for network in event.networks)
        if self.last_successful_network is not None and not dialled and not event.anew:
            return [SearchFinished(result=self._result)]
        self._begin(event)
        return self._ask_next_network()

    def _on_own_site(self, event: ReplyReceived) -> list[Action]:
        """End the wait at an answer of the own site (3.1.5.2).

        The rules are those for DirectoryServiceServerSize 0.
        """
        self.last_successful_network = event.network
        self._keep_best()
        return self._ask_next_network()

    def _on_first_of_other_site(self, event: ReplyReceived) -> list[Action]:
        """Start another wait after a network's first answer of another site.

        See 3.1.5.2.
        """
        self.last_successful_network = event.network
        self._keep_best()
        self.state, self.deadline = ClientState.ANSWERED, self._now + self._wait_s
        return []

    def _on_second_of_other_site(self, event: ReplyReceived) -> list[Action]:
        """End the wait after the second answer of another site (3.1.5.2)."""
        self.last_successful_network = event.network
        return self._ask_next_network()

    def _on_no_response(self, _event: Waited) -> list[Action]:
        """Handle No Server Response (3.1.6.1)."""
        if self.deadline is None or self._now < self.deadline:
            return [Dropped(what="timer that was started anew")]
        return self._ask_next_network()

    def _on_send_failed(self, event: RequestSendFailed) -> list[Action]:
        """Go to the next network (decision S12).

        Nobody received the request, so no answer can come.
        """
        if event.network != self.current_network:
            return [Dropped(what="failure on a network that is not being asked")]
        return self._ask_next_network()

    def _on_networks_changed(self, event: NetworksChanged) -> list[Action]:
        """Add new networks to those to ask (decision S12).

        Networks that are gone are left out.
        """
        self._forget(event)
        asked_networks = {*self._asked, *self._to_ask}
        self._to_ask = deque(network for network in self._to_ask if network in event.networks)
        self._to_ask.extend(
            network for network in dict.fromkeys(event.networks) if network not in asked_networks
        )
        return [] if self.current_network in event.networks else self._ask_next_network()

    def _on_networks_changed_idle(self, event: NetworksChanged) -> list[Action]:
        self._forget(event)
        return []

    # --- helpers of several handlers

    def _ask_next_network(self) -> list[Action]:
        """Send a TopologyClientRequest (3.1.5.1) on the next network.

        After the last network, the client finishes.
        """
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
        best, latest = self._best, self._heard
        if best is None:
            self._best = latest
            return
        winner = latest if latest.servers and not best.servers else best
        own_site_server = best.own_site_server or latest.own_site_server
        self._best = replace(winner, own_site_server=own_site_server)

    def _finish(self) -> list[Action]:
        """Finish, and populate the results (3.1.5.2, 3.1.6.1).

        DirectoryServerList and …NetworkIdentifierList are the results (3.1.7).
        """
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
    ] = {
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
    }
    # fmt: on
    """Handler of each signal in each state, with the states that may follow; others are dropped."""
