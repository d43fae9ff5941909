"""docs/performance.md: written from a whole run, in the same step as results.json."""

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks.harness import FOLDER, Goal, Outcome, rounded

TRIED: Final = FOLDER / "tried.txt"
"""End of the page: the experiments, written by hand."""

_HEAD: Final = """# Performance

This page compares the speed of mqdssm with that of other programs. `make bench` writes it, together with
`benchmarks/results.json`; do not edit it. The absolute numbers depend on the machine, the ratios much less.

| row | measured | ours | yardstick | theirs | ratio | goal | runs | |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
_METHOD: Final = """
"ours" is mqdssm, and "yardstick" is the program that it is compared with. Both run in turn, on the same
slapd, over the same kind of connection, in the same run. The ratio is the ratio of the medians. The brackets
have the smallest and the largest ratio of two neighbouring runs. A ratio of speeds is ours divided by
theirs, with a goal "at least" (≥). Ratios of times and requests have a goal "at most" (≤).
ldap3 runs with its fastest options (`get_info=NONE`, `check_names=False`).
"""


def goal_text(goal: float, direction: str) -> str:
    """A goal as the table writes it."""
    return f"{'≥' if direction == 'at_least' else '≤'} {goal:g}"


def table_row(outcome: Outcome) -> str:
    """A row of the table."""
    one: Goal = outcome.goal
    spread = "" if outcome.spread is None else f" ({outcome.spread[0]:g} to {outcome.spread[1]:g})"
    cells = (
        one.name,
        one.title,
        outcome.ours,
        one.against,
        outcome.theirs,
        f"{rounded(outcome.ratio):g}{spread}",
        goal_text(one.goal, one.direction),
        str(outcome.runs),
        "met" if outcome.met else "**missed**",
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def rows_of(document: str) -> dict[str, tuple[float, str, int]]:
    """Row name -> ratio, goal and runs, as the document has them."""
    found = {}
    for line in document.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and (ratio := re.match(r"[0-9.e+]+(?= |$)", cells[5])):
            found[cells[0]] = (float(ratio.group()), cells[6], int(cells[7]))
    return found


def document(outcomes: Sequence[Outcome]) -> str:
    """The page."""
    parts = [_HEAD, "\n".join(table_row(one) for one in outcomes), "\n", _METHOD]
    remarks = [f"* [{one.goal.name}]: {one.remark}." for one in outcomes if one.remark]
    if remarks:
        parts.append("\n" + "\n".join(remarks) + "\n")
    parts += ["\n## Machine\n\n", *(f"* {line}\n" for line in machine())]
    parts += ["\n", TRIED.read_text(encoding="utf-8")]
    return "".join(parts)


def again(page: str, outcomes: Sequence[Outcome]) -> str:
    """The page with some rows measured anew; it says which, and when.

    Args:
        page: the page of a whole run.
        outcomes: of rows, old or new ones.
    """
    head, _, rest = page.partition("\n## Machine\n")
    for one in outcomes:
        head = _with_line(head, f"| {one.goal.name} | ", table_row(one), '\n\n"ours" is')
        begin = f"* [{one.goal.name}]: "
        if one.remark:
            head = _with_line(head, begin, f"{begin}{one.remark}.", "")
    facts = rest.partition("\n## ")[0].rstrip("\n")
    names = ", ".join(f"[{one.goal.name}]" for one in outcomes)
    note = f"* {names}: measured again in a run of their own, {machine()[0]}"
    return f"{head}\n## Machine\n{facts}\n{note}\n\n{TRIED.read_text(encoding='utf-8')}"


def _with_line(text: str, begin: str, line: str, before: str) -> str:
    """A text with the line that begins so replaced, or with one more before something, or at the end."""
    lines = text.split("\n")
    for number, one in enumerate(lines):
        if one.startswith(begin):
            lines[number] = line
            return "\n".join(lines)
    if before and before in text:
        return text.replace(before, f"\n{line}{before}", 1)
    return text.rstrip("\n") + f"\n{line}\n"


def machine() -> list[str]:
    """What it was measured on."""
    slapd = subprocess.run(["/usr/sbin/slapd", "-VV"], capture_output=True, text=True, check=False).stderr
    found = re.search(r"slapd ([\w.+~-]+)", slapd)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(f"{name} {version(name)}" for name in ("mqdssm", "ldap3", "pydantic"))
    return [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load at the end {os.getloadavg()[0]:.1f}",
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, {libraries}, slapd {found.group(1) if found else 'unknown'}",
    ]


def _processor() -> str:
    try:
        names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
