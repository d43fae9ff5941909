"""The simulated enterprise: servers, the network between them, and checks."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mqdssm.engines.actions import Note
from mqdssm.engines.replication.actions import Reply, Send
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.guid import Guid
from mqdssm.model.messages import ChangeReplyMessage, ChangeRequestMessage
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryNeighbor
from mqdssm.samples.seeded_random import SeededRandom, compute_guid
from mqdssm.testing.simulation.driven_server import DrivenServer
from mqdssm.testing.simulation.ledger import Ledger
from mqdssm.testing.simulation.message_checks import MessageChecks, is_header
from mqdssm.testing.simulation.network import SimulatedNetwork
from mqdssm.testing.simulation.options import NetworkFaults, Options, ServerFaults
from mqdssm.testing.simulation.peers import WindowsEngine, is_windows, tuning_of
from mqdssm.testing.simulation.queue_managers import QueueManagers
from mqdssm.testing.simulation.requests import RequestBook
from mqdssm.testing.simulation.schedule import Schedule
from mqdssm.testing.simulation.servers import Given, SimulatedEngine, SimulatedServer
from mqdssm.testing.simulation.step_checks import StepChecks
from mqdssm.testing.simulation.stores import SimulatedStore, copy_to
from mqdssm.testing.simulation.trace import describe

Trace: TypeAlias = Callable[[str], None]
EngineMaker: TypeAlias = Callable[[Settings, int], SimulatedEngine]
StoreMaker: TypeAlias = Callable[[], SimulatedStore]


def make_real_engine(settings: Settings, first_request: int) -> SimulatedEngine:
    """Return the engine of the product."""
    return ReplicationEngine(settings, first_request=first_request)


@dataclass(slots=True)
class RunCounts:
    """Counts of events in a run, as proof that the simulation reaches them.

    Attributes:
        crashes: servers that stopped.
        notes: remarks of engines, by text.
        answers: answers to clients, by status.
        states: partitions that reached a purge state, by its name.
    """

    crashes: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy of a server's directory.

    Attributes:
        store: the copy.
        torn: by partition, the change that had been interrupted then; the copy holds its first part.
    """

    store: SimulatedStore
    torn: Mapping[Guid, Given]


def _keep_unchanged(action: Send) -> Send:
    return action


