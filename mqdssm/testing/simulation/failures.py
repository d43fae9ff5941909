"""Operations of stores that fail, after they have done all, a part or nothing (decisions R66, R83).

A directory may be full, or hold what another program has damaged: what was written before that is there.
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
"""A failure comes within the first four writes of an operation, or behind all of them."""
_FAILED: Final = ops.Failed(reason="simulated")
_STATUSES: Final = (Hresult.MQ_ERROR_DS_IS_FULL, Hresult.MQ_ERROR_DS_ERROR)


def fail(store: SimulatedStore, operation: Operation, dice: Dice, on_torn: Callable[[], None]) -> Result:
    """Let an operation fail.

    Args:
        store: what performs it.
        operation: the operation.
        dice: chance.
        on_torn: called before something of it is done.

    Returns:
        What the engine is told.
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
    """Apply some changes of several, and a part of the others."""
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
