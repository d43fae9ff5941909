"""Pool of bound connections (decision M24).

See [MS-MQDSSM] 3.1.1.6, 3.1.6.18 and 3.1.6.21.

A lease is the specification's reference: taken at the start of an operation, returned at its end.
Idle connections are kept for the next operation, checked before they are lent again, and
replaced when the server has closed them. Servers are tried in the order of the list; the one that
works stays the one that is used until it fails.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from mqdssm.directory.channel import Channel
from mqdssm.directory.connect import Attempt, open_channel, trust
from mqdssm.directory.failures import INVALID_CREDENTIALS
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.errors import DirectoryNotConnected

CHANNELS_MAX: Final = 64
"""Maximum connections of one session: OpenLDAP allows some 1,000, Active Directory 5,000 in all."""
IDLE_CHANNELS_MAX: Final = 8
"""Maximum idle connections: enough for 20 threads in turn; others are closed."""
FAILED_SERVER_REST_S: Final = 30.0
"""Seconds for which a failed server is tried after the others."""

Opener: TypeAlias = Callable[[Attempt, OperationObserver], Channel]
"""Connects to a server, as `mqdssm.directory.connect.open_channel` does."""


class _Operation(threading.local):
    """Current operation of a thread.

    Attributes:
        depth: operations within operations; 0 is none.
        url: the server that made the first change.
    """

    depth = 0
    url: str | None = None


class Pool:
    """Pool of channels, each lent to one caller at a time; thread-safe.

    Attributes:
        observer: observes the operations of all channels.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        welcome: Callable[[Channel, Endpoint, float], None],
        opener: Opener = open_channel,
    ) -> None:
        """Make an empty pool without connecting.

        Args:
            options: the servers and how to log in.
            welcome: looks at the first connection to each server, and raises DirectoryError to reject it.
            opener: connects to a server.
        """
        self.observer = OperationObserver()
        self._options = options
        self._welcome = welcome
        self._open_channel = opener
        self._context = trust(options)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._idle: list[tuple[Endpoint, Channel]] = []
        self._references = 0
        self._closed = False
        self._current: Endpoint | None = None
        self._failed: dict[Endpoint, float] = {}
        self._known_endpoints: set[Endpoint] = set()
        self._operation = _Operation()

    @contextmanager
    def keep_one_server(self) -> Iterator[None]:
        """Keep an operation on one server after its first change.

        The operation has several steps in this thread.

        Domain controllers replicate changes minutes later.
        """
        operation = self._operation
        operation.depth += 1
        try:
            yield
        finally:
            operation.depth -= 1
            if not operation.depth:
                operation.url = None

    def note_change_on(self, url: str) -> None:
        """Record the server that made a change.

        The current operation stays there, if there is one.
        """
        if self._operation.depth:
            self._operation.url = url

    @property
    def references(self) -> int:
        """Number of operations that use a connection now: CachedLDAPConnection.RefCount."""
        return self._references

    @property
    def is_closed(self) -> bool:
        """True if the pool is closed."""
        return self._closed

    @property
    def current_url(self) -> str | None:
        """URL of the server in use; None before the first connection."""
        return None if self._current is None else self._current.url

    @contextmanager
    def lease(self, deadline: float, *, only: str | None = None) -> Iterator[Channel]:
        """Lend a working channel; it is returned to the pool, or closed if it broke.

        Args:
            deadline: when to give up, as `time.monotonic` tells the time.
            only: URL of the only server that will do; None: any of the list, or the one of the operation.

        Raises:
            DirectoryNotConnected: no server could be reached, or too many channels are in use.
        """
        stays = self._operation.url if only is None else None
        self._take_reference(deadline)
        try:
            endpoint, channel = self._take_idle_channel(only or stays) or self._connect(
                deadline, only or stays
            )
        except BaseException as error:
            self._give_reference()
            if stays is not None and isinstance(error, DirectoryNotConnected):
                raise _make_half_done(stays, error) from error
            raise
        try:
            yield channel
        except BaseException as error:
            if not isinstance(error, Exception):
                channel.broken = True  # interrupted anywhere: an answer may be on its way
            raise
        finally:
            self._give_back(endpoint, channel)

    def suspect(self, url: str) -> None:
        """Try other servers first after a server did not answer.

        Idle connections to that server are closed.
        """
        with self._changed:
            for endpoint in self._options.endpoints:
                if endpoint.url == url:
                    self._mark_failed(endpoint)
        self._drop_idle_of_others()

    def close(self) -> None:
        """Close idle channels now, and channels in use when they are returned."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for _, channel in idle:
            channel.close()

    def _take_reference(self, deadline: float) -> None:
        if os.getpid() != self._process:
            self._forget_parent()
        with self._changed:
            while self._references >= CHANNELS_MAX and not self._closed:
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0 or not self._changed.wait(remaining_s):
                    raise DirectoryNotConnected(
                        f"all {CHANNELS_MAX} connections of this session are in use",
                        hint="close iterators that are not read to their end",
                    )
            if self._closed:
                raise DirectoryNotConnected("this session is closed", hint="connect again")
            self._references += 1

    def _give_reference(self) -> None:
        with self._changed:
            self._references -= 1
            self._changed.notify()

    def _forget_parent(self) -> None:
        """Close the sockets inherited by a fork.

        Two processes on one socket would mix answers.
        """
        inherited = self._idle
        self._begin()
        for _, channel in inherited:
            channel.broken = True  # no unbind: it would end the parent's connection
            channel.close()

    def _take_idle_channel(self, only: str | None) -> tuple[Endpoint, Channel] | None:
        while True:
            with self._changed:
                if not self._idle or (only is not None and self._idle[-1][0].url != only):
                    return None  # idle channels are all of the server in use
                endpoint, channel = self._idle.pop()
            if channel.is_usable():
                return endpoint, channel
            channel.close()

    def _give_back(self, endpoint: Endpoint, channel: Channel) -> None:
        with self._changed:
            keep = (
                not channel.broken
                and not self._closed
                and endpoint == self._current
                and len(self._idle) < IDLE_CHANNELS_MAX
            )
            if keep:
                self._idle.append((endpoint, channel))
            self._references -= 1
            self._changed.notify()
        if not keep:
            channel.close()

    def _connect(self, deadline: float, only: str | None) -> tuple[Endpoint, Channel]:
        failures: list[DirectoryNotConnected] = []
        for endpoint in self._order_endpoints():
            if only is not None and endpoint.url != only:
                continue
            if failures and time.monotonic() >= deadline:
                break  # the time is up: this server has not failed
            limit = min(deadline, time.monotonic() + self._options.connect_timeout_s)
            try:
                attempt = Attempt(self._options, endpoint, self._context, limit)
                channel = self._open_channel(attempt, self.observer)
                self.observer.record_connection()
                self._welcome_server(endpoint, channel, deadline)
            except DirectoryNotConnected as error:
                with self._changed:
                    self._mark_failed(endpoint)
                if error.ldap_code == INVALID_CREDENTIALS:
                    raise  # asking the next server with the same password could lock the account
                failures.append(error)
            else:
                return endpoint, channel
        raise _make_none_reachable(failures)

    def _welcome_server(self, endpoint: Endpoint, channel: Channel, deadline: float) -> None:
        try:
            if endpoint not in self._known_endpoints:
                self._welcome(channel, endpoint, deadline)
        except BaseException:
            channel.close()
            raise
        with self._changed:
            self._known_endpoints.add(endpoint)
            self._failed.pop(endpoint, None)
            self._current = endpoint
        self._drop_idle_of_others()

    def _drop_idle_of_others(self) -> None:
        """Close idle connections to other servers than the current one.

        Reads must see earlier changes.
        """
        with self._changed:
            other_channels = [idle for idle in self._idle if idle[0] != self._current]
            self._idle = [idle for idle in self._idle if idle[0] == self._current]
        for _, channel in other_channels:
            channel.close()

    def _order_endpoints(self) -> list[Endpoint]:
        """Return the endpoints in the order in which to try them.

        The server in use is first, then come the others, last those that failed recently.
        """
        with self._changed:
            now = time.monotonic()
            resting = {
                endpoint for endpoint, since in self._failed.items() if now - since < FAILED_SERVER_REST_S
            }
            first = [] if self._current is None or self._current in resting else [self._current]
        listed = [endpoint for endpoint in self._options.endpoints if endpoint not in first]
        return (
            first
            + [endpoint for endpoint in listed if endpoint not in resting]
            + [endpoint for endpoint in listed if endpoint in resting]
        )

    def _mark_failed(self, endpoint: Endpoint) -> None:
        self._failed[endpoint] = time.monotonic()
        if self._current == endpoint:
            self._current = None


def _make_half_done(url: str, error: DirectoryNotConnected) -> DirectoryNotConnected:
    return DirectoryNotConnected(
        f"the operation stopped in the middle: {error}",
        ldap_code=error.ldap_code,
        hint=f"its first changes are on {url} and may not be on other servers yet: repeat it later",
    )


def _make_none_reachable(failures: list[DirectoryNotConnected]) -> DirectoryNotConnected:
    if len(failures) == 1:
        return failures[0]
    code = next((error.ldap_code for error in failures if error.ldap_code is not None), None)
    return DirectoryNotConnected(
        "no server could be reached: " + " | ".join(str(error) for error in failures), ldap_code=code
    )
