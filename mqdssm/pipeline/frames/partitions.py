"""Division of a frame into several searches that find every object exactly once.

The frame is divided by ranges of an attribute that never changes and that the server orders, the profile's
`split_key`: the entryUUID of slapd, the uSNCreated of a domain controller. A scan of this attribute alone
finds the bounds, and proves that the user may read it on every object; else one search reads all objects. The
first range is "not at or above its end", so that it includes objects without the attribute.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from mqdssm.directory.filters import GreaterOrEqual, LdapFilter, Not, all_of
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError
from mqdssm.events.facade import Directory
from mqdssm.pipeline.frames.bulk import bases_of, filter_of_type
from mqdssm.pipeline.frames.columns import FrameType

SAMPLE_MAX: Final = 20_000
"""Limit of the keys that are kept to find the bounds."""
_NAME_ATTRIBUTE: Final = "dsServiceName"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchSlice:
    """One search of several. Holds no secret: it is logged and pickled.

    Attributes:
        server: URL of the server with these bounds: keys and objects differ from server to server.
        key: the attribute.
        low: its least value, included; None: no bound.
        high: start of the next slice; None: no bound.
        name: name of the server if its keys are its own: the name of a domain controller in the
            configuration. One URL may lead to several domain controllers.
    """

    server: str | None = None
    key: str = ""
    low: bytes | None = None
    high: bytes | None = None
    name: bytes | None = None

    @property
    def ldap_filter(self) -> LdapFilter | None:
        """LDAP filter for the slice's objects; None for all."""
        terms: list[LdapFilter] = []
        if self.low is not None:
            terms.append(GreaterOrEqual(self.key, self.low))
        if self.high is not None:
            terms.append(Not(GreaterOrEqual(self.key, self.high)))
        return all_of(*terms) if terms else None

    def refuse_other(self, session: Session) -> None:
        """Refuse a server with other keys than the bounds.

        With it objects would be lost or read twice.

        Raises:
            GenericDirectoryError: the URL led to another one.
            DirectoryError: it does not return its name.
        """
        if self.name is not None:
            refuse_other(
                session,
                self.name,
                why=f"by whose {self.key} the search was divided: each domain controller has its own",
                hint="name one domain controller in the URL, or read by one search (numpartitions 1)",
            )


def refuse_other(session: Session, name: bytes, *, why: str, hint: str) -> None:
    """Refuse a server with another name than the server that was read before.

    Args:
        session: to the server.
        name: name of the server that was read before.
        why: the reason why this matters, for the error.
        hint: advice for the error.

    Raises:
        GenericDirectoryError: it is another one.
        DirectoryError: it does not return its name.
    """
    other = _find_own_name(session)
    if other != name:
        server_names = [(server or b"?").decode(errors="replace") for server in (other, name)]
        raise GenericDirectoryError(
            f"{session.server_url} led to {server_names[0]}, and before to {server_names[1]}, {why}",
            hint=hint,
        )


def divide_objects(
    directory: Directory,
    frame: FrameType,
    count: int,
    *,
    where: LdapFilter | None = None,
    base: str | None = None,
) -> list[SearchSlice]:
    """Divide the objects of a type into slices of about the same size.

    Args:
        directory: the directory.
        frame: the type.
        count: number of slices wanted; the result has fewer if there are fewer objects.
        where: an LDAP filter for the objects, besides their type.
        base: base of the search; None: that of the type.

    Returns:
        At least one.

    Raises:
        DirectoryError: the scan failed; ObjectNotFound: there is no such base.
    """
    session = directory.session
    key, server = session.profile.split_key, session.server_url
    whole = [SearchSlice(server)]
    if count <= 1:
        return whole
    sample = Sample()
    search_filter = filter_of_type(session, frame, where)
    for start in bases_of(session, frame, base):
        with start.allow_absence():
            sample.take(values for _, values in session.rows(start.dn, search_filter, [key]))
    if sample.hidden:
        log.warning("%s is hidden from this user: %s is read by one search", key, frame.name)
        return whole
    bounds, name = sample.choose_bounds(count), _find_own_name(session)
    ends = [None, *bounds, None]
    return [SearchSlice(server, key, low, high, name) for low, high in pairwise(ends)]


def _find_own_name(session: Session) -> bytes | None:
    """Return a domain controller's name; None on other servers.

    The replicas of other servers share their keys.
    """
    return session.get("", [_NAME_ATTRIBUTE]).first(_NAME_ATTRIBUTE)


class Sample:
    """Every n-th key, evenly over the scan, in bounded memory.

    Attributes:
        hidden: an object came without its key.
    """

    def __init__(self) -> None:
        self.hidden = False
        self._keys: list[bytes] = []
        self._stride = 1
        self._seen = 0

    def take(self, keys: Iterable[bytes | None]) -> None:
        """Add the keys of some objects to the sample."""
        for key in keys:
            if key is None:
                self.hidden = True
                return
            if self._seen % self._stride == 0:
                self._keys.append(key)
                if len(self._keys) >= SAMPLE_MAX:
                    self._keys = self._keys[::2]
                    self._stride *= 2
            self._seen += 1

    def choose_bounds(self, count: int) -> list[bytes]:
        """Return the keys that divide the sample into parts of the same size.

        There is one key less than parts.
        """
        ordered = sorted(self._keys, key=lambda key: (len(key), key.lower()))
        places = [len(ordered) * part // count for part in range(1, count)]
        return list(dict.fromkeys(ordered[place] for place in places if 0 < place < len(ordered)))
