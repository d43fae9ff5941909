"""Paged searches, streamed, each on its own channel (decision M14).

See [MS-MQDSSM] 3.1.6.15.

A cookie belongs to its connection, and a server keeps one of them at a time, so a search keeps its
channel until its last page. The next page is requested while the present one is being read, unless the reader
is slow or the pages are large: then the server would have to hold its answer, and some servers close the
connection.

After a lost connection the search begins again on any server, and objects that were returned before are
skipped: each object that exists all the while is returned exactly once.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.channel import Channel, ConnectionBroken, Page
from mqdssm.directory.pool import Pool
from mqdssm.directory.requests import (
    LdapControl,
    SearchScope,
    encode_message,
    encode_search_operation,
    make_paged_control,
)
from mqdssm.directory.responses import LdapResult, parse_paged_cookie
from mqdssm.directory.seen_entries import SeenEntries
from mqdssm.errors import (
    DecodeError,
    DirectoryError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectNotFound,
)

READ_ATTEMPTS: Final = 3
"""Maximum attempts of a read whose connections break: once for each of a few restarts."""
RESUME_PAUSES_S: Final = (0.0, 0.5, 1.5, 3.0)
"""Pauses in seconds before a search that has returned objects begins again without progress; their number is
the maximum of attempts. Together they are the time of a server restart."""
FAST_READER_S: Final = 2.0
"""If a page is read within these seconds, the next one is requested ahead."""
AHEAD_BYTES_MAX: Final = 2 << 20
"""Maximum octets of a page after which the next one is requested ahead.

