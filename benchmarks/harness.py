"""Measuring: interleaved runs, medians, what a row of the results is, and the files they are written to."""

import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

Direction = Literal["at_least", "at_most"]
Work = Callable[[], object]

FOLDER: Final = Path(__file__).parent
RESULTS: Final = FOLDER / "results.json"
DOCUMENT: Final = FOLDER.parent / "docs" / "performance.md"


class Skipped(Exception):  # noqa: N818  it is no error
    """What a row needs is not on this machine; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a row is measured for; the goals stand beside the measurements, in the modules of this folder.

    Attributes:
        name: of the row, as in issues and in `--only`.
        title: what is measured, for people.
        against: what it is compared with.
        goal: the number.
        direction: on which side of it the ratio has to be.
        quantity: what the ratio is of.
    """

    name: str
    title: str
    against: str
    goal: float
    direction: Direction
    quantity: str = "speed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a row.

    Attributes:
        goal: what was measured.
        ratio: ours to theirs.
        runs: how often each side ran.
        ours: absolute number with its unit, for people.
        theirs: the same of the yardstick.
        spread: smallest and largest ratio of a pair of neighbouring runs.
        remark: what the numbers alone would not say.
    """

    goal: Goal
    ratio: float
    runs: int
    ours: str
    theirs: str
    spread: tuple[float, float] | None = None
    remark: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is reached; what is compared is what is written down, not a hidden digit."""
        ratio = rounded(self.ratio)
        return ratio >= self.goal.goal if self.goal.direction == "at_least" else ratio <= self.goal.goal

    def as_json(self) -> dict[str, Any]:
        """The row of results.json."""
        return {
            "name": self.goal.name,
            "ratio": rounded(self.ratio),
            "goal": self.goal.goal,
            "direction": self.goal.direction,
            "against": self.goal.against,
            "runs": self.runs,
        }


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of interleaved runs, one list for each side."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    def speed(self, goal: Goal, items: int, unit: str) -> Outcome:
        """How many times as fast we are, in `items` of `unit` a run."""
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        pairs = [b / a for a, b in zip(self.ours, self.theirs, strict=True)]
        return Outcome(
            goal,
            theirs / ours,
            len(self.ours),
            f"{items / ours:,.0f} {unit}/s",
            f"{items / theirs:,.0f} {unit}/s",
            (rounded(min(pairs)), rounded(max(pairs))),
        )

    def duration(self, goal: Goal, unit: str = "ms") -> Outcome:
        """How many times as long we take."""
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        pairs = [a / b for a, b in zip(self.ours, self.theirs, strict=True)]
        return Outcome(
            goal,
            ours / theirs,
            len(self.ours),
            f"{ours * 1000:,.1f} {unit}",
            f"{theirs * 1000:,.1f} {unit}",
            (rounded(min(pairs)), rounded(max(pairs))),
        )


def rounded(ratio: float) -> float:
    """A ratio as it is written down: three digits that count."""
    return float(f"{ratio:.3g}")


def timed(work: Work) -> float:
    """Seconds that one call takes; garbage of what ran before is not counted."""
    gc.collect()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def interleaved(ours: Work, theirs: Work, runs: int, *, warm: int = 1) -> Timing:
    """Run both in turn, another one first each time, so that a busy moment of the machine hits both.

    Args:
        ours: one run of what is measured.
        theirs: one run of the yardstick.
        runs: how often each is measured.
        warm: runs of each before that, not counted.
    """
    for _ in range(warm):
        theirs()
        ours()
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(runs):
        for side in (0, 1) if number % 2 else (1, 0):
            seconds[side].append(timed((ours, theirs)[side]))
    return Timing(tuple(seconds[0]), tuple(seconds[1]))


def read_results(path: Path = RESULTS) -> list[dict[str, Any]]:
    """The rows of results.json; none when there was no run yet."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def write_results(rows: Sequence[dict[str, Any]], path: Path = RESULTS) -> None:
    """Write results.json, one row a line, so that a difference shows what changed."""
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
