"""Connections to one server for watching it: finite searches, and an endless one."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from mqdssm.directory.channel import Channel, ConnectionBroken
from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import TRUE, LdapFilter, encode
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.pool import Pool
from mqdssm.directory.profile import Naming, Profile
from mqdssm.directory.read_operations import entries_of, make_unreadable
from mqdssm.directory.requests import LdapControl, SearchScope
from mqdssm.directory.responses import SEARCH_DONE, LdapResult, MessageBounds, decode_result
from mqdssm.directory.searching import PagedSearch, Search
from mqdssm.directory.server_info import ServerInfo
from mqdssm.errors import DecodeError, DirectoryError, DirectoryNotConnected, ObjectNotFound


class Link:
    """Connections to exactly one server.

    The data of other servers may be older.
    """

    def __init__(self, options: ConnectionOptions, endpoint: Endpoint) -> None:
        """Initialize without connecting.

        Raises:
            ConfigError: the CA file cannot be used.
        """
        self._options = replace(options, endpoints=(endpoint,))
        self._knowledge = ServerInfo(self._options)
        self._pool = Pool(self._options, self._knowledge.welcome)
        self.url = endpoint.url

    def open(self) -> Self:
        """Connect, and read the server's profile.

        Raises:
            DirectoryNotConnected: it cannot be reached, or does not let us in.
            DirectoryError: it is of no known kind.
        """
        with self._pool.lease(self._compute_deadline()) as channel:
            address = channel.address
        (endpoint,) = self._options.endpoints
        if address and endpoint.host not in {None, address}:
            # each address of a name may be another server, which may not have the changes of this one
            self._pool.close()
            self._options = replace(self._options, endpoints=(replace(endpoint, address=address),))
            self._pool = Pool(self._options, self._knowledge.welcome)
        return self

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    @property
    def options(self) -> ConnectionOptions:
        """Options for connecting to this server only."""
        return self._options

    @property
    def profile(self) -> Profile:
        """Profile of this kind of server."""
        return self._knowledge.profile

    @property
    def naming(self) -> Naming:
        """Naming contexts."""
        return self._knowledge.naming

    @property
    def root_dse(self) -> Entry:
        """Root DSE, as it was read when connecting."""
        return self._knowledge.root_dse

    def get(self, dn: str, attributes: Sequence[str], controls: Sequence[LdapControl] = ()) -> Entry:
        """Read one entry, without a second attempt.

        Raises:
            ObjectNotFound: it does not exist, or this user may not see it.
            DirectoryError: anything else.
        """
        search = Search(dn, SearchScope.BASE, encode(TRUE), tuple(attributes), tuple(controls))
        deadline = self._compute_deadline()
        with self._pool.lease(deadline) as channel:
            try:
                number = channel.choose_id()
                channel.send(search.encode(number), deadline)
                page = channel.receive(number, deadline)
            except ConnectionBroken as broken:
                raise _make_lost(channel, broken) from broken
        if page.result.code != 0:
            raise self.error_of(page.result, dn)
        entries = entries_of(page)
        if not entries:
            raise ObjectNotFound("there is no such object", dn=dn, hint=self.profile.hidden_hint)
        return entries[0]

    def find(
        self,
        base: str,
        search_filter: LdapFilter,
        attributes: Sequence[str],
        controls: Sequence[LdapControl] = (),
    ) -> Iterator[Entry]:
        """Search below an entry, page by page.

        Raises:
            DirectoryError: while iterating.
        """
        search = Search(base, SearchScope.SUBTREE, encode(search_filter), tuple(attributes), tuple(controls))
        paged = PagedSearch(
            self._pool,
            search,
            page_size=self._options.page_size,
            limit_s=self._options.operation_timeout_s,
            error_of=lambda result: self.error_of(result, base),
        )
        for page in paged.read_pages():
            yield from entries_of(page)

    @contextmanager
    def begin_search(self, search: Search) -> Iterator["GoingOn"]:
        """Begin a search without end, on a separate connection that is closed afterwards.

        Raises:
            DirectoryNotConnected: the connection broke.
        """
        with self._pool.lease(self._compute_deadline()) as channel:
            try:
                number = channel.choose_id()
                channel.send(search.encode(number), self._compute_deadline())
                yield GoingOn(channel, number)
            except ConnectionBroken as broken:
                raise _make_lost(channel, broken) from broken
            finally:
                channel.broken = True  # answers may be on their way

    def error_of(self, result: LdapResult, dn: str) -> DirectoryError:
        """Return the error for a result other than success."""
        return self._knowledge.error_of(result, "watch", dn)

    def _compute_deadline(self) -> float:
        return time.monotonic() + self._options.operation_timeout_s


class GoingOn:
    """Answers to a search without end."""

    def __init__(self, channel: Channel, message_id: int) -> None:
        """Initialize with a channel and the id of the search on it."""
        self._channel = channel
        self._message_id = message_id

    def receive_some(self, wait_s: float) -> tuple[bytes, list[MessageBounds]]:
        """Return some answers; none if none came in time.

        Raises:
            ConnectionBroken: the connection ended.
        """
        return self._channel.receive_some(self._message_id, time.monotonic() + wait_s)


def end_of(buffer: bytes, messages: Sequence[MessageBounds]) -> LdapResult | None:
    """Return the result if the search ended; None if it continues.

    Raises:
        GenericDirectoryError: it is no LDAP.
    """
    try:
        return next(
            (decode_result(buffer, message) for message in messages if message.tag == SEARCH_DONE), None
        )
    except DecodeError as error:
        raise make_unreadable(error) from error


def _make_lost(channel: Channel, broken: ConnectionBroken) -> DirectoryNotConnected:
    return DirectoryNotConnected(f"the connection to {channel.url} was lost: {broken.words}")
