"""Rules for properties of objects, shared by all stores.

See [MS-MQDS] 3.1.6.3 to 3.1.6.6.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, TypeGuard

from mqdssm.engines.replication.properties import make_deletion
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties, PropertyValue, Scope
from mqdssm.model.propids import BLOBS, GUIDS, INTEGERS, LISTS, ObjectType, Propid, Variant
from mqdssm.model.queuenames import lower_each
from mqdssm.model.replication import DeletedObject
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.tables.creation import DEFAULTS, REQUIRED
from mqdssm.tables.properties import PROPERTY_TABLES
from mqdssm.tables.property_rows import CHANGED

PATH_CHARS_MAX: Final = 512
"""Longest path name that is accepted: it always fits the 1,024 UTF-16 units of a change."""
TEXT_CHARS_MAX: Final = 16_000
"""Longest text that is accepted; a change carries 32,767 UTF-16 units."""
OBJECT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Largest object that is accepted: it has to fit into a message of 4 MiB."""

EXISTS: Final[Mapping[ObjectType, Hresult]] = {
    **dict.fromkeys(CHANGED, Hresult.MQ_ERROR),
    ObjectType.QUEUE: Hresult.MQ_ERROR_QUEUE_EXISTS,
    ObjectType.MACHINE: Hresult.MQ_ERROR_MACHINE_EXISTS,
}
"""Status of a creation or renaming if another object has the path name or identifier."""

IDENTITY: Final[Mapping[ObjectType, Propid]] = {
    object_type: table.identity for object_type, table in PROPERTY_TABLES.items()
}
"""Property that holds an object's GUID ([MS-MQDS] 3.1.4.21.3)."""
NAME: Final[Mapping[ObjectType, Propid | None]] = {
    object_type: table.name for object_type, table in PROPERTY_TABLES.items()
}
"""Property that holds an object's path name ([MS-MQDS] 3.1.4.21.4); None if its type has none."""
_KEPT: Final[Mapping[ObjectType, frozenset[Propid]]] = {
    object_type: frozenset(
        row.propid for row in table.rows if row.propid != table.identity and not row.is_numbering
    )
    for object_type, table in PROPERTY_TABLES.items()
}


def name_key(path_name: str) -> str:
    """Return a path name in comparable form, without case."""
    return lower_each(path_name)


def computer_of(path_name: str) -> str:
    """Return the computer of a queue's path name, in comparable form."""
    return lower_each(path_name.partition("\\")[0])


# -- properties of objects -----------------------------------------------------------------------------


def select_kept_properties(
    object_type: ObjectType, properties: Iterable[tuple[Propid, PropertyValue]]
) -> dict[Propid, PropertyValue]:
    """Return the properties that an object of the type keeps.

    Identifier, number and partition are not among them.
    """
    mine = _KEPT[object_type]
    return {propid: value for propid, value in properties if propid in mine}


def complete_properties(
    object_type: ObjectType, path_name: str | None, properties: Iterable[tuple[Propid, PropertyValue]]
) -> dict[Propid, PropertyValue]:
    """Return all properties of a new or replaced object, with defaults.

    A path name among the properties takes precedence over the argument ([MS-MQDS] 3.1.6.3).
    """
    all_properties = {**DEFAULTS[object_type], **select_kept_properties(object_type, properties)}
    name = NAME[object_type]
    if name is not None and path_name is not None:
        all_properties.setdefault(name, path_name)
    return all_properties


def select_replicated(
    object_type: ObjectType, identifier: Guid, values: Mapping[Propid, PropertyValue]
) -> Properties:
    """Return the properties in a change, in the order of DirectoryChangePropID.

    See [MC-MQDSRP] 3.2.7.8.

    An object without any of these has its identifier, since a change needs a property (decision R19).
    """
    pairs = tuple([(propid, values[propid]) for propid in CHANGED[object_type] if propid in values])
    return pairs or ((IDENTITY[object_type], identifier),)


def find_identifier(
    object_type: ObjectType, properties: Iterable[tuple[Propid, PropertyValue]]
) -> Guid | None:
    """Return the GUID among properties; None if it is missing or not a GUID."""
    identity = IDENTITY[object_type]
    for propid, value in properties:
        if propid == identity:
            return Guid(value) if is_guid(value) else None
    return None


# -- checks of a client's changes ----------------------------------------------------------------------


def find_creation_problem(
    object_type: ObjectType, path_name: str | None, properties: Properties
) -> Hresult | None:
    """Return why an object cannot be created ([MS-MQDS] 3.1.6.3); None if it can.

    MQDS_WRONG_OBJ_TYPE: objects cannot have this type. MQ_ERROR_PROPERTY: the identifier is missing (decision
    R11), or a value is not valid. MQ_ERROR_INSUFFICIENT_PROPERTIES: a required property is missing.
    """
    if object_type not in DEFAULTS:
        return Hresult.MQDS_WRONG_OBJ_TYPE
    if find_identifier(object_type, properties) is None or _has_bad_values(
        object_type, path_name, properties
    ):
        return Hresult.MQ_ERROR_PROPERTY
    propids = {propid for propid, _ in properties}
    if path_name is not None:
        propids.add(NAME[object_type] or IDENTITY[object_type])
    if not propids.issuperset(REQUIRED[object_type]):
        return Hresult.MQ_ERROR_INSUFFICIENT_PROPERTIES
    return None


def update_problem(
    object_type: ObjectType, identifier: Guid, before: Mapping[Propid, PropertyValue], properties: Properties
) -> Hresult | None:
    """Return why an update is refused ([MS-MQDS] 3.1.6.4).

    The reason is a bad value or identifier. None if the update is not refused.
    """
    identity = IDENTITY[object_type]
    if any(propid == identity and value != identifier for propid, value in properties):
        return Hresult.MQ_ERROR_PROPERTY
    if _has_bad_values(object_type, None, properties):
        return Hresult.MQ_ERROR_PROPERTY
    if measure_at_most(properties) + measure_at_most(before.items()) > OBJECT_BYTES_MAX:
        return Hresult.MQ_ERROR_PROPERTY
    return None


