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
from mqdssm.directory.options import TlsMode
from mqdssm.errors import ConfigError
from mqdssm.spark.columns import Column, columns_of, element_of

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

NAMES: Final = (
    "object",
    "columns",
    "url",
    "user",
    "credentialsfile",
    "credentialsenv",
    "tls",
    "cafile",
    "profile",
    "namingcontext",
    "forest",
    "catalog",
    "allowcleartext",
)
_SECRET: Final = re.compile(r"(?i)pass|pw|secret|token")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one data frame, checked. Holds no secret, so printing and pickling it is harmless.

    Attributes:
        object: element of the abstract model, as ``Queue``.
        columns: the columns of the data frame, in order.
        urls: LDAP servers, tried in turn.
        user: DN to bind as; None: anonymous, SASL EXTERNAL over ``ldapi:``.
        credentialsfile: path, on the machine that reads, of a file whose content is the password.
        credentialsenv: name, on the machine that reads, of an environment variable that holds the password.
        tls: how the connection is protected; None: as the URL says.
        cafile: PEM file of the authorities to trust; None: those of the system.
        profile: kind of server, or ``auto``.
        namingcontext: where computers, queues and users are, if not below the root (decision M8).
        forest: look for objects of all domains, through a global catalog (decision M73).
        catalogs: global catalogs, tried in turn; none: the servers' own.
        allowcleartext: let the password go in clear text to another machine.
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
    forest: bool = False
    catalogs: tuple[str, ...] = ()
    allowcleartext: bool = False

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
        tls = given.get("tls") or None
        if tls is not None and tls not in get_args(TlsMode):
            raise ConfigError(f"option tls is {tls!r}: use one of {', '.join(get_args(TlsMode))}")
        try:
            element = element_of(_required(given, "object"))
            names = [name.strip() for name in given.get("columns", "").split(",") if name.strip()]
            columns = columns_of(element, names or None)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return cls(
            object=element.element_name,
            columns=columns,
            urls=_urls(_required(given, "url")),
            user=given.get("user") or None,
            credentialsfile=given.get("credentialsfile") or None,
            credentialsenv=given.get("credentialsenv") or None,
            tls=cast("TlsMode | None", tls),
            cafile=given.get("cafile") or None,
            profile=given.get("profile") or "auto",
            namingcontext=given.get("namingcontext") or None,
            forest=_flag(given, "forest"),
            catalogs=_urls(given.get("catalog", "")),
            allowcleartext=_flag(given, "allowcleartext"),
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

    def connect(self) -> "Directory":
        """Connect as the options say, only to read; the password is read now and not kept.

        Raises:
            ConfigError: settings that cannot be, or a password that is not there.
            DirectoryNotConnected: no server could be reached, or none lets us in.
        """
        return mqdssm.connect(
            self.urls,
            user=self.user,
            password=self.password(),
            tls=self.tls,
            ca_file=self.cafile,
            profile=self.profile,
            read_only=True,
            naming_context=self.namingcontext,
            forest=self.forest,
            catalog=self.catalogs,
            allow_clear_text=self.allowcleartext,
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


def _urls(text: str) -> tuple[str, ...]:
    urls = tuple(text.split())
    for url in urls:
        if "@" in urlsplit(url).netloc:
            raise ConfigError("option url or catalog holds a user or password: use user and credentialsfile")
    return urls
