"""Log-in of all processes of a job into the directory.

The settings hold no secret.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import mqdssm
from mqdssm.directory.log_in import FILES, LogIn, LogInArguments
from mqdssm.directory.options import PAGE_ENTRIES
from mqdssm.directory.secret import read_password
from mqdssm.errors import ConfigError
from mqdssm.pipeline.spark_options import HERE, SparkOptions

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

Paths = str | os.PathLike[str]
PASSWORD_VARIABLE: Final = "MQDSSM_PASSWORD"  # noqa: S105  its name
_OF_EXECUTORS: Final[Mapping[str, str]] = {
    "password_file": "MQDSSM_PASSWORD_FILE",
    "ca_file": "MQDSSM_CA_FILE",
    "keytab": "MQDSSM_KEYTAB",
}
"""Settings whose files may have another path on executors, and the variable that names the path."""
_PASSWORDS: Final = ("password", "password_file", "password_variable")


class PipelineLogIn(LogInArguments, total=False):
    """Log-in options of a caller: those of `LogIn`, and a password.

    All may be left out.

    Attributes:
        password: of the user. Workers on this machine read it from the memory of this process (on Linux), or
            from a temporary file of mode 0600. It is never sent to another machine. Or:
        password_file: a file that holds the password, in its first and only line; or:
        password_variable: name of an environment variable that holds the password where the search runs.
    """

    password: str | None
    password_file: Paths | None
    password_variable: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAccess(LogIn):
    """LDAP servers and log-in settings, without a secret.

    An object is safe to print and to pickle.
    The paths of files are those on the machine that reads. `LogIn` describes the options of the log-in.

    Attributes:
        urls: LDAP servers, tried in turn.
        password_file: path, on the machine that reads, of a file that holds the password and nothing else.
        password_variable: name, on the machine that reads, of an environment variable with the password.
        is_own: True if `open_access` made the password file, which other machines cannot read.
        page_size: entries asked for at once.
        check_msmq: refuse a directory that holds nothing of MSMQ's.
    """

    urls: tuple[str, ...]
    password_file: str | None = None
    password_variable: str | None = None
    is_own: bool = False
    page_size: int = PAGE_ENTRIES
    check_msmq: bool = True

    def at(self, url: str) -> Self:
        """Return a copy with one server alone.

        Other servers may have an older or newer state.
        """
        return replace(self, urls=(url,))

    def for_executors(self, on: SparkOptions) -> Self:
        """Return the access for executors.

        On a cluster its paths come from the environment variables of the executors.

        Raises:
            ConfigError: other machines could not read the password.
        """
        if not on.is_cluster:
            return self
        variables = {name: on.variable_of_executors(variable) for name, variable in _OF_EXECUTORS.items()}
        elsewhere = {name: value for name, value in variables.items() if value is not None}
        if "password_file" in elsewhere:
            return replace(self, **elsewhere, password_variable=None, is_own=False)  # type: ignore[arg-type]  # all are texts
        if on.has_secret(PASSWORD_VARIABLE):
            overrides = {"password_file": None, "password_variable": PASSWORD_VARIABLE, "is_own": False}
            return replace(self, **{**elsewhere, **overrides})  # type: ignore[arg-type]  # as above
        if self.is_own:
            raise ConfigError(
                "on a cluster every machine reads the password itself: put it into a file that all of them "
                "can read, and name that with password_file="
            )
        return replace(self, **elsewhere)  # type: ignore[arg-type]  # as above

    def connect(self, *, read_only: bool = True) -> "Directory":
        """Connect to the directory, with a password that is read now and not kept.

        Args:
            read_only: refuse every change.

        Raises:
            ConfigError: settings that exclude each other, or a password that cannot be read.
            DirectoryNotConnected: no server could be reached, or none accepts the log-in.
            GenericDirectoryError: writing to the directory of a replicating server is not allowed (R106).
        """
        directory = mqdssm.connect(
            self.urls,
            password=self.password(),
            read_only=read_only,
            page_size=self.page_size,
            check_msmq=self.check_msmq,
            **self.arguments(),
        )
        if not read_only:
            try:
                directory.session.refuse_if_replicated("write")
            except BaseException:
                directory.close()
                raise
        return directory

    def password(self) -> str | None:
        """Read the password from its file or variable; it is not kept.

        Returns:
            The content of the file without its line end, or of the variable; None if neither was named.

        Raises:
            ConfigError: the file cannot be read, or the variable is not set, on this machine.
        """
        if self.password_file is not None:
            return read_password(Path(self.password_file))
        if self.password_variable is None:
            return None
        secret = os.environ.get(self.password_variable)
        if secret is None:
            raise ConfigError(
                f"environment variable {self.password_variable}, for the password, is not set in the process "
                "that reads: set it before the Spark session starts, on a cluster on every machine"
            )
        return secret


@contextlib.contextmanager
def open_access(
    urls: str | Sequence[str], login: PipelineLogIn, on: SparkOptions = HERE, *, check_msmq: bool = True
) -> Iterator[DirectoryAccess]:
    """Turn log-in options of a caller into the access for a whole job.

    All processes of the job use it.

    Args:
        urls: one or several LDAP servers, tried in turn.
        login: how to log in.
        on: where Spark runs.
        check_msmq: refuse a directory that holds nothing of MSMQ's.

    Yields:
        The access, which is valid as long as the context lasts.

    Raises:
        ConfigError: the password was given twice, or the machines of a cluster could not read it.
    """
    names = [name for name in _PASSWORDS if login.get(name) is not None]
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} exclude each other: give one")
    with _make_private_file(login.get("password")) as private_file:
        options: dict[str, Any] = {name: value for name, value in login.items() if name not in _PASSWORDS}
        access = DirectoryAccess(
            **LogIn.of(**options).arguments() | {name: _make_absolute(options.get(name)) for name in FILES},
            urls=(urls,) if isinstance(urls, str) else tuple(urls),
            password_file=private_file or _make_absolute(login.get("password_file")),
            password_variable=login.get("password_variable"),
            is_own=private_file is not None,
            check_msmq=check_msmq,
        )
        access.for_executors(on)
        yield access


def read_variable(login: PipelineLogIn) -> PipelineLogIn:
    """Replace the name of a password variable by its password.

    Workers do not have the variable.

    Raises:
        ConfigError: the variable is not set.
    """
    name = login.get("password_variable")
    if name is None or login.get("password") is not None or login.get("password_file") is not None:
        return login
    return login | PipelineLogIn(
        password=DirectoryAccess(urls=(), password_variable=name).password(), password_variable=None
    )


def _make_absolute(path: Paths | None) -> str | None:
    """Return an absolute path, for processes with another current folder."""
    return None if path is None else str(Path(path).resolve())


@contextlib.contextmanager
def _make_private_file(password: str | None) -> Iterator[str | None]:
    """Yield the path of a file with the password; None without a password.

    Only this user can read the file.
    """
    if password is None:
        yield None
        return
    data = f"{password}\r\n".encode()  # `read_password` removes this line end
    in_memory = hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()
    with _make_memory_file(data) if in_memory else _make_temporary_file(data) as name:
        yield name


@contextlib.contextmanager
def _make_memory_file(data: bytes) -> Iterator[str]:
    """Yield a path in ``/proc`` to data in memory, for other processes of this user."""
    handle = os.memfd_create("mqdssm")
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/{os.getpid()}/fd/{handle}"
    finally:
        os.close(handle)


@contextlib.contextmanager
def _make_temporary_file(data: bytes) -> Iterator[str]:
    handle, name = tempfile.mkstemp(prefix="mqdssm-")  # made with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        yield name
    finally:
        Path(name).unlink(missing_ok=True)
