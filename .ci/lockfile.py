"""The lock file of the dependencies: `--check` tells, without the network, whether it fits pyproject.toml.

Without an argument it is made anew by `uv pip compile`: for all systems and Python versions at once,
with the hash of every file, and without the address of any package index.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / ".ci" / "requirements.lock"
DIRECT: Final = "mqdssm (pyproject.toml)"  # how uv names us in "# via"
ENTRY: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)")
COMPILE: Final = [
    *("pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *(
        "--no-emit-index-url",
        "--no-header",
        "--extra",
        "dev",
        "pyproject.toml",
        "-o",
        ".ci/requirements.lock",
    ),
]


def direct_requirements(project: dict[str, Any]) -> list[Requirement]:
    """What pyproject.toml asks for itself: dependencies and, through its own extras, all of `dev`."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    found: list[Requirement] = []
    pending = [*project["dependencies"], *extras["dev"]]
    while pending:
        requirement = Requirement(pending.pop())
        if requirement.name == project["name"]:
            for extra in requirement.extras:
                pending.extend(extras[extra])
        else:
            found.append(requirement)
    return found


def entries(text: str) -> list[tuple[str, Version, str]]:
    """Name, version and whole text of every entry of the lock file."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    found: list[tuple[str, Version, str]] = []
    for block in blocks:
        match = ENTRY.match(block)
        if match is None:
            raise SystemExit(f"{LOCK.name}: not an entry: {block.splitlines()[0]!r}")
        found.append((str(canonicalize_name(match["name"])), Version(match["version"]), block))
    return found


def problems_of(text: str, wanted: list[Requirement]) -> list[str]:
    """Where the lock file does not fit what is asked for, or could install something unlocked."""
    locked = entries(text)
    problems = [f"{name}: no hash" for name, _, block in locked if "--hash=sha256:" not in block]
    if "://" in text or "--index" in text:
        problems.append("names an address: where packages come from is the user's own setting")
    for requirement in wanted:
        versions = [version for name, version, _ in locked if name == canonicalize_name(requirement.name)]
        if not versions:
            problems.append(f"{requirement.name}: asked for, not locked")
        problems.extend(
            f"{requirement.name}: {version} is locked, {requirement.specifier} is asked for"
            for version in versions
            if version not in requirement.specifier
        )
    names = {canonicalize_name(requirement.name) for requirement in wanted}
    problems.extend(
        f"{name}: locked for us, but no longer asked for"
        for name, _, block in locked
        if DIRECT in block and name not in names
    )
    return problems


def check() -> int:
    """Print what does not fit; 1 when something does not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    problems = problems_of(LOCK.read_text(encoding="utf-8"), direct_requirements(project))
    for problem in problems:
        print(f".ci/requirements.lock: {problem}", file=sys.stderr)
    if problems:
        print("run: make lock", file=sys.stderr)
    return 1 if problems else 0


def renew() -> int:
    """Write the lock file anew."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        print("uv is needed to renew the lock file: .venv/bin/python -m pip install uv", file=sys.stderr)
        return 1
    return subprocess.run([uv, *COMPILE], cwd=ROOT, check=False).returncode


def main() -> int:
    """Check or renew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only tell whether it is current")
    return check() if parser.parse_args().check else renew()


if __name__ == "__main__":
    sys.exit(main())
