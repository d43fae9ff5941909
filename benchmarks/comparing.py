"""Whole commands on 5,000 queues, on both engines.

Rows: [validate-small], [export-small], [inventory-small], [diff-small].
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Goal, Outcome, Skipped, Work, interleaved
from benchmarks.world import World
from mqdssm.errors import ConfigError
from mqdssm.testing import OpenLdapServer

GOAL: Final = 8
VALIDATE: Final = Goal(
    name="validate-small",
    title="`mqdssm validate` of a directory with 5,000 queues, the whole command, local engine",
    against="`--engine spark`",
    goal=GOAL,
    direction="at_least",
)
EXPORT: Final = Goal(
    name="export-small",
    title="`mqdssm export` of a directory with 5,000 queues, all types, the whole command, local engine",
    against="`--engine spark`",
    goal=GOAL,
    direction="at_least",
)
INVENTORY: Final = Goal(
    name="inventory-small",
    title="`mqdssm inventory --mqis` of 5,000 queues, with a page, the whole command, local engine",
    against="`--engine spark`",
    goal=GOAL,
    direction="at_least",
)
DIFF: Final = Goal(
    name="diff-small",
    title="`mqdssm diff` of MQIS tables with 5,000 queues and a copy with other labels, local engine",
    against="`--engine spark`",
    goal=GOAL,
    direction="at_least",
)
QUEUES: Final = 5_000
QUICK_QUEUES: Final = 500
RUNS: Final = 5
OTHERS: Final = 50
"""Queues that have another label in the copy: 1 percent."""
SEED: Final = 18
ENGINES: Final = ("local", "spark")
AS_JSON: Final = ("-o", "json")


def check_spark_is_here() -> None:
    """Make sure that Spark can run.

    Raises:
        Skipped: there is no Spark here to compare with.
    """
    from mqdssm.spark.session import check_spark

    try:
        check_spark()
    except ConfigError as error:
        raise Skipped(str(error)) from error


@contextmanager
def two_enterprises(queues: int) -> Iterator[Path]:
    """Folders ``a`` and ``b`` with MQIS tables that differ in a few labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mqdssm.samples.forms import SampleForm
    from mqdssm.samples.generate import generate
    from mqdssm.samples.plan import EnterprisePlan

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = EnterprisePlan(sites=5, machines=queues // 20, queues=queues, users=queues // 80, seed=SEED)
        for side in ("a", "b"):
            generate(plan, folder / side, SampleForm.MQIS)
        table = pq.read_table(folder / "b" / "Queue.parquet")
        labels = ["another"] * OTHERS + table["PROPID_Q_LABEL"].to_pylist()[OTHERS:]
        place = table.schema.get_field_index("PROPID_Q_LABEL")
        changed = table.set_column(place, table.schema.field(place), pa.array(labels, pa.string()))
        pq.write_table(changed, folder / "b" / "Queue.parquet")
        yield folder


@contextmanager
def sound_directory(queues: int) -> Iterator[OpenLdapServer]:
    """A slapd with a generated enterprise in which validation finds nothing."""
    from mqdssm.samples.forms import LoadingMode, SampleForm
    from mqdssm.samples.generate import generate
    from mqdssm.samples.plan import EnterprisePlan

    plan = EnterprisePlan(sites=5, machines=queues // 20, queues=queues, users=queues // 80, seed=SEED)
    with OpenLdapServer() as server, tempfile.TemporaryDirectory() as name:
        made = generate(plan, Path(name) / "made", SampleForm.LDIF, loader=LoadingMode.SLAPADD)
        server.load(*(Path(name) / "made" / file for file in made.files))
        yield server


def login(server: OpenLdapServer) -> dict[str, str]:
    """Variables by which a command finds a server: encrypted, as people use it."""
    return {
        "MQDSSM_URL": server.url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD": server.password,
        "MQDSSM_CA_FILE": server.ca_file,
    }


def command(
    folder: Path,
    words: Sequence[str],
    code: int = 0,
    *,
    engine: str = "local",
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a command as a process of its own, and return what it prints."""
    line = [sys.executable, "-m", "mqdssm.cli.main", *words, "--engine", engine]
    others = {name: value for name, value in os.environ.items() if not name.startswith("MQDSSM_")}
    others.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        line, cwd=folder, env={**others, **(variables or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode != code:
        raise AssertionError(f"{' '.join(words)} gave {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def command_on(engine: str, folder: Path, words: Sequence[str], code: int = 0, **more: Any) -> None:
    """Run a command whose answer says which engine it had, and make sure that it is this one."""
    printed = command(folder, words, code, engine=engine, **more)
    if f'"engine": "{engine}"' not in printed and f"engine: {engine}" not in printed:
        raise AssertionError(f"{' '.join(words)}: another engine than {engine}: this is no measurement")


def _compared(goal: Goal, ours: Work, theirs: Work, queues: int, *, quick: bool) -> Outcome:
    timing = interleaved(ours, theirs, 1 if quick else RUNS, warm=0 if quick else 1)
    return timing.speed(goal, queues, "queues")


def _of_tables(goal: Goal, words: Sequence[str], code: int, *, quick: bool) -> Outcome:
    check_spark_is_here()
    queues = QUICK_QUEUES if quick else QUEUES
    with two_enterprises(queues) as folder:
        ours, theirs = (partial(command_on, engine, folder, words, code) for engine in ENGINES)
        return _compared(goal, ours, theirs, queues, quick=quick)


def _of_directory(goal: Goal, words: Sequence[str], *, quick: bool) -> Outcome:
    check_spark_is_here()
    queues = QUICK_QUEUES if quick else QUEUES
    with sound_directory(queues) as server, tempfile.TemporaryDirectory() as name:

        def run(engine: str) -> None:
            shutil.rmtree(Path(name) / "exported", ignore_errors=True)
            command_on(engine, Path(name), words, variables=login(server))

        ours, theirs = (partial(run, engine) for engine in ENGINES)
        return _compared(goal, ours, theirs, queues, quick=quick)


def validate_small(world: World, *, quick: bool) -> Outcome:
    del world
    return _of_directory(VALIDATE, ("validate",), quick=quick)


def export_small(world: World, *, quick: bool) -> Outcome:
    del world
    return _of_directory(EXPORT, ("export", "--to", "exported", *AS_JSON), quick=quick)


def inventory_small(world: World, *, quick: bool) -> Outcome:
    del world
    with tempfile.TemporaryDirectory() as name:
        page = ("--html", str(Path(name) / "page.html"))
        return _of_tables(INVENTORY, ("inventory", "--mqis", "a", *page, *AS_JSON), 0, quick=quick)


def diff_small(world: World, *, quick: bool) -> Outcome:
    del world
    return _of_tables(DIFF, ("diff", "a", "b", *AS_JSON), 1, quick=quick)


ROWS: Final = {
    VALIDATE: validate_small,
    EXPORT: export_small,
    INVENTORY: inventory_small,
    DIFF: diff_small,
}
