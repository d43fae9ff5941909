"""``mqdssm inventory``: list MSMQ's objects, owners, rights and orphans."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.output import SAMPLE_MAX
from mqdssm.cli.pipeline_options import engine_of, engine_words
from mqdssm.cli.run import CommandRun, command_app, usage_problems
from mqdssm.cli.validate import FolderArgument, MappingOption, MqisOption, source_of

if TYPE_CHECKING:
    from mqdssm.pipeline.inventory import Inventory

SITES: Final = ("site", "machines", "queues", "routing servers")
ACCOUNTS: Final = ("account", "owns queues", "owns machines", "may send to", "may receive from")
PROBLEMS: Final = ("problem", "type", "object", "what is wrong")


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
) -> None:
    r"""List machines, queues, owners, permissions, orphans and clones.

    Nothing is changed.

    From an export, a directory (--url) or MQIS tables. --output json prints all tables, an object a line.
    Install 'mqdssm\[pipeline]', or 'mqdssm\[spark]' and Java 17 for Spark.
    """
    chosen = engine_of(run).arguments()
    from mqdssm.pipeline.inventory import Inventory, opened, write_csv, write_inventory_page
    from mqdssm.pipeline.inventory.writers import check_folder
    from mqdssm.pipeline.report import check_page

    with usage_problems():  # before hours of work
        if html is not None:
            check_page(html)
        if csv is not None:
            check_folder(csv)
    source = source_of(run, folder, mqis, mapping, doing="list")
    with run.output.progress("taking the inventory", counted=False), opened(**source, **chosen) as where:
        inventory = Inventory(where, **chosen)
        if html is not None:
            write_inventory_page(html, inventory)
        if csv is not None:
            write_csv(inventory, csv)
        _print(run, inventory)


def _print(run: CommandRun, inventory: "Inventory") -> None:
    from mqdssm.pipeline.inventory import json_lines

    output = run.output
    if output.is_json:
        for line in json_lines(inventory):
            output.raw(line)
        return
    output.pairs((name, str(count)) for name, count in inventory.counts.items())
    for columns, rows in (
        (SITES, _sites(inventory)),
        (ACCOUNTS, _accounts(inventory)),
        (PROBLEMS, _problems(inventory)),
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
    output.note(f"{len(inventory.problems)} orphans and clones, {engine_words(inventory.engine)}")


def _sites(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    for site in inventory.sites():
        yield (
            str(site["Name"] or site["Identifier"]),
            str(site["Machines"]),
            str(site["Queues"]),
            str(site["RoutingServers"]),
        )


def _accounts(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    for person in inventory.people():
        counts = (str(person[name]) for name in ("OwnsQueues", "OwnsMachines", "Send", "Receive"))
        yield (inventory.person(person["Sid"]), *counts)


def _problems(inventory: "Inventory") -> Iterator[tuple[str, ...]]:
    for problem in inventory.problems:
        yield problem.rule, problem.type, problem.dn or problem.guid or "", problem.message


app = command_app(
    inventory,
    spark=True,
    examples=(
        "mqdssm inventory export/2026-01-31",
        "mqdssm inventory export/2026-01-31 --html inventory.html --csv inventory/",
        "mqdssm inventory --connection lab -o json > inventory.jsonl",
        "mqdssm inventory --mqis mqis/ --html inventory.html",
    ),
)
