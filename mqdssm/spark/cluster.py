"""Where Spark runs: on this machine, or on a cluster that needs our package, the password and shared folders.

Nothing here imports pyspark before it is needed: which options make sense is found out before Java starts.
"""

import contextlib
import importlib
import re
import socket
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from mqdssm.errors import ConfigError, why_no_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MASTER: Final = "spark.master"
EXECUTOR_VARIABLE: Final = "spark.executorEnv."
MASTER_WAIT_S: Final = 10.0
"""For a stand-alone master to take a connection; Spark itself would try for a minute, and say nothing."""
MASTER_PORT: Final = 7077
EXECUTOR_WAIT_S: Final = 300.0
"""For a cluster to give the first executor (images have to be fetched); Spark itself would wait for ever."""
NEEDED: Final = ("ldap3", "pyarrow", "numpy", "pydantic", "mqdssm.pipeline.export.worker")
"""Modules that executors must have; ours come from us."""
PROBES_EACH: Final = 4  # looks for each core: chance spreads them, and each costs milliseconds
_PROBES_MAX: Final = 1000
_POLL_S: Final = 0.5
LOCAL: Final = re.compile(r"local(\[(\d+|\*)(, ?\d+)?\])?")
_MASTER: Final = re.compile(LOCAL.pattern + r"|local-cluster\[\d+, ?\d+, ?\d+\]|yarn|(spark|k8s)://\S+")
_SECRET: Final = re.compile(r"(?i)\.MQDSSM_PASSWORD$")
_NOT_SENT: Final = frozenset({"__pycache__", "testing"})


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and further settings of it.

    Attributes:
        master: ``spark://host:7077``, ``yarn`` or ``k8s://https://host:443`` for a cluster, ``local[2]`` for
            some cores of this machine; None: all of them, or where this program's session runs already.
        conf: further settings of Spark, which win.
        shared: a folder that all machines of a cluster see under this path, for what lies between.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    shared: Path | None = None

    @classmethod
    def of(cls, master: str | None, words: Sequence[str] = (), shared: Path | None = None) -> Self:
        """Check what was typed.

        Args:
            master: where Spark runs.
            words: settings, each ``KEY=VALUE``.
            shared: a folder that all machines see.

        Raises:
            ConfigError: no address of a cluster, or no setting of Spark's.
        """
        conf: dict[str, str] = {}
        for word in words:
            key, equals, value = word.strip().partition("=")
            if not equals or not key.startswith("spark."):
                # whatever it is, it could be a password
                raise ConfigError(
                    "a setting of Spark is written spark.NAME=VALUE, as spark.executor.memory=4g"
                )
            if key.startswith(EXECUTOR_VARIABLE) and _SECRET.search(key):
                raise ConfigError(
                    f"{key} would show the password in Spark's pages and logs: put it into a file, and name "
                    "that with spark.executorEnv.MQDSSM_PASSWORD_FILE"
                )
            conf[key] = value
        if master is not None and conf.get(MASTER, master) != master:
            raise ConfigError(f"Spark's master is given twice: {master} and {conf[MASTER]}")
        master = conf.pop(MASTER, None) or master
        if master is not None and not _MASTER.fullmatch(master):
            raise ConfigError(
                f"{master!r} is no master of Spark: use spark://HOST:{MASTER_PORT}, yarn, "
                "k8s://https://HOST:PORT, or local[N] for N cores of this machine"
            )
        return cls(master, conf, None if shared is None else shared.resolve())

    @property
    def is_cluster(self) -> bool:
        """True if workers run on other machines, or as if they did."""
        master = self.master or _master_of_session()
        return master is not None and not LOCAL.fullmatch(master)

    def variable_of_executors(self, name: str) -> str | None:
        """The value that an environment variable is given on executors; None if it is not."""
        return self.conf.get(EXECUTOR_VARIABLE + name)

    def gives_secret(self, name: str) -> bool:
        """True if executors are given a variable that Spark does not show, as a secret of Kubernetes."""
        return any(key.endswith(f".executor.secretKeyRef.{name}") for key in self.conf)

    def settings(self, folder: Path) -> dict[str, str]:
        """Settings of Spark for a new session.

        Args:
            folder: for the package that goes to executors.
        """
        found = dict(self.conf)
        if self.master is not None:
            found[MASTER] = self.master
        if self.is_cluster:
            files = [found.get("spark.submit.pyFiles", ""), str(package_zip(folder))]
            found["spark.submit.pyFiles"] = ",".join(filter(None, files))
        return found


HERE: Final = SparkOptions()
"""All cores of this machine."""


