"""Interface of all stores, which perform the operations of the replication engine.

All stores pass the contract in ``tests/support/store/contract.py``. It checks the docstrings of
`mqdssm.engines.replication.operations` and decisions R50 to R52.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, get_args, overload

from mqdssm.engines.replication.operations import (
    Answer,
    Applied,
    ApplyChanges,
    ChangesFound,
    CreateObject,
    DeleteObject,
    Done,
    FindForeign,
    ForeignFound,
    HasObjects,
    ListObjects,
    LoadState,
    LookupChanges,
    MarkPartition,
    ObjectOutcome,
    ObjectRead,
    ObjectsListed,
    Operation,
    PersistedState,
    PurgeDeletedObjects,
    ReadObject,
    Recover,
    Recovered,
    RemoveNeighbor,
    RemovePartition,
    Result,
    SaveNeighbor,
    SavePartition,
    SweepPartition,
    UpdateObject,
)
from mqdssm.model.hresults import Hresult


class Store(Protocol):
    """A directory for the replication engine ([MC-MQDSRP] 3.1.1)."""

    @overload
    def perform(self, operation: LoadState) -> PersistedState: ...
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
    def perform(self, operation: CreateObject | UpdateObject | DeleteObject) -> ObjectOutcome: ...
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
    def perform(self, operation: FindForeign) -> ForeignFound: ...
    @overload
    def perform(self, operation: Operation) -> Result: ...
    def perform(self, operation: Operation) -> Result:
        """Perform one operation; its result is durable when this returns.

        Raises:
            DirectoryError: the directory cannot be reached; the operation may be repeated.
        """
        ...

    def close(self) -> None:
        """Close the connection to the directory; no data are lost."""
        ...


METHODS: Final[Mapping[type[Operation], str]] = MappingProxyType(
    {
        LoadState: "_load_state",
        SavePartition: "_save_partition",
        RemovePartition: "_remove_partition",
        SaveNeighbor: "_save_neighbor",
        RemoveNeighbor: "_remove_neighbor",
        Recover: "_recover",
        CreateObject: "_create",
        UpdateObject: "_update",
        DeleteObject: "_delete",
        ReadObject: "_read",
        ListObjects: "_list",
        HasObjects: "_has_objects",
        ApplyChanges: "_apply_changes",
        LookupChanges: "_lookup_changes",
        PurgeDeletedObjects: "_purge",
        MarkPartition: "_mark",
        SweepPartition: "_sweep",
        FindForeign: "_find_foreign",
    }
)
"""Name of the method of every store that performs each operation."""

FULL: Final[Mapping[type[Operation], Result]] = MappingProxyType(
    {
        **dict.fromkeys(
            (CreateObject, UpdateObject, DeleteObject), ObjectOutcome(status=Hresult.MQ_ERROR_DS_IS_FULL)
        ),
        ApplyChanges: Applied(count=0, status=Hresult.MQ_ERROR_DS_IS_FULL),
    }
)
"""Results of changes when the directory is full (decision R66); other operations raise, and are repeated."""

if set(METHODS) != set(get_args(Operation)):
    raise ValueError("an operation of the engine has no method, or a method no operation")


def performers(store: object) -> Mapping[type[Operation], Callable[[Any], Result]]:
    """Return the methods of a store that perform the operations.

    Raises:
        AttributeError: the store lacks a method.
    """
    return MappingProxyType({one: getattr(store, name) for one, name in METHODS.items()})
