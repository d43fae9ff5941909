"""``mqdssm plan``, ``mqdssm apply`` and ``mqdssm migrate``.

A plan says what a migration would do, an applied plan is verified, and a migration does both.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.exits import ExitCode, UsageProblem
from mqdssm.cli.output import SAMPLE_MAX
from mqdssm.cli.pipeline_options import describe_engine, engine_of, login_of
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
from mqdssm.cli.table_layout import Row

if TYPE_CHECKING:
    from mqdssm.pipeline.engines import JobEngine
    from mqdssm.pipeline.migrate.plan_file import MigrationPlan
    from mqdssm.pipeline.migrate.planning import PlanRequest
    from mqdssm.pipeline.migrate.progress import Watch
    from mqdssm.pipeline.migrate.report import MigrationReport

AUTO: Final = "auto"
"""Profile setting for detection by the server."""

COUNTS: Final = ("table", "read", "add", "change", "equal", "conflicts", "skipped", "rejected", "not carried")
REJECTS: Final = ("table", "row", "column", "reason")
CONFLICTS: Final = ("object", "attribute", "in the table", "in the directory")
LOST: Final = ("not carried", "column", "rows")
REJECTS_FOLDER: Final = "rejects"
APPLIED: Final = "applied.jsonl"
SHOWN_CHARS_MAX: Final = 60


class OnConflict(StrEnum):
    """Treatment of objects that exist in the target and differ."""

    SKIP = "skip"
    UPDATE = "update"
    FAIL = "fail"


Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Folder of MQIS tables, or a database: jdbc:…")]
To = Annotated[
    Path | None,
    typer.Option(
        "--to",
        help="Folder of the plan: new or empty. Default: a folder named by the time, in the current one.",
        metavar="PLAN",
    ),
]
Conflict = Annotated[
    OnConflict,
    typer.Option("--on-conflict", help="What to do with an object that exists in the directory and differs."),
]
Deletes = Annotated[
    int,
    typer.Option(
        "--allow-deletes",
        help="Delete up to N queues, machines and links that are not in the tables.",
        metavar="N",
        min=0,
    ),
]
Computers = Annotated[
    bool,
    typer.Option(
        "--create-computers", help="Create computer objects for machines without one in the directory."
    ),
]
SidMapFile = Annotated[
    Path | None,
    typer.Option(
        "--sid-map", help="Map of old SIDs to new SIDs or names of accounts, TOML or CSV.", metavar="FILE"
    ),
]
Mapping = Annotated[
    Path | None,
    typer.Option(
        "--mapping",
        help="Names of tables and columns, code pages and database of the MQIS tables, TOML.",
        metavar="FILE",
    ),
]
ToLdif = Annotated[
    Path | None,
    typer.Option(
        "--to-ldif",
        help="Also write the changes as LDIF to this folder. Without a server (--naming-context, "
        "--profile): for an empty directory.",
        metavar="DIR",
    ),
]


def plan(
    run: CommandRun,
    *,
    source: Source,
    to: To = None,
    on_conflict: Conflict = OnConflict.FAIL,
    allow_deletes: Deletes = 0,
    create_computers: Computers = False,
    sid_map: SidMapFile = None,
    mapping: Mapping = None,
    to_ldif: ToLdif = None,
) -> int:
    r"""Compare MQIS tables with a directory, and write a migration plan.

    Nothing is changed.
    Exit code 1 if a row is rejected, or if the plan cannot be applied. Install 'mqdssm\[pipeline]'; for Spark
    and for a database 'mqdssm\[spark]' and Java 17.
    """
    chosen = engine_of(run, source)
    from mqdssm.pipeline.migrate.planning import PlanRequest

    request = PlanRequest(
        source=source,
        on_conflict=on_conflict.value,
        allow_deletes=allow_deletes,
        create_computers=create_computers,
        sid_map=sid_map,
        mapping=mapping,
    )
    return make_plan(run, request, to, to_ldif, chosen)


def make_plan(
    run: CommandRun, request: "PlanRequest", to: Path | None, to_ldif: Path | None, engine: "JobEngine"
) -> int:
    """Make a plan, print it, and write its LDIF if requested; return the exit code."""
    from mqdssm.pipeline.migrate.ldif import WAITING_FILE, write_ldif

    folder = to or name_by_time()
    plan = _make_plan(run, request, folder, engine, without_server=to_ldif is not None)
    print_plan_counts(run, plan, folder)
    if to_ldif is not None and plan.refused is None:
        records = write_ldif(plan, folder, to_ldif)
        waiting = records.pop(WAITING_FILE, 0)
        run.output.note(f"LDIF in {to_ldif}, to be loaded in this order: {', '.join(records) or 'nothing'}")
        if waiting:
            run.output.note(
                f"{waiting} references need GUIDs that the server makes: {to_ldif / WAITING_FILE}"
            )
    return ExitCode.FINDINGS if plan.refused or plan.total["rejected"] else ExitCode.FINE


def _make_plan(
    run: CommandRun, request: "PlanRequest", folder: Path, engine: "JobEngine", *, without_server: bool
) -> "MigrationPlan":
    from mqdssm.pipeline.migrate.planning import plan_for_ldif, plan_migration
    from mqdssm.pipeline.migrate.target import DEFAULT_PROFILE, open_offline_session

    settings = run.loaded.settings
    if settings.url or not without_server:
        run.connection_options()  # what cannot be is refused before Java starts
        with watch_progress(run, "planning") as watch:
            return plan_migration(
                request, settings.url, folder, **engine.arguments(), watch=watch, **login_of(run)
            )
    if settings.naming_context is None:
        raise UsageProblem(
            "no server was named: LDIF needs none, but it needs the root of the names, as "
            "--naming-context DC=example,DC=com, and --profile activedirectory where it is for that"
        )
    profile = DEFAULT_PROFILE if settings.profile == AUTO else settings.profile
    with convert_usage_problems():
        open_offline_session(settings.naming_context, profile)
    run.output.note("no server was named: this is what an empty directory would get")
    with watch_progress(run, "planning") as watch:
        return plan_for_ldif(
            request, settings.naming_context, folder, profile=profile, **engine.arguments(), watch=watch
        )


@contextlib.contextmanager
def watch_progress(run: CommandRun, doing: str) -> "Iterator[Watch | None]":
    """Show the progress of a migration on a terminal."""
    with run.output.bar(doing) as bar:
        yield None if bar is None else lambda now: bar(now.done, now.total, now.activity)


def name_by_time() -> Path:
    """Return the default folder of a plan, named by the current time."""
    return Path(f"migration-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}")


def print_plan_counts(run: CommandRun, plan: "MigrationPlan", folder: Path) -> None:
    """Print a plan: counts, and the first conflicts and rejected rows.

    Args:
        run: of the command.
        plan: the plan.
        folder: of the plan.
    """
    output = run.output
    if output.is_json:
        output.document(plan.model_dump(mode="json"))
        return
    output.rows(COUNTS, _build_count_rows(plan))
    beside = {name: count for name, count in plan.operations.items() if not name.startswith("object ")}
    if beside:
        output.line("")
        output.rows(("beside them", "entries"), ((name, str(count)) for name, count in beside.items()))
    _print_rows(run, CONFLICTS, _read_conflicts(folder), folder / "conflicts.jsonl")
    lost = ((name, *item) for name, counts in plan.tables.items() for item in counts.not_carried.items())
    print_left_out(run, lost, folder)
    for note in plan.notes:
        output.note(note)
    output.line("")
    output.line(format_last_line(plan))
    if plan.refused is not None:
        output.note(f"the plan cannot be applied: {plan.refused}")
    elif plan.target.urls:
        output.note(
            f"the plan is in {folder}, {describe_engine(plan.engine)}; 'mqdssm apply {folder}' does it"
        )
    else:
        output.note(f"the plan is in {folder}, {describe_engine(plan.engine)}; it is for LDIF alone")


def print_left_out(run: CommandRun, not_carried: Iterable[tuple[str, str, int]], folder: Path) -> None:
    """Print the first rejected rows of a plan, and the columns that are not kept.

    Args:
        run: of the command.
        not_carried: table, column, and number of rows.
        folder: of the plan.
    """
    _print_rows(run, REJECTS, _read_rejects(folder), folder / REJECTS_FOLDER)
    lost = [(table, column, str(rows)) for table, column, rows in not_carried]
    if lost:  # all columns: nothing is dropped silently
        run.output.line("")
        run.output.rows(LOST, lost)
        run.output.note(f"what no directory keeps is in {folder / 'not-carried'}")


def _print_rows(run: CommandRun, columns: Row, rows: Iterable[Row], where: Path) -> None:
    if run.output.sample(columns, rows):
        run.output.note(f"more than {SAMPLE_MAX}: all of them are in {where}")


def format_last_line(plan: "MigrationPlan") -> str:
    """Return the summary of a plan in one line."""
    total = plan.total
    parts = [f"{total['read']} read", f"{total['add']} to add", f"{total['modify']} to change"]
    parts += [f"{total['equal']} equal", f"{total['skipped']} skipped", f"{total['rejected']} rejected"]
    if plan.deletes:
        parts.append(f"{sum(plan.deletes.values())} to delete")
    return ", ".join(parts)


def _build_count_rows(plan: "MigrationPlan") -> Iterator[tuple[str, ...]]:
    for name, counts in plan.tables.items():
        numbers = (counts.add, counts.modify, counts.equal, counts.conflicts, counts.skipped, counts.rejected)
        lost = sum(counts.not_carried.values())
        if counts.type is None:
            yield (name, str(counts.read), *[""] * len(numbers), str(lost))
        else:
            yield (name, str(counts.read), *map(str, numbers), str(lost))


def _read_conflicts(folder: Path) -> Iterator[tuple[str, ...]]:
    path = folder / "conflicts.jsonl"
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for conflict in map(json.loads, lines):
            if not conflict["differs"]:
                yield (conflict["dn"], "", conflict["reason"], "")
            for name, sides in conflict["differs"].items():
                yield (conflict["dn"], name, _cut(sides["here"]), _cut(sides["there"]))


def _read_rejects(folder: Path) -> Iterator[tuple[str, ...]]:
    for path in sorted((folder / REJECTS_FOLDER).glob("*.jsonl")):
        if path.name == APPLIED:
            continue  # what the target refused, which the report tells
        with path.open(encoding="utf-8") as lines:
            for reject in map(json.loads, lines):
                yield (reject["table"], str(reject["row"]), reject["attribute"], reject["reason"])


def _cut(values: list[str]) -> str:
    text = ", ".join(values) or "nothing"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…"


plan_app = declare_command(
    plan,
    spark=True,
    examples=(
        "mqdssm plan mqis/ --to plan --connection lab --create-computers",
        "mqdssm plan mqis/ --to plan --connection lab --sid-map sids.csv --on-conflict update",
        "mqdssm plan jdbc:postgresql://db/mqis --mapping mqis.toml --to plan --connection lab",
        "mqdssm plan mqis/ --to plan --to-ldif ldif --naming-context DC=example,DC=com --create-computers",
    ),
)


APPLIED_COUNTS: Final = ("table", "read", "written", "equal", "skipped", "rejected", "lost")
REFUSED: Final = ("object", "attribute", "reason")
LOST_OBJECTS: Final = ("object", "what is wrong")


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
DeletesAllowed = Annotated[
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
    allow_deletes: DeletesAllowed = None,
    transactions: Transactions = 0,
    verify: Verify = True,
) -> int:
    r"""Apply a plan, read all written objects back, and print a report.

    To continue an interrupted plan, apply it again. PLAN/undo.ldif undoes the changes. Exit code 1 if a row
    was rejected, refused or lost. Install 'mqdssm\[pipeline]', or 'mqdssm\[spark]' and Java 17 for Spark.
    """
    chosen = engine_of(run)
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
    with explain_resuming(run, plan), watch_progress(run, "applying the plan") as watch:
        report = apply_plan(plan, run.loaded.settings.url, options, **where, watch=watch, **login_of(run))
    print_report(run, report, plan)
    return ExitCode.FINE if report.is_fine else ExitCode.FINDINGS


@contextmanager
def explain_resuming(run: CommandRun, folder: Path) -> Iterator[None]:
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


def print_report(run: CommandRun, report: "MigrationReport", folder: Path) -> None:
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
    output.rows(APPLIED_COUNTS, count_rows(report))
    not_carried = ((name, *item) for name, some in report.not_carried.items() for item in some.items())
    print_left_out(run, not_carried, folder)
    print_failures(run, report, folder)
    if report.stopped is not None:
        output.note(f"it stopped: {report.stopped}; apply it again to go on")
    elif not report.verified:
        output.note("nothing was read back (--no-verify)")
    output.note(f"applied to {report.server}, {describe_engine(report.engine)}")
    output.line("")
    output.line(report.last_line)


def print_failures(run: CommandRun, report: "MigrationReport", folder: Path) -> None:
    """Print the first refused and lost objects, and how to undo the changes.

    Args:
        run: of the command.
        report: of an applied plan.
        folder: of the plan.
    """
    output = run.output
    for columns, rows, count, where in (
        (REFUSED, _list_refused(report), report.refused_count, folder / "rejects" / "applied.jsonl"),
        (LOST_OBJECTS, _list_lost(report), report.lost_count, folder / "report.json"),
    ):
        if output.sample(columns, rows) or count > SAMPLE_MAX:
            output.note(f"{count} in all: see {where}")
    if report.resumed:
        output.note(f"it was broken off {report.resumed} times, and went on")
    if report.guid_map:
        output.note(f"{report.guid_map} objects have other GUIDs now: {folder / 'guid-map.csv'} lists them")
    output.note(f"{folder / 'undo.ldif'} undoes {report.undo_records} changes: ldapmodify -c -f undo.ldif")


def count_rows(report: "MigrationReport") -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table `APPLIED_COUNTS`."""
    for name, table in report.tables.items():
        numbers = (table.read, table.written, table.equal, table.skipped, table.rejected, table.lost)
        yield (name, *map(str, numbers))


