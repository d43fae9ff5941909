"""How the processes that read get into the directory: everything but the password itself."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import mqdssm
from mqdssm.directory.options import Authentication, TlsMode
from mqdssm.errors import ConfigError

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory


@dataclass(frozen=True, slots=True)
class Access:
    """Where and how to log in. Holds no secret, so printing and pickling it is harmless.

    Attributes:
        urls: LDAP servers, tried in turn.
        user: who logs in; None: anonymous, SASL EXTERNAL over ``ldapi:``, or a Kerberos ticket.
        password_file: path, on the machine that reads, of a file that holds the password and nothing else.
        tls: how the connection is protected; None: as the URL says.
        ca_file: PEM file of the authorities to trust; None: those of the system.
        profile: kind of server, or ``auto``.
        naming_context: where computers, queues and users are, if not below the root (decision M8).
        allow_clear_text: let the password go in clear text to another machine.
        authentication: how to log in; None: by what else is given.
        keytab: path, on the machine that reads, of a file with the user's Kerberos keys.
        kerberos_host: the server's name in tickets, if it is not that of the URL.
        check_msmq: refuse a directory that holds nothing of MSMQ's.
    """

    urls: tuple[str, ...]
    user: str | None = None
    password_file: str | None = None
    tls: TlsMode | None = None
    ca_file: str | None = None
    profile: str = "auto"
    naming_context: str | None = None
    allow_clear_text: bool = False
    authentication: Authentication | None = None
    keytab: str | None = None
    kerberos_host: str | None = None
    check_msmq: bool = True

    def at(self, url: str) -> Self:
        """The same at one server alone: another one may hold the state of another time."""
        return replace(self, urls=(url,))

    def connect(self) -> "Directory":
        """Connect, only to read; the password is read now and not kept.

        Raises:
            ConfigError: settings that cannot be, or a password that is not there.
            DirectoryNotConnected: no server could be reached, or none lets us in.
        """
        return mqdssm.connect(
            self.urls,
            user=self.user,
            password=self._password(),
            tls=self.tls,
            ca_file=self.ca_file,
            profile=self.profile,
            read_only=True,
            naming_context=self.naming_context,
            allow_clear_text=self.allow_clear_text,
            authentication=self.authentication,
            keytab=self.keytab,
            kerberos_host=self.kerberos_host,
            check_msmq=self.check_msmq,
        )

    def _password(self) -> str | None:
        if self.password_file is None:
            return None
        try:
            return Path(self.password_file).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"the password file {self.password_file} cannot be read here: {error.strerror}"
            ) from error


@contextlib.contextmanager
def password_file(password: str | None) -> Iterator[str | None]:
    """Put a password where only we can read it: options and environment are seen by too many.

    Yields:
        Path of the file, which is removed at the end; None if there is no password.
    """
    if password is None:
        yield None
        return
    handle, name = tempfile.mkstemp(prefix="mqdssm-")  # made with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(password)
        yield name
    finally:
        Path(name).unlink(missing_ok=True)
