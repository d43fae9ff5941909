"""The lock files of the dependencies: `--check` tells, without the network, whether they fit pyproject.toml.

Without an argument they are made anew by `uv pip compile`: for all systems and Python versions at once,
with the hash of every file, and without the address of any package index. `--subset REQUIREMENT…` prints the
entries that these requirements need on Linux, as `mqdssm[pipeline] mqdssm[ad]`: what images install.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import requires
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / ".ci" / "requirements.lock"
KERBEROS_LOCK: Final = ROOT / ".ci" / "kerberos.lock"  # what the extra of that name needs beside LOCK
DIRECT: Final = "mqdssm (pyproject.toml)"  # how uv names us in "# via"
ENTRY: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)")
COMPILE: Final = [
    *("pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-emit-index-url", "--no-header", "pyproject.toml"),
]


def direct_requirements(
    project: dict[str, Any], asked: Sequence[str] = ("mqdssm[dev]",)
) -> list[Requirement]:
    """List what `asked` needs directly: of the project itself its dependencies and extras."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    found: list[Requirement] = []
    pending = [*asked]
    if any(Requirement(text).name == project["name"] for text in asked):
        pending += project["dependencies"]
    while pending:
        requirement = Requirement(pending.pop())
        if requirement.name == project["name"]:
            for extra in requirement.extras:
                pending.extend(extras[extra])
        else:
            found.append(requirement)
    return found


def kerberos_requirements(project: dict[str, Any]) -> list[Requirement]:
    """What the extra `kerberos` brings beside LOCK: the requirements of pyspnego's extra of that name."""
    found: list[Requirement] = []
    for asked in map(Requirement, project["optional-dependencies"]["kerberos"]):
        for text in requires(asked.name) or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker and "extra" in str(marker) and any(marker.evaluate({"extra": e}) for e in asked.extras):
                found.append(requirement)
    return found


def entries(text: str) -> list[tuple[str, Version, str]]:
    """Name, version and whole text of every entry of a lock file."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    found: list[tuple[str, Version, str]] = []
    for block in blocks:
        match = ENTRY.match(block)
        if match is None:
            raise SystemExit(f"not an entry of a lock file: {block.splitlines()[0]!r}")
        found.append((str(canonicalize_name(match["name"])), Version(match["version"]), block))
    return found


def problems_of(text: str, wanted: Sequence[Requirement]) -> list[str]:
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


def subset(text: str, wanted: Sequence[Requirement], python: str) -> str:
    """Choose the entries of a lock file that requirements need, with their hashes, for one Python on Linux.

    Args:
        text: the lock file.
        wanted: the requirements.
        python: version of Python, as 3.11.

    Raises:
        SystemExit: a requirement is not locked.
    """
    system = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    system |= {"platform_system": "Linux", "os_name": "posix"}
    locked = {name: block for name, _, block in entries(text) if _is_for(block, system)}
    missing = [one.name for one in wanted if canonicalize_name(one.name) not in locked]
    if missing:
        raise SystemExit(f"not locked: {', '.join(missing)}")
    chosen: set[str] = {canonicalize_name(one.name) for one in wanted}
    while more := {name for name, block in locked.items() if chosen & _dependents(block)} - chosen:
        chosen |= more
    return "".join(f"{block}\n" for name, block in locked.items() if name in chosen)


def _is_for(block: str, system: dict[str, str]) -> bool:
    """Return True if the marker of an entry, where it has one, holds on a system."""
    first = block.splitlines()[0].removesuffix("\\")
    _, _, marker = first.partition(";")
    return not marker.strip() or Marker(marker.strip()).evaluate(system)


def _dependents(block: str) -> set[str]:
    """Names of the packages that need an entry, as its comment `# via` lists them."""
    _, _, comment = block.partition("# via")
    names = (line.strip(" #") for line in comment.splitlines())
    return {str(canonicalize_name(name)) for name in names if name and name != DIRECT}


def print_subset(asked: Sequence[str], python: str) -> int:
    """Print the entries that requirements need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print(subset(LOCK.read_text(encoding="utf-8"), direct_requirements(project, asked), python), end="")
    return 0


def check() -> int:
    """Print what does not fit; 1 when something does not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = {path: path.read_text(encoding="utf-8") for path in (LOCK, KERBEROS_LOCK)}
    problems = {
        LOCK: problems_of(texts[LOCK], direct_requirements(project)),
        KERBEROS_LOCK: problems_of(texts[KERBEROS_LOCK], kerberos_requirements(project)),
    }
    twice = {name for name, *_ in entries(texts[LOCK])} & {name for name, *_ in entries(texts[KERBEROS_LOCK])}
    problems[KERBEROS_LOCK] += [f"{name}: {LOCK.name} locks it already" for name in sorted(twice)]
    for path, found in problems.items():
        for problem in found:
            print(f".ci/{path.name}: {problem}", file=sys.stderr)
    if any(problems.values()):
        print("run: make lock", file=sys.stderr)
        return 1
    return 0


def renew() -> int:
    """Write the lock files anew."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        print("uv is needed to renew the lock files: .venv/bin/python -m pip install uv", file=sys.stderr)
        return 1
    compiled = _compile(uv, LOCK, "--extra", "dev")
    if compiled:
        return compiled
    known = [name for name, *_ in entries(LOCK.read_text(encoding="utf-8"))]
    without = [argument for name in known for argument in ("--no-emit-package", name)]
    return _compile(uv, KERBEROS_LOCK, "--extra", "kerberos", "--constraints", _inside(LOCK), *without)


def _compile(uv: str, lock: Path, *options: str) -> int:
    return subprocess.run([uv, *COMPILE, *options, "-o", _inside(lock)], cwd=ROOT, check=False).returncode


def _inside(path: Path) -> str:
    """The path as uv writes it into its comments."""
    return path.relative_to(ROOT).as_posix()


def main() -> int:
    """Check, renew or choose."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only tell whether they are current")
    parser.add_argument("--subset", nargs="+", metavar="REQUIREMENT", help="print what these need")
    parser.add_argument("--python", default="3.11", metavar="VERSION", help="of --subset; 3.11")
    given = parser.parse_args()
    if given.subset:
        return print_subset(given.subset, given.python)
    return check() if given.check else renew()


if __name__ == "__main__":
    sys.exit(main())
