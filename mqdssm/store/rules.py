"""What every store does alike with the properties of objects ([MS-MQDS] 3.1.6.3 to 3.1.6.6)."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeGuard

from mqdssm.engines.replication.properties import deletion
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties, PropertyValue, Scope
from mqdssm.model.propids import BLOBS, GUIDS, INTEGERS, LISTS, ObjectType, Propid, Variant
from mqdssm.model.queuenames import lower_each
from mqdssm.model.replication import DeletedObject
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.tables.creation import DEFAULTS, REQUIRED
from mqdssm.tables.properties import PROPERTY_TABLES
from mqdssm.tables.property_facts import CHANGED
from mqdssm.tables.property_rows import PropertyRole

PATH_CHARS_MAX: Final = 512
"""Longest path name that is accepted: any such fits the 1,024 UTF-16 units of a change."""
TEXT_CHARS_MAX: Final = 16_000
"""Longest text that is accepted; a change carries 32,767 UTF-16 units."""
OBJECT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Largest object that is accepted: a message of 4 MiB has to carry it whole."""

EXISTS: Final[Mapping[ObjectType, Hresult]] = MappingProxyType(
    {
        **dict.fromkeys(CHANGED, Hresult.MQ_ERROR),
        ObjectType.QUEUE: Hresult.MQ_ERROR_QUEUE_EXISTS,
        ObjectType.MACHINE: Hresult.MQ_ERROR_MACHINE_EXISTS,
    }
)
"""The status of a creation or renaming whose path name or identifier another object has."""

IDENTITY: Final[Mapping[ObjectType, Propid]] = MappingProxyType(
    {one: table.identity for one, table in PROPERTY_TABLES.items()}
)
"""The property that is an object's GUID ([MS-MQDS] 3.1.4.21.3)."""
NAME: Final[Mapping[ObjectType, Propid | None]] = MappingProxyType(
    {one: table.name for one, table in PROPERTY_TABLES.items()}
)
"""The property that is an object's path name ([MS-MQDS] 3.1.4.21.4); None: its type has none."""
NUMBERING: Final[Mapping[ObjectType, tuple[Propid, Propid]]] = MappingProxyType(
    {
        one: (
            next(row.propid for row in table.rows if row.role is PropertyRole.PARTITION),
            next(row.propid for row in table.rows if row.role is PropertyRole.SEQNUM),
        )
        for one, table in PROPERTY_TABLES.items()
    }
)
"""The properties that are an object's partition and its number."""
_KEPT: Final[Mapping[ObjectType, frozenset[Propid]]] = {
    one: frozenset(row.propid for row in table.rows if row.propid != table.identity and not row.is_numbering)
    for one, table in PROPERTY_TABLES.items()
}


def name_key(path_name: str) -> str:
    """A path name for comparison: names are the same in any case."""
    return lower_each(path_name)


def computer_of(path_name: str) -> str:
    """The computer of a queue's path name, for comparison."""
    return lower_each(path_name.partition("\\")[0])


# -- properties of objects -----------------------------------------------------------------------------


def kept(
    object_type: ObjectType, properties: Iterable[tuple[Propid, PropertyValue]]
) -> dict[Propid, PropertyValue]:
    """The properties that an object of the type keeps; identifier, number and partition are none of them."""
    mine = _KEPT[object_type]
    return {propid: value for propid, value in properties if propid in mine}


def whole(
    object_type: ObjectType, path_name: str | None, properties: Iterable[tuple[Propid, PropertyValue]]
) -> dict[Propid, PropertyValue]:
    """All properties of a new object, or of one that is replaced: what is given, and the defaults.

    A path name that stands among the properties counts more than the argument ([MS-MQDS] 3.1.6.3).
    """
    made = {**DEFAULTS[object_type], **kept(object_type, properties)}
    name = NAME[object_type]
    if name is not None and path_name is not None:
        made.setdefault(name, path_name)
    return made


