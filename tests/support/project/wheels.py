"""The wheel of this checkout, and programs that run what it holds instead of the checkout."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.project.source_tree import ROOT

BUILD_S: Final = 110
RUN_S: Final = 110

SIZE: Final = ("--sites", "2", "--machines", "4", "--queues", "20")
_URL: Final = ("--url", "ldaps://127.0.0.1:1")
PIPELINE_CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "export": ("--to", "out", *_URL),
    "validate": ("in",),
    "inventory": ("in",),
    "exposure": ("in",),
    "topology": ("in", "--for", "kafka", "--to", "out"),
    "diff": ("in", "in"),
    "plan": ("in", "--to", "out"),
    "apply": ("in",),
    "migrate": ("in", "--to", "out"),
    "sync": ("in/declared.yaml", "--to", "out", *_URL),
    "orphans": ("--to", "out", *_URL),
    "replace-server": ("web01", "web02", "--to", "out", *_URL),
    "demo": (),
    "generate": ("--format", "mqis", "--to", "out", *SIZE),
}
"""Commands that need the extra pipeline, with arguments."""
FIRST_MISSING: Final[Mapping[str, str]] = {"sync": "yaml"}
"""The package that a command misses first, where that is not pyarrow."""
WITHOUT_PIPELINE: Final = frozenset(
    (
        *("sandbox", "schema", "doctor", "create", "read", "list", "write", "delete", "restore", "resolve"),
        *("rights", "compare-replicas", "watch", "decode", "discover", "discovery-server", "send", "receive"),
        *("enterprise", "serve", "status", "support-bundle"),
    )
)
"""Commands that work without it; only ``restore --from`` reads an export."""

_COMMAND: Final = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # as if it were not installed
sys.path.insert(0, {folder!r})
import mqdssm
assert mqdssm.__file__.startswith({folder!r}), mqdssm.__file__
"""


def build_wheel(folder: Path) -> Path:
    """Build the wheel without the network; gives its file in `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpacked(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel into a folder, which is what an installation without dependencies is."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_unpacked(
    folder: Path, code: str, *args: str, missing: tuple[str, ...] = (), seconds: float = RUN_S
) -> tuple[int, str, str]:
    """Run a program on an unpacked wheel.

    Args:
        folder: where the wheel was unpacked.
        code: the program.
        args: its arguments.
        missing: packages, by their import names, that are to be missing.
        seconds: how long it may take.

    Returns:
        Exit code, standard output, standard error.
    """
    before = _COMMAND.format(missing=missing, folder=str(folder))
    done = subprocess.run(
        [sys.executable, "-c", before + code, *args],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
