"""Folders with the files of private servers, protected from other users."""

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


def check_private(folder: Path) -> None:
    """Raise ConfigError for a socket folder that another user owns or can enter."""
    status = folder.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    ):
        raise ConfigError(f"{folder} must be a folder of mode 0700 that is yours")
