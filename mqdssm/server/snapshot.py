"""Snapshot of a directory server: the one public form of its state.

`mqdssm status`, the metrics and the status page are made from it. `ServerSnapshot.model_dump_json` writes it,
and `ServerSnapshot.model_validate_json` reads it, with `extra="ignore"` also that of a newer server. A new
field gets a default, for servers that do not send it (decision T151). Numbers of partitions are sequence
numbers.
"""

from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mqdssm.drivers.measurements import MessageOutcome
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.session.timers import SessionState

Severity = Literal["info", "warning", "error"]
ServerPart = Literal["replication", "notification", "queue manager", "transport"]
"""Part of a server that counts events."""
_KNOWN_FIRST = Field(union_mode="left_to_right")  # else any text of a newer server


def describe_backlog(changes: int, messages: int) -> str:
    """Say what waits for a neighbour."""
    parts = [f"{changes:,} changes"] * bool(changes) + [f"{messages:,} messages"] * bool(messages)
    return f"{' and '.join(parts or ['0 messages'])} wait for it"


def _replace_unknown_severity(severity: str) -> str:
    """Return a severity; "error" for one that only newer servers know."""
    return severity if severity in get_args(Severity) else "error"


class _Part(BaseModel):
    """Base of all parts of a snapshot: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PartitionSnapshot(_Part):
    """State of one partition.

    Attributes:
        partition_id: zeros for the enterprise, else the identifier of the site.
        is_enterprise: True for the partition of the enterprise.
        site_name: name of the site; empty for the enterprise, and as long as it is not known.
        owner: machine name of the owner; empty if nobody owns the partition.
        is_ours: True if this server owns it.
        last_number: the last number that is applied.
        purged_number: tombstones up to this number may be gone.
        missing: how many numbers up to the highest reported one are not applied.
        not_purged: how many numbers follow `purged_number`.
        state: step of a full synchronization; NORMAL if there is none.
        is_unfinished: True if a change failed halfway, and is tried again.
        foreign: objects that another program has changed since the start, and that got no number.
        is_new: True if the copy never was complete.
    """

    partition_id: UUID
    is_enterprise: bool
    site_name: str
    owner: str
    is_ours: bool
    last_number: int
    purged_number: int
    missing: int
    not_purged: int
    state: str
    is_unfinished: bool
    foreign: int
    is_new: bool

    @property
    def label(self) -> str:
        """Name of the partition for people."""
        return "enterprise" if self.is_enterprise else self.site_name or str(self.partition_id)


class AcknowledgementSnapshot(_Part):
    """Acknowledgement of one partition of this server by one PSC.

    Attributes:
        partition_id: the partition.
        acked_number: the number that the PSC acknowledged last.
        unacknowledged: how many numbers follow it. PSCs acknowledge each 256th.
        is_alarm: True if deleted objects are kept only because this PSC does not acknowledge.
    """

    partition_id: UUID
    acked_number: int
    unacknowledged: int
    is_alarm: bool


class NeighborSnapshot(_Part):
    """State of the replication with one neighbour.

    Attributes:
        machine_name: its machine.
        site_id: its site.
        site_name: name of the site; empty as long as it is not known.
        is_bsc: True for a BSC of this site, False for the PSC of another site.
        waiting: changes that wait to be sent to it.
        acknowledgements: for a PSC, one for each partition that this server owns.
        silent_s: for a BSC, seconds since its last acknowledgement; None if there was none, and for PSCs.
        last_heard: when its last message came; None: not since the start.
        problem: why the last attempt to reach it failed; empty if it did not.
        queued: messages to it, with changes or other content, that it has not acknowledged.
    """

    machine_name: str
    site_id: UUID
    site_name: str
    is_bsc: bool
    waiting: int
    acknowledgements: tuple[AcknowledgementSnapshot, ...]
    silent_s: float | None
    last_heard: datetime | None
    problem: str
    queued: int = 0

    @property
    def backlog(self) -> str:
        """Changes and messages that wait for it, as text."""
        return describe_backlog(self.waiting, self.queued)

    @property
    def unacknowledged(self) -> int:
        """Highest number of unacknowledged changes of any partition of this server."""
        return max((ack.unacknowledged for ack in self.acknowledgements), default=0)


class KnownServer(_Part):
    """Directory server that the directory names.

    Attributes:
        machine_name: its machine.
        role: its role there.
    """

    machine_name: str
    role: Role


class SiteSnapshot(_Part):
    """Site with its directory servers, as the directory has them.

    Attributes:
        site_id: its identifier.
        name: its name.
        is_ours: True for the site of this server.
        servers: its directory servers; as long as its objects are not read, only its PSC.
    """

    site_id: UUID
    name: str
    is_ours: bool
    servers: tuple[KnownServer, ...]


class SessionSnapshot(_Part):
    """Session with another queue manager.

    Attributes:
        peer: name, identifier or address of the peer.
        is_initiator: True if this server connects, and sends messages; False if the peer does.
        state: of the session.
        in_flight: messages that the peer has not acknowledged.
        problem: why the last attempt to connect failed; empty if it did not.
    """

    peer: str
    is_initiator: bool
    state: Annotated[SessionState | str, _KNOWN_FIRST]
    in_flight: int
    problem: str


class QueueSnapshot(_Part):
    """Queue of the queue manager.

    Attributes:
        name: name of a local queue, or the machine that an outgoing queue leads to.
        is_outgoing: True if its messages wait for another machine.
        messages: number of messages.
        octets: their octets (`Message.octets`).
    """

    name: str
    is_outgoing: bool
    messages: int
    octets: int


class MessageCount(_Part):
    """Number of replication messages of one type with one outcome, since the start."""

    message_type: str
    outcome: Annotated[MessageOutcome | str, _KNOWN_FIRST]
    count: int


class EventCount(_Part):
    """Number of occurrences of an event since the start.

    Attributes:
        part: part of the server that counted them.
        event: a short constant text.
        count: the number.
    """

    part: Annotated[ServerPart | str, _KNOWN_FIRST]
    event: str
    count: int


class OperationSnapshot(_Part):
    """Durations of one kind of operations of the store, since the start.

    Attributes:
        operation: its name.
        classes: number of operations in each class of durations (`DURATION_LIMITS_S`).
        total_s: sum of the durations in seconds.
        longest_s: the longest in seconds.
    """

    operation: str
    classes: tuple[int, ...]
    total_s: float
    longest_s: float

    @property
    def count(self) -> int:
        """Number of operations."""
        return sum(self.classes)


class StoreSnapshot(_Part):
    """State of the store, the server's own directory.

    Attributes:
        is_reachable: False while an operation waits to be repeated.
        waiting: operations that wait.
        failures: attempts that failed since the start.
        problem: why the directory cannot be reached; empty if it can.
        operations: durations by kind.
    """

    is_reachable: bool
    waiting: int
    failures: int
    problem: str
    operations: tuple[OperationSnapshot, ...]


class OwnObjectsSnapshot(_Part):
    """Copy of the server's own queue manager and queues, kept by notifications.

    Attributes:
        is_receiving: False after the receiver was stopped by a defect.
        is_known: True if the own objects were read once.
        queues: number of own public queues.
        queue_manager_quota: of all own queues, in the unit of the directory.
        journal_quota: kilobytes of the own journal.
    """

    is_receiving: bool
    is_known: bool
    queues: int
    queue_manager_quota: int
    journal_quota: int


class NoteSnapshot(_Part):
    """Note of the server for operators.

    Attributes:
        at: when it came last.
        summary: a short constant text.
        detail: about which message or object.
        is_warning: True if an operator has to do something about it.
        count: how often it came in a row.
    """

    at: datetime
    summary: str
    detail: str
    is_warning: bool
    count: int


class Problem(_Part):
    """Condition that an operator should know, for as long as it lasts.

    Attributes:
        severity: "error" if the server does not do its work, "warning" if somebody has to act.
        subject: the partition, neighbour or part of the server.
        text: the condition, and what to do.
    """

    severity: Annotated[Severity, BeforeValidator(_replace_unknown_severity)]
    subject: str
    text: str


class ServerSnapshot(_Part):
    """State of a directory server at one moment.

    Attributes:
        version: of mqdssm.
        machine_name: machine of the server.
        machine_id: QueueManager.Identifier.
        role: its current role.
        psc_name: for a BSC, its PSC; else empty.
        site_id: its site.
        site_name: name of the site; empty as long as it is not known.
        started_at: when the server was started.
        taken_at: moment of the snapshot.
        is_working: False after the server was stopped, also by a defect.
        store: state of its directory.
        partitions: by identifier.
        neighbors: by name.
        sites: known sites, by name.
        own_objects: copy of the server's own objects; None if no notifications are received.
        sessions: sessions with other queue managers.
        queues: local and outgoing queues.
        messages: numbers of messages by type and outcome.
        events: numbers of events.
        notes: the last notes, the newest first.
        problems: what is wrong now, the worst first.
        psc_problem: for a BSC: why the last attempt to reach its PSC failed, or how long the PSC has been
            silent; empty if neither.
        psc_queued: for a BSC: messages to its PSC that it has not acknowledged.
    """

    version: str
    machine_name: str
    machine_id: UUID
    role: Role
    psc_name: str
    site_id: UUID
    site_name: str
    started_at: datetime
    taken_at: datetime
    is_working: bool
    store: StoreSnapshot
    partitions: tuple[PartitionSnapshot, ...]
    neighbors: tuple[NeighborSnapshot, ...]
    sites: tuple[SiteSnapshot, ...]
    own_objects: OwnObjectsSnapshot | None = None
    sessions: tuple[SessionSnapshot, ...]
    queues: tuple[QueueSnapshot, ...]
    messages: tuple[MessageCount, ...]
    events: tuple[EventCount, ...]
    notes: tuple[NoteSnapshot, ...]
    problems: tuple[Problem, ...]
    psc_problem: str = ""
    psc_queued: int = 0

    @property
    def is_healthy(self) -> bool:
        """True if the server does its work: no problem is an error."""
        return all(problem.severity != "error" for problem in self.problems)
