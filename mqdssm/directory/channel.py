"""Bound LDAP connection that sends requests and receives answers.

Every wait has a deadline.

A channel serves one caller at a time (a pool lends it). After an interrupted wait, an answer may
still arrive, so the channel is never used again.
"""

import contextlib
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from mqdssm.directory.observation import OperationObserver, Outstanding
from mqdssm.directory.requests import MESSAGE_ID_MAX, encode_unbind
from mqdssm.directory.responses import (
    INTERMEDIATE_RESPONSE,
    RESULT_TAGS,
    SEARCH_DONE,
    SEARCH_ENTRY,
    SEARCH_REFERENCE,
    LdapResult,
    MessageBounds,
    MessageSplitter,
    decode_result,
)
from mqdssm.errors import DecodeError

RECEIVE_BYTES: Final = 256 * 1024
"""Size of one `recv`: larger pieces need fewer calls while a page is read."""
ANSWER_ENTRIES_MAX: Final = 1_000_000
"""Maximum entries of one answer: ten times the largest page. Small entries take far more memory
than octets."""
ANSWER_BYTES_MAX: Final = 1 << 29
"""Maximum octets of one answer with all its entries: an endless answer must not fill the memory.

A page of a thousand entries is some megabytes; users with large certificates make it a few hundred."""
CLOSE_LIMIT_S: Final = 1.0
"""Maximum seconds for sending the unbind request."""


class OctetTransport(Protocol):
    """Transport of octets: a socket, with or without TLS or a SASL layer."""

    def sendall(self, data: bytes, /) -> None:
        """Send all octets; after an OSError some of them were not sent."""

    def recv(self, size: int, /) -> bytes:
        """Receive at most `size` octets; none at the end of the stream."""

    def settimeout(self, seconds: float | None, /) -> None:
        """Set the time-out of the next call; 0 never waits."""

    def close(self) -> None:
        """Close the transport."""


class ConnectionBroken(Exception):  # noqa: N818  it names what happened
    """Error of a connection that cannot be used any more.

    The pool and the session handle this error; callers never see it.

    Attributes:
        request_left: the whole request may have reached the server.
        timed_out: the server keeps the connection, but did not answer in time.
        garbled: the server's answer broke the protocol, so asking again would not help.
        words: what happened, for people.
    """

    def __init__(
        self, words: str, *, request_left: bool, timed_out: bool = False, garbled: bool = False
    ) -> None:
        super().__init__(words)
        self.words = words
        self.request_left = request_left
        self.timed_out = timed_out
        self.garbled = garbled

    @property
    def is_final(self) -> bool:
        """True if a repeated read would fail again.

        The reason is that the time is up, or that the server breaks the protocol.
        """
        return self.timed_out or self.garbled


class Page(NamedTuple):
    """All answers to one search request.

    Attributes:
        parts: buffers, each with the entries that lie in it.
        result: of the search; it was received, or there is no page.
        references: how many search continuation references came along; they are never followed.
    """

    parts: list[tuple[bytes, list[MessageBounds]]]
    result: LdapResult
    references: int = 0


