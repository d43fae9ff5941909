"""``mqdssm create``: Create Directory Object ([MS-MQDSSM] 3.1.6.1)."""

from typing import TYPE_CHECKING

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import Assignments, TypeArgument, assignments_of, object_of
from mqdssm.cli.output import say
from mqdssm.cli.run import CommandRun, add_command

if TYPE_CHECKING:
    from uuid import UUID

    from mqdssm.model.base import DirectoryObject

app = typer.Typer(add_completion=False)


def create(run: CommandRun, *, kind: TypeArgument, values: Assignments = None) -> None:
    """Create a queue, queue-manager, site or routing-link.

    What is not given is not stored: it reads as the specification's default. The Identifier that is shown is
    the object's: servers may make it themselves, whatever was asked for.
    """
    from mqdssm.errors import GenericDirectoryError
    from mqdssm.events.create import REQUIRED

    if kind.element_name not in REQUIRED:
        raise GenericDirectoryError(
            f"{kind.element_name} objects cannot be created: {', '.join(REQUIRED)} can"
        )
    obj = object_of(kind, assignments_of(kind, values))
    if missing := [name for name in REQUIRED[kind.element_name] if not obj.is_populated(name)]:
        raise UsageProblem(f"a {kind.value} needs {', '.join(f'{name}=VALUE' for name in missing)}")
    wanted = obj.identifier
    with run.connect() as directory:
        made = directory.create(obj)
    kept = "" if wanted in {None, made} else _fate_of_guid(obj, wanted)
    identifier = str(made)
    if kept:
        say(f"warning: {kept}")
    if run.output.is_json:
        run.output.document({"Identifier": identifier})
    else:
        run.output.line(f"created {kind.value} {identifier}")


def _fate_of_guid(obj: "DirectoryObject", wanted: "UUID | None") -> str:
    """Return a warning if the given GUID did not become the Identifier; empty if none is needed (M37)."""
    made = obj.identifier
    if obj.original_identifier == wanted:
        return f"the server made the Identifier {made}; it remembers {wanted}, which finds it as well"
    if obj.element_name == "QueueManager":  # of the others that keep nothing the library has warned
        return f"the queue manager existed already, with the Identifier {made}, not {wanted}"
    return ""


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
