"""Runs the command line on a terminal of its own, and says what a person sees there at the end."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from support.programs.starting import MQDSSM, start

WAIT_S: Final = 60
ROWS: Final = 50

_TOKEN: Final = re.compile(
    r"\x1b\[(?P<private>\??)(?P<numbers>[0-9;]*)(?P<final>[A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|(?P<one>.)",
    re.DOTALL,
)


def in_terminal(
    args: Sequence[str],
    typed: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    columns: int = 80,
    times: int = 1,
    program: Sequence[str] = MQDSSM,
) -> tuple[int, str]:
    """Run a command on a terminal; type answers when their questions are seen so many times.

    Returns:
        The exit code, and everything that was sent to the terminal.
    """
    terminal, other_side = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    variables = {**os.environ, **environment, "TERM": "xterm"}
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), other_side)
    process = start([*program, *args], terminal=True, env=variables, **streams)
    os.close(other_side)
    sent, waiting, deadline = b"", dict(typed), time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                data = os.read(terminal, 65536)
            except OSError:  # Linux: the other side has gone
                break
            if not data:
                break
            sent += data
            for question in [one for one in waiting if sent.count(one.encode()) >= times]:
                os.write(terminal, waiting.pop(question).encode() + b"\n")
    finally:
        code = process.wait()
        os.close(terminal)
    return code, sent.decode(errors="replace")


def screen_of(sent: str, columns: int = 80) -> list[str]:
    """The lines that a terminal shows after it was sent this text, without blanks at their ends.

    Raises:
        ValueError: a control sequence that this terminal does not know.
    """
    lines: list[list[str]] = [[]]
    row = column = 0
    for match in _TOKEN.finditer(sent):
        character, final = match["one"], match["final"]
        if character == "\r":
            column = 0
        elif character == "\n":
            row += 1
        elif character is not None:
            if column == columns:
                row, column = row + 1, 0
            _put(lines, row, column, character)
            column += 1
        elif final is not None and not match["private"]:
            count = int(match["numbers"].split(";")[0] or 1) if final != "m" else 0
            match final:
                case "A":
                    row = max(row - count, 0)
                case "K":
                    _put(lines, row, column, " ")
                    lines[row] = [] if count == 2 else lines[row][:column]
                case "m":
                    pass  # colours
                case _:
                    raise ValueError(f"this terminal does not know {match[0]!r}")
    return ["".join(line).rstrip() for line in lines]


def _put(lines: list[list[str]], row: int, column: int, character: str) -> None:
    if not character.isprintable():
        raise ValueError(f"this terminal does not know {character!r}")
    while len(lines) <= row:
        lines.append([])
    line = lines[row]
    line.extend(" " * (column + 1 - len(line)))
    line[column] = character
