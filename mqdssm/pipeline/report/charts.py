"""Bar charts of numbers, for the templates of pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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


def chart(
    name: str,
    title: str,
    rows: Iterable[tuple[str, str, Mapping[str, int]]],
    kinds: Sequence[tuple[str, str]],
    bars_max: int = BARS_MAX,
) -> Chart | None:
    """Make a chart of numbers.

    Args:
        name: for anchors.
        title: what it shows.
        rows: name of a line, where it leads to (or empty), and its numbers by kind.
        kinds: kinds in their order from left to right, and how people call them; the kind is the colour.
        bars_max: lines that are shown.

    Returns:
        The chart; None if all numbers are 0.
    """
    totals = [(label, href, counts, sum(counts.values())) for label, href, counts in rows]
    wanted = sorted((row for row in totals if row[3]), key=lambda row: (-row[3], row[0]))
    if not wanted:
        return None
    scale = WIDTH / wanted[0][3]
    bars = []
    for label, href, counts, total in wanted[:bars_max]:
        segments, x = [], 0.0
        for kind, _ in kinds:
            if counts.get(kind, 0):
                width = max(SHORTEST, counts[kind] * scale)
                segments.append(Segment(round(x, 1), round(width, 1), kind))
                x += width
        words = ", ".join(f"{counts[kind]:,} {called}" for kind, called in kinds if counts.get(kind, 0))
        bars.append(ChartBar(label, href, tuple(segments), total, words))
    return Chart(name, title, tuple(bars), max(len(wanted) - bars_max, 0))
