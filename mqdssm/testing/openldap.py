"""A private OpenLDAP with the MSMQ schema, for tests and for trying things out."""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mqdssm.errors import ConfigError
from mqdssm.testing.accounts import Accounts, connect_as_owner
from mqdssm.testing.openldap_config import (
    DATABASE_BYTES_MAX,
    DEFAULT_BASE_DN,
    START_SCRIPT,
    OpenLdapOptions,
    ServerFolder,
    require_software,
    temporary_folder,
)
from mqdssm.testing.openldap_load import load_files
from mqdssm.testing.openldap_start import (
    POLL_S,
    START_WAIT_S,
    PortTakenError,
    answering_process,
    chosen_ports,
    failure,
    require_free,
)
from mqdssm.testing.supervised import ServerState, SupervisedServer

START_ATTEMPTS: Final = 5  # another process may take a port between our look and the start


class OpenLdapServer:
    r"""A slapd of one's own; a context manager.

    It listens on loopback and on a socket in a private folder, has the schema, the indexes and the base
    tree of [MS-MQDSSM] 2.2.1, and is gone with the process that made it, however that one ends.

    Example::

        with OpenLdapServer() as server:
            server.add_computer("web01")
            with mqdssm.connect(server.ldapi_url) as directory:
                directory.create(mqdssm.Queue(pathname=r"web01\orders"))

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
            base_dn: the root, domain components only.
            durable: see `OpenLdapOptions`, as for the following.
            unique: no two objects with one objectGUID.
            deref: references resolved within a search.
            syncprov: clients can watch changes.
            accesslog: a log of changes below ``cn=log``.
            idle_timeout_s: seconds until a silent client is cut off; 0 is never.
            size_limit: entries that one unpaged search may return.
            database_bytes_max: the largest the database may grow.
            port: TCP port for ldap; 0 takes a free one.
            ldaps_port: TCP port for ldaps; 0 takes a free one.
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
        self._supervisor: SupervisedServer | None = None
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
            attempts = 1 if self.options.port and self.options.ldaps_port else START_ATTEMPTS
            for attempt in range(1, attempts + 1):
                try:
                    self._start_supervised()
                except PortTakenError as error:
                    self._end_supervisor()
                    if attempt == attempts:
                        raise ConfigError(str(error)) from error
                except BaseException:
                    self._end_supervisor()
                    raise
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

    def load(self, *files: str | Path) -> None:
        """Replace all that the server holds by the entries of LDIF files; it stands still meanwhile.

        This is what ``slapadd -q`` does: several times as fast as adding, and no overlay looks at it.

        Args:
            files: parents first, from the root on, as ``mqdssm generate --format ldif`` writes them.

        Raises:
            ConfigError: slapadd refuses an entry; what was before is gone.
        """
        with self._lock:
            self._ask("stop")
            try:
                load_files(self._made_folder, self.base_dn, files)
            finally:
                self._start_slapd()
            self._accounts = None  # other accounts are there now

    def _account_maker(self) -> Accounts:
        with self._lock:
            if self._accounts is None:
                url = self.ldapi_url
                self._accounts = Accounts(lambda: connect_as_owner(url), self.base_dn)
            return self._accounts

    # -- the supervisor

    def _start_supervised(self) -> None:
        if self._folder is None:
            self._folder = temporary_folder()
        folder = self._folder
        require_free(folder.path)
        self.password = folder.make(self.options)
        self._ports = chosen_ports(self.options)
        self._supervisor = SupervisedServer(
            ["/bin/sh", str(START_SCRIPT)],
            folder.environment(self.options, *self._ports),
            f"the LDAP server in {folder.path}",
            restart=self._restart,
            remove=folder.places if self._temporary else (),
        )
        self._start_slapd()

    def _start_slapd(self) -> None:
        state = self._ask("start")
        deadline = time.monotonic() + START_WAIT_S
        while True:
            if state["pid"] is None:
                raise failure(state["exit"], state["log"], self._made_folder.path)
            # the answer must be our own slapd's: another one may hold the folder, and ours is about to fail
            if answering_process(self._made_folder.socket) in {0, state["pid"]}:
                return
            if time.monotonic() > deadline:
                raise ConfigError(f"slapd did not answer within {START_WAIT_S:.0f} s: {state['log'].strip()}")
            time.sleep(POLL_S)
            state = self._ask("status")

    def _ask(self, word: str) -> ServerState:
        with self._lock:
            if self._supervisor is None:
                raise ConfigError("the server is not running: use it as a context manager, or call start()")
            return self._supervisor.ask(word)

    def _end_supervisor(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.close()
        self._ports = None
        if self._temporary and self._folder is not None:
            self._folder.remove()
            self._folder = None
