"""Picture of sites and links, as numbers that a template draws."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mqdssm.pipeline.report.layout import HEIGHT, placed
from mqdssm.pipeline.report.topology import Counts, LinkEdge, SiteNode, Topology, worst
from mqdssm.pipeline.validate.rules.rule import SEVERITIES

SITES_MAX: Final = 250
"""Sites in a picture; more are not readable."""
LINKS_MAX: Final = 1000
LABEL_MAX: Final = 22
"""Characters of a name in the picture; the whole name is in the table and in the tooltip."""
CHARACTER: Final = 7.2  # pixels
BEND: Final = 18.0
"""Pixels between links of one pair of sites."""
COST_PLACES: Final = (0.62, 0.5, 0.7, 0.4, 0.55, 0.45, 0.76, 0.34, 0.66, 0.58, 0.82, 0.28, 0.87, 0.22)
"""Places on a link for its cost, the best first: 0 is the end at the site with more links."""
COST_CHARACTER: Final = 6.4  # pixels
COST_HEIGHT: Final = 11.0
NAME_HEIGHT: Final = 15.0
UP: Final = 8.0
"""Pixels from the middle of a site's room up to its mark; the name is below the mark."""
RADIUS: Final = (7.0, 15.0)


@dataclass(frozen=True, slots=True)
class Node:
    """A site in the picture."""

    x: float
    y: float
    radius: float
    label: str
    title: str
    severity: str
    foreign: bool


