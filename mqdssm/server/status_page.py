"""Status page of a directory server: one HTML page that refreshes itself.

Names and messages of others are never markup; the policy of the page allows only its own style and script
(`mqdssm.pipeline.report.page`). This module needs the extra `server`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mqdssm.engines.replication.settings import Role
from mqdssm.pipeline.report.drawing import Drawing, GraphEdge, GraphNode, draw
from mqdssm.pipeline.report.page import RenderedPage, format_value, render_page
from mqdssm.server.snapshot import NeighborSnapshot, ServerSnapshot, describe_backlog

ROWS_MAX: Final = 200
"""Rows of a table that are shown."""
SERVERS_MAX: Final = 100
"""Servers in the picture; more are not readable."""
NOTE_MAX: Final = 24
"""Characters of role and site below a name in the picture; the tooltip has the whole text."""
_RADIUS: Final = {Role.PEC: 13.0, Role.PSC: 10.0, Role.BSC: 7.0}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"))


def render_status_page(snapshot: ServerSnapshot) -> RenderedPage:
    """Return the status page of a snapshot.

    Raises:
        MissingPackageError: jinja2 is not installed.
    """
    picture, servers = picture_of_servers(snapshot)
    return render_page(
        "status.html",
        package="mqdssm.server",
        script="status.js",
        more="connect-src 'self'; img-src data:; ",
        title=f"Directory server {format_value(snapshot.machine_name)}",
        server=snapshot,
        worst=_find_worst_severity(snapshot),
        result=_describe_result(snapshot),
        tiles=_list_tiles(snapshot),
        picture=picture,
        servers_left_out=servers - len(picture.nodes),
        rows_max=ROWS_MAX,
        span=span,
        milliseconds=format_milliseconds,
    )


def _find_worst_severity(snapshot: ServerSnapshot) -> str:
    return snapshot.problems[0].severity if snapshot.problems else "fine"


def _describe_result(snapshot: ServerSnapshot) -> str:
    if not snapshot.is_healthy:
        return "The server does not do its work: see the problems."
    number = sum(problem.severity == "warning" for problem in snapshot.problems)
    return f"The server works. Warnings: {number}." if number else "The server works."


def _list_tiles(snapshot: ServerSnapshot) -> Iterator[tuple[str, int]]:
    yield "partitions", len(snapshot.partitions)
    yield "neighbours", len(snapshot.neighbors)
    yield "changes that wait for neighbours", sum(neighbor.waiting for neighbor in snapshot.neighbors)
    yield "changes missing here", sum(partition.missing for partition in snapshot.partitions)
    yield "messages in queues", sum(queue.messages for queue in snapshot.queues)


def span(seconds: float) -> str:
    """Return a duration for people: the largest unit with a whole number."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def format_milliseconds(seconds: float) -> str:
    """Return a duration in milliseconds."""
    return f"{seconds * 1000:,.1f} ms"


# --- picture


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """Server in the picture."""

    name: str
    role: Role
    site: str
    severity: str
    about: str


def picture_of_servers(snapshot: ServerSnapshot) -> tuple[Drawing, int]:
    """Draw this server, its neighbours and all other servers that it knows.

    Returns:
        The drawing, and the number of servers that there are.
    """
    servers = _list_servers(snapshot)
    chosen = dict(list(servers.items())[:SERVERS_MAX])
    places = {key: place for place, key in enumerate(chosen)}
    return draw([_draw_node(server) for server in chosen.values()], list(_draw_edges(snapshot, places))), len(
        servers
    )


def _list_servers(snapshot: ServerSnapshot) -> dict[str, _Drawn]:
    """Return the servers by name: this one, its neighbours, the others.

    Neighbours with problems come before the other neighbours.
    """
    own = _Drawn(
        name=snapshot.machine_name,
        role=snapshot.role,
        site=snapshot.site_name,
        severity="error" if not snapshot.is_healthy else "fine",
        about="this server",
    )
    servers = {snapshot.machine_name.casefold(): own}
    listed = _list_known_servers(snapshot)
    for neighbor in sorted(snapshot.neighbors, key=lambda neighbor: _judge_severity(neighbor) == "fine"):
        key = neighbor.machine_name.casefold()
        role = listed[key].role if key in listed else Role.BSC if neighbor.is_bsc else Role.PSC
        servers[key] = _Drawn(
            name=neighbor.machine_name,
            role=role,
            site=neighbor.site_name,
            severity=_judge_severity(neighbor),
            about=neighbor.problem or neighbor.backlog,
        )
    if snapshot.psc_name:
        key = snapshot.psc_name.casefold()
        role = listed[key].role if key in listed else Role.PSC
        servers.setdefault(
            key,
            _Drawn(
                name=snapshot.psc_name,
                role=role,
                site=snapshot.site_name,
                severity="warning" if snapshot.psc_problem else "fine",
                about=f"our PSC; {snapshot.psc_problem}" if snapshot.psc_problem else "our PSC",
            ),
        )
    for key, server in listed.items():
        servers.setdefault(key, server)
    return servers


def _list_known_servers(snapshot: ServerSnapshot) -> dict[str, _Drawn]:
    return {
        server.machine_name.casefold(): _Drawn(
            name=server.machine_name,
            role=server.role,
            site=site.name,
            severity="fine",
            about="no neighbour of this server",
        )
        for site in snapshot.sites
        for server in site.servers
    }


def _judge_severity(neighbor: NeighborSnapshot) -> str:
    is_alarm = any(ack.is_alarm for ack in neighbor.acknowledgements)
    return "warning" if neighbor.problem or is_alarm else "fine"


def _draw_node(server: _Drawn) -> GraphNode:
    site = f" · {server.site}" if server.site else ""
    note = f"{server.role.value}{site}"
    return GraphNode(
        name=server.name,
        title=f"{server.name}, {note}: {server.about}",
        severity=server.severity,
        radius=_RADIUS[server.role],
        is_square=server.role is Role.BSC,
        note=note if len(note) <= NOTE_MAX else f"{note[: NOTE_MAX - 1]}…",
    )


def _draw_edges(snapshot: ServerSnapshot, places: dict[str, int]) -> Iterable[GraphEdge]:
    own = places[snapshot.machine_name.casefold()]
    for neighbor in snapshot.neighbors:
        place = places.get(neighbor.machine_name.casefold())
        if place is None or place == own:
            continue
        about = neighbor.problem or f"{neighbor.unacknowledged} numbers are not acknowledged"
        yield GraphEdge(
            ends=(own, place),
            label=f"{neighbor.waiting + neighbor.queued:,}",
            title=f"{neighbor.machine_name}: {neighbor.backlog}; {about}",
            severity=_judge_severity(neighbor),
        )
    psc = places.get(snapshot.psc_name.casefold())
    if psc is not None and psc != own:
        missing = sum(partition.missing for partition in snapshot.partitions)
        about = f"{missing:,} of its changes are missing here"
        if snapshot.psc_problem:
            about += f"; {describe_backlog(0, snapshot.psc_queued)}; {snapshot.psc_problem}"
        yield GraphEdge(
            ends=(own, psc),
            label=f"{missing:,}",
            title=f"{snapshot.psc_name}, our PSC: {about}",
            severity="warning" if snapshot.psc_problem else "fine",
        )
