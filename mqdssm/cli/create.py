"""``mqdssm create``: Create Directory Object ([MS-MQDSSM] 3.1.6.1)."""

import typer

from mqdssm.cli.objects import Assignments, TypeArgument, assignments_of, object_of
from mqdssm.cli.run import Run, add_command

app = typer.Typer(add_completion=False)


def create(run: Run, *, kind: TypeArgument, values: Assignments = None) -> None:
    """Create a queue, queue-manager, site or routing-link.

    What is not given is not stored: it reads as the specification's default.
    """
    from mqdssm.errors import GenericDirectoryError
    from mqdssm.events.create import REQUIRED

    if kind.element_name not in REQUIRED:
        raise GenericDirectoryError(
            f"{kind.element_name} objects cannot be created: {', '.join(REQUIRED)} can"
        )
    obj = object_of(kind, assignments_of(kind, values))
    with run.connect() as directory:
        identifier = str(directory.create(obj))
    if run.output.is_json:
        run.output.document({"Identifier": identifier})
    else:
        run.output.line(f"created {kind.value} {identifier}")


add_command(
    app,
    "create",
    create,
    examples=(
        "mqdssm create site Name=Berlin",
        r"mqdssm create queue 'Pathname=web01\orders' Label=Orders Quota=10000 Transactional=true",
        "mqdssm create queue-manager ComputerName=web01 SiteIdentifierList=5f7c…,81aa… RoutingServer=true",
        "mqdssm create routing-link Site1Identifier=5f7c… Site2Identifier=81aa… ActualCost=7",
    ),
)
