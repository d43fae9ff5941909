"""The end of ``mqdssm demo``: export with Spark, validation, and a defect that it finds."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mqdssm.cli.demo_stage import Stage
from mqdssm.cli.export import OBJECTS

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.testing.openldap import OpenLdapServer


def export_and_validate(
    stage: Stage, stack: ExitStack, server: "OpenLdapServer", directory: "Directory", folder: Path
) -> None:
    """Export what is there, and find that it is sound; break two objects, and find these."""
    from mqdssm.spark.session import spark_session

    with stage.step("Start Spark on this machine"):
        stack.enter_context(spark_session("mqdssm demo", brief=True))
        stage.result("one session for all that follows")
    _sound(stage, server, folder / "sound")
    _broken(stage, server, directory, folder / "broken")


def _export(stage: Stage, server: "OpenLdapServer", folder: Path) -> None:
    from mqdssm.spark.export import export

    stage.command(f"mqdssm export --type all --to {folder.name}")
    manifest = export(
        server.url, OBJECTS, folder, user=server.user, password=server.password, ca_file=server.ca_file
    )
    rows = sum(exported.rows for exported in manifest.types.values())
    files = sum(len(exported.files) for exported in manifest.types.values())
    stage.result(f"{rows} objects of {len(manifest.types)} types in {files} Parquet files, and a manifest")


def _validate(stage: Stage, folder: Path) -> int:
    from mqdssm.spark.validate import validation

    stage.command(f"mqdssm validate {folder.name}")
    with validation(folder) as found:
        summary = found.summary
        if summary.count:
            columns = ("rule", "object", "what is wrong")
            stage.table(columns, ((one.rule, one.dn or one.type, one.message) for one in found.findings))
    stage.result(f"{summary.count} findings of {len(summary.rules)} rules")
    return summary.count


def _sound(stage: Stage, server: "OpenLdapServer", folder: Path) -> None:
    with stage.step("Export all of it with Spark, and validate it: nothing should be found"):
        _export(stage, server, folder)
        _validate(stage, folder)


def _broken(stage: Stage, server: "OpenLdapServer", directory: "Directory", folder: Path) -> None:
    import mqdssm

    with stage.step("Plant two defects behind mqdssm's back, and validate again: both should be found"):
        link = next(directory.search(mqdssm.RoutingLink, attributes=["FullPath"]))
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", r"paris02\stock"))
        stage.call(
            'session.modify(link.full_path, {"mSMQCost": [b"0"]})\n'
            'session.modify(queue.full_path, {"nTSecurityDescriptor": []})'
        )
        directory.session.modify(link.full_path or "", {"mSMQCost": [b"0"]})
        directory.session.modify(queue.full_path or "", {"nTSecurityDescriptor": []})
        _export(stage, server, folder)
        _validate(stage, folder)
