"""The commands of `mqdssm` as typer declares them, and command lines parsed by them."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import typer

from mqdssm.cli import main

ROOT_COMMAND: Final[Any] = typer.main.get_command(main.app)


def commands(command: Any = ROOT_COMMAND) -> Iterator[Any]:
    """A command and all commands below it."""
    yield command
    names = main.MODULES if command is ROOT_COMMAND else getattr(command, "commands", {})
    for name in names:
        yield from commands(command.get_command(None, name))


def command_of(name: str) -> Any:
    """A command of the first level."""
    return ROOT_COMMAND.get_command(None, name)


@cache
def options_of_all_commands() -> frozenset[str]:
    """The options of `mqdssm` and of all its commands, as ``--url``."""
    return frozenset(
        option
        for command in commands()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts, "--help")
    )


def parse(words: Sequence[str]) -> None:
    """Parse a command line behind `mqdssm`, without running the command.

    Raises:
        click.UsageError: there is no such command or option, or a value that cannot be.
    """
    command, words = ROOT_COMMAND, list(words)
    context = command.make_context(main.NAME, words)
    while hasattr(command, "get_command"):
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, words, parent=context)
