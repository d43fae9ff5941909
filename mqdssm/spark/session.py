"""A quiet Spark session, on this machine or on a cluster."""

import atexit
import contextlib
import logging
import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.errors import ConfigError, require_packages
from mqdssm.pipeline.failures import SparkFailed, unpack
from mqdssm.pipeline.spark_options import HERE, LOCAL, MASTER, SparkOptions
from mqdssm.pipeline.without_pandas import show_pandas
from mqdssm.spark import gateway
from mqdssm.spark.cluster import check_master, make_session_settings, write_package_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log: Final = logging.getLogger(__name__)

LOG_NAME: Final = "spark.log"
PYTHON: Final = "spark.pyspark.python"
SHOWN_LINES_MAX: Final = 2  # of an error of Spark, whose first lines are the most important
DRIVER_MEMORY_MIN_MIB: Final = 1024  # Spark's own default
DRIVER_MEMORY_MAX_MIB: Final = 8192  # more was never needed: nothing is cached
BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Options for short work: only the fast compiler. With its default code cache (48 MB) long sessions end with
"Out of space in CodeCache"."""
_DRIVER_MEMORY_SHARE: Final = 4  # a quarter of the machine

_KEPT: Final[set[Path]] = set()  # folders with logs to keep

# settings for any session, also one that other code started
_SQL_CONF: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    # else times are written as INT96, which is deprecated in Parquet
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",  # permits the option pushdown, which is off by default
    "spark.sql.redaction.options.regex": "(?i)url|bind|pass|pw|cred|secret|token|key",
}
RETAINED: Final = 20
"""Number of finished jobs, stages, tasks and queries that Java keeps for web pages that nobody opens."""
PLAN_CHARS_MAX: Final = 65_536
"""Limit of the text of a plan, which each retained query keeps several times; many rules make it long."""
_STATIC_CONF: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    **dict.fromkeys(
        (
            "spark.ui.retainedJobs",
            "spark.ui.retainedStages",
            "spark.ui.retainedTasks",
            "spark.ui.dagGraph.retainedRootRDDs",
            "spark.sql.ui.retainedExecutions",
        ),
        str(RETAINED),
    ),
    "spark.sql.maxPlanStringLength": str(PLAN_CHARS_MAX),
    "spark.speculation": "false",  # workers write files themselves: a second task would only wait
}
_LOCAL_CONF: Final[Mapping[str, str]] = {  # executors of a cluster must reach the driver
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # each sort and group of a task takes a page at least, else of up to 64 MB: 0.47 GB in a wide plan
    "spark.buffer.pageSize": "4m",
}


@contextlib.contextmanager
def spark_session(
    app: str = "mqdssm",
    *,
    cores: int | None = None,
    memory: str | None = None,
    brief: bool = False,
    conf: Mapping[str, str] | None = None,
    on: SparkOptions = HERE,
) -> Iterator["SparkSession"]:
    """Start Spark, or join the session of this process.

    No output of Java or Spark reaches the terminal: it goes to a log file, which is kept after an error.
    The start takes 7 to 15 seconds. A session that other code started is joined, not changed: the session
    yielded has SQL settings of its own and is not stopped.

    Args:
        app: name of the application.
        cores: how many cores to use; None is all.
        memory: heap of the JVM, as ``1g``; None is a quarter of the machine, 1 to 8 GiB.
        brief: little work is to come: the JVM compiles quickly rather than well, which halves the time of
            small jobs and makes large ones slower. Like ``memory`` it is used only by the first session of a
            process, whose JVM stays.
        conf: further settings of Spark; settings about cores apply to this machine alone.
        on: where Spark runs, and settings that have precedence.

    Yields:
        The session.

    Raises:
        ConfigError: Java or pyspark is missing or too old; with what to install.
        SparkFailed: Spark raised an error of its own, or its Java ended; its log is kept. The next session
            of the process starts another Java.
        MqdssmError: an error that a worker raised, with the same class.
    """
    check_spark()
    from pyspark.sql import SparkSession

    if gateway.is_java_gone():
        log.warning("Spark starts again: %s", gateway.forget_java())
    active = SparkSession.getActiveSession()
    if active is not None:
        is_own = _make_folder.cache_info().currsize
        hint = _log_hint() if is_own else "see the log of the session that was there already"
        with _translate_errors(hint):
            yield _join_session(active, conf or {}, on)
        return
    check_master(on)
    quick = {"spark.driver.extraJavaOptions": BRIEF_JAVA} if brief else {}
    session = _start(_make_configuration(app, cores, memory, {**quick, **(conf or {})}, on))
    try:
        with _translate_errors(_log_hint()):
            yield session
    except SparkFailed:
        _KEPT.add(_make_folder())
        raise
    finally:
        gateway.stop(session)


def check_spark() -> None:
    """Check, without starting anything, that Spark could run here.

    Raises:
        ConfigError: what is missing and how to install it.
    """
    check_packages()
    gateway.find_java()


def check_packages() -> None:
    """Check that the packages of the pipeline are installed.

    Only a start of Spark needs more.

    Raises:
        ConfigError: what is missing and how to install it.
    """
    show_pandas()
    require_packages("pyspark", "pyarrow", "pandas", "sqlglot", extra="spark")


@contextlib.contextmanager
def _translate_errors(hint: str) -> Iterator[None]:
    """Convert errors of Spark into errors of this package."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        own_error = unpack(str(error))
        if own_error is not None:
            raise own_error from None
        if gateway.is_java_gone():
            raise SparkFailed(f"Spark failed: {gateway.forget_java()}; {hint}") from error
        if not isinstance(error, PySparkException | Py4JError):
            raise
        raise SparkFailed(
            f"Spark failed: {gateway.cause_of(error) or _take_first_lines(error)}; {hint}"
        ) from error


