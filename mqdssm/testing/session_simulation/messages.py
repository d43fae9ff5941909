"""Messages of a simulated session, as they are sent and as they arrive."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from mqdssm.engines.session.actions import InternalPacket
from mqdssm.model.guid import Guid
from mqdssm.model.packets import Packet, SessionHeader, UserPacket
from mqdssm.model.transport import DeliveryGuarantee, Message, MessageId, replication_queue
from mqdssm.samples.seeded_random import compute_octets

_BODY_SIZES: Final = (0, 3, 40, 700, 3_000)
_TOGETHER_PERCENT: Final = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMessage:
    """A message; its number is also its identifier.

    Attributes:
        number: of the message, in the order of sending.
        source: name of the sender.
        source_id: its QueueManager.Identifier.
        destination: name of the receiver.
        is_recoverable: True if it has to survive crashes.
        priority: messages with a higher one go first.
    """

    number: int
    source: str
    source_id: Guid
    destination: str
    is_recoverable: bool
    priority: int

    @property
    def order(self) -> tuple[int, int]:
        """Place of the message in a queue."""
        return -self.priority, self.number

    def as_sent(self) -> Message:
        """Return the message that is encoded."""
        guarantee = DeliveryGuarantee.RECOVERABLE if self.is_recoverable else DeliveryGuarantee.EXPRESS
        return Message(
            body=_make_body(self.number % 50),
            delivery=guarantee,
            priority=self.priority,
            identifier=MessageId(self.source_id, self.number),
            destination=replication_queue(self.destination),
        )


@lru_cache
def _make_body(number: int) -> bytes:
    return compute_octets(_BODY_SIZES[number % len(_BODY_SIZES)], "body", number)


class ArrivedMessages(NamedTuple):
    """Messages that arrive together: express ones, or one message.

    Attributes:
        numbers: of the messages.
        is_recoverable: True of a recoverable message.
        header: the acknowledgement that a single message carries.
    """

    numbers: tuple[int, ...]
    is_recoverable: bool
    header: SessionHeader | None = None


class Closed(NamedTuple):
    """The other end has closed the connection."""


Arrival: TypeAlias = InternalPacket | ArrivedMessages | Closed


def group_arrivals(
    arrivals: Iterable[Packet | Message], percent_below: Callable[[int], bool]
) -> Iterator[Arrival]:
    """Yield what packets bring.

    Express messages in a row arrive together, or by chance alone.

    Args:
        arrivals: packets and messages of one read.
        percent_below: returns True with that probability.
    """
    for is_express, group in groupby(arrivals, key=_is_plain_express):
        packets = list(group)
        if is_express and percent_below(_TOGETHER_PERCENT):
            numbers = tuple(packet.identifier.number for packet in packets if isinstance(packet, Message))
            yield ArrivedMessages(numbers, is_recoverable=False)
        else:
            yield from map(_make_arrival, packets)


def _is_plain_express(packet: Packet | Message) -> bool:
    return isinstance(packet, Message) and packet.delivery is DeliveryGuarantee.EXPRESS


def _make_arrival(packet: Packet | Message) -> Arrival:
    """Return what one packet brings."""
    if not isinstance(packet, Message | UserPacket):
        return packet
    is_recoverable = packet.delivery is DeliveryGuarantee.RECOVERABLE
    if isinstance(packet, Message):
        return ArrivedMessages((packet.identifier.number,), is_recoverable)
    return ArrivedMessages((packet.message_id,), is_recoverable, packet.session)
