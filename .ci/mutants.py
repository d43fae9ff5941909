"""Plant the defects of tests/mutants one at a time: the tests or seeds named for each must catch it.

A list is a TOML file. Each ``[[mutant]]`` has a name, a file, the old text, which must occur there exactly
once, the new text, and ``caught_by``: sections (the tests with that spec mark, without those that need Samba,
Java or an engine for containers), paths of tests, and ``seed N`` or ``sessions N`` of the simulation. Each of
these must catch the defect alone. Defects are planted in copies of the project, never in the project itself.
"""

import argparse
import ast
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

import conformance

T = TypeVar("T")
R = TypeVar("R")

ROOT: Final = Path(__file__).resolve().parent.parent
LISTS: Final = ROOT / "tests" / "mutants"
RUN_SECONDS_MAX: Final = 300.0
"""A run that takes longer has caught the mutant: defects make loops endless."""
STOP_SECONDS_MAX: Final = 20.0
"""Time for a test run to end its servers."""
NOT_COPIED: Final = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".cache",
    "__pycache__",
    "*_cache",
    "*.egg-info",
    "_build",
    "build",
    "dist",
    "spark-warehouse",
)
DESELECTED: Final = "not (samba or spark or container or soak)"
"""Marks of tests that do not count as proof of a section here: they need too much, or take too long."""
PYTEST: Final = ("-m", "pytest", "-q", "--no-header", "--tb=line")
FAST: Final = "tests/unit/"
SLOW: Final = "tests/property/"
SEED: Final = "seed "
SESSIONS: Final = "sessions "
NOT_INHERITED: Final = ("PYTEST_", "PYTHONDONTWRITEBYTECODE")
"""Variables that runs do not see: those of a pytest around this, and one that makes them slow."""


class Verdict(StrEnum):
    """Result of one run with a planted defect."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect.

    Attributes:
        name: what is wrong.
        file: path of the file to change, from the project's folder.
        old: text that occurs there exactly once.
        new: text that takes its place.
        caught_by: sections, test paths and seeds that must each catch it.
        source: name of the list.
    """

    name: str
    file: str
    old: str
    new: str
    caught_by: tuple[str, ...]
    source: str

    def applied_to(self, text: str) -> str:
        """Return the text of the file with the defect.

        Raises:
            ValueError: the old text does not occur exactly once, or the new one is no Python.
        """
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.label}: the old text occurs {found} times in {self.file}, not once")
        changed = text.replace(self.old, self.new)
        if changed == text:
            raise ValueError(f"{self.label}: old and new text are equal")
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise ValueError(f"{self.label}: {self.file} is no Python then: {error}") from None
        return changed

    @property
    def label(self) -> str:
        """List and name, for messages."""
        return f"{self.source}: {self.name!r}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one mutant against one item of its `caught_by`."""

    mutant: Mutant
    catcher: str
    verdict: Verdict
    seconds: float
    output: str

    def __str__(self) -> str:
        return f"{self.verdict:9}{self.catcher:24} {self.mutant.name}  [{self.seconds:.0f} s]"


def read_list(path: Path) -> list[Mutant]:
    """Read the mutants of one list.

    Raises:
        ValueError: a mutant with unknown or missing keys, or nothing that must catch it.
    """
    keys = {field.name for field in fields(Mutant)} - {"source"}
    mutants = []
    for item in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
        if item.keys() != keys or not item["caught_by"]:
            raise ValueError(f"{path.name}: {item.get('name')!r} needs exactly {', '.join(sorted(keys))}")
        mutants.append(Mutant(**item | {"caught_by": tuple(item["caught_by"])}, source=path.name))
    return mutants


def read_lists(paths: Iterable[Path] = ()) -> list[Mutant]:
    """Read the mutants of some lists, of all without any."""
    return [mutant for path in paths or sorted(LISTS.glob("*.toml")) for mutant in read_list(path)]


