"""Version 1: effects of updates on the local state ([MS-MQCN] 3.2.5.1).

A directory service makes the updates.

A message is checked as a whole before any update is applied: if one update has to be disregarded, so is the
whole message (decision C14).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from uuid import UUID

from mqdssm.engines.notification.settings import ReceiverSettings
from mqdssm.errors import MappingError
from mqdssm.model.notification import NotificationCommand, NotificationUpdate, NotificationUpdates
from mqdssm.model.owned_objects import OwnedQueue
from mqdssm.model.propids import ObjectType
from mqdssm.tables.notification import Use, rows_of


class Disregarded(Exception):  # noqa: N818  the specification's word
    """The whole message is disregarded, without further processing.

    The text says why.
    """


@dataclass(frozen=True, slots=True)
class Create:
    """Create Queue, without access to the directory ([MS-MQDMPR] 3.1.7.1.3)."""

    queue: OwnedQueue


@dataclass(frozen=True, slots=True)
class ChangeQueue:
    """Change of attributes of a queue, which the update names by GUID or path name."""

    identifier: UUID | None
    path_name: str | None
    values: Mapping[str, Any]

    def apply(self, queue: OwnedQueue) -> OwnedQueue:
        """Return the queue with the new values."""
        return replace(queue, **self.values)


@dataclass(frozen=True, slots=True)
class ChangeManager:
    """Change of attributes of the local queue manager."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete Queue, without access to the directory ([MS-MQDMPR] 3.1.7.1.4)."""

    identifier: UUID | None
    path_name: str | None


@dataclass(frozen=True, slots=True)
class Skip:
    """An update without effect on this queue manager, and why.

    The others of its message are applied.
    """

    why: str


Step: TypeAlias = Create | ChangeQueue | ChangeManager | Delete | Skip


def steps_of(message: NotificationUpdates, settings: ReceiverSettings, now: int) -> tuple[Step, ...]:
    """Return the effects of the updates of a message, in their order.

    Args:
        message: the message, whose sender has been checked ([MS-MQCN] 3.2.5.1).
        settings: those of the receiver.
        now: seconds since 1970: times of a new queue whose message has none (decision C5).

    Raises:
        Disregarded: an update is not valid.
    """
    return tuple(_step(update, settings, now) for update in message.updates)


def _step(update: NotificationUpdate, settings: ReceiverSettings, now: int) -> Step:
    object_type = update.object_type
    make = _STEPS.get((update.command, object_type)) if object_type is not None else None
    if make is None:
        raise Disregarded(f"{update.command.name} of object type {object_type}")
    try:
        return make(update, settings, now)
    except MappingError as error:
        raise Disregarded(str(error)) from None


def _create(update: NotificationUpdate, settings: ReceiverSettings, now: int) -> Step:
    values = {"create_time": now, "modify_time": now} | _read_values(update, ObjectType.QUEUE, Use.CREATED)
    values.setdefault("identifier", _read_identifier(update))
    values.setdefault("pathname", update.path_name)
    if values["identifier"] is None or values["pathname"] is None:
        # Set Queue Defaults has none for these (decision C5)
        raise Disregarded("a new queue without PROPID_Q_INSTANCE or without path name")
    queue = OwnedQueue(**values)
    try:
        is_own = queue.is_of(settings.computer_name)
    except ValueError as error:  # no path name
        raise Disregarded(str(error)) from None
    return Create(queue) if is_own else Skip(f"{queue.pathname} is not ours")


def _change_queue(update: NotificationUpdate, settings: ReceiverSettings, now: int) -> Step:
    del settings, now
    return ChangeQueue(
        _read_identifier(update), update.path_name, _read_values(update, ObjectType.QUEUE, Use.CHANGED)
    )


def _change_manager(update: NotificationUpdate, settings: ReceiverSettings, now: int) -> Step:
    del now
    if _read_identifier(update) != settings.identifier:
        return Skip(f"queue manager {_read_identifier(update)} is not ours")
    return ChangeManager(_read_values(update, ObjectType.MACHINE, Use.CHANGED))


def _delete(update: NotificationUpdate, settings: ReceiverSettings, now: int) -> Step:
    del settings, now
    return Delete(_read_identifier(update), update.path_name)


def _skip(update: NotificationUpdate, settings: ReceiverSettings, now: int) -> Step:
    del settings, now
    return Skip(f"{update.command.name} of a queue manager")


_STEPS: Final[
    Mapping[
        tuple[NotificationCommand, ObjectType], Callable[[NotificationUpdate, ReceiverSettings, int], Step]
    ]
] = {
    (NotificationCommand.CREATE, ObjectType.QUEUE): _create,
    (NotificationCommand.CREATE, ObjectType.MACHINE): _skip,  # valid, but without a rule
    (NotificationCommand.UPDATE, ObjectType.QUEUE): _change_queue,
    (NotificationCommand.UPDATE, ObjectType.MACHINE): _change_manager,
    (NotificationCommand.DELETE, ObjectType.QUEUE): _delete,
}
"""Function for each command and type of object; any other combination disregards the message."""


def _read_values(update: NotificationUpdate, object_type: ObjectType, use: Use) -> dict[str, Any]:
    """Return the attributes of an update that the receiver accepts.

    Other properties are ignored.

    Raises:
        MappingError: a value that its attribute cannot have.
    """
    rows = rows_of(object_type, use)
    pairs = ((rows.get(propid), value) for propid, value in update.properties)
    return {row.field: row.load(value) for row, value in pairs if row is not None}


def _read_identifier(update: NotificationUpdate) -> UUID | None:
    return None if update.guid_identifier is None else update.guid_identifier.uuid
