"""``mqdssm read``: Read Directory ([MS-MQDSSM] 3.1.6.3)."""

import json

import typer

from mqdssm.cli import human
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import (
    Assignments,
    AttributesOption,
    CommandType,
    TypeArgument,
    assignments_of,
    equal_filters,
    names_of,
)
from mqdssm.cli.run import CommandRun, add_command

app = typer.Typer(add_completion=False)


def read(
    run: CommandRun, *, kind: TypeArgument, values: Assignments = None, attributes: AttributesOption = None
) -> None:
    """Show one object: the first one that has these values.

    The enterprise needs none: there is one.
    """
    filters = equal_filters(kind, assignments_of(kind, values))
    names = names_of(kind, attributes)
    if not filters and kind is not CommandType.ENTERPRISE:
        raise UsageProblem(f"which {kind.value}? give an Attribute=Value, or use 'mqdssm list {kind.value}'")
    with run.connect() as directory:
        obj = directory.read(kind.element, filters, attributes=names)
    if run.output.is_json:
        run.output.document(json.loads(human.json_of(obj)))
    else:
        run.output.pairs(human.pairs(obj, kind.table))


add_command(
    app,
    "read",
    read,
    examples=(
        "mqdssm read enterprise",
        r"mqdssm read queue 'Pathname=web01\orders'",
        "mqdssm read queue-manager ComputerName=web01 --attributes Identifier,Security -o json",
    ),
)