class World:
    """The whole enterprise of a run.

    Args:
        options: what kind of run.
        make_engine: makes a server's engine.
        make_store: makes a server's store.
        trace: writes a line of the trace, or None.

    Attributes:
        headers: time of a server's last announcement to a machine, by its index and the machine's name.
        hostile_server: the server that is hostile; None: there is none, or not yet.
        falsify: replaces a message of its engine.
    """

    def __init__(
        self, options: Options, make_engine: EngineMaker, make_store: StoreMaker, trace: Trace | None
    ) -> None:
        self.options = options
        self.schedule = Schedule()
        self.trace: Trace | None = None if trace is None else self._add_time(trace)
        self.rng = SeededRandom("world", options.seed)
        self.ledger = Ledger()
        self.book = RequestBook(self._is_loose)
        self.counts = RunCounts()
        self.servers: list[SimulatedServer] = []
        self.headers: dict[tuple[int, str], float] = {}
        self.is_faulty = False
        self.hostile_server: SimulatedServer | None = None
        self.falsify: Callable[[Send], Send] = _keep_unchanged
        self.network: SimulatedNetwork | QueueManagers
        if options.directories:
            self.network = QueueManagers(self.schedule, options.seed, self._find_server, self.trace)
        else:
            rng = SeededRandom("network", options.seed)
            self.network = SimulatedNetwork(self.schedule, rng, NetworkFaults(), self.find, self.trace)
        self.watch = StepChecks(
            self.ledger,
            self.book,
            lambda: self.schedule.now,
            self.find,
            self.is_foul,
            has_windows=bool(options.fault_options.windows),
        )
        self._listener = MessageChecks(self.ledger)
        self._make_engine = make_engine
        self._make_store = make_store
        self._waiters: dict[int, Callable[[int], None]] = {}
        self._names: dict[str, SimulatedServer] = {}

    def _add_time(self, trace: Trace) -> Trace:
        return lambda text: trace(f"{self.schedule.now:10.3f} {text}")

    def _is_loose(self, partition_id: Guid) -> bool:
        partition = self.ledger.partitions.get(partition_id)
        return partition is not None and (partition.loose or partition.foul)

    # -- what a hostile server may harm: its own partitions, and the servers of its site

    def is_foul(self, server: SimulatedServer) -> bool:
        """Return True if a server is not checked, because it or its PSC is hostile."""
        if self.hostile_server is None:
            return False
        site = self.ledger.partitions.get(server.settings.site_id)
        return server is self.hostile_server or (site is not None and site.foul)

    def _is_led_on(self, server: SimulatedServer, action: Send) -> bool:
        """Return True for a message that a hostile server caused.

        The server's request was forwarded, or refused.
        """
        match action.message:
            case ChangeReplyMessage():
                return self._is_hostile_name(action.destination)
            case ChangeRequestMessage(requester_name=name):
                return self.hostile_server is not None and name.casefold() != server.name.casefold()
        return False

    def is_foul_neighbor(self, neighbor: DirectoryNeighbor) -> bool:
        """Return True if a neighbour is a hostile server, or near one.

        A server in the site of a hostile PSC counts as well.
        """
        site = self.ledger.partitions.get(neighbor.partition_id)
        if site is not None and site.foul:
            return True
        return self._is_hostile_name(neighbor.machine_name)

    def _is_hostile_name(self, name: str) -> bool:
        return self.hostile_server is not None and name.casefold() == self.hostile_server.name.casefold()

    def _find_server(self, identifier: Guid) -> tuple[int, str, Role] | None:
        """Return index, name and role of the server with a machine identifier.

        None if there is none.
        """
        servers = (server for server in self.servers if server.settings.machine_id == identifier)
        return next(((server.index, server.name, server.settings.role) for server in servers), None)

    # -- servers

    def add_server(
        self, *, name: str, site_id: Guid, role: Role, pec_name: str, psc_name: str = ""
    ) -> SimulatedServer:
        """Install a server without starting it."""
        tuning = tuning_of(self.options, len(self.servers))
        settings = Settings(
            machine_name=name,
            machine_id=self.guid("machine", len(self.servers)),
            site_id=site_id,
            role=role,
            pec_name=pec_name,
            psc_name=psc_name,
            forwarded_wait_s=2 * tuning.request_wait_s,
            foreign_s=float(self.options.fault_options.look_s),
            **{slot: getattr(tuning, slot) for slot in tuning.__slots__},
        )
        index = len(self.servers)
        rng = SeededRandom("server", index, self.options.seed)
        server: SimulatedServer
        if isinstance(self.network, QueueManagers):
            server = DrivenServer(
                index, settings, self._make_store(), world=self, rng=rng, network=self.network
            )
        else:
            server = SimulatedServer(index, settings, self._make_store(), world=self, rng=rng)
        self.servers.append(server)
        self._names[name.casefold()] = server
        return server

    def guid(self, *names: object) -> Guid:
        """Return a GUID of this run, derived from names."""
        return Guid.of(compute_guid(self.options.seed, *names))

    def find(self, name: str) -> SimulatedServer | None:
        """Return the server that currently has a machine name; None if there is none."""
        server = self._names.get(name.casefold())
        return None if server is None or server.retired else server

    def rename(self, server: SimulatedServer, name: str) -> None:
        """Rename a server that is down."""
        self._names.pop(server.name.casefold(), None)
        self._names[name.casefold()] = server
        server.rename(name)

    def backup(self, server: SimulatedServer) -> Backup:
        """Return a copy of a server's directory."""
        copy = self._make_store()
        copy_to(server.store, copy)
        return Backup(copy, dict(server.torn))

    def reinstall(self, server: SimulatedServer, backup: Backup | None = None) -> None:
        """Make a server that is down a BSC with an empty directory, or a backup."""
        owner = self.owner(server.settings.site_id)
        psc_name = "" if owner is None else owner.name
        server.settings = replace(server.settings, role=Role.BSC, pec_name=self.pec.name, psc_name=psc_name)
        self.lose(server, backup)

    def lose(self, server: SimulatedServer, backup: Backup | None = None) -> None:
        """Replace the directory of a server that is down by a backup or an empty one."""
        if backup is None:
            server.lose(self._make_store())
        else:
            server.lose(backup.store, backup.torn)

    def start(self, server: SimulatedServer) -> None:
        """Start a server if it is down, and retry the messages that wait for it."""
        if server.is_up or server.retired:
            return
        server.faults = self.options.servers if self.is_faulty else ServerFaults()
        server.start()
        self.network.retry()

    def retire(self, server: SimulatedServer) -> None:
        """Stop a server for good."""
        if server.is_up:
            server.crash()
        server.retired = True

    # -- what servers call

    def make_engine(self, settings: Settings, first_request: int) -> SimulatedEngine:
        """Return a new engine for a server."""
        engine = self._make_engine(settings, first_request)
        index = next(
            server.index for server in self.servers if server.settings.machine_id == settings.machine_id
        )
        return WindowsEngine(engine) if is_windows(self.options, index) else engine

    def sent(self, server: SimulatedServer, action: Send) -> Send:
        """Check and send a message of a server.

        Returns the message as it was sent, perhaps falsified.
        """
        if self.is_foul(server):
            action = self.falsify(action) if server is self.hostile_server else action
        elif not self._is_led_on(server, action):
            self._listener.sent(server, action)
        if is_header(action.message):
            self.headers[server.index, action.destination.casefold()] = self.schedule.now
        self.network.send(server, action)
        return action

    def performed(self, server: SimulatedServer, operation: Operation, result: Result) -> None:
        """Check an operation that a store performed."""
        self.watch.performed(server, operation, result)

    def torn(self, server: SimulatedServer, operation: Operation) -> None:
        """Note an operation that a crash interrupts."""
        self.watch.torn(server, operation)

    def replied(self, server: SimulatedServer, reply: Reply) -> None:
        """Count and check an answer to a client, and pass it to the waiting call-back."""
        self.counts.answers[reply.status] += 1
        if self.trace is not None:
            self.trace(f"{server.name}: answers {describe(reply)}")
        if reply.request in self.book.requests and not self.is_foul(server):
            self.book.record_answer(reply.request, reply.status, self.schedule.now)
        waiter = self._waiters.pop(reply.request, None)
        if waiter is not None:
            waiter(reply.status)

    def noted(self, server: SimulatedServer, note: Note) -> None:
        """Count a note of an engine."""
        self.counts.notes[note.what] += 1
        if self.trace is not None:
            self.trace(f"{server.name}: notes {note.what}: {note.detail}")

    def crashed(self, server: SimulatedServer) -> None:
        """Count a crash, and schedule the next start of the server."""
        self.counts.crashes += 1
        down_ms = self.rng.draw_between(100, 100 + 1000 * self.options.servers.down_max_s)
        self.schedule.after(down_ms / 1000, lambda: None if server.is_kept_down else self.start(server))
        for partition in server.persisted.values():
            name = partition.purge_state.name
            self.counts.states[name] += 1

    # -- for clients and administrators

    def on_answer_of(self, request: int, waiter: Callable[[int], None]) -> None:
        """Register a call-back for the status of a request."""
        self._waiters[request] = waiter

    def owner(self, partition_id: Guid) -> SimulatedServer | None:
        """Return the server that may assign a partition's numbers.

        None if there is no such partition.
        """
        partition = self.ledger.partitions.get(partition_id)
        return None if partition is None else self.servers[partition.giver]

    @property
    def pec(self) -> SimulatedServer:
        """Authority of the enterprise partition."""
        return self.servers[self.ledger.partitions[PEC_PARTITION_ID].giver]

    def begin_faults(self) -> None:
        """Begin the faults of network and servers."""
        self.is_faulty = True
        self.network.faults = self.options.network
        for server in self.servers:
            server.faults = self.options.servers

    def end_faults(self) -> None:
        """End all faults."""
        self.is_faulty = False
        self.network.calm()
        for server in self.servers:
            server.calm()
