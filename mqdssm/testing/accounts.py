"""Creation of computers and users in a test directory.

Other programs make them by plain LDAP adds, too.

It does not use mqdssm's own directory layer on purpose: tests compare the two.
"""

import base64
import contextlib
import hashlib
import secrets
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError, ObjectAlreadyExists
from mqdssm.model.dn import DN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST_RID: Final = 1103  # as in a new domain of Windows
WORKSTATION_TRUST_ACCOUNT: Final = 0x1000  # userAccountControl, [MS-ADTS] 2.2.16
NORMAL_ACCOUNT: Final = 0x0200
PASSWORD_BYTES: Final = 18
CALL_WAIT_S: Final = 30

Connection = Any  # ldap3 has no types


class Accounts:
    """Creator of security principals, each with a SID of the directory's domain.

    Attributes:
        CLASSES: object classes of a user.
    """

    CLASSES: ClassVar[tuple[str, ...]] = ("top", "user")

    def __init__(self, connect: Callable[[], Connection], base_dn: str) -> None:
        """Keep the parameters; nothing is read yet.

        Args:
            connect: gives a new ldap3 connection, bound as the administrator.
            base_dn: the root of the directory.
        """
        self._connect = connect
        self._root = DN.parse(base_dn)
        parts = [value for rdn in self._root.rdns for kind, value in rdn if kind.lower() == "dc"]
        self._domain = ".".join(parts)
        self._lock = threading.Lock()
        self._domain_sid: bytes | None = None
        self._next_rid = FIRST_RID

    def add_computer(self, name: str) -> str:
        """Add a computer as joining a domain does (decision M26), and return its DN."""
        host = f"{name.lower()}.{self._domain}"
        return self._add(
            "Computers",
            name,
            {
                "objectClass": [*self.CLASSES, "computer"],
                "sAMAccountName": [f"{name}$"],
                "dNSHostName": [host],
                "servicePrincipalName": [f"HOST/{name}", f"HOST/{host}"],
                "userAccountControl": [str(WORKSTATION_TRUST_ACCOUNT)],
                **self._secret_of_computer(),
            },
        )

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user; return the DN and the random password."""
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        dn = self._add(
            "Users",
            name,
            {
                "objectClass": self.CLASSES,
                "sAMAccountName": [name],
                "userAccountControl": [str(NORMAL_ACCOUNT)],
                "userPassword": [hash_password(password)],
            },
        )
        return dn, password

    def _add(self, container: str, name: str, attributes: "Mapping[str, Sequence[str | bytes]]") -> str:
        dn = str(self._root.child("CN", container).child("CN", name))
        with explain_errors(dn, "the account was not added"), bind(self._connect()) as connection:
            connection.add(dn, attributes={**attributes, **self._make_identity(connection)})
        return dn

    def _secret_of_computer(self) -> dict[str, list[bytes]]:
        return {}  # nobody logs in as a computer

    def _make_identity(self, connection: Connection) -> dict[str, list[bytes]]:
        return {"objectGUID": [uuid.uuid4().bytes_le], "objectSid": [self._make_sid(connection)]}

    def _make_sid(self, connection: Connection) -> bytes:
        with self._lock:
            if self._domain_sid is None or not self._has_sid(connection):
                self._read_sids(connection)
            if self._domain_sid is None:
                raise GenericDirectoryError("the root has no objectSid", dn=str(self._root))
            rid, self._next_rid = self._next_rid, self._next_rid + 1
            return make_account_sid(self._domain_sid, rid)

    def _has_sid(self, connection: Connection) -> bool:
        """Return True if the root still has a SID: its creation may have been undone."""
        root = str(self._root)
        return bool(
            connection.search(root, "(objectSid=*)", "BASE", attributes=["1.1"]) and connection.entries
        )

    def _read_sids(self, connection: Connection) -> None:
        """Read the domain's SID, or create one, and find the next free RID."""
        root = str(self._root)
        sids = {}
        for entry in connection.extend.standard.paged_search(
            root, "(objectSid=*)", attributes=["objectSid"], paged_size=1000, generator=True
        ):
            sids[entry["dn"].lower()] = entry["raw_attributes"]["objectSid"][0]
        domain = sids.pop(root.lower(), None)
        if domain is None:
            domain = make_domain_sid()
            connection.modify(root, {"objectSid": [("MODIFY_REPLACE", [domain])]})
        used_rids = [
            int.from_bytes(sid[-4:], "little") for sid in sids.values() if sid.startswith(domain[2:], 2)
        ]
        self._domain_sid, self._next_rid = domain, max([*used_rids, FIRST_RID - 1]) + 1


