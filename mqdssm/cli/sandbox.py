"""``mqdssm sandbox``: run a persistent private directory in the background."""

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.run import CommandRun, declare_command
from mqdssm.errors import ConfigError

if TYPE_CHECKING:
    from mqdssm.testing.sandbox import SandboxState

app = typer.Typer(
    add_completion=False,
    help="Run a private OpenLDAP with the MSMQ schema in the background.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the sandbox.")]
BaseDn = Annotated[
    str | None,
    typer.Option(
        "--base-dn", metavar="DN", help="Root of a new directory.", show_default="dc=example,dc=com"
    ),
]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port for ldap://. 0 chooses a free port.")
]
Computers = Annotated[
    list[str] | None,
    typer.Option(
        "--computer", metavar="NAME", help="Add a computer object, as a domain join does. Repeatable."
    ),
]


def start(
    run: CommandRun, *, folder: Folder, base_dn: BaseDn = None, port: Port = 0, computer: Computers = None
) -> None:
    """Start the sandbox in a folder, and print how to connect.

    A new folder gets a new directory.
    """
    from mqdssm.errors import ObjectAlreadyExists

    sandboxes = import_testing_module("sandbox")
    options = None
    if base_dn is not None or port:
        from mqdssm.testing.openldap_config import DEFAULT_BASE_DN, OpenLdapOptions

        options = OpenLdapOptions(base_dn=base_dn or DEFAULT_BASE_DN, port=port)
    state: SandboxState = sandboxes.start_sandbox(folder, options)
    accounts = state.accounts()
    for name in computer or ():
        try:
            accounts.add_computer(name)
        except ObjectAlreadyExists:
            run.output.note(f"computer {name} is there already")
    _show(run, state)
    if not run.output.is_json:
        run.output.line("")
        run.output.line("To use it from here:")
        run.output.line(f"  export MQDSSM_URL={state.url} MQDSSM_USER={state.user}")
        run.output.line(f"  export MQDSSM_PASSWORD_FILE={state.password_file} MQDSSM_CA_FILE={state.ca_file}")
        run.output.line(f"  mqdssm doctor; mqdssm sandbox stop {folder}")


def stop(run: CommandRun, *, folder: Folder) -> None:
    """Stop the sandbox. Its folder stays, so it can be started again."""
    was_running = import_testing_module("sandbox").stop_sandbox(folder)
    run.output.answer(
        {"folder": str(folder), "was_running": was_running},
        f"{folder}: {'stopped' if was_running else 'was not running'}",
    )


def status(run: CommandRun, *, folder: Folder) -> int:
    """Show if the sandbox runs, and how to connect.

    Exit code 3 if it does not answer.
    """
    state: SandboxState = import_testing_module("sandbox").sandbox_status(folder)
    _show(run, state)
    return ExitCode.FINE if state.answers else ExitCode.NOT_CONNECTED


def _show(run: CommandRun, state: "SandboxState") -> None:
    if run.output.is_json:
        run.output.document(asdict(state))
        return
    running = f"yes, process {state.pid}" if state.running else "no"
    run.output.pairs(
        (
            (
                "running",
                running if state.answers or not state.running else f"{running}, but it does not answer",
            ),
            ("URL", state.url),
            ("LDAPS", state.ldaps_url),
            ("local", f"{state.ldapi_url} (its owner needs no password)"),
            ("user", state.user),
            ("password", f"in {state.password_file}"),
            ("CA file", state.ca_file),
            ("root", state.base_dn),
            ("folder", state.folder),
        )
    )


def import_testing_module(name: str) -> ModuleType:
    """Import a module of ``mqdssm.testing`` that runs private servers.

    Raises:
        ConfigError: this system cannot run one.
    """
    try:
        return import_module(f"mqdssm.testing.{name}")
    except ImportError as error:  # no fcntl on Windows
        raise ConfigError(
            f"private directories need Linux or another Unix ({error}); every other command works here"
        ) from error


declare_command(
    start,
    group=app,
    connects=False,
    examples=("mqdssm sandbox start ~/msmq --computer web01 --computer web02",),
)
declare_command(stop, group=app, connects=False, examples=("mqdssm sandbox stop ~/msmq",))
declare_command(status, group=app, connects=False, examples=("mqdssm sandbox status ~/msmq -o json",))
