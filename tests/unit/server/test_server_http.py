"""The local port: one GET request a connection, limits, and no other names than this computer's."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http import HTTPStatus
from http.client import HTTPConnection
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.replication.queue_managers import wait_until

from mqdssm.errors import ConfigError, TransportError
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.server import http_server
from mqdssm.server.http_server import HttpReply, HttpServer, RefusedRequestError, Request, is_own_host

PAGE = HttpReply(body=b"hello", content_type="text/plain")


def broken() -> HttpReply:
    raise ZeroDivisionError("secret")


def unusable() -> HttpReply:
    raise ConfigError("jinja2 is missing")


PAGES: dict[str, Callable[[], HttpReply]] = {"/": lambda: PAGE, "/broken": broken, "/unusable": unusable}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(PAGES, hosts=["Server.Example"]) as made:
        yield made


def exchange(server: HttpServer, *pieces: bytes, end: bool = False) -> bytes:
    """Send pieces and return all that comes back."""
    with socket.create_connection(server.address, timeout=10) as connection:
        for piece in pieces:
            connection.sendall(piece)
        if end:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def request(*, line: str = "GET / HTTP/1.1", host: str = "127.0.0.1", more: str = "") -> bytes:
    return f"{line}\r\nHost: {host}\r\n{more}\r\n".encode("latin-1")


def test_a_page_with_its_headers(server):
    connection = HTTPConnection(*server.address, timeout=10)
    connection.request("GET", "/?anything")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"hello")
    headers = dict(answer.getheaders())
    assert headers["Connection"] == "close"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Content-Security-Policy"].startswith("default-src 'none';")
    connection.close()


def test_it_listens_on_loopback_if_nothing_else_is_said(server):
    assert server.address.host == "127.0.0.1"


def test_a_request_in_pieces(server):
    whole = request()
    assert status(exchange(server, *(whole[at : at + 1] for at in range(len(whole))))) == 200


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (request(line="POST / HTTP/1.1"), 405),
        (request(line="HEAD / HTTP/1.1"), 405),
        (request(line="GET /other HTTP/1.1"), 404),
        (request(line="GET /../etc/passwd HTTP/1.1"), 404),
        (request(line="GET http://127.0.0.1/ HTTP/1.1"), 400),
        (request(line="GET / HTTP/2"), 400),
        (request(line="get / HTTP/1.1"), 400),
        (request(line="GET  / HTTP/1.1"), 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (request(more="Host: 127.0.0.1\r\n"), 400),
        (request(more="Content-Length: 1\r\n"), 400),
        (request(more="Content-Length: 0\r\n"), 200),
        (request(more="Transfer-Encoding: chunked\r\n"), 400),
        (request(more=" folded\r\n"), 400),
        (request(more="no colon\r\n"), 400),
        (request(more="a: \x00\x7f\xff\r\n"), 200),
        (request(more="a: b\nHost: c\r\n"), 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (request(more=f"a: {'b' * 20_000}\r\n"), 431),
    ],
)
def test_requests_and_their_status(server, sent, expected):
    assert status(exchange(server, sent)) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:9464", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:9464", 200),
        ("10.1.2.3", 200),
        ("server.example:9464", 200),
        ("evil.example", 403),
        ("server.example.evil.example", 403),
        ("localhost.", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
        ("[evil.example]", 403),
        ("127.0.0.1:1:2", 403),
        ("user@127.0.0.1", 403),
    ],
)
def test_only_names_of_this_computer(server, host, expected):
    """A name of a stranger that leads here is DNS rebinding."""
    answer = exchange(server, request(host=host))
    assert status(answer) == expected
    assert (b"hello" in answer) is (expected == 200)


def test_a_host_of_an_ipv6_address():
    assert is_own_host("[fe80::1]", ())
    assert not is_own_host("fe80::1", ())


def test_a_request_that_ends_early_gets_nothing(server):
    assert exchange(server, b"GET / HT", end=True) == b""


def test_a_slow_request_is_ended(server, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_S", 0.2)
    begin = time.monotonic()
    assert status(exchange(server, b"GET / HTTP/1.1\r\n")) == 408
    assert time.monotonic() - begin < 5


def test_an_endless_request_line_is_ended(server):
    assert status(exchange(server, b"G" * (2 * http_server.REQUEST_BYTES_MAX))) == 431


def test_connections_are_limited(server, monkeypatch):
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 2)
    with ExitStack() as closing:
        waiting = [
            closing.enter_context(socket.create_connection(server.address, timeout=10)) for _ in range(2)
        ]
        wait_until(lambda: len(server._connections) == 2)
        answer = b""
        with suppress(ConnectionResetError):
            answer = exchange(server, request())
        assert answer == b""
        assert server.counts.copy() == {"refused: too many connections": 1}
        waiting[0].sendall(request())
        assert status(waiting[0].recv(65536)) == 200


def test_a_page_that_cannot_be_made(server):
    answer = exchange(server, request(line="GET /unusable HTTP/1.1"))
    assert status(answer) == 503
    assert b"jinja2 is missing" in answer


def test_a_defect_is_not_shown(server):
    answer = exchange(server, request(line="GET /broken HTTP/1.1"))
    assert status(answer) == 500
    assert b"secret" not in answer
    assert status(exchange(server, request())) == 200


def test_a_page_that_takes_too_long(monkeypatch):
    monkeypatch.setattr(http_server, "REPLY_S", 0.1)
    ready = threading.Event()

    def slow() -> HttpReply:
        ready.wait(10)
        return PAGE

    with HttpServer({"/": slow, "/quick": lambda: PAGE}) as server:
        assert status(exchange(server, request())) == 408
        assert status(exchange(server, request(line="GET /quick HTTP/1.1"))) == 200
        ready.set()


def test_it_ends_with_open_connections():
    server = HttpServer(PAGES)
    with socket.create_connection(server.address, timeout=10) as connection:
        connection.sendall(b"GET")
        server.close()
        with pytest.raises(OSError):
            socket.create_connection(server.address, timeout=1).close()


def test_an_address_that_is_taken(server):
    with pytest.raises(TransportError, match=f"cannot listen on 127.0.0.1:{server.address.port}: "):
        HttpServer(PAGES, listen=server.address)
    with pytest.raises(TransportError, match="cannot listen"):
        HttpServer(PAGES, listen=SocketAddress("127.0.0.1", 70_000))


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: request()[:-2] + data))
def test_any_octets_are_a_request_or_refused(data):
    path, status = "/", HTTPStatus.BAD_REQUEST
    try:
        path = Request.parse(data + b"\r\n\r\n").path
    except RefusedRequestError as error:
        status = error.status
    assert path.startswith("/")
    assert path.isprintable()
    assert status is HTTPStatus.BAD_REQUEST


@given(st.text(st.sampled_from("localhost127.[]:@/%\\ é0"), max_size=20))
def test_hosts_are_addresses_or_known_names(text):
    if is_own_host(text, {"localhost"}):
        name = text.rpartition(":")[0] if text.rpartition(":")[2].isdigit() and ":" in text else text
        name = name.removeprefix("[").removesuffix("]")
        assert name == "localhost" or ip_address(name)
