"""Bar charts of numbers, for the templates of pages.

Development of a validation over its runs, as numbers that a template draws.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mqdssm.pipeline.validate.nightly.assessment import FindingState
from mqdssm.pipeline.validate.nightly.baseline import KnownFinding
from mqdssm.pipeline.validate.nightly.history import HistoryLine
from mqdssm.pipeline.validate.nightly.run import RunOutcome

BARS_MAX: Final = 25
"""Bars of a chart; the table below it has the rest."""
WIDTH: Final = 1000.0
"""Length of the longest bar, in units of its picture, which is as wide as there is room."""
SHORTEST: Final = 4.0  # a single finding among a hundred thousand stays visible


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar, in one colour."""

    x: float
    width: float
    kind: str


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One line of a chart."""

    name: str
    href: str
    segments: tuple[Segment, ...]
    total: int
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart, the longest bar first.

    Attributes:
        id: for anchors.
        title: what it shows.
        bars: the lines.
        left_out: lines that are not shown.
    """

    id: str
    title: str
    bars: tuple[ChartBar, ...]
    left_out: int


def make_chart(
    name: str,
    title: str,
    rows: Iterable[tuple[str, str, Mapping[str, int]]],
    kinds: Sequence[tuple[str, str]],
) -> Chart | None:
    """Make a chart of numbers.

    Args:
        name: for anchors.
        title: what it shows.
        rows: name of a line, where it leads to (or empty), and its numbers by kind.
        kinds: kinds in their order from left to right, and how people call them; the kind is the colour.

    Returns:
        The chart; None if all numbers are 0.
    """
    totals = [(label, href, counts, sum(counts.values())) for label, href, counts in rows]
    sorted_rows = sorted((row for row in totals if row[3]), key=lambda row: (-row[3], row[0]))
    if not sorted_rows:
        return None
    scale = WIDTH / sorted_rows[0][3]
    bars = []
    for label, href, counts, total in sorted_rows[:BARS_MAX]:
        segments, x = [], 0.0
        for kind, _ in kinds:
            if counts.get(kind, 0):
                width = max(SHORTEST, counts[kind] * scale)
                segments.append(Segment(round(x, 1), round(width, 1), kind))
                x += width
        words = ", ".join(f"{counts[kind]:,} {called}" for kind, called in kinds if counts.get(kind, 0))
        bars.append(ChartBar(label, href, tuple(segments), total, words))
    return Chart(name, title, tuple(bars), max(len(sorted_rows) - BARS_MAX, 0))


RUNS_MAX: Final = 90
"""Runs that are drawn, the last ones."""
LISTED_RUNS_MAX: Final = 14
CHANGES_MAX: Final = 100
"""Findings that are listed, both of those that appeared and of those that were mended."""
TREND_WIDTH: Final = 600.0
TREND_HEIGHT: Final = 120.0

Value = Callable[[HistoryLine], int]


@dataclass(frozen=True, slots=True)
class Curve:
    """Curve of a number over the runs.

    Attributes:
        kind: the colour.
        name: for people.
        points: of an SVG polyline.
        last: the number of the last run.
    """

    kind: str
    name: str
    points: str
    last: int


@dataclass(frozen=True, slots=True)
class Trend:
    """Curves with one scale, from 0.

    Attributes:
        id: for anchors.
        title: what is shown.
        curves: the curves.
        highest: upper end of the scale.
        first: moment of the first run.
        last: moment of the last run.
    """

    id: str
    title: str
    curves: tuple[Curve, ...]
    highest: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class StateLine:
    """Numbers of findings of one rule by state."""

    rule: str
    severity: str
    new: int
    known: int
    suppressed: int


@dataclass(frozen=True, slots=True)
class Development:
    """Comparison of a run with earlier runs, as a report shows it.

    Attributes:
        since: when the previous run began; None: there was none.
        appeared: new findings since the previous run, the first of them.
        appeared_left_out: number of new findings that are not listed.
        mended: findings of the previous run that are gone, the first of them.
        mended_left_out: number of mended findings that are not listed.
        trends: curves over the runs; none for a single run.
        runs: the last runs, the latest first.
        states: numbers by rule; empty without baseline and suppressions.
        exceeded: thresholds that are exceeded.
    """

    since: datetime | None
    appeared: tuple[KnownFinding, ...]
    appeared_left_out: int
    mended: tuple[KnownFinding, ...]
    mended_left_out: int
    trends: tuple[Trend, ...]
    runs: tuple[HistoryLine, ...]
    states: tuple[StateLine, ...]
    exceeded: tuple[str, ...]


def development_of(outcome: RunOutcome) -> Development | None:
    """Compare a run with earlier ones.

    Returns None if it has no history, baseline or suppressions.
    """
    if outcome.judge.is_idle and not outcome.lines:
        return None
    changes, lines = outcome.changes, outcome.lines[-RUNS_MAX:]
    return Development(
        since=changes.since,
        appeared=changes.appeared[:CHANGES_MAX],
        appeared_left_out=max(len(changes.appeared) - CHANGES_MAX, 0),
        mended=changes.mended[:CHANGES_MAX],
        mended_left_out=max(len(changes.mended) - CHANGES_MAX, 0),
        trends=_make_trends(lines) if len(lines) > 1 else (),
        runs=tuple(reversed(lines[-LISTED_RUNS_MAX:])),
        states=() if outcome.judge.is_idle else _count_states(outcome),
        exceeded=outcome.exceeded,
    )


def _make_trends(lines: Sequence[HistoryLine]) -> tuple[Trend, ...]:
    def of_severity(name: str) -> Value:
        return lambda line: line.severities.get(name, 0)

    kinds = (("error", "errors"), ("warning", "warnings"), ("info", "notes"))
    series = [(kind, name, of_severity(kind)) for kind, name in kinds]
    objects: list[tuple[str, str, Value]] = [("plain", "objects", lambda line: sum(line.objects.values()))]
    return (
        _make_trend("findings-over-time", "Findings over time", lines, series),
        _make_trend("objects-over-time", "Objects over time", lines, objects),
    )


def _make_trend(
    name: str, title: str, lines: Sequence[HistoryLine], curves: Sequence[tuple[str, str, Value]]
) -> Trend:
    highest = max(value(line) for line in lines for _, _, value in curves)
    step = TREND_WIDTH / (len(lines) - 1)

    def points(value: Value) -> str:
        heights = (TREND_HEIGHT * (1 - value(line) / (highest or 1)) for line in lines)
        return " ".join(f"{step * number:.1f},{height:.1f}" for number, height in enumerate(heights))

    drawn = tuple(Curve(kind, called, points(value), value(lines[-1])) for kind, called, value in curves)
    return Trend(name, title, drawn, highest, lines[0].started, lines[-1].started)


def _count_states(outcome: RunOutcome) -> tuple[StateLine, ...]:
    rules = sorted({(key.rule, key.severity) for key in outcome.counts.counts})
    return tuple(
        StateLine(
            rule,
            severity,
            *(outcome.counts.count_of(state, severity=severity, rule=rule) for state in FindingState),
        )
        for rule, severity in rules
    )
