"""``mqdssm doctor``: check connection and directory, with advice."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from mqdssm.cli.exits import ExitCode, translate_message, words_of
from mqdssm.cli.run import CommandRun, declare_command
from mqdssm.diagnostics.findings import OPERATION_LIMIT_S, CheckFinding, CheckState

if TYPE_CHECKING:
    from mqdssm.diagnostics.examination import Examination


def _prepare_examination(run: CommandRun, at: str | None = None) -> "Examination":
    """Prepare the checks of the settings of a run."""
    from mqdssm.diagnostics.examination import Examination

    loaded = run.loaded
    options = run.connection_options(
        connect_timeout_s=OPERATION_LIMIT_S, operation_timeout_s=OPERATION_LIMIT_S
    )
    return Examination(
        options,
        words_of,
        sources=tuple(loaded.sources.values()),
        password_file=loaded.settings.password_file,
        at=at,
    )


def examine(run: CommandRun) -> tuple[list[CheckFinding], bool]:
    """Return all findings, and True if a server accepted the log-in."""
    examination = _prepare_examination(run)
    return list(examination.findings()), examination.connected


def doctor(
    run: CommandRun,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="PATHNAME",
            help="Computer, or computer\\queue, whose rights are checked. Default: the first "
            "object of each class.",
        ),
    ] = None,
) -> int:
    """Check the connection, the schema and your rights, and give advice.

    Nothing is changed. Each check ends within 5 seconds. Exit code 1 if there is a problem, 3 if no server
    could be reached.
    """
    examination = _prepare_examination(run, at)
    check_findings: list[CheckFinding] = []
    with run.output.progress("examining") as advance:
        for finding in examination.findings():
            text, advice = translate_message(finding.text), translate_message(finding.advice)
            check_findings.append(replace(finding, text=text, advice=advice))
            advance(1)
    if run.output.is_json:
        findings = [item.as_dict() for item in check_findings]
        run.output.document({"connected": examination.connected, "findings": findings})
    else:
        run.output.rows(("state", "check", "what was found"), _build_rows(check_findings))
        counts = [
            (state, sum(item.state is state for item in check_findings)) for state in reversed(CheckState)
        ]
        run.output.note(", ".join(f"{count} {state.value}" for state, count in counts))
    if not examination.connected:
        return ExitCode.NOT_CONNECTED
    return (
        ExitCode.FINDINGS
        if any(item.state is CheckState.PROBLEM for item in check_findings)
        else ExitCode.FINE
    )


def _build_rows(check_findings: Iterable[CheckFinding]) -> Iterator[tuple[str, str, str]]:
    for finding in check_findings:
        yield finding.state.value, finding.name, finding.text
        if finding.advice:
            yield "", "", f"→ {finding.advice}"


app = declare_command(
    doctor,
    examples=(
        "mqdssm doctor --url ldap://ldap.example.com --user cn=ann,dc=example,dc=com",
        r"mqdssm doctor --at web01\orders",
        "mqdssm doctor -o json",
    ),
)
