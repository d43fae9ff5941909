"""The ledger of long runs: which one was last run on which commit, and how it ended.

    .ci/ledger.py run JOB -- COMMAND...   run a command and add its line
    .ci/ledger.py status [JOB]            the last line of each part, and how many commits ago that was

A line in `.ci/ledger.csv` has commit, date (UTC), job, part, passed, failed, minutes. A commit that ends with
``+`` had changes that were not committed. Parts are the shards of `make soak`; other jobs have one.
"""

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LEDGER: Final = ROOT / ".ci" / "ledger.csv"
WHOLE: Final = "1/1"
"""The part of a job that is not divided."""
WRITTEN_BY_RUNS: Final = (".ci/ledger.csv", ".ci/soak_minutes.csv")
"""Files that a run itself changes: the next part of the same commit has no other work tree."""
CHANGED: Final = "+"
"""The last character of a commit whose work tree had changes."""


@dataclass(frozen=True, slots=True)
class Line:
    """One run.

    Attributes:
        commit: short hash, with `CHANGED` where the work tree was not clean.
        date: when it ended, UTC, ISO 8601 to the minute.
        job: ``soak``, ``bench``, ``test-fresh``.
        part: ``k/n``.
        passed: tests that passed; of a job without tests 1 for success.
        failed: tests that failed; of a job without tests 1 for failure.
        minutes: from start to end.
    """

    commit: str
    date: str
    job: str
    part: str
    passed: int
    failed: int
    minutes: int


def git(*arguments: str) -> str:
    """Run git in the project; return what it prints.

    Raises:
        subprocess.CalledProcessError: git fails.
    """
    done = subprocess.run(("git", "-C", str(ROOT), *arguments), check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit() -> str:
    """Name the commit that is checked out."""
    changed = git("status", "--porcelain", "--", ".", *(f":(exclude){name}" for name in WRITTEN_BY_RUNS))
    return git("rev-parse", "--short=9", "HEAD") + (CHANGED if changed else "")


def read(ledger: Path = LEDGER) -> list[Line]:
    """Read all lines, the oldest first."""
    if not ledger.exists():
        return []
    with ledger.open(encoding="utf-8", newline="") as file:
        return [
            Line(
                row["commit"],
                row["date"],
                row["job"],
                row["part"],
                int(row["passed"]),
                int(row["failed"]),
                int(row["minutes"]),
            )
            for row in csv.DictReader(file)
        ]


def add(line: Line, ledger: Path = LEDGER) -> None:
    """Append a line; a new ledger begins with the names of the columns."""
    is_new = not ledger.exists()
    with ledger.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow([field.name for field in fields(Line)])
        writer.writerow(astuple(line))


def record(began_on: str, job: str, part: str, *, passed: int, failed: int, seconds: float) -> None:
    """Add the line of a run that ends now.

    Args:
        began_on: what `commit` said when the run began.
        job: name of the make target.
        part: ``k/n``.
        passed: number of tests that passed.
        failed: number of tests that failed.
        seconds: how long the run took.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    add(Line(began_on, date, job, part, passed, failed, max(1, round(seconds / 60))))


def last_lines(lines: Sequence[Line], job: str | None = None) -> list[Line]:
    """Find the last line of each part, for each job in the division that ran last, and of runs of the whole.

    Args:
        lines: all of them, the oldest first.
        job: the only one that counts; None: all.
    """
    division = {line.job: _number(line) for line in lines if line.part != WHOLE}
    found = {
        (line.job, line.part): line
        for line in lines
        if job in {None, line.job} and _number(line) in {"1", division.get(line.job)}
    }
    return sorted(found.values(), key=lambda line: (line.job, line.part))


def _number(line: Line) -> str:
    """How many parts the job was divided into."""
    return line.part.partition("/")[2]


def _commits_since(name: str) -> str:
    """Count the commits between a line's commit and the present one, as text."""
    try:
        return git("rev-list", "--count", f"{name.removesuffix(CHANGED)}..HEAD")
    except subprocess.CalledProcessError:
        return "?"


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Make the rows that `status` prints."""
    row = "{:<12} {:<6} {:<11} {:>8}  {:<18} {:>7} {:>7} {:>8}".format
    yield row("job", "part", "commit", "commits", "date", "passed", "failed", "minutes")
    for line in lines:
        since = _commits_since(line.commit)
        yield row(line.job, line.part, line.commit, since, line.date, line.passed, line.failed, line.minutes)


def run(job: str, command: Sequence[str]) -> int:
    """Run a command as a job of one part; return its exit code."""
    began, began_on = time.monotonic(), commit()
    code = subprocess.run(command, check=False, cwd=ROOT).returncode
    seconds = time.monotonic() - began
    record(began_on, job, WHOLE, passed=int(code == 0), failed=int(code != 0), seconds=seconds)
    return code


def main(arguments: Sequence[str]) -> int:
    """Run a command, or print the status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="action")
    runner = commands.add_parser("run")
    runner.add_argument("job")
    runner.add_argument("command", nargs="+")
    status = commands.add_parser("status")
    status.add_argument("job", nargs="?")
    given = parser.parse_args(arguments)
    if given.action == "run":
        return run(given.job, given.command)
    print("\n".join(table(last_lines(read(), given.job))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
