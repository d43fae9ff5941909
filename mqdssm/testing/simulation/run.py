"""One run of an enterprise: installation, work with faults, consistency after."""

import traceback
from dataclasses import dataclass, field
from typing import Final

from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult, name_of
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.chaos import Chaos
from mqdssm.testing.simulation.clients import SimulatedClients
from mqdssm.testing.simulation.delivery_checks import DeliveryChecks
from mqdssm.testing.simulation.final_checks import (
    CONTAINER_MAX,
    find_difference,
    list_members,
    measure_largest,
)
from mqdssm.testing.simulation.forbidden_requests import ForbiddenRequests
from mqdssm.testing.simulation.foreign_writers import ForeignWriters
from mqdssm.testing.simulation.hostile_server import HostileServer
from mqdssm.testing.simulation.losses import ANSWER_S, Task
from mqdssm.testing.simulation.network import SimulatedNetwork
from mqdssm.testing.simulation.options import Options, options_of
from mqdssm.testing.simulation.server_list import ServerRegistry
from mqdssm.testing.simulation.stores import CrashingStore, DirectoryStore
from mqdssm.testing.simulation.topology import Administrator
from mqdssm.testing.simulation.trace import Violation
from mqdssm.testing.simulation.world import EngineMaker, StoreMaker, Trace, World, make_real_engine

