"""Options of the data source ``mqdssm``: what they mean, and that none of them is a secret.

Spark pickles the options into every task and may print them in event logs and its web pages, so a password is
never an option: it is read from a file or a variable of the environment where the search runs.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast, get_args
from urllib.parse import urlsplit

import mqdssm
from mqdssm.directory.filters import LdapFilter, attribute_description, parse_text
from mqdssm.directory.options import PAGE_ENTRIES, PAGE_ENTRIES_MAX, Authentication, TlsMode
from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.spark.columns import Column, FrameType, frame_type

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

NAMES: Final = (
    "object",
    "columns",
    "filter",
    "attributes",
    "base",
    "numpartitions",
    "pagesize",
    "pushdown",
    "url",
    "user",
    "credentialsfile",
    "credentialsenv",
    "tls",
    "cafile",
    "profile",
    "namingcontext",
    "allowcleartext",
    "authentication",
    "keytab",
    "kerberoshost",
)
PARTITIONS_MAX: Final = 256
"""Each is a connection of its own, and directories dislike hundreds."""
_SECRET: Final = re.compile(r"(?i)pass|pw|secret|token")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one data frame, checked. Holds no secret, so printing and pickling it is harmless.

    Attributes:
        object: type of frame, as ``queue`` or ``ldap``.
        columns: the columns of the data frame, in order.
        urls: LDAP servers, tried in turn.
        user: DN to bind as; None: anonymous, SASL EXTERNAL over ``ldapi:``.
        credentialsfile: path, on the machine that reads, of a file whose content is the password.
        credentialsenv: name, on the machine that reads, of an environment variable that holds the password.
        tls: how the connection is protected; None: as the URL says.
        cafile: PEM file of the authorities to trust; None: those of the system.
        profile: kind of server, or ``auto``.
        namingcontext: where computers, queues and users are, if not below the root (decision M8).
        allowcleartext: let the password go in clear text to another machine.
        filter: LDAP filter that the objects must satisfy besides; None: all of the type.
        attributes: LDAP attributes of raw entries.
        base: DN where the search begins; None: where objects of the type are.
        numpartitions: how many searches the frame is split into, each with a connection of its own.
        pagesize: entries asked for at once.
        pushdown: what Spark filters by is asked of the server as far as LDAP can say it.
        authentication: how to log in; None: by what else is given.
        keytab: path, on the machine that reads, of a file with the user's Kerberos keys.
        kerberoshost: full name of the server in its tickets, if the URL has another one.
    """

    object: str
    columns: tuple[Column, ...]
    urls: tuple[str, ...]
    user: str | None = None
    credentialsfile: str | None = None
    credentialsenv: str | None = None
    tls: TlsMode | None = None
    cafile: str | None = None
    profile: str = "auto"
    namingcontext: str | None = None
    allowcleartext: bool = False
    filter: LdapFilter | None = None
    attributes: tuple[str, ...] = ("*",)
    base: str | None = None
    numpartitions: int = 1
    pagesize: int = PAGE_ENTRIES
    pushdown: bool = False
    authentication: Authentication | None = None
    keytab: str | None = None
    kerberoshost: str | None = None

    @property
    def frame(self) -> FrameType:
        """The type of frame."""
        return frame_type(self.object)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check the options of ``spark.read.format("mqdssm")``.

        Args:
            options: names (any case) and values.

        Raises:
            ConfigError: an unknown option, a missing or contradictory one, or an attempt to pass a password.
        """
        given = {name.lower(): value for name, value in options.items()}
        _refuse_others(given)
        if given.get("credentialsfile") and given.get("credentialsenv"):
            raise ConfigError("options credentialsfile and credentialsenv exclude each other: give one")
        try:
            frame = frame_type(_required(given, "object"))
            columns = frame.select(_names(given, "columns") or None)
            wanted = parse_text(given["filter"].strip()) if given.get("filter") else None
            base = str(DN.parse(given["base"])) if given.get("base") else None
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return cls(
            object=frame.name,
            columns=columns,
            urls=_urls(_required(given, "url")),
            user=given.get("user") or None,
            credentialsfile=given.get("credentialsfile") or None,
            credentialsenv=given.get("credentialsenv") or None,
            tls=cast("TlsMode | None", _one_of(given, "tls", get_args(TlsMode))),
            cafile=given.get("cafile") or None,
            profile=given.get("profile") or "auto",
            namingcontext=given.get("namingcontext") or None,
            allowcleartext=_flag(given, "allowcleartext"),
            filter=wanted,
            attributes=_attributes(given, frame),
            base=base,
            numpartitions=_number(given, "numpartitions", 1, PARTITIONS_MAX),
            pagesize=_number(given, "pagesize", PAGE_ENTRIES, PAGE_ENTRIES_MAX),
            pushdown=_flag(given, "pushdown"),
            authentication=cast(
                "Authentication | None", _one_of(given, "authentication", get_args(Authentication))
            ),
            keytab=given.get("keytab") or None,
            kerberoshost=given.get("kerberoshost") or None,
        )

    def password(self) -> str | None:
        """Read the password, here and now; it is not kept.

        Returns:
            The content of the file without its last line end, or of the variable; None if neither was named.

        Raises:
            ConfigError: the file cannot be read, or the variable is not set, on this machine.
        """
        if self.credentialsfile is not None:
            try:
                text = Path(self.credentialsfile).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
                raise ConfigError(
                    f"credentialsfile {self.credentialsfile} cannot be read: {reason}"
                ) from error
            return text.removesuffix("\n").removesuffix("\r")
        if self.credentialsenv is not None:
            secret = os.environ.get(self.credentialsenv)
            if secret is None:
                raise ConfigError(
                    f"environment variable {self.credentialsenv} (option credentialsenv) is not set in the "
                    "process that reads: set it before the Spark session starts, on a cluster on every node"
                )
            return secret
        return None

    def connect(self, server: str | None = None) -> "Directory":
        """Connect as the options say, only to read; the password is read now and not kept.

        Args:
            server: the one URL to connect to; None: those of the options, in turn.

        Raises:
            ConfigError: settings that cannot be, or a password that is not there.
            DirectoryNotConnected: no server could be reached, or none lets us in.
        """
        return mqdssm.connect(
            self.urls if server is None else server,
            user=self.user,
            password=self.password(),
            tls=self.tls,
            ca_file=self.cafile,
            profile=self.profile,
            read_only=True,
            naming_context=self.namingcontext,
            allow_clear_text=self.allowcleartext,
            page_size=self.pagesize,
            authentication=self.authentication,
            keytab=self.keytab,
            kerberos_host=self.kerberoshost,
            check_msmq=self.frame.ldap_class is not None,
        )


def _refuse_others(given: Mapping[str, str]) -> None:
    """Refuse what is no option; never repeat a value, it could be the password."""
    for name in given:
        if name in NAMES:
            continue
        if _SECRET.search(name):
            raise ConfigError(
                f"option {name} is refused, since Spark prints and stores options: put the password into a "
                "file and name it with credentialsfile, or into a variable and name it with credentialsenv"
            )
        raise ConfigError(f"unknown option {name}: the data source mqdssm knows {', '.join(NAMES)}")


def _required(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise ConfigError(f"option {name} is missing")
    return value


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "").lower()
    if value not in {"", "true", "false"}:
        raise ConfigError(f"option {name} is {value!r}: use true or false")
    return value == "true"


def _one_of(given: Mapping[str, str], name: str, known: tuple[str, ...]) -> str | None:
    value = given.get(name) or None
    if value is not None and value not in known:
        raise ConfigError(f"option {name} is {value!r}: use one of {', '.join(known)}")
    return value


def _number(given: Mapping[str, str], name: str, default: int, high: int) -> int:
    text = given.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= high):
        raise ConfigError(f"option {name} is {text!r}: use a number from 1 to {high}")
    return int(text)


def _names(given: Mapping[str, str], name: str) -> list[str]:
    return [part.strip() for part in given.get(name, "").split(",") if part.strip()]


def _attributes(given: Mapping[str, str], frame: FrameType) -> tuple[str, ...]:
    """The LDAP attributes of raw entries; other frames ask for what their columns need."""
    names = _names(given, "attributes")
    if names and frame.ldap_class is not None:
        raise ConfigError("option attributes is for object ldap: use columns")
    for name in names:
        if name not in {"*", "+"}:
            try:
                attribute_description(name)
            except ValueError as error:
                raise ConfigError(f"option attributes: {error}") from error
    return tuple(names) or ("*",)


def _urls(text: str) -> tuple[str, ...]:
    urls = tuple(text.split())
    for url in urls:
        if "@" in urlsplit(url).netloc:
            raise ConfigError("option url holds a user or password: use user and credentialsfile")
    return urls
