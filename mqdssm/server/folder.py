"""Folder of a directory server: its files, for one process at a time."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import mqdssm
from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.events.durable_files import check_own, lock_file, write_atomically

FORMAT: Final = 1
"""Format of the folder, of the state in its directory, and of backups.

A version of mqdssm that writes what the one before cannot read has the next number (decision T153).
"""
CONFIG_FILE: Final = "server.toml"
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class DirectoryServerFolder:
    """Folder of a directory server.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.path / CONFIG_FILE

    @property
    def key(self) -> Path:
        """Private key of the queue manager, PEM, mode 0600."""
        return self.path / "key.pem"

    @property
    def admission(self) -> Path:
        """Request of a new server to be admitted, until its configuration is made."""
        return self.path / "admission.json"

    @property
    def numbers(self) -> Path:
        """Numbers of messages that were sent."""
        return self.path / "message-numbers.json"

    @property
    def messages(self) -> Path:
        """Recoverable messages, which were sent or have arrived."""
        return self.path / "messages.sqlite"

    @property
    def marks(self) -> Path:
        """Dates of messages that were accepted; worthless in a backup."""
        return self.path / "replay-marks.json"

    @property
    def hosts(self) -> Path:
        """Addresses of servers that were added while this one ran."""
        return self.path / "hosts.json"

    @property
    def founded(self) -> Path:
        """Marker: the server's first objects existed once, and are not made again."""
        return self.path / "first-objects.made"

    @property
    def tokens(self) -> Path:
        """Join tokens that this server has made; secret, and not in a backup."""
        return self.path / "join-tokens.json"

    @property
    def control(self) -> Path:
        """Control socket."""
        return self.path / "control.sock"

    @property
    def notified(self) -> Path:
        """Changes whose owners were notified."""
        return self.path / "notified.state"

    @property
    def format(self) -> Path:
        """Format of the folder."""
        return self.path / "format.json"

    @property
    def directory(self) -> Path:
        """Private directory."""
        return self.path / "directory"

    @property
    def slapd_log(self) -> Path:
        """Last output of the private slapd, written when it stays down."""
        return self.path / "slapd.log"

    def check_new(self) -> None:
        """Check that `make` can make the folder, and change nothing.

        Raises:
            ConfigError: it cannot be made, or holds a server already.
        """
        with convert_folder_errors(f"{self.path} cannot hold a directory server"):
            if self.path.exists():
                self._check_empty()
                place = self.path
            else:
                place = next(parent for parent in self.path.parents if parent.exists())
            if not place.is_dir():
                raise ConfigError(f"{self.path} cannot hold a directory server: {place} is no folder")
            if not os.access(place, os.W_OK | os.X_OK):
                raise ConfigError(f"{self.path} cannot hold a directory server: {place} cannot be written")

    def _check_empty(self) -> None:
        check_own(self.path)
        if any(self.path.iterdir()):
            raise ConfigError(f"{self.path} is not empty: name a new folder for the directory server")

    def make(self) -> None:
        """Make the folder for its owner alone.

        Raises:
            ConfigError: it cannot be made, or holds a server already.
        """
        with convert_folder_errors(f"{self.path} cannot hold a directory server"):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_empty()
            self.path.chmod(0o700)

    def check_private(self) -> None:
        """Check that the folder is this user's, and that others cannot read it.

        Raises:
            ConfigError: it is another user's, others can read it, or there is no such folder.
        """
        with convert_folder_errors(f"the folder {self.path} of the directory server cannot be used"):
            check_own(self.path)
            mode = self.path.stat().st_mode
        if mode & _OTHERS:
            raise ConfigError(f"{self.path} can be read by others: chmod 700 {self.path}")

    def check_format(self) -> int:
        """Check that no newer mqdssm has used the folder with another format.

        Returns:
            The format; 0 if none is recorded yet.

        Raises:
            ConfigError: a newer mqdssm has used it, or the record cannot be read.
        """
        with convert_folder_errors(f"{self.format} cannot be read"):
            text = self.format.read_text() if self.format.exists() else "{}"
        try:
            record: dict[str, Any] = json.loads(text)
            number, writer = int(record.get("format", 0)), str(record.get("mqdssm", "?"))
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"{self.format} is damaged: bring it back from a copy") from error
        check_known_format(f"the folder {self.path}", number, writer)
        return number

    def record_format(self) -> None:
        """Record the format of this mqdssm in a locked folder, before any change.

        An older mqdssm then does not misread what follows.

        Raises:
            ConfigError: a newer mqdssm has used it, or the record cannot be read or written.
        """
        if self.check_format() < FORMAT:
            record = {"format": FORMAT, "mqdssm": mqdssm.__version__}
            write_atomically(self.format, [json.dumps(record), "\n"])

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for this process.

        Raises:
            ConfigError: another process runs this server, the folder cannot be used, or a newer mqdssm has
                used it.
        """
        message = f"the server in {self.path} runs already: stop it first"
        with ExitStack() as holding:
            with convert_folder_errors(f"{self.path} cannot be used"):
                holding.enter_context(lock_file(self.path / "server.lock", wait_s=0, message=message))
            self.check_format()
            yield


def check_known_format(subject: str, number: int, writer: str) -> None:
    """Check that this mqdssm knows the format of a folder or a backup.

    Args:
        subject: the folder or the backup, in words.
        number: its format.
        writer: version of mqdssm that has written it.

    Raises:
        ConfigError: it is newer.
    """
    if number > FORMAT:
        raise ConfigError(
            f"{subject} has format {number} of mqdssm {writer}, and this mqdssm {mqdssm.__version__} knows "
            f"formats up to {FORMAT}: use mqdssm {writer} or a later one"
        )