_FOUNDING_S: Final = 20_000.0
"""Limit for the installation of an enterprise."""
_LOOK_S: Final = 15.0
_QUIET_S: Final = 25.0
"""Longer than the time after its start in which a server answers no change requests (decision R33)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Outcome of a run.

    Attributes:
        seed: the seed.
        violation: the broken property; empty: none.
        simulated_s: simulated time of the run.
        steps: number of simulated actions.
        requests: number of changes that clients asked for.
        counts: counts of other events, by name.
    """

    seed: int
    violation: str = ""
    simulated_s: float = 0.0
    steps: int = 0
    requests: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class Simulation:
    """A run.

    Args:
        options: what kind of run.
        make_engine: makes engines; the real one, or a mutant that the checks have to detect.
        make_store: makes stores; None: those of the options.
        trace: writes a line of the trace, or None.
    """

    def __init__(
        self,
        options: Options,
        *,
        make_engine: EngineMaker = make_real_engine,
        make_store: StoreMaker | None = None,
        trace: Trace | None = None,
    ) -> None:
        usual = DirectoryStore if options.directories else CrashingStore
        self.world = World(options, make_engine, make_store or usual, trace)
        self._clients = SimulatedClients(self.world)
        self._forbidden_requests = ForbiddenRequests(self.world, self._clients)
        self._hostile_server = HostileServer(self.world, ServerRegistry(self.world, self._clients.closing))
        self._administrator = Administrator(self.world, self._clients)
        self._rng = SeededRandom("chaos", options.seed)
        self._chaos = Chaos(self.world, self._rng)
        self._foreign_writers = ForeignWriters(self.world, self._clients)

    def run(self) -> RunReport:
        """Run all phases, and return the report."""
        violation = ""
        try:
            self._install_enterprise()
            self._run_with_faults()
            self._wait_for_consistency()
            self._prove_alive()
            self.world.book.check()
            self._check_answers()
            self._check_bounds()
        except Violation as error:
            violation = str(error)
        except Exception:  # noqa: BLE001  whatever an engine or a store raises is a finding
            violation = traceback.format_exc()
        return self._report(violation)

    # -- phases

    def _install_enterprise(self) -> None:
        """Install the enterprise; in one of four runs the faults begin first."""
        options = self.world.options
        if self._rng.draw_one_in(4):
            self._chaos.begin()
        self._run_task(self._administrator.found_enterprise())
        for _ in range(options.bscs[0]):
            self._run_task(self._administrator.add_bsc(self.world.pec.settings.site_id))
        for bscs in options.bscs[1:]:
            self._run_task(self._administrator.add_site(bscs))

    def _run_task(self, task: Task) -> None:
        self._administrator.begin(task)
        limit = self.world.schedule.now + _FOUNDING_S
        while self._administrator.running:
            self._pass(5.0)
            if self.world.schedule.now > limit:
                raise Violation("the enterprise is not founded in time")

    def _run_with_faults(self) -> None:
        """Let clients and administrator work, with faults."""
        options = self.world.options
        self._chaos.begin()
        self._clients.run()
        self._forbidden_requests.run()
        self._hostile_server.begin()
        self._foreign_writers.begin()
        if options.work.topology_every_s:
            self._administrator.run()
        self._pass(float(options.work.duration_s))

    def _wait_for_consistency(self) -> None:
        """End the faults, and wait until the enterprise is consistent."""
        self._clients.busy = False
        self._administrator.busy = False
        self.world.end_faults()
        for server in self.world.servers:
            if not server.is_kept_down:
                self.world.start(server)
        if (
            self.world.hostile_server is not None
            and self.world.options.fault_options.is_hostile_server_removed
        ):
            self._administrator.begin(self._administrator.remove_hostile_server(self.world.hostile_server))
        self._run_until_whole()

    def _run_until_whole(self) -> None:
        settings = [server.settings for server in self.world.servers]
        limit = (
            self.world.schedule.now
            + 2_000
            + 30
            * max(server_settings.sync_wait_max_s + server_settings.header_s for server_settings in settings)
        )
        difference = "?"
        while difference or self._administrator.running:
            self._pass(_LOOK_S)
            difference = find_difference(self.world)
            if difference:
                self._foreign_writers.synchronize_replicas()
            if self.world.schedule.now > limit:
                raise Violation(f"not whole in time: {difference or 'the administrator is not done'}")
        self._pass(_LOOK_S)
        difference = find_difference(self.world)
        if difference:
            raise Violation(f"whole no more: {difference}")

    def _prove_alive(self) -> None:
        """Check that each server can change partitions.

        The changes have to reach all servers.
        """
        world = self.world
        delivery_checks = DeliveryChecks(world)
        self._pass(_QUIET_S)
        by_number: dict[int, list[int]] = {}
        for server in list_members(world):
            site_id = server.settings.site_id
            for partition_id in {PEC_PARTITION_ID: 0, site_id: 0, self._rng.of(self._list_partitions()): 0}:
                number = self._clients.next_number()
                kind = ObjectType.CN if partition_id == PEC_PARTITION_ID else ObjectType.MACHINE
                by_number[number] = []
                self._clients.create_probe(server, kind, partition_id, by_number[number].append)
        self._pass(delivery_checks.soon_s)
        delivery_checks.check_soon()
        self._pass(2.0 * ANSWER_S - delivery_checks.soon_s)
        for number, statuses in by_number.items():
            if statuses != [Hresult.MQ_OK]:
                answers = [name_of(status) for status in statuses]
                raise Violation(f"nothing goes wrong, but {world.book.requests[number]}: {answers}")
        delivery_checks.check_later()
        self._run_until_whole()

    def _list_partitions(self) -> list[Guid]:
        sites = {server.settings.site_id for server in list_members(self.world)}
        return [partition_id for partition_id in self.world.ledger.partitions if partition_id in sites]

    # -- final checks

    def _check_answers(self) -> None:
        """Check that every client whose server did not stop got an answer."""
        for request in self.world.book.requests.values():
            server = self.world.servers[request.server]
            is_foul = self.world.is_foul(server)
            if request.status is None and server.life == request.life and not is_foul:
                raise Violation(f"{request}: {server.name} never answered")

    def _check_bounds(self) -> None:
        """Check that the collections of all engines are within their limit."""
        for server in self.world.servers:
            size = measure_largest(server.engine)
            if size > CONTAINER_MAX:
                raise Violation(f"{server.name} keeps {size} things in one place")

    def _pass(self, seconds: float) -> None:
        self.world.schedule.run_until(self.world.schedule.now + seconds)

    def _report(self, violation: str) -> RunReport:
        world = self.world
        counts = {f"answer {name_of(status)}": count for status, count in world.counts.answers.items()}
        counts |= {f"note {name}": count for name, count in world.counts.notes.items()}
        counts |= {f"admin {name}": count for name, count in self._administrator.done.items()}
        counts |= {f"state {name}": count for name, count in world.counts.states.items()}
        counts |= {f"sent {kind.name}": count for kind, count in world.network.counts.sent.items()}
        counts |= self._chaos.counts
        counts |= self._hostile_server.counts
        counts |= self._foreign_writers.counts
        counts |= {} if isinstance(world.network, SimulatedNetwork) else world.network.forger.counts
        network = world.network.counts
        counts |= {
            "crashes": world.counts.crashes,
            "cuts": network.cuts,
            "lost": network.lost,
            "doubled": network.doubled,
            "late": network.late,
            "nacked": network.nacked,
            "expired": network.expired,
            "written by services": self._clients.services.written,
            "entries": sum(len(partition.entries) for partition in world.ledger.partitions.values()),
        }
        return RunReport(
            seed=world.options.seed,
            violation=violation,
            simulated_s=world.schedule.now,
            steps=world.schedule.ran,
            requests=len(world.book.requests),
            counts=counts,
        )


def simulate(seed: int, trace: Trace | None = None) -> RunReport:
    """Run the simulation of a seed."""
    return Simulation(options_of(seed), trace=trace).run()
