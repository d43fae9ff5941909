"""A private OpenLDAP with the MSMQ schema, for tests and for trying things out."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypedDict

from mqdssm.errors import ConfigError
from mqdssm.testing.accounts import Accounts, connect_as_owner
from mqdssm.testing.openldap_config import (
    DATABASE_BYTES_MAX,
    DEFAULT_BASE_DN,
    START_SCRIPT,
    SUPERVISOR,
    OpenLdapOptions,
    ServerFolder,
    free_ports,
    require_software,
    temporary_folder,
)

START_WAIT_S: Final = 30.0  # 0.2 s on an idle machine; others may be busy with theirs
START_ATTEMPTS: Final = 5  # another process may take a port between our look and the start
POLL_S: Final = 0.005
EXIT_FOLDER_IN_USE: Final = 75

# an anonymous base search of the root DSE for no attributes (RFC 4511), message 1
_PROBE: Final = bytes.fromhex("302a 0201 01 6325 0400 0a0100 0a0100 020100 020100 010100") + (
    b"\x87\x0bobjectClass\x30\x05\x04\x031.1"
)


class _State(TypedDict):
    """What the supervisor answers."""

    pid: int | None
    exit: int | None
    log: str


class OpenLdapServer:
    """A slapd of one's own; a context manager.

    It listens on loopback and on a socket in a private folder, has the schema, the indexes and the base
    tree of [MS-MQDSSM] 2.2.1, and is gone with the process that made it, however that one ends.

    Example::

        with OpenLdapServer() as server:
            server.add_computer("web01")
            with mqdssm.connect(server.ldapi_url) as directory:
                directory.create(mqdssm.Queue(pathname=r"web01\\orders"))

    Attributes:
        options: how the server behaves.
        user: DN of the administrator.
        password: the administrator's password, made at random unless the folder held one.
        base_dn: the root of the directory.
        folder: where the server's files are.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        base_dn: str = DEFAULT_BASE_DN,
        durable: bool = True,
        unique: bool = True,
        deref: bool = True,
        syncprov: bool = True,
        accesslog: bool = False,
        idle_timeout_s: int = 0,
        size_limit: int | None = None,
        database_bytes_max: int = DATABASE_BYTES_MAX,
        port: int = 0,
        ldaps_port: int = 0,
        restart: bool = False,
    ) -> None:
        """State what server is wanted; `start` makes it.

        Args:
            folder: kept folder; None takes a temporary one, deleted at the end.
            base_dn: see `OpenLdapOptions`, as for all that are not listed here.
            restart: start slapd again when it dies by a signal (not after `kill` and `stop`).
        """
        self.options = OpenLdapOptions(
            base_dn=base_dn,
            durable=durable,
            unique=unique,
            deref=deref,
            syncprov=syncprov,
            accesslog=accesslog,
            idle_timeout_s=idle_timeout_s,
            size_limit=size_limit,
            database_bytes_max=database_bytes_max,
            port=port,
            ldaps_port=ldaps_port,
        )
        self.base_dn = base_dn
        self.user = self.options.admin_dn
        self.password = ""
        self._temporary = folder is None
        self._folder = None if folder is None else ServerFolder(Path(folder).absolute())
        self._restart = restart
        self._ports: tuple[int, int] | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._accounts: Accounts | None = None

    # -- addresses

    @property
    def folder(self) -> Path:
        """Where the server's files are."""
        return self._made_folder.path

    @property
    def port(self) -> int:
        """TCP port of ``ldap:``; StartTLS is offered."""
        return self._made_ports[0]

    @property
    def ldaps_port(self) -> int:
        """TCP port of ``ldaps:``."""
        return self._made_ports[1]

    @property
    def url(self) -> str:
        """``ldap://`` on loopback; StartTLS is offered."""
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def ldaps_url(self) -> str:
        """``ldaps://`` on loopback."""
        return f"ldaps://127.0.0.1:{self.ldaps_port}"

    @property
    def ldapi_url(self) -> str:
        """``ldapi://``: SASL EXTERNAL makes the owner of the server its administrator."""
        return self._made_folder.ldapi_url

    @property
    def ca_file(self) -> str:
        """Path of the certificate of the authority that the server's certificate is signed by."""
        return str(self._made_folder.ca_file)

    @property
    def _made_folder(self) -> ServerFolder:
        if self._folder is None:
            raise ConfigError("the server has not been started yet")
        return self._folder

    @property
    def _made_ports(self) -> tuple[int, int]:
        if self._ports is None:
            raise ConfigError("the server has not been started yet")
        return self._ports

    # -- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the server, or start it again, on the same ports; returns when it answers.

        Raises:
            ConfigError: software is missing, the folder is in use, a port is taken, ….
        """
        with self._lock:
            if self._supervisor is not None:
                self._start_slapd()
                return
            require_software()
            if self._folder is None:
                self._folder = temporary_folder()
            self.password = self._folder.make(self.options)
            attempts = 1 if self.options.port and self.options.ldaps_port else START_ATTEMPTS
            for attempt in range(attempts):
                try:
                    self._start_supervised()
                except _PortTakenError as error:
                    if attempt == attempts - 1:
                        self._end_supervisor()
                        raise ConfigError(str(error)) from error
                else:
                    return

    def stop(self) -> None:
        """Stop the server as an administrator would (SIGTERM); `start` starts it again."""
        with self._lock:
            self._ask("stop")

    def kill(self) -> None:
        """Kill the server (SIGKILL); `start` starts it again."""
        with self._lock:
            self._ask("kill")

    def close(self) -> None:
        """Stop the server for good; a temporary folder is deleted."""
        with self._lock:
            self._end_supervisor()

    @property
    def pid(self) -> int | None:
        """Process id of slapd, None when it does not run."""
        return self._ask("status")["pid"]

    @property
    def log(self) -> str:
        """The last 64 KB of what slapd wrote on its standard error."""
        return self._ask("status")["log"]

    # -- what other programs put into the directory

    def add_computer(self, name: str) -> str:
        """Add a computer below ``CN=Computers`` as joining a domain does (decision M26).

        Args:
            name: its NetBIOS name, without the trailing ``$``.

        Returns:
            Its DN.

        Raises:
            ObjectAlreadyExists: there is one of that name.
        """
        return self._account_maker().add_computer(name)

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user below ``CN=Users``.

        Returns:
            The DN and the password, which is random; both can be used to log in.

        Raises:
            ObjectAlreadyExists: there is one of that name.
        """
        return self._account_maker().add_user(name)

    def _account_maker(self) -> Accounts:
        with self._lock:
            if self._accounts is None:
                url = self.ldapi_url
                self._accounts = Accounts(lambda: connect_as_owner(url), self.base_dn)
            return self._accounts

    # -- the supervisor

    def _start_supervised(self) -> None:
        self._end_supervisor(keep=True)
        free = free_ports(2)
        self._ports = (self.options.port or free[0], self.options.ldaps_port or free[1])
        folder = self._made_folder
        command = [sys.executable, "-I", "-S", str(SUPERVISOR), "--owned"]
        command += ["--restart"] if self._restart else []
        if self._temporary:
            command += [f"--remove={place}" for place in folder.places]
        command += ["--", "/bin/sh", str(START_SCRIPT)]
        self._supervisor = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=folder.environment(self.options, *self._ports),
            start_new_session=True,
        )
        try:
            self._start_slapd()
        except _PortTakenError:
            raise
        except BaseException:
            self._end_supervisor()
            raise

    def _start_slapd(self) -> None:
        state = self._ask("start")
        deadline = time.monotonic() + START_WAIT_S
        while not answers(self._made_folder.socket):
            state = self._ask("status")
            if state["pid"] is None:
                raise _failure(state, self._made_folder.path)
            if time.monotonic() > deadline:
                raise ConfigError(f"slapd did not answer within {START_WAIT_S:.0f} s: {state['log'].strip()}")
            time.sleep(POLL_S)

    def _ask(self, word: str) -> _State:
        with self._lock:
            process = self._supervisor
            if process is None or process.stdin is None or process.stdout is None:
                raise ConfigError("the server is not running: use it as a context manager, or call start()")
            try:
                process.stdin.write(word.encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            if not line:
                raise ConfigError(f"the supervisor of the LDAP server in {self.folder} is gone")
            state: _State = json.loads(line)
            return state

    def _end_supervisor(self, *, keep: bool = False) -> None:
        process, self._supervisor = self._supervisor, None
        if process is not None:
            process.communicate()  # closes its standard input: it stops slapd and ends
        if self._temporary and not keep and self._folder is not None:
            self._folder.remove()
            self._folder = None


class _PortTakenError(Exception):
    """Another process listens on the port."""


def _failure(state: _State, folder: Path) -> Exception:
    log = state["log"].strip()
    if state["exit"] == EXIT_FOLDER_IN_USE:
        return ConfigError(f"{folder} is in use by another LDAP server")
    if "bind(" in log and "errno=98" in log:
        return _PortTakenError(f"a port of the LDAP server is taken: {log}")
    return ConfigError(f"slapd ended with status {state['exit']}: {log}")


def answers(path: Path) -> bool:
    """Tell whether the server behind an ldapi socket answers a search of its root DSE."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(START_WAIT_S)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(_PROBE)
            return connection.recv(8)[:1] == b"\x30"
        except OSError:
            return False
