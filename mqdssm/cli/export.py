"""``mqdssm export``: export objects to files and a manifest."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects.arguments import CommandType
from mqdssm.cli.pipeline_options import describe_engine, engine_of, login_of
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.pipeline.export.run import Progress
    from mqdssm.pipeline.manifest import Manifest

ALL: Final = "all"
OBJECTS: Final = (*(member.value for member in CommandType), "settings", "computer")
"""Types in ``all``: every type of objects; ``ldap`` would export the entries a second time."""
ExportType = StrEnum("ExportType", {name.upper().replace("-", "_"): name for name in (ALL, *OBJECTS, "ldap")})  # type: ignore[misc]  # made from another one
SHOWN_CHANGES_MAX: Final = 3


class FileFormat(StrEnum):
    """Format of the files."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    LDIF = "ldif"


class LdifDialect(StrEnum):
    """Dialect of LDIF, by the tools that load it."""

    OPENLDAP = "openldap"
    AD = "ad"


class Compression(StrEnum):
    """Compression of Parquet files."""

    NONE = "none"
    ZSTD = "zstd"
    SNAPPY = "snappy"


_TYPES: Final = (
    f"Types to export. Repeatable. Default: all. One of {', '.join(kind.value for kind in ExportType)}"
)
To = Annotated[
    Path,
    typer.Option("--to", help="Folder of the export: new or empty, or the one to resume.", metavar="DIR"),
]
Types = Annotated[list[ExportType] | None, typer.Option("--type", help=_TYPES, metavar="TYPE")]
Format = Annotated[
    FileFormat,
    typer.Option(
        "--format",
        help="Format of the files: columns (parquet), lossless text (csv, jsonl) or LDAP entries (ldif).",
    ),
]
Dialect = Annotated[
    LdifDialect | None,
    typer.Option("--dialect", help="Dialect of LDIF: openldap for ldapadd and slapadd, ad for ldifde."),
]
Compressed = Annotated[Compression, typer.Option("--compression", help="Compression of Parquet files.")]
FileRows = Annotated[
    int | None,
    typer.Option("--file-rows", help="Maximum objects in a file. Default: 100,000.", metavar="N", min=1),
]
Partitions = Annotated[
    int, typer.Option("--partitions", help="Number of parallel searches for each type.", metavar="N", min=1)
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted export.")]
Readable = Annotated[
    bool,
    typer.Option(
        "--readable",
        help="Create the files with the permissions of the umask. Default: only the owner can read them.",
    ),
]


def export(
    run: CommandRun,
    *,
    to: To,
    types: Types = None,
    file_format: Format = FileFormat.PARQUET,
    dialect: Dialect = None,
    compression: Compressed = Compression.NONE,
    file_rows: FileRows = None,
    partitions: Partitions = 1,
    resume: Resume = False,
    readable: Readable = False,
) -> None:
    r"""Export objects to DIR/TYPE/part-*.FORMAT, with a manifest.

    If the export is interrupted, complete files stay, and --resume continues. Install 'mqdssm\[pipeline]', or
    'mqdssm\[spark]' and Java 17 for Spark.
    """
    chosen = engine_of(run)
    from mqdssm.pipeline.export.run import export as export_to

    _check_format(file_format, dialect, compression)
    run.connection_options()  # what cannot be is refused before workers start
    with _show_progress(run, to) as watch:
        manifest = export_to(
            run.loaded.settings.url,
            list_wanted_types(types or []),
            to,
            format=file_format.value,
            dialect=None if dialect is None else dialect.value,
            compression=compression.value,
            file_rows=file_rows,
            partitions=partitions,
            resume=resume,
            readable=readable,
            watch=watch,
            **chosen.arguments(),
            **login_of(run),
        )
    _tell(run, manifest, to)


def _check_format(file_format: FileFormat, dialect: LdifDialect | None, compression: Compression) -> None:
    """Raise UsageProblem for options that belong to another format.

    Raises:
        UsageProblem: it is given.
    """
    for option, value, of in (
        ("--dialect", dialect is not None, FileFormat.LDIF),
        ("--compression", compression is not Compression.NONE, FileFormat.PARQUET),
    ):
        if value and file_format is not of:
            raise UsageProblem(f"{option} is for --format {of} alone, not for {file_format}: leave it out")


def _tell(run: CommandRun, manifest: "Manifest", to: Path) -> None:
    if run.output.is_json:
        run.output.document(manifest.model_dump(mode="json"))
        return
    rows = [(name, str(exported.rows), str(len(exported.files))) for name, exported in manifest.types.items()]
    run.output.rows(("type", "objects", "files"), rows)
    _print_changes(run, manifest)
    checks = f"; 'mqdssm validate {to}' checks it" if manifest.format == FileFormat.PARQUET else ""
    run.output.note(f"exported to {to}, {describe_engine(manifest.engine)}{checks}")


def list_wanted_types(types: list[ExportType]) -> list[str]:
    """Return the named types without duplicates; ``all`` means all types of objects."""
    names: dict[str, None] = {}
    for export_type in types or [ExportType(ALL)]:
        names.update(dict.fromkeys(OBJECTS if export_type.value == ALL else (export_type.value,)))
    return list(names)


@contextmanager
def _show_progress(run: CommandRun, to: Path) -> "Iterator[Callable[[Progress], None] | None]":
    """Show a progress bar on a terminal; otherwise objects are not counted."""
    with run.output.bar(f"exporting to {to}") as bar:
        yield None if bar is None else lambda now: bar(now.rows, now.total)


def _print_changes(run: CommandRun, manifest: "Manifest") -> None:
    changed = manifest.changed
    if changed:
        named = ", ".join(change.dn or change.guid or change.type for change in changed[:SHOWN_CHANGES_MAX])
        more = ", …" if len(changed) > SHOWN_CHANGES_MAX else ""
        run.output.note(
            f"{len(changed)} objects changed while it ran, and were read again: {named}{more}; "
            "the manifest lists them"
        )
    if not manifest.consistent:
        run.output.note("objects may have changed once more since: the files show no single moment")


app = declare_command(
    export,
    spark=True,
    examples=(
        "mqdssm export --type queue --to export/queues",
        "mqdssm export --to export/2026-01-31 --connection lab",
        "mqdssm export --to export/2026-01-31 --connection lab --resume",
        "mqdssm export --type ldap --format ldif --to backup/2026-01-31",
        "mqdssm export --to /shared/export --connection lab --spark-master spark://head:7077",
    ),
)
