"""Whole commands on 5,000 queues, on both engines: [inventory-small], [diff-small]."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.harness import Goal, Outcome, Skipped, interleaved
from benchmarks.world import World
from mqdssm.errors import ConfigError

GOAL: Final = 8
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


@contextmanager
def two_enterprises(queues: int) -> Iterator[Path]:
    """Folders ``a`` and ``b`` with MQIS tables that differ in a few labels.

    Raises:
        Skipped: there is no Spark here to compare with.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mqdssm.samples.forms import SampleForm
    from mqdssm.samples.generate import generate
    from mqdssm.samples.plan import Plan
    from mqdssm.spark.session import check_spark

    try:
        check_spark()
    except ConfigError as error:
        raise Skipped(str(error)) from error
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = Plan(sites=5, machines=queues // 20, queues=queues, users=queues // 80, seed=18)
        for side in ("a", "b"):
            generate(plan, folder / side, SampleForm.MQIS)
        table = pq.read_table(folder / "b" / "Queue.parquet")
        labels = ["another"] * OTHERS + table["PROPID_Q_LABEL"].to_pylist()[OTHERS:]
        place = table.schema.get_field_index("PROPID_Q_LABEL")
        changed = table.set_column(place, table.schema.field(place), pa.array(labels, pa.string()))
        pq.write_table(changed, folder / "b" / "Queue.parquet")
        yield folder


def command(folder: Path, engine: str, words: Sequence[str], code: int) -> None:
    """Run the command as a process of its own, and make sure that it did its work."""
    line = [sys.executable, "-m", "mqdssm.cli.main", *words, "--engine", engine, "-o", "json"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != code or f'"engine": "{engine}"' not in done.stdout:
        raise AssertionError(f"{' '.join(words)} gave {done.returncode}: {done.stderr}")


def _measured(goal: Goal, words: Sequence[str], code: int, *, quick: bool) -> Outcome:
    queues = QUICK_QUEUES if quick else QUEUES
    with two_enterprises(queues) as folder:
        timing = interleaved(
            lambda: command(folder, "local", words, code),
            lambda: command(folder, "spark", words, code),
            1 if quick else RUNS,
            warm=0 if quick else 1,
        )
    return timing.speed(goal, queues, "queues")


def inventory_small(world: World, *, quick: bool) -> Outcome:
    del world
    with tempfile.TemporaryDirectory() as name:
        page = ("--html", str(Path(name) / "page.html"))
        return _measured(INVENTORY, ("inventory", "--mqis", "a", *page), 0, quick=quick)


def diff_small(world: World, *, quick: bool) -> Outcome:
    del world
    return _measured(DIFF, ("diff", "a", "b"), 1, quick=quick)


ROWS: Final = {INVENTORY: inventory_small, DIFF: diff_small}
