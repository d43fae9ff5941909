"""Paged searches: streamed, each on a channel of its own ([MS-MQDSSM] 3.1.6.15, decision M14).

A cookie belongs to its connection, and a server keeps one of them at a time, so a search keeps its
channel until its last page. The next page is asked for while the present one is being read, unless
the reader is slow or the pages are large: then the server would have to keep its answer, and some
close the connection.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Final

from mqdssm.directory.channel import Channel, ConnectionBroken, Page
from mqdssm.directory.pool import Pool
from mqdssm.directory.requests import Control, Scope, encode_search, paged_control
from mqdssm.directory.responses import LdapResult, paged_cookie
from mqdssm.errors import DecodeError, DirectoryError, DirectoryNotConnected, GenericDirectoryError

READ_ATTEMPTS: Final = 3
"""How often a read is tried when connections break under it: once for each of a few restarts."""
FAST_READER_S: Final = 2.0
"""A page read within this time lets the next one be asked for ahead."""
AHEAD_BYTES_MAX: Final = 2 << 20
"""The largest page after which the next one is asked for ahead, in octets.

A larger one may not fit into the buffers of the sockets (some 4 MB on Linux): while the reader pauses, the
server would wait with half of its answer, and its time limit runs meanwhile."""
SEARCH_TIME_LIMIT_S: Final = 120
"""The timeLimit of [MS-MQDSSM] 3.1.6.15; a server counts it for each page anew (decision M58)."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Search:
    """A search request without its paging.

    Attributes:
        base: DN where it begins.
        scope: how far below.
        filter: encoded.
        attributes: to return; none means none.
        controls: sent along.
        time_limit_s: seconds that the server may take for each request; 0 is no limit.
    """

    base: str
    scope: Scope
    filter: bytes
    attributes: tuple[str, ...]
    controls: tuple[Control, ...] = ()
    time_limit_s: int = 0

    def encode(self, message_id: int, paging: tuple[Control, ...] = ()) -> bytes:
        """The request as octets."""
        return encode_search(
            message_id,
            self.base,
            self.scope,
            self.filter,
            self.attributes,
            time_limit=self.time_limit_s,
            controls=(*self.controls, *paging),
        )


class PagedSearch:
    """Reads a search page by page."""

    def __init__(
        self,
        pool: Pool,
        search: Search,
        *,
        page_size: int,
        limit_s: float,
        error_of: Callable[[LdapResult], DirectoryError],
    ) -> None:
        """Make it; nothing is sent before the first page is asked for.

        Args:
            pool: lends the channel.
            search: what to search.
            page_size: entries a page.
            limit_s: limit for each page, in seconds.
            error_of: the error for a result that is not success.
        """
        self._pool = pool
        self._search = search
        self._page_size = page_size
        self._limit_s = limit_s
        self._error_of = error_of
        self._entries = 0
        self._references = 0

    def pages(self) -> Iterator[Page]:
        """The pages in order; closing the generator gives the channel back.

        Raises:
            DirectoryNotConnected: the connection was lost in the middle.
            DirectoryError: the server ended the search with an error; what came before it is no result.
        """
        deadline = time.monotonic() + self._limit_s
        for attempt in range(1, READ_ATTEMPTS + 1):
            with self._pool.lease(deadline) as channel:
                try:
                    first = self._first(channel, deadline)
                except ConnectionBroken as broken:
                    if broken.timed_out:
                        self._pool.suspect(channel.url)
                    if broken.is_final or attempt == READ_ATTEMPTS:
                        raise self._broke_off(channel, broken) from broken
                    continue  # nothing was handed out yet: begin again, on any server
                last = yield from self._all_but_last(channel, first)
            yield last
            return

    def _first(self, channel: Channel, deadline: float) -> Page:
        message_id = self._send(channel, b"", deadline)
        return channel.receive(message_id, deadline)

    def _send(self, channel: Channel, cookie: bytes, deadline: float) -> int:
        message_id = channel.new_id()
        paging = (paged_control(self._page_size, cookie),)
        channel.send(self._search.encode(message_id, paging), deadline)
        return message_id

    def _all_but_last(self, channel: Channel, page: Page) -> Generator[Page, None, Page]:
        fast, cookie = True, b""
        finished = False
        try:
            while True:
                finished = page.result.code != 0
                previous, cookie = cookie, self._cookie(page)
                if not cookie:
                    finished = True
                    return page
                if cookie == previous and not page.parts:
                    raise GenericDirectoryError("the server sends the same empty page again and again")
                ahead = fast and _fits_into_buffers(page)
                message_id = self._send(channel, cookie, self._deadline()) if ahead else None
                since = time.monotonic()
                yield page
                fast = time.monotonic() - since < FAST_READER_S
                if message_id is None:
                    message_id = self._send(channel, cookie, self._deadline())
                page = channel.receive(message_id, self._deadline())
        except ConnectionBroken as broken:
            raise self._broke_off(channel, broken) from broken
        finally:
            warn_of_references(self._references, self._search.base)
            if not finished:
                channel.broken = True  # an answer or a cookie is left on it

    def _deadline(self) -> float:
        return time.monotonic() + self._limit_s

    def _cookie(self, page: Page) -> bytes:
        """The next page's cookie; without success there is none, and no result either."""
        if page.result.code != 0:
            raise self._error_of(page.result)
        self._entries += sum(len(messages) for _, messages in page.parts)
        self._references += page.references
        try:
            return paged_cookie(page.result) or b""
        except DecodeError as error:
            raise GenericDirectoryError(f"the server's paging cannot be read: {error}") from error

    def _broke_off(self, channel: Channel, broken: ConnectionBroken) -> DirectoryNotConnected:
        return DirectoryNotConnected(
            f"the search below {self._search.base!r} broke off after {self._entries} entries on "
            f"{channel.url}: {broken.words}",
            dn=self._search.base,
            hint="the entries so far are not the whole answer: search again",
        )


def warn_of_references(count: int, base: str) -> None:
    """Say once a search that parts of the directory were left out: references are never followed."""
    if count:
        log.warning(
            "the search below %s leaves out what other servers hold: %d references were not followed",
            base,
            count,
        )


def _fits_into_buffers(page: Page) -> bool:
    return sum(len(buffer) for buffer, _ in page.parts) <= AHEAD_BYTES_MAX
