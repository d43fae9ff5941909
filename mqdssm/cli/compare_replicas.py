"""``mqdssm compare-replicas``: compare the servers of an enterprise.

The servers replicate their directories by [MC-MQDSRP].
"""

import contextlib
import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.diff import CONNECTION_PREFIX
from mqdssm.cli.exits import ExitCode, UsageProblem
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command

if TYPE_CHECKING:
    from mqdssm.store.ldap.replicas import Replica, ReplicaDifference

COLUMNS: Final = ("difference", "replicas", "numbers", "type", "object", "name", "properties")
SHOWN_MAX: Final = 1000
"""Maximum differences in a table; JSON has all of them."""
Named = Annotated[
    list[str],
    typer.Argument(
        metavar="A B…",
        help="LDAP URLs, or connection:NAME of the configuration file. All others are compared with A.",
    ),
]


def compare_replicas(run: CommandRun, *, replicas: Named) -> int:
    r"""Compare the directories of replicating servers. Exit code 1 if they differ.

    Objects are compared by sequence number and content (\[MC-MQDSRP]) while the servers run. Changes that a
    replica has not received yet are counted as lag, and are no difference. A URL is opened with the
    connection options.
    """
    from mqdssm.store.ldap.replicas import ReplicaComparison

    count = 0
    with contextlib.ExitStack() as stack:
        opened = [_open_replica(run, named, stack) for named in replicas]
        with convert_usage_problems():
            comparison = ReplicaComparison(opened)
        rows = []
        with run.output.progress("comparing", counted=False):
            for difference in comparison.find_differences():
                count += 1
                if run.output.is_json:
                    run.output.json_line(json.dumps(_as_json(difference), ensure_ascii=False))
                elif count <= SHOWN_MAX:
                    rows.append(_build_row(difference))
        names = [replica.name for replica in opened]
    if run.output.is_json:
        summary = {"kind": "summary", "replicas": names, "objects": comparison.objects}
        run.output.json_line(json.dumps({**summary, "differences": count, "lag": comparison.lag}))
    elif rows:
        run.output.rows(COLUMNS, rows)
        if count > len(rows):
            run.output.note(f"{count - len(rows)} more differences: --output json has all of them")
    else:
        run.output.line("no differences")
    run.output.note(
        f"{count} differences between {', '.join(names)} in {comparison.objects} objects and deletions; "
        f"{comparison.lag} have not reached every replica yet"
    )
    return ExitCode.FINDINGS if count else ExitCode.FINE


def _open_replica(run: CommandRun, named: str, stack: contextlib.ExitStack) -> "Replica":
    from mqdssm.directory.session import Session
    from mqdssm.store.ldap.replicas import Replica

    if named.startswith(CONNECTION_PREFIX):
        of = run.by(named.removeprefix(CONNECTION_PREFIX))
    elif "://" in named:
        of = run.at(named.split())
    else:
        raise UsageProblem(f"{named!r} is no replica: name an LDAP URL, or {CONNECTION_PREFIX}NAME")
    session = stack.enter_context(Session.open(of.connection_options(read_only=True)))
    with convert_usage_problems():
        return Replica(session)


def _as_json(difference: "ReplicaDifference") -> dict[str, Any]:
    return {
        "kind": difference.kind.value,
        "replicas": difference.replicas,
        "numbers": difference.numbers,
        "partition": None if difference.partition_id is None else str(difference.partition_id),
        "type": None if difference.object_type is None else difference.object_type.spec_name,
        "object": None if difference.identifier is None else str(difference.identifier),
        "name": difference.name,
        "properties": difference.properties,
    }


def _build_row(difference: "ReplicaDifference") -> tuple[str, ...]:
    document = _as_json(difference)
    numbers = " ".join("-" if number is None else str(number) for number in difference.numbers)
    replicas, properties = " ".join(difference.replicas), ", ".join(difference.properties)
    return (
        difference.kind.value,
        replicas,
        numbers,
        document["type"] or "",
        document["object"] or "",
        difference.name,
        properties,
    )


app = declare_command(
    compare_replicas,
    examples=(
        "mqdssm compare-replicas ldap://pec.example.com ldap://psc1.example.com",
        "mqdssm compare-replicas connection:pec connection:psc1 connection:bsc11 -o json",
    ),
)
