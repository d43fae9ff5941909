"""``mqdssm resolve``: queue aliases and distribution lists ([MS-MQDSSM] 3.1.6.8, 3.1.6.9)."""

from typing import Annotated

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.run import CommandRun, add_command

app = typer.Typer(
    add_completion=False, help="Show the queues behind an alias or a distribution list.", no_args_is_help=True
)


def alias(
    run: CommandRun, *, full_path: Annotated[str, typer.Argument(metavar="DN", help="DN of the queue alias.")]
) -> None:
    """Show the format name that a queue alias stands for."""
    from mqdssm.model.dn import DN

    DN.parse(full_path)  # refused before anybody connects
    with run.connect() as directory:
        found = directory.resolve_queue_alias(full_path)
    if run.output.is_json:
        run.output.document({"format_name": found})
    else:
        run.output.line(found)


def distribution_list(
    run: CommandRun,
    *,
    format_name: Annotated[str, typer.Argument(metavar="DL=GUID", help="Its format name.")],
) -> None:
    """Show the format names of the queues in a distribution list, those of the lists in it included."""
    from mqdssm.model.names import DistributionListFormatName, parse_format_name

    if not isinstance(parse_format_name(format_name), DistributionListFormatName):
        raise UsageProblem(f"{format_name!r} is no distribution list: DL=<GUID> is expected")
    with run.connect() as directory:
        found = directory.resolve_distribution_list(format_name)
    if run.output.is_json:
        run.output.document(found)
        return
    for one in found:
        run.output.line(one)
    run.output.note(f"{len(found)} queue{'' if len(found) == 1 else 's'}")


add_command(app, "alias", alias, examples=('mqdssm resolve alias "CN=alias,CN=Users,DC=example,DC=com"',))
add_command(
    app, "list", distribution_list, examples=("mqdssm resolve list DL=5EEFD5C9-5F3A-4BA5-8D4D-0A1A1B5E6E07",)
)
