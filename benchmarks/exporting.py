"""Exports to Parquet: [export], [export-local], [export-growth].

Spark's session is started before anything is measured.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.comparing import check_spark_is_here
from benchmarks.growing import GOAL, GROWN, GROWN_QUICK, grown
from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import OWN_ATTRIBUTES, PAGE, QUEUE_FILTER, Size, World, filled

EXPORT: Final = Goal(
    name="export",
    title="200,000 queues to Parquet with manifest: `mqdssm.pipeline.export.run.export`, Spark's start apart",
    against="ldapsearch -E pr=1000/noprompt > file",
    goal=0.75,
    direction="at_least",
)
LOCAL: Final = Goal(
    name="export-local",
    title="200,000 queues to Parquet with manifest: `mqdssm.pipeline.export.run.export`, local engine",
    against="ldapsearch -E pr=1000/noprompt > file",
    goal=0.9,
    direction="at_least",
)
GROWTH: Final = Goal(
    name="export-growth",
    title="time for each object, and largest memory of a worker, of 100,000 queues: the larger of both",
    against="of 10,000 queues",
    goal=GOAL,
    direction="at_most",
    quantity="time and memory",
)
SIZE: Final = Size(queues=200_000, queue_managers=2_000, hosts=2_000)
QUICK: Final = Size(queues=4_000, queue_managers=50, hosts=50)
PARTITIONS: Final = 1
"""The best setting on two cores: one for slapd, one for us."""


@dataclass(frozen=True, slots=True)
class Exporting:
    """A filled server and a folder for what is exported."""

    world: World
    folder: Path
    partitions: int
    engine: str

    def export(self) -> None:
        """Export all queues, and make sure that it is all of them."""
        from mqdssm.pipeline.export.run import export

        shutil.rmtree(self.folder, ignore_errors=True)
        server = self.world.server
        manifest = export(
            server.url,
            ["queue"],
            self.folder,
            partitions=self.partitions,
            engine=self.engine,
            tls="none",
            user=server.user,
            password=server.password,
            ca_file=server.ca_file,
        )
        if manifest.types["queue"].rows != self.world.size.queues or not manifest.consistent:
            raise AssertionError(f"{manifest.types['queue'].rows} queues were exported: no measurement")

    def ldapsearch(self) -> None:
        """The same queues, with what their columns are made of, into a file."""
        server, file = self.world.server, self.folder.with_suffix(".ldif")
        command = ["ldapsearch", "-x", "-LLL", "-H", server.url, "-D", server.user]
        command += ["-y", str(server.folder / "password"), "-E", f"pr={PAGE}/noprompt"]
        command += ["-b", self.world.root, QUEUE_FILTER, *OWN_ATTRIBUTES]
        with file.open("wb") as out:
            subprocess.run(command, check=True, stdout=out, env=os.environ | {"LDAPNOINIT": "1"})


@contextmanager
def exporting(size: Size, partitions: int, engine: str = "spark") -> Iterator[Exporting]:
    """A server of this size, and a session of Spark's if that is the engine.

    Raises:
        Skipped: there is no Spark here.
    """
    from mqdssm.spark.session import spark_session

    with ExitStack() as stack:
        if engine == "spark":
            check_spark_is_here()
            stack.enter_context(spark_session("mqdssm bench"))
        world = stack.enter_context(filled(size))
        yield Exporting(world, world.server.folder / "exported", partitions, engine)


def export_speed(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has a server of its own
    return _speed(EXPORT, "spark", quick=quick)


def export_local(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    return _speed(LOCAL, "local", quick=quick)


def _speed(goal: Goal, engine: str, *, quick: bool) -> Outcome:
    size = QUICK if quick else SIZE
    with exporting(size, PARTITIONS, engine) as made:
        timing = interleaved(made.export, made.ldapsearch, 1 if quick else 5, warm=1)
        outcome = timing.speed(goal, size.queues, "queues")
    return replace(outcome, remark=f"partitions: {PARTITIONS}")


def export_growth(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    small, large = GROWN_QUICK if quick else GROWN
    with ExitStack() as stack:
        made = {
            queues: stack.enter_context(exporting(replace(QUICK, queues=queues), PARTITIONS))
            for queues in (small, large)
        }
        work = {queues: one.export for queues, one in made.items()}
        return grown(GROWTH, work, 1 if quick else 7)


ROWS: Final = {EXPORT: export_speed, LOCAL: export_local, GROWTH: export_growth}
