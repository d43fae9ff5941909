"""``mqdssm apply``: apply a plan, and verify the result."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.migrate.plan import tell_left_out, watched
from mqdssm.cli.output import SAMPLE_MAX
from mqdssm.cli.pipeline_options import (
    EngineName,
    EngineOption,
    WorkersOption,
    engine_of,
    engine_words,
    login_of,
)
from mqdssm.cli.run import CommandRun, command_app

if TYPE_CHECKING:
    from mqdssm.pipeline.migrate.report import MigrationReport

COUNTS: Final = ("table", "read", "written", "equal", "skipped", "rejected", "lost")
REFUSED: Final = ("object", "attribute", "reason")
LOST: Final = ("object", "what is wrong")


Plan = Annotated[Path, typer.Argument(metavar="PLAN", help="Folder of a plan ('mqdssm plan').")]
MaxRate = Annotated[
    float | None,
    typer.Option("--max-rate", help="Maximum changes per second. Default: no limit.", metavar="N", min=0.1),
]
MaxErrors = Annotated[
    int | None,
    typer.Option(
        "--max-errors",
        help="Stop when more than N changes have failed. Default: no limit.",
        metavar="N",
        min=0,
    ),
]
Deletes = Annotated[
    int | None,
    typer.Option(
        "--allow-deletes",
        help="Refuse a plan that deletes more than N objects. Default: the number in the plan.",
        metavar="N",
        min=0,
    ),
]
Transactions = Annotated[
    int,
    typer.Option(
        "--transactions",
        help="Add up to N objects in one transaction, if the server supports transactions; 500 is "
        "a good number, 0 means none. Some versions of slapd can crash: see docs/loading.md.",
        metavar="N",
        min=0,
        max=5000,
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify", help="Read all written objects back, and compare them with the plan."
    ),
]


def apply(
    run: CommandRun,
    *,
    plan: Plan,
    max_rate: MaxRate = None,
    max_errors: MaxErrors = None,
    allow_deletes: Deletes = None,
    transactions: Transactions = 0,
    verify: Verify = True,
    engine: EngineOption = EngineName.AUTO,
    workers: WorkersOption = None,
) -> int:
    r"""Apply a plan, read all written objects back, and print a report.

    To continue an interrupted plan, apply it again. PLAN/undo.ldif undoes the changes. Exit code 1 if a row
    was rejected, refused or lost. Install 'mqdssm\[pipeline]', or 'mqdssm\[spark]' and Java 17 for Spark.
    """
    chosen = engine_of(run, engine, workers)
    from mqdssm.pipeline.migrate.applying import ApplyOptions, apply_plan

    options = ApplyOptions(
        max_rate=max_rate,
        max_errors=max_errors,
        allow_deletes=allow_deletes,
        transactions=transactions,
        verify=verify,
    )
    run.connection_options()  # what cannot be is refused before workers start
    where = chosen.arguments()
    with going_on(run, plan), watched(run, "applying the plan") as watch:
        report = apply_plan(plan, run.loaded.settings.url, options, **where, watch=watch, **login_of(run))
    tell_report(run, report, plan)
    return ExitCode.FINE if report.is_fine else ExitCode.FINDINGS


@contextmanager
def going_on(run: CommandRun, folder: Path) -> Iterator[None]:
    """Print how to resume if the user interrupts a migration.

    Args:
        run: of the command.
        folder: of the plan.
    """
    from mqdssm.pipeline.migrate.plan_file import PLAN_NAME

    try:
        yield
    except KeyboardInterrupt:
        if (folder / PLAN_NAME).is_file():
            run.output.note(f"what was done is written down: 'mqdssm apply {folder}' goes on")
        raise


def tell_report(run: CommandRun, report: "MigrationReport", folder: Path) -> None:
    """Print the result of a migration: counts, and the first failures.

    Args:
        run: of the command.
        report: of the migration.
        folder: of the plan.
    """
    output = run.output
    if output.is_json:
        output.document(report.model_dump(mode="json"))
        return
    output.rows(COUNTS, count_rows(report))
    not_carried = ((name, *item) for name, some in report.not_carried.items() for item in some.items())
    tell_left_out(run, not_carried, folder)
    for columns, rows, count, where in (
        (REFUSED, _refused(report), report.refused_count, folder / "rejects" / "applied.jsonl"),
        (LOST, _lost(report), report.lost_count, folder / "report.json"),
    ):
        if output.sample(columns, rows) or count > SAMPLE_MAX:
            output.note(f"{count} in all: see {where}")
    if report.resumed:
        output.note(f"it was broken off {report.resumed} times, and went on")
    if report.guid_map:
        output.note(f"{report.guid_map} objects have other GUIDs now: {folder / 'guid-map.csv'} lists them")
    output.note(f"{folder / 'undo.ldif'} undoes {report.undo_records} changes: ldapmodify -c -f undo.ldif")
    if report.stopped is not None:
        output.note(f"it stopped: {report.stopped}; apply it again to go on")
    elif not report.verified:
        output.note("nothing was read back (--no-verify)")
    output.note(f"applied to {report.server}, {engine_words(report.engine)}")
    output.line("")
    output.line(report.last_line)


def count_rows(report: "MigrationReport") -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table `COUNTS`."""
    for name, table in report.tables.items():
        numbers = (table.read, table.written, table.equal, table.skipped, table.rejected, table.lost)
        yield (name, *map(str, numbers))


def _refused(report: "MigrationReport") -> Iterator[tuple[str, ...]]:
    for refusal in report.refused:
        yield (refusal.dn, ", ".join(refusal.attributes), refusal.reason)


def _lost(report: "MigrationReport") -> Iterator[tuple[str, ...]]:
    for lost_object in report.lost:
        yield (lost_object.dn, lost_object.reason)


app = command_app(
    apply,
    spark=True,
    examples=(
        "mqdssm apply plan --connection lab",
        "mqdssm apply plan --connection lab --max-rate 200 --max-errors 10",
    ),
)
