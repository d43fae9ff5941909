"""Checks of delivery in a run without faults.

Changes arrive in time, and tombstones are purged.

The comparison at the end does not notice late or missing messages: synchronization makes up for them.
"""

from collections.abc import Iterator
from typing import Final

from mqdssm.model.guid import Guid
from mqdssm.model.replication import DirectoryNeighbor, DirectoryPartition
from mqdssm.testing.simulation.final_checks import list_members
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.trace import Violation
from mqdssm.testing.simulation.world import World

_DRIFT: Final = 1.1
"""Clocks are slower than the simulated time by less than this factor."""
_UNDER_WAY_S: Final = 2.0
"""Longer than requests and messages take without faults."""
_QUIET_S: Final = 25.0
"""Time after the beginning in which nothing is changed."""


class DeliveryChecks:
    """Guarantees of delivery, valid from now on until the topology changes.

    Args:
        world: a whole enterprise, without faults.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._begun = world.schedule.now
        self._servers = list_members(world)
        self._partitions: dict[tuple[int, Guid], DirectoryPartition] = {}
        self._neighbors: dict[tuple[int, bool, str], DirectoryNeighbor] = {}
        for server in self._servers:
            for partition_id, saved in server.persisted.items():
                self._partitions[server.index, partition_id] = saved
            for (is_bsc, name), neighbor in server.neighbors.items():
                self._neighbors[server.index, is_bsc, name] = neighbor

    @property
    def soon_s(self) -> float:
        """Longest time of a change to a BSC of another site, in seconds.

        The change comes from its authority.
        """
        settings = [server.settings for server in self._servers]
        between, within = (
            max(server_settings.intersite_s for server_settings in settings),
            max(server_settings.intrasite_s for server_settings in settings),
        )
        return _compute_latest(between + within)

    @property
    def _is_late(self) -> bool:
        """True if old acknowledgements may still arrive and replace new ones."""
        network = self._world.options.network
        return bool(network.late) and network.late_max_s > _QUIET_S

    def check_soon(self) -> None:
        """Check that the new changes have arrived by propagation.

        Synchronization must not have been needed.

        Raises:
            Violation: one has not.
        """
        settings = [server.settings for server in self._servers]
        limit = min(
            min(server_settings.available_max, server_settings.pending_max) for server_settings in settings
        )
        if sum(last - before for _, before, last in self._list_changed()) > limit:
            return  # servers drop changes above this limit, and may wait for announced numbers
        for partition_id, _, last in self._list_changed():
            for server in self._servers:
                saved = server.persisted[partition_id]
                if not saved.owned and saved.last < last:
                    raise Violation(
                        f"{server.name} is at {saved.last} of {partition_id}: {last} has not arrived in time"
                    )

    def check_later(self) -> None:
        """Check that numbers were announced, changes acknowledged and tombstones purged.

        Raises:
            Violation: something has not.
        """
        for server in self._servers:
            self._check_neighbors(server)
        for partition_id, before, last in self._list_changed():
            for server in self._servers:
                self._check_purging(server, partition_id, before, last)
                if server.owns(partition_id):
                    self._check_acks(server, partition_id, before, last)
                    self._check_allowed(server, partition_id)

    def _list_changed(self) -> Iterator[tuple[Guid, int, int]]:
        """Yield the changed partitions, each with two numbers.

        The two are the number before the first change, and the last number.
        """
        for partition in self._world.ledger.partitions.values():
            numbers = [entry.number for entry in partition.entries.values() if entry.at >= self._begun]
            if numbers and not partition.dead:
                yield partition.partition_id, min(numbers) - 1, max(numbers)

    def _is_due(self, seconds: float) -> bool:
        return self._world.schedule.now - self._begun > _compute_latest(seconds)

    def _check_neighbors(self, server: SimulatedServer) -> None:
        """Check that a server announces numbers, and that its BSCs acknowledge in time."""
        settings = server.settings
        for (is_bsc, name), neighbor in server.neighbors.items():
            timer_s = settings.intrasite_s if is_bsc else settings.intersite_s
            if self._world.is_foul_neighbor(neighbor):
                continue
            told_at = self._world.headers.get((server.index, name), 0.0)
            if told_at < self._begun and self._is_due(settings.header_s + timer_s):
                raise Violation(f"{server.name} does not tell {name} its numbers any more")
            other = self._world.find(name)
            before = self._neighbors.get((server.index, is_bsc, name))
            if not is_bsc or other is None or before is None or not self._is_due(other.settings.bsc_ack_s):
                continue
            if neighbor.last_acked_time == before.last_acked_time:
                raise Violation(f"{server.name} has not heard of {name} in time")

    def _check_acks(self, owner: SimulatedServer, partition_id: Guid, before: int, last: int) -> None:
        """Check that PSCs acknowledge each multiple of their interval.

        See [MC-MQDSRP] 3.1.7.2.3.

        Acknowledgements may overtake each other: any one of the new ones is enough.
        """
        if self._is_late:
            return
        for (is_bsc, name), neighbor in owner.neighbors.items():
            other = self._world.find(name)
            if is_bsc or other is None or self._world.is_foul_neighbor(neighbor):
                continue
            interval, acked = other.settings.ack_interval, neighbor.acked_of(partition_id)
            if acked <= before and before // interval < last // interval:
                raise Violation(
                    f"{name} has acknowledged {acked} of {partition_id}, not {before + 1} or more"
                )

    def _check_purging(self, server: SimulatedServer, partition_id: Guid, before: int, last: int) -> None:
        """Check that a server has purged what it may (3.1.7.2.9).

        Servers purge once for each interval of numbers.
        """
        settings = server.settings
        tried_at = last - settings.purge_interval
        if tried_at <= before:
            return
        allowed = self._compute_allowed_purge(server, partition_id, before)
        saved = server.persisted[partition_id]
        if saved.owned and self._is_late:
            return
        if saved.purged < min(tried_at - settings.purge_buffer, allowed):
            raise Violation(f"{server.name} may purge up to {allowed} of {last}, but does not: {saved}")

    def _compute_allowed_purge(self, server: SimulatedServer, partition_id: Guid, last: int) -> int:
        """Return the number up to which a server might purge when the checks began."""
        saved = self._partitions[server.index, partition_id]
        if not saved.owned:
            return int(saved.allowed_purge)
        acked = {
            name: int(neighbor.acked_of(partition_id))
            for (index, is_bsc, name), neighbor in self._neighbors.items()
            if index == server.index and not is_bsc
        }
        # a hostile PSC may name itself anew at any time, and so come as a PSC that has acknowledged nothing
        came = {
            name: 0
            for (is_bsc, name), neighbor in server.neighbors.items()
            if not is_bsc and name not in acked and self._world.is_foul_neighbor(neighbor)
        }
        return min((acked | came).values(), default=last)

    def _check_allowed(self, owner: SimulatedServer, partition_id: Guid) -> None:
        """Check that all replicas may purge what the authority had purged.

        The authority's announcements allow it (3.2.7.1).
        """
        settings = [server.settings for server in self._servers]
        if not self._is_due(
            2 * max(server_settings.header_s + server_settings.intersite_s for server_settings in settings)
        ):
            return
        purged = self._partitions[owner.index, partition_id].purged
        for server in self._servers:
            saved = server.persisted[partition_id]
            if server is not owner and saved.allowed_purge < purged:
                raise Violation(f"{server.name} may purge up to {saved.allowed_purge} only, not {purged}")


def _compute_latest(seconds: float) -> float:
    return seconds * _DRIFT + _UNDER_WAY_S
