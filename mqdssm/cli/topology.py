"""``mqdssm topology``: queues as definitions of other message brokers."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from mqdssm.cli.pipeline_options import engine_of
from mqdssm.cli.run import CommandRun, command_app, usage_problems
from mqdssm.cli.validate import FolderArgument, MappingOption, MqisOption, source_of

COLUMNS: Final = ("feature", "queues", "in its place")


class BrokerName(StrEnum):
    """Message broker that definitions are made for."""

    RABBITMQ = "rabbitmq"
    SERVICE_BUS = "servicebus"
    ARTEMIS = "artemis"
    KAFKA = "kafka"


def topology(
    run: CommandRun,
    *,
    folder: FolderArgument = None,
    broker: Annotated[BrokerName, typer.Option("--for", help="Message broker.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder of the definitions: new or empty.")],
    mqis: MqisOption = None,
    mapping: MappingOption = None,
) -> None:
    r"""Write queues and rights as definitions of another message broker.

    From an export, a directory (--url) or MQIS tables. The table lists the features of the queues that the
    broker lacks. DIR/names.json maps all names in both directions. Install 'mqdssm\[pipeline]'.
    """
    chosen = engine_of(run).arguments()
    from mqdssm.events.durable_files import make_empty_folder
    from mqdssm.pipeline.inventory import opened
    from mqdssm.pipeline.topology.conversion import Broker, convert

    source = source_of(run, folder, mqis, mapping, doing="convert")
    with usage_problems():  # before hours of work
        make_empty_folder(to)
    with run.output.progress("reading queues", counted=False), opened(**source, **chosen) as where:
        result = convert(where, Broker(broker.value), to)
    output = run.output
    if output.is_json:
        output.document(result.document())
        return
    if result.gaps:
        output.rows(COLUMNS, ((gap.feature.value, str(gap.queues), gap.instead) for gap in result.gaps))
    if result.unreadable:
        output.note(f"warning: {result.unreadable} queues have no readable path name and are left out")
    output.note(f"{result.queues} queues: {', '.join(result.files)} in {to}")


app = command_app(
    topology,
    spark=True,
    examples=(
        "mqdssm topology export/2026-01-31 --for rabbitmq --to rabbitmq/",
        "mqdssm topology --for kafka --connection lab --to kafka/ -o json",
    ),
)
