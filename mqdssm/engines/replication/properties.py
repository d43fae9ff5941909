"""Properties of objects and changes: identifiers, values, sizes on the wire.

The sizes are estimates.
"""

from collections.abc import Mapping
from typing import Final

from mqdssm.model.guid import Guid
from mqdssm.model.messages import (
    Command,
    DirectoryChange,
    Properties,
    PropertyValue,
    Scope,
    make_deletion_properties,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import Service
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.tables.properties import PROPERTY_TABLES

IDENTIFIERS: Final[Mapping[ObjectType, Propid]] = {
    object_type: table.identity
    for object_type, table in PROPERTY_TABLES.items()
    if object_type is not ObjectType.DELETED_OBJECT
}
"""Property that holds an object's GUID ([MS-MQDS] 3.1.4.21.3, decisions R11 and R20)."""
SITE_TYPES: Final = frozenset({ObjectType.MACHINE, ObjectType.QUEUE})
"""Types of objects in site partitions; all others are in the enterprise's ([MC-MQDSRP] 1.3.1.2)."""
_TYPES: Final[Mapping[int, ObjectType]] = {int(object_type): object_type for object_type in ObjectType}
CONTROLLER: Final = Service.PSC | Service.PEC
"""Roles of a machine that owns its site's partition."""

_CHANGE_BYTES: Final = 100  # of a change without names and properties, at most
_PROPERTY_BYTES: Final = 12  # of a property's number, and its length
_NUMBER_BYTES: Final = 8


def get_value(properties: Properties, propid: Propid) -> PropertyValue | None:
    """Return a property's value; None if it is not given."""
    for key, value in properties:
        if key == propid:
            return value
    return None


def get_text(properties: Properties, propid: Propid) -> str | None:
    """Return a property's text; None if it is not given or not a text."""
    value = get_value(properties, propid)
    return value if isinstance(value, str) else None


def get_roles(properties: Properties) -> Service | None:
    """Return the roles of a machine; None if PROPID_QM_SERVICE is not given."""
    value = get_value(properties, Propid.QM_SERVICE)
    return Service(value) if isinstance(value, int) else None


def has_role(properties: Properties, role: Service) -> bool:
    """Return True if a machine has one of these roles."""
    value = get_value(properties, Propid.QM_SERVICE)
    return isinstance(value, int) and int(value) & int(role) != 0


def get_guid(properties: Properties, propid: Propid) -> Guid | None:
    """Return a property's GUID; None if it is not given or not a GUID."""
    value = get_value(properties, propid)
    return value if isinstance(value, Guid) else None


def with_identifier(object_type: ObjectType, identifier: Guid, properties: Properties) -> Properties:
    """Return the properties of a new object with its GUID among them (decision R11)."""
    propid = IDENTIFIERS[object_type]
    return properties if get_value(properties, propid) is not None else (*properties, (propid, identifier))


def make_object_change(
    object_type: ObjectType,
    identifier: Guid,
    partition_id: Guid,
    number: SequenceNumber,
    properties: Properties,
) -> DirectoryChange:
    """Return an object as a change of command 3 ([MC-MQDSRP] 3.2.7.8).

    If there are no other properties, the change has the GUID of the object.
    """
    without = tuple(pair for pair in properties if pair[0] != IDENTIFIERS[object_type])
    return DirectoryChange(
        command=Command.SYNC,
        guid_identifier=identifier,
        partition_id=partition_id,
        previous_seq_number=MIN,
        seq_number=number,
        purged_seq_number=MIN,
        properties=without or ((IDENTIFIERS[object_type], identifier),),  # decisions R19, R94
    )


def make_deletion(
    object_type: ObjectType,
    identifier: Guid,
    partition_id: Guid,
    number: SequenceNumber,
    scope: Scope,
    *,
    purged: SequenceNumber = MIN,
) -> DirectoryChange:
    """Return a deletion as a change ([MC-MQDSRP] 3.2.7.3, decision R20)."""
    return DirectoryChange(
        command=Command.DELETE,
        guid_identifier=identifier,
        partition_id=partition_id,
        previous_seq_number=MIN,
        seq_number=number,
        purged_seq_number=purged,
        properties=make_deletion_properties(object_type, scope),
    )


def type_of(change: DirectoryChange) -> ObjectType | None:
    """Return the type of the object that a change is about (3.1.7.2.3).

    None if it is unknown.
    """
    if change.command is not Command.DELETE:
        return change.object_type
    value = change.get(Propid.D_OBJTYPE)
    return _TYPES.get(value) if isinstance(value, int) else None


def size_of_change(change: DirectoryChange) -> int:
    """Estimate the octets of a directory change ([MC-MQDSRP] 2.2.4).

    The estimate is rather too high than too low.
    """
    name = 2 * len(change.path_name or "")
    sizes = [size_of(value) for _, value in change.properties]
    return _CHANGE_BYTES + name + _PROPERTY_BYTES * len(sizes) + sum(sizes)


def size_of(value: PropertyValue) -> int:
    """Estimate the octets of a property's value ([MS-MQCN] 2.2.3)."""
    if isinstance(value, int):
        return _NUMBER_BYTES
    if isinstance(value, str):
        return 2 * len(value) + 2
    if isinstance(value, tuple):
        return sum(map(size_of, value))
    return len(value)
