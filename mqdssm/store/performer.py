"""What every store is: something that performs the operations of the replication engine.

The contract that all stores pass is in ``tests/support/store_contract.py``; it proves what the docstrings of
`mqdssm.engines.replication.operations` and decisions R50 to R52 say.
"""

from typing import Protocol, overload

from mqdssm.engines.replication.operations import (
    Answer,
    Applied,
    ApplyChanges,
    ChangesFound,
    CreateObject,
    DeleteObject,
    Done,
    HasObjects,
    ListObjects,
    LoadState,
    LookupChanges,
    MarkPartition,
    ObjectRead,
    ObjectsListed,
    Operation,
    Outcome,
    PurgeDeletedObjects,
    ReadObject,
    Recover,
    Recovered,
    RemoveNeighbor,
    RemovePartition,
    Result,
    SaveNeighbor,
    SavePartition,
    State,
    SweepPartition,
    UpdateObject,
)
from mqdssm.store.lookup import LookupSource


class Store(LookupSource, Protocol):
    """A directory as the engine sees it ([MC-MQDSRP] 3.1.1), and where lookups find its objects."""

    @overload
    def perform(self, operation: LoadState) -> State: ...
    @overload
    def perform(
        self,
        operation: SavePartition
        | RemovePartition
        | SaveNeighbor
        | RemoveNeighbor
        | PurgeDeletedObjects
        | MarkPartition
        | SweepPartition,
    ) -> Done: ...
    @overload
    def perform(self, operation: Recover) -> Recovered: ...
    @overload
    def perform(self, operation: CreateObject | UpdateObject | DeleteObject) -> Outcome: ...
    @overload
    def perform(self, operation: ReadObject) -> ObjectRead: ...
    @overload
    def perform(self, operation: ListObjects) -> ObjectsListed: ...
    @overload
    def perform(self, operation: HasObjects) -> Answer: ...
    @overload
    def perform(self, operation: ApplyChanges) -> Applied: ...
    @overload
    def perform(self, operation: LookupChanges) -> ChangesFound: ...
    @overload
    def perform(self, operation: Operation) -> Result: ...
    def perform(self, operation: Operation) -> Result:
        """Do one operation; what it gives is durable when this returns.

        Raises:
            DirectoryError: the directory cannot be reached; the operation may be repeated.
        """
        ...

    def close(self) -> None:
        """Let go of the directory; nothing is lost."""
        ...
