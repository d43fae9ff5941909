"""Checks of purging ([MC-MQDSRP] 3.1.7.2.9).

Each rule is compared with the contents of the stores.

* An authority purges numbers that every PSC has; a replica purges numbers that its authority has purged. No
  server purges the newest numbers.
* No purged tombstone is left. When a full synchronization begins, no object has a number.
* An acknowledgement counts for the partition that it names. No server acknowledges numbers that it never had.
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
from mqdssm.testing.simulation.trace import Violation


class PurgeRules:
    """Checks of purges and acknowledgements.

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
        """Record the highest number that a server has ever reached.

        The number stays even if the server loses its directory later.
        """
        key = (server.index, partition_id)
        self._furthest[key] = max(last, self._furthest.get(key, 0))

    def purged(self, server: SimulatedServer, operation: PurgeDeletedObjects) -> None:
        """Check a purge that was performed.

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
        """Check that an authority purges only acknowledged numbers.

        All known primary controllers have these numbers.
        """
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
        """Check the acknowledged numbers that a server has saved of a neighbour.

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
        """Check a partition at the beginning of a full synchronization.

        See [MC-MQDSRP] 3.3.7.10.

        Raises:
            Violation: something has kept its number.
        """
        remaining = changes_of(server.store, operation.partition_id)
        if remaining:
            raise Violation(f"{server.name} begins a full synchronization, but keeps {remaining[0]}")
