"""Runs the examples of the documentation: Python blocks, and shell sessions of the language `console`."""

import contextlib
import doctest
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import SkipTest

from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

from support.programs.starting import MQDSSM, run

COMMAND_S: Final = 110  # longest time that one command of an example may take
ELLIPSIS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


_GUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def commands_of(session: str) -> list[tuple[str, str]]:
    """The commands of a shell session, each with the output that is shown below it."""
    commands: list[tuple[str, str]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        elif commands and commands[-1][0].endswith("\\"):
            commands[-1] = (commands[-1][0][:-1] + line.strip(), "")
        elif commands:
            command, shown = commands[-1]
            commands[-1] = (command, shown + line + "\n")
    return commands


def run_session(session: str, environment: Mapping[str, str], folder: Path) -> None:
    """Run the `mqdssm` commands of a session; each must succeed and print what is shown.

    A GUID that is shown first in an answer stands for the one that was printed, from there on.
    """
    guids: dict[str, str] = {}
    for written, answer in commands_of(session):
        command = _with_guids(written, guids)
        words = shlex.split(command, comments=True)
        assert words[0] == "mqdssm", f"not a command of ours, so not in a console block: {command}"
        ran = run(
            [*MQDSSM, *words[1:]],
            env={**os.environ, **environment, "COLUMNS": "120", "NO_COLOR": "1"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=COMMAND_S,
        )
        assert ran.returncode == 0, f"$ {command}\n{ran.stdout}{ran.stderr}"
        for one, printed in zip(_GUID.findall(answer), _GUID.findall(ran.stdout), strict=False):
            if one not in written:
                guids.setdefault(one, printed)
        shown = _with_guids(answer, guids)
        same = doctest.OutputChecker().check_output(shown, ran.stdout, ELLIPSIS)
        assert not shown.strip() or same, f"$ {command}\nshown:\n{shown}\nprinted:\n{ran.stdout}"


def _with_guids(text: str, guids: Mapping[str, str]) -> str:
    return _GUID.sub(lambda match: guids.get(match[0], match[0]), text)


def run_document(page: Path, namespace: dict[str, Any], stand_ins: Mapping[str, str], folder: Path) -> int:
    """Run every example of a page in a folder, in its order and one namespace; returns how many ran."""

    def console(example: Example) -> None:
        run_session(replaced(str(example.parsed), stand_ins), namespace["environment"], folder)

    python = PythonCodeBlockParser()
    text = replaced(page.read_text(encoding="utf-8"), stand_ins)
    document = Document(text, str(page))
    document.namespace.update(namespace)
    parsers: list[Callable[[Document], Any]] = [python, CodeBlockParser("console", console), SkipParser()]
    for parser in parsers:
        for region in parser(document):
            document.add(region)
    ran = 0
    for example in document.examples():
        try:
            with contextlib.chdir(folder):
                example.evaluate()
        except SkipTest:
            continue
        ran += 1
    return ran


def replaced(text: str, stand_ins: Mapping[str, str]) -> str:
    """The text with the addresses and names of a real server in the place of the documented ones."""
    pattern = re.compile("|".join(re.escape(word) for word in stand_ins))
    return pattern.sub(lambda match: stand_ins[match[0]], text)
