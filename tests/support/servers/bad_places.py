"""Bad places: a server without our schema, a disk without room."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected

WAIT_S: Final = 120.0


@contextmanager
def bare_slapd(folder: Path) -> Iterator[str]:
    """slapd with core.schema and an empty suffix, on a local socket; yields its URL."""
    (folder / "db").mkdir()
    url = "ldapi://" + str(folder / "s").replace("/", "%2F")
    (folder / "slapd.conf").write_text(
        "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n"
        'access to dn.base="" by * read\naccess to * by * read\n'
        f'database mdb\nsuffix "dc=bare"\ndirectory {folder / "db"}\nmaxsize 10485760\n'
    )
    command = ["/usr/sbin/slapd", "-d", "none", "-f", str(folder / "slapd.conf"), "-h", url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + WAIT_S
            while not _answers(url):
                assert time.monotonic() < deadline, "slapd does not answer"
                time.sleep(0.01)
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        Session.open(ConnectionOptions.of(url)).close()
    except DirectoryNotConnected:
        return False
    return True


@contextmanager
def small_disk(folder: Path, size: str = "1m") -> Iterator[Path]:
    """A disk of little room; skips where we may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk of our own: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
