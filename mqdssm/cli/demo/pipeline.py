"""Pipeline steps of ``mqdssm demo``: tables, export, validation, report.

Export and validation run on both engines.
"""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.cli.demo.stage import DemoStage, login_of
from mqdssm.cli.export import OBJECTS
from mqdssm.cli.pipeline_options import EngineName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqdssm.pipeline.manifest import Manifest
    from mqdssm.pipeline.validate.run import Validation
    from mqdssm.samples.generate import WrittenSample
    from mqdssm.samples.plan import EnterprisePlan
    from mqdssm.testing.openldap import OpenLdapServer

CONTAINERS: Final = frozenset({"msmq", "Computers", "Servers", "Sites", "Configuration"})
SHOWN_OF_RULES: Final = 6
"""Number of rules whose first finding is shown; the report has all."""


def make(stage: DemoStage, plan: "EnterprisePlan", folder: Path) -> "WrittenSample":
    """Generate the enterprise as MQIS tables.

    Args:
        stage: where it is shown.
        plan: the enterprise.
        folder: new; it holds the list of what was planted afterwards.
    """
    from mqdssm.samples.forms import FAULTS_NAME, SampleForm
    from mqdssm.samples.generate import generate

    with stage.step("Make up an enterprise, with defects planted"):
        stage.command(
            f"mqdssm generate --sites {plan.sites} --machines {plan.machines} --queues {plan.queues}"
            f" --seed {plan.seed} --format mqis --faults --to {folder.name}"
        )
        written = generate(plan, folder, SampleForm.MQIS, faults=True)
        counts = ", ".join(f"{name} {count}" for name, count in written.objects.items())
        stage.result(f"with what the defects need beside it: {counts}")
        broken = sum(written.faults.values())
        stage.result(
            f"{broken} of them are broken, for {len(written.faults)} rules: {FAULTS_NAME} lists them"
        )
    return written


def export(stage: DemoStage, server: "OpenLdapServer", folder: Path) -> None:
    """Export all objects of the directory.

    Args:
        stage: where it is shown.
        server: the directory.
        folder: new.
    """
    from mqdssm.pipeline.export.run import export as write

    with stage.step("Export all of it to Parquet"):
        stage.command(f"mqdssm export --type all --to {folder.name}")
        manifest = write(server.url, OBJECTS, folder, engine=EngineName.LOCAL, **login_of(server))
        rows = sum(exported.rows for exported in manifest.types.values())
        files = sum(len(exported.files) for exported in manifest.types.values())
        stage.result(
            f"{rows} objects of {len(manifest.types)} types in {files} Parquet files, and a manifest"
        )


@contextlib.contextmanager
def validated(stage: DemoStage, folder: Path, report: Path) -> "Iterator[Validation]":
    """Validate an export, and write the report.

    Args:
        stage: where it is shown.
        folder: of the export.
        report: the file.

    Yields:
        What was found.
    """
    from mqdssm.pipeline.report import write_report
    from mqdssm.pipeline.validate.run import validation

    with contextlib.ExitStack() as stack:
        with stage.step("Validate the export, and write a report"):
            stage.command(f"mqdssm validate {folder.name} --report {report.name}")
            result = stack.enter_context(validation(folder, engine=EngineName.LOCAL))
            stage.table(("rule", "object", "what is wrong"), _samples(result))
            summary = result.summary
            bad = sum(1 for rule in summary.rules if rule.count)
            stage.result(f"{summary.count} findings of {bad} rules; {len(summary.rules)} rules were applied")
            write_report(report, summary, result.findings, result.sets)
            stage.result(f"the report has {report.stat().st_size // 1000} KB, and needs no network")
        yield result


def is_same_on_spark(stage: DemoStage, server: "OpenLdapServer", folder: Path, result: "Validation") -> bool:
    """Return True if Spark exports the same files and finds the same findings.

    Args:
        stage: where it is shown.
        server: the directory, unchanged since.
        folder: of the export by the local engine.
        result: what its validation found.
    """
    from mqdssm.pipeline.export.run import export as write
    from mqdssm.pipeline.manifest import Manifest
    from mqdssm.pipeline.validate.run import validation
    from mqdssm.spark.runner import RETRIES
    from mqdssm.spark.session import spark_session

    again = folder.with_name(f"{folder.name}-spark")
    with stage.step("The same export and validation on Spark"):
        stage.command(f"mqdssm export --type all --to {again.name} --engine spark")
        with spark_session("mqdssm demo", brief=True, conf=RETRIES):  # one for both
            write(server.url, OBJECTS, again, engine=EngineName.SPARK, **login_of(server))
            mine, other_digests = (_digests(Manifest.load(path)) for path in (folder, again))
            stage.command(f"mqdssm validate {again.name} --engine spark")
            with validation(again, engine=EngineName.SPARK) as other:
                has_same_findings = list(result.findings) == list(other.findings)
        same = sum(mine[path] == other_digests.get(path) for path in mine)
        is_same = mine == other_digests and has_same_findings
        stage.result(f"{same} of {len(mine)} files are the same, byte by byte")
        stage.result(f"{result.summary.count} findings, {'all' if has_same_findings else 'not'} the same")
    return is_same


def _digests(manifest: "Manifest") -> dict[str, str]:
    """Return the digest of each file of an export."""
    return {file.path: file.sha256 for exported in manifest.types.values() for file in exported.files}


def _samples(result: "Validation") -> "Iterator[tuple[str, str, str]]":
    """Yield the first finding of a few rules from all over the list."""
    bad = [rule for rule in result.summary.rules if rule.count]
    for rule in bad[:: max(1, len(bad) // SHOWN_OF_RULES)][:SHOWN_OF_RULES]:
        sample = rule.samples[0]
        yield (
            sample.rule,
            sample.guid or sample.type if sample.dn is None else _brief(sample.dn),
            sample.message,
        )


def _brief(dn: str) -> str:
    """Return the names of an object and its parents, without containers."""
    from mqdssm.model.dn import DN

    names = [value for ((kind, value),) in DN.parse(dn).rdns[:3] if kind.lower() == "cn"]
    return " < ".join(name for name in names if name not in CONTAINERS)
