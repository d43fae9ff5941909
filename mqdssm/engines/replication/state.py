"""State of a directory server at run time ([MC-MQDSRP] 3.1.1).

The state also has output methods for the server's handlers.

Handlers are jobs (`mqdssm.engines.replication.jobs`). They record messages, timers and replies with methods
of `ReplicaState`.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from mqdssm.engines.actions import Note, StartTimer, StopTimer
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import Action, Reply, Send
from mqdssm.engines.replication.jobs import Job, perform
from mqdssm.engines.replication.outcomes import RequestKey, RequestOutcomes
from mqdssm.engines.replication.settings import Settings
from mqdssm.engines.replication.timers import TIMERS_CACHED, Timer, TimerPurpose
from mqdssm.model.frozen_records import make_replacer
from mqdssm.model.guid import Guid
from mqdssm.model.messages import ChangeRequestMessage, DirectoryChange, ReplicationMessage
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryNeighbor, DirectoryPartition, PurgeState
from mqdssm.model.seqnum import MIN, SequenceNumber

REQUEST_TIMEOUT_S: Final = 10
"""Lifetime of a change request, its reply, and a message sent again (3.3.7.1, 3.2.7.6)."""
REQUEST_PRIORITY: Final = 8
FINISH_S: Final = 15.0
"""Delay before a change that failed halfway is completed: a full directory gets room meanwhile."""
REPLICATION_TIMEOUT_S: Final = 20 * 60
"""Lifetime of all other messages (3.3.7.2)."""
REPLICATION_PRIORITY: Final = 3

key_of: Final = str.casefold
"""Returns the key by which names of machines are compared."""
_replaced: Final = make_replacer(DirectoryPartition)


@dataclass(slots=True)
class Partition:
    """A DirectoryPartition with its persisted and its other state.

    See [MC-MQDSRP] 3.1.1.2.3.

    Attributes:
        record: the persisted part.
        last: LastSeqNumber. It is persisted after all effects of its change.
        pending: PendingChangeCollection, by number.
        known_number: the highest number that any server reported.
        reporters: trusted servers that reported a number above ours, and that number, by key of name (R166).
        is_first_source_removed: True if that server was removed from the enterprise since (R167).
        hint: a server with more changes than the usual source; it is asked next.
        is_asking: True while a synchronization request is under way.
        wait_s: how long the next request waits for its reply at least; doubled at each timeout.
        must_ask: True if the current work needs a request once it is persisted.
        tries: number of requests in a row without a reply.
        is_begun_anew: True if the full synchronization begins for the second time: it ends with any source,
            or a server that reports numbers and does not send them would hold it up for ever (R166).
        known_before: the highest number known when the full synchronization began (decision R202).
        purged_elsewhere: purged number of a source, if a full synchronization is to begin with its first
            reply; else None (decision R191).
        is_whole: True if the replica is as the authority was at `last`; False if it may lack objects.
        gap_at: the last number that was applied although numbers before it are missing: only a request from
            this number on can show that the replica is whole (decision R109).
        is_settled: True if it has been whole since our start, and no server has reported a higher number.
        is_doubted: True if others may have numbers that we lack, although it is settled.
        consulted: how often each BSC of our site, and the PEC, was asked for our former changes, by key of
            name (R104, R170).
        asked_from: the number from which we asked last.
        purged_at: PreviousPurgedSeqNumber.
        acked_at: the number that we acknowledged last.
        is_unfinished: True if a change that may have its number, or its effects, failed halfway: the
            partition is recovered before it accepts another change (decision R103).
        foreign: known objects that another program changed and that got no number (R112).
        claimants: servers that claimed a higher number while it was ours, by key of name (decision R107).
        predecessor: the server that handed it over to us (decision R38).
        id: PartitionID of the record.
    """

    record: DirectoryPartition
    last: SequenceNumber = MIN
    pending: list[DirectoryChange] = field(default_factory=list)
    known_number: SequenceNumber = MIN
    reporters: dict[str, tuple[str, SequenceNumber]] = field(default_factory=dict)
    is_first_source_removed: bool = False
    hint: str = ""
    is_asking: bool = False
    wait_s: float = 0.0
    must_ask: bool = False
    tries: int = 0
    is_begun_anew: bool = False
    known_before: SequenceNumber = MIN
    purged_elsewhere: SequenceNumber | None = None
    is_whole: bool = False
    gap_at: SequenceNumber = MIN
    is_settled: bool = False
    is_doubted: bool = False
    consulted: dict[str, int] = field(default_factory=dict)
    asked_from: SequenceNumber | None = None
    purged_at: SequenceNumber = MIN
    acked_at: SequenceNumber = MIN
    is_unfinished: bool = False
    foreign: set[Guid] = field(default_factory=set)
    claimants: set[str] = field(default_factory=set)
    predecessor: str = ""
    id: Guid = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.record.partition_id

    @contextmanager
    def guard_numbering(self) -> Iterator[None]:
        """Mark the partition as unfinished if the block ends with an exception.

        The block writes a numbered change and its effects.
        """
        try:
            yield
        except BaseException:  # `GeneratorExit` if the work is given up (decision R83)
            self.is_unfinished = True
            raise

    @property
    def is_normal(self) -> bool:
        """True if no full synchronization is under way."""
        return self.record.purge_state is PurgeState.NORMAL

    @property
    def first_source(self) -> str:
        """Server that a full synchronization began with, or is to (R166, R206)."""
        return self.record.first_source

    @property
    def had_before(self) -> SequenceNumber:
        """LastSeqNumber before a full synchronization under way (R197, R206)."""
        return self.record.had_before

    @property
    def takes_replies(self) -> bool:
        """True if no step of a full synchronization has to be done before the next reply."""
        return self.record.purge_state in {PurgeState.NORMAL, PurgeState.SYNC0}

    def change(self, **changes: Any) -> None:
        """Set fields of the persisted part, in memory."""
        self.record = _replaced(self.record, **changes)
        self.last = changes.get("last", self.last)

    @classmethod
    def of(cls, record: DirectoryPartition) -> "Partition":
        """Return a partition in the state of a new one or after the start."""
        return cls(record, last=record.last, predecessor=record.predecessor)


@dataclass(slots=True)
class Neighbor:
    """A DirectoryNeighbor ([MC-MQDSRP] 3.1.1.2.4).

    Attributes:
        record: the persisted part.
        machine_id: identifier of a BSC, if it is known.
        available: AvailableChangeCollection.
        header_at: time at which it was last sent a SeqNumberHeader.
        reported_pec: of a PSC: the highest number of our enterprise partition that it has reported (R221).
    """

    record: DirectoryNeighbor
    machine_id: Guid | None = None
    available: list[DirectoryChange] = field(default_factory=list)
    header_at: float | None = None
    reported_pec: SequenceNumber = MIN

    @property
    def name(self) -> str:
        """MachineName of the record."""
        return self.record.machine_name

    @property
    def timer(self) -> Timer:
        """Change Propagation Timer (3.3.2.1)."""
        return _make_propagation_timer(self.record.machine_name, self.record.is_bsc)


@lru_cache(maxsize=TIMERS_CACHED)
def _make_propagation_timer(machine_name: str, is_bsc: bool) -> Timer:
    return Timer(TimerPurpose.PROPAGATE, f"{'bsc' if is_bsc else 'psc'} {key_of(machine_name)}")


@dataclass(slots=True)
class PendingRequest:
    """A Process Change Request event that waits for its reply ([MC-MQDSRP] 3.3.7.1).

    Attributes:
        client: number of the request of our client; None for our own requests.
        message: the forwarded message, if another server asked.
        identifier: the object that a client's request creates.
        sender: the machine from which the message came.
        hop: the machine to which it was sent; only this one may answer.
    """

    client: int | None = None
    message: ChangeRequestMessage | None = None
    identifier: Guid | None = None
    sender: str = ""
    hop: str = ""


@dataclass(slots=True)
class ForeignLook:
    """A search for changes of other programs (decision R112).

    Attributes:
        after: where the search continues; empty before a new search.
        seen: version up to which all changes were handled when the search began.
        newest: version up to which all changes are handled once `waiting` is empty and none was given up.
        waiting: changes that were found and are not handled yet.
        handling: name of the change that is handled, or whose work was given up; else empty (decision R165).
        given_up: names of changes whose work was given up, and not done since; the newest is last.
        must_repeat: True if the next search begins at `seen` again, to find what was given up.
        reported: name -> version of reported changes without a number.
    """

    after: str = ""
    seen: str = ""
    newest: str = ""
    handling: str = ""
    given_up: dict[str, None] = field(default_factory=dict)
    must_repeat: bool = False
    waiting: deque[ops.ForeignObject] = field(default_factory=deque)
    reported: OrderedDict[str, str] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class ReplicaState:
    """A directory server's state, with the actions of the current step.

    Attributes:
        settings: its identity and limits.
        next_request: number of its next change request.
        now: seconds since 1970 by its own clock.
        partitions: DirectoryPartitionCollection.
        pscs: PSCNeighborCollection by key of name.
        bscs: BSCNeighborCollection by key of name.
        psc_name: MyPSCName; empty if this server is not a BSC.
        requests: change requests that wait for a reply.
        executed: outcomes of requests that were executed or answered recently.
        is_quiet: True soon after the start: change requests of others are dropped (decision R33).
        aliases: by key of a machine's name, its names in our directory (decision R107).
        resent: by key of a machine's name, how many messages with a bad signature were sent again.
        has_machine: True if our own machine object exists (decision R34).
        is_demoted: True if our own machine object has the role of a BSC.
        is_retiring: True if our site is handed over, and the enterprise does not know yet (decision R38).
        foreign: the look for changes of other programs that is under way.
        timers: by name of a running timer, when it runs out (decision R193).
        actions: the actions for the driver.
        handlers: handler of each type of internal event (`mqdssm.engines.replication.internal_events`).
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
    timers: dict[str, float] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    handlers: Mapping[type[Any], Callable[["ReplicaState", Any], Job[None]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """QueueManager.MachineName."""
        return self.settings.machine_name

    @property
    def enterprise(self) -> Partition | None:
        """MyEnterprisePartition; None if this server is not the PEC."""
        partition = self.partitions.get(PEC_PARTITION_ID)
        return partition if partition is not None and partition.record.owned else None

    @property
    def site(self) -> Partition | None:
        """MySitePartition; None if this server is not its PSC."""
        partition = self.partitions.get(self.settings.site_id)
        return partition if partition is not None and partition.record.owned else None

    @property
    def has_unfinished(self) -> bool:
        """True if a partition has to be recovered before it accepts another change."""
        return any(partition.is_unfinished for partition in self.partitions.values())

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

    def has_not_followed(self, site: ops.ObjectRead) -> bool:
        """Return True if the PSC that a site's object names is still to be recorded.

        A crash, or a damaged entry, came behind the write of the object at this PEC (decision R195).
        """
        partition = None if site.identifier is None else self.partitions.get(site.identifier)
        if self.enterprise is None or partition is None or site.seq_number is None:
            return False
        return site.seq_number > partition.record.followed

    def choose_upstream(self, partition: Partition) -> str:
        """Return the machine to ask for changes of a partition (3.3.7.3)."""
        return partition.hint or self.find_usual_source(partition)

    def find_usual_source(self, partition: Partition) -> str:
        """Return the machine whose answers make our copy of a partition whole.

        That machine is the authority, or the PSC of a BSC.
        """
        return self.psc_name or partition.record.authority_name

    def note(self, summary: str, detail: str = "") -> None:
        """Add a note for the operator."""
        self.actions.append(Note(what=summary, detail=detail))

    def warn(self, summary: str, detail: str) -> None:
        """Add a warning: people have to act."""
        self.actions.append(Note(what=summary, detail=detail, is_warning=True))

    def reply(self, client: int, status: int, identifier: Guid | None = None) -> None:
        """Answer a client."""
        self.actions.append(Reply(request=client, status=status, identifier=identifier))

    def send(self, destination: str, message: ReplicationMessage, *, acks: bool) -> None:
        """Send a message with the long lifetime and low priority (3.3.7.2 and others)."""
        self._send(destination, message, REPLICATION_TIMEOUT_S, REPLICATION_PRIORITY, acks=acks)

    def send_soon(self, destination: str, message: ReplicationMessage) -> None:
        """Send a message of a change request, of short lifetime and high priority.

        See 3.3.7.1 and 3.2.7.6.
        """
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
        """Send a message again whose signature was bad (3.3.7.9)."""
        self._send(destination, message, REQUEST_TIMEOUT_S, REPLICATION_PRIORITY, acks=True)

    def finish_later(self, partition: Partition) -> None:
        """Block changes of a partition until it is recovered (decision R103).

        The timer for the recovery is started.
        """
        partition.is_unfinished = True
        self.start_timer(Timer(TimerPurpose.AGAIN), FINISH_S)

    def start_timer(self, timer: Timer, after_s: float) -> None:
        """Start a timer.

        A timer that is running never runs out later: others could put off our work (decision R193).
        """
        due = self.now + after_s
        if due < self.timers.get(timer.name, math.inf):
            self.timers[timer.name] = due
            self.actions.append(StartTimer(name=timer.name, after_s=after_s))

    def stop_timer(self, timer: Timer) -> None:
        """Stop a timer."""
        self.timers.pop(timer.name, None)
        self.actions.append(StopTimer(name=timer.name))

    def save(self, partition: Partition, **changes: Any) -> Job[None]:
        """Set fields of a partition's persisted part, and persist it."""
        partition.change(**changes)
        yield from perform(ops.SavePartition(partition=partition.record), ops.Done)

    def save_neighbor(self, neighbor: Neighbor, **changes: Any) -> Job[None]:
        """Set fields of a neighbour's persisted part, and persist it."""
        neighbor.record = replace(neighbor.record, **changes)
        yield from perform(ops.SaveNeighbor(neighbor=neighbor.record), ops.Done)


def list_authorities(server: ReplicaState) -> list[str]:
    """Return the authorities of all partitions except this server.

    The PEC comes first.
    """
    named = (server.partitions[PEC_PARTITION_ID], *server.partitions.values())
    names = {key_of(partition.record.authority_name): partition.record.authority_name for partition in named}
    return [name for key, name in names.items() if key and not server.is_me(name)]
