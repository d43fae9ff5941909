"""Both ends of ``mqdssm demo``: an enterprise with planted defects; export, validation, and a report."""

import contextlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.cli.demo_stage import Stage
from mqdssm.cli.export import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqdssm.samples.plan import Plan
    from mqdssm.samples.truth import Compared
    from mqdssm.spark.validate import Validation
    from mqdssm.testing.openldap import OpenLdapServer

CONTAINERS: Final = frozenset({"msmq", "Computers", "Servers", "Sites", "Configuration"})
SHOWN_OF_RULES: Final = 6
"""Rules whose first finding is shown; the report has all of them."""


def load(stage: Stage, server: "OpenLdapServer", plan: "Plan", folder: Path) -> None:
    """Make the enterprise, and load it: all that the directory holds comes from here.

    Args:
        stage: where it is shown.
        server: the empty directory.
        plan: the enterprise.
        folder: new; it holds the list of what was planted afterwards.
    """
    from mqdssm.samples.forms import FAULTS_NAME, Loader, SampleForm
    from mqdssm.samples.generate import generate

    with stage.step("Make up an enterprise, with defects planted"):
        stage.command(
            f"mqdssm generate --sites {plan.sites} --machines {plan.machines} --queues {plan.queues}"
            f" --seed {plan.seed} --format ldif --loader slapadd --faults --to {folder.name}"
        )
        written = generate(plan, folder, SampleForm.LDIF, loader=Loader.SLAPADD, faults=True)
        counts = ", ".join(f"{name} {count}" for name, count in written.objects.items())
        stage.result(f"with what the defects need beside it: {counts}")
        broken = sum(written.faults.values())
        stage.result(
            f"{broken} of them are broken, for {len(written.faults)} rules: {FAULTS_NAME} lists them"
        )
    with stage.step("Load it into the directory"):
        stage.call(f"server.load({', '.join(repr(name) for name in written.files)})      # slapadd")
        server.load(*(folder / name for name in written.files))
        stage.result(f"{sum(written.objects.values())} objects are there")


def export_validate_report(
    stage: Stage, stack: ExitStack, server: "OpenLdapServer", folders: "tuple[Path, Path]", report: Path
) -> bool:
    """Export what is there, validate it, and write the report.

    Args:
        stage: where it is shown.
        stack: what is open until the demonstration ends.
        server: the directory.
        folders: of the enterprise that was loaded, and for the export.
        report: the file.

    Returns:
        Whether all that was planted was found, and nothing else.
    """
    from mqdssm.spark.session import spark_session

    loaded, folder = folders
    with stage.step("Start Spark on this machine"):
        stack.enter_context(spark_session("mqdssm demo", brief=True))
        stage.result("one session for all that follows")
    with stage.step("Export all of it to Parquet"):
        _export(stage, server, folder)
    with _validation(stage, folder, report) as found:
        outcome = _compared(found, loaded)
        with stage.step("Compare what was found with what was planted"):
            stage.result(
                f"{outcome.planted} objects were broken on purpose: {len(outcome.missed)} missed, "
                f"{len(outcome.unplanted)} found that nobody planted"
            )
            for one in (*outcome.missed, *outcome.unplanted):
                stage.result(f"{one.rule}: {one.type} {one.guid or one.dn}")
    return outcome.is_equal


def _export(stage: Stage, server: "OpenLdapServer", folder: Path) -> None:
    from mqdssm.spark.export import export

    stage.command(f"mqdssm export --type all --to {folder.name}")
    manifest = export(
        server.url, OBJECTS, folder, user=server.user, password=server.password, ca_file=server.ca_file
    )
    rows = sum(exported.rows for exported in manifest.types.values())
    files = sum(len(exported.files) for exported in manifest.types.values())
    stage.result(f"{rows} objects of {len(manifest.types)} types in {files} Parquet files, and a manifest")


@contextlib.contextmanager
def _validation(stage: Stage, folder: Path, report: Path) -> "Iterator[Validation]":
    from mqdssm.spark.report import write_report
    from mqdssm.spark.validate import validation

    with contextlib.ExitStack() as stack:
        with stage.step("Validate the export, and write a report"):
            stage.command(f"mqdssm validate {folder.name} --report {report.name}")
            found = stack.enter_context(validation(folder))
            stage.table(("rule", "object", "what is wrong"), _samples(found))
            summary = found.summary
            bad = sum(1 for rule in summary.rules if rule.count)
            stage.result(f"{summary.count} findings of {bad} rules; {len(summary.rules)} rules were applied")
            write_report(report, summary, found.findings, found.sets)
            stage.result(f"the report has {report.stat().st_size // 1000} KB, and needs no network")
        yield found


def _samples(found: "Validation") -> "Iterator[tuple[str, str, str]]":
    """The first finding of a few rules, from all over the list."""
    bad = [rule for rule in found.summary.rules if rule.count]
    for rule in bad[:: max(1, len(bad) // SHOWN_OF_RULES)][:SHOWN_OF_RULES]:
        one = rule.samples[0]
        yield one.rule, one.guid or one.type if one.dn is None else _brief(one.dn), one.message


def _brief(dn: str) -> str:
    """An object's name, and whose it is."""
    from mqdssm.model.dn import DN

    names = [value for ((kind, value),) in DN.parse(dn).rdns[:3] if kind.lower() == "cn"]
    return " < ".join(name for name in names if name not in CONTAINERS)


def _compared(found: "Validation", loaded: Path) -> "Compared":
    from mqdssm.samples.faults import Truth
    from mqdssm.samples.truth import compared, read_truth

    named: Any = (Truth(one.rule, one.type, one.guid, one.dn) for one in found.findings)
    return compared(read_truth(loaded), named)
