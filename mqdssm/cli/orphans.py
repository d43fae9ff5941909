"""``mqdssm orphans``: list what gone machines and sites left behind."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.migrate import watch_progress
from mqdssm.cli.output import SAMPLE_MAX
from mqdssm.cli.pipeline_options import login_of
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.pipeline.migrate.orphan_plan import OrphanResult

MIN_AGE_DAYS: Final = 7
ORPHANS: Final = ("orphan", "object", "reason", "depend on it", "a plan removes it")
RULES: Final = ("orphan", "what", "removed", "reason", "section", "reported by validate")

To = Annotated[
    Path | None,
    typer.Option("--to", help="Write a plan to this folder: new or empty.", metavar="PLAN"),
]
Age = Annotated[
    int,
    typer.Option(
        "--older-than",
        help="Remove only objects that were not changed for so many days; replication may be late.",
        metavar="DAYS",
        min=0,
    ),
]
ReadsEverything = Annotated[
    bool,
    typer.Option(
        "--reads-everything",
        help="State that this account may read the whole directory. OpenLDAP does not show it, Active "
        "Directory only for administrators; without it settings and links are listed, not removed.",
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Exit code 1 if there are orphans.")]
Explain = Annotated[bool, typer.Option("--explain", help="Print the kinds of orphans and exit.")]


def orphans(
    run: CommandRun,
    *,
    to: To = None,
    older_than: Age = MIN_AGE_DAYS,
    reads_everything: ReadsEverything = False,
    check: Check = False,
    explain: Explain = False,
) -> int:
    r"""List orphans: objects of MSMQ whose machine, site or parent is gone.

    Nothing is changed. With --to a plan is written that deletes those that are proven to be orphans: 'mqdssm
    apply PLAN --allow-deletes N' searches them again and applies it. Install 'mqdssm\[pipeline]'.
    """
    if explain:
        _print_rules(run)
        return ExitCode.FINE
    run.connection_options()  # what cannot be is refused before anything is read
    from mqdssm.pipeline.migrate.orphan_plan import find_orphans

    with watch_progress(run, "searching orphans") as watch:
        result = find_orphans(
            run.loaded.settings.url,
            to,
            min_age_days=older_than,
            reads_everything=reads_everything,
            watch=watch,
            **login_of(run),
        )
    _tell(run, result)
    if to is not None and result.plan is None:
        run.output.note("nothing can be removed: no plan was written")
    listing = result.listing
    return ExitCode.FINDINGS if check and (listing.removable or listing.undecided) else ExitCode.FINE


def _tell(run: CommandRun, result: "OrphanResult") -> None:
    output, listing = run.output, result.listing
    if output.is_json:
        for orphan in listing.orphans:
            output.json_line(json.dumps({"what": "orphan", **orphan.record()}, ensure_ascii=False))
        output.json_line(json.dumps(_build_summary(result), ensure_ascii=False))
        return
    rows = (
        (
            orphan.rule.id,
            orphan.dn,
            orphan.reason,
            str(len(orphan.dependents) or ""),
            f"no: {orphan.obstacle}" if orphan.obstacle else "yes",
        )
        for orphan in listing.orphans
    )
    if output.sample(ORPHANS, rows):
        output.note(f"more than {SAMPLE_MAX}: --output json has all of them")
    for note in listing.notes:
        output.note(note)
    if result.plan is not None and result.folder is not None:
        for note in result.plan.notes:
            output.note(note)
        count = sum(result.plan.deletes.values())
        output.note(
            f"the plan is in {result.folder}: 'mqdssm apply {result.folder} --allow-deletes {count}' does it"
        )
    output.line(_summarize_in_line(result))


def _summarize_in_line(result: "OrphanResult") -> str:
    listing = result.listing
    if not listing.orphans:
        return "no orphans"
    removable, undecided = len(listing.removable), len(listing.undecided)
    parts = [f"{removable} orphans that a plan can remove"]
    parts += [f"{undecided} that are not proven or have to wait"] if undecided else []
    others = len(listing.orphans) - removable - undecided
    parts += [f"{others} objects to look at"] if others else []
    return ", ".join(parts)


def _build_summary(result: "OrphanResult") -> dict[str, Any]:
    listing = result.listing
    return {
        "what": "summary",
        "removable": len(listing.removable),
        "undecided": len(listing.undecided),
        "counts": dict(listing.counts),
        "notes": list(listing.notes),
        "plan": None if result.folder is None else str(result.folder),
        "deletes": 0 if result.plan is None else sum(result.plan.deletes.values()),
    }


def _print_rules(run: CommandRun) -> None:
    from mqdssm.pipeline.orphans.rules import ORPHAN_RULES

    if run.output.is_json:
        records = (
            {
                "rule": rule.id,
                "what": rule.defect,
                "removes": rule.removes,
                "reason": rule.why,
                "section": rule.section,
                "validation": rule.validation,
            }
            for rule in ORPHAN_RULES
        )
        run.output.json_array(map(json.dumps, records))
        return
    run.output.rows(
        RULES,
        (
            (rule.id, rule.defect, "yes" if rule.removes else "no", rule.why, rule.section, rule.validation)
            for rule in ORPHAN_RULES
        ),
    )


app = declare_command(
    orphans,
    examples=(
        "mqdssm orphans --connection lab",
        "mqdssm orphans --connection lab --reads-everything --to plan",
        "mqdssm apply plan --connection lab --allow-deletes 12",
        "mqdssm orphans --explain",
    ),
)
