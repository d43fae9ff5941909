"""One session under test: identifiers, packets, and a clock that fires the timers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final
from uuid import UUID

from mqdssm.engines.actions import Dropped, Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.session import actions as do
from mqdssm.engines.session.session import MessageSession
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.packets import ConnectionParameters, EstablishConnection, SessionAck, SessionHeader

CLIENT, SERVER, STRANGER = (Guid.of(UUID(int=number)) for number in (1, 2, 3))
START: Final = 1000.0


def request(server: Guid = NULL_GUID, **changes: Any) -> EstablishConnection:
    """The packet of an initiator."""
    fields: dict[str, Any] = {
        "client_guid": CLIENT,
        "server_guid": server,
        "time_stamp": 77,
        "is_ping_skipped": True,
        "is_server_class": True,
        "is_refused": False,
    }
    return EstablishConnection(**(fields | changes))


def response(**changes: Any) -> EstablishConnection:
    """The answer of an acceptor, at once."""
    return request(SERVER, **({"time_stamp": int(START * 1000)} | changes))


def parameters(window: int = 64, *, recoverable_ms: int = 500, ack_ms: int = 20_000) -> ConnectionParameters:
    return ConnectionParameters(
        recoverable_ack_timeout_ms=recoverable_ms, ack_timeout_ms=ack_ms, window_size=window
    )


def header(
    ack: int = 0, *, base: int = 0, flags: int = 0, sent: int = 0, recoverable: int = 0, window: int = 64
) -> SessionHeader:
    return SessionHeader(
        ack_sequence_number=ack,
        recoverable_ack_sequence_number=base,
        recoverable_ack_flags=flags,
        user_message_sequence_number=sent,
        recoverable_message_sequence_number=recoverable,
        window_size=window,
    )


@dataclass
class SessionBench:
    """A session, its clock and its timers."""

    session: MessageSession
    now: float = START
    due: dict[str, float] = field(default_factory=dict)
    tokens: Any = field(default_factory=lambda: count(1))

    def step(self, event: do.Event) -> list[do.Action]:
        actions = self.session.step(event, self.now)
        for action in actions:
            if isinstance(action, StartTimer):
                self.due[action.name] = self.now + action.after_s
            elif isinstance(action, StopTimer):
                del self.due[action.name]
        return actions

    def wait(self, seconds: float) -> list[do.Action]:
        """Let time pass, and fire what runs out; gives all actions."""
        end = self.now + seconds
        actions: list[do.Action] = []
        while self.due and min(self.due.values()) <= end:
            name = min(self.due, key=lambda timer: self.due[timer])
            self.now = self.due.pop(name)
            actions += self.step(TimerFired(name=name))
        self.now = end
        return actions

    def receive(self, packet: do.InternalPacket, connection: int | None = None) -> list[do.Action]:
        return self.step(do.PacketReceived(packet=packet, connection=self._number(connection)))

    def acknowledge(self, ack: int = 0, **fields: int) -> list[do.Action]:
        return self.receive(SessionAck(session=header(ack, **fields)))

    def message(
        self, *, is_recoverable: bool = False, session_header: SessionHeader | None = None
    ) -> list[do.Action]:
        """A message arrives; its token is its number among all."""
        return self.step(
            do.MessageReceived(
                token=next(self.tokens),
                is_recoverable=is_recoverable,
                session_header=session_header,
                connection=self._number(None),
            )
        )

    def send_together(self, *numbers: int) -> list[do.Action]:
        """Send express messages in one step."""
        return self.step(do.SendMessages(messages=[do.NumberedMessage(number, False) for number in numbers]))

    def send(self, *numbers: int, is_recoverable: bool = False) -> list[do.Action]:
        return [
            action
            for number in numbers
            for action in self.step(do.SendMessages(messages=[do.NumberedMessage(number, is_recoverable)]))
        ]

    def _number(self, connection: int | None) -> int:
        return self.session._core.connection if connection is None else connection


def initiator(destination: Guid = NULL_GUID, *, chance: float = 0.0, **settings: Any) -> SessionBench:
    """A session for which messages wait, and whose transport is connected."""
    bench = new_initiator(destination, chance=chance, **settings)
    bench.step(do.MessagesWaiting())
    bench.step(do.Connected(connection=1))
    return bench


def new_initiator(
    destination: Guid = NULL_GUID,
    *,
    chance: float = 0.0,
    ping_cookies: Iterator[int] | None = None,
    **settings: Any,
) -> SessionBench:
    configured = SessionSettings(identifier=CLIENT, **settings)
    session = MessageSession.initiate(
        configured, chance=lambda: chance, destination=destination, ping_cookies=ping_cookies
    )
    return SessionBench(session)


def acceptor(**settings: Any) -> SessionBench:
    """A session whose transport is connected."""
    bench = SessionBench(MessageSession.accept(SessionSettings(identifier=SERVER, **settings)))
    bench.step(do.Connected())
    return bench


def open_initiator(destination: Guid = NULL_GUID, window: int = 64, **settings: Any) -> SessionBench:
    """An open session of an initiator, whose peer has this window."""
    bench = initiator(destination, **settings)
    bench.receive(response())
    bench.receive(parameters(window))
    return bench


def open_acceptor(window: int = 64, *, server: Guid = NULL_GUID, **settings: Any) -> SessionBench:
    """An open session of an acceptor, whose peer has this window."""
    bench = acceptor(**settings)
    bench.receive(request(server))
    bench.receive(parameters(window))
    return bench


def essential(actions: list[do.Action]) -> list[do.Action]:
    """Actions without timers, notes and what was dropped."""
    return [action for action in actions if not isinstance(action, StartTimer | StopTimer | Note | Dropped)]


def closing(actions: list[do.Action]) -> do.CloseReason | None:
    """Why the connection is closed; None if it is not."""
    reasons = [action.reason for action in actions if isinstance(action, do.CloseConnection)]
    return reasons[0] if reasons else None


def packets(actions: list[do.Action]) -> list[do.InternalPacket]:
    """Packets of the session that are sent."""
    return [action.packet for action in actions if isinstance(action, do.SendPacket)]


def acks(actions: list[do.Action]) -> list[SessionHeader]:
    """Acknowledgements that are sent as packets of their own."""
    return [packet.session for packet in packets(actions) if isinstance(packet, SessionAck)]
