"""Commands that speak to a running directory server, and ``mqdssm status``."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.cli.output import Output
    from mqdssm.server.control_client import ControlClient
    from mqdssm.server.snapshot import ServerSnapshot

WATCH_S: Final = 2.0
"""Seconds between two states of ``--watch``."""

ServerOption = Annotated[
    Path | None,
    typer.Option(
        "--server",
        metavar="SOCKET",
        help="Make the change through a directory server: its control socket.",
    ),
]
_StatusServer = Annotated[
    Path, typer.Option("--server", metavar="SOCKET", help="Control socket of the directory server.")
]
_Watch = Annotated[bool, typer.Option("--watch", help="Show the state every two seconds until Ctrl-C.")]


def open_control_client(path: Path) -> "ControlClient":
    """Connect to a directory server.

    Raises:
        DirectoryNotConnected: no server listens there.
        ConfigError: this user may not use the socket, or the server has another version.
    """
    from mqdssm.server.control_client import ControlClient

    return ControlClient(path.expanduser())


def status(run: CommandRun, *, server: _StatusServer, watch: _Watch = False) -> int:
    """Show the state of a directory server that runs.

    Partitions, neighbours and problems are shown; with -o json, sessions, queues and counts as well.
    Exit code 1 if the server reports a problem that keeps it from its work.
    """
    while True:
        with open_control_client(server) as client:
            snapshot = client.status()
        _show(run.output, snapshot, watch=watch)
        if not watch:
            return ExitCode.FINE if snapshot.is_healthy else ExitCode.FINDINGS
        time.sleep(WATCH_S)


def _show(output: "Output", snapshot: "ServerSnapshot", *, watch: bool) -> None:
    if output.is_json:
        document: Any = snapshot.model_dump(mode="json")
        if watch:
            output.json_line(json.dumps(document, ensure_ascii=False))
        else:
            output.document(document)
        return
    own = snapshot.own_objects
    output.pairs(
        (
            ("server", f"{snapshot.machine_name}, {snapshot.role.value} of {snapshot.site_name or '?'}"),
            ("running since", f"{snapshot.started_at:%Y-%m-%d %H:%M:%S} UTC"),
            ("directory", "reachable" if snapshot.store.is_reachable else snapshot.store.problem),
            *((("own queues", f"{own.queues}{'' if own.is_known else ' so far'}"),) if own else ()),
        )
    )
    output.line("")
    output.rows(
        ("partition", "owner", "last number", "missing", "state"),
        (
            (part.label, part.owner or "?", str(part.last_number), str(part.missing), part.state)
            for part in snapshot.partitions
        ),
    )
    if snapshot.neighbors:
        output.line("")
        output.rows(
            ("neighbour", "site", "waiting", "messages", "unacknowledged", "last heard", "problem"),
            (
                (
                    neighbor.machine_name,
                    neighbor.site_name,
                    str(neighbor.waiting),
                    str(neighbor.queued),
                    str(neighbor.unacknowledged),
                    f"{neighbor.last_heard:%H:%M:%S}" if neighbor.last_heard else "",
                    neighbor.problem,
                )
                for neighbor in snapshot.neighbors
            ),
        )
    for problem in snapshot.problems:
        output.line(f"{problem.severity}: {problem.subject}: {problem.text}")


app = declare_command(
    status,
    connects=False,
    examples=(
        "mqdssm status --server /var/lib/mqdssm/control.sock",
        "mqdssm status --server /var/lib/mqdssm/control.sock --watch",
    ),
)
