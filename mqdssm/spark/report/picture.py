"""The picture of sites and links, as numbers that a template draws."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mqdssm.spark.report.layout import HEIGHT, placed
from mqdssm.spark.report.tally import Counts, worst
from mqdssm.spark.report.topology import LinkEdge, SiteNode, Topology
from mqdssm.spark.rules.rule import SEVERITIES

SITES_MAX: Final = 250
"""Sites in a picture; more are not readable."""
LINKS_MAX: Final = 1000
LABEL_MAX: Final = 22
"""Characters of a name in the picture; the whole name is in the table and in the tooltip."""
CHARACTER: Final = 7.2  # pixels
BEND: Final = 18.0
"""Pixels between links of one pair of sites."""
COST_AT: Final = 0.62
"""Where on a link its cost stands: 0 is the site with more links."""
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
    """A link in the picture: a path, and where its cost stands."""

    path: str
    x: float
    y: float
    cost: str
    title: str
    severity: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn.

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


def picture_of(topology: Topology, sites_max: int = SITES_MAX) -> Picture | None:
    """Draw a topology; None where there is no site."""
    if not topology.sites:
        return None
    chosen = chosen_sites(topology, sites_max)
    index = {number: place for place, number in enumerate(chosen)}
    links = [link for link in topology.links if link.one in index and link.other in index]
    links.sort(key=lambda link: -_rank(link.own))  # stable: the worst are drawn where not all can be
    kept = links[:LINKS_MAX]
    nodes = [topology.sites[number] for number in chosen]
    labels = [_short(node.name) for node in nodes]
    widths = [max(CHARACTER * len(label), 2 * RADIUS[1]) for label in labels]
    where = placed(widths, [(index[link.one], index[link.other]) for link in kept])
    return Picture(
        nodes=tuple(
            Node(*point, _radius(node), label, _site_title(node), worst(node.own) or "fine", node.foreign)
            for node, label, point in zip(nodes, labels, where.points, strict=True)
        ),
        # what is wrong is drawn last, above the others
        lines=tuple(reversed(_lines(kept, index, where.points, topology))),
        width=where.width,
        height=where.height + HEIGHT / 4,
        sites=len(topology.sites),
        left_out=len(topology.sites) - len(chosen),
        links_left_out=len(links) - len(kept),
        loose=topology.loose,
    )


def chosen_sites(topology: Topology, sites_max: int) -> list[int]:
    """All sites; of too many those with findings and their neighbours, the worst first."""
    count = len(topology.sites)
    if count <= sites_max:
        return list(range(count))
    ranks = [
        max(_rank(site.own), _rank(links))
        for site, links in zip(topology.sites, topology.about_links(), strict=True)
    ]
    near = topology.neighbours()
    chosen: dict[int, None] = {}
    for number in sorted(range(count), key=lambda one: (-ranks[one], one)):
        if not ranks[number] and chosen:
            break
        for one in (number, *sorted(near[number])):
            if len(chosen) < sites_max:
                chosen[one] = None
    return sorted(chosen)


def _rank(counts: Counts) -> int:
    severity = worst(counts)
    return 0 if severity is None else SEVERITIES.index(severity) + 1


def _short(name: str) -> str:
    return name if len(name) <= LABEL_MAX else name[: LABEL_MAX - 1] + "…"


def _radius(site: SiteNode) -> float:
    """The more machines, the larger, by powers of ten."""
    low, high = RADIUS
    return round(min(high, low + 2 * math.log10(1 + site.machines)), 1)


def _site_title(site: SiteNode) -> str:
    kind = "Foreign site" if site.foreign else "Site"
    about = f"; its machines: {words(site.of_machines)}" if sum(site.of_machines.values()) else ""
    return f"{kind} {site.name}: {site.machines} machines; {words(site.own)}{about}"


def words(counts: Counts) -> str:
    """Numbers of findings for people, the worst first."""
    names = {"error": ("error", "errors"), "warning": ("warning", "warnings"), "info": ("note", "notes")}
    said = [
        f"{counts[one]:,} {names[one][counts[one] != 1]}"
        for one in reversed(SEVERITIES)
        if counts.get(one, 0)
    ]
    return ", ".join(said) or "no findings"


def _lines(
    links: Sequence[LinkEdge],
    index: dict[int, int],
    points: Sequence[tuple[float, float]],
    topology: Topology,
) -> list[Line]:
    pairs = Counter(frozenset((link.one, link.other)) for link in links)
    near = Counter(end for link in links for end in (link.one, link.other))
    drawn: Counter[frozenset[int]] = Counter()
    made = []
    for link in links:
        pair = frozenset((link.one, link.other))
        bend = (drawn[pair] - (pairs[pair] - 1) / 2) * BEND * 2
        drawn[pair] += 1
        # from the site with more links, where there is no room for numbers
        one, other = sorted(pair, key=lambda end: (-near[end], end))
        made.append(_line(link, points[index[one]], points[index[other]], bend, topology))
    return made


def _line(
    link: LinkEdge, start: tuple[float, float], end: tuple[float, float], bend: float, topology: Topology
) -> Line:
    """A straight line, or a curve where several links join two sites."""
    x, y = end[0] - start[0], end[1] - start[1]
    length = math.hypot(x, y) or 1.0
    middle_x = (start[0] + end[0]) / 2 - y / length * bend
    middle_y = (start[1] + end[1]) / 2 + x / length * bend
    path = f"M{start[0]:g} {start[1]:g}Q{middle_x:.1f} {middle_y:.1f} {end[0]:g} {end[1]:g}"
    if not bend:
        path = f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}"
    parts = ((1 - COST_AT) ** 2, 2 * COST_AT * (1 - COST_AT), COST_AT**2)  # of a quadratic curve
    cost = "?" if link.cost is None else str(link.cost)
    ends = f"{topology.sites[link.one].name} to {topology.sites[link.other].name}"
    return Line(
        path=path,
        x=round(parts[0] * start[0] + parts[1] * middle_x + parts[2] * end[0], 1),
        y=round(parts[0] * start[1] + parts[1] * middle_y + parts[2] * end[1], 1),
        cost=cost,
        title=f"Link {ends}, cost {cost}: {words(link.own)}",
        severity=worst(link.own) or "fine",
    )