def replicated(
    object_type: ObjectType, identifier: Guid, values: Mapping[Propid, PropertyValue]
) -> Properties:
    """What a change carries of an object, in the order of DirectoryChangePropID ([MC-MQDSRP] 3.2.7.8).

    An object that has none of these gives its identifier: a change has a property (decision R19).
    """
    found = tuple((propid, values[propid]) for propid in CHANGED[object_type] if propid in values)
    return found or ((IDENTITY[object_type], identifier),)


def view_of(
    object_type: ObjectType,
    identifier: Guid,
    numbering: tuple[Guid, SequenceNumber],
    values: Mapping[Propid, PropertyValue],
) -> Mapping[Propid, PropertyValue]:
    """All properties of an object as a lookup sees them, identifier, partition and number among them."""
    partition, number = NUMBERING[object_type]
    mine = {IDENTITY[object_type]: identifier, partition: numbering[0], number: bytes(numbering[1])}
    return {**values, **mine}


def identifier_in(object_type: ObjectType, properties: Iterable[tuple[Propid, PropertyValue]]) -> Guid | None:
    """The GUID that stands among properties; None: none, or no GUID."""
    identity = IDENTITY[object_type]
    for propid, value in properties:
        if propid == identity:
            return Guid(value) if is_guid(value) else None
    return None


# -- what a client may not do --------------------------------------------------------------------------


def creation_problem(
    object_type: ObjectType, path_name: str | None, properties: Properties
) -> Hresult | None:
    """Why an object is not created ([MS-MQDS] 3.1.6.3); None: nothing speaks against it.

    Raises nothing: MQDS_WRONG_OBJ_TYPE is a type that no object has, MQ_ERROR_PROPERTY a missing identifier
    (decision R11) or a bad value, MQ_ERROR_INSUFFICIENT_PROPERTIES a required property that is missing.
    """
    if object_type not in DEFAULTS:
        return Hresult.MQDS_WRONG_OBJ_TYPE
    if identifier_in(object_type, properties) is None or _bad_values(object_type, path_name, properties):
        return Hresult.MQ_ERROR_PROPERTY
    given = {propid for propid, _ in properties}
    if path_name is not None:
        given.add(NAME[object_type] or IDENTITY[object_type])
    if not given.issuperset(REQUIRED[object_type]):
        return Hresult.MQ_ERROR_INSUFFICIENT_PROPERTIES
    return None


def update_problem(
    object_type: ObjectType, identifier: Guid, before: Mapping[Propid, PropertyValue], properties: Properties
) -> Hresult | None:
    """Why an object is not updated ([MS-MQDS] 3.1.6.4): a bad value, or another identifier; None: it is."""
    identity = IDENTITY[object_type]
    if any(propid == identity and value != identifier for propid, value in properties):
        return Hresult.MQ_ERROR_PROPERTY
    if _bad_values(object_type, None, properties):
        return Hresult.MQ_ERROR_PROPERTY
    if bytes_at_most(properties) + bytes_at_most(before.items()) > OBJECT_BYTES_MAX:
        return Hresult.MQ_ERROR_PROPERTY
    return None


def _bad_values(object_type: ObjectType, path_name: str | None, properties: Properties) -> bool:
    """Whether a value is none of its property's type, or more than a change can carry.

    Properties of other types are ignored, whatever their values.
    """
    name = NAME[object_type]
    mine = _KEPT[object_type]
    names = [path_name] if path_name is not None else []
    for propid, value in properties:
        if propid not in mine:
            continue
        if not is_value(propid, value):
            return True
        if propid == name:
            names.append(str(value))
    if any(not one or len(one) > PATH_CHARS_MAX or "\0" in one for one in names):
        return True
    return bytes_at_most(properties) > OBJECT_BYTES_MAX


