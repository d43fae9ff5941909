"""The Java process of Spark's, started by us, so that nothing of it stays when its start is broken off.

PySpark starts Java through two shells and a Java that only makes a command line. Whoever interrupts it then
leaves all of them behind, for as long as they take to notice. What is started here is a process group of its
own, which is ended and waited for. PySpark joins it as it joins the Java of ``spark-submit``.
"""

import atexit
import contextlib
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

from mqdssm.errors import ConfigError

ENDS_WAIT_S: Final = 10.0
"""How long Java may take to remove its files when we leave; it needs a second."""
BROKEN_WAIT_S: Final = 5.0
"""The same when its start was broken off."""
_POLL_S: Final = 0.05
_CAUSES_MAX: Final = 20  # in a chain that should have an end
_LOG_LINES_MAX: Final = 200  # at the end of the log, among which the reason is
_CLASS: Final = re.compile(r'(?:Exception in thread "\w+" )?(?:[a-z]\w*\.)+[A-Z][\w$]*: ')
_SAYS: Final = re.compile(_CLASS.pattern + r"|.*\b[Ee]rror\b|Invalid ")
"""Lines of a log that explain something."""


class JavaEndedError(ConfigError):
    """Java ended before Spark was there; the text is what it said."""


@contextlib.contextmanager
def java_started(conf: Mapping[str, str], log: Path) -> Iterator[None]:
    """Start Java for the session that is made inside, unless PySpark has one, and end it with this program.

    Args:
        conf: settings of Spark, among them those that Java itself starts with.
        log: gets all that Java and its children say.

    Raises:
        JavaEndedError: it ended at once.
    """
    if sys.platform == "win32" or "PYSPARK_GATEWAY_PORT" in os.environ or _has_java():
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="mqdssm-java-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        told = folder / "told"
        with _uninterrupted():
            started.append(_launch(conf, told, log))
        port, secret = _told(started[0], told, log)
        with environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if _has_java():
            # PySpark keeps it for the next session of this program, also after an error
            atexit.register(_leave, started[0])
        else:
            for process in started:
                _end(process)


def _has_java() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None  # noqa: SLF001  nothing public says it


def _launch(conf: Mapping[str, str], told: Path, log: Path) -> subprocess.Popen[bytes]:
    import pyspark

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    more = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    inherited = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603  the program of the installed package
            [str(Path(home, "bin", "spark-submit")), *settings, *more],
            stdin=subprocess.PIPE,  # by whose end Java learns that we are gone, however we went
            stdout=file,
            stderr=file,
            env=inherited,
            process_group=0,
        )


def _told(process: subprocess.Popen[bytes], told: Path, log: Path) -> tuple[int, str]:
    """Wait until Java says where it listens: a port and a secret, big-endian, the latter with its length."""
    while not told.is_file():
        if process.poll() is not None and not told.is_file():
            raise JavaEndedError(_reason(log, process.returncode))
        time.sleep(_POLL_S)
    data = told.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def _reason(log: Path, code: int) -> str:
    """The first of the last lines that explains something."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES_MAX:]
    said = next((line.strip() for line in lines if _SAYS.match(line)), None)
    return f"it ended with {code}" if said is None else without_class(said)


def without_class(line: str) -> str:
    """A line of Java's without the name of its exception."""
    return _CLASS.sub("", line, count=1)


def cause_of(error: Exception) -> str | None:
    """What Java says of an error that PySpark gives, the first cause first; None if it is none of Java's."""
    from py4j.protocol import Py4JError, Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return None
    try:
        chain: list[Any] = [error.java_exception]
        while len(chain) < _CAUSES_MAX and (cause := chain[-1].getCause()) is not None:
            chain.append(cause)
        said = [without_class(str(one.toString()).partition("\n")[0]) for one in (chain[-1], chain[0])]
        return said[0] if said[1] in said[0] else f"{said[0]} ({said[1]})"
    except (Py4JError, OSError):  # Java has gone meanwhile
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Java and its shells, whatever they do now."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGTERM)
    _leave(process, BROKEN_WAIT_S)


def _leave(process: subprocess.Popen[bytes], wait_s: float = ENDS_WAIT_S) -> None:
    """Let Java end by itself, and see to it that it did."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also when we are interrupted once more
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keep Ctrl-C until the end: a child that is started in that moment would be known to nobody."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where Ctrl-C does not arrive
        return
    kept: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: kept.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if kept:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set what children that start meanwhile inherit, and have the old values back at the end."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
