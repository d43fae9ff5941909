"""``mqdssm migrate``: make a plan and apply it."""

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.migrate.apply import MaxErrors, MaxRate, Transactions, Verify, going_on, tell_report
from mqdssm.cli.migrate.plan import (
    Computers,
    Conflict,
    Deletes,
    Mapping,
    OnConflict,
    SidMapFile,
    Source,
    To,
    ToLdif,
    make_plan,
    named_by_time,
    tell_plan,
    watched,
)
from mqdssm.cli.pipeline_options import EngineName, EngineOption, WorkersOption, engine_of, login_of
from mqdssm.cli.run import CommandRun, command_app


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
    engine: EngineOption = EngineName.AUTO,
    workers: WorkersOption = None,
) -> int:
    r"""Migrate MQIS tables into a directory: 'mqdssm plan' and 'mqdssm apply' in one.

    To continue an interrupted migration, use 'mqdssm apply PLAN'. With --to-ldif the directory is not
    changed. Exit code 1 if a row was rejected, refused or lost. Install 'mqdssm\[pipeline]'; for Spark and
    for a database 'mqdssm\[spark]' and Java 17.
    """
    chosen = engine_of(run, engine, workers, source)
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
    folder = to or named_by_time()
    with going_on(run, folder), watched(run, "migrating") as watch:
        plan, report = carry_over(
            request, run.loaded.settings.url, folder, options, **where, watch=watch, **login_of(run)
        )
    if report is None:
        tell_plan(run, plan, folder)
        return ExitCode.FINDINGS
    for note in plan.notes:
        run.output.note(note)
    tell_report(run, report, folder)
    return ExitCode.FINE if report.is_fine else ExitCode.FINDINGS


app = command_app(
    migrate,
    spark=True,
    examples=(
        "mqdssm migrate mqis/ --connection lab --create-computers",
        "mqdssm migrate mqis/ --to plan --connection lab --sid-map sids.csv --on-conflict update",
    ),
)
