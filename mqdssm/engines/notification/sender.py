"""Sender: Send Change Notification, from changes of the directory.

See [MS-MQCN] 3.3.

The sender has no state. It consists of functions that turn notices into messages, in the order of each owner.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mqdssm.engines.notification.settings import TIME_TO_REACH_QUEUE_S, SenderSettings
from mqdssm.errors import MappingError
from mqdssm.model import transport
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties, PropertyValue, Scope, make_deletion_properties
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import (
    ChangeNotification,
    NotificationBody,
    NotificationCommand,
    NotificationEvent,
    NotificationUpdate,
    NotificationUpdates,
    NotificationVersion,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.tables.notification import NotifiedRow, Use, rows_of
from mqdssm.wire.mqcn import encode, update_bytes

EVENTS: Final[Mapping[NotifiedOperation, NotificationEvent]] = {
    NotifiedOperation.QUEUE_CREATION: NotificationEvent.CREATE_QUEUE,
    NotifiedOperation.QUEUE_UPDATE: NotificationEvent.CHANGE_QUEUE,
    NotifiedOperation.QUEUE_DELETION: NotificationEvent.DELETE_QUEUE,
    NotifiedOperation.QUEUE_MANAGER_UPDATE: NotificationEvent.CHANGE_QUEUE_MANAGER,
}
"""The Event of each operation ([MS-MQCN] 3.3.5.1)."""
_HEADER_BYTES: Final = 3  # Version, NumberOfUpdateNotifications, and the unused byte


@dataclass(frozen=True, slots=True, kw_only=True)
class SendNotification:
    r"""A message and its destination ([MS-MQCN] 3.3.3).

    The destination is the notification queue of an owner.

    Attributes:
        destination: ``PRIVATE=<queue manager>\3``.
        message: complete but for the fields that the sending queue manager sets and signs.
    """

    destination: PrivateFormatName
    message: transport.Message


def messages_of(notices: Iterable[Notice], settings: SenderSettings) -> Iterator[SendNotification]:
    """Yield the messages that announce some changes ([MS-MQCN] 3.3.4.1).

    Version 2 has one message for each change. Version 1 has as few as possible: consecutive changes of one
    owner's objects share messages, up to 255 updates and `SenderSettings.message_bytes_max`.

    Args:
        notices: the changes, in their order.
        settings: identity of the sender, and the form of its messages.

    Raises:
        ValueError: a notice lacks an attribute that the message needs, or the directory server's name is not
            valid. The messages of the notices before it have been yielded.
    """
    if settings.version is NotificationVersion.BODY:
        for notice in notices:
            yield _send(body_of(notice), notice, settings)
        return
    for owner, updates in _group_notices(notices, settings):
        yield _send(NotificationUpdates(updates=updates), owner, settings)


def body_of(notice: Notice) -> NotificationBody:
    """Return the body of a version-2 message about a change ([MS-MQCN] 3.3.5.1).

    Raises:
        ValueError: as `messages_of`.
    """
    return NotificationBody(
        event=EVENTS[notice.operation],
        object_guid=_read_identifier(notice),
        domain_controller=notice.server,
    )


def update_of(notice: Notice, settings: SenderSettings) -> NotificationUpdate:
    """Return the update of a version-1 message about a change ([MS-MQCN] 3.3.5.2).

    Raises:
        ValueError: as `messages_of`.
    """
    match notice.operation:
        case NotifiedOperation.QUEUE_CREATION:
            command, properties = NotificationCommand.CREATE, _list_created_properties(notice)
        case NotifiedOperation.QUEUE_UPDATE:
            command, properties = NotificationCommand.UPDATE, _list_queue_changes(notice)
        case NotifiedOperation.QUEUE_MANAGER_UPDATE:
            command, properties = NotificationCommand.UPDATE, _list_manager_changes(notice)
        case NotifiedOperation.QUEUE_DELETION:
            command, properties = NotificationCommand.DELETE, _DELETED
    named = command is NotificationCommand.CREATE  # UseGuid is 0x00, PathName is used
    path = getattr(notice.element, "pathname", None) if named else None
    return NotificationUpdate(
        command=command,
        path_name=path,
        guid_identifier=None if named else _read_identifier(notice),
        guid_master_id=settings.identifier,
        properties=properties,
    )


_DELETED: Final = make_deletion_properties(ObjectType.QUEUE, Scope.ENTERPRISE)  # MQDS_ENTERPRISESCOPE


def _list_created_properties(notice: Notice) -> Properties:
    """Return all properties that a new queue's message must hold ([MS-MQCN] 3.3.5.2)."""
    rows = rows_of(ObjectType.QUEUE, Use.CREATED)
    return tuple((propid, _dump_value(notice, row)) for propid, row in rows.items())


