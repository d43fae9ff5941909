"""The product's queue managers without their threads, and faults between them."""

from collections.abc import Callable, Iterable
from typing import Final

from mqdssm.drivers.queue_manager.local_queue_manager import DeliveryState, LocalQueueManager
from mqdssm.drivers.queue_manager.outgoing import Address, QueuedMessage
from mqdssm.engines.replication.actions import Send
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.transport import Message, MessageClass, is_acknowledgement, is_nack
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.in_process_network import InProcessNetwork
from mqdssm.testing.simulation.network import FaultyNetwork
from mqdssm.testing.simulation.options import NetworkFaults
from mqdssm.testing.simulation.schedule import Schedule
from mqdssm.testing.simulation.servers import EPOCH_S, SimulatedServer
from mqdssm.testing.simulation.signing import LiveKeys, MessageForger, WatchedVerifier, signer_of

_AGAIN_S: Final = 1.0
_FORGED: Final = 20
_REPLAYED: Final = 20
"""Number of messages in a thousand that are forged, or replayed, while there are faults."""


class QueueManagers(FaultyNetwork, InProcessNetwork):
    """Network of hosts in simulated time.

    The interface is that of `mqdssm.testing.simulation.network.SimulatedNetwork`.

    Args:
        schedule: the time.
        seed: where every choice comes from.
        find: a server's number, machine name and role by its identifier; None: there is none.
        trace: writes a line of the trace, or None.

    Attributes:
        forger: changes, forges and repeats messages.
    """

    def __init__(
        self,
        schedule: Schedule,
        seed: int,
        find: Callable[[Guid], tuple[int, str, Role] | None],
        trace: Callable[[str], None] | None,
    ) -> None:
        FaultyNetwork.__init__(self, SeededRandom("network", seed), NetworkFaults())
        InProcessNetwork.__init__(self, clock=lambda: EPOCH_S + schedule.now, fault=self._schedule_arrival)
        self._schedule = schedule
        self._keys = LiveKeys(find)
        self._trace = trace
        self._up: dict[str, tuple[int, LocalQueueManager]] = {}
        self.forger = MessageForger(SeededRandom("intruder", seed))

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

    def retry(self) -> None:
        """Retry the waiting messages: a server may have started."""
        self.wake()

    def send(self, _sender: SimulatedServer, sent: Send) -> None:
        """Count a message that a server sends.

        The driver has passed it to the queue manager already.
        """
        self.counts.sent[sent.message.operation] += 1

    def deliver(self, source: LocalQueueManager, queued: QueuedMessage) -> DeliveryState:
        """Deliver a message to the machine of its address.

        A machine that cannot be reached refuses messages.
        """
        if self._side and self._is_held_up(source, queued.address):
            return DeliveryState.REFUSED
        return super().deliver(source, queued)

    def _is_held_up(self, source: LocalQueueManager, address: Address) -> bool:
        """Return True if a cut is between a machine and another one.

        The cut is the network's. The other machine is given by its address.
        """
        index = self._up.get(source.machine_name.casefold(), (-1, source))[0]
        host_numbers = (number for number, host in self._up.values() if address in _list_addresses(host))
        return self._is_cut(index, next(host_numbers, index))

    def _schedule_arrival(self, _source: str, target: str, message: Message) -> Iterable[Message]:
        """Schedule the arrival of a message, with faults.

        Returns no messages to deliver at once.
        """
        faults = self.faults
        if is_acknowledgement(message.message_class):
            self._count_nack(message)
        if self._is_drawn(faults.lost):
            self.counts.lost += 1
            return ()
        self._deliver(target, self._damage_message(message, target))
        if self._is_drawn(faults.doubled):
            self.counts.doubled += 1
            self._deliver(target, message)
        if message.signature and faults != NetworkFaults(coded=faults.coded):
            self._send_forged(target, message)
        return ()

    def _damage_message(self, message: Message, target: str) -> Message | None:
        """Return a message as it arrives, perhaps changed.

        None if it was rejected (no such queue).
        """
        if self._is_drawn(self.faults.refused):
            _, host = self._up[target.casefold()]
            host.acknowledge(message, MessageClass.NACK_BAD_DEST_QUEUE)
            return None
        if message.signature and self._is_drawn(self.faults.unsigned):
            return self.forger.changed(message)
        return message

    def _send_forged(self, target: str, message: Message) -> None:
        self.forger.record(target, message)
        if self._is_drawn(_FORGED):
            self._deliver(target, self.forger.forged(message))
        if self._is_drawn(_REPLAYED):
            again = self.forger.replayed()
            if again is not None:
                self._deliver(*again)

    def _deliver(self, target: str, message: Message | None) -> None:
        """Deliver a message after a delay; it is lost if the machine is down then."""
        if message is None:
            return

        def arrive() -> None:
            up = self._up.get(target.casefold())
            if up is not None and not up[1].offer((message,)):
                self._schedule.after(_AGAIN_S, arrive)

        self._schedule.after(self._delay(), arrive)

    def _count_nack(self, message: Message) -> None:
        self.counts.nacked += is_nack(message.message_class)
        self.counts.expired += message.message_class == MessageClass.NACK_REACH_QUEUE_TIMEOUT
        if self._trace is not None:
            self._trace(f"an acknowledgement: {MessageClass(message.message_class).name}")


def _list_addresses(host: LocalQueueManager) -> tuple[Address, Address]:
    return host.machine_name.casefold(), host.identifier
