"""Both ends of ``mqdssm demo``: an enterprise that is loaded as it is; export, validation, and a report."""

import contextlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.cli.demo_stage import Stage
from mqdssm.cli.export import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqdssm.samples.forms import SampleForm
    from mqdssm.samples.generate import Written
    from mqdssm.samples.plan import Plan
    from mqdssm.spark.validate import Validation
    from mqdssm.testing.openldap import OpenLdapServer

CONTAINERS: Final = frozenset({"msmq", "Computers", "Servers", "Sites", "Configuration"})
SHOWN_OF_RULES: Final = 6
"""Rules whose first finding is shown; the report has all of them."""


def make(stage: Stage, plan: "Plan", folder: Path, form: "SampleForm") -> "Written":
    """Make up the enterprise.

    Args:
        stage: where it is shown.
        plan: the enterprise.
        folder: new; it holds the list of what was planted afterwards.
        form: tables of MQIS, or LDIF for ``slapadd``.
    """
    from mqdssm.samples.forms import FAULTS_NAME, Loader, SampleForm
    from mqdssm.samples.generate import generate

    with stage.step("Make up an enterprise, with defects planted"):
        how = "ldif --loader slapadd" if form is SampleForm.LDIF else form.value
        stage.command(
            f"mqdssm generate --sites {plan.sites} --machines {plan.machines} --queues {plan.queues}"
            f" --seed {plan.seed} --format {how} --faults --to {folder.name}"
        )
        written = generate(plan, folder, form, loader=Loader.SLAPADD, faults=True)
        counts = ", ".join(f"{name} {count}" for name, count in written.objects.items())
        stage.result(f"with what the defects need beside it: {counts}")
        broken = sum(written.faults.values())
        stage.result(
            f"{broken} of them are broken, for {len(written.faults)} rules: {FAULTS_NAME} lists them"
        )
    return written


def load(stage: Stage, server: "OpenLdapServer", plan: "Plan", folder: Path) -> None:
    """Make the enterprise, and load it, where there is no Spark to migrate it with.

    Args:
        stage: where it is shown.
        server: the empty directory.
        plan: the enterprise.
        folder: new.
    """
    from mqdssm.samples.forms import SampleForm

    written = make(stage, plan, folder, SampleForm.LDIF)
    with stage.step("Load it into the directory"):
        stage.call(f"server.load({', '.join(repr(name) for name in written.files)})      # slapadd")
        server.load(*(folder / name for name in written.files))
        stage.result(f"{sum(written.objects.values())} objects are there")


def start_spark(stage: Stage, stack: ExitStack) -> None:
    """Start the one session that every step shares."""
    from mqdssm.spark.runner import RETRIES
    from mqdssm.spark.session import spark_session

    with stage.step("Start Spark on this machine"):
        stack.enter_context(spark_session("mqdssm demo", brief=True, conf=RETRIES))
        stage.result("one session for all that follows")


def export(stage: Stage, server: "OpenLdapServer", folder: Path) -> None:
    """Export what is in the directory.

    Args:
        stage: where it is shown.
        server: the directory.
        folder: new.
    """
    from mqdssm.spark.export import export as write

    with stage.step("Export all of it to Parquet"):
        stage.command(f"mqdssm export --type all --to {folder.name}")
        manifest = write(
            server.url, OBJECTS, folder, user=server.user, password=server.password, ca_file=server.ca_file
        )
        rows = sum(exported.rows for exported in manifest.types.values())
        files = sum(len(exported.files) for exported in manifest.types.values())
        stage.result(
            f"{rows} objects of {len(manifest.types)} types in {files} Parquet files, and a manifest"
        )


@contextlib.contextmanager
def validated(stage: Stage, folder: Path, report: Path) -> "Iterator[Validation]":
    """Validate an export, and write the report.

    Args:
        stage: where it is shown.
        folder: of the export.
        report: the file.

    Yields:
        What was found.
    """
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
