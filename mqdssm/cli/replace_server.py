"""``mqdssm replace-server``: plan to replace a server that keeps its GUIDs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import ExitCode
from mqdssm.cli.migrate import ToLdif
from mqdssm.cli.output import SAMPLE_MAX
from mqdssm.cli.pipeline_options import login_of
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.pipeline.replacement import Replacement

COLUMNS: Final = ("queue", "path name", "new path name")

Old = Annotated[str, typer.Argument(metavar="OLD", help="Name of the computer that is replaced.")]
New = Annotated[
    str, typer.Argument(metavar="NEW", help="Name of the new computer; OLD again if it keeps its name.")
]
To = Annotated[Path, typer.Option("--to", metavar="PLAN", help="Folder of the plan: new or empty.")]
DeleteEmpty = Annotated[
    bool,
    typer.Option("--delete-empty", help="Delete a queue manager without queues that NEW has already."),
]


def replace_server(
    run: CommandRun, *, old: Old, new: New, to: To, delete_empty: DeleteEmpty = False, to_ldif: ToLdif = None
) -> int:
    r"""Plan to replace a server; its queue manager and queues keep their GUIDs.

    Nothing is changed: 'mqdssm apply PLAN' moves the queue manager from OLD to NEW, and PLAN/undo.ldif moves
    it back. PLAN/steps.md has the steps before and after. Install 'mqdssm\[pipeline]'.
    """
    run.connection_options()  # what cannot be is refused before anything is read
    from mqdssm.pipeline import replacement

    with run.output.progress("planning", counted=False):
        planned = replacement.replace_server(
            old, new, run.loaded.settings.url, to, delete_empty=delete_empty, **login_of(run)
        )
    _tell(run, planned, to)
    if to_ldif is not None:
        from mqdssm.pipeline.migrate.ldif import write_ldif

        write_ldif(planned.plan, planned.folder, to_ldif)
        run.output.note(f"LDIF in {to_ldif}, for ldapmodify -a or ldifde")
    return ExitCode.FINE


def _tell(run: CommandRun, planned: "Replacement", to: Path) -> None:
    from mqdssm.pipeline.replacement.run import PATHNAMES_NAME
    from mqdssm.pipeline.replacement.steps import STEPS_NAME

    output = run.output
    if output.is_json:
        output.document(_build_document(planned))
        return
    output.line(f"queue manager {planned.guid}")
    rows = ((str(queue.guid), queue.old, queue.new) for queue in planned.queues)
    if output.sample(COLUMNS, rows):
        output.note(f"more than {SAMPLE_MAX}: all of them are in {to / PATHNAMES_NAME}")
    applying = (f"mqdssm apply {to}",) if planned.plan.levels else ()
    for title, steps in (("Before", planned.before), ("Then", applying), ("After", planned.after)):
        if not steps:
            continue
        output.line("")
        output.line(f"{title}:")
        for number, step in enumerate(steps, 1):
            output.line(f"{number}. {step}")
    for note in planned.notes:
        output.note(note)
    output.line("")
    output.line(_summarize_in_line(planned))
    output.note(f"the steps are in {to / STEPS_NAME}")
    if planned.plan.levels:
        output.note(f"the plan is in {to}; 'mqdssm apply {to}' does it")


def _summarize_in_line(planned: "Replacement") -> str:
    counts = {name: count for name, count in planned.plan.operations.items() if not name.endswith(" equal")}
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing to do"


def _build_document(planned: "Replacement") -> dict[str, Any]:
    return {
        "guid": str(planned.guid),
        "queues": [{"guid": str(queue.guid), "old": queue.old, "new": queue.new} for queue in planned.queues],
        "before": list(planned.before),
        "after": list(planned.after),
        "notes": list(planned.notes),
        "plan": planned.plan.model_dump(mode="json"),
    }


app = declare_command(
    replace_server,
    examples=(
        "mqdssm replace-server srv01 srv02 --to plan --connection lab",
        "mqdssm replace-server srv01 srv02 --to plan --connection lab --delete-empty",
        "mqdssm replace-server srv01 srv01 --to plan --connection lab",
    ),
)
