"""Plans of commands that change directory servers, with their steps."""

from collections.abc import Sequence
from typing import Annotated

import typer

from mqdssm.cli.run import CommandRun

DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and print the steps, and change nothing.")]


def print_plan(
    run: CommandRun, steps: Sequence[str], afterwards: Sequence[str], *, dry_run: bool = True
) -> None:
    """Print the steps of a command, and what is to be done afterwards.

    Args:
        run: the command.
        steps: its steps.
        afterwards: what the operator has to do then.
        dry_run: True if the steps were checked only.
    """
    words = "would do" if dry_run else "done"
    lines = [f"{words}: {step}" for step in steps] + [f"then: {text}" for text in afterwards]
    document = {"dry_run": dry_run, "steps": list(steps), "afterwards": list(afterwards)}
    run.output.answer(document, *lines)
