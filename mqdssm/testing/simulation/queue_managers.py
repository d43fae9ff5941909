"""The product's queue managers without their threads, and faults between them."""

from collections.abc import Callable, Iterable
from typing import Final

from mqdssm.drivers.outgoing import Address
from mqdssm.drivers.queue_manager import LocalQueueManager
from mqdssm.engines.replication.actions import Send
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.transport import Message, MessageClass, is_acknowledgement, is_nack
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.in_process_network import InProcessNetwork
from mqdssm.testing.simulation.network import NetworkCounts, delay_of
from mqdssm.testing.simulation.options import PER_MILLE, NetworkFaults
from mqdssm.testing.simulation.schedule import Schedule
from mqdssm.testing.simulation.servers import EPOCH_S, SimulatedServer
from mqdssm.testing.simulation.signing import LiveKeys, MessageForger, WatchedVerifier, signer_of

_AGAIN_S: Final = 1.0
_FORGED: Final = 20
_REPLAYED: Final = 20
"""Number of messages in a thousand that are forged, or replayed, while there are faults."""


class QueueManagers(InProcessNetwork):
    """Network of hosts in simulated time, used like `mqdssm.testing.simulation.network.SimulatedNetwork`.

    Args:
        schedule: the time.
        seed: where every choice comes from.
        find: a server's number, machine name and role by its identifier; None: there is none.
        trace: writes a line of the trace, or None.

    Attributes:
        counts: counts of messages and faults.
        faults: the current chances of faults.
        forger: changes, forges and repeats messages.
    """

    def __init__(
        self,
        schedule: Schedule,
        seed: int,
        find: Callable[[Guid], tuple[int, str, Role] | None],
        trace: Callable[[str], None] | None,
    ) -> None:
        super().__init__(clock=lambda: EPOCH_S + schedule.now, fault=self._under_way)
        self._schedule = schedule
        self._rng = SeededRandom("network", seed)
        self._keys = LiveKeys(find)
        self._trace = trace
        self._up: dict[str, tuple[int, LocalQueueManager]] = {}
        self._side: frozenset[int] = frozenset()
        self._one_way = False
        self.faults = NetworkFaults()
        self.forger = MessageForger(SeededRandom("intruder", seed))
        self.counts = NetworkCounts()

    def connect(self, station: SimulatedServer, on_work: Callable[[], None]) -> LocalQueueManager:
        """Start the queue manager of a server, for one life of the server."""
        host = self.add(
            station.name,
            station.machine_id,
            signer=signer_of(station.index, station.machine_id),
            verifier=WatchedVerifier(self._keys, self._clock, self.forger.bad),
            on_work=on_work,
        )
        self._up[host.machine_name.casefold()] = station.index, host
        return host

    def disconnect(self, host: LocalQueueManager) -> None:
        """Stop a queue manager; its waiting messages are lost."""
        del self._up[host.machine_name.casefold()]
        host.close()

    def calm(self) -> None:
        """End all faults."""
        self.faults = NetworkFaults()
        self.heal()

    def divide(self, side: frozenset[int], *, one_way: bool) -> None:
        """Cut some servers off from the others; one way: only messages from these servers are held up."""
        self.counts.cuts += 1
        self._side, self._one_way = side, one_way

    def heal(self) -> None:
        """End the network cut."""
        self._side = frozenset()
        self.wake()

    def retry(self) -> None:
        """Retry the waiting messages: a server may have started."""
        self.wake()

    def send(self, _sender: SimulatedServer, sent: Send) -> None:
        """Count a message that a server sends; the driver has passed it to the queue manager already."""
        operation = sent.message.operation
        self.counts.sent[operation] = self.counts.sent.get(operation, 0) + 1

    def deliver(self, source: LocalQueueManager, address: Address, message: Message) -> bool:
        """Deliver a message to the machine with an address; return False if it cannot be reached."""
        if self._side and self._is_cut(source, address):
            return False
        return super().deliver(source, address, message)

    def _is_cut(self, source: LocalQueueManager, address: Address) -> bool:
        index = self._up.get(source.machine_name.casefold(), (-1, source))[0]
        others = (number for number, host in self._up.values() if address in _addresses(host))
        other = next(others, index)
        if (index in self._side) is (other in self._side):
            return False
        return not self._one_way or index in self._side

    def _under_way(self, _source: str, target: str, message: Message) -> Iterable[Message]:
        """Schedule the arrival of a message, with faults; return no messages to deliver at once."""
        faults = self.faults
        if is_acknowledgement(message.message_class):
            self._count_nack(message)
        if self._happens(faults.lost):
            self.counts.lost += 1
            return ()
        self._deliver(target, self._damaged(message, target))
        if self._happens(faults.doubled):
            self.counts.doubled += 1
            self._deliver(target, message)
        if message.signature and faults != NetworkFaults(coded=faults.coded):
            self._intrude(target, message)
        return ()

    def _damaged(self, message: Message, target: str) -> Message | None:
        """Return a message as it arrives, perhaps changed; None: it was rejected (no such queue)."""
        if self._happens(self.faults.refused):
            _, host = self._up[target.casefold()]
            host.acknowledge(message, MessageClass.NACK_BAD_DEST_QUEUE)
            return None
        if message.signature and self._happens(self.faults.unsigned):
            return self.forger.changed(message)
        return message

    def _intrude(self, target: str, message: Message) -> None:
        self.forger.record(target, message)
        if self._happens(_FORGED):
            self._deliver(target, self.forger.forged(message))
        if self._happens(_REPLAYED):
            again = self.forger.replayed()
            if again is not None:
                self._deliver(*again)

    def _deliver(self, target: str, message: Message | None) -> None:
        """Deliver a message after a delay; it is lost if the machine is down then."""
        if message is None:
            return
        seconds, is_late = delay_of(self._rng, self.faults)
        self.counts.late += is_late

        def arrive() -> None:
            up = self._up.get(target.casefold())
            if up is not None and not up[1].offer((message,)):
                self._schedule.after(_AGAIN_S, arrive)

        self._schedule.after(seconds, arrive)

    def _happens(self, chance: int) -> bool:
        return chance > 0 and self._rng.below(PER_MILLE) < chance

    def _count_nack(self, message: Message) -> None:
        self.counts.nacked += is_nack(message.message_class)
        self.counts.expired += message.message_class == MessageClass.NACK_REACH_QUEUE_TIMEOUT
        if self._trace is not None:
            self._trace(f"an acknowledgement: {MessageClass(message.message_class).name}")


def _addresses(host: LocalQueueManager) -> tuple[Address, Address]:
    return host.machine_name.casefold(), host.identifier
