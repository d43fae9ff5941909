"""Sources of change hints for each kind of server.

Hints are always verified by reading.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mqdssm.directory.filters import LdapFilter
from mqdssm.directory.watching.hints import HintSource, Rhythm
from mqdssm.directory.watching.link import Link
from mqdssm.directory.watching.syncrepl import Syncrepl
from mqdssm.directory.watching.usn import UpdateNumbers

_SOURCES: Final[Mapping[str, Callable[[Link, Sequence[str], LdapFilter, Rhythm], HintSource]]] = {
    "syncrepl": Syncrepl,
    "update numbers": UpdateNumbers,
}


def source_of(link: Link, classes: Sequence[str], listed: LdapFilter, rhythm: Rhythm) -> HintSource:
    """Return the source of hints for a server.

    Args:
        link: to it, open.
        classes: object classes of entries that matter.
        listed: filter of the entries of these classes that can be known.
        rhythm: see `Rhythm`.

    Raises:
        GenericDirectoryError: the server does not tell of changes, or not to this user.
        DirectoryNotConnected: the connection was lost.
    """
    return _SOURCES[link.profile.watched_through](link, classes, listed, rhythm)
