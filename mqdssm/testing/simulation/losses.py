"""Directories that are lost, or old copies; authorities that are replaced (decisions R39, R43, R70, R71)."""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Final, TypeAlias

from mqdssm.engines.replication.actions import NameAuthority, TakeOver
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.samples.seeded_random import Dice
from mqdssm.testing.simulation.clients import SimulatedClients
from mqdssm.testing.simulation.final_checks import copy_of
from mqdssm.testing.simulation.ledger import PATHS, NumberedChange, PartitionLedger, content_of
from mqdssm.testing.simulation.server_list import Census
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

Task: TypeAlias = Generator[float, None, None]
"""What takes its time; it yields how long it waits, in seconds."""
ANSWER_S: Final = 65
"""How long an administrator waits for an answer: longer than two request_wait_s."""
PAUSE_S: Final = 2.0
NAMING_S: Final = 30.0
"""How often an operator looks for servers that believe a PEC that is lost."""
_DOUBT_S: Final = 200
"""An operator takes the hint that a directory is an old copy away after so long, whatever happened."""


class Losses:
    """What an administrator does about directories that are lost.

    Args:
        world: the enterprise.
        clients: who gives numbers to requests.
        census: who is there.
        dice: chance.
        remove_machine: deletes a server's machine object.
        create_machine: makes a server's machine object, as that of a service, at the server itself.
    """

    def __init__(
        self,
        world: World,
        clients: SimulatedClients,
        census: Census,
        dice: Dice,
        *,
        remove_machine: Callable[[SimulatedServer], Task],
        create_machine: Callable[[SimulatedServer, Service], Task],
    ) -> None:
        self._world = world
        self._clients = clients
        self._census = census
        self._dice = dice
        self._is_naming = False
        self._remove_machine = remove_machine
        self._create_machine = create_machine

    # -- backup controllers

    def reinstall(self, server: SimulatedServer) -> Task:
        """A backup controller loses its directory, and starts with nothing."""
        self._stop(server)
        self._world.reinstall(server)
        yield self._dice.below(30) * 1.0
        self._start(server)

    def restore(self, server: SimulatedServer) -> Task:
        """A backup controller starts from an old copy of its directory."""
        if not all(map(server.is_whole, server.persisted)):
            return  # what is half synchronized is not backed up
        copy = self._world.backup(server)
        yield self._dice.below(200) * 1.0
        self._stop(server)
        self._world.reinstall(server, copy)
        self._start(server)

    def _stop(self, server: SimulatedServer) -> None:
        server.held = True
        if server.is_up:
            server.crash()

    def _start(self, server: SimulatedServer) -> None:
        server.held = False
        self._world.start(server)

    # -- primary controllers

    def are_known(self, site_id: Guid) -> bool:
        """True if all others have what a site's controller owns: nobody is in the middle of getting it."""
        owner = self._census.owner(site_id)
        others = [one for one in self._census.controllers() if one is not owner]
        owned = [one.partition_id for one in self._census.owned_by(owner)]
        return bool(others) and all(one.is_whole(partition) for one in others for partition in owned)

    def restore_primary(self, site_id: Guid) -> Task:
        """A primary controller starts from an old copy of its directory, and is told that it is one."""
        server = self._census.owner(site_id)
        if not all(map(server.is_whole, server.persisted)):
            return
        known = {one.partition_id: one.last for one in self._census.owned_by(server)}
        copy = self._world.backup(server)
        yield self._dice.below(200) * 1.0
        partitions = self._census.owned_by(server)
        if not self.are_known(site_id) or known.keys() != {one.partition_id for one in partitions}:
            return
        self._stop(server)
        self._loosen(server, partitions, known)
        self._world.lose(server, copy)
        server.settings = replace(server.settings, restored=True)
        self._start(server)
        for _ in range(_DOUBT_S):
            yield 1.0
            if server.persisted and not any(server.owns(one) for one in known):
                break
        server.settings = replace(server.settings, restored=False)
        yield from self._until_owned(server, partitions)

    def reinstall_primary(self, site_id: Guid) -> Task:
        """A PSC loses its directory, and starts with nothing (decisions R43, R102, R104)."""
        server, pec = self._census.owner(site_id), self._world.pec
        partitions = self._census.owned_by(server)
        if server is pec or not self.are_known(site_id):
            return
        if not all(pec.reached(one.partition_id) for one in partitions if one.last):
            return  # whom it asks has heard of nothing yet: it would be the PSC of a new site
        self._stop(server)
        self._loosen(server, partitions, {})
        pec_name = pec.name
        server.settings = replace(server.settings, role=Role.PSC, pec_name=pec_name, psc_name="")
        self._world.lose(server)
        yield self._dice.below(30) * 1.0
        self._start(server)
        yield from self._until_owned(server, partitions)

    def _loosen(
        self, server: SimulatedServer, partitions: list[PartitionLedger], known: dict[Guid, int]
    ) -> None:
        """What all others have, or the copy, must not be lost."""
        others = [one for one in self._census.controllers() if one is not server]
        for partition in partitions:
            reached = min(one.reached(partition.partition_id) for one in others)
            partition.loosen(max(reached, known.get(partition.partition_id, 0)))

    def _until_owned(self, server: SimulatedServer, partitions: list[PartitionLedger]) -> Task:
        """Wait until a server is the authority again, and take in what is left."""
        while not all(server.owns(one.partition_id) for one in partitions):
            yield PAUSE_S
        for partition in sorted(partitions, key=_enterprise_last):
            self._start_over(server, partition)
        self._retire_dead()
        if self._census.machine(server) is None:  # nobody else had heard of it (decision R80)
            service = Service.PEC if server is self._world.pec else Service.PSC
            yield from self._create_machine(server, service)
        yield from self._remove_retired(partitions)

    def _remove_retired(self, partitions: list[PartitionLedger]) -> Task:
        """Remove machine objects again of servers that are gone: only who was lost knew of it (R104)."""
        sites = {one.partition_id for one in partitions}
        for server in list(self._world.servers):
            if server.retired and server.settings.site_id in sites:
                yield from self._remove_machine(server)

    def _start_over(self, server: SimulatedServer, partition: PartitionLedger) -> None:
        partition.giver = server.index
        left = self._entries(server, partition.partition_id)
        self._world.ledger.start_over(partition.partition_id, left)

    def _entries(self, server: SimulatedServer, partition_id: Guid) -> list[NumberedChange]:
        """The objects of a partition that a server has, as entries of the ledger."""
        found = []
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
            found.append(entry)
        return found

    def _retire_dead(self) -> None:
        for server in self._world.servers:
            if self._world.ledger.partitions[server.settings.site_id].dead:
                self._world.retire(server)

    # -- taking over

    def furthest(self, site_id: Guid) -> SimulatedServer | None:
        """The whole backup controller of a site that knows most of it; None: there is none."""
        owned = [one.partition_id for one in self._census.owned_by(self._census.owner(site_id))]
        whole = [one for one in self._census.bscs_of(site_id) if _has(one, owned)]
        return max(whole, key=lambda one: one.reached(site_id), default=None)

    def take_over(self, site_id: Guid, heir: SimulatedServer | None = None) -> Task:
        """A primary controller is lost for good; a backup controller is made what it was."""
        owner = self._census.owner(site_id)
        heir = heir or self._dice.of(self.heirs(site_id))
        partitions = self._census.owned_by(owner)
        self._world.retire(owner)
        for partition in partitions:
            whole = heir.is_whole(partition.partition_id)
            partition.loosen(heir.reached(partition.partition_id) if whole else 0)
        yield self._dice.below(120) * 1.0
        for partition in sorted(partitions, key=_enterprise_last):
            yield from self._make_authority(heir, partition.partition_id)
            self._start_over(heir, partition)
        self._retire_dead()
        self.name_pec()  # a BSC of the site may take who was lost for the PEC, and know nobody else (R118)
        yield from self._remove_machine(owner)
        yield from self._remove_retired(partitions)

    def sites_that_are_back(self) -> list[PartitionLedger]:
        """Sites that were removed: only the authority that is lost knew of it."""
        enterprise = self._world.ledger.partitions[PEC_PARTITION_ID]
        live = {one.identifier for one in enterprise.live()}
        partitions = self._world.ledger.partitions
        return [one for one in partitions.values() if one.dead and one.partition_id in live]

    def bring_back(self, site: PartitionLedger) -> Task:
        """Start the controller of a removed site again: without it the site could not be removed again."""
        server = self._census.owner(site.partition_id)
        site.dead = False
        site.loosen(0)
        server.retired = False
        self._start(server)
        yield from self._until_owned(server, [site])

    def heirs(self, site_id: Guid) -> list[SimulatedServer]:
        """Backup controllers that may take over from their site's controller.

        They have all of what it owns: an operator sees to that. Or they lack something, and know the PEC,
        which has it.
        """
        owner = self._census.owner(site_id)
        owned = [one.partition_id for one in self._census.owned_by(owner)]
        if not self._world.options.work.takeover_half:
            return [one for one in self._census.bscs_of(site_id) if _has(one, owned)]
        pec = self._world.pec
        if owner is pec or not _has(pec, owned):
            return []
        return [one for one in self._census.bscs_of(site_id) if self._knows(one, pec)]

    def _knows(self, server: SimulatedServer, pec: SimulatedServer) -> bool:
        """Whether a server takes the PEC for the PEC."""
        saved = server.persisted.get(PEC_PARTITION_ID)
        return saved is not None and self._world.find(saved.authority_name) is pec

    def name_pec(self) -> None:
        """From now on tell servers that believe a PEC that is lost, or has another name, who the PEC is.

        Nobody else can tell them: the PEC alone is believed about it (decision R107).
        """
        if not self._is_naming:
            self._is_naming = True
            self._name_pec()

    def _name_pec(self) -> None:
        world = self._world
        pec = world.pec
        for server in world.servers:
            saved = server.persisted.get(PEC_PARTITION_ID)
            if not server.is_up or saved is None or saved.owned or not pec.owns(PEC_PARTITION_ID):
                continue
            if world.find(saved.authority_name) is None and not pec.retired:
                number = self._clients.take_number()
                server.step(
                    NameAuthority(request=number, partition_id=PEC_PARTITION_ID, machine_name=pec.name)
                )
        world.schedule.after(NAMING_S, self._name_pec)

    def _make_authority(self, heir: SimulatedServer, partition_id: Guid) -> Task:
        told: list[int] = []
        while not told or told[-1]:
            if heir.is_up:
                number = self._clients.take_number()
                self._world.when_answered(number, told.append)
                heir.step(TakeOver(request=number, partition_id=partition_id))
            yield ANSWER_S
            if not told:
                told.append(1)


def _has(server: SimulatedServer, partitions: list[Guid]) -> bool:
    """True if a server has something of each partition, and is not in the middle of getting it anew."""
    return all(server.is_whole(one) and server.reached(one) for one in partitions)


def _enterprise_last(partition: PartitionLedger) -> bool:
    return partition.partition_id == PEC_PARTITION_ID