def _master_of_session() -> str | None:
    """Where the session runs that this program has; None if it has none."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    return None if active is None else active.sparkContext.master


def is_spark_wanted(on: SparkOptions) -> bool:
    """Return True if anything about Spark was given, or this program has an active session."""
    return on != HERE or _master_of_session() is not None


def check_master(on: SparkOptions) -> None:
    """See whether a stand-alone master listens.

    Raises:
        ConfigError: none of those named does.
    """
    master = on.master or ""
    if not master.startswith("spark://"):
        return
    problems = []
    for one in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"spark://{one}")
            address = (parts.hostname or "", parts.port or MASTER_PORT)
            with socket.create_connection(address, timeout=MASTER_WAIT_S):
                return
        except (OSError, ValueError) as error:
            problems.append(f"{one}: {getattr(error, 'strerror', None) or error}")
    raise ConfigError(f"no master of Spark listens at {master} ({'; '.join(problems)})")


REGISTRATION: Final = "pyspark_mqdssm/__init__.py"
"""The file in a wheel by which Spark knows the data source, see `mqdssm.spark.registration`."""


def package_zip(folder: Path) -> Path:
    """Put our package into a zip file, as executors take it: pure Python, without what only tests need.

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
        # for the data source's name; an installed wheel has it in this place alone
        installed = root / REGISTRATION
        file.write(
            installed if installed.exists() else Path(__file__).with_name("registration.py"), REGISTRATION
        )
    return target


@dataclass(frozen=True, slots=True)
class Witness:
    """A file as the driver sees it: whoever sees another one, or none, looks into another folder.

    Attributes:
        path: of the file.
        size: its bytes.
        time_ns: when it was changed.
    """

    path: str
    size: int
    time_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Look at a file."""
        found = path.stat()
        return cls(str(path.resolve()), found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Look again, on a machine that may be another one.

        Raises:
            ConfigError: it is not the same file here.
        """
        try:
            if Witness.of(Path(self.path)) == self:
                return
            why = "there is another file of this name"
        except OSError as error:
            why = error.strerror or str(error)
        raise ConfigError(
            f"executor {socket.gethostname()} does not see {self.path} as this machine does ({why}): use a "
            "folder that all machines of the cluster share under the same path, and may write to"
        )


@contextlib.contextmanager
def scratch(on: SparkOptions, prefix: str) -> Iterator[Path]:
    """Make a temporary folder that all workers see; it is removed at the end.

    Args:
        on: where Spark runs.
        prefix: of its name.

    Raises:
        ConfigError: on a cluster no shared folder was named, or it cannot be used.
    """
    if on.is_cluster and on.shared is None:
        raise ConfigError(
            "on a cluster this needs a folder that all machines share, for what lies between: name one with "
            "--spark-shared (SparkOptions.shared)"
        )
    try:
        made = tempfile.TemporaryDirectory(prefix=prefix, dir=on.shared if on.is_cluster else None)
    except OSError as error:
        raise ConfigError(f"{on.shared} cannot be used: {why_no_folder(error)}") from error
    with made as name:
        yield Path(name)


def refuse_speculation(spark: "SparkSession") -> None:
    """Refuse a session that starts slow tasks twice: the copy would wait for the files of the other one.

    Raises:
        ConfigError: it is such a session.
    """
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise ConfigError("slow tasks would be started twice: set spark.speculation=false for this session")


def probe(spark: "SparkSession", on: SparkOptions, files: Sequence[Path] = ()) -> None:
    """See whether a cluster can do the work: it gives executors, which have our packages and see our files.

    Does nothing where workers run on this machine.

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
    look = _look([Witness.of(path) for path in files])
    with _patience(spark) as gave_up:
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
    witnesses: Sequence[Witness],
) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    def look(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        for _ in batches:
            problem = problem_here(witnesses)
            if problem is not None:
                yield pa.RecordBatch.from_pydict({"problem": [problem]})

    return look


def problem_here(witnesses: Sequence[Witness]) -> str | None:
    """Why this process cannot work for us; None if it can."""
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
def _patience(spark: "SparkSession") -> Iterator[threading.Event]:
    """Cancel the jobs inside when no task of theirs starts; the event says that it was done."""
    context: Any = spark.sparkContext
    tracker = context.statusTracker()
    ended, gave_up = threading.Event(), threading.Event()

    def started() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(stage is not None and stage.numActiveTasks + stage.numCompletedTasks for stage in stages)

    def watch() -> None:
        for _ in range(int(EXECUTOR_WAIT_S / _POLL_S)):
            if ended.wait(_POLL_S) or started():
                return
        gave_up.set()
        context.cancelAllJobs()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield gave_up
    finally:
        ended.set()
        thread.join()
