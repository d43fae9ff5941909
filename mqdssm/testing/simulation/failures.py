"""Simulated failures of store operations, after all, a part or none of the work (decisions R66, R83).

A directory may be full, or another program may have damaged entries. Earlier writes of the operation stay.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.model.hresults import Hresult
from mqdssm.model.seqnum import MIN
from mqdssm.samples.seeded_random import Dice
from mqdssm.testing.simulation.stores import SimulatedStore, changes_of

_MOMENTS_MAX: Final = 8
"""A failure comes within the first four writes of an operation, or after all of them."""
_FAILED: Final = ops.Failed(reason="simulated")
_STATUSES: Final = (Hresult.MQ_ERROR_DS_IS_FULL, Hresult.MQ_ERROR_DS_ERROR)


def fail(store: SimulatedStore, operation: Operation, dice: Dice, on_torn: Callable[[], None]) -> Result:
    """Perform all, a part or none of an operation, and return a failure.

    Args:
        store: the store that performs the operation.
        operation: the operation.
        dice: chance.
        on_torn: called before the operation begins.

    Returns:
        The result for the engine.
    """
    moments = dice.below(_MOMENTS_MAX)
    on_torn()
    if isinstance(operation, ops.ApplyChanges):
        return _fail_changes(store, operation, dice, moments)
    store.perform_torn(operation, moments)
    if dice.one_in(3):
        return _FAILED
    if isinstance(operation, ops.CreateObject | ops.UpdateObject | ops.DeleteObject):
        return ops.ObjectOutcome(status=dice.of(_STATUSES))
    if isinstance(operation, ops.Recover):
        numbers = (one.seq_number for one in changes_of(store, operation.partition_id))
        return ops.Recovered(highest=max(numbers, default=MIN), status=dice.of(_STATUSES))
    return _FAILED


def _fail_changes(store: SimulatedStore, operation: ops.ApplyChanges, dice: Dice, moments: int) -> Result:
    """Apply the first changes of a batch and a part of the rest; return a failure."""
    if not operation.changes:
        return _FAILED
    count = dice.below(len(operation.changes))
    if count:
        applied = store.perform(replace(operation, changes=operation.changes[:count]))
        count = applied.count if isinstance(applied, ops.Applied) else 0  # its disk may be full, too
    store.perform_torn(replace(operation, changes=operation.changes[count:]), moments)
    if dice.one_in(3):
        return _FAILED
    return ops.Applied(count=dice.of((0, count)), status=dice.of(_STATUSES))