def find_problems(
    mutants: Sequence[Mutant], proofs: Mapping[str, Sequence[str]], root: Path = ROOT
) -> list[str]:
    """Check that every mutant can be planted, and that tests or a seed are there to catch it.

    Args:
        mutants: of all lists.
        proofs: section -> its tests, as `conformance.check` returns them.
        root: the project.
    """
    problems = []
    names = set()
    for mutant in mutants:
        if mutant.label in names:
            problems.append(f"{mutant.label}: there are two of this name")
        names.add(mutant.label)
        try:
            mutant.applied_to((root / mutant.file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problems.append(str(error))
        problems.extend(
            f"{mutant.label}: {catcher!r} is no section with a test, test path or seed"
            for catcher in mutant.caught_by
            if not _exists(catcher, proofs, root)
        )
    return problems


def _exists(catcher: str, proofs: Mapping[str, Sequence[str]], root: Path) -> bool:
    for kind in (SEED, SESSIONS):
        if catcher.startswith(kind):
            return catcher.removeprefix(kind).isdecimal()
    if catcher.startswith("tests/"):
        return (root / catcher.partition("::")[0]).is_file()
    return bool(proofs.get(catcher))


class Tree:
    """A copy of the project, in which one defect at a time is planted and tests are run.

    Args:
        source: the project.
        copy: an empty folder to be.
    """

    def __init__(self, source: Path, copy: Path) -> None:
        shutil.copytree(source, copy, ignore=NOT_COPIED, symlinks=True)
        self.folder = copy
        self._numbers = count(1)
        outer = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        self._environment = outer | {
            "PYTHONPATH": str(copy),  # before the installed package, which is the project's
            "MQDSSM_TEST_PROFILE": "ci",  # the same examples with and without the defect
        }

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Plant a defect.

        Raises:
            ValueError: its old text does not occur exactly once.
        """
        file = self.folder / mutant.file
        text, written = file.read_text(encoding="utf-8"), file.stat().st_mtime
        self._write(file, mutant.applied_to(text), written + next(self._numbers))
        try:
            yield
        finally:
            self._write(file, text, written)

    @staticmethod
    def _write(file: Path, text: str, seconds: float) -> None:
        """Write a file with a time of its own: Python keeps compiled files by time and size."""
        file.write_text(text, encoding="utf-8")
        os.utime(file, (seconds, seconds))

    def run(self, arguments: Sequence[str], seconds: float | None) -> tuple[int | None, str]:
        """Run Python in the copy.

        Args:
            arguments: for Python.
            seconds: how long at most; None: as long as it takes.

        Returns:
            The exit code, None if it took too long; and the end of what it printed.
        """
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                _stop(process)
                return None, ""
            except BaseException:  # Ctrl-C, too: the run's servers must not outlive this program
                _stop(process)
                raise
            return process.returncode, output[-4_000:]


def _stop(process: subprocess.Popen[str]) -> None:
    """Interrupt a run, so that it ends its servers; kill it if it does not."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=STOP_SECONDS_MAX)
        return
    process.kill()
    process.communicate()


def arguments_for(catcher: str, proofs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return Python's arguments for the run of one item of `caught_by`."""
    if catcher.startswith(SEED):
        return [".ci/simulate.py", "1", catcher.removeprefix(SEED)]
    if catcher.startswith(SESSIONS):
        return [".ci/simulate.py", "1", catcher.removeprefix(SESSIONS), "--sessions"]
    if catcher.startswith("tests/"):
        return [*PYTEST, "-x", catcher]
    # the first failure ends the run: tests without a server come first, properties last
    tests = sorted(proofs[catcher], key=lambda test: (not test.startswith(FAST), test.startswith(SLOW)))
    return [*PYTEST, "-x", "-m", DESELECTED, *tests]


def try_mutant(tree: Tree, mutant: Mutant, catcher: str, proofs: Mapping[str, Sequence[str]]) -> Outcome:
    """Plant one defect and run what must catch it."""
    begun = time.monotonic()
    with tree.planted(mutant):
        code, output = tree.run(arguments_for(catcher, proofs), RUN_SECONDS_MAX)
    # 1: tests failed, or a seed has shown a violation; anything else but 0 says nothing about the defect
    verdict = {0: Verdict.SURVIVED, 1: Verdict.KILLED, None: Verdict.KILLED}.get(code, Verdict.BROKEN)
    return Outcome(mutant, catcher, verdict, time.monotonic() - begun, output)


def baseline(catchers: Sequence[str], proofs: Mapping[str, Sequence[str]], parts: int) -> list[list[str]]:
    """Return Python's arguments for the runs that must succeed without any defect.

    Args:
        catchers: items of `caught_by`.
        proofs: section -> its tests.
        parts: runs among which the tests of the sections are divided, file by file.
    """
    files: dict[str, set[str]] = {}
    for test in (test for catcher in catchers for test in proofs.get(catcher, ())):
        files.setdefault(test.partition("::")[0], set()).add(test)
    groups = [sorted(tests) for _, tests in sorted(files.items())]
    shares = [[test for group in groups[part::parts] for test in group] for part in range(parts)]
    runs = [[*PYTEST, "-m", DESELECTED, *share] for share in shares if share]
    return runs + [arguments_for(catcher, proofs) for catcher in catchers if catcher not in proofs]


class Trees(ExitStack):
    """Copies of the project, and as many threads that work in them.

    Args:
        root: the project.
        jobs: number of copies.
    """

    def __init__(self, root: Path, jobs: int) -> None:
        super().__init__()
        folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
        self._free: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for number in range(jobs):
            self._free.put(Tree(root, folder / f"tree{number}"))
        self._pool = ThreadPoolExecutor(jobs)
        self.callback(self._pool.shutdown, cancel_futures=True)

    def map(self, work: Callable[[Tree, T], R], items: Iterable[T]) -> list[R]:
        """Call `work` with a copy and each item; results are in the order of the items."""

        def call(item: T) -> R:
            tree = self._free.get()
            try:
                return work(tree, item)
            finally:
                self._free.put(tree)

        return list(self._pool.map(call, list(items)))


def try_all(
    mutants: Sequence[Mutant],
    proofs: Mapping[str, Sequence[str]],
    *,
    root: Path = ROOT,
    jobs: int = 1,
    tell: Callable[[str], None] = print,
) -> list[Outcome]:
    """Try every mutant against each item of its `caught_by`.

    Args:
        mutants: the defects.
        proofs: section -> its tests.
        root: the project; it is copied, not changed.
        jobs: runs at a time.
        tell: takes a line for each run as it ends.

    Raises:
        ValueError: a mutant cannot be planted, or what must catch it fails without it.
    """
    if problems := find_problems(mutants, proofs, root):
        raise ValueError("\n".join(problems))

    def attempt(tree: Tree, case: tuple[Mutant, str]) -> Outcome:
        outcome = try_mutant(tree, *case, proofs)
        tell(f"{outcome}\n{outcome.output}" if outcome.verdict is Verdict.BROKEN else str(outcome))
        return outcome

    cases = [(mutant, catcher) for mutant in mutants for catcher in mutant.caught_by]
    with Trees(root, jobs) as trees:
        runs = baseline(list(dict.fromkeys(catcher for _, catcher in cases)), proofs, jobs)
        results = trees.map(lambda tree, arguments: tree.run(arguments, None), runs)
        if red := [output for code, output in results if code]:
            raise ValueError("\n".join(["without any defect there are failures:", *red]))
        return trees.map(attempt, cases)


def _selected(mutants: Iterable[Mutant], text: str, *, sections: Mapping[str, object] | None) -> list[Mutant]:
    chosen = []
    for mutant in mutants:
        items = [
            item
            for item in mutant.caught_by
            if (sections is None or item in sections) and (text in item or text in mutant.name)
        ]
        if items:
            chosen.append(replace(mutant, caught_by=tuple(items)))
    return chosen


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "lists", nargs="*", type=Path, help="lists of mutants; all of tests/mutants by default"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="names, sections, tests or seeds with TEXT"
    )
    parser.add_argument("--sections", action="store_true", help="only what the tests of a section must catch")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    return parser.parse_args()


def main() -> int:
    """Try the mutants; 1 if one survives, 2 if they cannot be tried."""
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the copies are removed, too
    sections = conformance.read_sections()
    proofs, _ = conformance.check(sections, list(conformance.read_marks()))
    try:
        mutants = _selected(
            read_lists(given.lists), given.only, sections=sections if given.sections else None
        )
        outcomes = try_all(mutants, proofs, jobs=given.jobs, tell=lambda line: print(line, flush=True))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    alive = [outcome for outcome in outcomes if outcome.verdict is not Verdict.KILLED]
    print(f"\n{len(outcomes)} runs, {len(outcomes) - len(alive)} killed")
    for outcome in alive:
        print(f"{outcome}  {outcome.mutant.file}")
    return 1 if alive or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
