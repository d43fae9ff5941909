"""Jobs: handlers as generators that yield operations and get their results.

A handler reads like the specification ([MC-MQDSRP] 3.2.7) and does no I/O itself.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import Service

T = TypeVar("T")
R = TypeVar("R")
Job: TypeAlias = Generator[ops.Operation, ops.Result, T]
"""A running handler: it yields operations, and is sent their results."""


def perform(operation: ops.Operation, expected: type[R]) -> Job[R]:
    """Yield an operation to the driver and return its result.

    Raises:
        TypeError: the driver returned the result of another operation.
    """
    result = yield operation
    if not isinstance(result, expected):
        raise TypeError(f"{type(operation).__name__} was answered by {type(result).__name__}")
    return result


def read_object(
    object_type: ObjectType,
    *,
    identifier: Guid | None = None,
    path_name: str | None = None,
    partition_id: Guid | None = None,
) -> Job[ops.ObjectRead]:
    """Read one object of the directory.

    See `mqdssm.engines.replication.operations.ReadObject`.
    """
    operation = ops.ReadObject(
        object_type=object_type, identifier=identifier, path_name=path_name, partition_id=partition_id
    )
    return perform(operation, ops.ObjectRead)


def list_objects(
    object_type: ObjectType, partition_id: Guid, service: Service = Service.NONE
) -> Job[tuple[ops.ObjectRead, ...]]:
    """Read the objects of a type in a partition.

    Of machines, only those with one of some services are read.
    """
    operation = ops.ListObjects(object_type=object_type, partition_id=partition_id, service=int(service))
    listed = yield from perform(operation, ops.ObjectsListed)
    return listed.objects
