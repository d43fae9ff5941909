"""Services beside an authority that write to its directory directly.

See [MC-MQDSRP] 3.1.7.1.2 and 3.1.7.1.3.

They read the next sequence number, write, and notify the engine. A server may stop in between.
"""

from typing import TYPE_CHECKING, Final

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import ChangeObject, PropagateChange
from mqdssm.engines.replication.authority import TEMPORARY_STATUSES, write_operation
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.properties import with_identifier
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.ledger import PartitionLedger
from mqdssm.testing.simulation.requests import ClientRequest
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

if TYPE_CHECKING:
    from mqdssm.testing.simulation.clients import SimulatedClients

_STOPS: Final = 6
"""One time in this number, a server stops between a service's write and its notification."""


class Services:
    """Services beside all authorities.

    Args:
        world: the enterprise.
        clients: the clients, whose numbers and values are used.
    """

    def __init__(self, world: World, clients: "SimulatedClients") -> None:
        self._world = world
        self._clients = clients
        self._rng = SeededRandom("services", world.options.seed)
        self.written = 0

    def run(self) -> None:
        """Write an object in about one of three calls, if an authority is ready."""
        partitions = [
            partition for partition in self._world.ledger.partitions.values() if self._has_begun(partition)
        ]
        if not partitions or not self._rng.draw_one_in(3):
            return
        partition = self._rng.of(partitions)
        server = self._world.servers[partition.giver]
        number = server.engine.read_next_number(partition.partition_id) if server.engine else MIN
        if number and server.is_idle:
            self._write(server, partition, number)

    def _has_begun(self, partition: PartitionLedger) -> bool:
        """Return True if a partition's authority has its machine object.

        Only the store refuses changes in this case.
        """
        if partition.dead or partition.foul:
            return False
        if partition.partition_id == PEC_PARTITION_ID:
            return bool(partition.latest)
        machine = partition.latest.get(self._world.servers[partition.giver].settings.machine_id)
        return machine is not None and machine.content is not None

    def _write(self, server: SimulatedServer, partition: PartitionLedger, number: SequenceNumber) -> None:
        enterprise = partition.partition_id == PEC_PARTITION_ID
        kind = ObjectType.CN if enterprise else ObjectType.QUEUE
        live = partition.live(kind)
        request = self._clients.take_number()
        command, path_name = Command.CREATE, None
        if live and self._rng.draw_one_in(2):
            command = self._rng.of((Command.UPDATE, Command.UPDATE, Command.DELETE))
            identifier = self._rng.of(live).identifier
        else:
            identifier = self._world.guid("object", request)
            path_name = self._make_name(partition, request)
        properties = () if command is Command.DELETE else self._clients.values(kind, request)
        change = ChangeObject(
            request=request,
            command=command,
            object_type=kind,
            path_name=path_name,
            identifier=identifier,
            partition_id=partition.partition_id,
            properties=properties,
        )
        self._carry_out(server, change, identifier, number)

    def _make_name(self, partition: PartitionLedger, request: int) -> str:
        if partition.partition_id == PEC_PARTITION_ID:
            return f"service {request}"
        return f"{self._rng.of(partition.live(ObjectType.MACHINE)).path}\\service {request}"

    def _carry_out(
        self, server: SimulatedServer, change: ChangeObject, identifier: Guid, number: SequenceNumber
    ) -> None:
        world = self._world
        world.book.ask(ClientRequest(change, server.index, server.life, world.schedule.now))
        outcome = server.write(write_operation(change.partition_id, _request(change, identifier), number))
        status = outcome.status if isinstance(outcome, ops.ObjectOutcome) else Hresult.MQ_ERROR
        if status not in TEMPORARY_STATUSES and status != Hresult.MQ_OK:
            world.book.record_answer(change.request, int(status), world.schedule.now)
            return
        self.written += status == Hresult.MQ_OK
        if world.is_faulty and world.options.servers.crash_every_s and self._rng.draw_one_in(_STOPS):
            server.crash()
            return
        event = PropagateChange(
            request=change.request,
            command=change.command,
            object_type=change.object_type,
            identifier=identifier,
            partition_id=change.partition_id,
            seq_number=number,
            status=status,
        )
        server.step(event)


def _request(change: ChangeObject, identifier: Guid) -> ChangeRequest:
    properties = change.properties
    if change.command is Command.CREATE:
        properties = with_identifier(change.object_type, identifier, properties)
    return ChangeRequest(
        command=change.command,
        object_type=change.object_type,
        path_name=change.path_name,
        identifier=identifier,
        properties=properties,
    )
