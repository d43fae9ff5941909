"""Base classes of the servers: starting, stopping, and accounts for tests."""

import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar

from mqdssm.errors import ConfigError
from mqdssm.testing.openldap_start import (
    POLL_S,
    AddressTakenError,
    explain_failure,
    find_answering_process,
    require_free,
)
from mqdssm.testing.server_files import ServerFiles
from mqdssm.testing.supervised_server import ServerState, SupervisedServer

START_ATTEMPTS: Final = 5  # another process may take an address between the check and the start


class AccountMaker(Protocol):
    """Interface of a creator of accounts."""

    def add_computer(self, name: str) -> str:
        """Add a computer, and return its DN."""

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user; return the log-in name and the password."""


class LdapServer(ABC):
    """A private LDAP server; a context manager."""

    NOUN: ClassVar[str]
    """Name of the server in messages."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Start the server, or start it again, at the same address.

        Returns when it answers.

        Raises:
            ConfigError: software is missing, the user may not, an address is taken, ….
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the server as an administrator would; `start` starts it again."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the server; `start` starts it again."""

    @abstractmethod
    def close(self) -> None:
        """Stop the server for good, and delete temporary files."""

    @property
    @abstractmethod
    def log(self) -> str:
        """End of the server's log."""

    def add_computer(self, name: str) -> str:
        """Add a computer below ``CN=Computers`` as joining a domain does (decision M26).

        Args:
            name: its NetBIOS name, without the trailing ``$``.

        Returns:
            Its DN.

        Raises:
            ObjectAlreadyExists: there is one of that name.
        """
        return self._make_account_maker().add_computer(name)

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user below ``CN=Users``, with no rights but those of every user.

        Returns:
            The name to log in with and the password, which is random. The name is the DN on OpenLDAP, and
            the user principal name (``name@contoso.test``) on a domain controller.

        Raises:
            ObjectAlreadyExists: there is one of that name.
        """
        return self._make_account_maker().add_user(name)

    @abstractmethod
    def _make_account_maker(self) -> AccountMaker:
        """Return a creator of accounts on this server."""

    def _explain_not_started(self) -> ConfigError:
        return ConfigError(f"the {self.NOUN} has not been started yet")

    def _explain_not_running(self) -> ConfigError:
        return ConfigError(f"the {self.NOUN} is not running: use it as a context manager, or call start()")


F = TypeVar("F", bound=ServerFiles)


class LocalServer(LdapServer, Generic[F]):
    """A server on this machine, which ends with the process that created it.

    Even a killed process leaves no server behind.
    """

    PROGRAM: ClassVar[str]
    """Name of the server's program in messages."""
    SCRIPT: ClassVar[Path]
    """Script that runs the server in the foreground."""
    WAIT_S: ClassVar[float]
    """Longest time of a start."""

    def __init__(self, folder: F | None, *, restart: bool) -> None:
        """Keep the options; `start` creates the server.

        Args:
            folder: kept folder; None takes a temporary one, deleted at the end.
            restart: start the program again when it dies by a signal or ends with status 0 (not after `kill`
                and `stop`).
        """
        self._temporary = folder is None
        self._folder = folder
        self._restart = restart
        self._supervised: SupervisedServer | None = None
        self._lock = threading.RLock()

    @property
    def folder(self) -> Path:
        """Path of the folder with the server's files."""
        return self._made_folder.path

    @property
    def ca_file(self) -> str:
        """Path of the certificate of the authority that signed the server's own."""
        return str(self._made_folder.ca_file)

    @property
    def pid(self) -> int | None:
        """Process id of the server, None when it does not run."""
        return self.state["pid"]

    @property
    def log(self) -> str:
        """Last 64 KB of the server's output."""
        return self.state["log"]

    @property
    def state(self) -> ServerState:
        """Process id, last exit status and output, all of one moment.

        Raises:
            ConfigError: the supervisor is gone.
        """
        return self._ask("status")

    def start(self) -> None:
        """Start the server, or start it again, at the same address.

        Returns when it answers.

        Raises:
            ConfigError: software is missing, the user may not, the folder is in use, an address is taken, ….
        """
        with self._lock:
            try:
                if self._supervised is None:
                    self._require_software()
                    self._start_new(1 if self._has_given_address() else START_ATTEMPTS)
                else:
                    self._run()
            except AddressTakenError as error:
                raise ConfigError(str(error)) from error

    def stop(self) -> None:
        """Stop the server as an administrator would (SIGTERM); `start` starts it again."""
        self._ask("stop")

    def kill(self) -> None:
        """Kill the server (SIGKILL); `start` starts it again."""
        self._ask("kill")

    def close(self) -> None:
        """Stop the server for good; a temporary folder is deleted."""
        with self._lock:
            supervised, self._supervised = self._supervised, None
            if supervised is not None:
                supervised.close()
            self._forget_address()
            if self._temporary and self._folder is not None:
                self._folder.remove()
                self._folder = None

    @abstractmethod
    def _require_software(self) -> None:
        """Raise ConfigError if this machine or this user cannot run the server."""

    @abstractmethod
    def _has_given_address(self) -> bool:
        """Return True if the options give the address.

        A retry would use the same address.
        """

    @abstractmethod
    def _forget_address(self) -> None:
        """Forget the address after the server was stopped for good."""

    @abstractmethod
    def _make_folder(self) -> F:
        """Create a temporary folder."""

    @abstractmethod
    def _prepare_folder(self, folder: F) -> dict[str, str]:
        """Choose an address, fill the folder, and return the environment of `SCRIPT`."""

    @property
    def _made_folder(self) -> F:
        if self._folder is None:
            raise self._explain_not_started()
        return self._folder

    def _start_new(self, attempts: int) -> None:
        for remaining in reversed(range(attempts)):
            try:
                self._supervise()
                self._run()
            except AddressTakenError:
                self.close()
                if not remaining:
                    raise
            except BaseException:
                self.close()
                raise
            else:
                return

    def _supervise(self) -> None:
        if self._folder is None:
            self._folder = self._make_folder()
        require_free(self._folder.path)
        environment = self._prepare_folder(self._folder)
        self._supervised = SupervisedServer(
            ["/bin/sh", str(self.SCRIPT)],
            environment,
            f"the {self.NOUN} in {self._folder.path}",
            restart=self._restart,
            remove=self._folder.places if self._temporary else (),
        )

    def _run(self) -> None:
        state = self._ask("start")
        deadline = time.monotonic() + self.WAIT_S
        while state["pid"] is not None:
            # check the process: another server may hold the folder and answer, while this one will fail
            if find_answering_process(self._made_folder.socket) in {0, state["pid"]}:
                return
            if time.monotonic() > deadline:
                log_text = state["log"].strip()
                raise ConfigError(f"{self.PROGRAM} did not answer within {self.WAIT_S:.0f} s: {log_text}")
            time.sleep(POLL_S)
            state = self._ask("status")
        raise explain_failure(state["exit"], state["log"], self.folder, self.PROGRAM)

    def _ask(self, word: str) -> ServerState:
        with self._lock:
            if self._supervised is None:
                raise self._explain_not_running()
            return self._supervised.ask(word)
