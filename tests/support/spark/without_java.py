"""The command on a machine with neither Java nor pyspark, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from support.programs.starting import start

OF_SPARK: Final = ("pyspark", "py4j", "pandas")
"""Packages that only the extra spark brings."""
NOT_NEEDED: Final = (*OF_SPARK, "sqlglot", "jinja2", "duckdb")
"""Packages that most commands of the local engine do without."""
WAIT_S: Final = 180.0


def blocked_packages(folder: Path, packages: Iterable[str] = NOT_NEEDED) -> Path:
    """Make a folder for PYTHONPATH with which packages look as if they were not installed."""
    blocked = folder / "blocked"
    for name in packages:
        (blocked / name).mkdir(parents=True, exist_ok=True)
        (blocked / name / "__init__.py").write_text(f"raise ModuleNotFoundError({name!r}, name={name!r})\n")
    return blocked


def environment_without_java(
    folder: Path, packages: Iterable[str] = NOT_NEEDED, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Environment variables of a process that finds no Java, and not these packages.

    Args:
        folder: for the packages that hide the real ones.
        packages: names of what is not to be found.
        more: further variables, as those of a log-in.
    """
    paths = (str(blocked_packages(folder, packages)), str(Path(__file__).parents[3]))
    return {
        **os.environ,
        "PATH": "/nowhere",
        "JAVA_HOME": "",
        "PYTHONPATH": os.pathsep.join(paths),
        **(more or {}),
    }


def start_mqdssm(environment: Mapping[str, str], *words: str, before: str = "") -> "subprocess.Popen[str]":
    """Start the command, in a session of its own.

    Args:
        environment: its variables.
        words: of the command line.
        before: Python statements that are run first, as to lower a limit.
    """
    return start(
        [sys.executable, "-c", f"{before}\nfrom mqdssm.cli.main import run\nrun()", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_mqdssm(environment: Mapping[str, str], *words: str, code: int = 0) -> "tuple[str, str]":
    """Run the command, check its exit code, and return its output and errors."""
    with start_mqdssm(environment, *words) as process:
        try:
            out, err = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert process.returncode == code, (process.returncode, out, err)
    assert "Traceback" not in err
    return out, err
