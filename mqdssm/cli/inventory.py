"""``mqdssm inventory``: list MSMQ's objects, owners, rights and orphans."""

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.output import SAMPLE_MAX
from mqdssm.cli.pipeline_options import check_targets, describe_engine, engine_of
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
from mqdssm.cli.validate import FolderArgument, MappingOption, MqisOption, source_of

if TYPE_CHECKING:
    from mqdssm.pipeline.inventory import Inventory

SITES: Final = ("site", "machines", "queues", "routing servers")
ACCOUNTS: Final = ("account", "owns queues", "owns machines", "may send to", "may receive from")
PROBLEMS: Final = ("problem", "type", "object", "what is wrong")
MACHINE_STATES: Final = (
    "machine",
    "state",
    "service",
    "public queues",
    "private queues",
    "messages",
    "in journals",
)
STATE_OF_MACHINE: Final = (
    "ComputerName",
    "State",
    "Service",
    "PublicQueues",
    "PrivateQueues",
    "Messages",
    "JournalMessages",
)
QUEUE_STATES: Final = ("machine", "queue", "kind", "messages", "bytes", "in the journal", "last activity")
STATE_OF_QUEUE: Final = ("Machine", "Name", "Kind", "Messages", "Bytes", "JournalMessages", "LastActivity")

AddOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--add",
        metavar="FILE",
        help="Output of the script on a machine (JSON, CLIXML), metrics of windows_exporter, or a folder "
        "of such files. Repeatable.",
    ),
]


def inventory(
    run: CommandRun,
    *,
    folder: FolderArgument = None,
    mqis: MqisOption = None,
    mapping: MappingOption = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the inventory to this file, as an HTML page."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="DIR", help="Write CSV files to this folder: new or empty."),
    ] = None,
    add: AddOption = None,
    script: Annotated[
        bool, typer.Option("--script", help="Print the PowerShell script for machines, and exit.")
    ] = False,
) -> int:
    r"""List machines, queues, owners, permissions, orphans and clones.

    Nothing is changed.

    From an export, a directory (--url) or MQIS tables. --output json prints all tables, an object a line.
    Install 'mqdssm\[pipeline]', or 'mqdssm\[spark]' and Java 17 for Spark.
    """
    if script:
        from mqdssm.pipeline.inventory.machines.script_output import read_script

        run.output.raw(read_script())
        return ExitCode.FINE
    chosen = engine_of(run).arguments()
    from mqdssm.pipeline.inventory import Inventory, open_source, write_csv, write_inventory_page
    from mqdssm.pipeline.inventory.machines.files import files_of

    check_targets(html, csv)
    with convert_usage_problems():
        files_of(add or ())
    source = source_of(run, folder, mqis, mapping, doing="list")
    with run.output.progress("taking the inventory", counted=False), open_source(**source, **chosen) as where:
        inventory = Inventory(where, **chosen, added=add or ())
        if html is not None:
            write_inventory_page(html, inventory)
        if csv is not None:
            write_csv(inventory, csv)
        _print(run, inventory)
    broken = inventory.states is not None and inventory.states.problems
    return ExitCode.FINDINGS if broken else ExitCode.FINE


def _print(run: CommandRun, inventory: "Inventory") -> None:
    from mqdssm.pipeline.inventory import format_json_lines

    output = run.output
    if output.is_json:
        for line in format_json_lines(inventory):
            output.raw(line)
        return
    output.pairs((name, str(count)) for name, count in inventory.counts.items())
    for columns, rows in (
        (SITES, _list_sites(inventory)),
        (ACCOUNTS, _list_accounts(inventory)),
        (PROBLEMS, _list_problems(inventory)),
        (MACHINE_STATES, _list_machine_states(inventory)),
        (QUEUE_STATES, _list_queue_states(inventory)),
    ):
        if output.sample(columns, rows):
            output.note(f"more than {SAMPLE_MAX}: --html, --csv and --output json have more")
    for name, reason in inventory.not_looked_for.items():
        output.note(f"not looked for: {name}: {reason}")
    if inventory.unreadable:
        count = sum(inventory.unreadable.values())
        output.note(
            f"warning: {count} value(s) cannot be read and are listed as missing, as in "
            f"{inventory.first_unreadable}; 'mqdssm validate' names all"
        )
    if inventory.states is not None:
        for problem in inventory.states.problems:
            output.note(f"error: not added: {problem.file}: {problem.problem}")
        counts = ", ".join(f"{count} {state}" for state, count in sorted(inventory.states.counts.items()))
        output.note(f"{inventory.states.files} files added; machines: {counts}")
    output.note(f"{len(inventory.problems)} orphans and clones, {describe_engine(inventory.engine)}")


def _list_sites(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    for site in inventory.list_sites():
        yield (
            str(site["Name"] or site["Identifier"]),
            str(site["Machines"]),
            str(site["Queues"]),
            str(site["RoutingServers"]),
        )


def _list_accounts(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    for person in inventory.list_people():
        counts = (str(person[name]) for name in ("OwnsQueues", "OwnsMachines", "Send", "Receive"))
        yield (inventory.name_person(person["Sid"]), *counts)


def _list_problems(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    for problem in inventory.problems:
        yield problem.rule, problem.type, problem.dn or problem.guid or "", problem.message


def _list_machine_states(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    for record in () if inventory.states is None else inventory.states.list_machines():
        yield tuple(_format_cell(record[name]) for name in STATE_OF_MACHINE)


def _list_queue_states(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    """Yield the queues with messages, those with most messages first."""
    if inventory.states is None:
        return
    busy = (
        record for record in inventory.states.list_queues() if record["Messages"] or record["JournalMessages"]
    )
    first = heapq.nsmallest(
        SAMPLE_MAX + 1,
        busy,
        key=lambda record: (-(record["Messages"] or 0), -(record["JournalMessages"] or 0)),
    )
    for record in first:
        yield tuple(_format_cell(record[name]) for name in STATE_OF_QUEUE)


def _format_cell(value: object) -> str:
    return "" if value is None else str(value)


app = declare_command(
    inventory,
    spark=True,
    examples=(
        "mqdssm inventory export/2026-01-31",
        "mqdssm inventory export/2026-01-31 --html inventory.html --csv inventory/",
        "mqdssm inventory --connection lab -o json > inventory.jsonl",
        "mqdssm inventory --mqis mqis/ --html inventory.html",
        "mqdssm inventory --script > msmq-machine.ps1",
        "mqdssm inventory export/2026-01-31 --add machines/ --html inventory.html",
    ),
)