def _has_bad_values(object_type: ObjectType, path_name: str | None, properties: Properties) -> bool:
    """Return True if a value is invalid, or all are too large for a change.

    A value has to be valid for its property.

    Properties of other types of objects are ignored.
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
    if any(not name or len(name) > PATH_CHARS_MAX or "\0" in name for name in names):
        return True
    return measure_at_most(properties) > OBJECT_BYTES_MAX


def is_value(propid: Propid, value: object) -> bool:
    """Return True if a value is valid for a property's variant ([MS-MQMQ] 2.2.12)."""
    variant = propid.variant
    bounds = INTEGERS.get(variant)
    if bounds is not None:
        return isinstance(value, int) and not isinstance(value, bool) and bounds[0] <= value <= bounds[1]
    if variant is Variant.LPWSTR:
        return _is_text(value)
    if variant in BLOBS:
        return isinstance(value, bytes)
    if variant in LISTS:
        return isinstance(value, tuple) and all(_is_item(variant, item) for item in value)
    return variant in GUIDS and is_guid(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_CHARS_MAX and "\0" not in value


def is_guid(value: object) -> TypeGuard[bytes]:
    """Return True if a value is a GUID in wire format: 16 bytes."""
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


def measure_at_most(properties: Iterable[tuple[Propid, PropertyValue]]) -> int:
    """Estimate the octets of a change with these properties in a message.

    The estimate is rather too high than too low.
    """
    size = _CHANGE_BYTES
    for _, value in properties:
        size += _PROPID_BYTES + (_INTEGER_BYTES if isinstance(value, int) else _measure_value(value))
    return size


def _measure_value(value: object) -> int:
    if isinstance(value, int):
        return _INTEGER_BYTES
    if isinstance(value, bytes):
        return _COUNT_BYTES + len(value)
    if isinstance(value, str):
        return _COUNT_BYTES + (2 if value.isascii() else _CHAR_BYTES) * len(value)
    return _COUNT_BYTES + sum(map(_measure_value, value)) if isinstance(value, tuple) else 0


# -- objects and tombstones as changes -----------------------------------------------------------------


def make_object_change(
    partition_id: Guid,
    identifier: Guid,
    seq_number: SequenceNumber,
    purged: SequenceNumber,
    properties: Properties,
) -> DirectoryChange:
    """Return an object as a change for synchronization, without PreviousSeqNumber.

    See [MC-MQDSRP] 3.2.7.8.
    """
    return DirectoryChange(
        command=Command.SYNC,
        guid_identifier=identifier,
        partition_id=partition_id,
        seq_number=seq_number,
        purged_seq_number=purged,
        properties=properties,
    )


def make_deletion_change(tombstone: DeletedObject, purged: SequenceNumber) -> DirectoryChange:
    """Return a tombstone as a change for synchronization ([MC-MQDSRP] 3.2.7.3)."""
    return make_deletion(
        tombstone.object_type,
        tombstone.identifier,
        tombstone.partition_id,
        tombstone.seq_number,
        tombstone.scope,
        purged=purged,
    )


def type_of_deletion(value: PropertyValue | None) -> ObjectType:
    """Return the type of a deleted object from PROPID_D_OBJTYPE.

    DELETED_OBJECT if it is not known.
    """
    return ObjectType(value) if value in _TYPE_NUMBERS else ObjectType.DELETED_OBJECT


def scope_of_deletion(value: PropertyValue | None) -> Scope:
    """Return the scope of a deletion from PROPID_D_SCOPE.

    The whole enterprise if it is not given.
    """
    return Scope.SITE if value == Scope.SITE else Scope.ENTERPRISE


def deletion_of(change: DirectoryChange, identifier: Guid, object_type: ObjectType) -> DeletedObject:
    """Return the tombstone of a deletion ([MC-MQDSRP] 3.1.7.2.7, decision R20).

    Args:
        change: the deletion.
        identifier: identifier of the object.
        object_type: type of the object, or the type in the change if the object does not exist.
    """
    return DeletedObject(
        identifier=identifier,
        partition_id=change.partition_id,
        seq_number=change.seq_number,
        object_type=object_type,
        scope=scope_of_deletion(change.get(Propid.D_SCOPE)),
    )


_TYPE_NUMBERS: Final = frozenset(map(int, ObjectType))


DIGEST_BYTES: Final = 16
"""Of an object's properties; it is written with the number, and shows changes of others (decision R112)."""


def digest_of(properties: Properties) -> bytes:
    """Return the digest of the properties of an object.

    Args:
        properties: the properties in a change of the object, in the order of `mqdssm.store.rules.replicated`.
    """
    parts: list[bytes] = []
    for propid, value in properties:
        parts.append(b"%d" % propid)
        _add(parts, value)
    return blake2b(b"\n".join(parts), digest_size=DIGEST_BYTES).digest()


def _add(parts: list[bytes], value: PropertyValue) -> None:
    """Add a value after its kind and length.

    Different values therefore always give different octets.
    """
    if isinstance(value, int):
        parts.append(b"i%d" % value)
    elif isinstance(value, str):
        octets = value.encode("utf-8", "surrogatepass")
        parts.append(b"t%d" % len(octets))
        parts.append(octets)
    elif isinstance(value, tuple):
        parts.append(b"l%d" % len(value))
        for item in value:
            _add(parts, item)
    else:
        parts.append(b"o%d" % len(value))
        parts.append(value)
