"""A private Active Directory domain controller (Samba's), for tests."""

from pathlib import Path
from typing import ClassVar

from mqdssm.errors import ConfigError
from mqdssm.testing import samba_config
from mqdssm.testing.accounts import connect_over_tls
from mqdssm.testing.openldap_start import AddressTakenError
from mqdssm.testing.samba_accounts import DomainAccounts
from mqdssm.testing.server import LocalServer


class SambaDomainController(LocalServer[samba_config.ControllerFolder]):
    r"""A private domain controller; a context manager. Needs Linux and root.

    The domain is created once per machine (5 s) and kept in the user's cache folder. Each controller starts
    with a copy, in a fraction of a second, on a separate loopback address. Any number can run side by side;
    controllers of one realm have the same domain (one SID), but do not replicate. As in a new domain of
    Windows, a log-in needs TLS or signing. The controller ends with the process that created it, even if
    that is killed. It has no DNS: use `url` and the other URLs, or `dns_name` together with `address`.

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

    NOUN: ClassVar = "domain controller"
    PROGRAM: ClassVar = "samba"
    SCRIPT: ClassVar = samba_config.START_SCRIPT
    WAIT_S: ClassVar = samba_config.START_WAIT_S

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        realm: str = samba_config.DEFAULT_REALM,
        domain: str = samba_config.DEFAULT_DOMAIN,
        host: str = samba_config.DEFAULT_HOST,
        strong_auth: str = "yes",
        services: tuple[str, ...] = samba_config.SERVICES,
        kerberos: bool = False,
        address: str = "",
        restart: bool = False,
    ) -> None:
        """Keep the options of the controller; `start` creates it.

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
            ConfigError: an invalid name, an unknown setting.
        """
        try:
            self.options = samba_config.SambaOptions(
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
        controller_folder = None if folder is None else samba_config.ControllerFolder(Path(folder).absolute())
        super().__init__(controller_folder, restart=restart)

    @property
    def address(self) -> str:
        """Loopback address on which the controller listens: ports 389, 636, 3268, 3269."""
        if not self._address:
            raise self._explain_not_started()
        return self._address

    @property
    def url(self) -> str:
        """URL, ``ldap://``; StartTLS is offered, and needed for a simple bind."""
        return f"ldap://{self.address}"

    @property
    def ldaps_url(self) -> str:
        """URL, ``ldaps://``."""
        return f"ldaps://{self.address}"

    @property
    def gc_url(self) -> str:
        """URL of the global catalog, ``ldap://`` with StartTLS."""
        return f"ldap://{self.address}:3268"

    @property
    def gc_ldaps_url(self) -> str:
        """URL of the global catalog, ``ldaps://``."""
        return f"ldaps://{self.address}:3269"

    @property
    def ldapi_url(self) -> str:
        """URL of the privileged ``ldapi://`` socket.

        A client has the rights of SYSTEM without a log-in.
        """
        return self._made_folder.ldapi_url

    @property
    def krb5_conf(self) -> str:
        """Path of settings for Kerberos clients (``KRB5_CONFIG``), for ``kerberos=True``."""
        return str(self._made_folder.krb5_conf)

    @property
    def settings_file(self) -> str:
        """Path of the controller's smb.conf, for Samba's own tools (``-s``)."""
        return str(self._made_folder.path / "etc" / "smb.conf")

    @property
    def database(self) -> str:
        """Path of the directory's database, for Samba's own tools (``-H``)."""
        return str(self._made_folder.path / "private" / "sam.ldb")

    @property
    def password(self) -> str:
        """Random password of the administrator."""
        return self._made_folder.password

    def reset_password(self, dn: str) -> str:
        """Set a new random password of a user or computer, which can then log in.

        Args:
            dn: of the account; a computer logs in as ``NAME$@contoso.test``.

        Returns:
            The password.
        """
        return self._make_account_maker().reset_password(dn)

    def _make_account_maker(self) -> DomainAccounts:
        url, user, password, ca_file = self.ldaps_url, self.user, self.password, self.ca_file
        return DomainAccounts(lambda: connect_over_tls(url, user, password, ca_file), self.base_dn)

    def _require_software(self) -> None:
        samba_config.require_software()

    def _has_given_address(self) -> bool:
        return bool(self._wanted_address)

    def _forget_address(self) -> None:
        self._address = ""

    def _make_folder(self) -> samba_config.ControllerFolder:
        return samba_config.make_temporary_folder()

    def _prepare_folder(self, folder: samba_config.ControllerFolder) -> dict[str, str]:
        domain = samba_config.prepare_template(self.options)
        self._address = self._wanted_address or samba_config.free_address()
        folder.make(self.options, self._address)
        return folder.build_environment(self.options, domain, self._address)

    def _run(self) -> None:
        # samba itself would start without the port
        if self.pid is None and (port := samba_config.find_taken_port(self.address)):
            raise AddressTakenError(f"port {port} of {self.address} is taken by another process")
        super()._run()
