"""Exports to Parquet: [export], [export-growth]. Spark's session is started before anything is measured."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.harness import Goal, Outcome, Skipped, interleaved
from benchmarks.world import OWN_ATTRIBUTES, PAGE, QUEUE_FILTER, Size, World, filled
from mqdssm.errors import ConfigError

EXPORT: Final = Goal(
    name="export",
    title="200,000 queues to Parquet with manifest: `mqdssm.spark.export.export`, Spark's start apart",
    against="ldapsearch -E pr=1000/noprompt > file",
    goal=0.75,
    direction="at_least",
)
GROWTH: Final = Goal(
    name="export-growth",
    title="time for each object, and largest memory of a worker, of 100,000 queues: the larger of both",
    against="of 10,000 queues",
    goal=1.25,
    direction="at_most",
    quantity="time and memory",
)
SIZE: Final = Size(queues=200_000, queue_managers=2_000, hosts=2_000)
QUICK: Final = Size(queues=4_000, queue_managers=50, hosts=50)
GROWN: Final = (10_000, 100_000)
GROWN_QUICK: Final = (1_000, 4_000)
PARTITIONS: Final = 2
"""The best setting on two cores."""


@dataclass(frozen=True, slots=True)
class Exporting:
    """A filled server and a folder for what is exported."""

    world: World
    folder: Path
    partitions: int

    def export(self) -> None:
        """Export all queues, and make sure that it is all of them."""
        from mqdssm.spark.export import export

        shutil.rmtree(self.folder, ignore_errors=True)
        server = self.world.server
        manifest = export(
            server.url,
            ["queue"],
            self.folder,
            partitions=self.partitions,
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
def exporting(size: Size, partitions: int) -> Iterator[Exporting]:
    """A server of this size, and a session of Spark's.

    Raises:
        Skipped: there is no Spark here.
    """
    from mqdssm.spark.session import check_spark, spark_session

    try:
        check_spark()
    except ConfigError as error:
        raise Skipped(str(error)) from error
    with filled(size) as world, spark_session("mqdssm bench"):
        yield Exporting(world, world.server.folder / "exported", partitions)


def export_speed(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has a server of its own
    size = QUICK if quick else SIZE
    with exporting(size, PARTITIONS) as made:
        timing = interleaved(made.export, made.ldapsearch, 1 if quick else 5, warm=1)
        outcome = timing.speed(EXPORT, size.queues, "queues")
    return replace(outcome, remark=f"{PARTITIONS} partitions")


def export_growth(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    runs = 1 if quick else 3
    seconds, memory = [], []
    small, large = GROWN_QUICK if quick else GROWN
    for queues in (small, large):
        with exporting(replace(QUICK, queues=queues), 1) as made:
            made.export()
            seconds.append(median(_timed(made) for _ in range(runs)) / queues)
            memory.append(_largest_worker())
    time_ratio, memory_ratio = seconds[1] / seconds[0], memory[1] / memory[0]
    return Outcome(
        GROWTH,
        max(time_ratio, memory_ratio),
        runs,
        f"{seconds[1] * 1e6:,.0f} µs an object, {memory[1]:,.0f} MB",
        f"{seconds[0] * 1e6:,.0f} µs an object, {memory[0]:,.0f} MB",
        remark=f"time {time_ratio:.2f}, memory {memory_ratio:.2f}",
    )


def _timed(made: Exporting) -> float:
    begin = time.perf_counter()
    made.export()
    return time.perf_counter() - begin


def _largest_worker() -> float:
    """The largest resident memory that a worker of Spark's below this process has had, in MB."""
    sizes = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"pyspark.daemon" in command and _is_below_us(status.parent):
                text = status.read_text()
                sizes.append(int(text.partition("VmHWM:")[2].split()[0]) / 1024)
        except (OSError, IndexError):
            continue  # it has just ended
    if not sizes:
        raise AssertionError("no worker of Spark's was found: no measurement")
    return max(sizes)


def _is_below_us(process: Path) -> bool:
    while process.name not in {"0", "1"}:
        if process.name == str(os.getpid()):
            return True
        process = Path("/proc") / process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
    return False


ROWS: Final = {EXPORT: export_speed, GROWTH: export_growth}
