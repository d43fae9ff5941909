"""Drawing of a graph with labels, as numbers for a template."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mqdssm.pipeline.report.layout import HEIGHT, Placement, place_nodes

LABEL_MAX: Final = 22
"""Characters of a name in the picture; the whole name is in the table and in the tooltip."""
CHARACTER: Final = 7.2  # pixels
NOTE_CHARACTER: Final = 6.2  # pixels
BEND: Final = 18.0
"""Pixels between edges of one pair of nodes."""
LABEL_PLACES: Final = (0.62, 0.5, 0.7, 0.4, 0.55, 0.45, 0.76, 0.34, 0.66, 0.58, 0.82, 0.28, 0.87, 0.22)
"""Places on an edge for its label, the best first: 0 is the end at the node with more edges."""
LABEL_CHARACTER: Final = 6.4  # pixels
WIDE_FONT: Final = 1.15
"""Factor for fonts as wide as DejaVu Sans, which labels of edges leave free beside names."""
LABEL_HEIGHT: Final = 11.0
NAME_HEIGHT: Final = 15.0
NOTE_HEIGHT: Final = 13.0
"""Pixels of the line below a name."""
UP: Final = 8.0
"""Pixels from the middle of a node's room up to its mark; the name is below the mark."""
RADIUS_MAX: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """Node of a graph that is to be drawn.

    Attributes:
        name: its name.
        title: its tooltip.
        severity: "fine", or the severity of the worst condition.
        radius: of its mark, pixels; at most `RADIUS_MAX`.
        is_square: True for a square, False for a circle.
        note: a second line below the name.
    """

    name: str
    title: str
    severity: str
    radius: float = 9.0
    is_square: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """Edge of a graph that is to be drawn.

    Attributes:
        ends: numbers of two different nodes.
        label: a short text on the edge.
        title: its tooltip.
        severity: "fine", or the severity of the worst condition.
    """

    ends: tuple[int, int]
    label: str
    title: str
    severity: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node in the drawing."""

    x: float
    y: float
    radius: float
    label: str
    note: str
    title: str
    severity: str
    is_square: bool


@dataclass(frozen=True, slots=True)
class Line:
    """Edge in the drawing: a path, and the place of its label.

    There is no place if there is no room for it.
    """

    path: str
    x: float
    y: float
    label: str
    title: str
    severity: str
    has_room: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Drawing of a graph.

    Attributes:
        nodes: in the order of the graph.
        lines: edges; the last ones are drawn above the others.
        width: pixels.
        height: pixels.
    """

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge."""


class OccupiedArea:
    """Occupied rectangles of a picture, indexed by the cells of a grid."""

    CELL: Final = 64.0

    def __init__(self) -> None:
        self._boxes: dict[tuple[int, int], list[Box]] = {}

    def occupy(self, x: float, y: float, width: float, height: float) -> None:
        """Add the rectangle around a point, even if it is not free."""
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        for cell in self._cells_of(box):
            self._boxes.setdefault(cell, []).append(box)

    def is_free(self, x: float, y: float, width: float, height: float) -> bool:
        """Return True if nothing is in the rectangle around a point."""
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        return not any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
            for cell in self._cells_of(box)
            for other in self._boxes.get(cell, ())
        )

    def _cells_of(self, box: Box) -> Iterator[tuple[int, int]]:
        for column in range(int(box[0] // self.CELL), int(box[2] // self.CELL) + 1):
            for row in range(int(box[1] // self.CELL), int(box[3] // self.CELL) + 1):
                yield column, row


def draw(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]) -> Drawing:
    """Draw a graph.

    Args:
        nodes: its nodes, at least one.
        edges: its edges; the first ones are drawn above the others.
    """
    labels = [_shorten_name(node.name) for node in nodes]
    widths = [
        max(CHARACTER * len(label), NOTE_CHARACTER * len(node.note), 2 * RADIUS_MAX)
        for node, label in zip(nodes, labels, strict=True)
    ]
    where = _place_graph(tuple(widths), tuple(edge.ends for edge in edges))
    stretch = 1 + NOTE_HEIGHT / HEIGHT if any(node.note for node in nodes) else 1.0  # room for a second line
    drawn = tuple(
        Node(x, y * stretch, node.radius, label, node.note, node.title, node.severity, node.is_square)
        for node, label, (x, y) in zip(nodes, labels, where.points, strict=True)
    )
    return Drawing(
        nodes=drawn,
        lines=tuple(reversed(_draw_lines(edges, drawn))),
        width=where.width,
        height=where.height * stretch + HEIGHT / 4,
    )


@lru_cache(maxsize=4)
def _place_graph(widths: tuple[float, ...], edges: tuple[tuple[int, int], ...]) -> Placement:
    """Lay out a graph, once for a page that refreshes itself."""
    return place_nodes(widths, edges)


def _shorten_name(name: str) -> str:
    return name if len(name) <= LABEL_MAX else name[: LABEL_MAX - 1] + "…"


def _draw_lines(edges: Sequence[GraphEdge], nodes: Sequence[Node]) -> list[Line]:
    room = OccupiedArea()
    for node in nodes:
        room.occupy(*_measure_node(node))
        room.occupy(*_measure_name(node))
    pairs = Counter(frozenset(edge.ends) for edge in edges)
    near = Counter(end for edge in edges for end in edge.ends)
    drawn: Counter[frozenset[int]] = Counter()
    lines = []
    for edge in edges:
        pair = frozenset(edge.ends)
        bend = (drawn[pair] - (pairs[pair] - 1) / 2) * BEND * 2
        drawn[pair] += 1
        # from the node with more edges, near which there is no room for labels
        start, end = (nodes[number] for number in sorted(pair, key=lambda number: (-near[number], number)))
        lines.append(_draw_line(edge, ((start.x, start.y - UP), (end.x, end.y - UP)), bend, room))
    return lines


def _draw_line(
    edge: GraphEdge, ends: tuple[tuple[float, float], tuple[float, float]], bend: float, room: OccupiedArea
) -> Line:
    """Draw an edge: a straight line, or a curve if several edges join two nodes."""
    start, end = ends
    x, y = end[0] - start[0], end[1] - start[1]
    length = math.hypot(x, y) or 1.0
    middle_x = (start[0] + end[0]) / 2 - y / length * bend
    middle_y = (start[1] + end[1]) / 2 + x / length * bend
    path = f"M{start[0]:g} {start[1]:g}Q{middle_x:.1f} {middle_y:.1f} {end[0]:g} {end[1]:g}"
    if not bend:
        path = f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}"
    size = (LABEL_CHARACTER * len(edge.label), LABEL_HEIGHT)
    places = [_on_curve(at, start, (middle_x, middle_y), end) for at in LABEL_PLACES]
    free = next((place for place in places if room.is_free(*place, *size)), None)
    if free is not None:
        room.occupy(*free, *size)
    x, y = free or places[0]
    return Line(
        path=path,
        x=round(x, 1),
        y=round(y, 1),
        label=edge.label,
        title=edge.title,
        severity=edge.severity,
        has_room=free is not None,
    )


def _on_curve(
    at: float, start: tuple[float, float], middle: tuple[float, float], end: tuple[float, float]
) -> tuple[float, float]:
    """Return a point of a quadratic curve."""
    parts = ((1 - at) ** 2, 2 * at * (1 - at), at**2)
    points = (start, middle, end)
    return (
        sum(part * point[0] for part, point in zip(parts, points, strict=True)),
        sum(part * point[1] for part, point in zip(parts, points, strict=True)),
    )


def _measure_node(node: Node) -> tuple[float, float, float, float]:
    """Return centre and size of a node's mark."""
    return node.x, node.y - UP, 2 * node.radius, 2 * node.radius


def _measure_name(node: Node) -> tuple[float, float, float, float]:
    """Return centre and size of a node's name and note, which are below its mark."""
    width = WIDE_FONT * max(CHARACTER * len(node.label), NOTE_CHARACTER * len(node.note))
    height = NAME_HEIGHT + (NOTE_HEIGHT if node.note else 0)
    return node.x, node.y - UP + node.radius + 10 + (height - NAME_HEIGHT) / 2, width, height
