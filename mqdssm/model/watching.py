"""Changes of a watched directory: an object was created, changed or deleted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User

LDAP_MARK: Final = "ldap:"
"""Prefix for the name of an attribute that the abstract model does not have: ``ldap:mSMQMigrated``."""


class ChangeEvent(StrEnum):
    """Kind of a change; EXISTING for objects that existed before the first start."""

    EXISTING = "existing"
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


class Unknown(Enum):
    """Marker for a value that was not kept: never equal to a value, unlike None."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


class AttributeChange(NamedTuple):
    """An attribute before and after a change.

    Attributes:
        old: the value before, as the element holds it; None if the directory held none, `UNKNOWN` if it was
            not kept.
        new: the present value, in the form of `old`.
    """

    old: Any | Literal[Unknown.UNKNOWN]
    new: Any | Literal[Unknown.UNKNOWN]


ElementClass: TypeAlias = type[DirectoryObject]
"""Class of an element."""

WATCHED_TYPES: Final[Mapping[str, ElementClass]] = {
    "queue": Queue,
    "queue-manager": QueueManager,
    "enterprise": Enterprise,
    "site": Site,
    "routing-link": RoutingLink,
    "user": User,
}
"""Types that can be watched: the element of each type, by its name on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """Creation, change or deletion of one directory object.

    A change is the difference between two states of the object. Several writes in quick succession, or while
    no watcher ran, may give one change.

    Attributes:
        event: the kind of change.
        type: the type of object, as on the command line: ``"queue-manager"``; a key of `WATCHED_TYPES`.
        dn: its name in the directory, after the change; of a deleted object the last known one.
        guid: its objectGUID; None if it has no readable one.
        id: identifier of the change, in ASCII; a repeated change has the same id.
        time: when the watcher saw it, in UTC; None: no watcher saw it.
        changes: specification's name of an attribute -> its value before and after. Attributes that the model
            does not have stand under `LDAP_MARK` and their LDAP name, as texts or bytes. A created object has
            every attribute that the directory holds, a deleted one every value that was kept.
    """

    event: ChangeEvent
    type: str
    dn: str
    guid: UUID | None
    id: str = ""
    time: datetime | None = None
    changes: Mapping[str, AttributeChange] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def element(self) -> ElementClass:
        """Class of the object's element."""
        return WATCHED_TYPES[self.type]