@dataclass(frozen=True, slots=True)
class Line:
    """Link in the picture: a path, and the place of its cost.

    There is no place if there is no room for it.
    """

    path: str
    x: float
    y: float
    cost: str
    title: str
    severity: str
    has_room: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Picture of sites and links.

    Attributes:
        nodes: sites.
        lines: links.
        width: pixels.
        height: pixels.
        sites: number of sites that there are.
        left_out: sites that are not in the picture.
        links_left_out: links between sites of the picture that are not.
        loose: links that have no two ends to draw.
    """

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    width: float
    height: float
    sites: int
    left_out: int
    links_left_out: int
    loose: int


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


def picture_of(topology: Topology, sites_max: int = SITES_MAX) -> Picture | None:
    """Draw a topology; None if it has no sites."""
    if not topology.sites:
        return None
    chosen = chosen_sites(topology, sites_max)
    index = {number: place for place, number in enumerate(chosen)}
    links = [link for link in topology.links if link.site1 in index and link.site2 in index]
    links.sort(key=lambda link: -_rank(link.own))  # stable; of too many links the worst are drawn
    shown_links = links[:LINKS_MAX]
    nodes = [topology.sites[number] for number in chosen]
    labels = [_short(node.name) for node in nodes]
    widths = [max(CHARACTER * len(label), 2 * RADIUS[1]) for label in labels]
    where = placed(widths, [(index[link.site1], index[link.site2]) for link in shown_links])
    drawn = tuple(
        Node(*point, _radius(node), label, _site_title(node), worst(node.own) or "fine", node.foreign)
        for node, label, point in zip(nodes, labels, where.points, strict=True)
    )
    return Picture(
        nodes=drawn,
        # links with findings are drawn last, above the others
        lines=tuple(reversed(_lines(shown_links, index, drawn, topology))),
        width=where.width,
        height=where.height + HEIGHT / 4,
        sites=len(topology.sites),
        left_out=len(topology.sites) - len(chosen),
        links_left_out=len(links) - len(shown_links),
        loose=topology.loose,
    )


def chosen_sites(topology: Topology, sites_max: int) -> list[int]:
    """Choose the sites to draw.

    All sites are drawn, or if too many, the worst with findings and their neighbours.
    """
    count = len(topology.sites)
    if count <= sites_max:
        return list(range(count))
    ranks = [
        max(_rank(site.own), _rank(links))
        for site, links in zip(topology.sites, topology.about_links(), strict=True)
    ]
    near = topology.neighbours()
    chosen: dict[int, None] = {}
    for number in sorted(range(count), key=lambda item: (-ranks[item], item)):
        if not ranks[number] and chosen:
            break
        for site_number in (number, *sorted(near[number])):
            if len(chosen) < sites_max:
                chosen[site_number] = None
    return sorted(chosen)


def _rank(counts: Counts) -> int:
    severity = worst(counts)
    return 0 if severity is None else SEVERITIES.index(severity) + 1


def _short(name: str) -> str:
    return name if len(name) <= LABEL_MAX else name[: LABEL_MAX - 1] + "…"


def _radius(site: SiteNode) -> float:
    """Return the radius of a site's mark.

    The radius grows with the logarithm of the site's machines.
    """
    low, high = RADIUS
    return round(min(high, low + 2 * math.log10(1 + site.machines)), 1)


def _site_title(site: SiteNode) -> str:
    kind = "Foreign site" if site.foreign else "Site"
    about = f"; its machines: {words(site.of_machines)}" if sum(site.of_machines.values()) else ""
    return f"{kind} {site.name}: {site.machines} machines; {words(site.own)}{about}"


def words(counts: Counts) -> str:
    """Return numbers of findings in words, the worst severity first."""
    names = {"error": ("error", "errors"), "warning": ("warning", "warnings"), "info": ("note", "notes")}
    parts = [
        f"{counts[severity]:,} {names[severity][counts[severity] != 1]}"
        for severity in reversed(SEVERITIES)
        if counts.get(severity, 0)
    ]
    return ", ".join(parts) or "no findings"


def _lines(
    links: Sequence[LinkEdge],
    index: dict[int, int],
    nodes: Sequence[Node],
    topology: Topology,
) -> list[Line]:
    room = OccupiedArea()
    for node in nodes:
        room.occupy(*_circle(node))
        room.occupy(*_name(node))
    pairs = Counter(frozenset((link.site1, link.site2)) for link in links)
    near = Counter(end for link in links for end in (link.site1, link.site2))
    drawn: Counter[frozenset[int]] = Counter()
    lines = []
    for link in links:
        pair = frozenset((link.site1, link.site2))
        bend = (drawn[pair] - (pairs[pair] - 1) / 2) * BEND * 2
        drawn[pair] += 1
        # from the site with more links, near which there is no room for costs
        first, other = sorted(pair, key=lambda end: (-near[end], end))
        start, end = (nodes[index[number]] for number in (first, other))
        lines.append(_line(link, ((start.x, start.y - UP), (end.x, end.y - UP)), bend, topology, room))
    return lines


def _line(
    link: LinkEdge,
    ends: tuple[tuple[float, float], tuple[float, float]],
    bend: float,
    topology: Topology,
    room: OccupiedArea,
) -> Line:
    """Draw a link: a straight line, or a curve if several links join two sites."""
    start, end = ends
    x, y = end[0] - start[0], end[1] - start[1]
    length = math.hypot(x, y) or 1.0
    middle_x = (start[0] + end[0]) / 2 - y / length * bend
    middle_y = (start[1] + end[1]) / 2 + x / length * bend
    path = f"M{start[0]:g} {start[1]:g}Q{middle_x:.1f} {middle_y:.1f} {end[0]:g} {end[1]:g}"
    if not bend:
        path = f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}"
    cost = "?" if link.cost is None else str(link.cost)
    size = (COST_CHARACTER * len(cost), COST_HEIGHT)
    places = [_on_curve(at, start, (middle_x, middle_y), end) for at in COST_PLACES]
    free = next((place for place in places if room.is_free(*place, *size)), None)
    if free is not None:
        room.occupy(*free, *size)
    x, y = free or places[0]
    between = f"{topology.sites[link.site1].name} to {topology.sites[link.site2].name}"
    return Line(
        path=path,
        x=round(x, 1),
        y=round(y, 1),
        cost=cost,
        title=f"Link {between}, cost {cost}: {words(link.own)}",
        severity=worst(link.own) or "fine",
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


def _circle(node: Node) -> tuple[float, float, float, float]:
    """Return centre and size of a site's mark."""
    return node.x, node.y - UP, 2 * node.radius, 2 * node.radius


def _name(node: Node) -> tuple[float, float, float, float]:
    """Return centre and size of a site's name, which stands below its mark."""
    return node.x, node.y - UP + node.radius + 10, CHARACTER * len(node.label), NAME_HEIGHT
