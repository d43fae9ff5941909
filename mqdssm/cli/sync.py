"""``mqdssm sync``: make the directory equal to a declaration."""

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.diff import SHOWN_MAX, describe_difference, format_differences
from mqdssm.cli.exits import ExitCode
from mqdssm.cli.migrate import explain_resuming, print_failures, watch_progress
from mqdssm.cli.pipeline_options import login_of
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.pipeline.sync.run import SyncResult

COLUMNS: Final = ("difference", "type", "object", "attribute", "declared", "in the directory")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Declaration, YAML: see docs/sync.md.")]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Change nothing; exit code 1 if the directory differs from the declaration."
    ),
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune", help="Delete queues that are not declared, of machines whose queues are declared."
    ),
]
Deletes = Annotated[
    int,
    typer.Option("--allow-deletes", help="Delete up to N queues with --prune.", metavar="N", min=0),
]
To = Annotated[
    Path | None,
    typer.Option(
        "--to",
        help="Folder of the plan and of the undo file: new or empty. Default: a folder named by the time, in "
        "the current one; with --check none.",
        metavar="PLAN",
    ),
]


def sync(
    run: CommandRun,
    *,
    file: File,
    check: Check = False,
    prune: Prune = False,
    allow_deletes: Deletes = 0,
    to: To = None,
) -> int:
    r"""Make the directory equal to a declaration of sites, queues, quotas and rights.

    Attributes and objects that FILE does not name stay as they are. A second run finds nothing to do.
    PLAN/undo.ldif undoes the changes. Exit code 1 if a change was refused or lost. Install
    'mqdssm\[pipeline]'.
    """
    run.connection_options()  # what cannot be is refused before anything is read
    from mqdssm.pipeline.sync import run as synchronization

    folder = to if to is not None or check else synchronization.choose_unused_folder()
    with explain_resuming(run, folder or Path()), watch_progress(run, "synchronizing") as watch:
        result = synchronization.sync(
            file,
            run.loaded.settings.url,
            folder,
            check=check,
            prune=prune,
            allow_deletes=allow_deletes,
            watch=watch,
            **login_of(run),
        )
    _tell(run, result)
    return ExitCode.FINE if result.is_fine else ExitCode.FINDINGS


def _tell(run: CommandRun, result: "SyncResult") -> None:
    output = run.output
    if output.is_json:
        for difference in result.differences:
            output.json_line(json.dumps(describe_difference(difference), ensure_ascii=False))
        output.json_line(json.dumps(_build_summary(result), ensure_ascii=False))
        return
    if result.differences:
        output.rows(COLUMNS, format_differences(islice(result.differences, SHOWN_MAX)))
        if len(result.differences) > SHOWN_MAX:
            more = len(result.differences) - SHOWN_MAX
            output.note(f"{more} more objects differ: --output json has all of them")
    if result.plan.refused is not None:
        output.note(f"the plan cannot be applied: {result.plan.refused}")
    if result.report is not None and result.folder is not None:
        print_failures(run, result.report, result.folder)
    elif result.folder is not None:
        output.note(f"the plan is in {result.folder}; 'mqdssm apply {result.folder}' does it")
    output.line(_summarize_in_line(result))


def _summarize_in_line(result: "SyncResult") -> str:
    if result.is_equal:
        return "nothing to do"
    counts = _count_kinds(result)
    parts = [f"{counts['missing']} missing", f"{counts['different']} different", f"{counts['extra']} extra"]
    words = f"{len(result.differences)} differences ({', '.join(parts)})"
    if result.report is None:
        return words
    return f"{words}: {'all removed' if result.report.is_fine else 'not all removed'}"


def _count_kinds(result: "SyncResult") -> dict[str, int]:
    from mqdssm.pipeline.diff.fields import ObjectDifferenceKind

    return {
        kind.value: sum(difference.kind is kind for difference in result.differences)
        for kind in ObjectDifferenceKind
    }


def _build_summary(result: "SyncResult") -> dict[str, Any]:
    report = result.report
    return {
        "what": "summary",
        **_count_kinds(result),
        "refused": result.plan.refused,
        "plan": None if result.folder is None else str(result.folder),
        "report": None if report is None else report.model_dump(mode="json"),
    }


app = declare_command(
    sync,
    examples=(
        "mqdssm sync queues.yaml --connection lab --check",
        "mqdssm sync queues.yaml --connection lab --prune --allow-deletes 5 --to plan",
    ),
)
