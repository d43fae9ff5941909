"""Changes of objects that clients of the control socket ask for.

Elements become properties of replication. The rows of `mqdssm.tables.properties` say which property carries
an attribute. The value is converted as the adapter would store it, and as the replication store would read
it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from mqdssm.drivers.replication.driver import ReplicationDriver
from mqdssm.drivers.store_thread import LookUp, list_objects, read_object
from mqdssm.engines.replication import operations as ops
from mqdssm.errors import MappingError, ObjectNotFound
from mqdssm.events.attributes import KEYS
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Site, element_of
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties, PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.server.control_protocol import ObjectChangeRequest
from mqdssm.tables import table_of
from mqdssm.tables.mqis import MQIS_TABLES
from mqdssm.tables.properties import PROPERTY_TABLES
from mqdssm.tables.property_rows import CHANGED, RESERVED, PropertyRole, PropertyRow
from mqdssm.tables.row import Access, Computed, Row

COMMANDS: Final = {"create": Command.CREATE, "write": Command.UPDATE, "delete": Command.DELETE}
CREATED: Final = frozenset({ObjectType.QUEUE, ObjectType.MACHINE, ObjectType.ROUTING_LINK})
"""Types that a client may create. A site and its first server are made together (`mqdssm enterprise`)."""
_TYPES: Final = {
    table.element.__name__: ObjectType(table.object_type)
    for table in MQIS_TABLES.values()
    if table.element is not None
}
_NEW_MACHINE: Final[Properties] = ((Propid.QM_ADDRESS, b""), (Propid.QM_CNS, ()))
"""Required properties of a machine that have no attribute; empty, as for a machine of unknown networks."""
_SITES: Final = "SiteIdentifierList"
_GUIDS: Final = frozenset({Computed.SITE, Computed.QUEUE_MANAGERS})
"""Attributes that the adapter stores as DNs, and replication as the GUIDs that clients give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedChange:
    """Change of one object that this server makes.

    If another server owns the partition, it is asked to make the change.

    Attributes:
        command: the change.
        object_type: type of the object.
        partition_id: partition that the object belongs to.
        path_name: of a new object.
        identifier: of an existing object; of a new one if it is chosen; None: any.
        properties: new values.
    """

    command: Command
    object_type: ObjectType
    partition_id: Guid
    path_name: str | None
    identifier: Guid | None
    properties: Properties

    @classmethod
    def build_creation(
        cls,
        object_type: ObjectType,
        path_name: str | None,
        properties: Properties,
        *,
        partition_id: Guid = PEC_PARTITION_ID,
        identifier: Guid | None = None,
    ) -> "RequestedChange":
        """Return the creation of an object."""
        return cls(
            command=Command.CREATE,
            object_type=object_type,
            partition_id=partition_id,
            path_name=path_name,
            identifier=identifier,
            properties=properties,
        )

    @classmethod
    def of_existing(
        cls,
        object_type: ObjectType,
        identifier: Guid | None,
        properties: Properties,
        *,
        command: Command = Command.UPDATE,
        partition_id: Guid = PEC_PARTITION_ID,
    ) -> "RequestedChange":
        """Return the update or the deletion of an object."""
        return cls(
            command=command,
            object_type=object_type,
            partition_id=partition_id,
            path_name=None,
            identifier=identifier,
            properties=properties,
        )

    @property
    def title(self) -> str:
        """Type and name of a new object, for messages."""
        return f"{self.object_type.spec_name} {self.path_name}"

    def perform(self, driver: ReplicationDriver) -> ops.ObjectOutcome:
        """Make the change, and wait for its outcome."""
        return driver.change(
            command=self.command,
            object_type=self.object_type,
            partition_id=self.partition_id,
            path_name=self.path_name,
            identifier=self.identifier,
            properties=self.properties,
        )


def change_of(request: ObjectChangeRequest, look_up: LookUp) -> RequestedChange:
    """Return the change that a client asks for.

    Args:
        request: the client's request.
        look_up: performs a reading operation of the store.

    Raises:
        ObjectNotFound: there is no such object, or no machine for a new queue.
        ValueError: a type or attribute that cannot be changed here, an incomplete object, or a value that
            an attribute does not accept.
        DirectoryError: the directory cannot be read.
    """
    object_type = _TYPES.get(request.element)
    if object_type is None:
        raise ValueError(f"{request.element!r} is no type of objects: {', '.join(_TYPES)} are")
    obj = element_of(request.element).from_json(json.dumps(request.attributes))
    command = COMMANDS[request.command]
    if command is Command.CREATE:
        return _build_creation(object_type, obj, look_up)
    return _change(command, object_type, obj, look_up)


