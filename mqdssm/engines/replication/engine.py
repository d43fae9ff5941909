"""The engine: one event in, actions out.

See [MC-MQDSRP] 3.1.5.1, 3.1.7, 3.2.7 and 3.3.7.

Handlers are generators that yield operations (`mqdssm.engines.replication.jobs.Job`). One handler runs at a
time; later events wait. So no handler sees the unfinished work of another one, and a crash always falls
between two operations.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from mqdssm.engines.actions import StartTimer, TimerFired
from mqdssm.engines.replication import actions as do
from mqdssm.engines.replication import (
    changes,
    directory_failures,
    foreign_changes,
    internal_events,
    propagation,
    purging,
    reported_numbers,
    requests,
    server_roles,
    startup,
    status,
    succession,
    sync,
    sync_replies,
    topology,
    trust,
)
from mqdssm.engines.replication.jobs import Job
from mqdssm.engines.replication.operations import Failed, Result
from mqdssm.engines.replication.plain_words import describe_plainly
from mqdssm.engines.replication.settings import Settings
from mqdssm.engines.replication.state import ReplicaState, key_of
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.model import messages as msg
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.seqnum import MIN, SequenceNumber

_RECEIVING: Final[
    Mapping[type[msg.ReplicationMessage], Callable[[ReplicaState, Any, str], Job[None] | None]]
] = {
    msg.ChangePropagationMessage: changes.receive,  # 3.2.7.1
    msg.ChangeRequestMessage: requests.receive,  # 3.2.7.2
    msg.SyncRequestMessage: sync_replies.receive,  # 3.2.7.3
    msg.PSCAckMessage: purging.receive_psc_ack,  # 3.2.7.4
    msg.BSCAckMessage: purging.receive_bsc_ack,  # 3.2.7.5
    msg.SyncReplyMessage: sync.receive_reply,  # 3.3.7.5
    msg.ChangeReplyMessage: requests.receive_reply,  # 3.3.7.6
    msg.AlreadyPurgedMessage: sync.receive_already_purged,  # 3.3.7.7
}
"""Handler of each type of message ([MC-MQDSRP] 3.1.5.1)."""
_EVENTS: Final[Mapping[type[Any], Callable[[ReplicaState, Any], Job[None] | None]]] = {
    do.Started: startup.start,  # 3.1.3, 3.3.3
    do.ChangeObject: requests.change_object,  # 3.1.7.1.1
    do.PropagateChange: requests.propagate_service_change,  # 3.1.7.1.2
    do.Nacked: requests.receive_nack,  # 3.3.7.8, 3.3.7.9
    do.TakeOver: succession.take_over,
    do.Resynchronize: sync.resynchronize,
    do.NameAuthority: reported_numbers.name_authority,
}
"""Handler of each other type of event."""
_INTERNAL_EVENTS: Final[
    Mapping[type[internal_events.InternalEvent], Callable[[ReplicaState, Any], Job[None]]]
] = {
    internal_events.ObjectsChanged: topology.on_objects_changed,  # 3.1.7.2.3
    internal_events.SuccessorNamed: succession.on_successor_named,  # decision R38
    internal_events.HandoverFailed: server_roles.on_handover_failed,
    internal_events.AuthorityChanged: topology.on_authority_changed,
    internal_events.PartitionSwept: topology.on_partition_swept,
}
"""Handler of each type of internal event."""
_TIMERS: Final[Mapping[TimerPurpose, Callable[[ReplicaState, str], Job[None] | None]]] = {
    TimerPurpose.START: directory_failures.on_start_timer,
    TimerPurpose.AGAIN: directory_failures.on_again_timer,  # decisions R83, R103
    TimerPurpose.PROPAGATE: propagation.on_timer,  # 3.3.6.1
    TimerPurpose.BSC_ACK: purging.on_bsc_ack_timer,  # 3.3.6.2
    TimerPurpose.SYNC: sync.on_timer,
    TimerPurpose.REQUEST: requests.on_request_timer,  # 3.3.7.1
    TimerPurpose.FORGET: requests.on_forget_timer,
    TimerPurpose.QUIET: requests.on_quiet_timer,
    TimerPurpose.CLAIM: server_roles.on_claim_timer,
    TimerPurpose.FOREIGN: foreign_changes.on_timer,  # decision R112
}
"""Handler of the timers of each purpose; it gets the key of the timer."""
_AGAIN: Final = TimerFired(name=Timer(TimerPurpose.AGAIN).name)
_START: Final = TimerFired(name=Timer(TimerPurpose.START).name)


_Question: TypeAlias = tuple[str, str, Guid]
"""Key of a waiting sync request: keys of the names of its sender and its requester, and the partition."""


class ReplicationEngine:
    """A directory server of [MC-MQDSRP]: PEC, PSC or BSC.

    The engine is without sockets, clock, randomness or directory.

    Args:
        settings: its identity and its limits.
        first_request: number of its first change request, random: after a restart the server must not soon
            use the same numbers again (decision R33).
    """

    def __init__(self, settings: Settings, *, first_request: int) -> None:
        self._server = ReplicaState(settings=settings, next_request=first_request, handlers=_INTERNAL_EVENTS)
        self._backlog: deque[do.Event] = deque()
        self._messages_waiting = 0  # number of messages in the backlog
        self._questions: dict[_Question, do.Received] = {}  # the newest waiting request of each key
        self._event: do.Event = do.Started()  # the event that the job handles
        self._job: Job[None] | None = None
        self._has_started = False
        self._token = 0

    def step(self, event: do.Event, now: float) -> list[do.Action]:
        """Handle an event and return the actions.

        Args:
            event: what happened. The first one is `Started`.
            now: seconds since 1970 by the clock of this server.

        Returns:
            The actions for the driver, in this order. At most one `Perform` is under way at a time.

        Raises:
            ValueError: the result of an operation that is not under way.
        """
        self._server.now = now
        self._server.actions = []
        if isinstance(event, TimerFired):
            self._server.timers.pop(event.name, None)
        if isinstance(event, do.Performed):
            if self._job is None or event.token != self._token:
                raise ValueError(f"no operation {event.token} is under way")
            if isinstance(event.result, Failed):
                self._give_up(self._job, event.result)
            else:
                self._advance(self._job, event.result)
        elif self._job is None and not self._backlog:
            self._begin(event)
        else:
            self._wait(event)
        while self._job is None and self._backlog:
            waited = self._backlog.popleft()
            self._messages_waiting -= isinstance(waited, do.Received | do.Nacked)
            question = _question_of(waited)
            newest = waited if question is None else self._questions.pop(question, None)
            if newest is not None:  # else it was answered with an earlier copy (decision R163)
                self._begin(newest)
        return self._server.actions

    @property
    def messages_waiting(self) -> int:
        """Number of messages that wait behind the current work."""
        return self._messages_waiting

    def report_status(self, now: float) -> status.ServerStatus:
        """Return the state of partitions and neighbours.

        Any thread may call this. Each row is consistent.

        Args:
            now: seconds since 1970 by the clock of this server.
        """
        return status.status_of(self._server, now)

    def read_next_number(self, partition_id: Guid) -> SequenceNumber:
        """Read Next Sequence Number ([MC-MQDSRP] 3.1.7.1.3).

        A service that writes beside this server needs it.

        Returns:
            The number of the next change; MIN if this server does not own the partition, or cannot change it
            now.
        """
        partition = self._server.partitions.get(partition_id)
        if (
            partition is None
            or not partition.record.owned
            or partition.is_unfinished
            or not self._has_started
        ):
            return MIN
        return partition.last.next()

    def _wait(self, event: do.Event) -> None:
        """Queue an event behind the current work; a full queue accepts no more messages."""
        if len(self._backlog) < self._server.settings.backlog_max or isinstance(event, TimerFired):
            self._backlog.append(event)
            self._messages_waiting += isinstance(event, do.Received | do.Nacked)
            question = _question_of(event)
            if question is not None and isinstance(event, do.Received):
                self._questions[question] = event
        elif isinstance(event, do.ClientEvent):
            self._server.reply(event.request, Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        else:
            self._server.note("dropped: too much is waiting", describe_plainly(event))

    def _begin(self, event: do.Event) -> None:
        if not self._has_started and not (isinstance(event, do.Started) or event == _START):
            self._refuse(event)
            return
        self._event = event
        self._job = self._begin_job(event)
        if self._job is not None:
            self._advance(self._job, None)

    def _refuse(self, event: do.Event) -> None:
        """Refuse a client's request; ignore other events.

        The start failed and is to be retried.
        """
        if isinstance(event, do.ClientEvent):
            self._server.reply(event.request, Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE)

    def _give_up(self, job: Job[None], failed: Failed) -> None:
        job.close()
        self._job = None
        directory_failures.give_up(self._server, self._event, failed.reason)
        if self._has_started and self._server.has_unfinished and self._event != _AGAIN:
            self._begin(_AGAIN)  # at once, before any other change of the partition (decision R103)

    def _advance(self, job: Job[None], result: Result | None) -> None:
        """Run the handler until its next operation or its end."""
        try:
            operation = next(job) if result is None else job.send(result)
        except StopIteration:
            self._job = None
            self._has_started = True
        except Exception:
            self._job = None  # an error in our code affects one event only
            for action in self._server.actions:
                if isinstance(action, StartTimer):
                    self._server.timers.pop(action.name, None)
            if self._has_started and self._server.has_unfinished and self._event != _AGAIN:
                self._backlog.appendleft(_AGAIN)  # the actions of this step are lost, including timers
            raise
        else:
            self._token += 1
            self._server.actions.append(do.Perform(token=self._token, operation=operation))

    def _begin_job(self, event: do.Event) -> Job[None] | None:
        server = self._server
        if isinstance(event, do.Received):
            server.resent.pop(key_of(event.sender), None)
            return _receive(server, event)
        if isinstance(event, TimerFired):
            timer = Timer.parse(event.name)
            return _TIMERS[timer.purpose](server, timer.key)
        return _EVENTS[type(event)](server, event)


def _receive(server: ReplicaState, event: do.Received) -> Job[None]:
    """Check the sender of a message, and call its handler with the admitted part."""
    message = yield from trust.filter_message(server, event)
    job = None if message is None else _RECEIVING[type(message)](server, message, event.sender)
    if job is not None:
        yield from job


def _question_of(event: do.Event) -> _Question | None:
    """Return the key of a sync request (sender, requester, partition).

    None for other events.

    A server without an answer repeats its request. A busy server that answered each copy would fall behind.
    """
    message = event.message if isinstance(event, do.Received) else None
    if not isinstance(event, do.Received) or not isinstance(message, msg.SyncRequestMessage):
        return None
    return key_of(event.sender), key_of(message.requester_name), message.partition_id
