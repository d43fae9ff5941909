"""``mqdssm topology``: queues as definitions of other message brokers."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.inventory import AddOption
from mqdssm.cli.pipeline_options import describe_engine, engine_of
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
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
    add: AddOption = None,
) -> int:
    r"""Write queues and rights as definitions of another message broker.

    From an export, a directory (--url) or MQIS tables; --add brings private queues. The table lists the
    features of the queues that the broker lacks. DIR/names.json maps all names in both directions.
    Exit code 1 if a file cannot be added. Install 'mqdssm\[pipeline]'.
    """
    engine = engine_of(run)
    from mqdssm.events.durable_files import make_empty_folder
    from mqdssm.pipeline.inventory import open_source
    from mqdssm.pipeline.inventory.machines.files import files_of
    from mqdssm.pipeline.topology.conversion import Broker, convert

    source = source_of(run, folder, mqis, mapping, doing="convert")
    with convert_usage_problems():  # before hours of work
        files_of(add or ())
        make_empty_folder(to)
    with (
        run.output.progress("reading queues", counted=False),
        open_source(**source, **engine.arguments()) as where,
    ):
        result = convert(where, Broker(broker.value), to, add or (), engine=engine.kind.value)
    output = run.output
    code = ExitCode.FINDINGS if result.private.problems else ExitCode.FINE
    if output.is_json:
        output.document(result.to_document())
        return code
    if result.gaps:
        output.rows(COLUMNS, ((gap.feature.value, str(gap.queues), gap.instead) for gap in result.gaps))
    if result.unreadable:
        output.note(f"warning: {result.unreadable} queues have no readable path name and are left out")
    for problem in result.private.problems:
        output.note(f"error: not added: {problem.file}: {problem.problem}")
    for machine in result.private.incomplete:
        output.note(f"warning: {machine}: its files have counters only, idle private queues may be missing")
    counts = f"{result.queues} queues, {len(result.private.queues)} of them private"
    output.note(f"{counts}: {', '.join(result.files)} in {to}, {describe_engine(result.engine)}")
    return code


app = declare_command(
    topology,
    spark=True,
    examples=(
        "mqdssm topology export/2026-01-31 --for rabbitmq --to rabbitmq/",
        "mqdssm topology export/2026-01-31 --add machines/ --for rabbitmq --to rabbitmq/",
        "mqdssm topology --for kafka --connection lab --to kafka/ -o json",
    ),
)
