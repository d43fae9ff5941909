"""``mqdssm write``: Write Directory ([MS-MQDSSM] 3.1.6.7)."""

import typer

from mqdssm.cli import keys
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import Assignments, TypeArgument, assignments_of, object_of
from mqdssm.cli.run import CommandRun, add_command

app = typer.Typer(add_completion=False)


def write(run: CommandRun, *, kind: TypeArgument, values: Assignments = None) -> None:
    """Change attributes of one object.

    One of Identifier, FullPath, Pathname, DirectoryPath, ComputerName, Name and SecurityIdentifier says which
    object is meant (the enterprise needs none); the others are written.
    """
    given = assignments_of(kind, values)
    _, changes = keys.split(kind, given)
    if not changes:
        raise UsageProblem("nothing to write: give an Attribute=Value besides the one that says which object")
    obj = object_of(kind, given)
    with run.connect() as directory:
        keys.identify(directory, kind, obj)
        directory.write(obj, attributes=tuple(changes))
    if run.output.is_json:
        run.output.document({"written": list(changes)})
    else:
        run.output.line(f"written {kind.value}: {', '.join(changes)}")


add_command(
    app,
    "write",
    write,
    examples=(
        r"mqdssm write queue 'Pathname=web01\orders' 'Label=Paid orders' Quota=20000",
        "mqdssm write enterprise DefaultTimeToLive=86400",
        "mqdssm write site Name=Berlin 'Security=O:BAG:BAD:(A;;0x2002b;;;WD)'",
    ),
)
