"""Recovery of changes whose answer was lost.

The result is read back; nothing is repeated.

About half of the changes that a server received just before a lost connection were made. The server may still
be working, so a missing change is looked for repeatedly before it counts as not made. A server that does not
answer may make the change later.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mqdssm.errors import DirectoryError, DirectoryNotConnected, ObjectAlreadyExists, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.tables import adsyntax
from mqdssm.tables.schema import ATTRIBUTES

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.5


class Fate(Enum):
    """Result of reading back a change."""

    MADE = "made"
    NOT_MADE = "not made"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Time limits of reading back.

    Attributes:
        settle_s: a change that the server may have read whole before the connection ended is believed
            to stay unmade after this many seconds. A server gives up what it has not begun for a
            client that is gone, so this is time for what it was in the middle of: a commit that waits
            for other writers and a slow disk.
        limit_s: limit of the whole operation while no server answers, in seconds.
    """

    settle_s: float = 2.0
    limit_s: float = 15.0

    def find_out(self, look: Callable[[float], bool]) -> tuple[Fate, DirectoryError | None]:
        """Look until the result is certain, or the limit is reached.

        Args:
            look: whether the change is there now; gets a deadline, raises DirectoryError when it cannot
                tell.

        Returns:
            The fate, and why it stays unknown.

        Raises:
            ObjectNotFound: the change needs an object that is not there.
            ObjectAlreadyExists: somebody else's object stands where ours should.
        """
        end = time.monotonic() + self.limit_s
        missing_since: float | None = None
        pause = FIRST_PAUSE_S
        while True:
            problem: DirectoryError | None = None
            try:
                if look(end):
                    return Fate.MADE, None
            except DirectoryNotConnected as error:
                problem = error  # the server may become reachable again
            except (ObjectNotFound, ObjectAlreadyExists):
                raise  # the change cannot have been made
            except DirectoryError as error:
                return Fate.UNKNOWN, error
            now = time.monotonic()
            if problem is None:
                missing_since = now if missing_since is None else missing_since
                if now - missing_since >= self.settle_s:
                    return Fate.NOT_MADE, None
            if now + pause >= end:
                return (Fate.UNKNOWN, problem) if problem is not None else (Fate.NOT_MADE, None)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)


def has_values(stored: Mapping[str, Sequence[bytes]], sent: Mapping[str, Sequence[bytes]]) -> bool:
    """Return True if an entry has the values of a replacement.

    Args:
        stored: lower-case attribute -> values, as read.
        sent: attribute -> values, as replaced; none removes the attribute.
    """
    return all(
        _are_same_values(name.lower(), stored.get(name.lower(), ()), values) for name, values in sent.items()
    )


def is_as_sent(stored: Mapping[str, Sequence[bytes]], sent: Mapping[str, Sequence[bytes]]) -> bool:
    """Return True if an entry can be the one that was added.

    All attributes that can be compared are compared.

    A server may complete the classes, and the security descriptor with what is inherited.

    Args:
        stored: lower-case attribute -> values, as read.
        sent: attribute -> values, as added.
    """
    compared = {name: values for name, values in sent.items() if not _is_completed(name.lower())}
    classes = {
        value.lower() for name, values in sent.items() if name.lower() == "objectclass" for value in values
    }
    return has_values(stored, compared) and classes.issubset(map(bytes.lower, stored.get("objectclass", ())))


def _is_completed(name: str) -> bool:
    attribute = ATTRIBUTES.get(name)
    return name == "objectclass" or (
        attribute is not None and attribute.syntax is adsyntax.SECURITY_DESCRIPTOR
    )


def _are_same_values(name: str, stored: Sequence[bytes], sent: Sequence[bytes]) -> bool:
    if sorted(stored) == sorted(sent):
        return True
    attribute = ATTRIBUTES.get(name)
    if attribute is None or attribute.syntax is not adsyntax.DN:
        return False
    # servers respell distinguished names: CN=a becomes cn=a
    return sorted(map(_make_dn_key, stored)) == sorted(map(_make_dn_key, sent))


def _make_dn_key(value: bytes) -> str:
    text = value.decode(errors="backslashreplace")
    try:
        return DN.parse(text).normalized
    except ValueError:
        return text
