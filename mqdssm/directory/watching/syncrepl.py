"""Change hints from OpenLDAP by content synchronization ([RFC4533]).

The mode of the search is refresh and persist.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from mqdssm.directory.entries import decode_entry
from mqdssm.directory.filters import Equal, LdapFilter, any_of, encode
from mqdssm.directory.read_operations import make_unreadable
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.responses import INTERMEDIATE_RESPONSE, SEARCH_ENTRY, LdapResult, MessageBounds
from mqdssm.directory.searching import Search
from mqdssm.directory.watching.commits import KEY, VERSION, Commits, find_csns
from mqdssm.directory.watching.hints import NOTHING, Hints, Rhythm, TouchedEntry, list_classes, version_of
from mqdssm.directory.watching.link import GoingOn, Link, end_of
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

TOGETHER_MAX: Final = 1_000
"""Maximum answers taken before their objects are read."""
_MORE_WAIT_S: Final = 0.001  # for what has arrived already
_LISTING_SHARE_MAX: Final = 0.05
"""Maximum share of the time for listing all entries when connections to the same server are renewed."""
_SIZE_LIMIT: Final = 4
_UNAVAILABLE_CONTROL: Final = 12
_BUSY: Final = frozenset({51, 52})
_NEWER_THAN_PROVIDER: Final = 53
_NO_SYNCPROV: Final = (
    "load the overlay syncprov: 'moduleload syncprov' and, in the database, 'overlay syncprov', "
    "'syncprov-checkpoint 100 10', 'syncprov-sessionlog 10000', 'index entryUUID,entryCSN eq'"
)
_NO_VERSION: Final = "let the user read it: access to attrs=entryUUID,entryCSN by … read"
_LIMITED: Final = 'grant it: limits dn.exact="…" size.soft=unlimited size.hard=unlimited'


class Syncrepl:
    """Source of hints at entries of some classes, by syncrepl."""

    def __init__(self, link: Link, classes: Sequence[str], listed: LdapFilter, rhythm: Rhythm) -> None:
        """Check that the server offers syncrepl; nothing is watched yet.

        Args:
            link: to the server.
            classes: object classes of entries that matter.
            listed: filter of the entries of these classes that can be known.
            rhythm: see `Rhythm`.

        Raises:
            GenericDirectoryError: the server does not know the control, or this user may not read entryCSN.
        """
        self._link = link
        self._filter = any_of(*(Equal("objectClass", name.encode()) for name in classes))
        self._listed = listed
        self._rhythm = rhythm
        self._listing_is_allowed = self._listing_is_due = 0.0
        if REQUEST_OID.encode() not in link.root_dse.all("supportedControl"):
            raise _make_not_offered(link.url, None)
        root = str(link.naming.forest)
        if link.get(root, (VERSION,)).first(VERSION) is None:
            raise GenericDirectoryError(
                f"{link.url} shows no {VERSION}, which tells what is committed", dn=root, hint=_NO_VERSION
            )

    def read_hints(self, place: str | None) -> Iterator[Hints]:
        """Yield hints, as `HintSource`."""
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
        """Follow one search until the connection has to be renewed."""
        base = str(self._link.naming.forest)
        cookie = None if place is None else place.encode("latin-1")
        search = Search(
            base,
            SearchScope.SUBTREE,
            encode(self._filter),
            ("objectClass", VERSION),
            (request_control(cookie),),
        )
        phases, commits = Phases(cookie), Commits(self._link, base)
        latest: str | None = None
        is_new = True
        received_at = time.monotonic()
        with self._link.begin_search(search) as going_on:
            while True:
                has_some, result = self._receive(going_on, phases, commits.wait_s(self._rhythm.tick_s))
                now = time.monotonic()
                received_at = now if has_some else received_at
                hints = phases.take()
                latest = hints.place or latest
                commits.tell(phases.take_touched())
                is_first, is_new = is_new and hints.place is not None, is_new and hints.place is None
                if is_first:
                    known_csns = find_csns(place or "")
                    commits.cover(
                        [csn for csn in find_csns(latest or "") if csn not in known_csns], known_csns
                    )
                touched, is_over = commits.take()
                needs_listing = self._needs_listing(now, anyway=is_over or hints.has_gap, is_first=is_first)
                hints = replace(
                    hints,
                    touched=(*hints.touched, *touched),
                    listing=self._list if needs_listing and not is_new else None,
                    place=latest if commits.is_clear else None,
                    is_current=is_first,
                )
                latest = None if commits.is_clear else latest
                yield NOTHING if hints == NOTHING else hints
                if result is not None:
                    raise self._make_ended(result, base)
                if now - received_at >= self._rhythm.renew_s:
                    return  # no message for long: renew the connection from the cookie

    def _receive(self, going_on: GoingOn, phases: Phases, wait_s: float) -> tuple[bool, LdapResult | None]:
        """Take the answers that have arrived, to read their objects together.

        Returns:
            True if there were any, and the result that ended the search.
        """
        count = 0
        while True:
            buffer, messages = going_on.receive_some(_MORE_WAIT_S if count else wait_s)
            self._take(phases, buffer, messages)
            count += len(messages)
            result = end_of(buffer, messages)
            if not messages or result is not None or count >= TOGETHER_MAX:
                return count > 0, result

    def _needs_listing(self, now: float, *, anyway: bool, is_first: bool) -> bool:
        """Return True if a listing is needed.

        The server may have forgotten deletions (decision C30), or a listing is due.
        """
        return anyway or (is_first and now >= self._listing_is_allowed) or now >= self._listing_is_due

    def _list(self) -> Iterator[TouchedEntry]:
        """List all existing entries."""
        began = time.monotonic()
        attributes = (KEY, VERSION, "objectClass")
        for entry in self._link.find(str(self._link.naming.forest), self._listed, attributes):
            key = (entry.first(KEY) or b"").decode(errors="replace").lower()
            yield TouchedEntry(
                key, entry.dn, list_classes(entry), version=version_of((entry.first(VERSION),))
            )
        ended = time.monotonic()
        self._listing_is_allowed = ended + (ended - began) / _LISTING_SHARE_MAX
        self._listing_is_due = max(self._listing_is_allowed, ended + self._rhythm.compare_s)

    def _take(self, phases: Phases, buffer: bytes, messages: Sequence[MessageBounds]) -> None:
        try:
            for message in messages:
                if message.tag == SEARCH_ENTRY:
                    entry = decode_entry(buffer, message.start, message.end, message.stop)
                    version = version_of((entry.first(VERSION),))
                    phases.entry(entry.dn, list_classes(entry), decode_state(entry.controls), version)
                elif message.tag == INTERMEDIATE_RESPONSE:
                    info = decode_info(buffer, message)
                    if info is not None:
                        phases.info(info)
        except DecodeError as error:
            raise make_unreadable(error) from error

    def _make_ended(self, result: LdapResult, base: str) -> Exception:
        """Return the error for a search that ended, which it should not."""
        if result.code in {REFRESH_REQUIRED, _NEWER_THAN_PROVIDER}:
            words = "the directory is another one, or was restored from a copy"
            return _PlaceIsLostError(
                f"LDAP result {result.code} {result.text!r}", _make_failed(self._link, result, words)
            )
        if result.code == _UNAVAILABLE_CONTROL:
            return _make_not_offered(self._link.url, result)
        if result.code == 0 or result.code in _BUSY:
            return DirectoryNotConnected(
                f"{self._link.url} ended the search for changes: LDAP result {result.code} {result.text!r}"
            )
        if result.code == _SIZE_LIMIT:
            return _make_failed(self._link, result, "this user may not list all objects", _LIMITED)
        return self._link.error_of(result, base)


class _PlaceIsLostError(Exception):
    """Error: the server does not accept the cookie.

    Attributes:
        reason: meaning of the refusal if no cookie was sent.
    """

    def __init__(self, words: str, reason: DirectoryError) -> None:
        super().__init__(words)
        self.reason = reason


def _make_failed(link: Link, result: LdapResult, words: str, hint: str = "") -> GenericDirectoryError:
    return GenericDirectoryError(
        f"{link.url} does not tell of changes: {words}",
        ldap_code=result.code,
        server_text=result.text,
        hint=hint,
    )


def _make_not_offered(url: str, result: LdapResult | None) -> GenericDirectoryError:
    return GenericDirectoryError(
        f"{url} does not tell of changes: it offers no content synchronization (RFC 4533)",
        ldap_code=None if result is None else result.code,
        server_text="" if result is None else result.text,
        hint=_NO_SYNCPROV,
    )