def _build_creation(object_type: ObjectType, obj: DirectoryObject, look_up: LookUp) -> RequestedChange:
    if object_type not in CREATED:
        raise ValueError(
            f"{obj.element_name} objects cannot be created through a directory server: a site and its first "
            "server are made by mqdssm enterprise"
        )
    path_name = _choose_path_name(object_type, obj)
    sites: Sequence[UUID] = getattr(obj, "site_identifier_list", None) or ()
    if object_type is ObjectType.MACHINE and len(sites) != 1:
        raise ValueError(f"a queue manager has one site in this directory: give one {_SITES}")
    properties = tuple(_convert_attributes(object_type, obj, obj.populated - {"Identifier"}, Access.CREATE))
    if object_type is ObjectType.QUEUE:
        partition = _partition_of_queue(path_name, look_up)
    elif object_type is ObjectType.MACHINE:
        partition = Guid.of(sites[0])
        properties += _NEW_MACHINE
    else:
        partition = PEC_PARTITION_ID
    identifier = Guid.of(obj.identifier) if obj.identifier else None
    return RequestedChange.build_creation(
        object_type, path_name, properties, partition_id=partition, identifier=identifier
    )


def build_site_creation(attributes: dict[str, Any]) -> RequestedChange:
    """Return the creation of a site that has no PSC yet.

    Args:
        attributes: of the Site, as in an `ObjectChangeRequest`.

    Raises:
        ValueError: no name, or an attribute or a value that a new site cannot have.
    """
    obj = Site.from_json(json.dumps(attributes))
    path_name = _choose_path_name(ObjectType.SITE, obj)
    properties = tuple(_convert_attributes(ObjectType.SITE, obj, obj.populated, Access.CREATE))
    return RequestedChange.build_creation(ObjectType.SITE, path_name, ((Propid.S_PSC, ""), *properties))


def _change(
    command: Command, object_type: ObjectType, obj: DirectoryObject, look_up: LookUp
) -> RequestedChange:
    """Return the update or deletion of an existing object."""
    keys = obj.populated & KEYS[obj.element_name]
    if object_type is ObjectType.ENTERPRISE and not keys:
        stored_object: ops.ObjectRead | None = _find_enterprise(look_up)
    elif len(keys) != 1:
        raise ValueError(f"which {obj.element_name}? give one of {', '.join(sorted(KEYS[obj.element_name]))}")
    else:
        stored_object = _find(object_type, obj, next(iter(keys)), look_up)
    if stored_object is None or stored_object.identifier is None or stored_object.partition_id is None:
        raise ObjectNotFound(f"there is no such {obj.element_name} in the directory of this server")
    names = obj.populated - keys
    if command is Command.DELETE and names:
        raise ValueError(f"{', '.join(sorted(names))}: a deletion takes only the object's name")
    if command is Command.UPDATE and not names:
        raise ValueError("nothing to write: give attributes besides the object's name")
    properties = tuple(_convert_attributes(object_type, obj, names, Access.WRITE))  # a deletion has none
    return RequestedChange.of_existing(
        object_type,
        stored_object.identifier,
        properties,
        command=command,
        partition_id=stored_object.partition_id,
    )


def _find(object_type: ObjectType, obj: DirectoryObject, key: str, look_up: LookUp) -> ops.ObjectRead | None:
    """Find an object by an attribute that identifies it.

    Raises:
        ValueError: the directory server does not find objects by this attribute.
    """
    if key == "Identifier" and obj.identifier is not None:
        return read_object(look_up, object_type, identifier=Guid.of(obj.identifier))
    if key == _name_attribute(object_type):
        return read_object(look_up, object_type, path_name=getattr(obj, obj.field_name(key)))
    raise ValueError(f"a directory server does not find objects by {key}: give the Identifier")


def _find_enterprise(look_up: LookUp) -> ops.ObjectRead:
    """Return the enterprise, the only object of its type.

    Raises:
        ObjectNotFound: there is none.
    """
    enterprises = list_objects(look_up, ObjectType.ENTERPRISE)
    if not enterprises:
        raise ObjectNotFound(f"the directory of this server has no {ObjectType.ENTERPRISE.spec_name}")
    return enterprises[0]


