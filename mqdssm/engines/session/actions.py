"""Events and actions of a session between two queue managers.

A driver performs the actions of a step in their order, before it passes the next event. It writes packets and
messages to the connection in that order, too: a peer compares the counts in an acknowledgement with what it
has received ([MS-MQQB] 3.1.5.5.5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from mqdssm.engines.actions import Dropped, Note, StartTimer, StopTimer, TimerFired
from mqdssm.model.frozen_records import give_quick_init
from mqdssm.model.guid import Guid
from mqdssm.model.packets import ConnectionParameters, EstablishConnection, Ping, SessionAck, SessionHeader

InternalPacket: TypeAlias = EstablishConnection | ConnectionParameters | SessionAck
"""Packets of the session itself, with InternalHeader ([MS-MQQB] 2.2.1)."""


class CloseReason(StrEnum):
    """Reason why a session was closed ([MS-MQQB] 3.1.5.9)."""

    STOPPED = "stopped"
    """The queue manager stops (3.1.4.2)."""
    LOST = "connection lost"
    """The transport is disconnected, or could not be connected (3.1.7.3)."""
    MOVED = "the neighbour has another address"
    """Decision T141."""
    NOT_PINGED = "no positive ping response"
    """The neighbour would refuse a session, or does not answer (3.1.5.2.2)."""
    IDLE = "idle"
    """No message since the last Session Cleanup Timer Event (3.1.6.2)."""
    NOT_ESTABLISHED = "not established in time"
    """Session Initialization Timer Event (3.1.6.6)."""
    NOT_ACKNOWLEDGED = "messages not acknowledged in time"
    """Session Ack Wait Timer Event (3.1.6.3)."""
    REFUSED = "refused by the peer"
    """InternalHeader.Flags.CS is set (2.2.1)."""
    NOT_ADDRESSED = "addressed to another queue manager"
    """ServerGuid of a request is not ours: we refuse (3.1.5.3.1)."""
    WRONG_PEER = "answered by another queue manager"
    """ClientGuid or ServerGuid of a response is wrong (3.1.5.3.2)."""
    UNEXPECTED = "packet that the state does not allow"
    """SessionState is another one (3.1.5.3, 3.1.5.4, 3.1.5.5, 3.1.5.8)."""
    OUT_OF_RANGE = "parameter out of range"
    """A time of ConnectionParameters is not valid (2.2.2.1)."""
    NEVER_SENT = "acknowledgement of messages that were never sent"
    """Decision T23."""
    MISCOUNTED = "counts of messages differ"
    """UserMsgSequenceNumber or RecoverableMsgSeqNumber is wrong (3.1.5.5.5)."""
    FLOODED = "more recoverable messages than can be stored"
    """Decision T28."""
    DRIVER = "closed by the driver"
    """A malformed packet (3.1.5.1.2, 3.1.5.1.3), the quota of the queue manager (3.1.5.8.8), or another
    machine at the address of a neighbour (decision T142)."""


# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesWaiting:
    """Messages wait for the neighbour ([MS-MQQB] 3.1.7.12).

    An initiator opens a session.

    A driver passes it when its queue is not empty and `MessageSession.send_capacity` is 0. Repeating it does
    nothing.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingWaiting:
    """All messages for the neighbour are gone, as by expiry.

    No session is needed any more.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborHeard:
    """The neighbour has opened a session with us: it can be reached again.

    The next attempt to connect comes sooner (decision T70).

    Attributes:
        is_elsewhere: True if the address of the connection, or of the attempt to connect, is not one of the
            neighbour's any more, as our own resolver says (decision T141).
    """

    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PingReceived:
    """A ping response arrived from the neighbour's address ([MS-MQQB] 3.1.7.8).

    Attributes:
        ping: the packet.
    """

    ping: Ping


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The transport is connected ([MS-MQQB] 3.1.5.10).

    An initiator is connected after `Connect`, an acceptor once.

    Attributes:
        connection: number of the connection in `Connect`; 0 for an acceptor.
    """

    connection: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost:
    """The transport is disconnected, or could not be connected ([MS-MQQB] 3.1.7.3).

    Attributes:
        connection: as in `Connected`.
        reason: for people.
    """

    connection: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketReceived:
    """A packet of the session itself arrived.

    Attributes:
        packet: EstablishConnection, ConnectionParameters or SessionAck.
        connection: as in `Connected`.
    """

    packet: InternalPacket
    connection: int = 0


