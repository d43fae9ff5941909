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
"""Stands before the name of an attribute that the abstract model does not have: ``ldap:mSMQMigrated``."""


class ChangeEvent(StrEnum):
    """Kind of a change; EXISTING for objects that existed before the first start."""

    EXISTING = "existing"
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


class Unknown(Enum):
    """The one value for "there is a value, and nobody kept it": never equal to a value, unlike None."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


class AttributeChange(NamedTuple):
    """An attribute before and after a change.

    Attributes:
        old: the value before, as the element holds it; None if the directory held none, `UNKNOWN` if it was
            not kept.
        new: the value now, in the same way.
    """

    old: Any | Literal[Unknown.UNKNOWN]
    new: Any | Literal[Unknown.UNKNOWN]


ElementClass: TypeAlias = type[DirectoryObject]
"""The class of an element."""

WATCHED_TYPES: Final[Mapping[str, ElementClass]] = MappingProxyType(
    {
        "queue": Queue,
        "queue-manager": QueueManager,
        "enterprise": Enterprise,
        "site": Site,
        "routing-link": RoutingLink,
        "user": User,
    }
)
"""What can be watched: the element of each type, by its name on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """One object of the directory was created, changed or deleted.

    It tells the difference between two states of the object: of several writes in quick succession, and of
    all that was written while nobody watched, there may be one change.

    Attributes:
        event: what happened.
        type: the type of object, as on the command line: ``"queue-manager"``; a key of `WATCHED_TYPES`.
        dn: its name in the directory, after the change; of a deleted object the last one that is known.
        guid: its objectGUID; None if it has none that can be read.
        id: names the change, in ASCII; a change that is told again has the id that it had.
        time: when the watcher saw it, in UTC; None: no watcher did.
        changes: specification's name of an attribute -> its value before and after. What the model does not
            have stands under `LDAP_MARK` and its LDAP name, as texts or bytes. Of a created object every
            attribute that the directory holds, of a deleted one every value that was kept.
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
        """The class of the object's element."""
        return WATCHED_TYPES[self.type]
