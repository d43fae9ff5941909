"""What may be purged, and when ([MC-MQDSRP] 3.1.7.2.9): each rule is held against what stores hold.

* An authority purges what every PSC has; a replica what its authority has purged; nobody the newest numbers.
* What is purged is not there any more; a full synchronization begins with nothing that has a number.
* An acknowledgement counts for the partition that it names, and nobody has acknowledged what it never had.
"""

from collections.abc import Callable

from mqdssm.engines.replication.operations import MarkPartition, PurgeDeletedObjects
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryNeighbor
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.testing.simulation.ledger import PartitionLedger
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.stores import changes_of
from mqdssm.testing.simulation.violation import Violation


class PurgeRules:
    """Looks at what is purged and acknowledged.

    Args:
        strict: a partition's ledger, if its rules hold without exception.
        find: a server by its machine name.
    """

    def __init__(
        self,
        strict: Callable[[Guid], PartitionLedger | None],
        find: Callable[[str], SimulatedServer | None],
    ) -> None:
        self._strict = strict
        self._find = find
        self._purged: dict[tuple[int, Guid], SequenceNumber] = {}
        self._furthest: dict[tuple[int, Guid], int] = {}

    def reached(self, server: SimulatedServer, partition_id: Guid, last: int) -> None:
        """Remember how far a server has ever come, whatever it loses later."""
        key = (server.index, partition_id)
        self._furthest[key] = max(last, self._furthest.get(key, 0))

    def purged(self, server: SimulatedServer, operation: PurgeDeletedObjects) -> None:
        """Look at a purge that was performed.

        Raises:
            Violation: it was not allowed, or left something.
        """
        partition = self._strict(operation.partition_id)
        if partition is None:
            return
        self._check_left(server, operation)
        saved = server.persisted.get(operation.partition_id)
        up_to = operation.up_to
        if saved is None or saved.purged < up_to:
            raise Violation(f"{server.name} purges up to {up_to} without having said so: {saved}")
        last = partition.highest if saved.owned else int(saved.last)
        if up_to > max(0, last - server.settings.purge_buffer):
            raise Violation(f"{server.name} purges up to {up_to} of {last}: the newest numbers are kept")
        if saved.owned:
            self._check_acks(server, operation.partition_id, int(up_to))
        elif up_to > partition.purged:
            raise Violation(f"{server.name} purges up to {up_to}: its authority to {partition.purged}")

    def _check_left(self, server: SimulatedServer, operation: PurgeDeletedObjects) -> None:
        key = (server.index, operation.partition_id)
        before = min(self._purged.get(key, MIN), operation.up_to)
        self._purged[key] = operation.up_to
        for change in changes_of(server.store, operation.partition_id, after=before, up_to=operation.up_to):
            if change.command is Command.DELETE:
                raise Violation(f"{server.name} purges up to {operation.up_to}, but keeps {change}")

    def _check_acks(self, server: SimulatedServer, partition_id: Guid, up_to: int) -> None:
        """An authority purges what all primary controllers that it knows have, no more."""
        for (is_bsc, name), neighbor in server.neighbors.items():
            if is_bsc:
                continue
            acked = neighbor.acked_of(partition_id)
            other = self._find(neighbor.machine_name)
            reached = 0 if other is None else other.furthest.get(partition_id, 0)
            if max(int(acked), reached) < up_to:
                raise Violation(f"{server.name} purges {partition_id} up to {up_to}: {name} came to {acked}")

    def acknowledged(
        self, server: SimulatedServer, neighbor: DirectoryNeighbor, other: SimulatedServer
    ) -> None:
        """Look at what a server knows of a neighbour.

        Raises:
            Violation: the neighbour never had that.
        """
        if neighbor.is_bsc:
            return
        for partition_id in (PEC_PARTITION_ID, server.settings.site_id):
            acked, had = neighbor.acked_of(partition_id), self._furthest.get((other.index, partition_id), 0)
            if acked > had and self._strict(partition_id) is not None:
                raise Violation(
                    f"{server.name}: {other.name} acknowledged {acked} of {partition_id}, had {had}"
                )

    def marked(self, server: SimulatedServer, operation: MarkPartition) -> None:
        """Look at a partition of which a full synchronization begins ([MC-MQDSRP] 3.3.7.10).

        Raises:
            Violation: something has kept its number.
        """
        left = changes_of(server.store, operation.partition_id)
        if left:
            raise Violation(f"{server.name} begins a full synchronization, but keeps {left[0]}")
