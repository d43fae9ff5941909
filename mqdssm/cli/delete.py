"""``mqdssm delete``: Delete Directory Object ([MS-MQDSSM] 3.1.6.2)."""

from typing import Annotated

import typer

from mqdssm.cli import keys
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import Assignments, TypeArgument, assignments_of, object_of
from mqdssm.cli.run import CommandRun, add_command

app = typer.Typer(add_completion=False)

Recursive = Annotated[bool, typer.Option("--recursive", help="A queue manager: its queues, too.")]


def delete(
    run: CommandRun, *, kind: TypeArgument, values: Assignments = None, recursive: Recursive = False
) -> None:
    """Delete a queue, queue-manager, site or routing-link.

    One of Identifier, FullPath, Pathname, DirectoryPath, ComputerName and Name says which one.
    """
    from mqdssm.errors import GenericDirectoryError
    from mqdssm.events.create import REQUIRED

    if kind.element_name not in REQUIRED:  # what can be created can be deleted (decision M44)
        raise GenericDirectoryError(
            f"{kind.element_name} objects cannot be deleted: {', '.join(REQUIRED)} can"
        )
    given = assignments_of(kind, values)
    _, rest = keys.split(kind, given)
    if rest:
        raise UsageProblem(f"{', '.join(rest)}: delete takes only what says which {kind.value} is meant")
    obj = object_of(kind, given)
    with run.connect() as directory, run.output.bar("deleting queues") as show:
        directory.delete(obj, recursive=recursive, on_progress=show)
    name = "=".join((*given, *next(iter(given.values()))))
    if run.output.is_json:
        run.output.document({"deleted": name})
    else:
        run.output.line(f"deleted {kind.value} {name}")


add_command(
    app,
    "delete",
    delete,
    examples=(
        r"mqdssm delete queue 'Pathname=web01\orders'",
        "mqdssm delete queue-manager ComputerName=web01 --recursive",
    ),
)
