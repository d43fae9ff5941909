"""Folders with the files of private servers.

They are protected from other users.
"""

import os
import shutil
import stat
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from mqdssm.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServerFiles(ABC):
    """Folder with the files of one server.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def ca_file(self) -> Path:
        """Certificate of the authority that signed the server's own."""
        return self.path / "tls" / "ca.pem"

    @property
    @abstractmethod
    def socket(self) -> Path:
        """Path of the ldapi socket."""

    @property
    def ldapi_url(self) -> str:
        """URL of the ldapi socket."""
        return f"ldapi://{quote(str(self.socket), safe='')}"

    @property
    def places(self) -> tuple[Path, ...]:
        """Folders to delete when the server is removed."""
        return (self.path,)

    def remove(self) -> None:
        """Delete all folders of the server."""
        for folder in self.places:
            shutil.rmtree(folder, ignore_errors=True)


def check_own(folder: Path) -> None:
    """Raise ConfigError for a file or folder that another user owns or can write to.

    Raises:
        ConfigError: it, or a link to it, belongs to another user, or others may write to it.
        OSError: it does not exist.
    """
    if {folder.lstat().st_uid, folder.stat().st_uid} != {os.getuid()}:
        raise ConfigError(f"{folder} belongs to another user: name a folder of your own")
    if folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"others may write to {folder}: chmod go-w {folder}, if nobody has done so yet")


def check_private(folder: Path) -> None:
    """Raise ConfigError for a socket folder that another user owns or can enter."""
    status = folder.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    ):
        raise ConfigError(f"{folder} must be a folder of mode 0700 that is yours")
