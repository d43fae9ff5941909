"""What a directory server knows while it runs ([MC-MQDSRP] 3.1.1), and how its handlers speak.

A handler is a generator: it yields operations and gets their results, so that it reads like the specification
and touches nothing itself. Messages, timers and replies are put down with the methods of `ReplicaState`.
"""

from collections import OrderedDict, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from mqdssm.engines.actions import Note, StartTimer, StopTimer
from mqdssm.engines.replication.actions import Action, Reply, Send
from mqdssm.engines.replication.operations import (
    Done,
    ForeignObject,
    Operation,
    Result,
    SaveNeighbor,
    SavePartition,
)
from mqdssm.engines.replication.outcomes import RequestKey, RequestOutcomes
from mqdssm.engines.replication.settings import Settings
from mqdssm.model.guid import Guid
from mqdssm.model.messages import ChangeRequestMessage, DirectoryChange, ReplicationMessage
from mqdssm.model.replication import (
    PEC_PARTITION_ID,
    DirectoryNeighbor,
    DirectoryPartition,
    PurgeState,
)
from mqdssm.model.seqnum import MIN, SequenceNumber

T = TypeVar("T")
R = TypeVar("R")
Job: TypeAlias = Generator[Operation, Result, T]
"""A handler at work: what it yields must be performed, what it is sent is the result."""

REQUEST_TIMEOUT_S: Final = 10
"""How long a change request, its reply and what was signed badly may be under way (3.3.7.1, 3.2.7.6)."""
REQUEST_PRIORITY: Final = 8
AGAIN_TIMER: Final = "again"
"""Name of the timer that has what failed finished (decisions R83, R103)."""
FINISH_S: Final = 15.0
"""How long a change that failed in the middle waits until it is finished: a full directory gets room."""
REPLICATION_TIMEOUT_S: Final = 20 * 60
"""How long all other messages may be under way (3.3.7.2)."""
REPLICATION_PRIORITY: Final = 3


def perform(operation: Operation, expected: type[R]) -> Job[R]:
    """Have an operation performed.

    Raises:
        TypeError: the driver gave the result of another operation.
    """
    result = yield operation
    if not isinstance(result, expected):
        raise TypeError(f"{type(operation).__name__} was answered by {type(result).__name__}")
    return result


def key_of(machine_name: str) -> str:
    """What names of machines are compared by."""
    return machine_name.casefold()


@dataclass(slots=True)
class Partition:
    """A DirectoryPartition ([MC-MQDSRP] 3.1.1.2.3): what is persisted, and what is not.

    Attributes:
        record: the persisted half.
        last: LastSeqNumber. It is persisted when all that its change means has been done.
        pending: PendingChangeCollection, by number.
        known: the highest number that anybody told us of.
        hint: a server that knows more than whom we ask; it is asked next.
        asking: a synchronization request is under way.
        wait_s: how long the next one waits for its reply; 0 is the shortest wait.
        must_ask: what is being done needs a request, once it is persisted.
        tries: how many requests in a row had no reply.
        whole: the replica is as the authority was at `last`; false where it may lack objects.
        gap_at: the last number that came behind others that were left out, if it is applied: only a question
            from there on can find that the replica is whole (decision R109).
        settled: it has been whole since our start, and nobody has known better since.
        doubted: others may know numbers that we do not, though it is settled.
        consulted: how often each BSC of our site was asked for what was ours, by key of name (decision R104).
        asked_from: from which number we asked last.
        purged_at: PreviousPurgedSeqNumber.
        acked_at: the number that we acknowledged last.
        unfinished: a change that may have its number failed in the middle, or what follows from it: the
            partition is recovered before it takes another one (decision R103).
        foreign: objects that another program changed and that got no number, as far as is known (R112).
        claimants: who said that they know more of it while it is ours, by key of name (decision R107).
        predecessor: who handed it over to us, in this life of ours (decision R38).
    """

    record: DirectoryPartition
    last: SequenceNumber = MIN
    pending: list[DirectoryChange] = field(default_factory=list)
    known: SequenceNumber = MIN
    hint: str = ""
    asking: bool = False
    wait_s: float = 0.0
    must_ask: bool = False
    tries: int = 0
    whole: bool = False
    gap_at: SequenceNumber = MIN
    settled: bool = False
    doubted: bool = False
    consulted: dict[str, int] = field(default_factory=dict)
    asked_from: SequenceNumber | None = None
    purged_at: SequenceNumber = MIN
    acked_at: SequenceNumber = MIN
    unfinished: bool = False
    foreign: set[Guid] = field(default_factory=set)
    claimants: set[str] = field(default_factory=set)
    predecessor: str = ""

    @contextmanager
    def numbering(self) -> Iterator[None]:
        """Make a numbered change, and what has to follow it: unfinished, if that ends in the middle."""
        try:
            yield
        except BaseException:  # `GeneratorExit`, where the work is given up (decision R83)
            self.unfinished = True
            raise

    @property
    def id(self) -> Guid:
        """PartitionID."""
        return self.record.partition_id

    @property
    def is_normal(self) -> bool:
        """No full synchronization is under way."""
        return self.record.purge_state is PurgeState.NORMAL

    def change(self, **changes: Any) -> None:
        """Set fields of the persisted half, in memory."""
        self.record = replace(self.record, **changes)
        self.last = changes.get("last", self.last)

    @classmethod
    def of(cls, record: DirectoryPartition) -> "Partition":
        """A partition as it is when the server starts, or hears of it."""
        return cls(record, last=record.last, predecessor=record.predecessor)


