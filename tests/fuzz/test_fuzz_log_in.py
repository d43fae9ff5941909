"""Whatever a server answers to the log-in: a connection or DirectoryNotConnected, and never a long wait."""

import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.servers import answers
from support.servers.proxy import scripted_server

from mqdssm.directory.ber import integer
from mqdssm.directory.connect import Attempt, open_channel, trust
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.responses import BIND_RESPONSE, split_messages
from mqdssm.errors import DirectoryNotConnected

LIMIT_S = 5.0
CONTEXT = trust(ConnectionOptions.of("ldap://127.0.0.1"))


class Server:
    """Answers the bind with `reply`; message id 7 in it becomes the request's."""

    def __init__(self) -> None:
        self.reply = b""

    def __call__(self, connection: socket.socket) -> None:
        ((number, *_),), _ = split_messages(connection.recv(4096))
        own = integer(number)
        connection.sendall(self.reply.replace(b"\x02\x01\x07", own, 1) if len(own) == 3 else self.reply)


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[tuple[Server, ConnectionOptions]]:
    server = Server()
    with scripted_server(server) as port:
        options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none", user="CN=me", password="x")
        yield server, options


def attempt(fuzzed: tuple[Server, ConnectionOptions], reply: bytes) -> None:
    server, options = fuzzed
    server.reply = reply
    started = time.monotonic()
    try:
        opened = open_channel(
            Attempt(options, options.endpoints[0], CONTEXT, started + LIMIT_S), OperationObserver()
        )
    except DirectoryNotConnected:
        pass
    else:
        opened.close()
    assert time.monotonic() - started < LIMIT_S - 1


@given(reply=st.binary(max_size=64))
def test_any_octets(fuzzed: tuple[Server, ConnectionOptions], reply: bytes) -> None:
    attempt(fuzzed, reply)


@given(data=st.data(), code=st.integers(-(2**31), 2**31 - 1))
def test_nearly_an_answer(fuzzed: tuple[Server, ConnectionOptions], data: st.DataObject, code: int) -> None:
    good = answers.encode_result(7, BIND_RESPONSE, code, matched="CN=a", text="wörds")
    octets = bytearray(good)
    for _ in range(data.draw(st.integers(0, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(octets)))
    attempt(fuzzed, bytes(octets[:cut]) + data.draw(st.binary(max_size=8)))
