"""Delivery of express messages between servers, with faults.

Delivery follows Message Queuing ([MC-MQDSRP] 2.1).

A message waits with its sender while its destination cannot be reached, and is lost when the sender stops.
When its time to reach the queue runs out, or the destination refuses it, a negative acknowledgement comes
back if one was asked for ([MC-MQDSRP] 3.1.7.2.1).
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mqdssm.engines.replication.actions import Nacked, Received, Send
from mqdssm.model.frozen_records import make_replacer
from mqdssm.model.messages import Operation, ReplicationMessage
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.options import PER_MILLE, NetworkFaults
from mqdssm.testing.simulation.schedule import Schedule
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.trace import Violation
from mqdssm.wire.mqdsrp import decode, encode

_SOON_MS: Final = 40  # longest delay of a message that is not held up


@dataclass(slots=True)
class MessageInTransit:
    """A message under way.

    Attributes:
        sender: the server that sent it.
        life: the sender's life; when that life ends, a message that has not left is lost.
        sender_name: the sender's name then.
        sent: the engine's action.
        expires_at: end of its time to reach the queue.
        message: the message that arrives.
    """

    sender: SimulatedServer
    life: int
    sender_name: str
    sent: Send
    expires_at: float
    message: ReplicationMessage
    done: bool = False


_copied: Final = make_replacer(MessageInTransit)


@dataclass(slots=True)
class NetworkCounts:
    """Counts of messages and faults, for the trace and as proof that faults happen."""

    sent: Counter[Operation] = field(default_factory=Counter)
    lost: int = 0
    doubled: int = 0
    late: int = 0
    nacked: int = 0
    expired: int = 0
    cuts: int = 0


class FaultyNetwork(ABC):
    """Faults of a network between servers: their chances, delays, and a cut.

    Args:
        rng: chance.
        faults: the chances of faults.

    Attributes:
        counts: counts of messages and faults.
        faults: the current chances of faults.
    """

    def __init__(self, rng: SeededRandom, faults: NetworkFaults) -> None:
        self._rng = rng
        self.faults = faults
        self._side: frozenset[int] = frozenset()  # servers cut off from all others
        self._one_way = False
        self.counts = NetworkCounts()

    def calm(self) -> None:
        """End all faults."""
        self.faults = NetworkFaults(coded=self.faults.coded)
        self.heal()

    def divide(self, side: frozenset[int], *, one_way: bool) -> None:
        """Cut some servers off from the others.

        If the cut is one way, only messages from these servers are held up.
        """
        self.counts.cuts += 1
        self._side, self._one_way = side, one_way

    def heal(self) -> None:
        """End the network cut."""
        self._side = frozenset()
        self.retry()

    @abstractmethod
    def retry(self) -> None:
        """Retry the waiting messages: a server may have started."""

    def _is_cut(self, sender: int, receiver: int) -> bool:
        """Return True if no messages reach a server from another one, by their indexes."""
        side = self._side
        if not side or (sender in side) is (receiver in side):
            return False
        return not self._one_way or sender in side

    def _is_drawn(self, chance: int) -> bool:
        return chance > 0 and self._rng.draw_below(PER_MILLE) < chance

    def _delay(self) -> float:
        """Return the delay of a message in seconds."""
        if self._is_drawn(self.faults.late):
            self.counts.late += 1
            return self._rng.draw_between(_SOON_MS, self.faults.late_max_s * 1000) / 1000
        return self._rng.draw_between(1, _SOON_MS) / 1000


class SimulatedNetwork(FaultyNetwork):
    """Simulated network that delivers messages, with faults.

    Args:
        schedule: the time.
        rng: chance.
        faults: the chances of faults.
        find: a server by the name of its machine.
        trace: writes a line of the trace, or None.
    """

    def __init__(
        self,
        schedule: Schedule,
        rng: SeededRandom,
        faults: NetworkFaults,
        find: Callable[[str], SimulatedServer | None],
        trace: Callable[[str], None] | None,
    ) -> None:
        super().__init__(rng, faults)
        self._schedule = schedule
        self._find = find
        self._trace = trace
        self._waiting: list[MessageInTransit] = []

    def retry(self) -> None:
        """Retry the waiting messages: a server may have started."""
        waiting, self._waiting = self._waiting, []
        for parcel in waiting:
            self._let_arrive(parcel)

    def send(self, sender: SimulatedServer, sent: Send) -> None:
        """Send a message of a server."""
        self.counts.sent[sent.message.operation] += 1
        message = self._check_coding(sent.message) if self.faults.coded else sent.message
        parcel = MessageInTransit(
            sender=sender,
            life=sender.life,
            sender_name=sender.name,
            sent=sent,
            expires_at=self._schedule.now + sent.timeout_s,
            message=message,
        )
        faults = self.faults
        if self._is_drawn(faults.lost):
            self.counts.lost += 1
            self._say(parcel, "is lost")
            return
        self._schedule.after(self._delay(), partial(self._let_arrive, parcel))
        if self._is_drawn(faults.doubled):
            self.counts.doubled += 1
            twin = _copied(parcel)
            self._schedule.after(self._delay(), partial(self._let_arrive, twin))

    def _check_coding(self, message: ReplicationMessage) -> ReplicationMessage:
        decoded = decode(encode(message))
        if decoded != message:
            raise Violation(f"a message changes when it is encoded: {message!r} becomes {decoded!r}")
        return decoded

    def _let_arrive(self, parcel: MessageInTransit) -> None:
        if parcel.done:
            return
        if parcel.sent.timeout_s and self._schedule.now > parcel.expires_at:
            self._expire(parcel)
            return
        station = self._find(parcel.sent.destination)
        if station is None or not station.is_up or self._is_cut(parcel.sender.index, station.index):
            self._park(parcel)
            return
        parcel.done = True
        if self._is_drawn(self.faults.refused):
            self._send_nack(parcel, bad_signature=False)
        elif self._is_drawn(self.faults.unsigned):
            self._send_nack(parcel, bad_signature=True)
        else:
            machine_id = parcel.sender.machine_id
            station.step(Received(message=parcel.message, sender=parcel.sender_name, machine_id=machine_id))

    def _park(self, parcel: MessageInTransit) -> None:
        if parcel.life != parcel.sender.life:
            parcel.done = True  # it had not left yet: express messages live in memory
            return
        self._waiting.append(parcel)
        remaining_s = parcel.expires_at - self._schedule.now
        self._schedule.after(remaining_s, partial(self._expire, parcel))

    def _expire(self, parcel: MessageInTransit) -> None:
        if parcel.done:
            return
        parcel.done = True
        self._waiting = [other for other in self._waiting if other is not parcel]
        self.counts.expired += 1
        self._send_nack(parcel, bad_signature=False)

    def _send_nack(self, parcel: MessageInTransit, *, bad_signature: bool) -> None:
        self._say(parcel, "is refused: bad signature" if bad_signature else "does not reach it")
        sender = parcel.sender
        if not parcel.sent.ack_requested or not sender.is_up:
            return
        self.counts.nacked += 1
        event = Nacked(
            message=parcel.message, destination=parcel.sent.destination, bad_signature=bad_signature
        )
        life = sender.life

        def back() -> None:
            if sender.is_up and sender.life == life:
                sender.step(event)

        self._schedule.after(self._rng.draw_between(1, _SOON_MS) / 1000, back)

    def _say(self, parcel: MessageInTransit, text: str) -> None:
        if self._trace is not None:
            self._trace(
                f"{parcel.sender_name} -> {parcel.sent.destination}: {type(parcel.message).__name__} {text}"
            )
