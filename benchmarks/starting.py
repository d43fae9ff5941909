"""Processor time of a small validation, from the start of its program to the end: [validate-start]."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.comparing import SEED, login
from benchmarks.harness import Goal, Outcome, Timing
from benchmarks.world import World
from mqdssm.samples.forms import LoadingMode, SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing import OpenLdapServer

START: Final = Goal(
    name="validate-start",
    title="processor time of `mqdssm validate` of an export with 50 objects, the whole command, compiled",
    against='`python -c "import pyarrow, numpy, ldap3, pydantic"`',
    goal=2.5,
    direction="at_most",
    quantity="processor time",
)
THEIRS: Final = (sys.executable, "-c", "import pyarrow, numpy, ldap3, pydantic")
MQDSSM: Final = (sys.executable, "-m", "mqdssm.cli.main")
PLAN: Final = EnterprisePlan(sites=2, machines=8, queues=26, users=4, seed=SEED)
"""About 50 objects: computers and settings are among them."""
OBJECTS: Final = 50
RUNS: Final = 15


def validate_start(world: World, *, quick: bool) -> Outcome:
    """Measure both sides in turn; a remark says what the same costs where the objects are in a directory."""
    del world
    runs = 3 if quick else RUNS
    with OpenLdapServer() as server, tempfile.TemporaryDirectory() as name:
        made = generate(PLAN, Path(name) / "made", SampleForm.LDIF, loader=LoadingMode.SLAPADD)
        server.load(*(Path(name) / "made" / file for file in made.files))
        variables = _compiled(Path(name) / "compiled") | login(server)
        exported = str(Path(name) / "exported")
        subprocess.run([*MQDSSM, "export", "--to", exported], check=True, capture_output=True, env=variables)
        sides = (
            partial(_processor_time, (*MQDSSM, "validate", exported), variables),
            partial(_processor_time, THEIRS, variables),
            partial(_processor_time, (*MQDSSM, "validate"), variables),
        )
        for side in sides:  # compiles what it imports
            side()
        times: tuple[list[float], ...] = ([], [], [])
        for _ in range(runs):
            for side, seconds in zip(sides, times, strict=True):
                seconds.append(side())
    ours, theirs, directory = times
    whole = statistics.median(directory)
    remark = (
        f"where the objects are in a directory, which is read first, it is {whole * 1000:.0f} ms, "
        f"{whole / statistics.median(theirs):.2f} times the yardstick"
    )
    return replace(Timing(tuple(ours), tuple(theirs)).duration(START), remark=remark)


def _compiled(folder: Path) -> dict[str, str]:
    """Variables of a program whose modules are compiled, without settings of this machine."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MQDSSM_")}
    others.pop("PYTHONDONTWRITEBYTECODE", None)
    return others | {"PYTHONPYCACHEPREFIX": str(folder)}


def _processor_time(line: Sequence[str], variables: Mapping[str, str]) -> float:
    """Run a program to its end; seconds of processor time of it and of those that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, check=True, capture_output=True, env=variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


ROWS: Final = {START: validate_start}
