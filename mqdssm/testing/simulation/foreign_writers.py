"""Other programs that write into servers' directories with plain LDAP.

See decisions R112 and R113.

Such a change gets no number. In the directory of the owner it is found and published; in a replica it is
reported, and an operator who compares the replicas in the end has them synchronized.
"""

from collections import Counter
from typing import Final

from mqdssm.engines.replication.actions import ChangeObject, Resynchronize
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.clients import SimulatedClients
from mqdssm.testing.simulation.final_checks import copy_of, list_members
from mqdssm.testing.simulation.ledger import NumberedChange, PartitionLedger, content_of
from mqdssm.testing.simulation.peers import is_windows
from mqdssm.testing.simulation.requests import NO_RESPONSE, ClientRequest
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

_TYPES: Final = (ObjectType.QUEUE, ObjectType.MACHINE, ObjectType.CN)
_REPLICAS: Final = 3
"""One write in this number is to a replica."""


class ForeignWriters:
    """Programs that change objects in directories, as long as the world is faulty.

    Args:
        world: the enterprise.
        clients: source of request numbers and property values.

    Attributes:
        counts: writes by kind, and synchronizations by the operator.
    """

    def __init__(self, world: World, clients: SimulatedClients) -> None:
        self._world = world
        self._clients = clients
        self._rng = SeededRandom("foreign writers", world.options.seed)
        self.counts: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin to write after a random time; do nothing in runs without such programs."""
        every_s = self._world.options.fault_options.foreign_every_s
        if not every_s:
            return

        def go() -> None:
            if self._world.is_faulty:
                self._write()
                self.begin()

        self._world.schedule.after(self._rng.draw_between(1, 2000 * every_s) / 1000, go)

    def _write(self) -> None:
        """Change an object in the directory of its owner or of a replica.

        The server may be down.
        """
        candidates = [
            (partition, entry)
            for partition in self._world.ledger.partitions.values()
            if partition.is_strict
            for entry in partition.live()
            if entry.object_type in _TYPES
        ]
        if not candidates:
            return
        partition, entry = self._rng.of(candidates)
        owner = self._world.servers[partition.giver]
        is_replica = self._rng.draw_one_in(_REPLICAS)
        server = self._rng.of(list_members(self._world) or [owner]) if is_replica else owner
        if self._is_recorded(server, partition, entry):
            self._change(server, partition, entry)

    def _is_recorded(
        self, server: SimulatedServer, partition: PartitionLedger, entry: NumberedChange
    ) -> bool:
        """Return True if a server has the newest state of an object.

        No interrupted change of the object may be left.
        """
        if partition.partition_id in server.torn:
            return False
        change = copy_of(server, partition.partition_id).objects.get(entry.identifier)
        return change is not None and change.seq_number == entry.number

    def _change(self, server: SimulatedServer, partition: PartitionLedger, entry: NumberedChange) -> None:
        if is_windows(self._world.options, server.index):
            return  # its directory is no LDAP directory
        number = self._clients.take_number()
        properties = self._clients.values(entry.object_type, number)
        if server.owns(partition.partition_id):
            self._expect(server, partition.partition_id, entry, number)
            self.counts["foreign writes to owners"] += 1
        else:
            self.counts["foreign writes to replicas"] += 1
        server.say(f"has {entry} changed by another program: {properties}")
        partition.foreign.add(entry.number)
        server.store.write_foreign(entry.identifier, properties)

    def _expect(
        self, server: SimulatedServer, partition_id: Guid, entry: NumberedChange, number: int
    ) -> None:
        """Record that the object may be published once more, with any content.

        Nobody is told about it.
        """
        change = ChangeObject(
            request=number,
            command=Command.UPDATE,
            object_type=entry.object_type,
            path_name=None,
            identifier=entry.identifier,
            partition_id=partition_id,
            properties=(),
        )
        now = self._world.schedule.now
        self._world.book.ask(
            ClientRequest(change, server.index, server.life, now, status=NO_RESPONSE, told_at=now)
        )

    def synchronize_replicas(self) -> None:
        """Let the operator synchronize replicas that another program made different."""
        if not self._world.options.fault_options.foreign_every_s:
            return
        for partition in self._world.ledger.partitions.values():
            owner = self._world.servers[partition.giver]
            servers = list_members(self._world)
            # who lags behind would have its BSCs lag behind, too
            if partition.is_strict and all(_is_through(server, partition) for server in servers):
                for server in servers:
                    if server is not owner and self._is_different(owner, server, partition.partition_id):
                        self.counts["the operator synchronizes a replica"] += 1
                        request = self._clients.take_number()
                        server.step(Resynchronize(request=request, partition_id=partition.partition_id))

    def _is_different(self, owner: SimulatedServer, server: SimulatedServer, partition_id: Guid) -> bool:
        """Return True if two copies of an object differ that another program has changed."""
        truth, copy = copy_of(owner, partition_id).objects, copy_of(server, partition_id).objects
        written = self._world.ledger.partitions[partition_id].foreign
        return any(
            int(change.seq_number) in written
            and change.seq_number == truth[identifier].seq_number
            and kind is not None
            and content_of(kind, change.properties) != content_of(kind, truth[identifier].properties)
            for identifier, change in copy.items()
            if identifier in truth
            for kind in (change.object_type,)
        )


def _is_through(server: SimulatedServer, partition: PartitionLedger) -> bool:
    """Return True if a server has all changes of a partition."""
    owns = server.owns(partition.partition_id)
    return server.is_whole(partition.partition_id) and (
        owns or server.reached(partition.partition_id) >= partition.last
    )
