"""The administrator of sites and controllers.

The administrator adds, removes, renames and replaces them.

Tasks are generators that yield the seconds to wait. They repeat a request until its result is in the ledger:
answers of servers are not enough. Requests about roles go to the owner itself, which accepts them from no
other server (decision R107).
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.clients import SimulatedClients, build_machine_properties
from mqdssm.testing.simulation.ledger import CONTROLLER, NumberedChange
from mqdssm.testing.simulation.losses import ANSWER_S, PAUSE_S, Losses, Task
from mqdssm.testing.simulation.server_list import ServerRegistry
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

_SERVERS_MAX: Final = 45
_SITES_MAX: Final = 8
_CLAIM_S: Final = 300
"""Time that a renamed controller has to announce its name before the administrator enters it."""
_TRIES: Final = 1000
_MACHINE_TRIES: Final = 20
"""Attempts to delete a machine of a removed site in one round: a new queue may prevent the deletion."""
_REFUSALS_MAX: Final = 20
"""Refusals of a PEC to hand the enterprise over before the administrator gives up (decision R221)."""


@dataclass(frozen=True, slots=True)
class AdministratorTask:
    """Task that the administrator may begin now.

    Attributes:
        name: what it is.
        make: begins it.
        site_id: the site that it is about.
        server: the server that it is about.
        naming: it gives a role or a name to another machine: one such thing at a time (decision R62).
        alone: nothing else goes on meanwhile.
    """

    name: str
    make: Callable[[], Task]
    site_id: Guid | None = None
    server: SimulatedServer | None = None
    naming: bool = False
    alone: bool = False

    def may_bear(self, other: "AdministratorTask") -> bool:
        """Return True if the task may run together with another one."""
        if self.alone or other.alone or (self.naming and other.naming):
            return False
        comes = {self.name, other.name} & {"adds a site", "adds a BSC"}
        return bool(comes) or self.site_id != other.site_id


class Administrator:
    """Administrator who changes the topology by tasks, one or a few at a time.

    Args:
        world: the enterprise.
        clients: send the requests for changes.

    Attributes:
        running: number of tasks that are not done yet.
    """

    def __init__(self, world: World, clients: SimulatedClients) -> None:
        self._world = world
        self._clients = clients
        self._rng = SeededRandom("administrator", world.options.seed)
        self._registry = ServerRegistry(world, clients.closing)
        self._losses = Losses(
            world,
            clients,
            self._registry,
            self._rng,
            remove_machine=self._remove_machine,
            create_machine=lambda server, service: self._create_machine(server, service, at=server),
        )
        self._under_way: list[AdministratorTask] = []
        self._sites = 0
        self._names = 0
        self._taken_over = False
        self.running = 0
        self.busy = True
        self.done: Counter[str] = Counter()

    # -- tasks

    def begin(self, task: Task, then: Callable[[], None] | None = None) -> None:
        """Run a task in simulated time, then a call-back."""
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
        """Begin a random task unless enough are running; repeat that while `busy` is set."""
        if not self.busy:
            return
        if self.running < self._world.options.work.together:
            chosen = self._choose()
            if chosen is not None:
                self._count(chosen.name)
                if self._under_way:
                    self._count("does two things together")
                self._under_way.append(chosen)
                self.begin(chosen.make(), lambda: self._under_way.remove(chosen))
        every = self._world.options.work.topology_every_s
        self._world.schedule.after(self._rng.draw_between(500, 1500) / 1000 * every, self.run)

    def _count(self, name: str) -> None:
        self.done[name] += 1
        self._say(name)

    def _choose(self) -> AdministratorTask | None:
        sites = [
            site_id for site_id in self._registry.open_sites() if site_id != self._world.pec.settings.site_id
        ]
        every = [*sites, self._world.pec.settings.site_id]
        choices = [*self._list_site_tasks(sites, every), *self._list_successions(sites, every)]
        if not choices:
            return None
        chosen = self._rng.of(choices)()
        return chosen if all(map(chosen.may_bear, self._under_way)) else None

    def _list_site_tasks(
        self, sites: list[Guid], every: list[Guid]
    ) -> Iterator[Callable[[], AdministratorTask]]:
        work, registry, rng = self._world.options.work, self._registry, self._rng
        small = len(self._world.servers) < _SERVERS_MAX
        if work.sites_come and small and len(every) < _SITES_MAX:
            yield lambda: AdministratorTask("adds a site", self.add_site)
        if work.bscs_come and small:
            yield lambda: self._make_site_task("adds a BSC", self.add_bsc, every)
        if work.sites_go and len(sites) > 1:
            yield lambda: self._make_site_task("removes a site", self.remove_site, sites)
        bscs = [bsc for site in every for bsc in registry.bscs_of(site)]
        if work.bscs_go and bscs:
            yield lambda: _make_server_task("removes a BSC", self.remove_bsc, rng.of(bscs))

    def _list_successions(
        self, sites: list[Guid], every: list[Guid]
    ) -> Iterator[Callable[[], AdministratorTask]]:
        work, registry, rng, losses = self._world.options.work, self._registry, self._rng, self._losses
        bscs = [bsc for site in every for bsc in registry.bscs_of(site)]
        heirs = [bsc for site in sites for bsc in registry.bscs_of(site)]
        if work.site_handover and heirs:
            yield lambda: _make_server_task(
                "hands a site over", self.hand_over_site, rng.of(heirs), naming=True
            )
        if work.enterprise_handover and sites:
            yield lambda: self._make_site_task(
                "hands the enterprise over", self.hand_over_enterprise, sites, naming=True
            )
        if work.reinstalling and bscs:
            yield lambda: _make_server_task("reinstalls a BSC", losses.reinstall, rng.of(bscs))
            yield lambda: _make_server_task("restores a BSC", losses.restore, rng.of(bscs))
        lost = [site for site in every if losses.list_heirs(site)]
        if work.takeover and lost and not self._taken_over:
            yield lambda: self._make_site_task(
                "makes another server take over", self._take_over, lost, alone=True
            )
        if work.renaming:
            yield lambda: self._make_site_task("renames a server", self.rename, every, naming=True)
        known_sites = [site for site in every if losses.are_known(site)]
        if work.primary_restoring and known_sites:
            yield lambda: self._make_site_task(
                "restores a PSC", losses.restore_primary, known_sites, alone=True
            )
        if work.primary_reinstalling and known_sites:
            yield lambda: self._make_site_task("reinstalls a PSC", self._replace, known_sites, alone=True)

    def _make_site_task(
        self,
        name: str,
        make: Callable[[Guid], Task],
        sites: list[Guid],
        *,
        naming: bool = False,
        alone: bool = False,
    ) -> AdministratorTask:
        site_id = self._rng.of(sites)
        return AdministratorTask(name, lambda: make(site_id), site_id, naming=naming, alone=alone)

    def _replace(self, site_id: Guid) -> Task:
        """Replace a PSC that loses its directory (decision R104).

        A BSC replaces it, if one can take over.
        """
        heir = self._losses.find_furthest(site_id)
        lost = self._registry.owner(site_id)
        if heir is None or self._taken_over or lost is self._world.pec:
            yield from self._losses.reinstall_primary(site_id)
        else:
            self._count("has a BSC take over from a PSC that lost its directory")
            yield from self._take_over(site_id, heir)

    def _take_over(self, site_id: Guid, heir: SimulatedServer | None = None) -> Task:
        """Let a BSC take over a site (decision R86).

        The objects of the topology are repaired.
        """
        self._taken_over = True
        yield from self._losses.take_over(site_id, heir)
        heir = self._registry.owner(site_id)
        yield from self._create_machine(heir, Service.PSC, at=heir)
        yield from self._name_controller(site_id, heir)
        for site in self._losses.find_restored_sites():
            self._say("a site is back, and is removed again")
            yield from self._losses.restart_controller(site)
            yield from self.remove_site(site.partition_id)

    # -- first server

    def found_enterprise(self) -> Task:
        """Install the first server, with the objects that it needs ([MC-MQDSRP] 4)."""
        world = self._world
        site_id = self._make_site_id()
        name = self._make_name()
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

    # -- adding

    def add_site(self, bscs: int = 0) -> Task:
        """Add a site with its primary controller ([MC-MQDSRP] 4.1)."""
        world = self._world
        site_id = self._make_site_id()
        server = world.add_server(
            name=self._make_name(), site_id=site_id, role=Role.PSC, pec_name=world.pec.name
        )
        world.ledger.found(site_id, server.index)
        yield from self._create_site(site_id, server.name)
        world.start(server)
        yield from self._create_machine(server, Service.PSC, at=server)
        for _ in range(bscs):
            yield from self.add_bsc(site_id)

    def add_bsc(self, site_id: Guid) -> Task:
        """Add a backup controller to a site ([MC-MQDSRP] 4.2)."""
        world = self._world
        server = world.add_server(
            name=self._make_name(),
            site_id=site_id,
            role=Role.BSC,
            pec_name=world.pec.name,
            psc_name=self._registry.owner(site_id).name,
        )
        before = self._rng.draw_one_in(3)
        if before:
            world.start(server)
        yield from self._create_machine(server, Service.BSC)
        if world.ledger.partitions[site_id].dead:
            world.retire(server)  # the site was removed meanwhile
        elif not before:
            world.start(server)

    # -- removing

    def remove_bsc(self, server: SimulatedServer) -> Task:
        """Remove a backup controller."""
        yield from self._remove_machine(server)
        yield self._rng.draw_below(20) * 1.0
        self._world.retire(server)
        self._losses.name_pec()  # a new BSC may know it alone, as its PSC before a handover (decision R118)

    def _remove_machine(self, server: SimulatedServer) -> Task:
        """Delete the queues of a server's machine, then its machine object."""
        site_id, machine_id = server.settings.site_id, server.settings.machine_id
        site = self._world.ledger.partitions[site_id]
        path = site.latest[machine_id].path.casefold() if machine_id in site.latest else ""
        while self._registry.machine(server) is not None and not site.dead:
            for queue in site.live(ObjectType.QUEUE):
                if queue.path.casefold().startswith(path + "\\"):
                    yield from self._delete(site_id, queue.identifier)
            yield from self._delete(site_id, machine_id, tries=3)

    def remove_site(self, site_id: Guid) -> Task:
        """Delete all objects of a site, then the site, and retire its controllers."""
        self._clients.closing.add(site_id)
        yield ANSWER_S  # for requests of clients that are under way
        site = self._world.ledger.partitions[site_id]
        while not site.dead:
            owner = self._registry.owner(site_id)  # a handover that was under way may have ended
            for entry in sorted(site.live(), key=lambda item: _rank_entry(item, owner.settings.machine_id)):
                # services continue: a machine with a new queue has to wait for the next round
                machine = entry.object_type is ObjectType.MACHINE
                tries = _MACHINE_TRIES if machine else _TRIES
                yield from self._delete(site_id, entry.identifier, at=owner, tries=tries)
                if machine and entry.identifier not in {other.identifier for other in site.live()}:
                    self._retire_machine(entry.identifier, self._registry.owner(site_id))
            yield from self._delete(PEC_PARTITION_ID, site_id, tries=1)
            yield PAUSE_S
        owner = self._registry.owner(site_id)
        yield self._rng.draw_below(30) * 1.0
        self._world.retire(owner)
        self._losses.name_pec()  # a new server may still know this one as its PEC alone (decision R118)

    def _retire_machine(self, machine_id: Guid, owner: SimulatedServer) -> None:
        for server in self._world.servers:
            if server.settings.machine_id == machine_id and server is not owner:
                self._world.retire(server)

    def remove_hostile_server(self, hostile_server: SimulatedServer) -> Task:
        """Retire a hostile server: remove its machine, or its name in its site's object."""
        self._count("removes a hostile server")
        self._world.retire(hostile_server)
        site_id = hostile_server.settings.site_id
        site = self._world.ledger.partitions[site_id]
        if not site.foul:
            yield from self._remove_machine(hostile_server)
            return
        enterprise = self._world.ledger.partitions[PEC_PARTITION_ID]
        while not site.dead and (enterprise.latest[site_id].content or {}).get(Propid.S_PSC):
            yield from self._update(ObjectType.SITE, PEC_PARTITION_ID, site_id, ((Propid.S_PSC, ""),))

    # -- taking over

    def hand_over_site(self, heir: SimulatedServer) -> Task:
        """Make a backup controller the primary one of its site (decision R38).

        Where a server is hostile, no server becomes it whose copy was never whole: it would ask the site's
        backup controllers for what it may have lost, and believe them (decisions R104, R120).
        """
        site_id = heir.settings.site_id
        while not self._registry.serves(heir) & CONTROLLER:
            if heir.retired or self._registry.owner(site_id) is self._world.pec:
                return
            if self._world.hostile_server is not None and not heir.was_whole(site_id):
                return
            properties: Properties = ((Propid.QM_SERVICE, int(Service.PSC)),)
            yield from self._update(ObjectType.MACHINE, site_id, heir.settings.machine_id, properties)
        yield from self._wait_for_controller(site_id, heir)

    def _wait_for_controller(self, site_id: Guid, heir: SimulatedServer) -> Task:
        """Wait until the site's object names its controller."""
        while not self._registry.site_names(site_id, heir):
            yield PAUSE_S

    def _name_controller(self, site_id: Guid, heir: SimulatedServer) -> Task:
        """Write a controller's name to its site's object (decisions R86, R107).

        The PEC would not accept it.
        """
        while not self._registry.site_names(site_id, heir):
            properties: Properties = ((Propid.S_PSC, self._vary_case(heir.name)),)
            yield from self._update(ObjectType.SITE, PEC_PARTITION_ID, site_id, properties)

    def hand_over_enterprise(self, site_id: Guid) -> Task:
        """Make another site's controller the PEC (decision R38).

        Where a server is hostile, no server becomes it whose copy was never whole: it would ask the other
        sites' controllers for what it may have lost, and believe them (decisions R104, R120). No server
        becomes it that follows another PEC, or has nothing of this one yet: nobody would be the PEC. A PEC
        refuses one that is far behind, or whose acknowledgement was lost, until its next header (R221).
        """
        refusals = 0
        ledger = self._world.ledger.partitions[PEC_PARTITION_ID]
        while not self._registry.site_names(site_id, heir := self._registry.owner(site_id)):
            yield PAUSE_S  # a handover of the site may be under way: its heir counts
        while ledger.giver != heir.index:
            enterprise = next(iter(ledger.live(ObjectType.ENTERPRISE)))
            name = str((enterprise.content or {}).get(Propid.E_PECNAME))
            if name.casefold() == heir.name.casefold():
                yield PAUSE_S  # the new PEC has not received the change yet
                continue
            if self._world.hostile_server is not None and not heir.was_whole(PEC_PARTITION_ID):
                return
            if not self._losses.has_followed(heir):
                return
            properties: Properties = ((Propid.E_PECNAME, self._vary_case(heir.name)),)
            status = yield from self._update(
                ObjectType.ENTERPRISE, PEC_PARTITION_ID, enterprise.identifier, properties
            )
            refusals += status == Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
            if refusals > _REFUSALS_MAX:
                return

    def rename(self, site_id: Guid) -> Task:
        """Restart a primary controller under another name."""
        server = self._registry.owner(site_id)
        if not self._registry.site_names(site_id, server):
            return
        server.is_kept_down = True
        if server.is_up:
            server.crash()
        self._world.rename(server, self._make_name())
        yield self._rng.draw_below(30) * 1.0
        server.is_kept_down = False
        self._world.start(server)
        # if no server has its machine object yet, which identifies it, operators must tell them (R107)
        self._world.schedule.after(_CLAIM_S, self._losses.name_pec)
        for _ in range(_CLAIM_S):
            if self._registry.site_names(site_id, server):
                break
            yield 1.0
        else:
            yield from self._name_controller(site_id, server)
        while not self._registry.all_know(site_id):
            yield PAUSE_S  # two renamed controllers that do not know the other's name would never learn it

    # -- objects

    def _create_site(self, site_id: Guid, psc_name: str, *, at: SimulatedServer | None = None) -> Task:
        name = f"site {self._sites}"
        yield from self._create(
            ObjectType.SITE,
            PEC_PARTITION_ID,
            site_id,
            name,
            ((Propid.S_PSC, self._vary_case(psc_name)),),
            at=at,
        )

    def _create_machine(
        self, server: SimulatedServer, service: Service, *, at: SimulatedServer | None = None
    ) -> Task:
        settings = server.settings
        properties = build_machine_properties(settings.site_id, int(service))
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
        at: SimulatedServer | None = None,
    ) -> Task:
        partition = self._world.ledger.partitions[partition_id]
        while identifier not in partition.latest and not partition.dead:
            server = at or self._registry.owner(partition_id)
            if not server.is_up:
                yield PAUSE_S
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
    ) -> Generator[float, None, int | None]:
        server = self._registry.owner(partition_id)
        if not server.is_up:
            yield PAUSE_S
            return None
        return (
            yield from self._ask(
                server,
                Command.UPDATE,
                object_type,
                partition_id=partition_id,
                identifier=identifier,
                properties=properties,
            )
        )

    def _delete(
        self, partition_id: Guid, identifier: Guid, *, at: SimulatedServer | None = None, tries: int = _TRIES
    ) -> Task:
        partition = self._world.ledger.partitions[partition_id]
        for _ in range(tries):
            entry = partition.latest.get(identifier)
            if entry is None or entry.content is None:
                return
            server = at if at is not None and at.is_up else self._registry.owner(partition_id)
            if not server.is_up:
                yield PAUSE_S
                continue
            yield from self._ask(
                server, Command.DELETE, entry.object_type, partition_id=partition_id, identifier=identifier
            )

    def _ask(
        self, server: SimulatedServer, command: Command, object_type: ObjectType, **arguments: Any
    ) -> Generator[float, None, int | None]:
        """Send a request for a change, and wait for the answer, up to a limit.

        Returns:
            The status; None without an answer.
        """
        statuses: list[int] = []
        self._clients.ask(server, command, object_type, then=statuses.append, **arguments)
        for _ in range(ANSWER_S):
            if statuses:
                break
            yield 1.0
        yield PAUSE_S if statuses and statuses[0] else 0.0
        return statuses[0] if statuses else None

    # -- names

    def _make_site_id(self) -> Guid:
        self._sites += 1
        return self._world.guid("site", self._sites)

    def _make_name(self) -> str:
        self._names += 1
        return f"Srv{self._names}"

    def _vary_case(self, name: str) -> str:
        """Return a machine name, sometimes in capitals."""
        return name.upper() if self._rng.draw_one_in(4) else name

    def _say(self, text: str) -> None:
        if self._world.trace is not None:
            self._world.trace(f"administrator: {text}")


def _make_server_task(
    name: str, make: Callable[[SimulatedServer], Task], server: SimulatedServer, *, naming: bool = False
) -> AdministratorTask:
    return AdministratorTask(name, lambda: make(server), server.settings.site_id, server, naming=naming)


def _rank_entry(entry: NumberedChange, own_machine: Guid) -> int:
    """Return the order of deletion in a site.

    Queues come first, then machines, then the controller's own machine.
    """
    if entry.object_type is ObjectType.QUEUE:
        return 0
    return 2 if entry.identifier == own_machine else 1
