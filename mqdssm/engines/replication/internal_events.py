"""Internal events: news that a module of this engine has for modules above it.

A module calls only modules below it; docs/architecture.md has the order. To start work of a higher module, it
publishes an event. `mqdssm.engines.replication.engine` has the table of the handlers. A handler runs within
the job of the publisher, and ends before `publish` returns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mqdssm.engines.replication.jobs import Job
from mqdssm.engines.replication.state import Partition, ReplicaState
from mqdssm.model.messages import DirectoryChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsChanged:
    """Changes of objects were written, with their numbers.

    The objects are ours, or those of another owner (3.1.7.2.3).

    Attributes:
        partition: the partition of the objects.
        changes: the changes, in order.
        flush: True if BSCs are sent changes of the topology at once.
    """

    partition: Partition
    changes: Sequence[DirectoryChange]
    flush: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessorNamed:
    """The last change of a partition of ours names its new authority (decision R38).

    Attributes:
        partition: the partition.
        successor: machine name of the new authority.
    """

    partition: Partition
    successor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverFailed:
    """The change that was to name a new authority was not written.

    This server stays the authority.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityChanged:
    """This server became the authority of a partition, or is no longer its authority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSwept:
    """A full synchronization removed the objects that no reply contained (3.3.7.11).

    Attributes:
        partition: the partition of the objects.
    """

    partition: Partition


InternalEvent: TypeAlias = (
    ObjectsChanged | SuccessorNamed | HandoverFailed | AuthorityChanged | PartitionSwept
)


def publish(server: ReplicaState, event: InternalEvent) -> Job[None]:
    """Let the handler of an event do its work.

    Args:
        server: the state of this server.
        event: what happened.
    """
    yield from server.handlers[type(event)](server, event)
