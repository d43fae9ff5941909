"""Creation of computers and users in an Active Directory domain, as its own tools create them.

It does not use mqdssm's own directory layer on purpose: tests compare the two.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mqdssm.model.dn import DN
from mqdssm.testing import accounts

DONT_EXPIRE_PASSWORD: Final = 0x10000  # userAccountControl, [MS-ADTS] 2.2.16
_KINDS: Final = "Aa1."  # one of each kind of character that a domain's password rules require


class DomainAccounts:
    """Creator of security principals in a domain; the controller assigns their identifiers."""

    def __init__(self, connect: Callable[[], accounts.Connection], base_dn: str, realm: str) -> None:
        """Keep the parameters; nothing is read yet.

        Args:
            connect: gives a new ldap3 connection over TLS for the administrator.
            base_dn: the root of the domain.
            realm: DNS name of the domain.
        """
        self._connect = connect
        self._root = DN.parse(base_dn)
        self._realm = realm.lower()

    def add_computer(self, name: str) -> str:
        """Add a computer as joining a domain does (decision M26), and return its DN."""
        host = f"{name.lower()}.{self._realm}"
        return self._add(
            "Computers",
            name,
            {
                "objectClass": ["top", "person", "organizationalPerson", "user", "computer"],
                "sAMAccountName": [f"{name}$"],
                "dNSHostName": [host],
                "servicePrincipalName": [f"HOST/{name}", f"HOST/{host}"],
                "userAccountControl": [str(accounts.WORKSTATION_TRUST_ACCOUNT)],
                "unicodePwd": [quoted(new_password())],
            },
        )

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user; return the user principal name and the random password."""
        password, principal = new_password(), f"{name}@{self._realm}"
        self._add(
            "Users",
            name,
            {
                "objectClass": ["top", "person", "organizationalPerson", "user"],
                "sAMAccountName": [name],
                "userPrincipalName": [principal],
                "userAccountControl": [str(accounts.NORMAL_ACCOUNT | DONT_EXPIRE_PASSWORD)],
                "unicodePwd": [quoted(password)],
            },
        )
        return principal, password

    def reset_password(self, dn: str) -> str:
        """Set a new random password of an account, and return the password."""
        password = new_password()
        with (
            accounts.explained(dn, "the password was not set"),
            accounts.bound(self._connect()) as connection,
        ):
            connection.modify(dn, {"unicodePwd": [("MODIFY_REPLACE", [quoted(password)])]})
        return password

    def _add(self, container: str, name: str, attributes: Mapping[str, Sequence[str | bytes]]) -> str:
        dn = str(self._root.child("CN", container).child("CN", name))
        with (
            accounts.explained(dn, "the account was not added"),
            accounts.bound(self._connect()) as connection,
        ):
            connection.add(dn, attributes=attributes)
        return dn


def new_password() -> str:
    """Return a random password that satisfies the rules of a new domain."""
    return _KINDS + secrets.token_urlsafe(accounts.PASSWORD_BYTES)


def quoted(password: str) -> bytes:
    """Encode a password for unicodePwd ([MS-ADTS] 3.1.1.3.1.5.1)."""
    return f'"{password}"'.encode("utf-16-le")
