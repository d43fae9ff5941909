"""Simulated failures of store operations (decisions R66, R83).

An operation fails after all, a part or none of its work.

A directory may be full, or another program may have damaged entries. Earlier writes of the operation stay.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.operations import Operation, Result
from mqdssm.model.hresults import Hresult
from mqdssm.model.seqnum import MIN
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.stores import SimulatedStore, changes_of

_MOMENTS_MAX: Final = 8
"""A failure comes within the first four writes of an operation, or after all of them."""
_FAILED: Final = ops.Failed(reason="simulated")
_STATUSES: Final = (Hresult.MQ_ERROR_DS_IS_FULL, Hresult.MQ_ERROR_DS_ERROR)


def fail(
    store: SimulatedStore, operation: Operation, rng: SeededRandom, on_torn: Callable[[], None]
) -> Result:
    """Perform all, a part or none of an operation, and return a failure.

    Args:
        store: the store that performs the operation.
        operation: the operation.
        rng: chance.
        on_torn: called before the operation begins.

    Returns:
        The result for the engine.
    """
    moments = rng.draw_below(_MOMENTS_MAX)
    on_torn()
    if isinstance(operation, ops.ApplyChanges):
        return _fail_changes(store, operation, rng, moments)
    store.perform_torn(operation, moments)
    if rng.draw_one_in(3):
        return _FAILED
    if isinstance(operation, ops.CreateObject | ops.UpdateObject | ops.DeleteObject):
        return ops.ObjectOutcome(status=rng.of(_STATUSES))
    if isinstance(operation, ops.Recover):
        numbers = (change.seq_number for change in changes_of(store, operation.partition_id))
        return ops.Recovered(highest=max(numbers, default=MIN), status=rng.of(_STATUSES))
    return _FAILED


def _fail_changes(
    store: SimulatedStore, operation: ops.ApplyChanges, rng: SeededRandom, moments: int
) -> Result:
    """Apply the first changes of a batch and a part of the rest; return a failure."""
    if not operation.changes:
        return _FAILED
    count = rng.draw_below(len(operation.changes))
    if count:
        applied = store.perform(replace(operation, changes=operation.changes[:count]))
        count = applied.count if isinstance(applied, ops.Applied) else 0  # its disk may be full, too
    store.perform_torn(replace(operation, changes=operation.changes[count:]), moments)
    if rng.draw_one_in(3):
        return _FAILED
    return ops.Applied(count=rng.of((0, count)), status=rng.of(_STATUSES))
