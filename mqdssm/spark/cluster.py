"""Spark clusters: package for executors, and checks of modules and files."""

import contextlib
import importlib
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mqdssm.errors import ConfigError
from mqdssm.pipeline.runner import run_in_background
from mqdssm.pipeline.shared_folder import WitnessFile
from mqdssm.pipeline.spark_options import MASTER, MASTER_PORT, SparkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MASTER_WAIT_S: Final = 10.0
"""Seconds for a stand-alone master to accept a connection; Spark itself would try for a minute, silently."""
EXECUTOR_WAIT_S: Final = 300.0
"""Seconds for a cluster to give the first executor (images have to be fetched); Spark would wait for ever."""
NEEDED: Final = ("ldap3", "pyarrow", "numpy", "pydantic", "mqdssm.pipeline.export.worker")
"""Modules that executors must have; those of mqdssm are sent with the job."""
PROBES_EACH: Final = 4  # probes for each core: they are spread at random, and each costs milliseconds
_PROBES_MAX: Final = 1000
_POLL_S: Final = 0.5
_NOT_SENT: Final = frozenset({"__pycache__", "testing"})


def make_session_settings(on: SparkOptions, folder: Path) -> dict[str, str]:
    """Return Spark settings for a new session.

    Args:
        on: where Spark runs.
        folder: for the package that goes to executors.
    """
    settings = dict(on.conf)
    if on.master is not None:
        settings[MASTER] = on.master
    if on.is_cluster:
        files = [settings.get("spark.submit.pyFiles", ""), str(write_package_zip(folder))]
        settings["spark.submit.pyFiles"] = ",".join(filter(None, files))
    return settings


def check_master(on: SparkOptions) -> None:
    """Check that a stand-alone master listens.

    Raises:
        ConfigError: none of the masters does.
    """
    master = on.master or ""
    if not master.startswith("spark://"):
        return
    problems = []
    for host_port in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"spark://{host_port}")
            address = (parts.hostname or "", parts.port or MASTER_PORT)
            with socket.create_connection(address, timeout=MASTER_WAIT_S):
                return
        except (OSError, ValueError) as error:
            problems.append(f"{host_port}: {getattr(error, 'strerror', None) or error}")
    raise ConfigError(f"no master of Spark listens at {master} ({'; '.join(problems)})")


REGISTRATION: Final = "pyspark_mqdssm/__init__.py"
"""File in a wheel through which Spark finds the data source, see `mqdssm.spark.registration`."""


def write_package_zip(folder: Path) -> Path:
    """Write the package mqdssm into a zip file for executors.

    The file has pure Python, without the modules for tests.

    Args:
        folder: for the file.
    """
    root = Path(__file__).parents[2]
    target = folder / "mqdssm.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted((root / "mqdssm").rglob("*")):
            inside = path.relative_to(root)
            if path.is_file() and not _NOT_SENT.intersection(inside.parts):
                file.write(path, inside.as_posix())
        # for the data source's name; an installed wheel has the file only in this place
        installed = root / REGISTRATION
        file.write(
            installed if installed.exists() else Path(__file__).with_name("registration.py"), REGISTRATION
        )
    return target


def refuse_speculation(spark: "SparkSession") -> None:
    """Refuse a session with speculative execution.

    The copy of a task would wait for the files of the other.

    Raises:
        ConfigError: it is such a session.
    """
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise ConfigError("slow tasks would be started twice: set spark.speculation=false for this session")


def probe(spark: "SparkSession", on: SparkOptions, files: Sequence[Path] = ()) -> None:
    """Check that a cluster gives executors, with the packages and the files.

    Does nothing if workers run on this machine.

    Args:
        spark: the session.
        on: where it runs.
        files: that executors must see.

    Raises:
        ConfigError: the cluster gives no executor, or one lacks something.
    """
    if not on.is_cluster:
        return
    count = min(PROBES_EACH * spark.sparkContext.defaultParallelism, _PROBES_MAX)
    look = _look([WitnessFile.of(path) for path in files])
    with _limit_waiting(spark) as gave_up:
        try:
            rows = spark.range(0, count, 1, count).mapInArrow(look, "problem string").distinct().collect()
        except Exception:
            if not gave_up.is_set():
                raise
            raise ConfigError(
                f"the cluster gave no executor within {EXECUTOR_WAIT_S:.0f} s: see whether it has workers, "
                "and whether one has the memory and cores that are asked for (spark.executor.memory, "
                "spark.executor.cores)"
            ) from None
    problems = sorted(row["problem"] for row in rows)
    if problems:
        raise ConfigError(problems[0])


def _look(
    witnesses: Sequence[WitnessFile],
) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    def look(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        for _ in batches:
            problem = find_problem(witnesses)
            if problem is not None:
                yield pa.RecordBatch.from_pydict({"problem": [problem]})

    return look


def find_problem(witnesses: Sequence[WitnessFile]) -> str | None:
    """Return the reason why this process cannot do the work; None if it can."""
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            return (
                f"executor {socket.gethostname()} cannot import {name} ({error}): install what "
                "'mqdssm[spark]' needs where executors run, and name its Python with PYSPARK_PYTHON"
            )
    try:
        for witness in witnesses:
            witness.check()
    except ConfigError as error:
        return str(error)
    return None


@contextlib.contextmanager
def _limit_waiting(spark: "SparkSession") -> Iterator[threading.Event]:
    """Cancel the jobs inside if none of their tasks starts in time.

    The event is set then.
    """
    context: Any = spark.sparkContext
    tracker = context.statusTracker()
    gave_up = threading.Event()

    def started() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(stage is not None and stage.numActiveTasks + stage.numCompletedTasks for stage in stages)

    def watch(ended: threading.Event) -> None:
        for _ in range(int(EXECUTOR_WAIT_S / _POLL_S)):
            if ended.wait(_POLL_S) or started():
                return
        gave_up.set()
        context.cancelAllJobs()

    with run_in_background(watch):
        yield gave_up
