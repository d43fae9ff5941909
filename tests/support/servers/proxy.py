"""Networks that misbehave: a proxy that records, cuts, stalls or drips, and servers that never answer."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Self


@dataclass
class Recording:
    """What passed over one connection."""

    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)


@dataclass
class Fault:
    """One fault, counted from the moment it is armed; it strikes once.

    Attributes:
        up: bytes to the server that still pass.
        down: bytes to the client that still pass.
        stall: keep the connections open and say nothing more, instead of closing them.
        for_good: all connections are cut, and new ones closed at once from then on.
    """

    up: int | None = None
    down: int | None = None
    stall: bool = False
    for_good: bool = False
    struck: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Forwards connections on loopback to a server, and spoils them as told."""

    def __init__(self, host: str, port: int, *, listen_on: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._listener = socket.create_server((listen_on, 0))
        self.host, self.port = self._listener.getsockname()[:2]
        self.recordings: list[Recording] = []
        self.down_delay_s = 0.0  # before each byte to the client, when set
        self.refuse = False  # close new connections at once
        self.damage: Callable[[bytes], bytes] | None = None  # what is sent to the client, of the same length
        self.only_this_connection = False  # a fault that has struck leaves new connections alone
        self._fault: Fault | None = None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._spawn(self._accept)

    @property
    def url(self) -> str:
        return f"ldap://{self.host}:{self.port}"

    def arm(
        self,
        *,
        up: int | None = None,
        down: int | None = None,
        stall: bool = False,
        for_good: bool = False,
    ) -> Fault:
        """Let so many bytes pass in one direction, then cut all connections (or stall them)."""
        fault = Fault(up, down, stall, for_good)
        with self._lock:
            self._fault = fault
        return fault

    def disarm(self) -> None:
        with self._lock:
            self._fault = None

    def cut_all(self) -> None:
        """Break every connection that is open now."""
        with self._lock:
            victims, self._open = self._open, set()
        for victim in victims:
            with contextlib.suppress(OSError):
                victim.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            for end in (client, server):  # else small pieces wait for each other's acknowledgement
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            recording = Recording()
            self.recordings.append(recording)
            with self._lock:
                self._open |= {client, server}
            ends = _Pair(client, server)
            for up in (True, False):
                self._spawn(partial(self._pump, ends, recording, up=up))

    def _pump(self, ends: "_Pair", recording: Recording, *, up: bool) -> None:
        source, sink = (ends.client, ends.server) if up else (ends.server, ends.client)
        try:
            while data := source.recv(65536):
                if self.damage is not None and not up:
                    data = self.damage(data)
                passed, verdict = self._judge(data, up=up)
                (recording.up if up else recording.down).extend(passed)
                if not self.down_delay_s or up:
                    sink.sendall(passed)
                else:
                    for octet in passed:
                        time.sleep(self.down_delay_s)
                        sink.sendall(bytes((octet,)))
                if verdict == "cut":
                    if self.refuse:
                        self.cut_all()
                    break
                if verdict == "stall":
                    self._hold(source)
                    break
        except OSError:
            pass
        finally:
            ends.release()
            with self._lock:
                self._open -= {ends.client, ends.server}

    def _judge(self, data: bytes, *, up: bool) -> tuple[bytes, str]:
        """How much of it passes, and what happens then."""
        with self._lock:
            fault = self._fault
            if fault is None:
                return data, ""
            if fault.struck.is_set():
                return (b"", "stall") if fault.stall and not self.only_this_connection else (data, "")
            left = fault.up if up else fault.down
            if left is None:
                return data, ""
            if left > len(data):
                if up:
                    fault.up = left - len(data)
                else:
                    fault.down = left - len(data)
                return data, ""
            self.refuse = self.refuse or fault.for_good
            fault.struck.set()
            if not fault.stall:
                self._fault = None
            return data[:left], "stall" if fault.stall else "cut"

    def _hold(self, source: socket.socket) -> None:
        """Swallow what comes, until the other side gives up or the proxy is closed."""
        while source.recv(65536):
            pass


class _Pair:
    """Both sockets of a forwarded connection: shut down together, closed when both pumps are done."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self._pumps = 2
        self._lock = threading.Lock()

    def release(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._pumps -= 1
            if self._pumps == 0:
                self.client.close()
                self.server.close()


Script = Callable[[socket.socket], None]


@contextlib.contextmanager
def scripted_server(script: Script, *, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on loopback that runs `script` on each connection; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        # ValueError: a TLS socket that the end of the test shuts down while it is read
        with contextlib.suppress(OSError, ValueError):
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
                connections.append(connection)
            script(connection)
        connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            thread = threading.Thread(target=serve, args=(connection,), daemon=True)
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        acceptor.join(5)
        for thread in threads:
            thread.join(5)
        for connection in connections:
            connection.close()


def say_nothing(connection: socket.socket) -> None:
    """A half-open server: takes the connection and everything sent, and never answers."""
    while connection.recv(65536):
        pass


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port whose connection attempts are neither accepted nor refused (Linux: the backlog is full)."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    fillers: list[socket.socket] = []
    try:
        for _ in range(16):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        time.sleep(0.05)
        yield port
    finally:
        for filler in fillers:
            filler.close()
        listener.close()
