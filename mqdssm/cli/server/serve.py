"""``mqdssm serve``: run a directory server."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli import logs
from mqdssm.cli.exits import translate_message
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command, redirect_to_null
from mqdssm.cli.watch.termination import end_on_signals

if TYPE_CHECKING:
    from mqdssm.server.own_objects import OwnChange

GRACE_S: Final = 30.0
"""Seconds in which the server has to stop: it finishes its work, and waits for acknowledgements."""

ConfigFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="server.toml of the server, as enterprise init makes it.")
]
Restored = Annotated[
    bool,
    typer.Option("--restored", help="The directory was restored from a backup: ask the others first."),
]


def serve(run: CommandRun, *, config_file: ConfigFile, restored: Restored = False) -> None:
    r"""Run a directory server (\[MC-MQDSRP]) until SIGTERM or Ctrl-C.

    Other servers reach it by the protocol of MSMQ, administrators by the socket control.sock beside the
    file. With -o json each line is a document: the event "ready" says that it works, "note" has a text for
    operators. "queue_created", "queue_changed" and the like tell of changes of the own machine
    (\[notification] receive).
    Warnings go to the standard error output, with -o json as documents, too.
    """
    from mqdssm.model.socket_addresses import SocketAddress
    from mqdssm.server.config import ServerConfig
    from mqdssm.server.folder import DirectoryServerFolder
    from mqdssm.server.process import ServerProcess

    logs.to_stderr(is_json=run.output.is_json)
    _ = run.loaded  # opens the log file of the settings
    with convert_usage_problems():
        config = ServerConfig.read(config_file)

    def note(text: str) -> None:
        if run.output.is_json:
            _print(run, json.dumps({"event": "note", "message": translate_message(text)}))
        else:
            run.output.note(text)

    def tell(address: SocketAddress) -> None:
        server = process.config.server
        if run.output.is_json:
            event = {"event": "ready", "role": server.role.value, "listen": str(address)}
            _print(run, json.dumps(event))
        else:
            _print(
                run, f"{server.machine_name}, {server.role} of {server.site}, works and listens on {address}"
            )

    def tell_change(change: "OwnChange") -> None:
        if run.output.is_json:
            event = {"event": change.event, "identifier": str(change.identifier), "name": change.name}
            _print(run, json.dumps(event))
        else:
            _print(run, f"{change.event.replace('_', ' ')}: {change.name} ({change.identifier})")

    process = ServerProcess(
        DirectoryServerFolder(config_file.absolute().parent),
        config,
        config_file=config_file.absolute(),
        restored=restored,
        on_ready=tell,
        on_report=note,
        on_own_change=tell_change,
    )
    with end_on_signals(GRACE_S) as end:
        end.on_signal(process.stop)
        process.run()


def _print(run: CommandRun, line: str) -> None:
    """Print a line; the server goes on if the reader of its output has gone."""
    try:
        run.output.json_line(line) if run.output.is_json else run.output.line(line)
        sys.stdout.flush()
    except OSError:
        redirect_to_null(sys.stdout)


app = declare_command(
    serve, connects=False, examples=("mqdssm serve pec/server.toml", "mqdssm serve pec/server.toml -o json")
)
