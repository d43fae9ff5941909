"""Plain words for operations and events, for logs and notes that operators read."""

from collections.abc import Mapping
from typing import Final

from mqdssm.engines.actions import TimerFired
from mqdssm.engines.replication import actions, operations

WORDS: Final[Mapping[type, str]] = {
    # operations of the store
    operations.LoadState: "reading the state of replication",
    operations.SavePartition: "saving the state of a partition",
    operations.RemovePartition: "removing a partition",
    operations.SaveNeighbor: "saving the state of a neighbour",
    operations.RemoveNeighbor: "removing a neighbour",
    operations.Recover: "finishing changes that were interrupted",
    operations.CreateObject: "creating an object",
    operations.UpdateObject: "changing an object",
    operations.DeleteObject: "deleting an object",
    operations.ReadObject: "reading an object",
    operations.ListObjects: "listing objects",
    operations.HasObjects: "looking for objects",
    operations.ApplyChanges: "applying changes of another server",
    operations.LookupChanges: "looking up changes for another server",
    operations.PurgeDeletedObjects: "purging deleted objects",
    operations.MarkPartition: "marking the objects of a partition",
    operations.SweepPartition: "removing objects that the owner does not have",
    operations.FindForeign: "looking for changes by other programs",
    # events of the engine
    actions.Started: "the start of the server",
    actions.Received: "a message of another server",
    actions.Nacked: "a message that was not delivered",
    TimerFired: "a timer",
    actions.Performed: "the result of an operation",
    actions.ChangeObject: "a change that a client requested",
    actions.PropagateChange: "a change that the directory has",
    actions.TakeOver: "a take-over of a role",
    actions.Resynchronize: "a full synchronization that was requested",
    actions.NameAuthority: "a change of the owner of a partition",
}
"""Words for each kind of operation and event, as the subject of a sentence."""


def describe_plainly(operation: object) -> str:
    """Return plain words for an operation or event.

    A kind without words, as one of a test, has the name of its class.

    Example::

        plain_words(LoadState())  # "reading the state of replication"
    """
    kind = type(operation)
    return WORDS.get(kind, kind.__name__)