@contextlib.contextmanager
def explain_errors(dn: str, failed: str) -> Iterator[None]:
    """Raise errors of ldap3 about an account as our own.

    Args:
        dn: the account.
        failed: what failed, for the message.

    Raises:
        ObjectAlreadyExists: there is an account of that name.
        GenericDirectoryError: the server refuses.
        DirectoryNotConnected: the server cannot be reached.
    """
    from ldap3.core.exceptions import LDAPEntryAlreadyExistsResult, LDAPExceptionError, LDAPOperationResult

    try:
        yield
    except LDAPEntryAlreadyExistsResult as error:
        raise ObjectAlreadyExists(
            "there is an account of that name", dn=dn, ldap_code=error.result, server_text=error.message
        ) from error
    except LDAPOperationResult as error:
        raise GenericDirectoryError(
            failed, dn=dn, ldap_code=error.result, server_text=error.message
        ) from error
    except LDAPExceptionError as error:
        raise DirectoryNotConnected(f"{failed}: {error}", dn=dn) from error


@contextlib.contextmanager
def bind(connection: Connection, *, start_tls: bool = False) -> Iterator[Connection]:
    """Open and bind an ldap3 connection; close its socket at the end of the block.

    ldap3 itself leaves the socket open when a connection or a bind is refused.
    """
    from ldap3.core.exceptions import LDAPExceptionError

    try:
        connection.open()
        if start_tls:
            connection.start_tls()
        connection.bind()
        yield connection
    finally:
        with contextlib.suppress(LDAPExceptionError):
            connection.unbind()
        if connection.socket is not None:
            connection.socket.close()


def make_domain_sid() -> bytes:
    """Return a random SID of a domain, ``S-1-5-21-x-y-z`` ([MS-DTYP] 2.4.2.2)."""
    numbers = (21, *(secrets.randbits(32) for _ in range(3)))
    return b"\x01\x04" + (5).to_bytes(6, "big") + b"".join(number.to_bytes(4, "little") for number in numbers)


def make_account_sid(domain: bytes, rid: int) -> bytes:
    """Return the SID of an account, from its domain's SID and its RID."""
    return domain[:1] + bytes([domain[1] + 1]) + domain[2:] + rid.to_bytes(4, "little")


def hash_password(password: str) -> bytes:
    """Hash a password as ``{SSHA}``, a scheme that slapd knows without a module."""
    salt = secrets.token_bytes(8)
    digest = hashlib.sha1(password.encode() + salt, usedforsecurity=False).digest()
    return b"{SSHA}" + base64.b64encode(digest + salt)


def connect_as_owner(ldapi_url: str) -> Connection:
    """Return an unopened ldap3 connection to an ldapi socket, as the server's owner.

    The mechanism of the bind is SASL EXTERNAL.
    """
    import ldap3

    return _make_connection(
        ldapi_url, authentication=ldap3.SASL, sasl_mechanism=ldap3.EXTERNAL, sasl_credentials=""
    )


def connect_over_tls(ldaps_url: str, user: str, password: str, ca_file: str) -> Connection:
    """Return an unopened ldap3 connection over TLS, with a simple bind.

    The connection verifies the server's certificate.
    """
    import ldap3

    tls = ldap3.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=ca_file)
    return _make_connection(ldaps_url, tls, user=user, password=password)


def _make_connection(url: str, tls: Any = None, **log_in: Any) -> Connection:
    import ldap3

    server = ldap3.Server(url, get_info=ldap3.NONE, connect_timeout=CALL_WAIT_S, tls=tls)
    return ldap3.Connection(
        server,
        **log_in,
        check_names=False,
        raise_exceptions=True,
        auto_referrals=False,
        receive_timeout=CALL_WAIT_S,
    )
