"""The private domain controller in a container.

Machines without Samba and users without rights can use the container.
"""

from typing import ClassVar, Final

from mqdssm.testing.accounts import Connection, connect_over_tls
from mqdssm.testing.engine import ServerContainer, build_image, read_dockerfile
from mqdssm.testing.samba_accounts import DomainAccounts
from mqdssm.testing.samba_config import CERTIFICATES_SCRIPT, START_SCRIPT, SambaOptions

IMAGE: Final = "mqdssm/samba-dc"


def build_context() -> dict[str, bytes]:
    """Return the files that the image is built from, by their paths in the project."""
    return {
        "Dockerfile": read_dockerfile("samba-dc"),
        "mqdssm/testing/data/samba-dc.sh": START_SCRIPT.read_bytes(),
        "mqdssm/testing/data/certificates.sh": CERTIFICATES_SCRIPT.read_bytes(),
    }


def ensure_image() -> str:
    """Build the image unless the engine has it, and return its name.

    Raises:
        ConfigError: no engine answers, or the build failed.
    """
    return build_image(IMAGE, build_context())


class SambaContainer(ServerContainer):
    """A domain controller in a container; a context manager.

    The domain is the one that the image was built with, CONTOSO.TEST; its administrator gets a password
    of its own. The attributes and methods are those of `mqdssm.testing.SambaDomainController`.

    Attributes:
        options: how the controller behaves.
        user: the administrator, as ``Administrator@contoso.test``.
        user_dn: the administrator's DN.
        password: the administrator's password, made at random in the container.
        base_dn: the root of the domain.
        realm: the domain's name in capitals.
        domain: its NetBIOS name.
        dns_name: full name of the controller.
        host: where the published ports are.
    """

    STATE_FOLDER: ClassVar = "/var/lib/samba-dc"
    PORTS: ClassVar = (389, 636, 3268, 3269)

    def __init__(self, *, image: str | None = None, strong_auth: str = "yes") -> None:
        """Keep the options of the controller; `start` creates it.

        Args:
            image: its name; None builds it unless the engine holds it.
            strong_auth: see `mqdssm.testing.samba_config.SambaOptions`.

        Raises:
            ValueError: an unknown kind of `strong_auth`.
        """
        self.options = SambaOptions(strong_auth=strong_auth)
        super().__init__(image=image, user=self.options.user, base_dn=self.options.base_dn)
        self.realm = self.options.realm
        self.domain = self.options.domain
        self.dns_name = self.options.dns_name
        self.user_dn = f"CN=Administrator,CN=Users,{self.base_dn}"

    @property
    def gc_url(self) -> str:
        """URL of the global catalog, ``ldap://`` with StartTLS."""
        return f"ldap://{self.host}:{self._ports[2]}"

    @property
    def gc_ldaps_url(self) -> str:
        """URL of the global catalog, ``ldaps://``."""
        return f"ldaps://{self.host}:{self._ports[3]}"

    def reset_password(self, dn: str) -> str:
        """Set a new password of an account.

        See `mqdssm.testing.SambaDomainController.reset_password`.
        """
        return self._make_account_maker().reset_password(dn)

    def _make_account_maker(self) -> DomainAccounts:
        def connect() -> Connection:
            return connect_over_tls(self.ldaps_url, self.user, self.password, self.ca_file)

        return DomainAccounts(connect, self.base_dn)

    def _ensure_image(self) -> str:
        return ensure_image()

    def _build_environment(self) -> dict[str, str]:
        return self.options.build_environment() | {"MSMQ_SAMBA_TLS_NAMES": self.join_tls_names(self.dns_name)}
