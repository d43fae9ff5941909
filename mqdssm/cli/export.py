"""``mqdssm export``: objects as Parquet files, through Spark."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import ObjectType
from mqdssm.cli.run import Run, add_command

app = typer.Typer(add_completion=False)

ALL = "all"
ExportType = StrEnum("ExportType", {ALL.upper(): ALL} | {one.name: one.value for one in ObjectType})  # type: ignore[misc]  # made from another one


def export(
    run: Run,
    *,
    types: Annotated[
        list[ExportType],
        typer.Option(
            "--type", metavar="TYPE", help=f"{', '.join(one.value for one in ExportType)}; repeatable."
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new or empty folder.")],
) -> None:
    r"""Export objects to DIR/TYPE/part-*.parquet, with a manifest.

    Needs Spark: pip install 'mqdssm\[spark]' and Java 17.
    """
    from mqdssm.spark.export import export as export_to
    from mqdssm.spark.session import check_spark

    check_spark()
    wanted = [one.value for one in (ObjectType if ExportType("all") in types else types)]
    access = run.access()
    access.pop("urls")
    run.connection_options()  # what cannot be is refused before Java starts
    if run.loaded.settings.authentication not in {None, "simple"}:
        raise UsageProblem("export logs in by a simple bind: leave --authentication out, and use TLS")
    with run.output.progress(f"exporting {', '.join(wanted)}", counted=False):
        manifest = export_to(run.loaded.settings.url, wanted, to, **access)
    if run.output.is_json:
        run.output.document(manifest.model_dump(mode="json"))
        return
    rows = [(name, str(exported.rows), str(len(exported.files))) for name, exported in manifest.types.items()]
    run.output.rows(("type", "objects", "files"), rows)
    run.output.note(f"exported to {to}; 'mqdssm validate {to}' checks it")


add_command(
    app,
    "export",
    export,
    examples=(
        "mqdssm export --type queue --to export/queues",
        "mqdssm export --type all --to export/2026-01-31 --connection lab",
    ),
)
