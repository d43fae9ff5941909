"""Foreign servers with settings of several versions, which propagate as Windows."""

from collections import OrderedDict
from dataclasses import replace
from typing import Final

from mqdssm.engines.replication.actions import Action, Event, Perform, PropagateChange, Send
from mqdssm.engines.replication.operations import ApplyChanges, Operation, UpdateObject
from mqdssm.engines.replication.status import ServerStatus
from mqdssm.model.guid import Guid
from mqdssm.model.messages import ChangePropagationMessage, Command, DirectoryChange, Properties
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.options import PER_MILLE, Options, Tuning, draw_tuning
from mqdssm.testing.simulation.servers import SimulatedEngine

REMEMBERED_MAX: Final = 500
"""Number of updates whose properties are remembered: more than ever wait for a neighbour."""
WINDOWS: Final = Tuning(
    request_wait_s=10.0,
    intrasite_s=2.0,
    intersite_s=10.0,
    header_s=1200.0,
    bsc_ack_s=43_200.0,
    sync_wait_s=30.0,
    sync_wait_max_s=600.0,
    purge_buffer=1024,
    purge_interval=256,
    ack_interval=256,
    pending_max=100,
    available_max=10_000,
    message_changes_max=1000,
    message_bytes_max=1 << 20,
    backlog_max=10_000,
)
"""The timers and numbers of Windows ([MC-MQDSRP] 6, 3.1.7.2.2, 3.1.7.2.3, 3.1.7.2.9)."""


class WindowsEngine:
    """Engine that propagates only the properties that an update set.

    See [MC-MQDSRP] 3.1.7.1.2.

    Args:
        engine: the engine that does all the rest.
    """

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine
        self._updates: OrderedDict[tuple[Guid, int], Properties] = OrderedDict()

    def read_next_number(self, partition_id: Guid) -> SequenceNumber:
        """Return the engine's next sequence number for a partition."""
        return self._engine.read_next_number(partition_id)

    def report_status(self, now: float) -> ServerStatus:
        """Return the engine's status."""
        return self._engine.report_status(now)

    @property
    def messages_waiting(self) -> int:
        """Number of messages that wait in the engine."""
        return self._engine.messages_waiting

    def step(self, event: Event, now: float) -> list[Action]:
        """Process an event in the engine, and convert its propagations."""
        if isinstance(event, PropagateChange):  # the number of a failed change was used again, by a service
            self._updates.pop((event.partition_id, int(event.seq_number)), None)
        return [self._as_windows(action) for action in self._engine.step(event, now)]

    def _remember(self, partition_id: Guid, number: SequenceNumber, properties: Properties) -> None:
        self._updates[partition_id, int(number)] = properties
        while len(self._updates) > REMEMBERED_MAX:
            self._updates.popitem(last=False)

    def _look_at(self, operation: Operation) -> None:
        """Remember the properties that an authority's operation sets.

        A PSC that forwards changes is observed, too.
        """
        if isinstance(operation, UpdateObject):
            self._remember(operation.partition_id, operation.seq_number, operation.properties)
        elif isinstance(operation, ApplyChanges):
            for change in operation.changes:
                self._updates.pop((change.partition_id, int(change.seq_number)), None)
                if change.command is Command.UPDATE:
                    self._remember(change.partition_id, change.seq_number, change.properties)

    def _as_windows(self, action: Action) -> Action:
        if isinstance(action, Perform):
            self._look_at(action.operation)
        if not isinstance(action, Send) or not isinstance(action.message, ChangePropagationMessage):
            return action
        changes = tuple(map(self._reduce_change, action.message.directory_changes))
        return replace(action, message=replace(action.message, directory_changes=changes))

    def _reduce_change(self, change: DirectoryChange) -> DirectoryChange:
        properties = self._updates.get((change.partition_id, int(change.seq_number)))
        if change.command is not Command.SYNC or not properties:
            return change
        return replace(change, command=Command.UPDATE, properties=properties)


def is_windows(options: Options, index: int) -> bool:
    """Return True if a server behaves as Windows does."""
    return SeededRandom("windows", index, options.seed).draw_below(PER_MILLE) < options.fault_options.windows


def tuning_of(options: Options, index: int) -> Tuning:
    """Return the settings of one server."""
    if is_windows(options, index):
        usual = options.tuning  # with the limits of Windows no message would ever be split
        return replace(
            WINDOWS,
            message_changes_max=usual.message_changes_max,
            message_bytes_max=usual.message_bytes_max,
            pending_max=usual.pending_max,
        )
    if options.fault_options.mixed:
        return draw_tuning(SeededRandom("tuning", index, options.seed))
    return options.tuning
