"""``mqdssm create``: Create Directory Object ([MS-MQDSSM] 3.1.6.1)."""

from typing import TYPE_CHECKING

import typer

from mqdssm.cli.objects import Assignments, TypeArgument, assignments_of, object_of
from mqdssm.cli.output import say
from mqdssm.cli.run import Run, add_command

if TYPE_CHECKING:
    from uuid import UUID

    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject

app = typer.Typer(add_completion=False)


def create(run: Run, *, kind: TypeArgument, values: Assignments = None) -> None:
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
    with run.connect() as directory:
        made = directory.create(obj)
        kept = _fate_of_guid(directory, obj, made)
    identifier = str(made)
    if kept:
        say(f"warning: {kept}")
    if run.output.is_json:
        run.output.document({"Identifier": identifier})
    else:
        run.output.line(f"created {kind.value} {identifier}")


def _fate_of_guid(directory: "Directory", obj: "DirectoryObject", made: "UUID") -> str:
    """What became of a GUID that the object was to have, if it is not its Identifier now (decision M37)."""
    from mqdssm.model.filters import Filter

    if not obj.is_populated("Identifier") or obj.identifier in {None, made}:
        return ""
    by_guid = Filter("Identifier", "==", made)
    found = directory.read(type(obj), by_guid, attributes=["Identifier"])
    if found.original_identifier == obj.identifier:
        return f"the server made the Identifier {made}; it remembers {obj.identifier}, which finds it as well"
    if obj.element_name == "QueueManager":  # of the others that keep nothing the library has warned
        return f"the queue manager existed already, with the Identifier {made}, not {obj.identifier}"
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
