"""Clients that ask for forbidden changes (decisions R34, R95, R96).

Authorities refuse them.

These changes are refused at any time, in every state of the enterprise.
"""

from collections.abc import Callable
from typing import Any, Final

from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.clients import SimulatedClients, build_machine_properties
from mqdssm.testing.simulation.ledger import NumberedChange, PartitionLedger
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

_NOBODY: Final = "nobody"
_PACE_MS: Final = 20_000
"""Average time between two forbidden requests."""


class ForbiddenRequests:
    """Clients that send forbidden requests.

    Args:
        world: the enterprise.
        clients: through whom they ask.
    """

    def __init__(self, world: World, clients: SimulatedClients) -> None:
        self._world = world
        self._clients = clients
        self._rng = SeededRandom("trespassers", world.options.seed)

    def run(self) -> None:
        """Send a forbidden request now, and again while clients are busy.

        The times in between are random.
        """
        if not self._world.options.fault_options.trespassed or not self._clients.busy:
            return
        server = self._clients.any_server()
        if server is not None:
            self._send_forbidden(server, self._world.ledger.partitions[PEC_PARTITION_ID])
        self._world.schedule.after(self._rng.draw_between(1, 2 * _PACE_MS) / 1000, self.run)

    def _send_forbidden(self, server: SimulatedServer, enterprise: PartitionLedger) -> None:
        ways: tuple[Callable[[SimulatedServer, PartitionLedger], None], ...] = (
            self._remove_site,
            self._add_controller,
            self._move_machine,
            self._change_enterprise,
            self._ask_for_nothing,
        )
        self._rng.of(ways)(server, enterprise)

    def _remove_site(self, server: SimulatedServer, enterprise: PartitionLedger) -> None:
        """Ask to remove a site that still has objects, such as its controller."""
        sites = [site for site in enterprise.live(ObjectType.SITE) if self._has_controller(site)]
        if sites:
            site = self._rng.of(sites)
            self._ask(server, Command.DELETE, ObjectType.SITE, enterprise, identifier=site.identifier)

    def _has_controller(self, site: NumberedChange) -> bool:
        partition = self._world.ledger.partitions.get(site.identifier)
        return (
            partition is not None and bool(partition.live()) and site.identifier not in self._clients.closing
        )

    def _add_controller(self, server: SimulatedServer, _enterprise: PartitionLedger) -> None:
        """Ask to create the machine object of a second primary controller in a site."""
        site = self._choose_site()
        if site is not None:
            service = self._rng.of((Service.PSC, Service.PEC))
            self._create(
                server, ObjectType.MACHINE, site, build_machine_properties(site.partition_id, int(service))
            )

    def _move_machine(self, server: SimulatedServer, _enterprise: PartitionLedger) -> None:
        """Ask to give a machine object another site than its partition.

        The object is updated or created.
        """
        site, other = self._choose_site(), self._world.guid("nowhere")
        if site is None:
            return
        machines = site.live(ObjectType.MACHINE)
        if machines and self._rng.draw_one_in(2):
            identifier = self._rng.of(machines).identifier
            properties: Properties = ((Propid.QM_SITE_ID, other),)
            self._ask(
                server,
                Command.UPDATE,
                ObjectType.MACHINE,
                site,
                identifier=identifier,
                properties=properties,
            )
        else:
            self._create(server, ObjectType.MACHINE, site, build_machine_properties(other, 0))

    def _change_enterprise(self, server: SimulatedServer, enterprise: PartitionLedger) -> None:
        """Ask for a forbidden change of the enterprise.

        An object is deleted or added, or an unknown server is made the PEC.
        """
        live = enterprise.live(ObjectType.ENTERPRISE)
        if not live:
            return
        named: Properties = ((Propid.E_PECNAME, _NOBODY),)
        identifier = live[0].identifier
        match self._rng.draw_below(3):
            case 0:
                self._ask(server, Command.DELETE, ObjectType.ENTERPRISE, enterprise, identifier=identifier)
            case 1:
                self._create(server, ObjectType.ENTERPRISE, enterprise, named)
            case _:
                self._ask(
                    server,
                    Command.UPDATE,
                    ObjectType.ENTERPRISE,
                    enterprise,
                    identifier=identifier,
                    properties=named,
                )

    def _ask_for_nothing(self, server: SimulatedServer, enterprise: PartitionLedger) -> None:
        """Send a request that cannot be carried out.

        The partition is wrong or unknown, or the object unknown or missing.
        """
        machine = build_machine_properties(PEC_PARTITION_ID, 0)
        match self._rng.draw_below(4):
            case 0:
                self._create(server, ObjectType.MACHINE, enterprise, machine)
            case 1:
                nowhere = PartitionLedger(self._world.guid("nowhere"), 0)
                self._create(server, ObjectType.MACHINE, nowhere, machine)
            case 2:
                self._ask(server, Command.UPDATE, ObjectType.CN, enterprise, path_name=_NOBODY)
            case _:
                self._ask(server, Command.DELETE, ObjectType.USER, enterprise)

    def _choose_site(self) -> PartitionLedger | None:
        partitions = self._world.ledger.partitions.values()
        sites = [
            partition
            for partition in partitions
            if partition.partition_id != PEC_PARTITION_ID and partition.live()
        ]
        return self._rng.of(sites) if sites else None

    def _create(
        self, server: SimulatedServer, kind: ObjectType, partition: PartitionLedger, properties: Properties
    ) -> None:
        number = self._clients.next_number()
        self._ask(
            server,
            Command.CREATE,
            kind,
            partition,
            path_name=f"{_NOBODY}{number}",
            identifier=self._world.guid("trespasser", number),
            properties=properties,
        )

    def _ask(
        self,
        server: SimulatedServer,
        command: Command,
        kind: ObjectType,
        partition: PartitionLedger,
        **arguments: Any,
    ) -> None:
        self._clients.ask(server, command, kind, partition_id=partition.partition_id, **arguments)
