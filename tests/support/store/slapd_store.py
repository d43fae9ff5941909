"""The store on a real slapd, with connections that are cut between any two writes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from mqdssm.directory.channel import Channel, ConnectionBroken
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.requests import SEARCH_REQUEST
from mqdssm.directory.responses import RESULT_TAGS
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryError
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.ldap.requests import WRITES

ANSWER_S: Final = 5.0


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """The LDAP messages in some octets: the tag of each operation, and the message."""
    found, at = [], 0
    while at < len(data):
        header, length = _length(data, at)
        end = at + header + length
        identifier = at + header  # INTEGER
        operation = identifier + 2 + data[identifier + 1]
        found.append((data[operation], data[at:end]))
        at = end
    return found


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Octets of tag and length, and what the length says."""
    first = data[at + 1]
    if first < 0x80:
        return 2, first
    count = first & 0x7F
    return 2 + count, int.from_bytes(data[at + 2 : at + 2 + count], "big")


class Cutter:
    """Counts writes, and cuts all connections around one of them.

    Attributes:
        writes: how many have reached the server since it was armed.
        searches: how many searches have.
    """

    def __init__(self) -> None:
        self._point: int | None = None
        self._down = False
        self.writes = 0
        self.searches = 0

    def arm(self, point: int) -> None:
        """Cut before the first write (0), behind it (1), before the second (2) and so on."""
        self._point, self.writes, self._down = point, 0, False

    def disarm(self) -> None:
        self._point, self._down = None, False

    @contextmanager
    def installed(self) -> Iterator["Cutter"]:
        """Stand between all channels and their servers."""
        original = Channel.send

        def send(channel: Channel, request: bytes, deadline: float) -> None:
            self._send(original, channel, request, deadline)

        Channel.send = send  # type: ignore[method-assign,assignment]
        try:
            yield self
        finally:
            Channel.send = original  # type: ignore[method-assign]

    def _send(self, original: Callable[..., None], channel: Channel, request: bytes, deadline: float) -> None:
        if self._down:
            channel.broken = True
            raise ConnectionBroken("cut by the test", request_left=False)
        passed: list[bytes] = []
        for tag, message in messages(request):
            self.searches += tag == SEARCH_REQUEST
            if tag in WRITES and self._point is not None:
                if self.writes == self._point // 2 and self._point % 2 == 0:
                    self._cut(original, channel, passed, deadline)
                self.writes += 1
                passed.append(message)
                if self.writes == (self._point + 1) // 2 and self._point % 2:
                    self._cut(original, channel, passed, deadline)
            else:
                self.writes += tag in WRITES
                passed.append(message)
        original(channel, b"".join(passed), deadline)

    def _cut(
        self, original: Callable[..., None], channel: Channel, passed: list[bytes], deadline: float
    ) -> None:
        """Let what has passed be carried out, and lose the answers and the connection."""
        self._down = True
        channel.broken = True
        if passed:
            original(channel, b"".join(passed), deadline)
            left = len(passed)
            end = time.monotonic() + ANSWER_S
            while left > 0 and time.monotonic() < end:
                _, found = channel._splitter.feed(channel._receive_more(end))
                left -= sum(message.tag in RESULT_TAGS for message in found)
        raise ConnectionBroken("cut by the test", request_left=bool(passed))


class LdapHarness:
    """A store on a slapd of the test run."""

    crashes = DirectoryError

    def __init__(self, options: ConnectionOptions, cutter: Cutter) -> None:
        self._options = replace(options, allow_replicated=True)
        self._cutter = cutter
        self.store = self._opened()

    def _opened(self) -> LdapStore:
        self.session = Session.open(self._options)
        self.session.read_back = ReadBack(settle_s=0, limit_s=0.05)
        return LdapStore(self.session, closes_session=True)

    def arm(self, point: int) -> None:
        self._cutter.arm(point)

    def disarm(self) -> None:
        self._cutter.disarm()

    def reopen(self) -> None:
        self.store.close()
        self.store = self._opened()
