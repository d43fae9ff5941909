"""Steps of ``mqdssm demo``, from accounts and tables to a validation.

Export and validation run on both engines.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.cli.demo.stage import DemoStage, login_of
from mqdssm.cli.export import OBJECTS
from mqdssm.cli.migrate import APPLIED_COUNTS, count_rows
from mqdssm.cli.objects import display
from mqdssm.cli.objects.arguments import CommandType
from mqdssm.cli.options import EngineName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject
    from mqdssm.pipeline.manifest import Manifest
    from mqdssm.pipeline.migrate.applying import Migrated
    from mqdssm.pipeline.validate.run import Validation
    from mqdssm.samples.generate import WrittenSample
    from mqdssm.samples.plan import EnterprisePlan
    from mqdssm.samples.planted_outcomes import PlantedOutcomes
    from mqdssm.testing.openldap import OpenLdapServer

PLAN: Final = "plan"
SID_MAP: Final = "sids.csv"
SHOWN_REJECTS: Final = 6
_GUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def make_accounts(
    stage: DemoStage, server: "OpenLdapServer", plan: "EnterprisePlan", users: int, sid_map: Path
) -> None:
    """Create an account for every user in the new domain, and write the SID map.

    Args:
        stage: where it is shown.
        server: the directory, without users.
        plan: the enterprise.
        users: how many it has, those that were planted among them.
        sid_map: file of old SIDs and new names.
    """
    from mqdssm.samples import elements

    with stage.step("The users have new accounts: their SIDs are others now"):
        stage.call("server.add_user(name)      # for each of them")
        lines = []
        for number in range(users):
            name = elements.make_user_name(plan, number)
            server.add_user(name)
            lines.append(f"{plan.make_user_sid(number)},{name}\n")
        sid_map.write_text("".join(lines), encoding="ascii")
        stage.result(f"{users} users; {sid_map.name} says which old SID is whose: {lines[0].strip()} …")


def migrate(stage: DemoStage, server: "OpenLdapServer", folder: Path, tables: Path) -> "Migrated":
    """Migrate the tables, and verify the result.

    Args:
        stage: where it is shown.
        server: the directory.
        folder: with the map of SIDs; the plan is written there.
        tables: of MQIS.

    Raises:
        ConfigError: something is in the way in the directory.
    """
    from mqdssm.errors import ConfigError
    from mqdssm.pipeline.migrate.applying import migrate as carry_over
    from mqdssm.pipeline.migrate.planning import PlanRequest
    from mqdssm.pipeline.migrate.report import read_rejects

    with stage.step("Migrate the tables into the directory, and verify"):
        stage.command(f"mqdssm migrate {tables.name} --to {PLAN} --create-computers --sid-map {SID_MAP}")
        request = PlanRequest(source=str(tables), create_computers=True, sid_map=folder / SID_MAP)
        result = carry_over(request, server.url, folder / PLAN, engine=EngineName.LOCAL, **login_of(server))
        if result.report is None:
            raise ConfigError(f"the plan cannot be applied: {result.plan.refused}")
        stage.table(APPLIED_COUNTS, count_rows(result.report))
        some = sorted(read_rejects(folder / PLAN), key=lambda reject: (reject.table.name, reject.row))
        if some:
            stage.table(
                ("table", "row", "column", "why it was rejected"),
                (
                    (reject.table.name, str(reject.row), reject.columns, reject.reason)
                    for reject in _spread(some)
                ),
            )
        stage.result(f"all that was written was read back and compared: {result.report.last_line}")
        stage.result(f"{PLAN}/rejects has every rejected row with its reason, {PLAN}/undo.ldif undoes it all")
    return result


def _spread(some: Sequence[Any]) -> Iterator[Any]:
    """Yield a few items from all over a list."""
    yield from some[:: max(1, len(some) // SHOWN_REJECTS)][:SHOWN_REJECTS]


def compare_with_planted(
    stage: DemoStage, migrated: "Migrated", validation: "Validation", folder: Path, tables: Path
) -> bool:
    """Compare rejects and findings with the planted defects.

    Args:
        stage: where it is shown.
        migrated: the migration.
        validation: what the validation of the directory found.
        folder: with the plan.
        tables: with the list of what was planted.

    Returns:
        True if all defects are accounted for, nothing else is wrong and nothing was lost.
    """
    with stage.step("Compare what was found with what was planted"):
        outcome = _trace_defects(migrated, validation, folder / PLAN, tables)
        fates = (
            ("rejected, with a reason", outcome.rejected),
            ("migrated, and found by the validation", outcome.reported),
            ("a value left out, and listed as not carried", outcome.left_out),
            ("a time that the directory writes by itself", outcome.made_good),
            ("nobody noticed", len(outcome.missed)),
        )
        stage.table(("what was planted", "objects"), ((name, str(count)) for name, count in fates))
        stage.result(
            f"{outcome.planted} objects were broken on purpose: {len(outcome.missed)} missed, "
            f"{len(outcome.unplanted)} found that nobody planted"
        )
        stage.result(f"{outcome.followed} rejects and findings follow from these, as links to rejected sites")
        for finding in (*outcome.missed, *outcome.unplanted):
            stage.result(f"{finding.rule}: {finding.type} {finding.guid or finding.dn}")
    report = migrated.report
    return outcome.is_settled and report is not None and not (report.stopped or report.lost_count)


def _trace_defects(
    migrated: "Migrated", validation: "Validation", plan: Path, tables: Path
) -> "PlantedOutcomes":
    from mqdssm.model.dn import normalize
    from mqdssm.pipeline.migrate.report import read_left_out, read_places, read_rejects
    from mqdssm.samples.faults import Truth, read_truth
    from mqdssm.samples.planted_outcomes import Arrived, RejectedRow, follow_planted

    where = read_places(migrated.plan, plan)
    rejected = [
        RejectedRow(
            reject.table.type_name or reject.table.name,
            reject.guid,
            frozenset(_GUID.findall(" ".join(reject.values.values()))) - {reject.guid or ""},
            reject.reason,
        )
        for reject in read_rejects(plan)
    ]
    findings = []
    for finding in validation.findings:
        guid = finding.guid if finding.dn is None else where.get(normalize(finding.dn), finding.guid)
        findings.append(Truth(finding.rule, finding.type, guid, None))
    arrived = Arrived(rejected, frozenset(read_left_out(plan)), frozenset(where.values()), findings)
    return follow_planted(read_truth(tables), arrived)


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
def validate_export(stage: DemoStage, folder: Path, report: Path) -> "Iterator[Validation]":
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
            stage.table(("rule", "object", "what is wrong"), _select_samples(result))
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
            mine, other_digests = (_list_digests(Manifest.load(path)) for path in (folder, again))
            stage.command(f"mqdssm validate {again.name} --engine spark")
            with validation(again, engine=EngineName.SPARK) as other:
                has_same_findings = list(result.findings) == list(other.findings)
        same = sum(mine[path] == other_digests.get(path) for path in mine)
        is_same = mine == other_digests and has_same_findings
        stage.result(f"{same} of {len(mine)} files are the same, byte by byte")
        stage.result(f"{result.summary.count} findings, {'all' if has_same_findings else 'not'} the same")
    return is_same


def _list_digests(manifest: "Manifest") -> dict[str, str]:
    """Return the digest of each file of an export."""
    return {file.path: file.sha256 for exported in manifest.types.values() for file in exported.files}


def _select_samples(result: "Validation") -> "Iterator[tuple[str, str, str]]":
    """Yield the first finding of a few rules from all over the list."""
    bad = [rule for rule in result.summary.rules if rule.count]
    for rule in bad[:: max(1, len(bad) // SHOWN_OF_RULES)][:SHOWN_OF_RULES]:
        sample = rule.samples[0]
        yield (
            sample.rule,
            sample.guid or sample.type if sample.dn is None else _shorten_dn(sample.dn),
            sample.message,
        )


def _shorten_dn(dn: str) -> str:
    """Return the names of an object and its parents, without containers."""
    from mqdssm.model.dn import DN

    names = [value for ((kind, value),) in DN.parse(dn).rdns[:3] if kind.lower() == "cn"]
    return " < ".join(name for name in names if name not in CONTAINERS)


SHOWN_ROWS: Final = 4


def search(stage: DemoStage, directory: "Directory") -> None:
    """Search some queues, filtered and sorted."""
    import mqdssm

    with stage.step("Search"):
        stage.call(
            "directory.search(\n    mqdssm.Queue,\n"
            '    [mqdssm.Filter("Transactional", "==", True), mqdssm.Filter("Quota", ">", 1_000_000)],\n'
            '    sort=[mqdssm.SortKey("Pathname")],\n)      # streamed, in pages'
        )
        filters = [mqdssm.Filter("Transactional", "==", True), mqdssm.Filter("Quota", ">", 1_000_000)]
        names = ("Pathname", "Label", "Quota", "PrivacyLevel")
        queues = list(
            directory.search(mqdssm.Queue, filters, sort=[mqdssm.SortKey("Pathname")], attributes=names)
        )
        stage.table(names, _format_objects(CommandType.QUEUE, queues[:SHOWN_ROWS], names))
        stage.result(f"{len(queues)} queues are transactional and may hold more than 1,000,000 KB")
        stage.command('mqdssm list queue --filter "Transactional==true" --filter "Quota>1000000"')


def change(stage: DemoStage, directory: "Directory", computer: str) -> None:
    """Create a queue, read it, change it and delete it again.

    Args:
        stage: where it is shown.
        directory: where it is done.
        computer: a machine with a queue manager.
    """
    import mqdssm

    path = rf"{computer}\demo.orders"
    with stage.step("Create a queue, and read it"):
        stage.call(
            f'guid = directory.create(mqdssm.Queue(pathname=r"{path}", label="Orders", quota=1000))\n'
            'directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))'
        )
        queue = mqdssm.Queue(pathname=path, label="Orders", quota=1000, transactional=True)
        identifier = directory.create(queue)
        by_guid = mqdssm.Filter("Identifier", "==", identifier)
        stored_queue = directory.read(mqdssm.Queue, by_guid)
        stage.table(("attribute", "value"), display.format_pairs(stored_queue, CommandType.QUEUE.table))
    with stage.step("Change it, and delete it"):
        stage.call('queue.label = "Paid orders"; directory.write(queue)      # writes Label, nothing else')
        stored_queue.label = "Paid orders"
        directory.write(stored_queue)
        again = directory.read(mqdssm.Queue, by_guid, attributes=["Label", "ModifyTime"])
        stage.result(f"Label is {again.label!r} now, changed {display.time_of(again.modify_time or 0)}")
        stage.call('mqdssm.Queue(label="x" * 200)')
        try:
            mqdssm.Queue(label="x" * 200)
        except ValueError as error:
            from mqdssm.cli.exits import words_of

            stage.result(f"refused before anything is sent: {words_of(error)}")
        stage.call("directory.delete(queue); directory.read(mqdssm.Queue, …)")
        directory.delete(mqdssm.Queue(pathname=path))
        try:
            directory.read(mqdssm.Queue, by_guid)
        except mqdssm.ObjectNotFound as error:
            stage.result(f"{type(error).__name__}, result {error.result.value}: {error}")


def _format_objects(kind: CommandType, objects: "list[Any]", names: tuple[str, ...]) -> list[list[str]]:
    rows = kind.table.find_rows(names)
    items: list[DirectoryObject] = objects
    return [display.format_cells(obj, rows) for obj in items]
