"""The embedded OpenLDAP in a container.

Machines that have a container engine but no slapd can use the container.
"""

from typing import ClassVar, Final

from mqdssm.testing.accounts import Accounts, connect_over_tls
from mqdssm.testing.engine import ServerContainer, build_image, read_dockerfile, why_no_engine
from mqdssm.testing.openldap_config import START_SCRIPT, OpenLdapOptions

__all__ = [
    "IMAGE",
    "OpenLdapContainer",
    "build_context",
    "connect_over_tls",
    "ensure_image",
    "why_no_engine",
]

IMAGE: Final = "mqdssm/openldap-msmq"


def build_context() -> dict[str, bytes]:
    """Return the files that the image is built from, by their paths in the project."""
    from mqdssm.tables.ldif import REPLICATION, format_base_tree, format_openldap_schema

    return {
        "Dockerfile": read_dockerfile("openldap-msmq"),
        "ldif/msmq.schema": format_openldap_schema().encode(),
        "ldif/mqis.schema": format_openldap_schema(REPLICATION).encode(),
        "ldif/base-tree.ldif": format_base_tree().encode(),
        "mqdssm/testing/data/start.sh": START_SCRIPT.read_bytes(),
        "mqdssm/testing/data/certificates.sh": START_SCRIPT.with_name("certificates.sh").read_bytes(),
    }


def ensure_image() -> str:
    """Build the image unless the engine has it, and return its name.

    Raises:
        ConfigError: no engine answers, or the build failed.
    """
    return build_image(IMAGE, build_context())


class OpenLdapContainer(ServerContainer):
    """An OpenLDAP with the MSMQ schema in a container; a context manager.

    The attributes and methods are those of `mqdssm.testing.OpenLdapServer`.

    Attributes:
        options: how the server behaves.
        user: DN of the administrator.
        password: the administrator's password, made at random in the container.
        base_dn: the root of the directory.
        host: where the published ports are.
    """

    STATE_FOLDER: ClassVar = "/var/lib/openldap-msmq"

    def __init__(self, *, image: str | None = None, options: OpenLdapOptions | None = None) -> None:
        """Keep the options of the server; `start` creates it.

        Args:
            image: its name; None builds it unless the engine holds it.
            options: how the server behaves; ports of 0 are published on free ones.
        """
        self.options = options or OpenLdapOptions(durable=False)
        super().__init__(
            image=image,
            user=self.options.admin_dn,
            base_dn=self.options.base_dn,
            ports=(self.options.port, self.options.ldaps_port),
        )
        self._accounts: Accounts | None = None

    def _make_account_maker(self) -> Accounts:
        with self._lock:
            if self._accounts is None:
                self._accounts = Accounts(
                    lambda: connect_over_tls(self.ldaps_url, self.user, self.password, self.ca_file),
                    self.base_dn,
                )
            return self._accounts

    def _ensure_image(self) -> str:
        return ensure_image()

    def _build_environment(self) -> dict[str, str]:
        return self.options.build_environment() | {"MSMQ_LDAP_TLS_NAMES": self.join_tls_names()}
