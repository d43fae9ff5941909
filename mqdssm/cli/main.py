"""Program ``mqdssm``: its commands, each in a module that is imported on use."""

import atexit
import gc
import importlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import mqdssm
from mqdssm.cli import exits
from mqdssm.cli.options import CONNECTION, GENERAL, GivenOptions
from mqdssm.cli.run import redirect_to_null, report, set_parameters
from mqdssm.model.safe_text import make_visible
from mqdssm.pipeline.without_pandas import hide_pandas

NAME: Final = "mqdssm"
MODULES: Final = {
    "demo": "mqdssm.cli.demo.command",
    "sandbox": "mqdssm.cli.sandbox",
    "schema": "mqdssm.cli.schema",
    "doctor": "mqdssm.cli.doctor",
    "create": "mqdssm.cli.objects.changes:create_app",
    "read": "mqdssm.cli.objects.queries:read_app",
    "list": "mqdssm.cli.objects.queries:list_app",
    "write": "mqdssm.cli.objects.changes:write_app",
    "delete": "mqdssm.cli.objects.changes:delete_app",
    "restore": "mqdssm.cli.objects.restore",
    "resolve": "mqdssm.cli.objects.queries:resolve_app",
    "generate": "mqdssm.cli.generate",
    "export": "mqdssm.cli.export",
    "validate": "mqdssm.cli.validate",
    "diff": "mqdssm.cli.diff",
    "inventory": "mqdssm.cli.inventory",
    "exposure": "mqdssm.cli.exposure",
    "rights": "mqdssm.cli.rights",
    "topology": "mqdssm.cli.topology",
    "plan": "mqdssm.cli.migrate:plan_app",
    "apply": "mqdssm.cli.migrate:apply_app",
    "migrate": "mqdssm.cli.migrate:migrate_app",
    "sync": "mqdssm.cli.sync",
    "orphans": "mqdssm.cli.orphans",
    "replace-server": "mqdssm.cli.replace_server",
    "compare-replicas": "mqdssm.cli.compare_replicas",
    "watch": "mqdssm.cli.watch.command",
    "decode": "mqdssm.cli.decode",
    "discover": "mqdssm.cli.discovery:discover_app",
    "discovery-server": "mqdssm.cli.discovery:discovery_server_app",
    "send": "mqdssm.cli.messages.send",
    "receive": "mqdssm.cli.messages.receive",
    "enterprise": "mqdssm.cli.server.enterprise",
    "serve": "mqdssm.cli.server.serve",
    "status": "mqdssm.cli.server.control",
    "support-bundle": "mqdssm.cli.support_bundle",
}
"""Command -> module, in the order of the help text. It defines ``app``, or the name behind the colon."""

COLLECTED_AFTER: Final = 50_000
"""Threshold of the garbage collector instead of 700: imports make many objects, but no garbage."""

EXIT_CODES: Final = (
    "[b]Exit codes[/]: 0 fine, 1 findings, 2 usage, 3 not connected, 4 not found, 5 exists already, "
    "6 any other failure"
)
_START: Final = "[b]Start with[/]: mqdssm demo · mqdssm sandbox start DIR · mqdssm doctor"


@cache
def _command_of(name: str) -> Any:
    """Import a command."""
    module, _, attribute = MODULES[name].partition(":")
    command = typer.main.get_command(getattr(importlib.import_module(module), attribute or "app"))
    command.name = name
    return command


class Root(TyperGroup):
    """Group of all commands, which also reports usage errors.

    Each command is imported on first use.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": dict.fromkeys(MODULES)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name, None if there is none."""
        del ctx
        return _command_of(cmd_name) if cmd_name in MODULES else None

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit.

        Messages and completion use the name ``mqdssm``.
        """
        try:
            code = super().main(*args, **{**extra, "prog_name": NAME, "standalone_mode": False})
            sys.stdout.flush()
        except typer.Abort:
            code = exits.INTERRUPTED
        except Exception as error:  # noqa: BLE001  the last place: nobody above would tell it better
            code = _report_usage(error)
        sys.exit(code if isinstance(code, int) else 0)


def _report_usage(error: Exception) -> int:
    """Print a usage error in one line; return the exit code."""
    words = getattr(error, "format_message", None)
    if words is None:
        return report(error, GivenOptions())
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(words(), file=sys.stderr, end="")  # noqa: T201  nothing was asked for: here is what there is
        return exits.ExitCode.USAGE
    path = context.command_path if context is not None else NAME
    listed = words().replace("\n\t", " ")  # the choices of an option that is missing
    message = make_visible(listed).rstrip(".").replace(": Value error, ", ": ")
    sys.stderr.write(f"error: {message} (see '{path} --help')\n")
    return int(getattr(error, "exit_code", exits.ExitCode.USAGE))


def _print_version(value: bool) -> None:
    if value:
        print(f"mqdssm {mqdssm.__version__}")  # noqa: T201  the whole answer
        raise typer.Exit


def _keep_shared_options(ctx: typer.Context, **values: Any) -> None:
    """Read and change MSMQ objects in a directory.

    The objects are queues, machines, sites and links ([MS-MQDSSM]).
    These options can be given before or after the name of the command.
    """
    values.pop("version")
    ctx.obj = GivenOptions(**values)


_VERSION: Final = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]
set_parameters(_keep_shared_options, (), {**CONNECTION, **GENERAL, "version": _VERSION})
app = typer.Typer(
    cls=Root,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=f"{_START}\n\n{EXIT_CODES}",
)
app.callback()(_keep_shared_options)


def _fill_streams() -> None:
    """Replace closed standard streams by the null device.

    Otherwise writing would fail, or a file or connection opened later would get the number of the stream and
    its output. Commands report a missing standard input themselves.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  until the end
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  as above


def _drop_errors() -> None:
    """Drop what the standard error output did not take, as on a full disk.

    Otherwise Python would try again at exit, and replace the exit code by its own.
    """
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        redirect_to_null(sys.stderr)


def run() -> None:
    """Run the command line; entry point of the program."""
    _fill_streams()
    hide_pandas()
    gc.set_threshold(COLLECTED_AFTER)
    atexit.register(gc.freeze)  # else the interpreter searches all objects for cycles when it ends: 0.1 s
    try:
        app()
    except KeyboardInterrupt as error:
        sys.exit(exits.code_of(error))
    except BrokenPipeError:
        redirect_to_null(sys.stdout)
        sys.exit(exits.PIPE_CLOSED)
    finally:
        _drop_errors()


if __name__ == "__main__":
    run()
