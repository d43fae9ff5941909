"""Every command line of `mqdssm` in the documentation, in messages and in its help is accepted."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from support.project.commands import commands, options_of_all_commands, parse
from support.project.source_tree import files, name, report, sources, texts

SUFFIXES: Final = {"docs": {".md", ".yaml", ".yml", ".service"}, "docker": {".sh", ".yaml", ""}}
PAGES: Final = [
    path
    for path in files()
    if name(path) in {"README.md", "Makefile"}
    or path.suffix in SUFFIXES.get(name(path).partition("/")[0], ())
]
INLINE = re.compile(r"`(mqdssm [^`\n]+)`")
LINE = re.compile(r"(?:^|[\s/=])mqdssm (?=[a-z-]+(?:\s|$))")
QUOTED = re.compile(r"'mqdssm ([^'\n]+)'")
EXAMPLE = re.compile(r"\[cyan\]mqdssm (.*)\[/\]")
OPERATORS = frozenset("|&;<>()")
LEADING_TO_IT: Final = re.compile(
    r"\s*(?:\$ |-? ?mqdssm |ExecStart=|&& |(?:sudo|docker|podman|ssh|kubectl) )"
)
EXAMPLE_OF_HACKING: Final = "count"
UsageError: Final[Any] = typer.BadParameter.__base__


def words_of(command_line: str) -> list[str]:
    """The words behind `mqdssm`, up to the shell's first operator; variables are replaced."""
    lexer = shlex.shlex(command_line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if OPERATORS.issuperset(word):
            break
        words.append("…" if word == "$@" else re.sub(r"^\$+\w+$", "1", word))
    return words


def command_lines(path: Path) -> Iterator[tuple[str, bool]]:
    """The command lines of a page behind `mqdssm`, and whether each is complete: one to type, no mention."""
    text = path.read_text(encoding="utf-8")
    for mention in INLINE.findall(text):
        yield mention.removeprefix("mqdssm "), False
    is_block = path.suffix != ".md"
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            is_block = not is_block
        elif is_block and LEADING_TO_IT.match(line) and (begin := LINE.search(line)):
            yield line[begin.end() :], True


def problem_of(command_line: str, *, is_complete: bool) -> str | None:
    """Why a command line would be refused; None: it would not.

    A mention may leave arguments out. Three dots stand for more arguments, a word in capitals for any value.
    """
    words = words_of(command_line)
    is_complete = is_complete and "…" not in words
    words = [word for word in words if word != "…"]
    if not words or words[0].isupper() or words[0] == EXAMPLE_OF_HACKING:
        return None
    if set(words) <= {"--install-completion", "--show-completion"}:  # act at once
        return None if set(words) <= options_of_all_commands() else "no such option"
    try:
        parse(words)
    except typer.Exit:
        return None  # --help
    except UsageError as error:
        kind, message = type(error).__name__, error.format_message()
        is_mention_of = kind in {"MissingParameter", "NoArgsIsHelpError"} or "requires an argument" in message
        is_any_value = kind == "BadParameter" and re.search(r"'[A-Z]+' is not", message)
        return None if is_any_value or (is_mention_of and not is_complete) else message or kind
    return None


def test_every_command_line_of_the_documentation_is_accepted() -> None:
    found = [(page, line, is_complete) for page in PAGES for line, is_complete in command_lines(page)]
    assert len(found) > 200
    assert {page.suffix for page, _, _ in found} >= {".md", ".sh", ".yaml"}
    report(
        [
            f"{name(page)}: mqdssm {line}: {problem}"
            for page, line, is_complete in found
            if (problem := problem_of(line, is_complete=is_complete))
        ]
    )


def test_every_command_line_in_a_message_is_accepted() -> None:
    found = [
        (path, line)
        for path in sources("mqdssm")
        for node in texts(path)
        for line in QUOTED.findall(str(node.value))
    ]
    assert len(found) > 10
    report(
        [
            f"{name(path)}: mqdssm {line}: {problem}"
            for path, line in found
            if (problem := problem_of(line, is_complete=False))
        ]
    )


def test_every_example_of_the_help_is_accepted() -> None:
    found = [
        line.replace("\\[", "[") for command in commands() for line in EXAMPLE.findall(command.epilog or "")
    ]
    assert len(found) > 80
    report(
        [
            f"mqdssm/cli: examples: mqdssm {line}: {problem}"
            for line in found
            if (problem := problem_of(line, is_complete=True))
        ]
    )


@pytest.mark.parametrize(
    ("command_line", "problem"),
    [
        ("lst queue", "No such command 'lst'"),
        ("list queue --flter Label==x", "No such option: --flter"),
        ("list pictures", "'pictures' is not one of"),
        ("export", "Missing option '--to'"),
        ("sandbox start a b", "unexpected extra argument"),
        ("enterprise init", "Missing argument 'DIR'"),
        ("generate --sites many --to x", "valid integer"),
    ],
)
def test_mistakes_are_noticed(command_line: str, problem: str) -> None:
    assert problem in (problem_of(command_line, is_complete=True) or "")
