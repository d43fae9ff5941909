"""Fast bulk load of a stopped slapd, with ``slapadd``."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.testing.openldap_config import PLACES_OF_PROGRAMS, ServerFolder

SHOWN_CHARS_MAX: Final = 500


def load_files(folder: ServerFolder, base_dn: str, files: Iterable[str | Path]) -> None:
    """Replace all entries of a stopped server by the entries of LDIF files, with ``slapadd``.

    Args:
        folder: the server's.
        base_dn: the root of its directory.
        files: parents first, from the root on.

    Raises:
        ConfigError: slapadd refuses an entry; the old entries are deleted already.
    """
    database = folder.path / "db"
    for old in database.iterdir():
        old.unlink()
    search = os.pathsep.join((os.environ.get("PATH", os.defpath), *PLACES_OF_PROGRAMS))
    program = shutil.which("slapadd", path=search) or "slapadd"
    configuration = str(folder.path / "conf" / "slapd.conf")
    for file in files:
        command = [program, "-q", "-f", configuration, "-b", base_dn, "-l", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            words = " ".join(line for line in done.stderr.splitlines() if "#####" not in line)
            raise ConfigError(f"slapadd does not take {file}: {words.strip()[:SHOWN_CHARS_MAX]}")
