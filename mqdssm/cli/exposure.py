"""``mqdssm exposure``: machines with MSMQ by what makes them easy to attack."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.output import SAMPLE_MAX
from mqdssm.cli.pipeline_options import check_targets, describe_engine, engine_of
from mqdssm.cli.run import CommandRun, declare_command
from mqdssm.cli.validate import FolderArgument, source_of

if TYPE_CHECKING:
    from mqdssm.pipeline.exposure import Exposure
    from mqdssm.pipeline.exposure.computers import ComputerFacts
    from mqdssm.pipeline.inventory import Inventory

STALE_DAYS: Final = 90
MACHINES: Final = ("score", "machine", "system", "support", "last log-on", "findings")
RULES: Final = ("rule", "points", "at most", "reason", "source")


def exposure(
    run: CommandRun,
    *,
    folder: FolderArgument = None,
    stale: Annotated[
        int,
        typer.Option(
            "--stale", metavar="DAYS", min=1, help="Days without a log-on after which a machine is stale."
        ),
    ] = STALE_DAYS,
    fail_on: Annotated[
        int | None,
        typer.Option(
            "--fail-on", metavar="SCORE", min=1, max=100, help="Exit code 1 if a score reaches this."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page to this file, HTML.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="DIR", help="Write CSV files to this folder: new or empty."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the rules of the score and exit.")
    ] = False,
) -> int:
    r"""List machines with MSMQ by a score: what makes them easy to attack.

    Nothing is changed. From an export or a directory (--url). Only Active Directory itself knows the
    operating system and the last log-on of a computer.
    Install 'mqdssm\[pipeline]', or 'mqdssm\[spark]' and Java 17 for Spark.
    """
    if explain:
        _print_rules(run)
        return ExitCode.FINE
    chosen = engine_of(run).arguments()
    from mqdssm.pipeline.exposure import Exposure, write_csv, write_exposure_page
    from mqdssm.pipeline.inventory import Inventory, open_source

    check_targets(html, csv)
    source = source_of(run, folder, None, None, doing="assess")
    with run.output.progress("assessing", counted=False), open_source(**source, **chosen) as where:
        inventory = Inventory(where, **chosen)
        facts = {} if folder is not None else _read_facts(run, inventory)
        result = Exposure(inventory, facts, stale_days=stale)
        if html is not None:
            write_exposure_page(html, result)
        if csv is not None:
            write_csv(result, csv)
        _print(run, result)
    return ExitCode.FINDINGS if fail_on is not None and result.highest >= fail_on else ExitCode.FINE


def _read_facts(run: CommandRun, inventory: "Inventory") -> "Mapping[str, ComputerFacts]":
    from mqdssm.pipeline.exposure.computers import read_computers

    with run.connect() as directory:
        return read_computers(directory.session, inventory.computers_of_machines())


def _print(run: CommandRun, result: "Exposure") -> None:
    from mqdssm.pipeline.exposure import format_json_lines
    from mqdssm.pipeline.exposure.rules import SCORE_RULES

    output = run.output
    if output.is_json:
        for line in format_json_lines(result):
            output.raw(line)
        return
    inventory = result.inventory
    output.pairs((rule.id, str(result.counts[rule.id])) for rule in SCORE_RULES if result.counts.get(rule.id))
    if output.sample(MACHINES, _list_machines(result)):
        output.note(f"more than {SAMPLE_MAX}: --html, --csv and --output json have more")
    for name, reason in inventory.not_looked_for.items():
        output.note(f"not looked for: {name}: {reason}")
    output.note(
        f"{inventory.counts.get('queue-manager', 0)} machines, highest score {result.highest}, "
        f"{describe_engine(inventory.engine)}; --explain prints the rules"
    )


def _list_machines(result: "Exposure") -> Iterator[tuple[str, ...]]:
    for record in result.machines():
        ends = f" {record['SupportEnds']}" if record["SupportEnds"] else ""
        yield (
            str(record["Score"]),
            record["ComputerName"] or "",
            record["OperatingSystem"] or "unknown",
            f"{record['Support']}{ends}",
            f"{record['LastLogon']:%Y-%m-%d}" if record["LastLogon"] else "unknown",
            ", ".join(finding["rule"] for finding in record["Findings"]),
        )


def _print_rules(run: CommandRun) -> None:
    import json

    from mqdssm.pipeline.exposure.writers import list_rule_records

    records = list(list_rule_records())
    if run.output.is_json:
        run.output.json_array(map(json.dumps, records))
        return
    run.output.rows(RULES, (tuple(map(str, record.values())) for record in records))


app = declare_command(
    exposure,
    spark=True,
    examples=(
        "mqdssm exposure export/2026-01-31",
        "mqdssm exposure --connection lab --html exposure.html --csv exposure/",
        "mqdssm exposure --connection lab --stale 180 --fail-on 60",
        "mqdssm exposure --explain",
    ),
)