@give_quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A user message arrived: a UserMessage, OrderAck or FinalAck packet.

    See [MS-MQQB] 3.1.5.8.

    Attributes:
        token: number that the driver gives to the arrival; never used twice for a session object.
        is_recoverable: True if UserHeader.Flags.DM is 1.
        session_header: the acknowledgement that the packet carries.
        connection: as in `Connected`.
    """

    token: int
    is_recoverable: bool
    session_header: SessionHeader | None = None
    connection: int = 0


@give_quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressReceived:
    """Express messages without a SessionHeader have arrived, and are in their queues.

    The session counts them together, without `AcceptMessage`.

    Attributes:
        messages: how many.
        connection: as in `Connected`.
    """

    messages: int
    connection: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStored:
    """A recoverable message that arrived will survive a crash.

    Else it will never be wanted again.

    Report also a duplicate, a refused and an expired message, or the peer sends it for ever (decision T29).
    Report a duplicate only when the first copy is stored.

    Attributes:
        token: of `AcceptMessage`. A token of an earlier connection is ignored.
    """

    token: int


class NumberedMessage(NamedTuple):
    """Message of `SendMessages`.

    Attributes:
        number: number that the driver gives to the message, unique among messages under way.
        is_recoverable: True if UserHeader.Flags.DM is 1.
    """

    number: int
    is_recoverable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessages:
    """Messages are to be sent ([MS-MQQB] 3.1.7.1).

    The driver has checked that they have not expired.

    Those above `MessageSession.send_capacity` are returned at once, by `MessagesReturned`.

    Attributes:
        messages: the messages, at least one, in the order in which they are to be sent.
    """

    messages: Sequence[NumberedMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession:
    """The driver has to close the session.

    The reason is a malformed packet, no room for messages of anybody, or a peer that is another machine.

    Attributes:
        detail: for people.
    """

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The queue manager stops ([MS-MQQB] 3.1.4.2).

    The session object does nothing afterwards.
    """


Event: TypeAlias = (
    MessagesWaiting
    | NothingWaiting
    | NeighborHeard
    | PingReceived
    | Connected
    | ConnectionLost
    | PacketReceived
    | MessageReceived
    | ExpressReceived
    | MessageStored
    | SendMessages
    | CloseSession
    | Stop
    | TimerFired
)

# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPing:
    """Send a ping request to the neighbour by UDP ([MS-MQQB] 3.1.7.6).

    The answer may come or not.

    Attributes:
        ping: the packet.
    """

    ping: Ping


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Connect to the neighbour, and report `Connected` or `ConnectionLost`.

    Attributes:
        connection: number of the connection, for the events that concern it.
    """

    connection: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPacket:
    """Send a packet of the session itself on the connection."""

    packet: InternalPacket


@dataclass(frozen=True, slots=True, kw_only=True)
class TransmitMessages:
    """Send messages on the connection.

    Attributes:
        numbers: of `SendMessages`, in their order.
        session_header: acknowledgement that the first packet has to carry ([MS-MQQB] 3.1.7.11).
    """

    numbers: tuple[int, ...]
    session_header: SessionHeader | None = None


@give_quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptMessage:
    """Put a message that arrived into its queue, unless it is a duplicate.

    The following actions may acknowledge an express message: the queue must have it before.

    Attributes:
        token: of `MessageReceived`.
        is_recoverable: True if the driver has to report `MessageStored`.
    """

    token: int
    is_recoverable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesAcknowledged:
    """The peer has these messages, recoverable ones on its disk.

    Acknowledged messages are not sent again.

    Attributes:
        numbers: of `SendMessages`, in the order in which they were sent.
    """

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesReturned:
    """The session ends without an acknowledgement of these messages.

    The messages have to be sent again.

    Attributes:
        numbers: of `SendMessages`, in the order in which they were sent; they precede all waiting messages of
            their priorities.
    """

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    """The session is open: messages may be sent.

    Attributes:
        remote_identifier: QueueManager.Identifier that the peer claims.
    """

    remote_identifier: Guid


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConnection:
    """Close the connection after what was written to it.

    An attempt to connect is given up.

    Attributes:
        connection: as in `Connect`; 0 of an acceptor.
        reason: why.
    """

    connection: int
    reason: CloseReason


Action: TypeAlias = (
    SendPing
    | Connect
    | SendPacket
    | TransmitMessages
    | AcceptMessage
    | MessagesAcknowledged
    | MessagesReturned
    | SessionOpened
    | CloseConnection
    | StartTimer
    | StopTimer
    | Note
    | Dropped
)
