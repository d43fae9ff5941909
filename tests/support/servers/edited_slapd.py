"""The database of a stopped private slapd, served by another slapd whose settings are edited."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from support.replication.queue_managers import wait_until


def _listens(path: Path) -> bool:
    """Tell whether somebody listens on a socket; its file is there before."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


@contextmanager
def edited_slapd(folder: Path, before: str, *, add: str) -> Iterator[str]:
    """Serve the database in a folder; gives the URL.

    Args:
        folder: of the server that is stopped.
        before: line of its slapd.conf.
        add: lines that are put before that line.
    """
    text = (folder / "conf" / "slapd.conf").read_text()
    changed = folder / "edited.conf"
    changed.write_text(text.replace(before, add + before, 1))
    assert add + before in changed.read_text()
    path = folder / "edited"
    path.unlink(missing_ok=True)
    url = f"ldapi://{quote(str(path), safe='')}"
    with subprocess.Popen(["/usr/sbin/slapd", "-f", str(changed), "-h", url, "-d", "none"]) as slapd:
        try:
            wait_until(lambda: _listens(path), 10)
            yield url
        finally:
            slapd.terminate()
