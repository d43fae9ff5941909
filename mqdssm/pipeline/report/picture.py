"""Picture of sites and links, as numbers that a template draws."""

import math
from dataclasses import dataclass
from typing import Final

from mqdssm.pipeline.report.drawing import RADIUS_MAX, GraphEdge, GraphNode, Line, Node, draw
from mqdssm.pipeline.report.topology import Counts, LinkEdge, SiteNode, Topology, find_worst
from mqdssm.pipeline.validate.rules.rule import SEVERITIES

SITES_MAX: Final = 500
"""Sites in a picture, whose layout takes 5 s of processor time; the time grows with the third power."""
LINKS_MAX: Final = 2000
RADIUS_MIN: Final = 7.0


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


def picture_of(topology: Topology, sites_max: int = SITES_MAX) -> Picture | None:
    """Draw a topology; None if it has no sites."""
    if not topology.sites:
        return None
    chosen = choose_sites(topology, sites_max)
    index = {number: place for place, number in enumerate(chosen)}
    links = [link for link in topology.links if link.site1 in index and link.site2 in index]
    links.sort(key=lambda link: -_rank_counts(link.own))  # stable; of too many links the worst are drawn
    shown_links = links[:LINKS_MAX]
    drawing = draw(
        [_make_node(topology.sites[number]) for number in chosen],
        [_make_edge(link, (index[link.site1], index[link.site2]), topology) for link in shown_links],
    )
    return Picture(
        nodes=drawing.nodes,
        lines=drawing.lines,
        width=drawing.width,
        height=drawing.height,
        sites=len(topology.sites),
        left_out=len(topology.sites) - len(chosen),
        links_left_out=len(links) - len(shown_links),
        loose=topology.loose,
    )


def choose_sites(topology: Topology, sites_max: int) -> list[int]:
    """Choose the sites to draw.

    All sites are drawn, or if too many, the worst with findings and their neighbours.
    """
    count = len(topology.sites)
    if count <= sites_max:
        return list(range(count))
    ranks = [
        max(_rank_counts(site.own), _rank_counts(links))
        for site, links in zip(topology.sites, topology.count_link_findings(), strict=True)
    ]
    near = topology.find_neighbours()
    chosen: dict[int, None] = {}
    for number in sorted(range(count), key=lambda item: (-ranks[item], item)):
        if not ranks[number] and chosen:
            break
        for site_number in (number, *sorted(near[number])):
            if len(chosen) < sites_max:
                chosen[site_number] = None
    return sorted(chosen)


def _rank_counts(counts: Counts) -> int:
    severity = find_worst(counts)
    return 0 if severity is None else SEVERITIES.index(severity) + 1


def _make_node(site: SiteNode) -> GraphNode:
    return GraphNode(
        name=site.name,
        title=_describe_site(site),
        severity=find_worst(site.own) or "fine",
        radius=_choose_radius(site),
        is_square=site.foreign,
    )


def _make_edge(link: LinkEdge, ends: tuple[int, int], topology: Topology) -> GraphEdge:
    cost = "?" if link.cost is None else str(link.cost)
    between = f"{topology.sites[link.site1].name} to {topology.sites[link.site2].name}"
    return GraphEdge(
        ends=ends,
        label=cost,
        title=f"Link {between}, cost {cost}: {describe_counts(link.own)}",
        severity=find_worst(link.own) or "fine",
    )


def _choose_radius(site: SiteNode) -> float:
    """Return the radius of a site's mark.

    The radius grows with the logarithm of the site's machines.
    """
    return round(min(RADIUS_MAX, RADIUS_MIN + 2 * math.log10(1 + site.machines)), 1)


def _describe_site(site: SiteNode) -> str:
    kind = "Foreign site" if site.foreign else "Site"
    about = f"; its machines: {describe_counts(site.of_machines)}" if sum(site.of_machines.values()) else ""
    return f"{kind} {site.name}: {site.machines} machines; {describe_counts(site.own)}{about}"


def describe_counts(counts: Counts) -> str:
    """Return numbers of findings in words, the worst severity first."""
    names = {"error": ("error", "errors"), "warning": ("warning", "warnings"), "info": ("note", "notes")}
    parts = [
        f"{counts[severity]:,} {names[severity][counts[severity] != 1]}"
        for severity in reversed(SEVERITIES)
        if counts.get(severity, 0)
    ]
    return ", ".join(parts) or "no findings"
