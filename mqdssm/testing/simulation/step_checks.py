"""Checks after every operation of a store.

The rules:

* each number is assigned once, in ascending order, by one authority at a time; a change hands the partition
  over to the next authority (`Ledger`);
* an object with a number is the same everywhere as it was at its authority when it got the number;
* LastSeqNumber L of a replica: each object whose newest number is at most L exists, with that number; no
  object exists that was deleted by then; L is never above the authority's numbers, and falls only for a full
  synchronization;
* deleted objects do not come back;
* a tombstone is kept until all servers have it, or the rules of purging permit its removal.
"""

from collections.abc import Callable
from typing import Any, Final

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, Properties
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import DirectoryNeighbor, DirectoryPartition, PurgeState
from mqdssm.testing.simulation.ledger import (
    IDENTIFIERS,
    PATHS,
    Ledger,
    NumberedChange,
    PartitionLedger,
    content_of,
    is_baton,
)
from mqdssm.testing.simulation.purging import PurgeRules
from mqdssm.testing.simulation.requests import RequestBook
from mqdssm.testing.simulation.servers import Given, SimulatedServer
from mqdssm.testing.simulation.trace import Violation

_COMMANDS: Final = {
    ops.CreateObject: Command.CREATE,
    ops.UpdateObject: Command.UPDATE,
    ops.DeleteObject: Command.DELETE,
}
_STEPS: Final = frozenset(
    {
        (PurgeState.NORMAL, PurgeState.STARTSYNC0),
        (PurgeState.STARTSYNC0, PurgeState.SYNC0),
        (PurgeState.SYNC0, PurgeState.COMPLETESYNC0),
        (PurgeState.SYNC0, PurgeState.STARTSYNC0),
        (PurgeState.COMPLETESYNC0, PurgeState.NORMAL),
    }
)
"""Permitted transitions of a full synchronization ([MC-MQDSRP] 3.1.1.2.3, decisions R13 and R14)."""


