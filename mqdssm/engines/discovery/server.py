"""The server of discovery as a state machine ([MS-MQSD] 3.2).

There is one for each listening address.

`DiscoveryServer.STEPS` lists the events that each state handles; all others are dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery.answers import FLOOD, Answers, BriefAnswer, Refusal
from mqdssm.engines.discovery.rates import MUTE_S
from mqdssm.engines.discovery.sources import EVERYWHERE, SourceNetworks

Address: TypeAlias = tuple[str, int]
"""IPv4 address and port."""


class SocketState(StrEnum):
    """State of the server."""

    __hash__ = str.__hash__  # every datagram is looked up by it; Enum's is slow

    CLOSED = "closed"  # not started yet
    OPENING = "opening"  # the socket is being opened
    LISTENING = "listening"  # the socket is open
    ENDED = "ended"  # final


# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Initialization ([MS-MQSD] 3.2.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The socket is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFailed:
    """The socket could not be opened.

    Attributes:
        reason: in words.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A datagram arrived (3.2.5.1).

    Attributes:
        data: its bytes; a long datagram may be cut as `Answers.answer` allows.
        source: the sender.
    """

    data: bytes
    source: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySendFailed:
    """A network error during a send operation (3.2.5).

    Attributes:
        reason: in words.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopServer:
    """Request to stop the server."""


Event: TypeAlias = Start | Opened | OpenFailed | RequestReceived | ReplySendFailed | StopServer

# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Open the socket, and report `Opened` or `OpenFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Close the socket."""


@dataclass(frozen=True, slots=True)
class SendReply:
    """Send a datagram.

    Attributes:
        data: its bytes.
        destination: the client.
        is_brief: True if the limits of whole replies were reached (decision S5).
    """

    data: bytes
    destination: Address
    is_brief: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """Stop receiving from a source, if the system can filter it (decision S16).

    Attributes:
        source: its IPv4 address.
        seconds: how long.
    """

    source: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The server has ended.

    Attributes:
        reason: why the socket could not be opened; empty after `StopServer`.
    """

    reason: str = ""


Action: TypeAlias = Open | Close | SendReply | Mute | Ended | Dropped
Handler: TypeAlias = Callable[["DiscoveryServer", Any, float], list[Action]]
"""Takes the event that belongs to the row, and the time."""
_IN: Final[Mapping[SocketState, frozenset[SocketState]]] = {
    state: frozenset({state}) for state in SocketState
}


class DiscoveryServer:
    """Server of discovery on one address.

    Args:
        answers: its answers, shared with the servers on other addresses.

    Attributes:
        state: its state.
        sources: networks whose computers are answered (decision S19).
    """

    def __init__(self, answers: Answers) -> None:
        self.state = SocketState.CLOSED
        self.sources: SourceNetworks = EVERYWHERE
        self._answers: Final = answers

    def step(self, event: Event, now: float) -> list[Action]:
        """Handle one event and return the actions in order.

        `now` is in monotonic seconds.
        """
        row = self.STEPS.get((self.state, type(event)))
        if row is None:
            return [Dropped(f"{type(event).__name__} while {self.state}")]
        handler, targets = row
        actions = handler(self, event, now)
        assert self.state in targets, f"{event} led to {self.state}"  # noqa: S101  a belief, not data
        return actions

    def _on_start(self, _event: Start, _now: float) -> list[Action]:
        """Open the socket: Initialization (3.2.3)."""
        self.state = SocketState.OPENING
        return [Open()]

    def _on_opened(self, _event: Opened, _now: float) -> list[Action]:
        self.state = SocketState.LISTENING
        return []

    def _on_open_failed(self, event: OpenFailed, _now: float) -> list[Action]:
        """End the server if the socket cannot be opened (3.2.5)."""
        self.state = SocketState.ENDED
        return [Ended(reason=event.reason)]

    def _on_received(self, event: RequestReceived, now: float) -> list[Action]:
        """Answer a TopologyClientRequest (3.2.5.1)."""
        if event.source[0] not in self.sources:
            return [Dropped("not from a network that is answered")]
        answer = self._answers.answer(event.data, event.source[0], now)
        if answer is FLOOD:
            return [Dropped(FLOOD.reason), Mute(source=event.source[0], seconds=MUTE_S)]
        if isinstance(answer, Refusal):
            return [Dropped(answer.reason)]
        return [SendReply(answer, event.source, is_brief=isinstance(answer, BriefAnswer))]

    def _on_send_failed(self, _event: ReplySendFailed, _now: float) -> list[Action]:
        """Close and reopen the socket after a network error (3.2.5)."""
        self.state = SocketState.OPENING
        return [Close(), Open()]

    def _on_stop(self, _event: StopServer, _now: float) -> list[Action]:
        had_socket = self.state is SocketState.LISTENING
        self.state = SocketState.ENDED
        return [Close(), Ended()] if had_socket else [Ended()]

    # fmt: off
    STEPS: ClassVar[
        Mapping[tuple[SocketState, type], tuple[Handler, frozenset[SocketState]]]
    ] = {
        (SocketState.CLOSED, Start):              (_on_start, _IN[SocketState.OPENING]),  # 3.2.3
        (SocketState.CLOSED, StopServer):         (_on_stop, _IN[SocketState.ENDED]),
        (SocketState.OPENING, Opened):            (_on_opened, _IN[SocketState.LISTENING]),  # 3.2.3, 3.2.5
        (SocketState.OPENING, OpenFailed):        (_on_open_failed, _IN[SocketState.ENDED]),  # 3.2.5
        (SocketState.OPENING, StopServer):        (_on_stop, _IN[SocketState.ENDED]),
        (SocketState.LISTENING, RequestReceived): (_on_received, _IN[SocketState.LISTENING]),  # 3.2.5.1
        (SocketState.LISTENING, ReplySendFailed): (_on_send_failed, _IN[SocketState.OPENING]),  # 3.2.5
        (SocketState.LISTENING, StopServer):      (_on_stop, _IN[SocketState.ENDED]),
    }
    # fmt: on
    """Handler of each event in each state, with the states that may follow; others are dropped."""
