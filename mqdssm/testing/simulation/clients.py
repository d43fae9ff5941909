"""Clients that create, update and delete objects ([MS-MQDS] 3.1.4).

The objects are of all types, at all servers.

Names are used again after their objects were deleted. Each change has a unique value, which identifies it in
the ledger.
"""

from collections.abc import Callable
from typing import Final

from mqdssm.engines.replication.actions import ChangeObject
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties, PropertyValue, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.ledger import NumberedChange, PartitionLedger
from mqdssm.testing.simulation.options import PER_MILLE
from mqdssm.testing.simulation.requests import ClientRequest
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.services import Services
from mqdssm.testing.simulation.world import World

_TYPES: Final = (
    *(ObjectType.QUEUE,) * 8,
    *(ObjectType.MACHINE,) * 3,
    *(ObjectType.CN, ObjectType.USER, ObjectType.ROUTING_LINK) * 2,
    ObjectType.SITE,
    ObjectType.ENTERPRISE,
)
"""Types of the objects that clients change, repeated by frequency."""
_SITE_TYPES: Final = frozenset({ObjectType.QUEUE, ObjectType.MACHINE})
_UNNAMED: Final = frozenset({ObjectType.USER, ObjectType.ROUTING_LINK})
_BITS: Final = 16  # of PROPID_S_INTERVAL1