@dataclass(slots=True)
class Neighbor:
    """A DirectoryNeighbor ([MC-MQDSRP] 3.1.1.2.4).

    Attributes:
        record: the persisted half.
        machine_id: of a BSC, where it is known.
        available: AvailableChangeCollection.
        header_at: when it was sent a SeqNumberHeader last.
        is_timed: its timer runs.
    """

    record: DirectoryNeighbor
    machine_id: Guid | None = None
    available: list[DirectoryChange] = field(default_factory=list)
    header_at: float | None = None
    is_timed: bool = False

    @property
    def name(self) -> str:
        """MachineName."""
        return self.record.machine_name

    @property
    def timer(self) -> str:
        """Name of its Change Propagation Timer (3.3.2.1)."""
        return f"propagate {'bsc' if self.record.is_bsc else 'psc'} {key_of(self.name)}"


@dataclass(slots=True)
class PendingRequest:
    """A Process Change Request event that waits for its reply ([MC-MQDSRP] 3.3.7.1).

    Attributes:
        client: number of the client's request, where the client is ours; None is ourselves.
        message: what we forwarded, where another server asked.
        identifier: the object that a client's request creates.
        sender: the machine that it came from.
        hop: the machine that it was sent to, which alone may answer.
    """

    client: int | None = None
    message: ChangeRequestMessage | None = None
    identifier: Guid | None = None
    sender: str = ""
    hop: str = ""


