"""Importing: [import]."""

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from typing import Final

from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import World

IMPORT: Final = Goal(
    name="import",
    title="`import mqdssm` in a new interpreter, compiled",
    against="import ldap3, pydantic",
    goal=1.3,
    direction="at_most",
    quantity="time",
)
THEIRS: Final = "import ldap3; from pydantic import BaseModel"
EVERYTHING: Final = "from mqdssm import *"
"""Public names load when they are first used: this is what all of them cost."""


def import_time(world: World, *, quick: bool) -> Outcome:
    del world
    runs = 3 if quick else 25
    with tempfile.TemporaryDirectory() as compiled:

        def python(code: str) -> None:
            settings = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
            subprocess.run(
                [sys.executable, "-c", code], check=True, env=settings | {"PYTHONPYCACHEPREFIX": compiled}
            )

        alone = interleaved(lambda: python("import mqdssm"), lambda: python(THEIRS), runs)
        everything = interleaved(lambda: python(EVERYTHING), lambda: python(THEIRS), runs)
    ours, theirs = statistics.median(everything.ours), statistics.median(everything.theirs)
    remark = (
        f"the public names load when they are first used; with all of them loaded it is "
        f"{ours * 1000:.0f} ms, {ours / theirs:.2f} times the yardstick ({theirs * 1000:.0f} ms)"
    )
    return replace(alone.duration(IMPORT), remark=remark)


ROWS: Final = {IMPORT: import_time}
