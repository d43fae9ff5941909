"""Run the long tests, or one part of them: SHARD=k/n of `make soak`; each run adds a line to the ledger.

Files are dealt to n parts so that all take about as long: the longest first, each to the part that has least.
`.ci/soak_minutes.csv` has the minutes of each file's last run, which every run here brings up to date.
Only the committed minutes divide: the n parts of a commit are all files, each once, in any order.
"""

import argparse
import csv
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import ledger

ROOT: Final = ledger.ROOT
MINUTES: Final = ROOT / ".ci" / "soak_minutes.csv"
SIMULATION: Final = "make simulate"
"""What stands for the simulated enterprises, which are no test, among the files."""
SIMULATE: Final = ("make", "--no-print-directory", "simulate", "SEEDS=400", "FIRST=400000", "COVERAGE=92")
UNKNOWN_MINUTES: Final = 1.0
"""Minutes that a file counts which never ran."""
TEST_SECONDS_MAX: Final = 1800
PYTEST: Final = (sys.executable, "-m", "pytest", "-m", "soak", "--timeout", str(TEST_SECONDS_MAX))
SHARD: Final = re.compile(r"([1-9]\d?)/([1-9]\d?)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of the tests of some files.

    Attributes:
        passed: number of tests.
        failed: number of tests, errors included.
        minutes: of each file.
    """

    passed: int
    failed: int
    minutes: Mapping[str, float]


def shard(text: str) -> tuple[int, int]:
    """Read ``k/n``, k from 1 to n.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    found = SHARD.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: write 2/5 for the second of five")
    return int(found[1]), int(found[2])


def parse_minutes(text: str) -> dict[str, float]:
    """Read how long each file took when it last ran."""
    return {row["file"]: float(row["minutes"]) for row in csv.DictReader(io.StringIO(text))}


def read_minutes() -> dict[str, float]:
    """Read the minutes of the work tree, which the last run brought up to date."""
    return parse_minutes(MINUTES.read_text(encoding="utf-8")) if MINUTES.exists() else {}


def committed_minutes() -> dict[str, float]:
    """Read the minutes of the commit that is checked out; a run between two parts does not change them."""
    name = MINUTES.relative_to(ROOT).as_posix()
    return parse_minutes(ledger.git("show", f"HEAD:{name}")) if ledger.git("ls-tree", "HEAD", name) else {}


def write_minutes(minutes: Mapping[str, float]) -> None:
    """Write how long each file took, in the order of their names."""
    with MINUTES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("file", "minutes"))
        writer.writerows((name, f"{minutes[name]:.1f}") for name in sorted(minutes))


def divide(files: Iterable[str], number: int, minutes: Mapping[str, float]) -> list[list[str]]:
    """Deal files to so many parts; the same files and minutes give the same parts."""
    parts: list[list[str]] = [[] for _ in range(number)]
    sums = [0.0] * number
    known = {name: minutes.get(name, UNKNOWN_MINUTES) for name in files}
    for name in sorted(known, key=lambda name: (-known[name], name)):
        least = sums.index(min(sums))
        parts[least].append(name)
        sums[least] += known[name]
    return [sorted(part) for part in parts]


def collect() -> list[str]:
    """Find the files that have long tests.

    Raises:
        SystemExit: pytest cannot collect them.
    """
    command = (*PYTEST, "--collect-only", "-q", "--no-header")
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-2000:]}\n.ci/soak.py: pytest cannot collect the long tests")
    return sorted({line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line})


def outcome(report: Path) -> Outcome:
    """Read pytest's JUnit report."""
    passed = failed = 0
    minutes: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        failed += bad
        passed += not bad and case.find("skipped") is None
        name = _file_of(case.get("classname", ""))
        minutes[name] = minutes.get(name, 0.0) + float(case.get("time", "0")) / 60
    return Outcome(passed, failed, minutes)


def _file_of(classname: str) -> str:
    """Find the file of a case: its name is the file's with dots, and maybe a class behind it."""
    parts = classname.split(".")
    while parts and not (ROOT / Path(*parts)).with_suffix(".py").is_file():
        parts.pop()
    return Path(*parts).with_suffix(".py").as_posix() if parts else classname


def run_tests(files: Sequence[str], more: Sequence[str]) -> Outcome:
    """Run the long tests of these files."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        environment = {**os.environ, "MQDSSM_TEST_PROFILE": "soak"}
        command = (*PYTEST, f"--junit-xml={report}", *more, *files)
        code = subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode
        if not report.exists():
            return Outcome(0, 1, {})
        found = outcome(report)
        return found if found.failed or not code else Outcome(found.passed, 1, found.minutes)


def simulate() -> Outcome:
    """Run simulated enterprises, with the branches that they reach counted."""
    began = time.monotonic()
    code = subprocess.run(SIMULATE, check=False, cwd=ROOT).returncode
    return Outcome(int(code == 0), int(code != 0), {SIMULATION: (time.monotonic() - began) / 60})


def main(arguments: Sequence[str]) -> int:
    """Run one part, and write down what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="k/n")
    parser.add_argument("--list", action="store_true", help="print the parts and their minutes alone")
    given, more = parser.parse_known_args(arguments)
    part, number = given.shard
    committed, minutes = committed_minutes(), read_minutes()
    parts = divide([*collect(), SIMULATION], number, committed)
    if given.list:
        for index, names in enumerate(parts, 1):
            expected = sum(committed.get(name, UNKNOWN_MINUTES) for name in names)
            print(f"{index}/{number}: {len(names)} files, {expected:.0f} minutes", *names, sep="\n  ")
        return 0
    began, began_on = time.monotonic(), ledger.commit()
    files = [name for name in parts[part - 1] if name != SIMULATION]
    found = [run_tests(files, more)] if files else []
    if SIMULATION in parts[part - 1]:
        found.append(simulate())
    passed, failed = sum(one.passed for one in found), sum(one.failed for one in found)
    for one in found:
        minutes.update(one.minutes)
    write_minutes(minutes)
    seconds = time.monotonic() - began
    ledger.record(began_on, "soak", f"{part}/{number}", passed=passed, failed=failed, seconds=seconds)
    print(f"soak {part}/{number}: {passed} passed, {failed} failed; commit .ci/ledger.csv")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
