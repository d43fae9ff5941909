"""Interface of stores, which perform the replication engine's operations.

All stores pass the contract in ``tests/support/store/contract.py``. It checks the docstrings of
`mqdssm.engines.replication.operations` and decisions R50 to R52.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, get_args, overload

from mqdssm.engines.replication import operations as ops
from mqdssm.model.hresults import Hresult


class Store(Protocol):
    """A directory for the replication engine ([MC-MQDSRP] 3.1.1)."""

    @overload
    def perform(self, operation: ops.LoadState) -> ops.PersistedState: ...
    @overload
    def perform(
        self,
        operation: ops.SavePartition
        | ops.RemovePartition
        | ops.SaveNeighbor
        | ops.RemoveNeighbor
        | ops.PurgeDeletedObjects
        | ops.MarkPartition
        | ops.SweepPartition,
    ) -> ops.Done: ...
    @overload
    def perform(self, operation: ops.Recover) -> ops.Recovered: ...
    @overload
    def perform(
        self, operation: ops.CreateObject | ops.UpdateObject | ops.DeleteObject
    ) -> ops.ObjectOutcome: ...
    @overload
    def perform(self, operation: ops.ReadObject) -> ops.ObjectRead: ...
    @overload
    def perform(self, operation: ops.ListObjects) -> ops.ObjectsListed: ...
    @overload
    def perform(self, operation: ops.HasObjects) -> ops.Answer: ...
    @overload
    def perform(self, operation: ops.ApplyChanges) -> ops.Applied: ...
    @overload
    def perform(self, operation: ops.LookupChanges) -> ops.ChangesFound: ...
    @overload
    def perform(self, operation: ops.FindForeign) -> ops.ForeignFound: ...
    @overload
    def perform(self, operation: ops.Operation) -> ops.Result: ...
    def perform(self, operation: ops.Operation) -> ops.Result:
        """Perform one operation; its result is durable when this returns.

        Raises:
            DirectoryError: the directory cannot be reached; the operation may be repeated.
        """
        ...

    def close(self) -> None:
        """Close the connection to the directory; no data are lost."""
        ...


METHODS: Final[Mapping[type[ops.Operation], str]] = {
    ops.LoadState: "_load_state",
    ops.SavePartition: "_save_partition",
    ops.RemovePartition: "_remove_partition",
    ops.SaveNeighbor: "_save_neighbor",
    ops.RemoveNeighbor: "_remove_neighbor",
    ops.Recover: "_recover",
    ops.CreateObject: "_create",
    ops.UpdateObject: "_update",
    ops.DeleteObject: "_delete",
    ops.ReadObject: "_read",
    ops.ListObjects: "_list",
    ops.HasObjects: "_has_objects",
    ops.ApplyChanges: "_apply_changes",
    ops.LookupChanges: "_lookup_changes",
    ops.PurgeDeletedObjects: "_purge",
    ops.MarkPartition: "_mark",
    ops.SweepPartition: "_sweep",
    ops.FindForeign: "_find_foreign",
}
"""Name of the method of every store that performs each operation."""

FULL: Final[Mapping[type[ops.Operation], ops.Result]] = {
    **dict.fromkeys(
        (ops.CreateObject, ops.UpdateObject, ops.DeleteObject),
        ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_IS_FULL),
    ),
    ops.ApplyChanges: ops.Applied(count=0, status=Hresult.MQ_ERROR_DS_IS_FULL),
}
"""Results of changes when the directory is full (decision R66); other operations raise, and are repeated."""

if set(METHODS) != set(get_args(ops.Operation)):
    raise ValueError("an operation of the engine has no method, or a method no operation")


def map_performers(store: object) -> Mapping[type[ops.Operation], Callable[[Any], ops.Result]]:
    """Return the methods of a store that perform the operations.

    Raises:
        AttributeError: the store lacks a method.
    """
    return MappingProxyType({operation: getattr(store, name) for operation, name in METHODS.items()})
