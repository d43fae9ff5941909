"""``mqdssm read``, ``list`` and ``resolve``.

See [MS-MQDSSM] 3.1.6.3 to 3.1.6.6, 3.1.6.8 and 3.1.6.9.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import display
from mqdssm.cli.objects.arguments import (
    Assignments,
    AttributesOption,
    CommandType,
    TypeArgument,
    assignments_of,
    complete_filter,
    complete_list,
    names_of,
    sort_of,
)
from mqdssm.cli.objects.filters import build_equal_filters, filter_of
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject
    from mqdssm.model.expressions import Condition
    from mqdssm.model.filters import Filter


Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="EXPRESSION",
        help="Filter such as Label==Paid* || Quota>1000, with == != < <= > >=, && || ! and parentheses. "
        "An asterisk stands for any text, Label==* for any value. Repeatable: all filters must match.",
        autocompletion=complete_filter,
    ),
]


def read(
    run: CommandRun,
    *,
    kind: TypeArgument,
    values: Assignments = None,
    filters: Filters = None,
    attributes: AttributesOption = None,
) -> None:
    """Show one object: the first one with these values.

    The enterprise needs no values: there is only one.
    """
    conditions = [
        *build_equal_filters(kind, assignments_of(kind, values)),
        *(filter_of(kind, text) for text in filters or ()),
    ]
    names = names_of(kind, attributes)
    if not conditions and kind is not CommandType.ENTERPRISE:
        raise UsageProblem(f"which {kind.value}? give an Attribute=Value, or use 'mqdssm list {kind.value}'")
    with run.connect() as directory:
        obj = directory.read(kind.element, conditions, attributes=names)
    if run.output.is_json:
        run.output.document(json.loads(display.json_of(obj)))
    else:
        run.output.pairs(display.format_pairs(obj, kind.table))


read_app = declare_command(
    read,
    examples=(
        "mqdssm read enterprise",
        r"mqdssm read queue 'Pathname=web01\orders'",
        "mqdssm read queue-manager ComputerName=web01 --attributes Identifier,Security -o json",
    ),
)


Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="A,-B",
        help="Sort by A, then by B; a minus sorts in descending order.",
        autocompletion=complete_list,
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=0, metavar="N", help="Maximum number of objects.")]
MachineOption = Annotated[
    str | None,
    typer.Option("--machine", metavar="NAME", help="Only queues, or the queue manager, of this computer."),
]
Count = Annotated[bool, typer.Option("--count", help="Print only the number of objects.")]


def list_objects(
    run: CommandRun,
    *,
    kind: TypeArgument,
    filters: Filters = None,
    attributes: AttributesOption = None,
    sort: Sort = None,
    limit: Limit = None,
    machine: MachineOption = None,
    count: Count = False,
) -> None:
    """List objects.

    A table shows the usual attributes, JSON all of them. JSON is one array, written while the search runs.
    If the search fails, the array is not closed and the exit code is not 0.
    """
    search_filters = [filter_of(kind, text) for text in filters or ()]
    keys = sort_of(kind, sort)
    names = names_of(kind, attributes)
    find_place = _place_finder(kind, machine, search_filters)
    if count:
        if (sort, attributes, limit) != (None, None, None):
            raise UsageProblem("--count prints a number: leave --sort, --attributes and --limit out")
        with run.connect() as directory, run.output.progress(f"counting {kind.value}s", counted=False):
            number = directory.count(kind.element, search_filters, below=find_place(directory))
        run.output.answer({"count": number}, str(number))
        return
    optional: tuple[str, ...] = ()
    if names is None and not run.output.is_json:
        names = display.LIST_COLUMNS[kind.element_name]
        optional = names[2:-1]
    with run.connect() as directory, run.output.progress(f"reading {kind.value}s") as advance:
        results = directory.search(
            kind.element,
            search_filters,
            attributes=names,
            sort=keys,
            below=find_place(directory),
            limit=limit,
        )
        objects = _count_each(results, advance)
        if run.output.is_json:
            run.output.json_array(display.json_of(obj) for obj in objects)
            return
        rows = kind.table.find_rows(names or ())
        columns, cells_of = [row.adm for row in rows], display.format_cells
        remembers = kind.table.ldap_class in directory.session.profile.original_guid_classes
        if remembers and "Identifier" in columns:
            columns, cells_of = [*columns, display.ORIGINAL], display.format_with_original
        row_count = run.output.rows(columns, (cells_of(obj, rows) for obj in objects), optional=optional)
    run.output.note(f"{row_count} {kind.value}{'' if row_count == 1 else 's'}")


def _place_finder(
    kind: CommandType, machine: str | None, search_filters: "list[Filter | Condition[Any]]"
) -> "Callable[[Directory], str | None]":
    """Return the function that finds the DN below which the objects of a machine are.

    A queue manager is found by its name, which is added to the filters.

    Raises:
        UsageProblem: no machine has objects of the type.
    """
    if machine is not None and kind not in {CommandType.QUEUE, CommandType.QUEUE_MANAGER}:
        raise UsageProblem("--machine goes with queue and queue-manager")
    if machine is None:
        return lambda _: None
    by_name = build_equal_filters(CommandType.QUEUE_MANAGER, {"ComputerName": (machine,)})
    if kind is CommandType.QUEUE_MANAGER:
        search_filters += by_name
        return lambda _: None

    def find_place(directory: "Directory") -> str | None:
        from mqdssm.model.elements import QueueManager

        manager: QueueManager = directory.read(QueueManager, by_name, attributes=["FullPath"])
        return manager.full_path

    return find_place


def _count_each(
    objects: "Iterable[DirectoryObject]", advance: Callable[[int], None]
) -> "Iterator[DirectoryObject]":
    for obj in objects:
        advance(1)
        yield obj


list_app = declare_command(
    list_objects,
    examples=(
        'mqdssm list queue --filter "Label==Orders" --output json',
        'mqdssm list queue -f "Quota>10000" -f "Transactional==true" --sort Quota,-Label -a Pathname,Quota',
        'mqdssm list queue-manager --filter "CreateTime>=2026-01-01"',
        'mqdssm list queue -f "Label==Paid* || (Quota>1000 && !(Journaling==true))" --machine web01 --count',
        "mqdssm list site -o json | jq -r '.[].Identifier'",
    ),
)


resolve_app = typer.Typer(
    add_completion=False, help="Show the queues of an alias or a distribution list.", no_args_is_help=True
)


def alias(
    run: CommandRun, *, full_path: Annotated[str, typer.Argument(metavar="DN", help="DN of the queue alias.")]
) -> None:
    """Show the format name that a queue alias stands for."""
    from mqdssm.model.dn import DN

    DN.parse(full_path)  # refused before anybody connects
    with run.connect() as directory:
        format_name = directory.resolve_queue_alias(full_path)
    run.output.answer({"format_name": format_name}, format_name)


def distribution_list(
    run: CommandRun,
    *,
    format_name: Annotated[
        str, typer.Argument(metavar="DL=GUID", help="Format name of the distribution list.")
    ],
) -> None:
    """Show the format names of all queues in a distribution list.

    Nested lists are followed.
    """
    from mqdssm.model.names import DistributionListFormatName, parse_format_name

    if not isinstance(parse_format_name(format_name), DistributionListFormatName):
        raise UsageProblem(f"{format_name!r} is no distribution list: DL=<GUID> is expected")
    with run.connect() as directory:
        queue_names = directory.resolve_distribution_list(format_name)
    if run.output.is_json:
        run.output.document(queue_names)
        return
    for queue_name in queue_names:
        run.output.line(queue_name)
    run.output.note(f"{len(queue_names)} queue{'' if len(queue_names) == 1 else 's'}")


declare_command(
    alias, group=resolve_app, examples=('mqdssm resolve alias "CN=alias,CN=Users,DC=example,DC=com"',)
)
declare_command(
    distribution_list,
    group=resolve_app,
    name="list",
    examples=("mqdssm resolve list DL=5EEFD5C9-5F3A-4BA5-8D4D-0A1A1B5E6E07",),
)