def is_value(propid: Propid, value: object) -> bool:
    """Whether a value is one of a property's variant ([MS-MQMQ] 2.2.12)."""
    variant = propid.variant
    bounds = INTEGERS.get(variant)
    if bounds is not None:
        return isinstance(value, int) and not isinstance(value, bool) and bounds[0] <= value <= bounds[1]
    if variant is Variant.LPWSTR:
        return _is_text(value)
    if variant in BLOBS:
        return isinstance(value, bytes)
    if variant in LISTS:
        return isinstance(value, tuple) and all(_is_item(variant, one) for one in value)
    return variant in GUIDS and is_guid(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_CHARS_MAX and "\0" not in value


def is_guid(value: object) -> TypeGuard[bytes]:
    """Whether a value is what a GUID is on the wire: 16 bytes."""
    return isinstance(value, bytes) and len(value) == GUID_BYTES


def _is_item(variant: Variant, value: object) -> bool:
    if variant in GUIDS:
        return is_guid(value)
    if variant is Variant.LPWSTRS:
        return _is_text(value)
    low, high = INTEGERS[Variant.UI4]
    return isinstance(value, int) and low <= value <= high


_CHANGE_BYTES: Final = 64  # a change without its name and properties
_PROPID_BYTES: Final = 4
_COUNT_BYTES: Final = 4
_INTEGER_BYTES: Final = 8
_CHAR_BYTES: Final = 4  # of UTF-16


def bytes_at_most(properties: Iterable[tuple[Propid, PropertyValue]]) -> int:
    """Octets that a change with these properties takes in a message, or a few more."""
    size = _CHANGE_BYTES
    for _, value in properties:
        size += _PROPID_BYTES + _value_bytes(value)
    return size


def _value_bytes(value: object) -> int:
    if isinstance(value, int):
        return _INTEGER_BYTES
    if isinstance(value, bytes):
        return _COUNT_BYTES + len(value)
    if isinstance(value, str):
        return _COUNT_BYTES + (2 if value.isascii() else _CHAR_BYTES) * len(value)
    return _COUNT_BYTES + sum(map(_value_bytes, value)) if isinstance(value, tuple) else 0


# -- objects and tombstones as changes -----------------------------------------------------------------


def object_change(
    partition_id: Guid,
    identifier: Guid,
    seq_number: SequenceNumber,
    purged: SequenceNumber,
    properties: Properties,
) -> DirectoryChange:
    """An object as synchronization carries it ([MC-MQDSRP] 3.2.7.8); PreviousSeqNumber is not set yet."""
    return DirectoryChange(
        command=Command.SYNC,
        guid_identifier=identifier,
        partition_id=partition_id,
        seq_number=seq_number,
        purged_seq_number=purged,
        properties=properties,
    )


def deletion_change(grave: DeletedObject, purged: SequenceNumber) -> DirectoryChange:
    """A tombstone as synchronization carries it ([MC-MQDSRP] 3.2.7.3)."""
    return deletion(
        grave.object_type, grave.identifier, grave.partition_id, grave.seq_number, grave.scope, purged=purged
    )


def type_said(value: PropertyValue | None) -> ObjectType:
    """The type that PROPID_D_OBJTYPE says a deleted object had; DELETED_OBJECT: it says none of ours."""
    return ObjectType(value) if value in _TYPE_NUMBERS else ObjectType.DELETED_OBJECT


def scope_said(value: PropertyValue | None) -> Scope:
    """How far PROPID_D_SCOPE says a deletion is seen; the whole enterprise, if it says nothing."""
    return Scope.SITE if value == Scope.SITE else Scope.ENTERPRISE


def deletion_of(change: DirectoryChange, identifier: Guid, object_type: ObjectType) -> DeletedObject:
    """The tombstone that a deletion leaves ([MC-MQDSRP] 3.1.7.2.7, decision R20).

    Args:
        change: the deletion.
        identifier: of the object, wherever it comes from.
        object_type: of the object, where it is there; else what the change says.
    """
    return DeletedObject(
        identifier=identifier,
        partition_id=change.partition_id,
        seq_number=change.seq_number,
        object_type=object_type,
        scope=scope_said(change.get(Propid.D_SCOPE)),
    )


_TYPE_NUMBERS: Final = frozenset(map(int, ObjectType))