def _take_first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:SHOWN_LINES_MAX])


def _join_session(active: "SparkSession", conf: Mapping[str, str], on: SparkOptions) -> "SparkSession":
    joined = active.newSession()
    if on.is_cluster:
        joined.sparkContext.addPyFile(str(write_package_zip(_make_folder())))
    for key, value in {**_SQL_CONF, **conf, **on.conf}.items():
        if joined.conf.isModifiable(key):
            joined.conf.set(key, value)
    return joined


@cache
def _make_folder() -> Path:
    """Return the folder for the log and Spark's spilled data.

    A process has one folder, since its first JVM stays.
    """
    folder = Path(tempfile.mkdtemp(prefix="mqdssm-spark-"))
    atexit.register(_remove, folder)
    return folder


def _log_hint() -> str:
    return f"Spark's own log: {_make_folder() / LOG_NAME}"


def _remove(folder: Path) -> None:
    if folder not in _KEPT:
        shutil.rmtree(folder, ignore_errors=True)


def _make_configuration(
    app: str, cores: int | None, memory: str | None, conf: Mapping[str, str], on: SparkOptions
) -> dict[str, str]:
    count = cores or os.cpu_count() or 1
    settings = {
        "spark.app.name": app,
        MASTER: f"local[{cores or '*'}]",
        "spark.driver.memory": memory or _choose_driver_memory(),
        "spark.local.dir": str(_make_folder()),
        "spark.sql.warehouse.dir": (_make_folder() / "warehouse").as_uri(),
        **_STATIC_CONF,
        **_SQL_CONF,
    }
    if not on.is_cluster:
        settings |= {"spark.sql.shuffle.partitions": str(2 * count), **_LOCAL_CONF}
    return settings | dict(conf) | make_session_settings(on, _make_folder())


def _choose_driver_memory() -> str:
    """Return the memory of the driver: a quarter of the machine's.

    The result stays within bounds, and is the minimum if the machine's memory is unknown (Windows).
    """
    mebibytes = 0
    if sys.platform != "win32":
        mebibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    bounded = min(max(mebibytes // _DRIVER_MEMORY_SHARE, DRIVER_MEMORY_MIN_MIB), DRIVER_MEMORY_MAX_MIB)
    return f"{bounded}m"


def _start(conf: Mapping[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    log = _make_folder() / LOG_NAME
    try:
        with (
            gateway.set_environment(_list_inherited(conf)),
            _redirect_errors(log),
            gateway.start_java(conf, log),
        ):
            session = builder.getOrCreate()
    except (PySparkRuntimeError, gateway.JavaEndedError, Py4JError) as error:
        _KEPT.add(_make_folder())
        why = gateway.cause_of(error) or _take_first_lines(error)
        where = "" if LOCAL.fullmatch(conf[MASTER]) else f" on {conf[MASTER]}"
        raise ConfigError(f"Spark did not start{where}: {why.rstrip('.')}; {_log_hint()}") from error
    _suppress_errors()
    gateway.suppress_tracebacks()
    return session


def _suppress_errors() -> None:
    """Keep pyspark from printing Java's stack for errors that it raises as well."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _list_inherited(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the JVM and its workers."""
    python = conf.get(PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
    if not LOCAL.fullmatch(conf[MASTER]):
        return {"PYSPARK_PYTHON": python}
    python_path = os.environ.get("PYTHONPATH", "")
    root = str(Path(__file__).parents[2])
    installed = {os.path.realpath(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    if os.path.realpath(root) not in installed:
        # run from a source tree: the workers must find the same mqdssm
        python_path = os.pathsep.join(filter(None, [root, python_path]))
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": python_path}
    return {name: value for name, value in variables.items() if value}


@contextlib.contextmanager
def _redirect_errors(log: Path) -> Iterator[None]:
    """Redirect the standard error of children started inside to a file.

    The standard error of this process is restored.
    """
    sys.stderr.flush()
    saved_fd = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved_fd, 2)
        os.close(saved_fd)
