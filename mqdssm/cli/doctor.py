"""``mqdssm doctor``: check connection and directory, with advice."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli import checks_connection, checks_directory, checks_server
from mqdssm.cli.checks import OPERATION_LIMIT_S, CheckFinding, CheckState, Patient, limited
from mqdssm.cli.exits import ExitCode
from mqdssm.cli.run import CommandRun, add_command

if TYPE_CHECKING:
    from mqdssm.directory.options import ConnectionOptions, Endpoint
    from mqdssm.directory.session import Session

app = typer.Typer(add_completion=False)

CHECKS: Final[tuple[tuple[str, Callable[[Patient], Iterable[CheckFinding]]], ...]] = (
    ("profile", checks_directory.profile),
    ("schema", checks_directory.schema),
    ("base tree", checks_directory.tree),
    ("rights", checks_directory.rights),
    ("limits", checks_server.limits),
    ("controls", checks_server.controls),
    ("indexes", checks_server.indexes),
    ("clock", checks_server.clock),
    ("servers", checks_server.others),
    ("global catalog", checks_server.catalog),
)
"""Checks after a successful log-in, in this order."""


class Examination:
    """Run of all checks in order.

    Attributes:
        connected: whether a server let us in.
    """

    def __init__(self, run: CommandRun, at: str | None = None) -> None:
        self._run = run
        self._at = at
        self.connected = False

    def findings(self) -> Iterator[CheckFinding]:
        """Run the checks and yield each finding at once."""
        loaded = self._run.loaded
        options = self._run.connection_options(
            connect_timeout_s=OPERATION_LIMIT_S, operation_timeout_s=OPERATION_LIMIT_S
        )
        yield from limited("settings", lambda: checks_connection.settings(loaded))
        reached: list[Endpoint] = []
        for endpoint in options.endpoints:
            found = list(_server(options, endpoint))
            yield from found
            if found[0].state is not CheckState.PROBLEM:
                reached.append(endpoint)
        if not reached:
            yield checks_connection.nobody_home(len(options.endpoints))
            return
        self.connected = True
        yield from self._directory(replace(options, endpoints=tuple(reached)))

    def _directory(self, options: "ConnectionOptions") -> Iterator[CheckFinding]:
        from mqdssm.directory.session import Session

        session = Session(options)
        try:
            # an unknown kind of server is a finding of the first check; without it there are no others
            found = list(limited("profile", lambda: _opened(session)))
            yield from found
            if found:
                return
            patient = Patient(self._run.loaded, options, session, options.endpoints, self._at)
            for name, check in CHECKS:
                yield from limited(name, lambda check=check: check(patient))  # type: ignore[misc]  # bound at once
        finally:
            session.close()


def _opened(session: "Session") -> Iterable[CheckFinding]:
    """Connect; a failure becomes a finding."""
    session.connect()
    return ()


def _server(options: "ConnectionOptions", endpoint: "Endpoint") -> Iterator[CheckFinding]:
    name = f"connection {endpoint.url}"
    found = list(limited(name, lambda: checks_connection.connection(options, endpoint)))
    yield from found
    if found[0].state is not CheckState.PROBLEM:
        name = f"certificate {endpoint.url}"
        yield from limited(name, lambda: checks_connection.certificate(options, endpoint))


def examine(run: CommandRun) -> tuple[list[CheckFinding], bool]:
    """Return all findings, and True if a server accepted the log-in."""
    examination = Examination(run)
    return list(examination.findings()), examination.connected


def doctor(
    run: CommandRun,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="PATHNAME",
            help="Computer, or computer\\queue, that rights are looked up on; else the first of each kind.",
        ),
    ] = None,
) -> int:
    """Examine the connection and the directory: what is wrong, and what to do next.

    Nothing is changed. Each check ends within 5 seconds. Exit code 1 if there is a problem, 3 if no server
    could be reached.
    """
    examination = Examination(run, at)
    found: list[CheckFinding] = []
    with run.output.progress("examining") as done:
        for finding in examination.findings():
            found.append(finding)
            done(1)
    if run.output.is_json:
        findings = [one.as_dict() for one in found]
        run.output.document({"connected": examination.connected, "findings": findings})
    else:
        run.output.rows(("state", "check", "what was found"), _rows(found))
        counts = [(state, sum(one.state is state for one in found)) for state in reversed(CheckState)]
        run.output.note(", ".join(f"{count} {state.value}" for state, count in counts))
    if not examination.connected:
        return ExitCode.NOT_CONNECTED
    return ExitCode.FINDINGS if any(one.state is CheckState.PROBLEM for one in found) else ExitCode.FINE


def _rows(found: Iterable[CheckFinding]) -> Iterator[tuple[str, str, str]]:
    for one in found:
        yield one.state.value, one.name, one.text
        if one.advice:
            yield "", "", f"→ {one.advice}"


add_command(
    app,
    "doctor",
    doctor,
    examples=(
        "mqdssm doctor --url ldap://ldap.example.com --user cn=ann,dc=example,dc=com",
        r"mqdssm doctor --at web01\orders",
        "mqdssm doctor -o json",
    ),
)
