"""What every store is: something that performs the operations of the replication engine.

The contract that all stores pass is in ``tests/support/store_contract.py``; it proves what the docstrings of
`mqdssm.engines.replication.operations` and decisions R50 to R52 say.
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
from mqdssm.store.lookup import LookupSource


class Store(LookupSource, Protocol):
    """A directory as the engine sees it ([MC-MQDSRP] 3.1.1), and where lookups find its objects."""

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
        """Do one operation; what it gives is durable when this returns.

        Raises:
            DirectoryError: the directory cannot be reached; the operation may be repeated.
        """
        ...

    def close(self) -> None:
        """Let go of the directory; nothing is lost."""
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
"""Which method of every store performs which operation."""

FULL: Final[Mapping[type[Operation], Result]] = MappingProxyType(
    {
        **dict.fromkeys(
            (CreateObject, UpdateObject, DeleteObject), ObjectOutcome(status=Hresult.MQ_ERROR_DS_IS_FULL)
        ),
        ApplyChanges: Applied(count=0, status=Hresult.MQ_ERROR_DS_IS_FULL),
    }
)
"""What becomes of changes that a directory has no room for (decision R66); all else waits for room."""

if set(METHODS) != set(get_args(Operation)):
    raise ValueError("an operation of the engine has no method, or a method no operation")


def performers(store: object) -> Mapping[type[Operation], Callable[[Any], Result]]:
    """The methods of a store that perform the operations.

    Raises:
        AttributeError: it lacks one.
    """
    return MappingProxyType({one: getattr(store, name) for one, name in METHODS.items()})