@dataclass(slots=True)
class ForeignLook:
    """A look for changes of other programs (decision R112).

    Attributes:
        after: where it goes on; empty: the next one begins.
        seen: version up to which everything that was found has been seen to, once nothing is waiting.
        waiting: changes that were found and not seen to yet.
        told: name -> version of those that got no number and were told.
    """

    after: str = ""
    seen: str = ""
    waiting: deque[ForeignObject] = field(default_factory=deque)
    told: OrderedDict[str, str] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class ReplicaState:
    """A directory server's state, and the actions that the current step has put down.

    Attributes:
        settings: who it is.
        next_request: number of its next change request.
        now: seconds since 1970 by its own clock.
        partitions: DirectoryPartitionCollection.
        pscs: PSCNeighborCollection by key of name.
        bscs: BSCNeighborCollection by key of name.
        psc_name: MyPSCName; empty where this server is no BSC.
        requests: change requests that wait.
        executed: what became of the requests that were executed or answered lately.
        is_quiet: change requests of others are dropped: we have just started (decision R33).
        aliases: by key of a machine's name, the names under which our directory has it (decision R107).
        resent: how many messages with a bad signature were sent again to a machine.
        has_machine: our own machine object is there (decision R34).
        is_demoted: our own machine object says that we are a BSC.
        is_retiring: our site is handed over, and the enterprise does not know yet (decision R38).
        foreign: the look for changes of other programs that is under way.
        actions: what the driver must do.
    """

    settings: Settings
    next_request: int
    now: float = 0.0
    partitions: dict[Guid, Partition] = field(default_factory=dict)
    pscs: dict[str, Neighbor] = field(default_factory=dict)
    bscs: dict[str, Neighbor] = field(default_factory=dict)
    psc_name: str = ""
    requests: dict[RequestKey, PendingRequest] = field(default_factory=dict)
    executed: RequestOutcomes = field(default_factory=RequestOutcomes)
    is_quiet: bool = False
    aliases: dict[str, frozenset[str]] = field(default_factory=dict)
    resent: dict[str, int] = field(default_factory=dict)
    has_machine: bool = False
    is_demoted: bool = False
    is_retiring: bool = False
    foreign: ForeignLook = field(default_factory=ForeignLook)
    actions: list[Action] = field(default_factory=list)

    @property
    def name(self) -> str:
        """QueueManager.MachineName."""
        return self.settings.machine_name

    @property
    def enterprise(self) -> Partition | None:
        """MyEnterprisePartition; None where this server is not the PEC."""
        found = self.partitions.get(PEC_PARTITION_ID)
        return found if found is not None and found.record.owned else None

    @property
    def site(self) -> Partition | None:
        """MySitePartition, where this server is the PSC; else None."""
        found = self.partitions.get(self.settings.site_id)
        return found if found is not None and found.record.owned else None

    @property
    def has_unfinished(self) -> bool:
        """True if a partition has to be recovered before it takes another change."""
        return any(one.unfinished for one in self.partitions.values())

    @property
    def is_bsc(self) -> bool:
        """True if this server is a backup controller, below a PSC."""
        return bool(self.psc_name)

    def is_me(self, machine_name: str) -> bool:
        """Return True if a machine name is ours."""
        return key_of(machine_name) == key_of(self.name)

    @property
    def neighbors(self) -> Iterator[Neighbor]:
        """All neighbours."""
        yield from self.pscs.values()
        yield from self.bscs.values()

    def upstream(self, partition: Partition) -> str:
        """Whom to ask for changes of a partition (3.3.7.3)."""
        return partition.hint or self.psc_name or partition.record.authority_name

    def note(self, what: str, detail: str = "") -> None:
        """Tell the operator."""
        self.actions.append(Note(what=what, detail=detail))

    def warn(self, what: str, detail: str) -> None:
        """Tell the operator of something that has to be mended by people."""
        self.actions.append(Note(what=what, detail=detail, is_warning=True))

    def reply(self, client: int, status: int, identifier: Guid | None = None) -> None:
        """Answer a client."""
        self.actions.append(Reply(request=client, status=status, identifier=identifier))

    def send(self, destination: str, message: ReplicationMessage, *, acks: bool) -> None:
        """Send what may take its time (3.3.7.2 and others)."""
        self._send(destination, message, REPLICATION_TIMEOUT_S, REPLICATION_PRIORITY, acks=acks)

    def send_soon(self, destination: str, message: ReplicationMessage) -> None:
        """Send what somebody waits for (3.3.7.1, 3.2.7.6)."""
        self._send(destination, message, REQUEST_TIMEOUT_S, REQUEST_PRIORITY, acks=True)

    def _send(
        self, destination: str, message: ReplicationMessage, timeout_s: int, priority: int, *, acks: bool
    ) -> None:
        sent = Send(
            destination=destination,
            message=message,
            timeout_s=timeout_s,
            priority=priority,
            ack_requested=acks,
        )
        self.actions.append(sent)

    def resend(self, destination: str, message: ReplicationMessage) -> None:
        """Send a message whose signature was bad once more (3.3.7.9)."""
        self._send(destination, message, REQUEST_TIMEOUT_S, REPLICATION_PRIORITY, acks=True)

    def finish_later(self, partition: Partition) -> None:
        """Take no change of a partition until it is recovered, which is tried soon (decision R103)."""
        partition.unfinished = True
        self.start_timer(AGAIN_TIMER, FINISH_S)

    def start_timer(self, name: str, after_s: float) -> None:
        """Start a timer, or start it anew."""
        self.actions.append(StartTimer(name=name, after_s=after_s))

    def stop_timer(self, name: str) -> None:
        """Stop a timer."""
        self.actions.append(StopTimer(name=name))

    def save(self, partition: Partition, **changes: Any) -> Job[None]:
        """Set fields of a partition's persisted half, and persist it."""
        partition.change(**changes)
        yield from perform(SavePartition(partition=partition.record), Done)

    def save_neighbor(self, neighbor: Neighbor, **changes: Any) -> Job[None]:
        """Set fields of a neighbour's persisted half, and persist it."""
        neighbor.record = replace(neighbor.record, **changes)
        yield from perform(SaveNeighbor(neighbor=neighbor.record), Done)


def authorities(server: ReplicaState) -> list[str]:
    """The machines that partitions name as their authorities, but for us; the PEC is the first one."""
    named = (server.partitions[PEC_PARTITION_ID], *server.partitions.values())
    names = {key_of(one.record.authority_name): one.record.authority_name for one in named}
    return [name for key, name in names.items() if key and not server.is_me(name)]