A larger one may not fit into the buffers of the sockets (some 4 MB on Linux): while the reader pauses, the
server would wait with half of its answer, and its time limit runs meanwhile."""
EMPTY_PAGES_MAX: Final = 1000
"""Maximum empty pages in a row. A server that searches long may send some; endless ones are no answer."""
SEARCH_TIME_LIMIT_S: Final = 120
"""The timeLimit of [MS-MQDSSM] 3.1.6.15; a server applies it to each page (decision M58)."""

_SEARCH_AGAIN: Final = "the entries so far are not the whole answer: search again"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Search:
    """Search request without paging.

    Attributes:
        base: DN where it begins.
        scope: how far below.
        filter: encoded.
        attributes: to return; none means none.
        controls: sent along.
        time_limit_s: seconds that the server may take for each request; 0 is no limit.

    Raises:
        ValueError: what cannot be sent: an attribute name that is none, a name that is too long.
    """

    base: str
    scope: SearchScope
    filter: bytes
    attributes: tuple[str, ...]
    controls: tuple[LdapControl, ...] = ()
    time_limit_s: int = 0
    _operation: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        operation = encode_search_operation(
            self.base, self.scope, self.filter, self.attributes, time_limit=self.time_limit_s
        )
        object.__setattr__(self, "_operation", operation)

    def encode(self, message_id: int, paging: tuple[LdapControl, ...] = ()) -> bytes:
        """Encode the request."""
        return encode_message(message_id, self._operation, (*self.controls, *paging))


class PagedSearch:
    """Reads a search page by page (decision M72).

    If a connection is lost, it begins again on another one.

    Attributes:
        delivered: objects that were returned. The reader of the pages records them, and skips known ones.
    """

    def __init__(
        self,
        pool: Pool,
        search: Search,
        *,
        page_size: int,
        limit_s: float,
        error_of: Callable[[LdapResult], DirectoryError],
    ) -> None:
        """Initialize the search; nothing is sent before the first page is requested.

        Args:
            pool: lends the channel.
            search: what to search.
            page_size: entries a page.
            limit_s: limit for each page, in seconds.
            error_of: the error for a result that is not success.
        """
        self.delivered = SeenEntries()
        self._pool = pool
        self._search = search
        self._page_size = page_size
        self._limit_s = limit_s
        self._error_of = error_of
        self._references = 0
        self._url = ""

    def read_pages(self) -> Iterator[Page]:
        """Yield the pages in order; closing the generator returns the channel.

        After a lost connection they begin again, and contain objects that were returned before.

        Raises:
            DirectoryNotConnected: the connection was lost, and no server took its place.
            DirectoryError: the server ended the search with an error; what came before it is no result.
        """
        failures, deadline = 0, self._compute_deadline()
        while True:
            old_count = self.delivered.count
            try:
                yield from self._from_the_beginning(deadline)
            except ConnectionBroken as broken:
                if broken.timed_out:
                    self._pool.suspect(self._url)
                if self.delivered.count > old_count:
                    failures, deadline = 0, self._compute_deadline()
                failures += 1
                if broken.is_final or not self._may_begin_again(failures, deadline):
                    raise self._make_broken_search(broken.words) from broken
            except _NoServerError as error:
                failures += 1
                if not self.delivered.count:
                    raise error.reason from None
                if error.is_final or not self._may_begin_again(failures, deadline):
                    raise self._make_broken_search(f"then {error.reason}") from error.reason
            else:
                return
            self.delivered.begin_again()

    def _may_begin_again(self, failures: int, deadline: float) -> bool:
        """Pause and return True if the search may begin again.

        A search may not begin again after too many attempts without progress, or when no time is left.
        """
        pauses = RESUME_PAUSES_S if self.delivered.count else (0.0,) * (READ_ATTEMPTS - 1)
        if failures > len(pauses) or time.monotonic() + pauses[failures - 1] >= deadline:
            return False
        time.sleep(pauses[failures - 1])
        if self.delivered.count:
            log.info(
                "the search below %s lost its connection to %s after %d entries and begins again",
                self._search.base,
                self._url,
                self.delivered.count,
            )
        return True

    def _from_the_beginning(self, deadline: float) -> Iterator[Page]:
        self._references = 0
        with ExitStack() as stack:
            try:
                channel = stack.enter_context(self._pool.lease(deadline))
            except DirectoryNotConnected as error:
                raise _NoServerError(error, is_final=self._pool.is_closed) from error
            self._url = channel.url
            first = self._read_first_page(channel, deadline)
            last = yield from self._read_all_but_last(channel, first)
        yield last

    def _read_first_page(self, channel: Channel, deadline: float) -> Page:
        message_id = self._send(channel, b"", deadline)
        return channel.receive(message_id, deadline)

    def _send(self, channel: Channel, cookie: bytes, deadline: float) -> int:
        message_id = channel.choose_id()
        paging = (make_paged_control(self._page_size, cookie),)
        channel.send(self._search.encode(message_id, paging), deadline)
        return message_id

    def _read_all_but_last(self, channel: Channel, page: Page) -> Generator[Page, None, Page]:
        fast, cookie = True, b""
        finished, empty_pages = False, 0
        try:
            while True:
                finished = page.result.code != 0
                previous, cookie = cookie, self._extract_cookie(page)
                if not cookie:
                    finished = True
                    return page
                empty_pages = 0 if page.parts else empty_pages + 1
                if (empty_pages and cookie == previous) or empty_pages > EMPTY_PAGES_MAX:
                    raise GenericDirectoryError("the server sends empty pages again and again")
                ahead = fast and _fits_into_buffers(page)
                message_id = self._send(channel, cookie, self._compute_deadline()) if ahead else None
                since = time.monotonic()
                yield page
                fast = time.monotonic() - since < FAST_READER_S
                if message_id is None:
                    message_id = self._send(channel, cookie, self._compute_deadline())
                page = channel.receive(message_id, self._compute_deadline())
        finally:
            warn_of_references(self._references, self._search.base)
            if not finished:
                channel.broken = True  # an answer or a cookie is left on it

    def _compute_deadline(self) -> float:
        return time.monotonic() + self._limit_s

    def _extract_cookie(self, page: Page) -> bytes:
        """Return the cookie of the next page; raise the error of an unsuccessful page."""
        if page.result.code != 0:
            raise self._make_error(page.result)
        self._references += page.references
        try:
            return parse_paged_cookie(page.result) or b""
        except DecodeError as error:
            raise GenericDirectoryError(f"the server's paging cannot be read: {error}") from error

    def _make_error(self, result: LdapResult) -> DirectoryError:
        error = self._error_of(result)
        if isinstance(error, ObjectNotFound) and self.delivered.count:
            # ObjectNotFound would make the partial answer look complete
            return GenericDirectoryError(
                f"the search below {self._search.base!r} broke off after {self.delivered.count} entries: "
                f"{error.message}",
                dn=self._search.base,
                ldap_code=result.code,
                server_text=result.text,
                hint=_SEARCH_AGAIN,
            )
        return error

    def _make_broken_search(self, words: str) -> DirectoryNotConnected:
        return DirectoryNotConnected(
            f"the search below {self._search.base!r} broke off after {self.delivered.count} entries on "
            f"{self._url}: {words}",
            dn=self._search.base,
            hint=_SEARCH_AGAIN,
        )


class _NoServerError(Exception):
    """Error: no server could be connected.

    Attributes:
        reason: why not.
        is_final: none will.
    """

    def __init__(self, reason: DirectoryNotConnected, *, is_final: bool) -> None:
        super().__init__(str(reason))
        self.reason = reason
        # also for a refused log-in: another attempt could lock the account
        self.is_final = is_final or reason.ldap_code is not None


def warn_of_references(count: int, base: str) -> None:
    """Log how many references a search returned, if any; they are never followed."""
    if count:
        log.warning(
            "the search below %s leaves out what other servers hold: %d references were not followed",
            base,
            count,
        )


def _fits_into_buffers(page: Page) -> bool:
    return sum(len(buffer) for buffer, _ in page.parts) <= AHEAD_BYTES_MAX
