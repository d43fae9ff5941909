"""Change Notification Messages, which report changes of objects.

The queue manager of the objects receives the messages ([MS-MQCN] 2.2).
A directory service sends version 1, a sequence of updates with the new values. A queue manager sends
version 2, one event that names an object; the receiver reads the object from the directory. Fields have the
specification's names in Python's spelling; counts and flags are computed from the fields. The binary layout
is in `mqdssm.wire.mqcn`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties, PropertyValue
from mqdssm.model.names import PathName
from mqdssm.model.propids import ObjectType, Propid, object_type_of

UPDATES_MAX: Final = 255
"""Most updates of a message: NumberOfUpdateNotifications is one byte ([MS-MQCN] 2.2.4)."""
DOMAIN_CONTROLLER_CHARS_MAX: Final = 256
"""Longest name of a directory server in an event ([MS-MQCN] 2.2.5)."""
_TYPE_AT: Final = 1  # index of the property of a deletion that holds the object's type


class NotificationVersion(IntEnum):
    """Version of a message, ChangeNotificationMessage.Version ([MS-MQCN] 2.2.4)."""

    UPDATES = 0x01
    """From a directory service: Notification Updates."""
    BODY = 0x02
    """From a queue manager: one Notification Body."""


class NotificationCommand(IntEnum):
    """Change of the object of an update ([MS-MQCN] 2.2.6).

    The field is NotificationUpdate.Command.
    """

    CREATE = 0x00
    UPDATE = 0x01
    DELETE = 0x02


class NotificationEvent(IntEnum):
    """Change of the object of a body, NotificationBody.Event ([MS-MQCN] 2.2.5)."""

    CREATE_QUEUE = 1
    CHANGE_QUEUE = 2
    DELETE_QUEUE = 3
    CHANGE_QUEUE_MANAGER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationUpdate:
    """A change with its properties ([MS-MQCN] 2.2.6).

    Attributes:
        command: the kind of change.
        path_name: the object's path name, of a queue; None when `guid_identifier` names the object.
        guid_identifier: the object's GUID; None when `path_name` names it.
        guid_master_id: the directory server that originated the update.
        properties: changed values and values that describe the object, in the order of the wire: at least
            one, none twice (decision C11).

    Raises:
        ValueError: both names or none, an invalid path name, no property, or one twice.
    """

    command: NotificationCommand
    path_name: str | None = None
    guid_identifier: Guid | None = None
    guid_master_id: Guid
    properties: Properties

    def __post_init__(self) -> None:
        if (self.path_name is None) is (self.guid_identifier is None):
            raise ValueError("an update names its object by PathName or GuidIdentifier, one of them")
        if self.path_name is not None:
            PathName.parse_stored(self.path_name)
        if not self.properties:
            raise ValueError("an update has at least one property: it tells the object's type (decision C11)")
        if len(dict(self.properties)) != len(self.properties):
            raise ValueError("a property stands twice (decision C11)")

    @property
    def object_type(self) -> ObjectType | None:
        """Type of the object ([MS-MQCN] 3.2.5.1); None: unknown.

        The first property's number gives the type; of a deletion, the second property's value.
        """
        if self.command is not NotificationCommand.DELETE:
            return object_type_of(self.properties[0][0])
        if len(self.properties) <= _TYPE_AT:
            return None
        value = self.properties[_TYPE_AT][1]
        return ObjectType(value) if isinstance(value, int) and value in set(ObjectType) else None

    def get(self, propid: Propid) -> PropertyValue | None:
        """Return the value of a property; None if the update does not hold the property."""
        return next((value for name, value in self.properties if name == propid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationUpdates:
    """Change Notification Message, version 1, of a directory service.

    See [MS-MQCN] 2.2.4.

    Attributes:
        updates: the updates in their order, at most 255.
    """

    version: ClassVar[NotificationVersion] = NotificationVersion.UPDATES

    updates: tuple[NotificationUpdate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationBody:
    """Change Notification Message, version 2, of a queue manager ([MS-MQCN] 2.2.5).

    Attributes:
        event: the kind of change.
        object_guid: the changed queue or machine.
        domain_controller: name of the directory server where the change was made: 1 to 256 visible ASCII
            characters without ``<``, ``>`` and ``&`` (decision C10). The sender may have invented it
            (decision C2).

    Raises:
        ValueError: an invalid name.
    """

    version: ClassVar[NotificationVersion] = NotificationVersion.BODY

    event: NotificationEvent
    object_guid: Guid
    domain_controller: str

    def __post_init__(self) -> None:
        check_domain_controller(self.domain_controller)


def check_domain_controller(name: str) -> str:
    """Return the name of a directory server, if it is valid.

    The field is DirectoryServiceServer ([MS-MQCN] 2.2.5).

    Raises:
        ValueError: an invalid name.
    """
    if not 1 <= len(name) <= DOMAIN_CONTROLLER_CHARS_MAX:
        limits = f"1 to {DOMAIN_CONTROLLER_CHARS_MAX} are allowed"
        raise ValueError(f"the name of a directory server has {len(name)} characters: {limits}")
    if not all("!" <= character <= "~" and character not in "<>&" for character in name):
        raise ValueError(
            f"the name of a directory server, {name!r}, holds other than visible ASCII, or <, > or &"
        )
    return name


ChangeNotification: TypeAlias = NotificationUpdates | NotificationBody
"""A Change Notification Message of either version ([MS-MQCN] 2.2.4)."""
