"""``mqdssm schema``: show the mapping, print or check a server's schema."""

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.objects.arguments import CommandType
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command

if TYPE_CHECKING:
    from mqdssm.tables.row import Row

app = typer.Typer(
    add_completion=False,
    help="Show the mapping of attributes to LDAP; print or check the schema of OpenLDAP.",
    no_args_is_help=True,
)

_REPLICATION_HINT: Final = (
    "OpenLDAP only; load it: "
    "mqdssm schema ldif --format replication-config | ldapadd -Y EXTERNAL -H ldapi:///"
)
_COLUMNS: Final = ("attribute", "LDAP", "value", "unset", "events", "PROPID")


class SchemaFormat(StrEnum):
    """Output format of ``schema ldif``."""

    CONFIG = "config"
    SCHEMA = "schema"
    BASE_TREE = "base-tree"
    ROOT_DSE = "root-dse"
    REPLICATION_CONFIG = "replication-config"
    REPLICATION_SCHEMA = "replication-schema"


def show(
    run: CommandRun,
    *,
    kind: Annotated[
        CommandType | None,
        typer.Argument(metavar="[TYPE]", help="Type of object. Default: all types."),
    ] = None,
) -> None:
    """Show the LDAP attributes that hold the attributes of a type.

    Letters of the column "events": R read, C stored by create, W written, F usable in filters, S usable for
    sorting, N part of the object's name.
    """
    kinds = tuple(CommandType) if kind is None else (kind,)
    tables = {kind: [_describe_row(row) for row in kind.table.rows] for kind in kinds}
    if run.output.is_json:
        run.output.document(
            {
                kind.element_name: {
                    "type": kind.value,
                    "ldap_class": kind.table.ldap_class,
                    "attributes": rows,
                }
                for kind, rows in tables.items()
            }
        )
        return
    for number, (command, rows) in enumerate(tables.items()):
        if number:
            run.output.line("")
        run.output.line(
            f"{command.element_name} ({command.value}), in entries of class {command.table.ldap_class}"
        )
        run.output.rows(_COLUMNS, (_build_cells(row) for row in rows))


def _describe_row(row: "Row") -> dict[str, Any]:
    from mqdssm.tables.row import LETTERS

    return {
        "attribute": row.adm,
        "ldap": list(row.ldap),
        "holder": row.holder.value,
        "value": f"list of {row.kind.value}" if row.multi else row.kind.value,
        "unit": row.unit,
        "computed": None if row.computed is None else row.computed.value,
        "unset": _describe_default(row) if row.has_default else row.missing.value,
        "events": "".join(letter for letter, access in LETTERS.items() if access in row.access),
        "propid": row.propid,
        "sections": list(row.sections),
    }


def _describe_default(row: "Row") -> str:
    from mqdssm.cli.objects.display import text_of

    return f"is {text_of(row, row.default) or 'empty'}"


def _build_cells(row: dict[str, Any]) -> tuple[str, ...]:
    ldap = ", ".join(row["ldap"]) + (" of the computer" if row["holder"] == "computer" else "")
    value = row["value"] + (f" ({row['unit']})" if row["unit"] else "")
    propid = "" if row["propid"] is None else str(row["propid"])
    return (row["attribute"], ldap, value, row["unset"], row["events"], propid)


def ldif(
    run: CommandRun,
    *,
    form: Annotated[
        SchemaFormat,
        typer.Option(
            "--format",
            help="[b]config[/]: the schema as an entry of cn=config; [b]schema[/]: the schema as "
            "a file for slapd.conf; [b]base-tree[/]: the entries that must exist below "
            "--root; [b]root-dse[/]: the attributes of the root DSE; "
            "[b]replication-config[/], [b]replication-schema[/]: the additional schema of "
            "replicating servers.",
        ),
    ] = SchemaFormat.CONFIG,
    root: Annotated[
        str, typer.Option("--root", metavar="DN", help="Root of the tree.")
    ] = "DC=example,DC=com",
) -> None:
    """Print the MSMQ schema for an OpenLDAP server. It has Microsoft's OIDs."""
    from mqdssm.model.dn import DN
    from mqdssm.tables import ldif as text

    match form:
        case SchemaFormat.CONFIG:
            content = text.format_openldap_config()
        case SchemaFormat.SCHEMA:
            content = text.format_openldap_schema()
        case SchemaFormat.BASE_TREE:
            content = text.format_base_tree(str(DN.parse(root)))
        case SchemaFormat.ROOT_DSE:
            content = text.format_root_dse(str(DN.parse(root)))
        case SchemaFormat.REPLICATION_CONFIG:
            content = text.format_openldap_config(text.REPLICATION)
        case SchemaFormat.REPLICATION_SCHEMA:
            content = text.format_openldap_schema(text.REPLICATION)
    if run.output.is_json:
        run.output.document({"format": form.value, "text": content})
    else:
        run.output.raw(content)


def check(
    run: CommandRun,
    *,
    replication: Annotated[
        bool, typer.Option("--replication", help="Also check the schema of replicating servers.")
    ] = False,
) -> int:
    """Compare the schema of a server with the MSMQ schema.

    Exit code 1 if they differ.
    """
    from mqdssm.directory.schema_check import differences_of, replication_differences_of

    with run.session() as session, convert_usage_problems():
        differences = differences_of(session)
        url, hint = session.server_url or "", session.profile.facts.schema_hint
        if replication:
            hint = hint if differences else _REPLICATION_HINT
            differences += replication_differences_of(session)
    if run.output.is_json:
        run.output.document(
            {"server": url, "differences": [asdict(difference) for difference in differences]}
        )
    elif not differences:
        run.output.line(f"{url}: the schema is as it must be")
    else:
        rows = (
            ("error" if difference.serious else "minor", difference.subject, difference.problem)
            for difference in differences
        )
        run.output.rows(("", "what", "problem"), rows)
        run.output.note(f"{len(differences)} differences; {hint}")
    return ExitCode.FINDINGS if differences else ExitCode.FINE


declare_command(
    show,
    group=app,
    connects=False,
    examples=("mqdssm schema show queue", "mqdssm schema show -o json"),
)
declare_command(
    ldif,
    group=app,
    connects=False,
    examples=(
        "mqdssm schema ldif | sudo ldapadd -Y EXTERNAL -H ldapi:///",
        "mqdssm schema ldif --format schema > /etc/ldap/schema/msmq.schema",
        "mqdssm schema ldif --format replication-config | sudo ldapadd -Y EXTERNAL -H ldapi:///",
        "mqdssm schema ldif --format base-tree --root dc=example,dc=org | ldapadd -D cn=admin,… -W",
    ),
)
declare_command(
    check,
    group=app,
    examples=(
        "mqdssm schema check --url ldap://ldap.example.com",
        "mqdssm schema check --replication --url ldap://ldap.example.com",
    ),
)
