"""HTTP server for a few pages on a local port, without log-in.

A connection carries one GET request. Connections, octets and seconds have limits. A web page in the browser
of an operator could use a name whose address its owner then changes to that of this port (DNS rebinding). So
the header Host must have an IP address, localhost, or a configured name (decision T80).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, Self

from mqdssm.drivers.threads import EventCounts, WorkerThread
from mqdssm.errors import MqdssmError, TransportError
from mqdssm.model.socket_addresses import SocketAddress

log: Final = logging.getLogger(__name__)

LOOPBACK: Final = SocketAddress("127.0.0.1", 0)
CONNECTIONS_MAX: Final = 16
"""Connections at one time; more are closed."""
REQUEST_BYTES_MAX: Final = 8192
"""Octets of a request with its headers."""
REQUEST_S: Final = 5.0
"""Seconds in which a request must arrive."""
REPLY_S: Final = 30.0
"""Seconds in which a page must be made, and again in which it must be read by the client."""
_WORKERS: Final = 2  # threads that make pages
_ACCEPTING_ROUNDS: Final = 100  # more are needed only while clients connect without a pause
_REQUEST: Final = re.compile(r"([A-Z]{1,20}) (/[!-~]*) HTTP/1\.[01]", re.ASCII)
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::[0-9]{1,5})?", re.ASCII)
_ALWAYS: Final = (
    "Connection: close",
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
)
_NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """Reply to a request.

    Attributes:
        body: its octets.
        content_type: of the body.
        status: status code.
        policy: Content-Security-Policy.
    """

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    policy: str = _NOTHING

    def encode(self) -> bytes:
        """Return the reply with its headers."""
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            f"Content-Security-Policy: {self.policy}",
            *_ALWAYS,
        ]
        if self.status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append("Allow: GET")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + self.body


class HttpServer:
    """Server of a few pages in a thread of its own; a context manager that closes it.

    Args:
        pages: function that makes the page of each path, called in other threads.
        listen: IP address and port; port 0: any.
        hosts: names of this computer by which clients may call it, beside localhost and IP addresses.

    Attributes:
        counts: what was refused.
        address: IP address and port that the server listens on.

    Raises:
        TransportError: the address cannot be listened on.
    """

    def __init__(
        self,
        pages: Mapping[str, Callable[[], HttpReply]],
        *,
        listen: SocketAddress = LOOPBACK,
        hosts: Collection[str] = (),
    ) -> None:
        self.counts: Final = EventCounts()
        self._pages: Final = dict(pages)
        self._hosts: Final = {"localhost", *(host.casefold() for host in hosts)}
        self._connections: Final[dict[asyncio.Task[None], asyncio.StreamWriter]] = {}
        self._executor: Final = ThreadPoolExecutor(_WORKERS, thread_name_prefix="page")
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = WorkerThread(self._loop.run_forever, "HTTP server")
        self._thread.start()
        starting = asyncio.start_server(self._accept, *listen, limit=REQUEST_BYTES_MAX)
        try:
            self._server: Final = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
            host, port, *_ = self._server.sockets[0].getsockname()
            self.address: Final = SocketAddress(host, port)
        except (OSError, OverflowError) as error:
            self._end()
            reason = getattr(error, "strerror", None) or error
            raise TransportError(f"cannot listen on {listen.host}:{listen.port}: {reason}") from error

    def close(self) -> None:
        """Close the port and all connections, without waiting for unfinished pages."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _stop(self) -> None:
        await self._finish_accepting()
        self._server.close()
        connections = dict(self._connections)
        for task, writer in connections.items():
            task.cancel()
            writer.transport.abort()  # also where the task has not begun
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # the connections are closed meanwhile

    async def _finish_accepting(self) -> None:
        """Wait for asyncio's own tasks, which would lose a socket of a closed server."""
        for _ in range(_ACCEPTING_ROUNDS):
            tasks = asyncio.all_tasks() - {asyncio.current_task()} - self._connections.keys()
            if not tasks:
                return
            await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, unless there are too many."""
        if len(self._connections) >= CONNECTIONS_MAX:
            self.counts.add("refused: too many connections")
            writer.transport.abort()
            return
        task = self._loop.create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(lambda ended: self._connections.pop(ended, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await self._reply(reader)
            if reply is None:
                return
            async with asyncio.timeout(REPLY_S):
                writer.write(reply.encode())
                await writer.drain()
                writer.write_eof()
        except (OSError, asyncio.CancelledError):  # TimeoutError is an OSError
            writer.transport.abort()
        finally:
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader) -> HttpReply | None:
        """Read a request and return its reply; None if the client ended the connection."""
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
            request = Request.parse(head)
            make = self._page_of(request)
            async with asyncio.timeout(REPLY_S):
                return await self._loop.run_in_executor(self._executor, make)
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            return self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
        except TimeoutError:
            return self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request or its page took too long")
        except RefusedRequestError as error:
            return self._refuse(error.status, str(error))
        except MqdssmError as error:
            log.warning("a page cannot be made: %s", error)
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except Exception:
            log.exception("a page cannot be made")
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "a defect: the log has the reason")

    def _page_of(self, request: "Request") -> Callable[[], HttpReply]:
        """Return the function that makes the page of a request.

        Raises:
            RefusedRequestError: another method than GET, a foreign host, or an unknown path.
        """
        if not is_own_host(request.host, self._hosts):
            raise RefusedRequestError(
                HTTPStatus.FORBIDDEN,
                "the header Host names another computer: use an IP address or localhost, or add the name to "
                "hosts of [metrics] in server.toml",
            )
        if request.method != "GET":
            raise RefusedRequestError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is allowed")
        page = self._pages.get(request.path)
        if page is None:
            paths = ", ".join(sorted(self._pages))
            raise RefusedRequestError(HTTPStatus.NOT_FOUND, f"there is no such page, only {paths}")
        return page

    def _refuse(self, status: HTTPStatus, text: str) -> HttpReply:
        self.counts.add(f"refused: {status.phrase}")
        return HttpReply(status=status, body=f"{text}\n".encode("utf-8", "backslashreplace"))


class RefusedRequestError(ValueError):
    """Request that gets no page.

    Attributes:
        status: status code of the reply.
    """

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request without a body.

    Attributes:
        method: as GET.
        path: the path without the query.
        host: value of the header Host.
    """

    method: str
    path: str
    host: str = field(repr=False)

    @classmethod
    def parse(cls, head: bytes) -> Self:
        """Read a request line and headers, to the empty line.

        Raises:
            RefusedRequestError: it is no request of HTTP/1 without a body and with one header Host.
        """
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        request = _REQUEST.fullmatch(first)
        headers = [_HEADER.fullmatch(line) for line in lines]
        if request is None or None in headers:
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1")
        named = [(match[1].lower(), match[2]) for match in headers if match is not None]
        hosts = [value for name, value in named if name == "host"]
        has_body = any(
            name == "transfer-encoding" or (name == "content-length" and value != "0")
            for name, value in named
        )
        if len(hosts) != 1 or has_body:
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "a request has one header Host and no body")
        return cls(method=request[1], path=request[2].partition("?")[0], host=hosts[0])


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Return True if a header Host names this computer.

    Args:
        host: an IP address or a name, with or without a port.
        names: names of this computer in small letters.
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    if match[2] is not None and match[2].casefold() in names:
        return True
    with suppress(ValueError):
        ip_address(match[1] or match[2])
        return True
    return False