def _list_queue_changes(notice: Notice) -> Properties:
    owner: tuple[Propid, PropertyValue] = (Propid.Q_QMID, Guid.of(notice.owner))
    return (owner, *_list_changes(notice, ObjectType.QUEUE))


def _list_manager_changes(notice: Notice) -> Properties:
    always = rows_of(ObjectType.MACHINE, Use.ALWAYS)
    properties = tuple((propid, _dump_value(notice, row)) for propid, row in always.items())
    return (*properties, *_list_changes(notice, ObjectType.MACHINE))


def _list_changes(notice: Notice, object_type: ObjectType) -> Properties:
    """Return the modified properties that the receiver knows; others are left out."""
    rows = rows_of(object_type, Use.CHANGED)
    return tuple(
        (propid, _dump_value(notice, row)) for propid, row in rows.items() if row.adm in notice.changed
    )


def _dump_value(notice: Notice, row: NotifiedRow) -> PropertyValue:
    if row.propid == Propid.Q_SCOPE:
        return int(Scope.ENTERPRISE)  # no directory of [MS-MQDSSM] stores the scope; this is its default
    return row.dump(getattr(notice.element, row.field))


def _read_identifier(notice: Notice) -> Guid:
    identifier = notice.element.identifier
    if identifier is None:
        raise MappingError(f"the {notice.element.element_name} of a {notice.operation} has no Identifier")
    return Guid.of(identifier)


def _group_notices(
    notices: Iterable[Notice], settings: SenderSettings
) -> Iterator[tuple[Notice, tuple[NotificationUpdate, ...]]]:
    """Yield the updates that share a message, each group with one of its notices."""
    first: Notice | None = None
    updates: list[NotificationUpdate] = []
    size = 0
    for notice in notices:
        update = update_of(notice, settings)
        octets = update_bytes(update)
        full = size + octets > settings.message_bytes_max or len(updates) >= settings.updates_max
        if first is not None and (full or notice.owner != first.owner):
            yield first, tuple(updates)
            first = None
        if first is None:
            first, updates, size = notice, [], _HEADER_BYTES
        updates.append(update)
        size += octets
    if first is not None:
        yield first, tuple(updates)


def _send(notification: ChangeNotification, notice: Notice, settings: SenderSettings) -> SendNotification:
    """Return a Change Notification Message ([MS-MQCN] 3.3.5.3).

    `encode` adds the unused byte.
    """
    signed = settings.authentication_level is not transport.AuthenticationLevel.NONE
    return SendNotification(
        destination=transport.notification_queue(Guid.of(notice.owner)),
        message=transport.Message(
            message_class=transport.MessageClass.NORMAL,
            body=encode(notification),
            time_to_reach_queue_s=TIME_TO_REACH_QUEUE_S,
            delivery=transport.DeliveryGuarantee.EXPRESS,
            hash_algorithm=settings.hash_algorithm,
            authentication_level=settings.authentication_level,
            sender_type=transport.SenderIdentifierType.QUEUE_MANAGER
            if signed
            else transport.SenderIdentifierType.NONE,
            sender=bytes(settings.identifier) if signed else b"",  # decision C9
        ),
    )
