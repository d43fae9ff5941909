"""A private OpenLDAP with the MSMQ schema, for tests and trials."""

from pathlib import Path
from typing import ClassVar

from mqdssm.testing import openldap_config
from mqdssm.testing.accounts import Accounts, connect_as_owner
from mqdssm.testing.openldap_start import START_WAIT_S, choose_ports
from mqdssm.testing.server import LocalServer


class OpenLdapServer(LocalServer[openldap_config.ServerFolder]):
    r"""A private slapd; a context manager.

    The server listens on loopback and on a socket in a private folder. Schema, indexes and base tree are
    those of [MS-MQDSSM] 2.2.1. The server ends with the process that created it, even if that is killed.

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

    NOUN: ClassVar = "LDAP server"
    PROGRAM: ClassVar = "slapd"
    SCRIPT: ClassVar = openldap_config.START_SCRIPT
    WAIT_S: ClassVar = START_WAIT_S

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        base_dn: str = openldap_config.DEFAULT_BASE_DN,
        durable: bool = True,
        unique: bool = True,
        deref: bool = True,
        syncprov: bool = True,
        accesslog: bool = False,
        replication: bool = False,
        idle_timeout_s: int = 0,
        size_limit: int | None = None,
        database_bytes_max: int = openldap_config.DATABASE_BYTES_MAX,
        port: int = 0,
        ldaps_port: int = 0,
        restart: bool = False,
    ) -> None:
        """Keep the options of the server; `start` creates it.

        Args:
            folder: kept folder; None takes a temporary one, deleted at the end.
            base_dn: the root, domain components only.
            durable: see `OpenLdapOptions`, as for the following.
            unique: no two objects with one objectGUID.
            deref: references resolved within a search.
            syncprov: clients can watch changes.
            accesslog: a log of changes below ``cn=log``.
            replication: the schema of the replication store too.
            idle_timeout_s: seconds until a silent client is cut off; 0 is never.
            size_limit: entries that one unpaged search may return.
            database_bytes_max: the largest the database may grow.
            port: TCP port for ldap; 0 takes a free one.
            ldaps_port: TCP port for ldaps; 0 takes a free one.
            restart: start slapd again when it dies by a signal or ends with status 0 (not after `kill` and
                `stop`).
        """
        self.options = openldap_config.OpenLdapOptions(
            base_dn=base_dn,
            durable=durable,
            unique=unique,
            deref=deref,
            syncprov=syncprov,
            accesslog=accesslog,
            replication=replication,
            idle_timeout_s=idle_timeout_s,
            size_limit=size_limit,
            database_bytes_max=database_bytes_max,
            port=port,
            ldaps_port=ldaps_port,
        )
        self.base_dn = base_dn
        self.user = self.options.admin_dn
        self.password = ""
        self._ports: tuple[int, int] | None = None
        self._accounts: Accounts | None = None
        server_folder = None if folder is None else openldap_config.ServerFolder(Path(folder).absolute())
        super().__init__(server_folder, restart=restart)

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
        """URL on loopback, ``ldap://``; StartTLS is offered."""
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def ldaps_url(self) -> str:
        """URL on loopback, ``ldaps://``."""
        return f"ldaps://127.0.0.1:{self.ldaps_port}"

    @property
    def ldapi_url(self) -> str:
        """URL of the ``ldapi://`` socket.

        With SASL EXTERNAL, the server's owner is its administrator.
        """
        return self._made_folder.ldapi_url

    @property
    def _made_ports(self) -> tuple[int, int]:
        if self._ports is None:
            raise self._explain_not_started()
        return self._ports

    def load(self, *files: str | Path) -> None:
        """Replace all entries of the server by the entries of LDIF files.

        The server is stopped meanwhile.

        It runs ``slapadd -q``, which is several times as fast as LDAP adds, and bypasses the overlays.

        Args:
            files: parents first, from the root on, as ``mqdssm generate --format ldif`` writes them.

        Raises:
            ConfigError: slapadd refuses an entry; the old entries are deleted already.
        """
        with self._lock:
            self.stop()
            try:
                openldap_config.load_files(self._made_folder, self.base_dn, files)
            finally:
                self.start()
            self._accounts = None  # the loaded directory has other accounts

    def _make_account_maker(self) -> Accounts:
        with self._lock:
            if self._accounts is None:
                url = self.ldapi_url
                self._accounts = Accounts(lambda: connect_as_owner(url), self.base_dn)
            return self._accounts

    def _require_software(self) -> None:
        openldap_config.require_software()

    def _has_given_address(self) -> bool:
        return bool(self.options.port and self.options.ldaps_port)

    def _forget_address(self) -> None:
        self._ports = None

    def _make_folder(self) -> openldap_config.ServerFolder:
        return openldap_config.make_temporary_folder()

    def _prepare_folder(self, folder: openldap_config.ServerFolder) -> dict[str, str]:
        self.password = folder.make(self.options)
        self._ports = choose_ports(self.options)
        return folder.build_environment(self.options, *self._ports)
