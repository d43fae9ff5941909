"""Input and output of a loader: changes, outcomes and options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias
from uuid import UUID

from mqdssm.errors import ConfigError

Values: TypeAlias = Mapping[str, Sequence[bytes]]
"""LDAP attribute -> its values."""

WINDOW: Final = 256
"""Default number of unanswered changes: slapd closes a connection that has 1,000."""
WINDOW_MAX: Final = 900
TRANSACTION: Final = 500
"""Objects in one transaction: slapd's time for a transaction grows with their square."""
TRANSACTION_MAX: Final = 5000


class Action(StrEnum):
    """Kind of change of an object."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


class Effect(StrEnum):
    """Effect of a change."""

    ADDED = "added"
    EQUAL = "equal"
    """The object already has the wanted values: nothing was written."""
    UPDATED = "updated"
    DELETED = "deleted"
    MOVED = "moved"
    CONFLICT = "conflict"
    """Another object has the name, or the object has changed: nothing was written."""
    REJECTED = "rejected"
    MISSING_PARENT = "missing-parent"
    MISSING = "missing"
    """The object to be changed or deleted does not exist."""


DONE: Final = frozenset({Effect.ADDED, Effect.EQUAL, Effect.UPDATED, Effect.DELETED, Effect.MOVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Change of one object.

    Attributes:
        row: the caller's own number; it comes back in the outcome.
        action: kind of change to make.
        dn: the object.
        attributes: of an add all, objectClass among them; of a modify the complete new values of what
            changes, no values remove the attribute; of a delete nothing.
        before: of a modify or a delete what must be there now: the change is made only then. None: whatever.
        ldap_class: of the object; missing attributes count as the defaults of this class.
    """

    row: int
    action: Action
    dn: str
    attributes: Values = field(default_factory=dict)
    before: Values | None = None
    ldap_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a change.

    Attributes:
        row: the caller's number of the change.
        dn: the object.
        effect: result of the item.
        code: the server's result, where it refused.
        text: what happened, for people; empty where it is done.
        attributes: of a refusal the guilty ones, as far as they are known; of a conflict those that differ;
            of an update those that were written.
        guid: the objectGUID, where it is known.
    """

    row: int
    dn: str
    effect: Effect
    code: int | None = None
    text: str = ""
    attributes: tuple[str, ...] = ()
    guid: UUID | None = None

    @property
    def is_done(self) -> bool:
        """True if the directory has the wanted state."""
        return self.effect in DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options of a load.

    Attributes:
        window: number of changes that may wait for an answer together.
        transactions: objects added in one transaction ([RFC5805]), where the server has them; 0: none.
        update: an add that finds another object writes what differs; else that is a conflict.
        max_rate: most changes a second; None: as fast as the server can.
        identify: read the objectGUID of added objects, where the server makes it.
        reconnect_s: how long to wait for a server that is gone, in seconds.

    Raises:
        ConfigError: a number out of range.
    """

    window: int = WINDOW
    transactions: int = 0
    update: bool = False
    max_rate: float | None = None
    identify: bool = False
    reconnect_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.window <= WINDOW_MAX:
            raise ConfigError(f"window {self.window} is not in 1..{WINDOW_MAX}")
        if not 0 <= self.transactions <= TRANSACTION_MAX:
            raise ConfigError(f"transactions of {self.transactions} are not in 0..{TRANSACTION_MAX}")
        if self.max_rate is not None and not self.max_rate > 0:
            raise ConfigError(f"a rate of {self.max_rate} changes a second does nothing")
