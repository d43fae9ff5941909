"""``mqdssm list``: Read Directory Begin, Next and End ([MS-MQDSSM] 3.1.6.4-3.1.6.6)."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from mqdssm.cli import human
from mqdssm.cli.objects import (
    AttributesOption,
    TypeArgument,
    complete_filter,
    complete_list,
    filter_of,
    names_of,
    sort_of,
)
from mqdssm.cli.run import CommandRun, add_command

if TYPE_CHECKING:
    from mqdssm.model.base import DirectoryObject

app = typer.Typer(add_completion=False)

Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="EXPRESSION",
        help="As Label==Orders, with == != < <= > >=; several: all must hold.",
        autocompletion=complete_filter,
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort", metavar="A,-B", help="A first; minus: largest first.", autocompletion=complete_list
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=0, metavar="N", help="At most N objects.")]


def listing(
    run: CommandRun,
    *,
    kind: TypeArgument,
    filters: Filters = None,
    attributes: AttributesOption = None,
    sort: Sort = None,
    limit: Limit = None,
) -> None:
    """List objects.

    A table shows the usual attributes, JSON all of them (an array, written while it is read: also of a
    million objects). If the search breaks off the array is not closed, and the exit code is not 0.
    """
    wanted = [filter_of(kind, text) for text in filters or ()]
    keys = sort_of(kind, sort)
    names = names_of(kind, attributes)
    optional: tuple[str, ...] = ()
    if names is None and not run.output.is_json:
        names = human.LIST_COLUMNS[kind.element_name]
        optional = names[2:-1]
    with run.connect() as directory, run.output.progress(f"reading {kind.value}s") as done:
        found = directory.search(kind.element, wanted, attributes=names, sort=keys)
        objects = _counted(itertools.islice(found, limit), done)
        if run.output.is_json:
            run.output.json_array(human.json_of(obj) for obj in objects)
            return
        rows = kind.table.rows_for(names or ())
        columns, cells_of = [row.adm for row in rows], human.cells
        remembers = kind.table.ldap_class in directory.session.profile.original_guid_classes
        if remembers and "Identifier" in columns:
            columns, cells_of = [*columns, human.ORIGINAL], human.cells_with_original
        count = run.output.rows(columns, (cells_of(obj, rows) for obj in objects), optional=optional)
    run.output.note(f"{count} {kind.value}{'' if count == 1 else 's'}")


def _counted(
    objects: "Iterable[DirectoryObject]", done: Callable[[int], None]
) -> "Iterator[DirectoryObject]":
    for obj in objects:
        done(1)
        yield obj


add_command(
    app,
    "list",
    listing,
    examples=(
        'mqdssm list queue --filter "Label==Orders" --output json',
        'mqdssm list queue -f "Quota>10000" -f "Transactional==true" --sort Quota,-Label -a Pathname,Quota',
        'mqdssm list queue-manager --filter "CreateTime>=2026-01-01"',
        "mqdssm list site -o json | jq -r '.[].Identifier'",
    ),
)
