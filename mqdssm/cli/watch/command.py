"""``mqdssm watch``: print changes of the directory as they happen."""

import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mqdssm.cli import exits
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects.arguments import CommandType
from mqdssm.cli.output import say
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
from mqdssm.cli.watch.delivery import CommandRunner, LinePrinter
from mqdssm.cli.watch.lines import format_status, json_of, text_of
from mqdssm.cli.watch.termination import end_on_signals
from mqdssm.model.safe_text import make_visible

if TYPE_CHECKING:
    from mqdssm.errors import DirectoryError
    from mqdssm.events.watching.watch import Watch


class WatchEvent(StrEnum):
    """Events that can be selected."""

    EXISTING = "existing"
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


Kinds = Annotated[
    list[CommandType] | None,
    typer.Argument(metavar="[TYPE]...", help="Types of objects. Default: all."),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="State file: the next start continues from it, and no change is missed.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="ATTRIBUTE", help="Do not report changes of this attribute. Repeatable."
    ),
]
Events = Annotated[
    list[WatchEvent] | None,
    typer.Option("--event", help="Report only these events. Repeatable."),
]
Computers = Annotated[
    list[str] | None,
    typer.Option(
        "--computer",
        metavar="NAME",
        help="Report only queues and queue manager of this computer. Repeatable.",
    ),
]
Snapshot = Annotated[
    bool, typer.Option("--snapshot", help="At the first start, report all existing objects.")
]
Once = Annotated[
    bool, typer.Option("--once", help="Exit when all changes so far have been reported, for cron.")
]
Execute = Annotated[
    str | None,
    typer.Option(
        "--exec",
        metavar="COMMAND",
        help="Run this command for each change. It reads the change as JSON and confirms it with "
        "exit code 0.",
    ),
]
Tries = Annotated[
    int,
    typer.Option(
        "--tries", min=1, max=1000, metavar="COUNT", help="How often COMMAND is tried for a change."
    ),
]
Limit = Annotated[
    float,
    typer.Option("--time-limit", min=0.1, max=86_400.0, metavar="SECONDS", help="Time limit of COMMAND."),
]
Heartbeat = Annotated[
    float | None,
    typer.Option(
        "--heartbeat",
        min=0.1,
        max=86_400.0,
        metavar="SECONDS",
        help="With JSON output: interval of status lines while nothing changes.",
    ),
]


def watch(
    run: CommandRun,
    *,
    kinds: Kinds = None,
    state: StateOption = None,
    ignore: Ignore = None,
    event: Events = None,
    computer: Computers = None,
    snapshot: Snapshot = False,
    once: Once = False,
    command: Execute = None,
    tries: Tries = 5,
    time_limit: Limit = 300.0,
    heartbeat: Heartbeat = None,
) -> None:
    """Print creations, changes and deletions of objects as they happen.

    Changes by any program are printed, until Ctrl-C.
    Objects that exist at the first start are not printed. With a state file the next start continues where
    this one ended, and prints the changes made in between. JSON output has one document in each line.
    """
    elements = [kind.element for kind in (kinds or CommandType)]
    ignored = _check_ignored(ignore or (), elements)
    _check(run, state, snapshot=snapshot, once=once, command=command, heartbeat=heartbeat)
    with end_on_signals() as end:
        runner = None if command is None else CommandRunner(command, end, tries=tries, limit_s=time_limit)
        with LinePrinter() as printer:
            status = Status(run, printer, heartbeat_s=heartbeat, is_told=runner is None, is_once=once)
            with run.connect() as directory, convert_usage_problems():
                changes = directory.watch(
                    *elements,
                    state=state,
                    ignore=ignored,
                    events=[event_kind.value for event_kind in event or ()],
                    computers=computer or (),
                    snapshot=snapshot,
                    once=once,
                    on_ready=status.ready,
                    on_trouble=_warn_of_retry,
                    on_quiet=status.quiet,
                )
            with changes, convert_usage_problems():
                status.watch = changes
                end.on_signal(changes.stop)
                deliver = printer.deliver if runner is None else runner.deliver
                _pass_on(changes, deliver, is_json=run.output.is_json or runner is not None)


def _pass_on(changes: "Watch", deliver: Callable[[str], bool], *, is_json: bool) -> None:
    """Deliver changes one by one, and acknowledge each delivered one."""
    for change in changes:
        if not deliver(json_of(change) if is_json else make_visible(text_of(change))):
            return
        changes.commit()


class Status:
    """Printer of status lines: the watch is ready, or connected.

    Attributes:
        watch: the watch.
    """

    def __init__(
        self,
        run: CommandRun,
        printer: LinePrinter,
        *,
        heartbeat_s: float | None,
        is_told: bool,
        is_once: bool,
    ) -> None:
        self._run, self._printer, self._heartbeat_s = run, printer, heartbeat_s
        self._is_told, self._is_once = is_told, is_once
        self._due = 0.0
        self.watch: Watch | None = None

    def ready(self, url: str) -> None:
        """Print that all earlier changes were reported."""
        if not self._run.output.is_json:
            if not self._is_once:
                self._run.output.note(f"watching {url}: Ctrl-C ends it")
        elif self._is_told and self.watch is not None:
            self._printer.deliver(format_status(self.watch.stamp(), "ready", server=url))

    def quiet(self) -> None:
        """Print a heartbeat at intervals while the server is connected."""
        now = time.monotonic()
        if self._heartbeat_s is not None and self.watch is not None and now >= self._due:
            self._due = now + self._heartbeat_s
            self._printer.deliver(format_status(self.watch.stamp(), "heartbeat"))


def _check(
    run: CommandRun,
    state: Path | None,
    *,
    snapshot: bool,
    once: bool,
    command: str | None,
    heartbeat: float | None,
) -> None:
    """Raise UsageProblem for options by which no change would be printed.

    Raises:
        UsageProblem: there are some.
    """
    if once and state is None and not snapshot:
        raise UsageProblem("--once tells nothing without --state FILE or --snapshot")
    if heartbeat is not None and (command is not None or not run.output.is_json):
        raise UsageProblem("--heartbeat is for '--output json' without --exec")
    if command is None and sys.__stdout__ is None:
        raise UsageProblem("the standard output is closed: nobody would be told")


def _check_ignored(names: Sequence[str], kinds: Sequence[Any]) -> tuple[str, ...]:
    """Return the attributes whose changes are not reported.

    Raises:
        UsageProblem: a name that no watched element has.
    """
    from mqdssm.model.watching import LDAP_MARK

    known_names = {name for kind in kinds for name in kind.adm_names()}
    for name in names:
        if name not in known_names and not name.startswith(LDAP_MARK):
            raise UsageProblem(
                f"--ignore {name}: nothing that is watched has this attribute ('mqdssm schema show' has the "
                f"names; of attributes that are LDAP's alone: {LDAP_MARK}NAME)"
            )
    return tuple(names)


def _warn_of_retry(error: "DirectoryError", pause_s: float) -> None:
    say(f"warning: {exits.words_of(error)}; trying again in {pause_s:.1f} s")


app = declare_command(
    watch,
    examples=(
        "mqdssm watch",
        "mqdssm watch queue --state queues.state --output json",
        "mqdssm watch queue site --state all.state --once --exec './note-change'",
        "mqdssm watch -o json --ignore Security | jq -c 'select(.event == \"deleted\")'",
    ),
)
