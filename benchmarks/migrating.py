"""A migration against loading what comes of it: [migrate-small]."""

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.comparing import SEED, command, login
from benchmarks.harness import Goal, Outcome, Timing, timed
from benchmarks.world import World
from mqdssm.directory.loading.items import TRANSACTION
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing import OpenLdapServer

MIGRATE: Final = Goal(
    name="migrate-small",
    title="2,000 machines and 5,000 queues: `mqdssm plan` and `mqdssm apply` in transactions of 500, "
    "both commands as a whole, all read back and compared",
    against="`ldapadd` of the same entries",
    goal=0.5,
    direction="at_least",
)
PLAN: Final = EnterprisePlan(sites=5, machines=2_000, queues=5_000, users=0, seed=SEED)
QUICK: Final = EnterprisePlan(sites=2, machines=40, queues=100, users=0, seed=SEED)
RUNS: Final = 3


def migrate(tables: Path, folder: Path) -> float:
    """Seconds of planning and applying, to a slapd of its own with default durability."""
    with OpenLdapServer() as server:
        variables = login(server)

        def work() -> None:
            made = ("plan", str(tables), "--create-computers", "--to", "plan")
            command(folder, made, variables=variables)
            command(folder, ("apply", "plan", "--transactions", str(TRANSACTION)), variables=variables)

        return timed(work)


def write_entries(tables: Path, folder: Path) -> list[Path]:
    """Write the entries that the migration adds as files for ``ldapadd``, in the order of loading."""
    words = ("plan", str(tables), "--create-computers", "--to", "for-ldif", "--to-ldif", "ldif")
    with OpenLdapServer(durable=False) as server:
        command(folder, words, variables=login(server))
    return sorted((folder / "ldif").glob("*.ldif"))


def add(files: list[Path]) -> float:
    """Seconds of adding the entries to another such slapd."""
    with OpenLdapServer() as server:
        line = ["ldapadd", "-x", "-H", server.url, "-D", server.user, "-y", f"{server.folder}/password"]

        def work() -> None:
            for file in files:
                subprocess.run([*line, "-f", str(file)], check=True, stdout=subprocess.DEVNULL)

        return timed(work)


def migrate_small(world: World, *, quick: bool) -> Outcome:
    """Both sides in turn, each run on servers of its own."""
    del world
    plan = QUICK if quick else PLAN
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        tables = Path(name) / "tables"
        generate(plan, tables, SampleForm.MQIS)
        files = write_entries(tables, Path(name))
        for run in range(1 if quick else RUNS):
            folder = Path(name) / str(run)
            folder.mkdir()
            sides = [(ours, lambda: migrate(tables, folder)), (theirs, lambda: add(files))]  # noqa: B023  called here
            for times, side in sides if run % 2 else reversed(sides):
                times.append(side())
    return Timing(tuple(ours), tuple(theirs)).speed(
        MIGRATE, plan.machines + plan.queues, "machines and queues"
    )


ROWS: Final = {MIGRATE: migrate_small}
