"""The administrator: sites and controllers come and go, and take over from each other.

Tasks are generators that yield how long they wait, in seconds. They look into the ledger, as nobody could,
and do what is still to be done until it is there; answers of servers alone would not tell.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from mqdssm.engines.replication.actions import TakeOver
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.samples.dice import Dice
from mqdssm.testing.simulation.clients import Clients, machine_properties
from mqdssm.testing.simulation.ending import copy_of
from mqdssm.testing.simulation.ledger import CONTROLLER, Entry, PartitionLedger
from mqdssm.testing.simulation.servers import Server
from mqdssm.testing.simulation.world import World

Task: TypeAlias = Generator[float, None, None]
ANSWER_S: Final = 65
"""How long an administrator waits for an answer: longer than two request_wait_s."""
_SERVERS_MAX: Final = 45
_SITES_MAX: Final = 8
_PAUSE_S: Final = 2.0


class Administrator:
    """Whoever changes the topology, one thing at a time.

    Args:
        world: the enterprise.
        clients: through whom objects are changed.

    Attributes:
        running: how many tasks are not done yet.
    """

    def __init__(self, world: World, clients: Clients) -> None:
        self._world = world
        self._clients = clients
        self._dice = Dice("administrator", world.options.seed)
        self._sites = 0
        self._names = 0
        self._taken_over = False
        self.running = 0
        self.busy = True
        self.done: dict[str, int] = {}

    # -- tasks

    def begin(self, task: Task, then: Callable[[], None] | None = None) -> None:
        """Carry out a task."""
        self.running += 1

        def go() -> None:
            wait = next(task, None)
            if wait is not None:
                self._world.schedule.after(wait, go)
                return
            self.running -= 1
            if then is not None:
                then()

        go()

    def run(self) -> None:
        """Begin something when nothing is under way, and again after a while, until `busy` ends."""
        if not self.busy:
            return
        if not self.running:
            chosen = self._choose()
            if chosen is not None:
                self.done[chosen[0]] = self.done.get(chosen[0], 0) + 1
                self._say(chosen[0])
                self.begin(chosen[1])
        every = self._world.options.work.topology_every_s
        self._world.schedule.after(self._dice.between(500, 1500) / 1000 * every, self.run)

    def _choose(self) -> tuple[str, Task] | None:
        work = self._world.options.work
        sites = [one for one in self._open_sites() if one != self._world.pec.settings.site_id]
        every = [*sites, self._world.pec.settings.site_id]
        small = len(self._world.servers) < _SERVERS_MAX
        choices: list[tuple[str, Callable[[], Task]]] = []
        if work.sites_come and small and len(every) < _SITES_MAX:
            choices.append(("adds a site", self.add_site))
        if work.bscs_come and small:
            choices.append(("adds a BSC", lambda: self.add_bsc(self._dice.of(every))))
        if work.sites_go and len(sites) > 1:
            choices.append(("removes a site", lambda: self.remove_site(self._dice.of(sites))))
        bscs = [one for site in every for one in self.bscs_of(site)]
        if work.bscs_go and bscs:
            choices.append(("removes a BSC", lambda: self.remove_bsc(self._dice.of(bscs))))
        heirs = [one for site in sites for one in self.bscs_of(site)]
        if work.site_handover and heirs:
            choices.append(("hands a site over", lambda: self.hand_over_site(self._dice.of(heirs))))
        if work.enterprise_handover and sites:
            choices.append(
                ("hands the enterprise over", lambda: self.hand_over_enterprise(self._dice.of(sites)))
            )
        if work.reinstalling and bscs:
            choices.append(("reinstalls a BSC", lambda: self.reinstall(self._dice.of(bscs))))
            choices.append(("restores a BSC", lambda: self.restore(self._dice.of(bscs))))
        lost = [one for one in every if self._heirs(one)]
        if work.takeover and lost and not self._taken_over:
            choices.append(("makes another server take over", lambda: self.take_over(self._dice.of(lost))))
        if work.renaming:
            choices.append(("renames a server", lambda: self.rename(self._dice.of(every))))
        if not choices:
            return None
        name, make = self._dice.of(choices)
        return name, make()

    # -- what is there

    def _open_sites(self) -> list[Guid]:
        found = []
        for site in self._world.ledger.partitions[PEC_PARTITION_ID].live(ObjectType.SITE):
            partition = self._world.ledger.partitions.get(site.identifier)
            open_ = partition is not None and site.identifier not in self._clients.closing
            if (
                open_
                and partition is not None
                and not partition.loose
                and self._machine(self._owner(site.identifier))
            ):
                found.append(site.identifier)
        return found

    def _owner(self, partition_id: Guid) -> Server:
        return self._world.servers[self._world.ledger.partitions[partition_id].giver]

    def _machine(self, server: Server) -> Entry | None:
        """A server's machine object, if it is there."""
        partition = self._world.ledger.partitions.get(server.settings.site_id)
        found = partition.latest.get(server.settings.machine_id) if partition is not None else None
        return found if found is not None and found.content is not None else None

    def _serves(self, server: Server) -> int:
        machine = self._machine(server)
        service = (machine.content or {}).get(Propid.QM_SERVICE) if machine is not None else 0
        return service if isinstance(service, int) else 0

    def bscs_of(self, site_id: Guid) -> list[Server]:
        """The backup controllers of a site, by its machine objects."""
        return [
            one
            for one in self._world.servers
            if one.settings.site_id == site_id and not one.retired and self._serves(one) & Service.BSC
        ]

    # -- beginning

    def found_enterprise(self) -> Task:
        """The first server, with the objects that it needs ([MC-MQDSRP] 4)."""
        world = self._world
        site_id = self._new_site_id()
        name = self._new_name()
        pec = world.add_server(name=name, site_id=site_id, role=Role.PEC, pec_name=name)
        world.ledger.found(PEC_PARTITION_ID, pec.index)
        world.ledger.found(site_id, pec.index)
        world.start(pec)
        yield from self._create(
            ObjectType.ENTERPRISE, PEC_PARTITION_ID, world.guid("enterprise"), "enterprise",
            ((Propid.E_PECNAME, name),), at=pec,
        )  # fmt: skip
        yield from self._create_site(site_id, name, at=pec)
        yield from self._create_machine(pec, Service.PEC, at=pec)

    # -- coming

    def add_site(self, bscs: int = 0) -> Task:
        """A site with its primary controller ([MC-MQDSRP] 4.1)."""
        world = self._world
        site_id = self._new_site_id()
        server = world.add_server(
            name=self._new_name(), site_id=site_id, role=Role.PSC, pec_name=world.pec.name
        )
        world.ledger.found(site_id, server.index)
        yield from self._create_site(site_id, server.name)
        world.start(server)
        yield from self._create_machine(server, Service.PSC, at=server)
        for _ in range(bscs):
            yield from self.add_bsc(site_id)

    def add_bsc(self, site_id: Guid) -> Task:
        """A backup controller ([MC-MQDSRP] 4.2)."""
        world = self._world
        server = world.add_server(
            name=self._new_name(),
            site_id=site_id,
            role=Role.BSC,
            pec_name=world.pec.name,
            psc_name=self._owner(site_id).name,
        )
        before = self._dice.one_in(3)
        if before:
            world.start(server)
        yield from self._create_machine(server, Service.BSC)
        if not before:
            world.start(server)

    # -- going

    def remove_bsc(self, server: Server) -> Task:
        """A backup controller is taken away."""
        yield from self._remove_machine(server)
        yield self._dice.below(20) * 1.0
        self._world.retire(server)

    def _remove_machine(self, server: Server) -> Task:
        """Delete a machine object, first its queues."""
        site_id, machine_id = server.settings.site_id, server.settings.machine_id
        site = self._world.ledger.partitions[site_id]
        path = site.latest[machine_id].path.casefold() if machine_id in site.latest else ""
        while self._machine(server) is not None and not site.dead:
            for queue in site.live(ObjectType.QUEUE):
                if queue.path.casefold().startswith(path + "\\"):
                    yield from self._delete(site_id, queue.identifier)
            yield from self._delete(site_id, machine_id, tries=3)

    def remove_site(self, site_id: Guid) -> Task:
        """A site is emptied and removed."""
        self._clients.closing.add(site_id)
        yield ANSWER_S  # what clients asked for meanwhile
        site = self._world.ledger.partitions[site_id]
        owner = self._owner(site_id)
        while not site.dead:
            for entry in sorted(site.live(), key=lambda one: _order(one, owner.settings.machine_id)):
                yield from self._delete(site_id, entry.identifier, at=owner)
                if entry.object_type is ObjectType.MACHINE:
                    self._retire_machine(entry.identifier, owner)
            yield from self._delete(PEC_PARTITION_ID, site_id, tries=1)
            yield _PAUSE_S
        yield self._dice.below(30) * 1.0
        self._world.retire(owner)

    def _retire_machine(self, machine_id: Guid, owner: Server) -> None:
        for server in self._world.servers:
            if server.settings.machine_id == machine_id and server is not owner:
                self._world.retire(server)

    # -- taking over

    def hand_over_site(self, heir: Server) -> Task:
        """A backup controller becomes the primary one of its site (decision R38)."""
        site_id = heir.settings.site_id
        while not self._serves(heir) & CONTROLLER:
            if heir.retired or self._owner(site_id) is self._world.pec:
                return
            properties: Properties = ((Propid.QM_SERVICE, int(Service.PSC)),)
            yield from self._update(ObjectType.MACHINE, site_id, heir.settings.machine_id, properties)
        yield from self._until_known(site_id, heir)

    def _until_known(self, site_id: Guid, heir: Server) -> Task:
        """Wait until the site's object names its controller."""
        while not self._site_names(site_id, heir):
            yield _PAUSE_S

    def _all_know(self, site_id: Guid) -> bool:
        """Whether every primary controller has the newest object of a site."""
        enterprise = self._world.ledger.partitions[PEC_PARTITION_ID]
        entry = enterprise.latest[site_id]
        owners = [self._owner(one) for one in self._open_sites()]
        return all(one is self._world.pec or one.reached(PEC_PARTITION_ID) >= entry.number for one in owners)

    def _site_names(self, site_id: Guid, server: Server) -> bool:
        site = self._world.ledger.partitions[PEC_PARTITION_ID].latest.get(site_id)
        content = site.content if site is not None else None
        return content is None or str(content.get(Propid.S_PSC)).casefold() == server.name.casefold()

    def hand_over_enterprise(self, site_id: Guid) -> Task:
        """Another site's controller becomes that of the enterprise (decision R38)."""
        heir = self._owner(site_id)
        ledger = self._world.ledger.partitions[PEC_PARTITION_ID]
        yield from self._until_known(site_id, heir)
        while ledger.giver != heir.index:
            enterprise = next(iter(ledger.live(ObjectType.ENTERPRISE)))
            name = str((enterprise.content or {}).get(Propid.E_PECNAME))
            if name.casefold() == heir.name.casefold():
                yield _PAUSE_S  # it has not heard of it yet
                continue
            properties: Properties = ((Propid.E_PECNAME, self._spelt(heir.name)),)
            yield from self._update(
                ObjectType.ENTERPRISE, PEC_PARTITION_ID, enterprise.identifier, properties
            )

    def rename(self, site_id: Guid) -> Task:
        """A primary controller starts anew under another name."""
        server = self._owner(site_id)
        if not self._site_names(site_id, server):
            return
        server.held = True
        if server.is_up:
            server.crash()
        self._world.rename(server, self._new_name())
        yield self._dice.below(30) * 1.0
        server.held = False
        self._world.start(server)
        yield from self._until_known(site_id, server)
        while not self._all_know(site_id):
            yield _PAUSE_S  # two that were renamed, and had not heard of each other, never would

    def reinstall(self, server: Server) -> Task:
        """A backup controller loses its directory, and starts with nothing."""
        server.held = True
        if server.is_up:
            server.crash()
        self._world.reinstall(server)
        yield self._dice.below(30) * 1.0
        server.held = False
        self._world.start(server)

    def restore(self, server: Server) -> Task:
        """A backup controller starts from an old copy of its directory."""
        if not all(map(server.is_whole, server.persisted)):
            return  # what is half synchronized is not backed up
        copy = self._world.backup(server)
        yield self._dice.below(200) * 1.0
        server.held = True
        if server.is_up:
            server.crash()
        self._world.reinstall(server, copy)
        server.held = False
        self._world.start(server)

    def take_over(self, site_id: Guid) -> Task:
        """A primary controller is lost for good; a backup controller is made what it was."""
        self._taken_over = True
        owner = self._owner(site_id)
        heir = self._dice.of(self._heirs(site_id))
        partitions = self._owned_by(owner)
        self._world.retire(owner)
        for partition in partitions:
            partition.loose = True
        yield self._dice.below(120) * 1.0
        for partition in sorted(partitions, key=lambda one: one.partition_id == PEC_PARTITION_ID):
            yield from self._make_authority(heir, partition.partition_id)
            partition.giver = heir.index
            left = copy_of(heir, partition.partition_id)
            kept = {one: int(change.seq_number) for one, change in left.objects.items()}
            self._world.ledger.start_over(partition.partition_id, kept)
        for server in self._world.servers:
            if self._world.ledger.partitions[server.settings.site_id].dead:
                self._world.retire(server)
        yield from self._remove_machine(owner)

    def _owned_by(self, owner: Server) -> list[PartitionLedger]:
        return [one for one in self._world.ledger.partitions.values() if one.giver == owner.index]

    def _heirs(self, site_id: Guid) -> list[Server]:
        """Backup controllers that have all of what their site's controller owns: an operator sees to that."""
        owned = [one.partition_id for one in self._owned_by(self._owner(site_id))]
        return [one for one in self.bscs_of(site_id) if all(map(one.is_whole, owned))]

    def _make_authority(self, heir: Server, partition_id: Guid) -> Task:
        told: list[int] = []
        while not told or told[-1]:
            if heir.is_up:
                number = self._clients.take_number()
                self._world.when_answered(number, told.append)
                heir.step(TakeOver(request=number, partition_id=partition_id))
            yield ANSWER_S
            if not told:
                told.append(1)

    # -- objects

    def _create_site(self, site_id: Guid, psc_name: str, *, at: Server | None = None) -> Task:
        name = f"site {self._sites}"
        yield from self._create(
            ObjectType.SITE, PEC_PARTITION_ID, site_id, name, ((Propid.S_PSC, self._spelt(psc_name)),), at=at
        )

    def _create_machine(self, server: Server, service: Service, *, at: Server | None = None) -> Task:
        settings = server.settings
        properties = machine_properties(settings.site_id, int(service))
        yield from self._create(
            ObjectType.MACHINE, settings.site_id, settings.machine_id, server.name, properties, at=at
        )

    def _create(
        self,
        object_type: ObjectType,
        partition_id: Guid,
        identifier: Guid,
        path_name: str,
        properties: Properties,
        *,
        at: Server | None = None,
    ) -> Task:
        partition = self._world.ledger.partitions[partition_id]
        while identifier not in partition.latest:
            server = at or self._clients.any_server()
            if server is None or not server.is_up:
                yield _PAUSE_S
                continue
            yield from self._ask(
                server,
                Command.CREATE,
                object_type,
                partition_id=partition_id,
                identifier=identifier,
                path_name=path_name,
                properties=properties,
            )

    def _update(
        self, object_type: ObjectType, partition_id: Guid, identifier: Guid, properties: Properties
    ) -> Task:
        server = self._clients.any_server()
        if server is None:
            yield _PAUSE_S
            return
        yield from self._ask(
            server,
            Command.UPDATE,
            object_type,
            partition_id=partition_id,
            identifier=identifier,
            properties=properties,
        )

    def _delete(
        self, partition_id: Guid, identifier: Guid, *, at: Server | None = None, tries: int = 1000
    ) -> Task:
        partition = self._world.ledger.partitions[partition_id]
        for _ in range(tries):
            entry = partition.latest[identifier]
            if entry.content is None:
                return
            server = at if at is not None and at.is_up else self._clients.any_server()
            if server is None:
                yield _PAUSE_S
                continue
            yield from self._ask(
                server, Command.DELETE, entry.object_type, partition_id=partition_id, identifier=identifier
            )

    def _ask(self, server: Server, command: Command, object_type: ObjectType, **what: Any) -> Task:
        """Ask for a change, and wait for the answer, though not for ever."""
        told: list[int] = []
        self._clients.ask(server, command, object_type, then=told.append, **what)
        for _ in range(ANSWER_S):
            if told:
                break
            yield 1.0
        yield _PAUSE_S if told and told[0] else 0.0

    # -- names

    def _new_site_id(self) -> Guid:
        self._sites += 1
        return self._world.guid("site", self._sites)

    def _new_name(self) -> str:
        self._names += 1
        return f"Srv{self._names}"

    def _spelt(self, name: str) -> str:
        """A machine name in another case, at times."""
        return name.upper() if self._dice.one_in(4) else name

    def _say(self, text: str) -> None:
        if self._world.trace is not None:
            self._world.trace(f"administrator: {text}")


def _order(entry: Entry, own_machine: Guid) -> int:
    """In which order a site is emptied: queues, machines, the controller's own machine."""
    if entry.object_type is ObjectType.QUEUE:
        return 0
    return 2 if entry.identifier == own_machine else 1