class StepChecks:
    """Checks of every operation of every store.

    Args:
        ledger: what authorities did.
        book: what clients asked for.
        now: the simulated time.
        find: a server by its machine name.
        is_foul: tells whether a server is not checked, because it or its PSC is hostile.
        has_windows: some servers propagate as Windows does.
    """

    def __init__(
        self,
        ledger: Ledger,
        book: RequestBook,
        now: Callable[[], float],
        find: Callable[[str], SimulatedServer | None],
        is_foul: Callable[[SimulatedServer], bool],
        *,
        has_windows: bool,
    ) -> None:
        self._has_windows = has_windows
        self._find = find
        self._is_foul = is_foul
        self._ledger = ledger
        self._book = book
        self._now = now
        self._purging = PurgeRules(self._find_strict, find)
        # the last recorded operation of each server in each partition: drivers repeat some
        self._given: dict[tuple[int, Guid], Given] = {}
        self._cut_short: dict[Guid, SimulatedServer] = {}  # the server, by partition
        self._looks: dict[type[ops.Operation], Callable[[SimulatedServer, Any, Any], None]] = {
            ops.CreateObject: self._check_done,
            ops.UpdateObject: self._check_done,
            ops.DeleteObject: self._check_done,
            ops.ApplyChanges: self._check_applied,
            ops.SavePartition: lambda server, operation, _: self._check_saved(server, operation.partition),
            ops.LoadState: self._check_loaded,
            ops.SaveNeighbor: self._check_saved_neighbor,
            ops.RemoveNeighbor: _remember,
            ops.RemovePartition: _remember,
            ops.PurgeDeletedObjects: lambda server, operation, _: self._purging.purged(server, operation),
            ops.MarkPartition: lambda server, operation, _: self._purging.marked(server, operation),
            ops.Recover: self._check_recovered,
        }

    def performed(self, server: SimulatedServer, operation: ops.Operation, result: ops.Result) -> None:
        """Check an operation that was performed.

        Raises:
            Violation: its result breaks a rule.
        """
        look = self._looks.get(type(operation))
        if look is None:
            return
        if self._is_foul(server):
            _remember(server, operation, result)
        else:
            look(server, operation, result)

    def torn(self, server: SimulatedServer, operation: ops.Operation) -> None:
        """Note an interrupted operation: it counts if its number is found afterwards."""
        if isinstance(operation, Given) and not self._is_foul(server):
            server.torn[operation.partition_id] = operation
            self._cut_short[operation.partition_id] = server

    def _check_saved_neighbor(
        self, server: SimulatedServer, operation: ops.SaveNeighbor, result: ops.Result
    ) -> None:
        neighbor = operation.neighbor
        _remember(server, operation, result)
        other = self._find(neighbor.machine_name)
        if other is not None and not self._is_foul(other):
            self._purging.acknowledged(server, neighbor, other)

    def _check_loaded(self, server: SimulatedServer, _: ops.LoadState, state: ops.PersistedState) -> None:
        """Check the loaded state.

        After a crash the store may differ by the last operation.
        """
        partition_ids = {item.partition_id for item in state.partitions}
        for partition_id in [key for key in server.persisted if key not in partition_ids]:
            del server.persisted[partition_id]
        for partition in state.partitions:
            self._check_saved(server, partition)
        server.neighbors = _by_name(state)

    # -- authorities

    def _check_recovered(
        self, server: SimulatedServer, operation: ops.Recover, result: ops.Recovered
    ) -> None:
        torn = server.torn.pop(operation.partition_id, None)
        if torn is not None and result.highest == torn.seq_number:
            self._give(server, torn, self._identify_object(torn))
        partition = self._ledger.partitions.get(operation.partition_id)
        if partition is not None and server.owns(operation.partition_id):
            partition.granted = max(partition.granted, int(result.doubtful))  # it continues above (R110)

    def _identify_object(self, operation: Given) -> Guid | None:
        """Return the identifier of an operation's object; None if it is unknown."""
        if not isinstance(operation, ops.CreateObject) and operation.identifier is not None:
            return operation.identifier
        if isinstance(operation, ops.CreateObject):
            identifier = dict(operation.properties).get(IDENTIFIERS[operation.object_type])
            return identifier if isinstance(identifier, Guid) else None
        partition = self._ledger.partitions[operation.partition_id]
        path = (operation.path_name or "").casefold()
        live = partition.live(operation.object_type)
        return next((entry.identifier for entry in live if entry.path.casefold() == path), None)

    def _check_done(self, server: SimulatedServer, operation: Given, result: ops.Result) -> None:
        if isinstance(result, ops.ObjectOutcome) and result.status == Hresult.MQ_OK:
            self._give(server, operation, result.identifier)

    def _give(self, server: SimulatedServer, operation: Given, identifier: Guid | None) -> None:
        key = (server.index, operation.partition_id)
        if self._given.get(key) is operation:
            return  # the driver repeated it
        self._given[key] = operation
        if identifier is None:
            raise Violation(f"{server.name}: no identifier of the object of {operation}")
        partition = self._ledger.partitions.get(operation.partition_id)
        latest_change = partition.latest.get(identifier) if partition is not None else None
        # a successor may have read the list between a crash in this operation and its recovery
        content, properties = None, None
        path = latest_change.path if latest_change is not None else operation.path_name or ""
        if not isinstance(operation, ops.DeleteObject):
            read = self.read(server, operation.object_type, identifier, operation.partition_id)
            if read.properties is None:
                raise Violation(f"{server.name}: {operation} is done, but the object is not there")
            properties = read.properties
            content = content_of(operation.object_type, properties)
            named = PATHS.get(operation.object_type)
            path = str(content[named]) if named is not None and named in content else path
        entry = NumberedChange(
            number=int(operation.seq_number),
            identifier=identifier,
            object_type=operation.object_type,
            command=_COMMANDS[type(operation)],
            asked=() if isinstance(operation, ops.DeleteObject) else operation.properties,
            content=content,
            path=path,
            giver=server.index,
            at=self._now(),
            properties=properties,
        )
        strict = self._find_strict(operation.partition_id)
        if strict is not None:
            is_foreign = latest_change is not None and latest_change.number in strict.foreign
            self._check_content(entry, None if is_foreign else latest_change)
            if is_foreign and self._has_windows:  # replicas apply its bare update to what they have
                strict.foreign.add(entry.number)
        self._ledger.record(operation.partition_id, entry, server.settings.machine_id, server.name)
        self._book.done(entry)

    def _check_content(self, entry: NumberedChange, old_entry: NumberedChange | None) -> None:
        """Check that an object has the requested values.

        An update has to keep all others.
        """
        if entry.content is None:
            return
        for propid, value in content_of(entry.object_type, entry.asked).items():
            if propid in entry.content and entry.content[propid] != value:
                raise Violation(
                    f"{entry.number} {entry}: {propid.name} is {entry.content[propid]!r}, not {value!r}"
                )
        if entry.command is Command.UPDATE and old_entry is not None and old_entry.content is not None:
            propids = {propid for propid, _ in entry.asked}
            for propid, value in old_entry.content.items():
                if propid not in propids and entry.content.get(propid) != value:
                    raise Violation(
                        f"{entry.number} {entry}: {propid.name} changed, and nobody asked for that"
                    )

    # -- replicas

    def read(
        self, server: SimulatedServer, object_type: ObjectType, identifier: Guid, partition_id: Guid
    ) -> ops.ObjectRead:
        """Read an object of a partition from a server's store.

        An object of another partition may have the same GUID.
        """
        result = server.store.read(object_type, identifier, partition_id)
        if not isinstance(result, ops.ObjectRead):
            raise Violation(f"{server.name}: ReadObject was answered by {result!r}")
        return result

    def _find_strict(self, partition_id: Guid) -> PartitionLedger | None:
        """Return a partition's ledger if all rules hold for it, else None."""
        partition = self._ledger.partitions.get(partition_id)
        return partition if partition is not None and partition.is_strict else None

    def _check_applied(
        self, server: SimulatedServer, operation: ops.ApplyChanges, applied: ops.Applied
    ) -> None:
        partition = self._find_strict(operation.partition_id)
        if partition is None:
            return
        saved = server.persisted.get(operation.partition_id)
        if saved is not None and saved.owned:
            raise Violation(f"{server.name} applies changes of others to its own partition")
        for change in operation.changes[: applied.count]:
            if change.guid_identifier is not None and change.command is Command.DELETE:
                server.gone.add(change.guid_identifier)
            entry = partition.entries.get(int(change.seq_number))
            if entry is not None:
                self.check_object(server, partition, entry)

    def check_object(
        self, server: SimulatedServer, partition: PartitionLedger, entry: NumberedChange
    ) -> None:
        """Check that a stored object equals the authority's object of the same number.

        Raises:
            Violation: it is not.
        """
        read = self.read(server, entry.object_type, entry.identifier, partition.partition_id)
        if read.properties is None or read.seq_number is None or not int(read.seq_number):
            return  # not there, or marked by a full synchronization
        if entry.identifier in server.gone:
            raise Violation(f"{server.name}: {entry.path} {entry.identifier} came back after it was deleted")
        meant = partition.entries.get(int(read.seq_number))
        if meant is None or meant.identifier != entry.identifier:
            raise Violation(
                f"{server.name}: {entry} has number {read.seq_number}, which is another one's: {meant}"
            )
        difference = "" if meant.number in partition.foreign else compare(meant, read.properties)
        if difference:
            raise Violation(f"{server.name}: number {meant.number} {meant}: {difference}")

    def _check_saved(self, server: SimulatedServer, new: DirectoryPartition) -> None:
        old = server.persisted.get(new.partition_id)
        server.persisted[new.partition_id] = new
        partition = self._find_strict(new.partition_id)
        if partition is None:
            if new.partition_id not in self._ledger.partitions:
                raise Violation(f"{server.name} keeps a partition that nobody made: {new}")
            if new.owned:
                self._ledger.partitions[new.partition_id].giver = server.index
            return
        if new.owned:
            if old is not None and not old.owned:
                self._check_baton(server, partition)
                partition.giver = server.index
            partition.granted = max(partition.granted, int(new.last))
            partition.purged = max(partition.purged, int(new.purged))
            return
        before = 0
        if old is not None:
            self._check_direction(server, old, new)
            before = 0 if new.purge_state is PurgeState.STARTSYNC0 else int(old.last)
        self._check_claim(server, partition, before, int(new.last))

    def _check_baton(self, server: SimulatedServer, partition: PartitionLedger) -> None:
        if partition.giver != server.index and not is_baton(
            partition, server.settings.machine_id, server.name
        ):
            raise Violation(f"{server.name} makes itself the authority of {partition.partition_id}")

    def _check_direction(
        self, server: SimulatedServer, old: DirectoryPartition, new: DirectoryPartition
    ) -> None:
        if new.last < old.last and new.purge_state is not PurgeState.STARTSYNC0:
            raise Violation(f"{server.name}: LastSeqNumber fell from {old.last} to {new.last}: {new}")
        if new.purged < old.purged or new.allowed_purge < old.allowed_purge:
            raise Violation(f"{server.name}: purging went back: {old} -> {new}")
        if new.purge_state is not old.purge_state and (old.purge_state, new.purge_state) not in _STEPS:
            raise Violation(f"{server.name}: {old.purge_state!r} -> {new.purge_state!r}")

    def _check_claim(
        self, server: SimulatedServer, partition: PartitionLedger, before: int, last: int
    ) -> None:
        """Check that a replica has all changes up to its LastSeqNumber `last`.

        The changes up to `before` are known.
        """
        if last > partition.highest:
            raise Violation(
                f"{server.name}: LastSeqNumber {last} is above the authority's {partition.highest}"
            )
        furthest = server.furthest.get(partition.partition_id, 0)
        server.furthest[partition.partition_id] = max(furthest, last)
        self._purging.reached(server, partition.partition_id, last)
        for entry in partition.list_between(before, last):
            if partition.latest[entry.identifier] is entry:
                self.check_newest(server, partition, entry)

    def check_newest(
        self, server: SimulatedServer, partition: PartitionLedger, entry: NumberedChange
    ) -> None:
        """Check that the newest state of an object is in a store.

        Raises:
            Violation: it is not.
        """
        read = self.read(server, entry.object_type, entry.identifier, partition.partition_id)
        number = int(read.seq_number) if read.properties is not None and read.seq_number is not None else None
        if entry.content is None:
            server.gone.add(entry.identifier)
            if number:
                raise Violation(f"{server.name}: {entry.number} {entry} is still there, with {number}")
        elif number != entry.number:
            if not self._is_moving(partition, entry):
                raise Violation(f"{server.name} lacks {entry.number} {entry}: has {number}")
        else:
            self.check_object(server, partition, entry)

    def _is_moving(self, partition: PartitionLedger, entry: NumberedChange) -> bool:
        """Return True if an interrupted change moves an object's number.

        The number is removed and not recorded yet.

        Until then, replies do not contain the object; it follows with its new number.
        """
        giver = self._cut_short.get(partition.partition_id)
        torn = giver.torn.get(partition.partition_id) if giver is not None else None
        if giver is None or torn is None or self._identify_object(torn) != entry.identifier:
            return False
        read = self.read(giver, entry.object_type, entry.identifier, partition.partition_id)
        return read.properties is None or read.seq_number != entry.number


