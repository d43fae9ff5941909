"""Entries that another program has damaged (decision R83).

Numbers of damaged entries are unreadable until they are mended.

The store itself keeps the intact entries, for the checks; only operations of the server fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import DirectoryChange
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store.rules import name_key
from mqdssm.tables.numbering import BUCKET_BITS
from mqdssm.testing.simulation.ledger import PATHS
from mqdssm.testing.simulation.stores import SimulatedStore, changes_of

_FAILED: Final = ops.Failed(reason="a damaged entry")
_BUCKET: Final = (1 << BUCKET_BITS) - 1
_STATUS: Final = Hresult.MQ_ERROR_DS_ERROR


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """An entry whose number cannot be read.

    Attributes:
        identifier: of its object.
        object_type: of its object.
        partition_id: its partition.
        number: the number that it had.
        key: its path name for comparison; empty: it has none.
    """

    identifier: Guid
    object_type: ObjectType
    partition_id: Guid
    number: int
    key: str


class Damage:
    """The damaged entries of one server's directory."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Guid, Guid], DamagedEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, change: DirectoryChange) -> DamagedEntry | None:
        """Damage the entry of the object in a change.

        Returns None if the change names no object.
        """
        kind, identifier = change.object_type, change.guid_identifier
        if kind is None or identifier is None:
            return None
        name = change.get(PATHS[kind]) if kind in PATHS else None
        key = name_key(name) if isinstance(name, str) else ""
        entry = DamagedEntry(identifier, kind, change.partition_id, int(change.seq_number), key)
        self._entries[entry.partition_id, identifier] = entry
        return entry

    def repair_number(self, entry: DamagedEntry) -> None:
        """Make the number of an entry readable again."""
        self._entries.pop((entry.partition_id, entry.identifier), None)

    def clear(self) -> None:
        """Mend all entries."""
        self._entries.clear()

    def limit_operation(self, operation: Operation) -> tuple[Operation | None, Result | None]:
        """Determine how the damaged entries affect an operation.

        Returns:
            The operation to perform, if any, and the result for the engine; None: the store's result.
        """
        if not self._entries:
            return operation, None
        match operation:
            case ops.CreateObject(path_name=path_name, object_type=kind, properties=properties):
                path = dict(properties).get(PATHS[kind]) if kind in PATHS else None
                names = [name for name in (path_name, path) if isinstance(name, str)]
                return _choose_by_hit(
                    self._is_named(kind, names), operation, ops.ObjectOutcome(status=_STATUS)
                )
            case ops.UpdateObject(path_name=path_name, object_type=kind, identifier=identifier):
                hit = self._is_hit(kind, identifier, path_name)
                return _choose_by_hit(hit, operation, ops.ObjectOutcome(status=_STATUS))
            case ops.DeleteObject(path_name=path_name, object_type=kind, identifier=identifier):
                hit = self._is_hit(kind, identifier, path_name)
                return _choose_by_hit(hit, operation, ops.ObjectOutcome(status=_STATUS))
            case ops.ReadObject(path_name=path_name, object_type=kind, identifier=identifier):
                return _choose_by_hit(self._is_hit(kind, identifier, path_name), operation, _FAILED)
            case ops.ApplyChanges(changes=changes):
                return self._limit_changes(operation, changes)
        return self._of_partition(operation)

    def add_doubt(self, operation: Operation, result: Result) -> Result:
        """Add a damaged entry's highest possible number to a result (R110).

        The result is `Recovered`.
        """
        if not isinstance(operation, ops.Recover) or not isinstance(result, ops.Recovered):
            return result
        numbers = [entry.number | _BUCKET for entry in self._select_entries(operation.partition_id)]
        return replace(result, doubtful=SequenceNumber(max(numbers, default=MIN)))

    def hide(self, operation: Operation, result: Result, store: SimulatedStore) -> Result:
        """Replace the highest number in a `Recovered` result by that of a damaged entry."""
        if not isinstance(operation, ops.Recover) or not isinstance(result, ops.Recovered):
            return result
        hidden = {entry.number for entry in self._select_entries(operation.partition_id)}
        if result.highest not in hidden:
            return result
        changes = changes_of(store, operation.partition_id)
        numbers = (change.seq_number for change in changes if change.seq_number not in hidden)
        return replace(result, highest=max(numbers, default=MIN))

    def _select_entries(self, partition_id: Guid) -> list[DamagedEntry]:
        return [entry for entry in self._entries.values() if entry.partition_id == partition_id]

    def _is_named(self, kind: ObjectType, names: Iterable[str]) -> bool:
        keys = {name_key(name) for name in names}
        return any(entry.object_type is kind and entry.key in keys for entry in self._entries.values())

    def _is_named_in(self, change: DirectoryChange) -> bool:
        kind = change.object_type
        if kind is None:
            return False
        name = change.get(PATHS[kind]) if kind in PATHS else None
        return self._is_named(kind, [text for text in (change.path_name, name) if isinstance(text, str)])

    def _is_hit(self, kind: ObjectType, identifier: Guid | None, path_name: str | None) -> bool:
        if identifier is not None:
            return any(entry.identifier == identifier for entry in self._entries.values())
        return path_name is not None and self._is_named(kind, [path_name])

    def _limit_changes(
        self, operation: ops.ApplyChanges, changes: Iterable[DirectoryChange]
    ) -> tuple[Operation | None, Result | None]:
        for count, change in enumerate(changes):
            by_name = self._is_named_in(change)
            if by_name or any(entry.identifier == change.guid_identifier for entry in self._entries.values()):
                before = replace(operation, changes=operation.changes[:count]) if count else None
                return before, ops.Applied(count=count, status=_STATUS)
        return operation, None

    def _of_partition(self, operation: Operation) -> tuple[Operation | None, Result | None]:
        match operation:
            case ops.ListObjects(object_type=kind, partition_id=partition_id):
                hit = any(entry.object_type is kind for entry in self._select_entries(partition_id))
                return _choose_by_hit(hit, operation, _FAILED)
            case ops.LookupChanges(partition_id=partition_id, after=after, up_to=up_to):
                hit = any(after < entry.number <= up_to for entry in self._select_entries(partition_id))
                return _choose_by_hit(hit, operation, _FAILED)
            case ops.MarkPartition(partition_id=partition_id):
                for entry in self._select_entries(partition_id):
                    self.repair_number(entry)  # every entry of the partition gets a number: 0
        return operation, None


def _choose_by_hit(hit: bool, operation: Operation, result: Result) -> tuple[Operation | None, Result | None]:
    return (None, result) if hit else (operation, None)
