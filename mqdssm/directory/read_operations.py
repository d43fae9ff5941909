"""Single reads, repeated on another connection if one breaks."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from mqdssm.directory.channel import Channel, ConnectionBroken, Page
from mqdssm.directory.entries import Entry, decode_entry
from mqdssm.directory.filters import TRUE, LdapFilter, all_of, encode
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.pool import Pool
from mqdssm.directory.profile import GuidTarget
from mqdssm.directory.ranges import OneServer, RangeReader
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.responses import EXTENDED_RESPONSE, LdapResult
from mqdssm.directory.searching import READ_ATTEMPTS, Search, warn_of_references
from mqdssm.directory.server_info import ServerInfo
from mqdssm.errors import DecodeError, DirectoryNotConnected, GenericDirectoryError, ObjectNotFound
from mqdssm.model.dn import DN

T = TypeVar("T")
Target = str | DN | UUID
"""Name of an object: its DN or its objectGUID."""


def format_target(target: Target) -> str:
    """Return the name of an object for errors."""
    return f"objectGUID {target}" if isinstance(target, UUID) else str(target)


def entries_of(page: Page) -> list[Entry]:
    """Decode the entries of an answer.

    Raises:
        GenericDirectoryError: one of them is no LDAP.
    """
    return [
        decode_whole_entry(buffer, message.start, message.end, message.stop)
        for buffer, messages in page.parts
        for message in messages
    ]


def decode_whole_entry(buffer: bytes, start: int, end: int, stop: int) -> Entry:
    """Decode an entry.

    Raises:
        GenericDirectoryError: it is no LDAP.
    """
    try:
        return decode_entry(buffer, start, end, stop)
    except DecodeError as error:
        raise make_unreadable(error) from error


def make_unreadable(error: DecodeError) -> GenericDirectoryError:
    """Return the error for an answer that cannot be decoded."""
    return GenericDirectoryError(f"the server sent what is no LDAP: {error}")


class ReadOperations:
    """Reads objects one at a time over the channels of a pool."""

    def __init__(self, pool: Pool, options: ConnectionOptions, knowledge: ServerInfo) -> None:
        """Initialize reads over `pool` with the profile of `knowledge`."""
        self._pool = pool
        self._options = options
        self._knowledge = knowledge

    def compute_deadline(self) -> float:
        """Return the deadline of an operation that begins now."""
        return time.monotonic() + self._options.operation_timeout_s

    def get_all(
        self,
        target: Target,
        attributes: Sequence[str],
        object_filter: LdapFilter = TRUE,
        *,
        deadline: float | None = None,
        url: str | None = None,
        only_own: bool = False,
    ) -> list[Entry]:
        """Read all objects with a name: normally one.

        Args:
            target: DN or objectGUID.
            attributes: to return.
            object_filter: condition that the entries must satisfy.
            deadline: when to give up; None: after the time of an operation.
            url: the only server to ask; None: any.
            only_own: a GUID is that of the object itself, not one that it had elsewhere (decision M37).

        Raises:
            ObjectNotFound: the DN does not exist. An objectGUID that does not is an empty list.
            DirectoryError: anything else.
        """
        profile = self._knowledge.profile
        controls = profile.read_controls(attributes)
        limit = self.compute_deadline() if deadline is None else deadline

        def read(base: str, scope: SearchScope, search_filter: LdapFilter) -> list[Entry]:
            below = () if scope is SearchScope.BASE else profile.search_controls()
            search = Search(base, scope, encode(search_filter), tuple(attributes), (*controls, *below))
            return self._search_once(search, format_target(target), limit, url)

        if not isinstance(target, UUID):
            return read(str(target), SearchScope.BASE, object_filter)
        place: GuidTarget | None = profile.build_guid_target(self._knowledge.naming, target)
        entries: list[Entry] = []
        while place is not None and not entries:
            combined_filter = place.filter if object_filter == TRUE else all_of(place.filter, object_filter)
            for base in place.bases:
                try:
                    entries += read(base, place.scope, combined_filter)
                except ObjectNotFound:
                    continue  # there is no such base, so nothing is below it
            place = None if only_own else place.otherwise
        return entries

    @property
    def ranges(self) -> RangeReader:
        """Range reader on the server in use."""
        return RangeReader(self._choose_server, self._knowledge.profile.change_counter)

    def _choose_server(self) -> OneServer:
        with self._pool.lease(self.compute_deadline()) as channel:
            url = channel.url

        def read(dn: str, attributes: Sequence[str]) -> Entry:
            search = Search(dn, SearchScope.BASE, encode(TRUE), tuple(attributes))
            entries = self._search_once(search, dn, self.compute_deadline(), url)
            if not entries:
                raise ObjectNotFound("the object is gone", dn=dn)
            return entries[0]

        return OneServer(url, read)

    def request_extended(self, operation: str, encoded: Callable[[int], bytes]) -> LdapResult:
        """Send an extended request that changes nothing.

        Returns its result, also a failure.

        Raises:
            DirectoryNotConnected: no answer.
        """
        deadline = self.compute_deadline()

        def ask(channel: Channel) -> LdapResult:
            number = channel.choose_id()
            return channel.request(number, encoded(number), EXTENDED_RESPONSE, deadline)

        return self._on_channel(operation, None, ask, deadline, None)

    def _search_once(self, search: Search, name: str, deadline: float, url: str | None) -> list[Entry]:
        def ask(channel: Channel) -> list[Entry]:
            number = channel.choose_id()
            channel.send(search.encode(number), deadline)
            page = channel.receive(number, deadline)
            if page.result.code != 0:
                raise self._knowledge.error_of(page.result, "read", name)
            warn_of_references(page.references, search.base)
            return entries_of(page)

        return self._on_channel("read", name, ask, deadline, url)

    def _on_channel(
        self, operation: str, name: str | None, ask: Callable[[Channel], T], deadline: float, url: str | None
    ) -> T:
        """Read on a channel, and repeat it on another one if the channel breaks.

        A read on which the server broke the protocol is not repeated: the server would do so again.
        """
        attempt = 0
        while True:
            attempt += 1
            with self._pool.lease(deadline, only=url) as channel:
                try:
                    return ask(channel)
                except ConnectionBroken as broken:
                    if broken.timed_out:
                        self._pool.suspect(channel.url)
                    if broken.is_final or attempt == READ_ATTEMPTS:
                        raise DirectoryNotConnected(
                            f"{operation} failed on {channel.url}: {broken.words}", dn=name
                        ) from broken
