"""``mqdssm diff``: compare directories, exports or MQIS tables."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import ExitCode, UsageProblem
from mqdssm.cli.export import OBJECTS
from mqdssm.cli.migrate import Mapping, SidMapFile
from mqdssm.cli.pipeline_options import describe_engine, engine_of, login_of
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command

if TYPE_CHECKING:
    from mqdssm.pipeline.diff.fields import ObjectDifference
    from mqdssm.pipeline.diff.run import Comparison
    from mqdssm.pipeline.diff.sides import GivenSide

CONNECTION_PREFIX: Final = "connection:"
COLUMNS: Final = ("difference", "type", "object", "attribute", "A", "B")
SHOWN_MAX: Final = 50
"""Maximum objects in a table; the other outputs have all of them."""
VALUE_CHARS_MAX: Final = 60
"""Maximum characters of a value in a table."""
DiffType = StrEnum("DiffType", {name.upper().replace("-", "_"): name for name in OBJECTS})  # type: ignore[misc]  # made from another one


class DiffFormat(StrEnum):
    """Output format of differences."""

    TABLE = "table"
    JSON = "json"
    LDIF = "ldif"


_SIDE: Final = (
    "One side: folder of an export or of MQIS tables, database of MQIS tables (jdbc:…), LDAP "
    "URL, or connection:NAME of the configuration file."
)


Types = Annotated[
    list[DiffType] | None,
    typer.Option("--type", help="Types to compare. Repeatable. Default: all.", metavar="TYPE"),
]
Ignored = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", help="Attribute to leave out, such as Label or queue.Label. Repeatable.", metavar="NAME"
    ),
]
GuidMap = Annotated[
    Path | None,
    typer.Option(
        "--guid-map",
        help="Map of old to new GUIDs, CSV with the columns old and new: the guid-map.csv of a migration.",
        metavar="FILE",
    ),
]
Recheck = Annotated[
    int,
    typer.Option(
        "--recheck", metavar="N", min=0, help="How often objects of a directory that differ are read again."
    ),
]


def diff(
    run: CommandRun,
    *,
    a: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    b: Annotated[str, typer.Argument(metavar="B", help="The other side, in the same forms.")],
    types: Types = None,
    ignored: Ignored = None,
    guid_map: GuidMap = None,
    recheck: Recheck = 1,
    sid_map: SidMapFile = None,
    mapping: Mapping = None,
) -> int:
    r"""Compare two directories, exports or sets of MQIS tables.

    Exit code 1 if they differ.
    A missing object is not in B, an extra one not in A. -o ldif prints the changes that make B equal A, for
    ldapmodify. A URL is opened with the connection options. For two log-ins use connections of the
    configuration file. Install 'mqdssm\[pipeline]'; for Spark and databases 'mqdssm\[spark]' and Java 17.
    """
    from mqdssm.pipeline.mqis.mapping import is_jdbc

    database = next((side for side in (a, b) if is_jdbc(side)), "")
    chosen = engine_of(run, database)
    from mqdssm.pipeline.diff.comparable_columns import check_ignored
    from mqdssm.pipeline.diff.run import ComparisonRequest, check_tables, compare_sources

    with convert_usage_problems():
        check_ignored(ignored or ())
    sides = side_of(run, a), side_of(run, b)
    request = ComparisonRequest(
        None if not types else frozenset(object_type.value for object_type in types),
        tuple(ignored or ()),
        guid_map,
        recheck,
        mending=run.given.output is DiffFormat.LDIF,
        sid_map=sid_map,
        mapping=mapping,
    )
    with convert_usage_problems():
        check_tables(sides, request)
    with (
        run.output.progress("comparing", counted=False),
        compare_sources(*sides, request, **chosen.arguments()) as result,
    ):
        _print(run, result)
        differs = result.differences.count > 0
    return ExitCode.FINDINGS if differs else ExitCode.FINE


def side_of(run: CommandRun, named: str) -> "GivenSide":
    """Return one side of a comparison from its name on the command line.

    Raises:
        UsageProblem: it is nothing that can be compared.
    """
    from mqdssm.pipeline.diff.sides import GivenSide
    from mqdssm.pipeline.mqis.mapping import is_jdbc

    if named.startswith(CONNECTION_PREFIX):
        return _make_side(run.by(named.removeprefix(CONNECTION_PREFIX)), named)
    if is_jdbc(named):
        return GivenSide(database=named)
    if "://" in named:
        return _make_side(run.at(named.split()))
    folder = Path(named)
    if not folder.is_dir():
        raise UsageProblem(
            f"{named!r} is nothing to compare: name a folder, a database (jdbc:…), an LDAP URL, or "
            f"{CONNECTION_PREFIX}NAME for a connection of the configuration file"
        )
    return GivenSide(folder=folder)


def _make_side(run: CommandRun, name: str = "") -> "GivenSide":
    from mqdssm.pipeline.diff.sides import GivenSide

    run.connection_options()  # what cannot be is refused before Java starts
    return GivenSide(urls=run.loaded.settings.url, login=login_of(run), name=name)


def _print(run: CommandRun, result: "Comparison") -> None:
    match run.given.output:
        case DiffFormat.LDIF:
            from mqdssm.pipeline.diff.changes import format_changes

            for record in format_changes(result):
                run.output.raw(record)
        case DiffFormat.JSON:
            for difference in result.differences:
                run.output.json_line(json.dumps(describe_difference(difference), ensure_ascii=False))
            run.output.json_line(json.dumps(_summarize_result(result), ensure_ascii=False))
        case _:
            _print_table(run, result)


def describe_difference(difference: "ObjectDifference") -> dict[str, Any]:
    """Return a difference as a line of JSON."""
    document: dict[str, Any] = {
        "what": difference.kind.value,
        "type": difference.type,
        "name": difference.name,
        "key": difference.key,
    }
    if difference.a is not None and difference.b is not None:
        values = {
            name: {"a": difference.a.get(name), "b": difference.b.get(name)} for name in difference.attributes
        }
        return document | {"attributes": values}
    return document | {"object": difference.a or difference.b}


def _summarize_result(result: "Comparison") -> dict[str, Any]:
    from mqdssm.pipeline.diff.fields import ObjectDifferenceKind

    counts = result.differences.count_kinds()
    objects = result.objects
    return {
        "what": "summary",
        "a": {"name": result.a.name, "objects": objects[0]},
        "b": {"name": result.b.name, "objects": objects[1]},
        **{
            kind.value: sum(n for (_, row_kind), n in counts.items() if row_kind is kind)
            for kind in ObjectDifferenceKind
        },
        "settled": result.settled,
        "engine": result.engine,
        "not_compared": [asdict(item) for item in result.left_out],
    }


def _print_table(run: CommandRun, result: "Comparison") -> None:
    count = result.differences.count
    if count:
        run.output.rows(COLUMNS, format_differences(islice(result.differences, SHOWN_MAX)))
        if count > SHOWN_MAX:
            run.output.note(f"{count - SHOWN_MAX} more objects differ: --output json has all of them")
    else:
        run.output.line("no differences")
    for line in _explain_not_compared(result):
        run.output.note(line)
    if result.settled:
        run.output.note(f"{result.settled} differences were none any more when the objects were read again")
    summary = _summarize_result(result)
    counts = ", ".join(f"{summary[kind]} {kind}" for kind in ("missing", "extra", "different"))
    run.output.note(
        f"{count} differences ({counts}) between {summary['a']['objects']} objects of {result.a.label} and "
        f"{summary['b']['objects']} of {result.b.label}, {describe_engine(result.engine)}"
    )


def format_differences(differences: "Iterable[ObjectDifference]") -> Iterator[tuple[str, ...]]:
    """Yield the rows of differences in the table `COLUMNS`."""
    for difference in differences:
        name = difference.name or difference.key
        if difference.a is None or difference.b is None:
            yield difference.kind.value, difference.type, name, "", "", ""
            continue
        for attribute in difference.attributes:
            a, b = (_format_value(attribute, side.get(attribute)) for side in (difference.a, difference.b))
            yield difference.kind.value, difference.type, name, attribute, a, b


def _format_value(attribute: str, value: Any) -> str:
    """Format a value for people, truncated."""
    from mqdssm.pipeline.diff.changes import format_sddl

    if attribute == "Security" and isinstance(value, str):
        value = format_sddl(value)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def _explain_not_compared(result: "Comparison") -> Iterator[str]:
    """Yield a line for each reason why columns were not compared."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for item in result.left_out:
        reasons.setdefault(item.reason, {}).setdefault(item.type, []).append(item.column)
    for reason, types in reasons.items():
        named = "; ".join(f"{name} {', '.join(columns)}".strip() for name, columns in types.items())
        yield f"not compared ({reason}): {named}"


app = declare_command(
    diff,
    spark=True,
    formats=DiffFormat,
    examples=(
        "mqdssm diff export/2026-01-31 export/2026-02-28",
        "mqdssm diff mqis/ ldap://ldap.example.com --guid-map plan/guid-map.csv --sid-map sids.csv",
        "mqdssm diff jdbc:postgresql://db/mqis connection:lab --mapping mqis.toml",
        "mqdssm diff connection:old connection:new --type queue -o json > differences.jsonl",
        "mqdssm diff export/2026-01-31 connection:lab -o ldif > repair.ldif",
    ),
)
