"""Lost and restored directories, and replaced authorities.

See decisions R39, R43, R70 and R71.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Final, TypeAlias

from mqdssm.engines.replication.actions import NameAuthority, TakeOver
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.clients import SimulatedClients
from mqdssm.testing.simulation.final_checks import copy_of
from mqdssm.testing.simulation.ledger import PATHS, NumberedChange, PartitionLedger, content_of
from mqdssm.testing.simulation.server_list import ServerRegistry
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

Task: TypeAlias = Generator[float, None, None]
"""Task of the administrator: a generator that yields the seconds to wait before it continues."""
ANSWER_S: Final = 65
"""Time that an administrator waits for an answer: longer than two request_wait_s."""
PAUSE_S: Final = 2.0
NAMING_S: Final = 30.0
"""Interval at which an operator looks for servers that still follow a lost PEC."""
_DOUBT_S: Final = 200
"""Time after which an operator resets the setting `restored` of a server in any case."""


class Losses:
    """Tasks of an administrator for lost directories.

    Args:
        world: the enterprise.
        clients: who gives numbers to requests.
        registry: who is there.
        rng: chance.
        remove_machine: deletes a server's machine object.
        create_machine: makes a server's machine object, as that of a service, at the server itself.
    """

    def __init__(
        self,
        world: World,
        clients: SimulatedClients,
        registry: ServerRegistry,
        rng: SeededRandom,
        *,
        remove_machine: Callable[[SimulatedServer], Task],
        create_machine: Callable[[SimulatedServer, Service], Task],
    ) -> None:
        self._world = world
        self._clients = clients
        self._registry = registry
        self._rng = rng
        self._is_naming = False
        self._remove_machine = remove_machine
        self._create_machine = create_machine

    # -- backup controllers

    def reinstall(self, server: SimulatedServer) -> Task:
        """Start a backup controller with an empty directory."""
        self._stop(server)
        self._world.reinstall(server)
        yield self._rng.draw_below(30) * 1.0
        self._start(server)

    def restore(self, server: SimulatedServer) -> Task:
        """Start a backup controller with an old copy of its directory."""
        if not all(map(server.is_whole, server.persisted)):
            return  # no backup during a full synchronization
        copy = self._world.backup(server)
        yield self._rng.draw_below(200) * 1.0
        self._stop(server)
        self._world.reinstall(server, copy)
        self._start(server)

    def _stop(self, server: SimulatedServer) -> None:
        server.is_kept_down = True
        if server.is_up:
            server.crash()

    def _start(self, server: SimulatedServer) -> None:
        server.is_kept_down = False
        self._world.start(server)

    # -- primary controllers

    def are_known(self, site_id: Guid) -> bool:
        """Return True if all others have whole copies of a site's partitions.

        A site's partitions are those that its controller owns.
        """
        owner = self._registry.owner(site_id)
        other_controllers = [
            controller for controller in self._registry.controllers() if controller is not owner
        ]
        owned = [partition.partition_id for partition in self._registry.owned_by(owner)]
        return bool(other_controllers) and all(
            controller.is_whole(partition) for controller in other_controllers for partition in owned
        )

    def restore_primary(self, site_id: Guid) -> Task:
        """Start a primary controller with an old directory, and the setting `restored`."""
        server = self._registry.owner(site_id)
        if not all(map(server.is_whole, server.persisted)):
            return
        last_numbers = {
            partition.partition_id: partition.last for partition in self._registry.owned_by(server)
        }
        copy = self._world.backup(server)
        yield self._rng.draw_below(200) * 1.0
        partitions = self._registry.owned_by(server)
        if not self.are_known(site_id) or last_numbers.keys() != {
            partition.partition_id for partition in partitions
        }:
            return
        self._stop(server)
        self._record_loss(server, partitions, last_numbers)
        self._world.lose(server, copy)
        server.settings = replace(server.settings, restored=True)
        self._start(server)
        for _ in range(_DOUBT_S):
            yield 1.0
            if server.persisted and not any(server.owns(partition_id) for partition_id in last_numbers):
                break
        server.settings = replace(server.settings, restored=False)
        yield from self._wait_until_owned(server, partitions)

    def reinstall_primary(self, site_id: Guid) -> Task:
        """Start a PSC with an empty directory (decisions R43, R102, R104)."""
        server, pec = self._registry.owner(site_id), self._world.pec
        partitions = self._registry.owned_by(server)
        if server is pec or not self.are_known(site_id):
            return
        if not all(pec.reached(partition.partition_id) for partition in partitions if partition.last):
            return  # the PEC has received nothing yet: the server would become the PSC of a new site
        self._stop(server)
        self._record_loss(server, partitions, {})
        pec_name = pec.name
        server.settings = replace(server.settings, role=Role.PSC, pec_name=pec_name, psc_name="")
        self._world.lose(server)
        yield self._rng.draw_below(30) * 1.0
        self._start(server)
        yield from self._wait_until_owned(server, partitions)

    def _record_loss(
        self, server: SimulatedServer, partitions: list[PartitionLedger], last_numbers: dict[Guid, int]
    ) -> None:
        """Note the loss of partitions.

        Changes that all other servers or the copy have must remain.
        """
        other_controllers = [
            controller for controller in self._registry.controllers() if controller is not server
        ]
        for partition in partitions:
            reached = min(controller.reached(partition.partition_id) for controller in other_controllers)
            partition.record_loss(max(reached, last_numbers.get(partition.partition_id, 0)))

    def _wait_until_owned(self, server: SimulatedServer, partitions: list[PartitionLedger]) -> Task:
        """Wait until each partition has an authority, and record the remaining objects."""
        while not all(self._find_authority(server, partition) for partition in partitions):
            yield PAUSE_S
        for partition in sorted(partitions, key=_is_enterprise):
            self._start_over(self._find_authority(server, partition) or server, partition)
        self._retire_dead()
        if self._registry.machine(server) is None:  # no other server had received it (decision R80)
            service = Service.PEC if server is self._world.pec else Service.PSC
            yield from self._create_machine(server, service)
        yield from self._remove_retired(partitions)

    def _find_authority(self, server: SimulatedServer, partition: PartitionLedger) -> SimulatedServer | None:
        """Return the authority of a partition that a server has lost, if there is one.

        A handover that was under way may have made another server the authority.
        """
        partition_id = partition.partition_id
        if server.owns(partition_id):
            return server
        if partition_id == PEC_PARTITION_ID or self._registry.site_names(partition_id, server):
            return None
        servers = self._world.servers
        return next(
            (
                other
                for other in servers
                if other.owns(partition_id) and self._registry.site_names(partition_id, other)
            ),
            None,
        )

    def _remove_retired(self, partitions: list[PartitionLedger]) -> Task:
        """Remove machine objects of retired servers again (decision R104).

        The removal may have been lost.
        """
        sites = {partition.partition_id for partition in partitions}
        for server in list(self._world.servers):
            if server.retired and server.settings.site_id in sites:
                yield from self._remove_machine(server)

    def _start_over(self, server: SimulatedServer, partition: PartitionLedger) -> None:
        partition.giver = server.index
        remaining = self._convert_objects(server, partition.partition_id)
        self._world.ledger.start_over(partition.partition_id, remaining)

    def _convert_objects(self, server: SimulatedServer, partition_id: Guid) -> list[NumberedChange]:
        """Return a server's objects of a partition as entries of the ledger."""
        entries = []
        for identifier, change in copy_of(server, partition_id).objects.items():
            kind = change.object_type
            if kind is None:
                continue
            content = content_of(kind, change.properties)
            path = content.get(PATHS[kind], "") if kind in PATHS else ""
            entry = NumberedChange(
                number=int(change.seq_number),
                identifier=identifier,
                object_type=kind,
                command=Command.UPDATE,
                asked=(),
                content=content,
                path=str(path),
                giver=server.index,
                at=self._world.schedule.now,
            )
            entries.append(entry)
        return entries

    def _retire_dead(self) -> None:
        for server in self._world.servers:
            if self._world.ledger.partitions[server.settings.site_id].dead:
                self._world.retire(server)

    # -- taking over

    def find_furthest(self, site_id: Guid) -> SimulatedServer | None:
        """Return the site's complete backup controller with the highest number.

        None if there is none.
        """
        owner = self._registry.owner(site_id)
        owned = [partition.partition_id for partition in self._registry.owned_by(owner)]
        whole = [bsc for bsc in self._list_other_bscs(site_id) if _has(bsc, owned)]
        return max(whole, key=lambda bsc: bsc.reached(site_id), default=None)

    def take_over(self, site_id: Guid, heir: SimulatedServer | None = None) -> Task:
        """Retire a primary controller.

        A backup controller takes over its partitions.
        """
        owner = self._registry.owner(site_id)
        heir = heir or self._rng.of(self.list_heirs(site_id))
        partitions = self._registry.owned_by(owner)
        self._world.retire(owner)
        for partition in partitions:
            whole = heir.is_whole(partition.partition_id)
            partition.record_loss(heir.reached(partition.partition_id) if whole else 0)
        yield self._rng.draw_below(120) * 1.0
        heir = self._choose_heir(site_id, heir, partitions)
        for partition in sorted(partitions, key=_is_enterprise):
            yield from self._make_authority(heir, partition.partition_id)
            self._start_over(heir, partition)
        self._retire_dead()
        self.name_pec()  # a BSC of the site may still follow the lost PEC, and know no other server (R118)
        yield from self._remove_machine(owner)
        yield from self._remove_retired(partitions)

    def _choose_heir(
        self, site_id: Guid, heir: SimulatedServer, partitions: list[PartitionLedger]
    ) -> SimulatedServer:
        """Return an heir, or another one if it began a full synchronization meanwhile.

        An answer of the lost controller had waited until the heir's disk had room.
        """
        owned = [partition.partition_id for partition in partitions]
        if self._world.options.work.takeover_half or _has(heir, owned):
            return heir
        return self.find_furthest(site_id) or heir

    def find_restored_sites(self) -> list[PartitionLedger]:
        """Return removed sites that exist again.

        Such a removal was lost with the authority.
        """
        enterprise = self._world.ledger.partitions[PEC_PARTITION_ID]
        live = {entry.identifier for entry in enterprise.live()}
        partitions = self._world.ledger.partitions
        return [
            partition
            for partition in partitions.values()
            if partition.dead and partition.partition_id in live
        ]

    def restart_controller(self, site: PartitionLedger) -> Task:
        """Restart the controller of a removed site, to remove the site again."""
        server = self._registry.owner(site.partition_id)
        site.dead = False
        site.record_loss(0)
        server.retired = False
        self._start(server)
        yield from self._wait_until_owned(server, [site])

    def list_heirs(self, site_id: Guid) -> list[SimulatedServer]:
        """Return the backup controllers that may take over from their site's controller.

        An heir has everything that the controller owns. With `takeover_half` an heir may lack something that
        the PEC has, and must know the PEC.
        """
        owner = self._registry.owner(site_id)
        owned = [partition.partition_id for partition in self._registry.owned_by(owner)]
        if not self._world.options.work.takeover_half:
            return [bsc for bsc in self._list_other_bscs(site_id) if _has(bsc, owned)]
        pec = self._world.pec
        if owner is pec or not _has(pec, owned):
            return []
        return [bsc for bsc in self._list_other_bscs(site_id) if self._is_following_pec(bsc, pec)]

    def _list_other_bscs(self, site_id: Guid) -> list[SimulatedServer]:
        """Return the backup controllers of a site, except its owner.

        An owner that is handing its site over may be one already, by its machine object.
        """
        owner = self._registry.owner(site_id)
        return [bsc for bsc in self._registry.bscs_of(site_id) if bsc is not owner]

    def _is_following_pec(self, server: SimulatedServer, pec: SimulatedServer) -> bool:
        """Return True if a server follows the current PEC."""
        saved = server.persisted.get(PEC_PARTITION_ID)
        return saved is not None and self._world.find(saved.authority_name) is pec

    def has_followed(self, server: SimulatedServer) -> bool:
        """Return True if a server follows the PEC, and has numbers from it.

        A PEC that took over goes on behind a gap, which is purged.
        """
        pec = self._world.pec
        saved = pec.persisted.get(PEC_PARTITION_ID)
        purged = 0 if saved is None else int(saved.purged)
        return self._is_following_pec(server, pec) and server.reached(PEC_PARTITION_ID) >= purged

    def name_pec(self) -> None:
        """From now on, give servers the name of the current PEC.

        The servers are those that follow a lost or renamed PEC.

        They would accept this from no server but their own PEC (decision R107).
        """
        if not self._is_naming:
            self._is_naming = True
            self._name_pec()

    def _name_pec(self) -> None:
        world = self._world
        pec = world.pec
        for server in world.servers:
            saved = server.persisted.get(PEC_PARTITION_ID)
            if not server.is_up or saved is None or saved.owned or server is pec:
                continue
            if world.find(saved.authority_name) is None and not pec.retired:
                number = self._clients.take_number()
                server.step(
                    NameAuthority(request=number, partition_id=PEC_PARTITION_ID, machine_name=pec.name)
                )
        world.schedule.after(NAMING_S, self._name_pec)

    def _make_authority(self, heir: SimulatedServer, partition_id: Guid) -> Task:
        statuses: list[int] = []
        while not statuses or statuses[-1]:
            if heir.is_up:
                number = self._clients.take_number()
                self._world.on_answer_of(number, statuses.append)
                heir.step(TakeOver(request=number, partition_id=partition_id))
            yield ANSWER_S
            if not statuses:
                statuses.append(1)
            if statuses[-1] == Hresult.MQ_ERROR_ILLEGAL_OPERATION:
                self._name_source(heir, partition_id)

    def _name_source(self, heir: SimulatedServer, partition_id: Guid) -> None:
        """Name a server with a whole copy to an heir without one.

        An answer of the lost controller began a full synchronization, which no other server is asked for
        (docs/directory-servers.md).
        """
        whole = [
            server
            for server in self._world.servers
            if server is not heir and server.is_up and _has(server, [partition_id])
        ]
        source = max(whole, key=lambda server: server.reached(partition_id), default=None)
        if source is None or not heir.is_up or heir.is_whole(partition_id):
            return
        self._world.ledger.partitions[partition_id].record_loss(0)
        number = self._clients.take_number()
        heir.step(NameAuthority(request=number, partition_id=partition_id, machine_name=source.name))


def _has(server: SimulatedServer, partitions: list[Guid]) -> bool:
    """Return True if a server has changes of each partition.

    No full synchronization may be under way.
    """
    return all(server.is_whole(partition_id) and server.reached(partition_id) for partition_id in partitions)


def _is_enterprise(partition: PartitionLedger) -> bool:
    return partition.partition_id == PEC_PARTITION_ID