def _list_refused(report: "MigrationReport") -> Iterator[tuple[str, ...]]:
    for refusal in report.refused:
        yield (refusal.dn, ", ".join(refusal.attributes), refusal.reason)


def _list_lost(report: "MigrationReport") -> Iterator[tuple[str, ...]]:
    for lost_object in report.lost:
        yield (lost_object.dn, lost_object.reason)


apply_app = declare_command(
    apply,
    spark=True,
    examples=(
        "mqdssm apply plan --connection lab",
        "mqdssm apply plan --connection lab --max-rate 200 --max-errors 10",
    ),
)


def migrate(
    run: CommandRun,
    *,
    source: Source,
    to: To = None,
    on_conflict: Conflict = OnConflict.FAIL,
    allow_deletes: Deletes = 0,
    create_computers: Computers = False,
    sid_map: SidMapFile = None,
    mapping: Mapping = None,
    max_rate: MaxRate = None,
    max_errors: MaxErrors = None,
    transactions: Transactions = 0,
    verify: Verify = True,
    to_ldif: ToLdif = None,
) -> int:
    r"""Migrate MQIS tables into a directory: 'mqdssm plan' and 'mqdssm apply' in one.

    To continue an interrupted migration, use 'mqdssm apply PLAN'. With --to-ldif the directory is not
    changed. Exit code 1 if a row was rejected, refused or lost. Install 'mqdssm\[pipeline]'; for Spark and
    for a database 'mqdssm\[spark]' and Java 17.
    """
    chosen = engine_of(run, source)
    from mqdssm.pipeline.migrate.applying import ApplyOptions
    from mqdssm.pipeline.migrate.applying import migrate as carry_over
    from mqdssm.pipeline.migrate.planning import PlanRequest

    options = ApplyOptions(max_rate=max_rate, max_errors=max_errors, transactions=transactions, verify=verify)
    request = PlanRequest(
        source=source,
        on_conflict=on_conflict.value,
        allow_deletes=allow_deletes,
        create_computers=create_computers,
        sid_map=sid_map,
        mapping=mapping,
    )
    if to_ldif is not None:
        return make_plan(run, request, to, to_ldif, chosen)
    run.connection_options()  # what cannot be is refused before workers start
    where = chosen.arguments()
    folder = to or name_by_time()
    with explain_resuming(run, folder), watch_progress(run, "migrating") as watch:
        plan, report = carry_over(
            request, run.loaded.settings.url, folder, options, **where, watch=watch, **login_of(run)
        )
    if report is None:
        print_plan_counts(run, plan, folder)
        return ExitCode.FINDINGS
    for note in plan.notes:
        run.output.note(note)
    print_report(run, report, folder)
    return ExitCode.FINE if report.is_fine else ExitCode.FINDINGS


migrate_app = declare_command(
    migrate,
    spark=True,
    examples=(
        "mqdssm migrate mqis/ --connection lab --create-computers",
        "mqdssm migrate mqis/ --to plan --connection lab --sid-map sids.csv --on-conflict update",
    ),
)