def _partition_of_queue(path_name: str | None, look_up: LookUp) -> Guid:
    """Return the partition of a new queue: that of its machine's site.

    Raises:
        ObjectNotFound: no such machine.
    """
    machine_name = (path_name or "").partition("\\")[0]
    machine = read_object(look_up, ObjectType.MACHINE, path_name=machine_name)
    if machine is None or machine.partition_id is None:
        raise ObjectNotFound(f"there is no queue manager {machine_name!r}: create it before its queues")
    return machine.partition_id


def _name_row(object_type: ObjectType) -> PropertyRow | None:
    rows = PROPERTY_TABLES[object_type].rows
    return next((row for row in rows if row.role is PropertyRole.NAME), None)


def _name_attribute(object_type: ObjectType) -> str | None:
    row = _name_row(object_type)
    return None if row is None else row.adm


def _choose_path_name(object_type: ObjectType, obj: DirectoryObject) -> str | None:
    """Return the path name of a new object; None for a type without names.

    Raises:
        ValueError: the object has no name.
    """
    name = _name_attribute(object_type)
    if name is None:
        return None
    if not obj.is_populated(name):
        raise ValueError(f"a {obj.element_name} needs {name}")
    return str(getattr(obj, obj.field_name(name)))


def _convert_attributes(
    object_type: ObjectType, obj: DirectoryObject, names: Iterable[str], event: Access
) -> Iterator[tuple[Propid, PropertyValue]]:
    """Yield the replicated properties of some attributes.

    The path name of a new object is left out.

    Args:
        object_type: type of the object.
        obj: has the values.
        names: the attributes.
        event: CREATE or WRITE; the attributes that the adapter stores in this event can be given (T121).

    Raises:
        ValueError: an attribute that no replicated property carries, or a value that would not be kept; the
            text names the attribute.
    """
    name_attribute = _name_attribute(object_type) if event is Access.CREATE else None
    rows = {
        row.adm: row
        for row in PROPERTY_TABLES[object_type].rows
        if row.propid in CHANGED[object_type] and row.propid not in RESERVED and row.carrier is not None
    }
    for name in sorted(names):
        if name == name_attribute:
            continue  # an argument of the change, and never changed afterwards
        if name not in rows or not _is_given(table_of(obj.element_name).row(name), event):
            raise ValueError(f"{obj.element_name}.{name} cannot be changed through a directory server")
        yield rows[name].propid, _convert_attribute(rows[name], obj, name)


def _is_given(row: Row, event: Access) -> bool:
    """Return True if clients give the attribute in an event.

    PROPID_QM_SERVICE and PROPID_QM_SIGN_PK are of directory servers: `mqdssm enterprise` changes them.
    """
    return event in row.access and (row.computed is None or row.computed in _GUIDS)


def _convert_attribute(row: PropertyRow, obj: DirectoryObject, name: str) -> PropertyValue:
    """Return the property's value of an attribute.

    Raises:
        ValueError: a value that the replicas would not keep as it is (decision T120).
    """
    value: Any = getattr(obj, obj.field_name(name))
    attribute = f"{obj.element_name}.{name}"
    if value is None:
        raise ValueError(f"{attribute} has no value: give one")
    if name == _SITES and len(value) != 1:
        raise ValueError(f"{attribute} holds {len(value)} values: a queue manager has one site here")
    adapter_row = table_of(obj.element_name).row(name)
    try:
        if adapter_row.computed is None:
            converted, is_kept = _convert_value(row, adapter_row, value)
        else:
            converted, is_kept = tuple(map(Guid.of, value)) if adapter_row.multi else Guid.of(value), True
    except MappingError as error:
        raise ValueError(f"{attribute}: {error}") from error
    if not is_kept:
        raise ValueError(f"{attribute}: the directory would not keep this value")
    return converted


def _convert_value(row: PropertyRow, adapter_row: Row, value: Any) -> tuple[PropertyValue, bool]:
    """Return the property's value, and True if it is kept.

    A value is kept if the adapter reads the value again that the client gave.

    Raises:
        MappingError: the attribute or the property cannot hold the value.
    """
    raws = adapter_row.encode(value)
    # LDAP stores nothing empty; the variant has an empty value
    converted: PropertyValue = row.carrier.load(raws) if raws and row.carrier else value
    stored, _ = row.encode_stored(converted)
    read = adapter_row.decode(stored) if stored else adapter_row.default
    return converted, read == value
