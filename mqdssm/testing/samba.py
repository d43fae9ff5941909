"""A private Active Directory domain controller (Samba's), for tests."""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mqdssm.errors import ConfigError
from mqdssm.testing.accounts import connect_over_tls
from mqdssm.testing.openldap_start import answering_process, require_free
from mqdssm.testing.samba_accounts import DomainAccounts
from mqdssm.testing.samba_config import (
    DEFAULT_DOMAIN,
    DEFAULT_HOST,
    DEFAULT_REALM,
    SERVICES,
    START_SCRIPT,
    ControllerFolder,
    SambaOptions,
    require_software,
    template,
    temporary_folder,
)
from mqdssm.testing.samba_start import (
    POLL_S,
    START_WAIT_S,
    AddressTakenError,
    failure,
    free_address,
    taken_port,
)
from mqdssm.testing.supervised import ServerState, SupervisedServer

START_ATTEMPTS: Final = 5  # another process may take an address between our look and the start


class SambaDomainController:
    r"""A domain controller of one's own; a context manager. Needs Linux and root.

    The domain is made once per machine (5 s) and kept in the user's cache folder; each controller starts
    with a copy, in a fraction of a second, on a loopback address of its own. Any number can run side by
    side; those of one realm hold the same domain (one SID), and do not know each other. As on a new
    domain of Windows a log-in needs TLS or signing. The controller is gone with the process that made it,
    however that one ends. It has no DNS: use `url` and its like, or `dns_name` together with `address`.

    Example::

        with SambaDomainController() as server:
            server.add_computer("web01")
            with mqdssm.connect(
                server.ldaps_url, user=server.user, password=server.password, ca_file=server.ca_file
            ) as directory:
                directory.create(mqdssm.Queue(pathname=r"web01\orders"))

    Attributes:
        options: how the controller behaves.
        user: the administrator, as ``Administrator@contoso.test``.
        user_dn: the administrator's DN.
        base_dn: the root of the domain.
        realm: the domain's name in capitals.
        domain: its NetBIOS name.
        dns_name: full name of the controller.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        realm: str = DEFAULT_REALM,
        domain: str = DEFAULT_DOMAIN,
        host: str = DEFAULT_HOST,
        strong_auth: str = "yes",
        services: tuple[str, ...] = SERVICES,
        kerberos: bool = False,
        address: str = "",
        restart: bool = False,
    ) -> None:
        """State what controller is wanted; `start` makes it.

        Args:
            folder: kept folder; None takes a temporary one, deleted at the end.
            realm: DNS name of the domain; see `SambaOptions`, as for the following.
            domain: NetBIOS name of the domain.
            host: name of the controller.
            strong_auth: whether a log-in needs TLS or signing.
            services: what Samba offers.
            kerberos: tickets are given, too.
            address: loopback address; empty takes a free one.
            restart: start Samba again when it dies by a signal (not after `kill` and `stop`).

        Raises:
            ConfigError: a name that cannot be, an unknown setting.
        """
        try:
            self.options = SambaOptions(
                realm=realm,
                domain=domain,
                host=host,
                strong_auth=strong_auth,
                services=services,
                kerberos=kerberos,
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error
        self.base_dn = self.options.base_dn
        self.realm = realm.upper()
        self.domain = domain
        self.dns_name = self.options.dns_name
        self.user = self.options.user
        self.user_dn = f"CN=Administrator,CN=Users,{self.base_dn}"
        self._wanted_address = address
        self._address = ""
        self._temporary = folder is None
        self._folder = None if folder is None else ControllerFolder(Path(folder).absolute())
        self._restart = restart
        self._supervised: SupervisedServer | None = None
        self._lock = threading.RLock()

    # -- addresses

    @property
    def folder(self) -> Path:
        """Where the controller's files are."""
        return self._made_folder.path

    @property
    def address(self) -> str:
        """The loopback address that the controller listens on: ports 389, 636, 3268, 3269."""
        if not self._address:
            raise ConfigError("the domain controller has not been started yet")
        return self._address

    @property
    def url(self) -> str:
        """``ldap://``; StartTLS is offered, and needed for a simple bind."""
        return f"ldap://{self.address}"

    @property
    def ldaps_url(self) -> str:
        """``ldaps://``."""
        return f"ldaps://{self.address}"

    @property
    def gc_url(self) -> str:
        """The global catalog, ``ldap://`` with StartTLS."""
        return f"ldap://{self.address}:3268"

    @property
    def gc_ldaps_url(self) -> str:
        """The global catalog, ``ldaps://``."""
        return f"ldaps://{self.address}:3269"

    @property
    def ldapi_url(self) -> str:
        """``ldapi://`` on the privileged socket: without any log-in a client is the system itself."""
        return self._made_folder.ldapi_url

    @property
    def ca_file(self) -> str:
        """Path of the certificate of the authority that the server's certificate is signed by."""
        return str(self._made_folder.ca_file)

    @property
    def krb5_conf(self) -> str:
        """Path of settings for Kerberos clients (``KRB5_CONFIG``); of use with ``kerberos=True``."""
        return str(self._made_folder.krb5_conf)

    @property
    def settings_file(self) -> str:
        """Path of the controller's smb.conf, as Samba's own tools want it (``-s``)."""
        return str(self._made_folder.path / "etc" / "smb.conf")

    @property
    def database(self) -> str:
        """Path of the directory's database, for Samba's own tools (``-H``)."""
        return str(self._made_folder.path / "private" / "sam.ldb")

    @property
    def password(self) -> str:
        """The administrator's password, random."""
        return self._made_folder.password

    @property
    def _made_folder(self) -> ControllerFolder:
        if self._folder is None:
            raise ConfigError("the domain controller has not been started yet")
        return self._folder

    # -- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the controller, or start it again, on the same address; returns when it answers.

        Raises:
            ConfigError: software is missing, the user may not, the folder is in use, an address is taken, ….
        """
        with self._lock:
            if self._supervised is not None:
                self._start_again(self._supervised)
                return
            require_software()
            domain = template(self.options)
            attempts = 1 if self._wanted_address else START_ATTEMPTS
            for attempt in range(1, attempts + 1):
                try:
                    self._start_supervised(domain)
                except AddressTakenError as error:
                    self.close()
                    if attempt == attempts:
                        raise ConfigError(str(error)) from error
                except BaseException:
                    self.close()
                    raise
                else:
                    return

    def stop(self) -> None:
        """Stop the controller as an administrator would (SIGTERM); `start` starts it again."""
        self._ask("stop")

    def kill(self) -> None:
        """Kill the controller (SIGKILL); `start` starts it again."""
        self._ask("kill")

    def close(self) -> None:
        """Stop the controller for good; a temporary folder is deleted."""
        with self._lock:
            supervised, self._supervised = self._supervised, None
            if supervised is not None:
                supervised.close()
            self._address = ""
            if self._temporary and self._folder is not None:
                self._folder.remove()
                self._folder = None

    @property
    def pid(self) -> int | None:
        """Process id of Samba, None when it does not run."""
        return self._ask("status")["pid"]

    @property
    def log(self) -> str:
        """The last 64 KB of what Samba wrote."""
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
        return self._accounts().add_computer(name)

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user below ``CN=Users``, with no rights but those of every user.

        Returns:
            The user principal name (``name@contoso.test``) and the random password.

        Raises:
            ObjectAlreadyExists: there is one of that name.
        """
        return self._accounts().add_user(name)

    def reset_password(self, dn: str) -> str:
        """Give an account, also a computer's, a new random password; the account can then log in.

        Args:
            dn: of the account; a computer logs in as ``NAME$@contoso.test``.

        Returns:
            The password.
        """
        return self._accounts().reset_password(dn)

    def _accounts(self) -> DomainAccounts:
        url, user, password, ca_file = self.ldaps_url, self.user, self.password, self.ca_file
        return DomainAccounts(
            lambda: connect_over_tls(url, user, password, ca_file), self.base_dn, self.realm
        )

    # -- the supervisor

    def _start_supervised(self, domain: Path) -> None:
        if self._folder is None:
            self._folder = temporary_folder()
        require_free(self._folder.path)
        self._address = self._wanted_address or free_address()
        self._folder.make(self.options, self._address)
        self._supervised = SupervisedServer(
            ["/bin/sh", str(START_SCRIPT)],
            self._folder.environment(self.options, domain, self._address),
            f"the domain controller in {self._folder.path}",
            restart=self._restart,
            remove=(self._folder.path,) if self._temporary else (),
        )
        self._start_samba(self._supervised)

    def _start_again(self, supervised: SupervisedServer) -> None:
        try:
            self._start_samba(supervised)
        except AddressTakenError as error:
            raise ConfigError(str(error)) from error

    def _start_samba(self, supervised: SupervisedServer) -> None:
        state = supervised.ask("status")
        if state["pid"] is None and (port := taken_port(self.address)):
            raise AddressTakenError(f"port {port} of {self.address} is taken by another process")
        state = supervised.ask("start")
        deadline = time.monotonic() + START_WAIT_S
        # the answer must be our own controller's: another one may hold the folder, and ours is about to fail
        while answering_process(self._made_folder.socket) not in {0, state["pid"]}:
            state = supervised.ask("status")
            if state["pid"] is None:
                raise failure(state["exit"], state["log"], self._made_folder.path)
            if time.monotonic() > deadline:
                raise ConfigError(f"samba did not answer within {START_WAIT_S:.0f} s: {state['log'].strip()}")
            time.sleep(POLL_S)

    def _ask(self, word: str) -> ServerState:
        with self._lock:
            if self._supervised is None:
                raise ConfigError(
                    "the domain controller is not running: use it as a context manager, or call start()"
                )
            return self._supervised.ask(word)
