"""``mqdssm validate``: rules over an export, as Spark SQL."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.run import Run, add_command

if TYPE_CHECKING:
    from mqdssm.spark.rules import Finding

app = typer.Typer(add_completion=False)

COLUMNS: Final = ("severity", "rule", "type", "object", "attribute", "what is wrong")


def validate(
    run: Run, *, folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an export.")]
) -> int:
    r"""Check an export by rules; exit code 1 if there are findings.

    Needs Spark: pip install 'mqdssm\[spark]' and Java 17.
    """
    from mqdssm.spark.session import check_spark
    from mqdssm.spark.validate import validate as validate_export

    check_spark()
    with run.output.progress(f"validating {folder}", counted=False):
        found = validate_export(folder)
    if run.output.is_json:
        run.output.document(
            {
                "findings": [finding.as_dict() for finding in found.findings],
                "rules": list(found.rules),
                "skipped": list(found.skipped),
            }
        )
        return ExitCode.FINDINGS if found.findings else ExitCode.FINE
    if found.findings:
        run.output.rows(COLUMNS, rows_of(found.findings))
    else:
        run.output.line("no findings")
    skipped = f"; not applied, since their types were not exported: {', '.join(found.skipped)}"
    run.output.note(
        f"{len(found.findings)} findings of {len(found.rules)} rules{skipped if found.skipped else ''}"
    )
    return ExitCode.FINDINGS if found.findings else ExitCode.FINE


def rows_of(findings: "Sequence[Finding]") -> Iterable[tuple[str, ...]]:
    """The findings as rows of a table."""
    return (
        (one.severity, one.rule, one.type, one.dn or one.guid or "", one.attribute, one.message)
        for one in findings
    )


add_command(
    app,
    "validate",
    validate,
    connects=False,
    examples=(
        "mqdssm validate export/2026-01-31",
        "mqdssm validate export/2026-01-31 -o json > findings.json",
    ),
)
