"""Observation of LDAP operations: counters, DEBUG logs, OpenTelemetry spans.

`Channel` reports each request that it sends and each result that it receives; there is no other place. Values
of attributes are never looked at, so no secret can be shown. Names of objects are shown.

Spans are made if the program has imported ``opentelemetry.trace``, as every program that collects spans has.
Nothing is imported for them.
"""

import logging
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mqdssm.directory.requests import (
    ADD_REQUEST,
    DELETE_REQUEST,
    EXTENDED_REQUEST,
    MODIFY_DN_REQUEST,
    MODIFY_REQUEST,
    PAGED_RESULTS_OID,
    SEARCH_REQUEST,
)
from mqdssm.model.safe_text import make_visible
from mqdssm.tables.ldap_results import NO_SUCH_OBJECT

log: Final = logging.getLogger("mqdssm.directory.operations")

KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        ADD_REQUEST: "add",
        DELETE_REQUEST: "delete",
        EXTENDED_REQUEST: "extended",
        MODIFY_DN_REQUEST: "rename",
        MODIFY_REQUEST: "modify",
        SEARCH_REQUEST: "search",
    }
)
"""Tag of a request ([RFC4511] 4.2 to 4.12) -> name of the operation."""
NO_ANSWER: Final = -1
"""Result code of an operation whose connection ended before its result."""

_PAGED: Final = PAGED_RESULTS_OID.encode()
_LENGTH_FOLLOWS: Final = 0x80


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Numbers of LDAP operations of a session since it was made.

    Log-ins are not counted: `connections` has their number.

    Attributes:
        operations: name of the operation and LDAP result code -> number; the code is -1 if the connection
            ended before the result.
        pages: number of pages of searches, among the operations.
        connections: number of connections made; those after the first ones replace lost or closed ones.
    """

    operations: Mapping[tuple[str, int], int]
    pages: int
    connections: int


class SentRequest(NamedTuple):
    """Request that waits for its result.

    Attributes:
        kind: name of the operation.
        begin: when it was sent, as `time.perf_counter` tells the time.
        name: DN of the object; empty unless somebody wants to see it.
        is_seen: True if somebody wants to see the operation.
    """

    kind: str
    begin: float
    name: str
    is_seen: bool


Outstanding = dict[int, SentRequest]
"""Requests of a channel that wait for their results, by message id."""


class OperationObserver:
    """Observer of the operations of all channels of a session; thread-safe."""

    __slots__ = ("_connections", "_counter", "_heard_at", "_lock", "_pages", "_sent", "_tracer")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counter: Counter[tuple[str, int]] = Counter()
        self._sent = self._pages = self._connections = 0
        self._heard_at = -math.inf
        self._tracer: Any = None

    @property
    def value(self) -> int:
        """Number of round trips; requests that are sent together count once."""
        return self._sent

    @property
    def counts(self) -> OperationCounts:
        """Snapshot of all counters."""
        with self._lock:
            return OperationCounts(MappingProxyType(dict(self._counter)), self._pages, self._connections)

    @property
    def heard_at(self) -> float:
        """Time when a server sent anything last, in monotonic seconds.

        The time is minus infinity if none did.
        """
        return self._heard_at

    def note_sign_of_life(self) -> None:
        """Record that a server has sent something."""
        self._heard_at = time.monotonic()

    def record_connection(self) -> None:
        """Count a new connection."""
        with self._lock:
            self._connections += 1

    def sent(self, outstanding: Outstanding, requests: bytes, begin: float) -> None:
        """Record that requests were sent, one or several together.

        Args:
            outstanding: requests of the channel.
            requests: the LDAPMessages.
            begin: when sending began, as `time.perf_counter` tells the time.
        """
        is_seen = log.isEnabledFor(logging.DEBUG) or _find_tracing() is not None
        pages, at, size = 0, 0, len(requests)
        while at < size:
            content = _content_of(requests, at)
            end = content + 2 + requests[content + 1]  # behind the message id, whose length has one octet
            tag = requests[end]
            name = _name_in(requests, end) if is_seen else ""
            message_id = int.from_bytes(requests[content + 2 : end])
            outstanding[message_id] = SentRequest(KINDS.get(tag) or f"0x{tag:02x}", begin, name, is_seen)
            at = _end_of(requests, at, content)
            pages += tag == SEARCH_REQUEST and _PAGED in requests[end:at]
        with self._lock:
            self._sent += 1
            self._pages += pages

    def answered(self, outstanding: Outstanding, message_id: int, code: int, url: str) -> None:
        """Record the result of a request.

        Args:
            outstanding: requests of the channel.
            message_id: of the request.
            code: the LDAP result code, or `NO_ANSWER`.
            url: of the server.
        """
        request = outstanding.pop(message_id, None)
        if request is None:
            return
        with self._lock:
            self._counter[request.kind, code] += 1
        if request.is_seen:
            self._show(request, code, url)

    def record_abandonment(self, outstanding: Outstanding, url: str) -> None:
        """Record that the results of all requests of a channel will not come."""
        for message_id in list(outstanding):
            self.answered(outstanding, message_id, NO_ANSWER, url)

    def _show(self, request: SentRequest, code: int, url: str) -> None:
        if log.isEnabledFor(logging.DEBUG):
            words = "no answer" if code == NO_ANSWER else f"result {code}"
            duration_ms = 1000 * (time.perf_counter() - request.begin)
            name = make_visible(request.name)
            log.debug("%s %r at %s: %s, %.1f ms", request.kind, name, url, words, duration_ms)
        if (trace := _find_tracing()) is not None:
            self._add_span(trace, request, code, url)

    def _add_span(self, trace: Any, request: SentRequest, code: int, url: str) -> None:
        if self._tracer is None:
            self._tracer = trace.get_tracer("mqdssm")
        end = time.time_ns()
        begin = end - int(1e9 * (time.perf_counter() - request.begin))
        span = self._tracer.start_span(
            f"LDAP {request.kind}",
            kind=trace.SpanKind.CLIENT,
            start_time=begin,
            attributes={
                "db.system.name": "ldap",
                "db.operation.name": request.kind,
                "ldap.dn": make_visible(request.name),
                "ldap.result_code": code,
                "url.full": url,
            },
        )
        if code not in {0, NO_SUCH_OBJECT}:
            span.set_status(trace.Status(trace.StatusCode.ERROR))
        span.end(end_time=end)


def _find_tracing() -> Any:
    """Return the module ``opentelemetry.trace``, if the program uses it."""
    return sys.modules.get("opentelemetry.trace")


def _content_of(data: bytes, at: int) -> int:
    """Return where the content of an element begins."""
    first = data[at + 1]
    return at + 2 if first < _LENGTH_FOLLOWS else at + 2 + (first & 0x7F)


def _end_of(data: bytes, at: int, content: int) -> int:
    first = data[at + 1]
    return content + (first if first < _LENGTH_FOLLOWS else int.from_bytes(data[at + 2 : content]))


def _name_in(request: bytes, at: int) -> str:
    """Return the DN of the operation at an offset, or the OID of an extended one."""
    tag, content = request[at], _content_of(request, at)
    if tag not in KINDS:
        return ""
    if tag != DELETE_REQUEST:
        at, content = content, _content_of(request, content)
    return request[content : _end_of(request, at, content)].decode(errors="replace")