def _remember(server: SimulatedServer, operation: ops.Operation, result: ops.Result) -> None:
    """Record the partitions and neighbours that a store holds now."""
    match operation:
        case ops.SavePartition(partition=partition):
            server.persisted[partition.partition_id] = partition
        case ops.RemovePartition(partition_id=partition_id):
            server.persisted.pop(partition_id, None)
        case ops.SaveNeighbor(neighbor=neighbor):
            server.neighbors[neighbor.is_bsc, neighbor.machine_name.casefold()] = neighbor
        case ops.RemoveNeighbor(is_bsc=is_bsc, machine_name=name):
            server.neighbors.pop((is_bsc, name.casefold()), None)
        case ops.LoadState() if isinstance(result, ops.PersistedState):
            server.persisted = {partition.partition_id: partition for partition in result.partitions}
            server.neighbors = _by_name(result)


def _by_name(state: ops.PersistedState) -> dict[tuple[bool, str], DirectoryNeighbor]:
    return {(neighbor.is_bsc, neighbor.machine_name.casefold()): neighbor for neighbor in state.neighbors}


def compare(meant: NumberedChange, properties: Properties) -> str:
    """Return the differences between an object and its entry in the ledger.

    Empty if there are none.
    """
    if meant.content is None:
        return "it was deleted"
    if properties == meant.properties:
        return ""
    content = content_of(meant.object_type, properties)
    if content == meant.content:
        return ""
    differing = [
        f"{propid.name} is {content.get(propid)!r}, not {meant.content.get(propid)!r}"
        for propid in sorted({*content, *meant.content})
        if content.get(propid) != meant.content.get(propid)
    ]
    return ", ".join(differing)
