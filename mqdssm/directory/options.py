"""Options of a connection, checked before anything is sent."""

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Unpack, get_args
from urllib.parse import unquote, urlsplit

from mqdssm.directory.log_in import Authentication, LogIn, LogInArguments, TlsMode
from mqdssm.directory.secret import Secret
from mqdssm.errors import ConfigError

SEALING: Final = frozenset({"spnego", "ntlm", "kerberos"})
"""Kinds of log-in that sign and seal the connection if there is no TLS."""

CONNECT_TIMEOUT_S: Final = 10.0
OPERATION_TIMEOUT_S: Final = 60.0
PAGE_ENTRIES: Final = 1000
"""Entries of a page: the default maximum of Active Directory (MaxPageSize, decision M14)."""
PAGE_ENTRIES_MAX: Final = 100_000

_PORTS: Final[Mapping[TlsMode, int]] = {"ldaps": 636, "starttls": 389, "none": 389}
CATALOG_PORTS: Final[Mapping[TlsMode, int]] = {"ldaps": 3269, "starttls": 3268, "none": 3268}
"""Ports of the global catalog on domain controllers ([MS-ADTS] 5.1.1)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Server of the list, with all that is needed to connect.

    Attributes:
        url: as the caller gave it: what messages show.
        tls: how the connection is secured.
        host: name or address; None for a local socket.
        port: TCP port.
        path: path of a local socket; None for TCP.
        address: the only one of the host's addresses that is used; None: any. Behind the name of a domain
            each may be another server.
    """

    url: str
    tls: TlsMode
    host: str | None
    port: int
    path: str | None
    address: str | None = None

    @property
    def is_local_socket(self) -> bool:
        """True if the URL is an ``ldapi:`` URL."""
        return self.path is not None

    @classmethod
    def parse(
        cls,
        url: str,
        tls: TlsMode | None,
        *,
        plain: TlsMode = "starttls",
        ports: Mapping[TlsMode, int] = _PORTS,
    ) -> "Endpoint":
        """Parse a URL; it determines the kind of TLS unless `tls` does.

        Args:
            url: as the caller gave it.
            tls: as stated.
            plain: what ``ldap:`` stands for.
            ports: where a URL without a port leads.

        Raises:
            ConfigError: no LDAP URL, or a kind of TLS that contradicts it.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"{url!r} is no LDAP URL: {error}") from None
        scheme = parts.scheme.lower()
        if parts.username is not None or parts.password is not None:
            raise ConfigError("an LDAP URL carries no user or password: use user= and password=")
        if scheme != "ldapi" and (scheme not in {"ldap", "ldaps"} or not parts.hostname):
            raise ConfigError(f"{url!r} is no LDAP URL: use ldap://host, ldaps://host or ldapi://path")
        if parts.query or parts.path not in {"", "/"} or parts.fragment:
            raise ConfigError(f"{url!r}: only scheme, host and port are used here")
        if scheme == "ldapi":
            return cls._parse_local(url, parts.netloc, tls)
        if scheme == "ldaps" and tls not in {None, "ldaps"}:
            raise ConfigError(
                f"{url!r} is LDAPS, but tls={tls!r} was asked for: use ldap://, or leave tls out"
            )
        mode: TlsMode = tls or ("ldaps" if scheme == "ldaps" else plain)
        return cls(url, mode, parts.hostname, port or ports[mode], None)

    @property
    def is_catalog(self) -> bool:
        """True if the port is that of a global catalog."""
        return self.host is not None and self.port in CATALOG_PORTS.values()

    @property
    def catalog(self) -> "Endpoint":
        """Global catalog of this domain controller, with this kind of TLS."""
        if self.host is None or self.is_catalog:
            return self
        scheme, port = self.url.partition("://")[0], CATALOG_PORTS[self.tls]
        host = f"[{self.host}]" if ":" in self.host else self.host
        return replace(self, url=f"{scheme}://{host}:{port}", port=port)

    @classmethod
    def _parse_local(cls, url: str, netloc: str, tls: TlsMode | None) -> "Endpoint":
        if tls not in {None, "none"}:
            raise ConfigError(f"{url!r} is a local socket: it takes no TLS (tls={tls!r})")
        if not hasattr(socket, "AF_UNIX"):
            raise ConfigError(f"{url!r}: this system has no local sockets: use ldap:// or ldaps://")
        path = unquote(netloc)
        if not path.startswith("/"):
            raise ConfigError(f"{url!r}: write the socket's whole path with %2F for each slash")
        return cls(url, "none", None, 0, path)


def is_loopback(address: str) -> bool | None:
    """Return True if a host is this machine.

    None for a name that has to be resolved first.
    """
    if address.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions(LogIn):
    """Options of a session's connections; made by `of`.

    `LogIn` describes the options of the log-in.

    Attributes:
        endpoints: the servers, tried in this order.
        password: of the user.
        connect_timeout_s: limit for connecting, securing and binding to one server, in seconds; and again
            for reading the root DSE of a new one.
        operation_timeout_s: limit for one operation or one page, in seconds.
        page_size: entries asked for in one page.
        read_only: refuse every change before it is sent.
        forest: look for objects of the domains in all of them, through a global catalog (decision M73).
        catalogs: the global catalogs, tried in this order.
        part_only: the servers are global catalogs themselves, which hold a part of the attributes.
        from_the_top: objects of the domains are searched for below the root of all names.
    """

    endpoints: tuple[Endpoint, ...]
    password: Secret | None = field(default=None, repr=False)
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    operation_timeout_s: float = OPERATION_TIMEOUT_S
    page_size: int = PAGE_ENTRIES
    read_only: bool = False
    forest: bool = False
    catalogs: tuple[Endpoint, ...] = ()
    part_only: bool = False
    from_the_top: bool = False

    @property
    def seals(self) -> bool:
        """True if the log-in itself protects a connection without TLS."""
        return self.authentication in SEALING

    @classmethod
    def of(  # type: ignore[override]  # a connection needs servers besides the log-in
        cls,
        urls: str | Iterable[str],
        *,
        password: str | Secret | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        operation_timeout_s: float = OPERATION_TIMEOUT_S,
        page_size: int = PAGE_ENTRIES,
        read_only: bool = False,
        forest: bool = False,
        catalog: str | Iterable[str] | None = None,
        **login: Unpack[LogInArguments],
    ) -> "ConnectionOptions":
        """Make options from settings, checking them against each other.

        Raises:
            ConfigError: settings that cannot be, or a password that would travel in clear text.
        """
        # first: tracebacks that show variables must not show the password
        password = Secret(password) if isinstance(password, str) else password
        log_in = LogIn.of(**login)
        _check_words(log_in.tls, log_in.authentication)
        plain: TlsMode = "none" if log_in.authentication in SEALING else "starttls"
        endpoints = _parse_endpoints(urls, log_in.tls, plain)
        options = cls(
            **{**log_in.arguments(), "user": log_in.user or None},
            endpoints=endpoints,
            password=password,
            connect_timeout_s=connect_timeout_s,
            operation_timeout_s=operation_timeout_s,
            page_size=page_size,
            read_only=read_only,
            forest=forest,
            catalogs=_list_catalogs(catalog, endpoints, log_in.tls, plain),
            part_only=any(endpoint.is_catalog for endpoint in endpoints),
        )
        options._check()
        return options

    @property
    def of_catalog(self) -> "ConnectionOptions":
        """Options for connecting to the global catalog as this user."""
        return replace(
            self,
            endpoints=self.catalogs,
            forest=False,
            part_only=True,
            from_the_top=True,
            read_only=True,
        )

    def _check(self) -> None:
        self._check_authentication()
        if self.user is None and self.password:
            raise ConfigError("a password without a user: give user= too")
        by_ticket = self.authentication in {"spnego", "kerberos"}
        if self.user is not None and not self.password and not by_ticket:
            # RFC 4513 5.1.2: a name with an empty password is an unauthenticated bind, not a log-in
            raise ConfigError(f"user {self.user!r} needs a password: an empty one would not log in at all")
        if self.connect_timeout_s <= 0 or self.operation_timeout_s <= 0:
            raise ConfigError("time-outs are in seconds and greater than 0: no call may wait for ever")
        if not 1 <= self.page_size <= PAGE_ENTRIES_MAX:
            raise ConfigError(f"page_size is {self.page_size}: use 1 to {PAGE_ENTRIES_MAX}")
        self._check_forest()
        for endpoint in (*self.endpoints, *(self.catalogs if self.forest else ())):
            if endpoint.host is not None and is_loopback(endpoint.host) is False:
                self.refuse_clear_text(endpoint)

    def _check_forest(self) -> None:
        """Raise ConfigError for settings that contradict a search of the whole forest."""
        if not self.forest:
            return
        if not self.catalogs:
            raise ConfigError(
                "forest=True needs a global catalog, to which no local socket leads: name it with catalog="
            )
        if self.naming_context is not None:
            raise ConfigError(
                "forest=True is for all domains, naming_context= for a part of one: give one of them"
            )
        if self.part_only:
            raise ConfigError(
                "forest=True needs a domain controller besides a global catalog: take the port out of the URL"
            )

    def _check_authentication(self) -> None:
        """Raise ConfigError for settings that contradict this kind of log-in."""
        kind = self.authentication
        if kind == "simple" and self.user is None:
            raise ConfigError("authentication='simple' needs a user and a password")
        if kind == "external" and (
            self.user or not all(endpoint.is_local_socket for endpoint in self.endpoints)
        ):
            raise ConfigError("authentication='external' is for ldapi:// and takes no user")
        if kind == "ntlm" and self.user is None:
            raise ConfigError("authentication='ntlm' needs a user and a password")
        if self.seals and any(endpoint.is_local_socket for endpoint in self.endpoints):
            raise ConfigError(f"authentication={kind!r} is not for ldapi://: use ldap:// or ldaps://")
        if self.seals and self.user is not None and "=" in self.user:
            raise ConfigError(
                f"authentication={kind!r} knows users as user@domain or DOMAIN\\user, "
                f"not by DN: {self.user!r}"
            )
        if self.keytab is not None and (kind not in {"spnego", "kerberos"} or self.user is None):
            raise ConfigError("a keytab needs authentication='kerberos' and user=, the name in the keytab")

    def refuse_clear_text(self, endpoint: Endpoint) -> None:
        """Refuse to send the password in clear text to another machine.

        Raises:
            ConfigError: it would be sent so, and nobody allowed it.
        """
        clear = endpoint.tls == "none" and not self.seals
        if clear and self.user is not None and not self.allow_clear_text:
            raise ConfigError(
                f"{endpoint.url} would get the password of {self.user!r} in clear text: "
                "use StartTLS or LDAPS (tls='starttls', ldaps://), or allow_clear_text=True if you must"
            )


def _parse_endpoints(urls: str | Iterable[str], tls: TlsMode | None, plain: TlsMode) -> tuple[Endpoint, ...]:
    listed = (urls,) if isinstance(urls, str) else tuple(urls)
    if not listed:
        raise ConfigError("no server was named: give one URL or several")
    return tuple(Endpoint.parse(url.strip(), tls, plain=plain) for url in listed)


def _check_words(tls: str | None, authentication: str | None) -> None:
    """Raise ConfigError for unknown kinds of TLS or log-in."""
    if tls is not None and tls not in get_args(TlsMode):
        raise ConfigError(f"tls={tls!r}: use 'ldaps', 'starttls' or 'none'")
    if authentication is not None and authentication not in get_args(Authentication):
        choices = ", ".join(map(repr, get_args(Authentication)))
        raise ConfigError(f"authentication={authentication!r}: use one of {choices}")


def _list_catalogs(
    named: str | Iterable[str] | None, servers: Iterable[Endpoint], tls: TlsMode | None, plain: TlsMode
) -> tuple[Endpoint, ...]:
    """Return the global catalogs: the named ones, else the catalogs of the servers."""
    urls = (named,) if isinstance(named, str) else tuple(named or ())
    if urls:
        return tuple(Endpoint.parse(url.strip(), tls, plain=plain, ports=CATALOG_PORTS) for url in urls)
    return tuple(server.catalog for server in servers if not server.is_local_socket)
