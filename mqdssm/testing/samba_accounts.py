"""Creation of computers and users in a domain, as its own tools make them.

mqdssm's own directory layer is not used, because tests compare the two.
"""

import secrets
from typing import ClassVar, Final

from mqdssm.testing import accounts

DONT_EXPIRE_PASSWORD: Final = 0x10000  # userAccountControl, [MS-ADTS] 2.2.16
_KINDS: Final = "Aa1."  # one of each kind of character that a domain's password rules require


class DomainAccounts(accounts.Accounts):
    """Creator of security principals in a domain.

    The controller assigns their identifiers.
    """

    CLASSES: ClassVar[tuple[str, ...]] = ("top", "person", "organizationalPerson", "user")

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user; return the user principal name and the random password."""
        password, principal = make_password(), f"{name}@{self._domain}"
        self._add(
            "Users",
            name,
            {
                "objectClass": self.CLASSES,
                "sAMAccountName": [name],
                "userPrincipalName": [principal],
                "userAccountControl": [str(accounts.NORMAL_ACCOUNT | DONT_EXPIRE_PASSWORD)],
                "unicodePwd": [quote_password(password)],
            },
        )
        return principal, password

    def reset_password(self, dn: str) -> str:
        """Set a new random password of an account, and return the password."""
        password = make_password()
        with (
            accounts.explain_errors(dn, "the password was not set"),
            accounts.bind(self._connect()) as connection,
        ):
            connection.modify(dn, {"unicodePwd": [("MODIFY_REPLACE", [quote_password(password)])]})
        return password

    def _secret_of_computer(self) -> dict[str, list[bytes]]:
        return {"unicodePwd": [quote_password(make_password())]}

    def _make_identity(self, _: accounts.Connection) -> dict[str, list[bytes]]:
        return {}


def make_password() -> str:
    """Return a random password that satisfies the rules of a new domain."""
    return _KINDS + secrets.token_urlsafe(accounts.PASSWORD_BYTES)


def quote_password(password: str) -> bytes:
    """Encode a password for unicodePwd ([MS-ADTS] 3.1.1.3.1.5.1)."""
    return f'"{password}"'.encode("utf-16-le")
