"""Migration of ``mqdssm demo``: MQIS tables with planted defects."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.cli.demo.stage import DemoStage, login_of
from mqdssm.cli.migrate.apply import COUNTS, count_rows
from mqdssm.cli.pipeline_options import EngineName

if TYPE_CHECKING:
    from mqdssm.pipeline.migrate.applying import Migrated
    from mqdssm.pipeline.validate.run import Validation
    from mqdssm.samples.migrated import PlantedOutcomes
    from mqdssm.samples.plan import EnterprisePlan
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
            name = elements.user_name(plan, number)
            server.add_user(name)
            lines.append(f"{plan.user_sid(number)},{name}\n")
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
    from mqdssm.pipeline.migrate.report import rejects

    with stage.step("Migrate the tables into the directory, and verify"):
        stage.command(f"mqdssm migrate {tables.name} --to {PLAN} --create-computers --sid-map {SID_MAP}")
        request = PlanRequest(source=str(tables), create_computers=True, sid_map=folder / SID_MAP)
        result = carry_over(request, server.url, folder / PLAN, engine=EngineName.LOCAL, **login_of(server))
        if result.report is None:
            raise ConfigError(f"the plan cannot be applied: {result.plan.refused}")
        stage.table(COUNTS, count_rows(result.report))
        some = sorted(rejects(folder / PLAN), key=lambda reject: (reject.table.name, reject.row))
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


def account(
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
        outcome = _accounts(migrated, validation, folder / PLAN, tables)
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


def _accounts(migrated: "Migrated", validation: "Validation", plan: Path, tables: Path) -> "PlantedOutcomes":
    from mqdssm.model.dn import normalize
    from mqdssm.pipeline.migrate.report import left_out, places, rejects
    from mqdssm.samples.faults import Truth, read_truth
    from mqdssm.samples.migrated import Arrived, RejectedRow, accounted

    where = places(migrated.plan, plan)
    rejected = [
        RejectedRow(
            reject.table.type_name or reject.table.name,
            reject.guid,
            frozenset(_GUID.findall(" ".join(reject.values.values()))) - {reject.guid or ""},
            reject.reason,
        )
        for reject in rejects(plan)
    ]
    findings = []
    for finding in validation.findings:
        guid = finding.guid if finding.dn is None else where.get(normalize(finding.dn), finding.guid)
        findings.append(Truth(finding.rule, finding.type, guid, None))
    arrived = Arrived(rejected, frozenset(left_out(plan)), frozenset(where.values()), findings)
    return accounted(read_truth(tables), arrived)
