"""Hints of servers at changed entries; the entries are read afterwards.

slapd also reports transactions that fail later, and a domain controller only reports newer update numbers. So
every object in a hint is read again (decision W2).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from mqdssm.directory.entries import Entry

ANCESTORS: Final = (
    "computer",
    "mSMQConfiguration",
    "organizationalUnit",
    "container",
    "organization",
    "dcObject",
    "locality",
    "country",
)
"""Classes of parents of watched objects: servers report a renamed parent without its children."""


@dataclass(frozen=True, slots=True)
class TouchedEntry:
    """Entry that may have changed.

    Attributes:
        key: names it for ever, as `Profile.watch_key` says: a UUID as text.
        dn: where it is, or was if it is gone; None: the server did not say.
        classes: its object classes in lower case; none where the server did not say.
        gone: the server says that it does not exist any more.
        version: what `Profile.watch_versions` were after it; empty: the server did not say.
    """

    key: str
    dn: str | None = None
    classes: frozenset[str] = frozenset()
    gone: bool = False
    version: str = ""


def version_of(values: Iterable[bytes | None]) -> str:
    """Return the values of `Profile.watch_versions` as one text.

    The text is empty if no value can be read.
    """
    return " ".join(value.decode(errors="replace") for value in values if value is not None)


def list_classes(entry: Entry) -> frozenset[str]:
    """Return the object classes of an entry in lower case."""
    return frozenset(name.decode(errors="replace").lower() for name in entry.all("objectClass"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Entries that have to be read again; none if nothing changed for a while.

    Attributes:
        touched: entries to read again, in the server's order.
        listing: lists every entry that exists, as it is now: what differs from what is known has to be read
            again; None: there is no need for it.
        full: nobody knows what happened: everything has to be compared.
        has_gap: what came and went in between is not hinted at.
        place: where to go on once all of this is done; None: it cannot be said yet.
        is_current: with these, all that happened before the connection is hinted at.
    """

    touched: tuple[TouchedEntry, ...] = ()
    listing: Callable[[], Iterable[TouchedEntry]] | None = None
    full: bool = False
    has_gap: bool = False
    place: str | None = None
    is_current: bool = False

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to read."""
        return not self.touched and self.listing is None and not self.full


NOTHING: Final = Hints()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """Periods of a source.

    Attributes:
        tick_s: after so many seconds without news empty hints come, so that the caller can do other things.
        poll_s: how often a domain controller is asked whether anything changed, in seconds.
        settle_s: how long what follows a domain controller's notification is waited for, in seconds.
        renew_s: a connection that has been silent for so many seconds is begun anew from where it was: it
            may be one that a firewall forgot.
        compare_s: how often all ids are compared while a connection lasts, in seconds: what this user is
            allowed to see changes without a word.
    """

    tick_s: float = 0.25
    poll_s: float = 2.0
    settle_s: float = 0.05
    renew_s: float = 60.0
    compare_s: float = 3600.0


class HintSource(Protocol):
    """Source of hints: a watched server."""

    def read_hints(self, place: str | None) -> Iterator[Hints]:
        """Yield hints without end.

        Args:
            place: `Hints.place` of this server, where to go on; None: begin with a full comparison.

        Raises:
            DirectoryNotConnected: the connection was lost.
            DirectoryError: the server does not tell of changes, or not to this user.
        """