class Channel:
    """Bound connection to a server.

    Attributes:
        url: the server, for messages.
        address: which of its addresses it is connected to; empty: not known.
        broken: it must not be used any more.
    """

    __slots__ = (
        "_next_id",
        "_observer",
        "_outstanding",
        "_splitter",
        "_transport",
        "address",
        "broken",
        "url",
    )

    def __init__(
        self, transport: OctetTransport, url: str, first_id: int, observer: OperationObserver
    ) -> None:
        self._transport = transport
        self._splitter = MessageSplitter()
        self._next_id = first_id
        self._observer = observer
        self._outstanding: Outstanding = {}
        self.url = url
        self.address = ""
        self.broken = False

    def choose_id(self) -> int:
        """Return a message id that no outstanding request of this channel has."""
        number = self._next_id
        self._next_id = number + 1 if number < MESSAGE_ID_MAX else 1
        return number

    def send(self, request: bytes, deadline: float) -> None:
        """Send one request.

        Raises:
            ConnectionBroken: the request has not left whole, so that the server cannot carry it out.
        """
        begin = time.perf_counter()
        try:
            self._transport.settimeout(_compute_remaining_s(deadline))
            self._transport.sendall(request)
        except OSError as error:
            self.broken = True
            late = isinstance(error, TimeoutError)
            words = "the server does not take the request" if late else _describe_error(error)
            raise ConnectionBroken(words, request_left=False, timed_out=late) from error
        except BaseException:
            self.broken = True
            raise
        self._observer.sent(self._outstanding, request, begin)

    @contextlib.contextmanager
    def _guard_receiving(self) -> Iterator[None]:
        """Mark the channel as broken if the block fails.

        Raises:
            ConnectionBroken: the block could not decode an answer.
        """
        try:
            yield
        except DecodeError as error:
            self.broken = True
            raise self._make_confused_error(str(error)) from error
        except BaseException:
            self.broken = True
            raise

    def receive(self, message_id: int, deadline: float, expected: int = SEARCH_DONE) -> Page:
        """Wait for the whole answer to a request.

        Args:
            message_id: of the request.
            deadline: when to give up.
            expected: tag of the result that ends the answer.

        Raises:
            ConnectionBroken: the connection ended, or the time was up; of a search some entries may
                have come, which counts for nothing without the result at its end.
        """
        parts: list[tuple[bytes, list[MessageBounds]]] = []
        received = references = count = 0
        with self._guard_receiving():
            while True:
                data = self._receive_more(deadline)
                received += len(data)
                if received > ANSWER_BYTES_MAX:
                    raise self._make_confused_error(
                        f"an answer of more than {ANSWER_BYTES_MAX} bytes (smaller pages?)"
                    )
                buffer, messages = self._splitter.feed(data)
                if not messages:
                    continue
                last = messages[-1]
                entries = [message for message in messages if message.tag == SEARCH_ENTRY]
                if entries:
                    count += len(entries)
                    if count > ANSWER_ENTRIES_MAX:
                        raise self._make_confused_error(
                            f"an answer of more than {ANSWER_ENTRIES_MAX:,} entries"
                        )
                    parts.append((buffer, entries))
                if len(entries) != len(messages):
                    result = self._look_at_others(buffer, messages, message_id, expected)
                    references += sum(message.tag == SEARCH_REFERENCE for message in messages)
                    if result is not None:
                        page = Page(parts, self._finish_search(result, last, message_id), references)
                        self._observer.answered(self._outstanding, message_id, result.code, self.url)
                        return page
                if last.id not in {message_id, 0}:
                    raise self._make_confused_error(f"an answer to message {last.id}, not to {message_id}")

    def request(self, message_id: int, request: bytes, expected: int, deadline: float) -> LdapResult:
        """Send a request other than a search, and wait for its result.

        The result has the tag `expected`.

        Raises:
            ConnectionBroken: as `send` and `receive`.
        """
        self.send(request, deadline)
        return self.receive(message_id, deadline, expected).result

    def answers(self, waiting: Mapping[int, int], deadline: float) -> list[tuple[int, LdapResult]]:
        """Wait for some of the results of several requests other than searches.

        Args:
            waiting: the message ids of all requests that are not answered yet -> the tags of their results.
            deadline: when to give up.

        Returns:
            Message id and result of those that came, at least one; in the server's order.

        Raises:
            ConnectionBroken: as `receive`; what came before it was returned by earlier calls.
        """
        results: dict[int, LdapResult] = {}
        with self._guard_receiving():
            while not results:
                buffer, messages = self._splitter.feed(self._receive_more(deadline))
                for message in messages:
                    if message.id in results or message.id not in waiting:
                        if message.id == 0 and message.tag in RESULT_TAGS:
                            raise self._make_goodbye_error(decode_result(buffer, message))
                        raise self._make_confused_error(
                            f"an answer to message {message.id}, which nobody sent"
                        )
                    if message.tag != waiting[message.id]:
                        expected = waiting[message.id]
                        raise self._make_confused_error(
                            f"an answer of the kind 0x{message.tag:02x} instead of 0x{expected:02x}"
                        )
                    results[message.id] = decode_result(buffer, message)
        for number, result in results.items():
            self._observer.answered(self._outstanding, number, result.code, self.url)
        return list(results.items())

    def receive_some(self, message_id: int, deadline: float) -> tuple[bytes, list[MessageBounds]]:
        """Wait for some answers to a search that continues.

        Args:
            message_id: of the request.
            deadline: how long to wait for the first.

        Returns:
            A buffer and what lies in it; nothing where nothing came in time, which is no failure.

        Raises:
            ConnectionBroken: the connection ended.
        """
        with self._guard_receiving():
            try:
                data = self._receive_more(deadline)
            except ConnectionBroken as broken:
                if broken.timed_out:
                    return b"", []
                raise
            buffer, messages = self._splitter.feed(data)
            for message in messages:
                if message.id == 0 and message.tag in RESULT_TAGS:
                    raise self._make_goodbye_error(decode_result(buffer, message))
                if message.id != message_id:
                    raise self._make_confused_error(f"an answer to message {message.id}, not to {message_id}")
        return buffer, messages

    def _look_at_others(
        self, buffer: bytes, messages: list[MessageBounds], message_id: int, expected: int
    ) -> LdapResult | None:
        result: LdapResult | None = None
        for message in messages:
            if message.tag == SEARCH_ENTRY or message.tag in {SEARCH_REFERENCE, INTERMEDIATE_RESPONSE}:
                continue  # references are counted and never followed
            if message.tag not in RESULT_TAGS:
                raise self._make_confused_error(f"an answer of the unknown kind 0x{message.tag:02x}")
            late_result = decode_result(buffer, message)
            if message.id == 0:
                raise self._make_goodbye_error(late_result)
            if message.id != message_id:
                raise self._make_confused_error(f"an answer to message {message.id}, not to {message_id}")
            if message.tag != expected:
                raise self._make_confused_error(
                    f"an answer of the kind 0x{message.tag:02x} instead of 0x{expected:02x}"
                )
            if result is not None:
                raise self._make_confused_error("two results to one request")
            result = late_result
        return result

    def _finish_search(self, result: LdapResult, last: MessageBounds, message_id: int) -> LdapResult:
        if last.id != message_id or last.tag not in RESULT_TAGS or self._splitter.pending:
            raise self._make_confused_error("more answers behind the last one")
        return result

    def _receive_more(self, deadline: float) -> bytes:
        try:
            self._transport.settimeout(_compute_remaining_s(deadline))
            data = self._transport.recv(RECEIVE_BYTES)
        except TimeoutError as error:
            raise ConnectionBroken(
                "the server did not answer in time", request_left=True, timed_out=True
            ) from error
        except OSError as error:
            raise ConnectionBroken(_describe_error(error), request_left=True) from error
        if not data:
            raise ConnectionBroken("the server closed the connection", request_left=True)
        self._observer.note_sign_of_life()
        return data

    def _make_goodbye_error(self, result: LdapResult) -> ConnectionBroken:
        words = f"the server ended the connection (LDAP result {result.code} {result.text!r})"
        return ConnectionBroken(words, request_left=True)

    def _make_confused_error(self, problem: str) -> ConnectionBroken:
        return ConnectionBroken(
            f"the server broke the LDAP protocol: {problem}", request_left=True, garbled=True
        )

    def is_usable(self) -> bool:
        """Return True if an idle channel is still usable, without waiting.

        A server that closed it (time-out, restart) has left an end of stream or a notice in the
        socket, and nothing else can be there: no request is outstanding.
        """
        if self.broken:
            return False
        try:
            self._transport.settimeout(0)
            self._transport.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        self.broken = True
        return False

    def close(self) -> None:
        """Send an unbind request and close ([MS-MQDSSM] 3.1.6.21).

        No request is sent if the channel is broken.
        """
        self._observer.record_abandonment(self._outstanding, self.url)
        if not self.broken:
            self.broken = True
            try:
                self._transport.settimeout(CLOSE_LIMIT_S)
                self._transport.sendall(encode_unbind(self.choose_id()))
            except OSError:
                pass  # it is gone already
        self._transport.close()


def _compute_remaining_s(deadline: float) -> float:
    """Return the seconds until the deadline.

    TimeoutError is raised instead of returning 0.
    """
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError("the time is up")
    return remaining_s


def _describe_error(error: OSError) -> str:
    return f"the connection broke: {error.strerror or error}"
