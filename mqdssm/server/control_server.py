"""Control socket of a directory server: a Unix socket for its own user."""

import logging
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import BoundedSemaphore, Event, Lock
from typing import Final, Self

from pydantic import ValidationError

from mqdssm.drivers.threads import WarningLimit, WorkerThread
from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import set_umask
from mqdssm.server import control_protocol as protocol
from mqdssm.server.control_service import STOPS, ControlService

log: Final = logging.getLogger(__name__)

CLIENTS_MAX: Final = 32
"""Clients that are served at a time; further ones are refused."""
IDLE_S: Final = 300.0
"""Seconds for which a client may be silent."""
ACCEPT_RETRY_S: Final = 0.1
"""Seconds before the next client is accepted after an error of the system, as too many open files."""
SOCKET_PATH_BYTES_MAX: Final = 107
"""Longest path of a Unix socket on Linux (unix(7))."""
_CREDENTIALS: Final = struct.Struct("3i")  # process, user and group of SO_PEERCRED (unix(7))


class ControlServer:
    """Server of a control socket, with threads of its own.

    The class is a context manager that closes the socket. Only processes of this user and of root are served.

    Args:
        path: of the socket. A socket that a crashed server has left is replaced.
        service: carries out the requests.

    Raises:
        ConfigError: the path cannot be used, or another server listens on it.
    """

    def __init__(self, path: Path, service: ControlService) -> None:
        self._path, self._service = path, service
        self._socket: Final = _listen(path)
        self._lock: Final = Lock()
        self._clients: Final[set[socket.socket]] = set()
        self._closing: Final = Event()
        self._warnings: Final = WarningLimit(warnings_max=3)
        self._room: Final = BoundedSemaphore(CLIENTS_MAX)
        self._pool: Final = ThreadPoolExecutor(CLIENTS_MAX, thread_name_prefix="control client")
        self._on_accept: Callable[[], object] | None = None  # answers a probe
        self._thread: Final = WorkerThread(self._accept, "control socket")
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """True while clients are accepted."""
        return self._thread.is_alive

    def probe(self, on_answer: Callable[[], object]) -> None:
        """Ask whether clients are accepted, by a connection; from any thread.

        Args:
            on_answer: called in the thread that accepts clients.
        """
        self._on_accept = on_answer
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:  # error: others fill the backlog
            client.setblocking(False)
            client.connect(str(self._path))

    def close(self) -> None:
        """Remove the socket, and end all connections after their current request."""
        with self._lock:
            self._closing.set()
            clients = list(self._clients)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        with suppress(OSError):
            self._path.unlink()
        for client in clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RD)
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError as error:
                if not self._closing.is_set():
                    self._warnings.log(log, "the control socket cannot accept a client: %s", error)
                    self._closing.wait(ACCEPT_RETRY_S)
                continue
            on_accept, self._on_accept = self._on_accept, None
            if on_accept is not None:
                on_accept()
            try:
                self._begin(client)
            except (OSError, RuntimeError) as error:  # RuntimeError: no further thread can be started
                self._warnings.log(log, "a client of the control socket cannot be served: %s", error)
                client.close()

    def _begin(self, client: socket.socket) -> None:
        """Begin to serve a client, or close its connection.

        Raises:
            OSError: the connection cannot be used.
            RuntimeError: there are too many threads.
        """
        client.settimeout(IDLE_S)
        if not _is_allowed(client) or not self._room.acquire(blocking=False):
            client.close()
            return
        with ExitStack() as leaving:
            leaving.callback(self._room.release)
            with self._lock:
                if self._closing.is_set():
                    client.close()
                    return
                self._clients.add(client)
            leaving.callback(self._clients.discard, client)
            self._pool.submit(self._serve, client)
            leaving.pop_all()

    def _serve(self, client: socket.socket) -> None:
        """Serve a client until it closes the connection."""
        try:
            with client:
                self._talk(client)
        except ConnectionError:  # a probe leaves without reading: before the greeting was sent, or after it
            log.debug("a client of the control socket has left")
        except (OSError, ConfigError, ValidationError) as error:
            log.info("a client of the control socket is disconnected: %s", type(error).__name__)
        except Exception:
            log.exception("a client of the control socket is disconnected by a defect")
        finally:
            with self._lock:
                self._clients.discard(client)
            self._room.release()

    def _talk(self, client: socket.socket) -> None:
        own = protocol.Hello.own(self._service.machine_name)
        protocol.send_document(client, own, protocol.REPLY_BYTES_MAX)
        first = protocol.receive_document(client, protocol.REQUEST_BYTES_MAX)
        if first is None:
            return
        if problem := protocol.read_leniently(protocol.HELLOS, first).problem():
            refusal = protocol.RefusedReply(problem=f"the client cannot be answered: {problem}", kind="usage")
            protocol.send_document(client, refusal, protocol.REPLY_BYTES_MAX)
            return
        while (data := protocol.receive_document(client, protocol.REQUEST_BYTES_MAX)) is not None:
            reply = self._service.perform(data)
            protocol.send_document(client, reply, protocol.REPLY_BYTES_MAX)
            if reply is STOPS:
                self._service.stop()
                return


def _is_allowed(client: socket.socket) -> bool:
    """Return True for a process of this user or of root."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _process, user, _group = _CREDENTIALS.unpack(credentials)
    return user in {0, os.geteuid()}


def _listen(path: Path) -> socket.socket:
    """Return a socket that listens on a path, with mode 0600.

    Raises:
        ConfigError: the socket cannot be made, or the system does not name the users of its clients.
    """
    if not hasattr(socket, "AF_UNIX") or not hasattr(socket, "SO_PEERCRED"):
        raise ConfigError(
            f"this system does not name the users that connect to {path}: directory servers run on Linux"
        )
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        raise ConfigError(
            f"{path} is longer than {SOCKET_PATH_BYTES_MAX} octets: no control socket can be made there"
        )
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX)
    try:
        with set_umask(0o177):  # the socket is never open to others, not even before a chmod
            listening.bind(os.fspath(path))
        listening.listen(CLIENTS_MAX)
    except OSError as error:
        listening.close()
        raise ConfigError(f"the control socket {path} cannot be made: {error.strerror or error}") from error
    return listening


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens on.

    Raises:
        ConfigError: another server listens on it, or the path is no socket.
    """
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigError(f"{path} is no socket: move it away, or give the control socket another path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
        except OSError as error:
            raise ConfigError(f"the control socket {path} cannot be used: {error.strerror}") from error
        else:
            raise ConfigError(f"another directory server listens on the control socket {path}: stop it first")
