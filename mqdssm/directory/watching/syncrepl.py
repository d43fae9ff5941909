"""OpenLDAP tells of changes by content synchronization, refresh and persist ([RFC4533])."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from mqdssm.directory.entries import decode_entry
from mqdssm.directory.filters import Equal, any_of, encode
from mqdssm.directory.reading import unreadable
from mqdssm.directory.requests import Scope
from mqdssm.directory.responses import INTERMEDIATE_RESPONSE, SEARCH_ENTRY, LdapResult, Message
from mqdssm.directory.searching import Search
from mqdssm.directory.watching.hints import NOTHING, Hints, Rhythm
from mqdssm.directory.watching.link import Link, end_of
from mqdssm.directory.watching.phases import Phases
from mqdssm.directory.watching.sync import (
    REFRESH_REQUIRED,
    REQUEST_OID,
    decode_info,
    decode_state,
    request_control,
)
from mqdssm.errors import DecodeError, DirectoryError, DirectoryNotConnected, GenericDirectoryError

log = logging.getLogger(__name__)

_KEY: Final = "entryUUID"
_LISTING_SHARE_MAX: Final = 0.05
"""Part of the time that listing what exists may take, where the connection to one server is renewed."""
_SIZE_LIMIT: Final = 4
_UNAVAILABLE_CONTROL: Final = 12
_BUSY: Final = frozenset({51, 52})
_NEWER_THAN_PROVIDER: Final = 53
_NO_SYNCPROV: Final = (
    "load the overlay syncprov: 'moduleload syncprov' and, in the database, 'overlay syncprov', "
    "'syncprov-checkpoint 100 10', 'syncprov-sessionlog 10000', 'index entryUUID,entryCSN eq'"
)
_LIMITED: Final = 'grant it: limits dn.exact="…" size.soft=unlimited size.hard=unlimited'


class Syncrepl:
    """Watches all of a directory's entries of some classes."""

    def __init__(self, link: Link, classes: Sequence[str], rhythm: Rhythm) -> None:
        """Watch nothing yet.

        Args:
            link: to the server.
            classes: object classes of entries that matter.
            rhythm: see `Rhythm`.

        Raises:
            GenericDirectoryError: the server does not know the control.
        """
        self._link = link
        self._filter = any_of(*(Equal("objectClass", name.encode()) for name in classes))
        self._rhythm = rhythm
        self._listing_is_due = 0.0
        if REQUEST_OID.encode() not in link.root_dse.all("supportedControl"):
            raise _not_offered(link.url, None)

    def hints(self, place: str | None) -> Iterator[Hints]:
        """See `Source`."""
        while True:
            try:
                for hints in self._refresh_and_persist(place):
                    place = hints.place or place
                    yield hints
            except _PlaceIsLostError as error:
                if place is None:
                    raise error.reason from None
                log.warning("%s: all objects are compared with what is known: %s", self._link.url, error)
                place = None

    def _refresh_and_persist(self, place: str | None) -> Iterator[Hints]:
        """One search; it ends where the connection has to be begun anew from the last place."""
        base = str(self._link.naming.forest)
        cookie = None if place is None else place.encode("latin-1")
        search = Search(
            base, Scope.SUBTREE, encode(self._filter), ("objectClass",), (request_control(cookie),)
        )
        phases = Phases(cookie)
        is_new = True
        heard = time.monotonic()
        with self._link.going_on(search) as going_on:
            while True:
                buffer, messages = going_on.some(self._rhythm.tick_s)
                now = time.monotonic()
                if messages:
                    heard = now
                    self._take(phases, buffer, messages)
                hints = phases.take()
                if is_new and hints.place is not None:
                    hints, is_new = self._with_present(hints), False
                yield NOTHING if hints.is_empty and hints.place is None else hints
                result = end_of(buffer, messages)
                if result is not None:
                    raise self._ended(result, base)
                if now - heard >= self._rhythm.renew_s:
                    return  # without a word for long: the cookie costs nothing to try

    def _with_present(self, hints: Hints) -> Hints:
        """Say what exists where the server did not: it may have forgotten what was deleted (decision C30)."""
        began = time.monotonic()
        if hints.full or hints.present is not None or began < self._listing_is_due:
            return hints
        found = self._link.find(str(self._link.naming.forest), self._filter, (_KEY,))
        present = frozenset((one.first(_KEY) or b"").decode(errors="replace").lower() for one in found)
        ended = time.monotonic()
        self._listing_is_due = ended + (ended - began) / _LISTING_SHARE_MAX
        return replace(hints, present=present)

    def _take(self, phases: Phases, buffer: bytes, messages: Sequence[Message]) -> None:
        try:
            for message in messages:
                if message.tag == SEARCH_ENTRY:
                    entry = decode_entry(buffer, message.start, message.end, message.stop)
                    classes = frozenset(
                        name.decode(errors="replace").lower() for name in entry.all("objectClass")
                    )
                    phases.entry(entry.dn, classes, decode_state(entry.controls))
                elif message.tag == INTERMEDIATE_RESPONSE:
                    said = decode_info(buffer, message)
                    if said is not None:
                        phases.info(said)
        except DecodeError as error:
            raise unreadable(error) from error

    def _ended(self, result: LdapResult, base: str) -> Exception:
        """The error for a search that ended, which it never does by itself."""
        if result.code in {REFRESH_REQUIRED, _NEWER_THAN_PROVIDER}:
            words = "the directory is another one, or was restored from a copy"
            return _PlaceIsLostError(
                f"LDAP result {result.code} {result.text!r}", _failed(self._link, result, words)
            )
        if result.code == _UNAVAILABLE_CONTROL:
            return _not_offered(self._link.url, result)
        if result.code == 0 or result.code in _BUSY:
            return DirectoryNotConnected(
                f"{self._link.url} ended the search for changes: LDAP result {result.code} {result.text!r}"
            )
        if result.code == _SIZE_LIMIT:
            return _failed(self._link, result, "this user may not list all objects", _LIMITED)
        return self._link.error_of(result, base)


class _PlaceIsLostError(Exception):
    """The cookie is of no use to the server.

    Attributes:
        reason: what it means where there was no cookie.
    """

    def __init__(self, words: str, reason: DirectoryError) -> None:
        super().__init__(words)
        self.reason = reason


def _failed(link: Link, result: LdapResult, words: str, hint: str = "") -> GenericDirectoryError:
    return GenericDirectoryError(
        f"{link.url} does not tell of changes: {words}",
        ldap_code=result.code,
        server_text=result.text,
        hint=hint,
    )


def _not_offered(url: str, result: LdapResult | None) -> GenericDirectoryError:
    return GenericDirectoryError(
        f"{url} does not tell of changes: it offers no content synchronization (RFC 4533)",
        ldap_code=None if result is None else result.code,
        server_text="" if result is None else result.text,
        hint=_NO_SYNCPROV,
    )