class SimulatedClients:
    """Clients of the whole enterprise.

    Args:
        world: the enterprise.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = SeededRandom("clients", world.options.seed)
        self._number = 0
        self.busy = True
        self.closing: set[Guid] = set()  # sites that are about to be removed
        self.services = Services(world, self)

    def run(self) -> None:
        """Change an object now, and again after random times, while `busy` is set."""
        if not self.busy:
            return
        server = self.any_server()
        if server is not None:
            self._change_something(server)
        if self._world.options.work.services:
            self.services.run()
        pace = self._world.options.work.pace_ms
        self._world.schedule.after(self._rng.draw_between(1, 2 * pace) / 1000, self.run)

    def any_server(self) -> SimulatedServer | None:
        """Return a random server that runs; None if there is none."""
        up = [server for server in self._world.servers if server.is_up and not server.retired]
        return self._rng.of(up) if up else None

    def ask(
        self,
        server: SimulatedServer,
        command: Command,
        object_type: ObjectType,
        *,
        partition_id: Guid,
        path_name: str | None = None,
        identifier: Guid | None = None,
        properties: Properties = (),
        scope: Scope = Scope.ENTERPRISE,
        then: Callable[[int], None] | None = None,
    ) -> int:
        """Ask a server for a change.

        Returns:
            The request's number.
        """
        self._number += 1
        change = ChangeObject(
            request=self._number,
            command=command,
            object_type=object_type,
            path_name=path_name,
            identifier=identifier,
            partition_id=partition_id,
            properties=properties,
            scope=scope,
        )
        world = self._world
        unsure = world.options.network.doubled > 0 or world.options.directories  # an intruder repeats, too
        world.book.ask(ClientRequest(change, server.index, server.life, world.schedule.now, unsure=unsure))
        if then is not None:
            world.on_answer_of(self._number, then)
        server.step(change)
        return self._number

    def take_number(self) -> int:
        """Return a new number for a request of another caller."""
        self._number += 1
        return self._number

    def next_number(self) -> int:
        """Return the number of the next request."""
        return self._number + 1

    def create_probe(
        self,
        server: SimulatedServer,
        object_type: ObjectType,
        partition_id: Guid,
        then: Callable[[int], None],
    ) -> None:
        """Create an object that conflicts with no other one."""
        number = self.next_number()
        more: Properties = ()
        if object_type is ObjectType.MACHINE:
            more = build_machine_properties(partition_id, 0)
        self.ask(
            server,
            Command.CREATE,
            object_type,
            partition_id=partition_id,
            path_name=f"probe{number}",
            identifier=self._world.guid("object", number),
            properties=(*self.values(object_type, number), *more),
            then=then,
        )

    # -- choice of changes

    def _change_something(self, server: SimulatedServer) -> None:
        object_type = self._rng.of(_TYPES)
        partition = self._choose_partition(object_type)
        if partition is None:
            return
        live = partition.live(object_type)
        free = [entry for entry in live if self._is_free(entry)]
        if object_type in {ObjectType.SITE, ObjectType.ENTERPRISE}:
            if live:
                self._update(server, partition, self._rng.of(live))
            return
        if free and self._rng.draw_below(PER_MILLE) < self._world.options.work.removals:
            self._delete(server, partition, self._rng.of(free))
        elif live and self._rng.draw_one_in(2):
            self._update(server, partition, self._rng.of(live))
        else:
            self._create(server, partition, object_type)

    def _choose_partition(self, object_type: ObjectType) -> PartitionLedger | None:
        ledger = self._world.ledger
        if object_type not in _SITE_TYPES:
            return ledger.partitions.get(PEC_PARTITION_ID)
        open_sites = [
            partition
            for partition in ledger.partitions.values()
            if partition.partition_id != PEC_PARTITION_ID
            and not partition.dead
            and partition.partition_id not in self.closing
        ]
        return self._rng.of(open_sites) if open_sites else None

    def _is_free(self, entry: NumberedChange) -> bool:
        """Return True if clients may delete an object.

        Machines of directory servers may not be deleted.
        """
        service = (entry.content or {}).get(Propid.QM_SERVICE)
        return entry.object_type is not ObjectType.MACHINE or not service

    def _build_object_arguments(self, entry: NumberedChange) -> dict[str, object]:
        """Return arguments that name an object, by path name or else by identifier."""
        if entry.path and self._rng.draw_one_in(2):
            path = entry.path.upper() if self._rng.draw_one_in(4) else entry.path
            return {"path_name": path}
        return {"identifier": entry.identifier}

    def _update(self, server: SimulatedServer, partition: PartitionLedger, entry: NumberedChange) -> None:
        self.ask(
            server,
            Command.UPDATE,
            entry.object_type,
            partition_id=partition.partition_id,
            properties=self.values(entry.object_type, self.next_number()),
            **self._build_object_arguments(entry),  # type: ignore[arg-type]
        )

    def _delete(self, server: SimulatedServer, partition: PartitionLedger, entry: NumberedChange) -> None:
        scope = Scope.SITE if entry.is_site_scope else Scope.ENTERPRISE
        self.ask(
            server,
            Command.DELETE,
            entry.object_type,
            partition_id=partition.partition_id,
            scope=scope,
            **self._build_object_arguments(entry),  # type: ignore[arg-type]
        )

    def _create(self, server: SimulatedServer, partition: PartitionLedger, object_type: ObjectType) -> None:
        path_name = self._make_name(partition, object_type)
        if path_name is None and object_type not in _UNNAMED:
            return
        self.ask(
            server,
            Command.CREATE,
            object_type,
            partition_id=partition.partition_id,
            path_name=path_name,
            identifier=self._world.guid("object", self.next_number()),
            properties=(
                *self.values(object_type, self.next_number()),
                *self._make_needed_properties(partition, object_type),
            ),
        )

    def _make_name(self, partition: PartitionLedger, object_type: ObjectType) -> str | None:
        few = self._rng.draw_below(self._world.options.work.few)
        if object_type is ObjectType.QUEUE:
            machines = partition.live(ObjectType.MACHINE)
            return f"{self._rng.of(machines).path}\\q{few}" if machines else None
        if object_type is ObjectType.MACHINE:
            return f"m{few}-{str(partition.partition_id)[:4]}"
        return f"net{few}" if object_type is ObjectType.CN else None

    def values(self, object_type: ObjectType, number: int) -> Properties:
        """Return property values of an object, one of which is unique."""
        mark: tuple[Propid, PropertyValue]
        match object_type:
            case ObjectType.QUEUE:
                mark = (Propid.Q_LABEL, f"request {number}")
            case ObjectType.MACHINE:
                mark = (Propid.QM_MACHINE_TYPE, f"request {number}")
            case ObjectType.SITE:
                mark = (Propid.S_INTERVAL1, number % (1 << _BITS))
            case ObjectType.CN:
                mark = (Propid.CN_SECURITY, f"request {number}".encode())
            case ObjectType.USER:
                mark = (Propid.U_DIGEST, (self._world.guid("digest", number),))
            case ObjectType.ROUTING_LINK:
                mark = (Propid.L_COST, number)
            case _:
                mark = (Propid.E_LONG_LIVE, number)
        return (mark, *self._make_other_value(object_type))

    def _make_other_value(self, object_type: ObjectType) -> Properties:
        if self._rng.draw_one_in(2):
            return ()
        other = {
            ObjectType.QUEUE: Propid.Q_QUOTA,
            ObjectType.MACHINE: Propid.QM_QUOTA,
            ObjectType.SITE: Propid.S_INTERVAL2,
            ObjectType.CN: Propid.CN_PROTOCOLID,
            ObjectType.ENTERPRISE: Propid.E_S_INTERVAL1,
        }.get(object_type)
        return () if other is None else ((other, self._rng.draw_below(1 << 8)),)

    def _make_needed_properties(self, partition: PartitionLedger, object_type: ObjectType) -> Properties:
        """Return the other properties that a new object needs ([MS-MQDS] 3.1.6.3)."""
        match object_type:
            case ObjectType.QUEUE:
                hidden = self._world.options.work.site_scope and self._rng.draw_one_in(3)
                return ((Propid.Q_SCOPE, int(Scope.SITE if hidden else Scope.ENTERPRISE)),)
            case ObjectType.MACHINE:
                return build_machine_properties(partition.partition_id, 0)
            case ObjectType.USER:
                return ((Propid.U_SID, b"sid"), (Propid.U_SIGN_CERT, b"certificate"))
            case ObjectType.ROUTING_LINK:
                ends = self._world.ledger.partitions
                sites = [self._rng.of(list(ends)) for _ in range(2)]
                return ((Propid.L_NEIGHBOR1, sites[0]), (Propid.L_NEIGHBOR2, sites[1]))
            case _:
                return ()


def build_machine_properties(site_id: Guid, service: int) -> Properties:
    """Return the properties that a machine needs ([MS-MQDS] 3.1.6.3)."""
    return (
        (Propid.QM_SITE_ID, site_id),
        (Propid.QM_CNS, ()),
        (Propid.QM_ADDRESS, b""),
        (Propid.QM_SERVICE, service),
    )
