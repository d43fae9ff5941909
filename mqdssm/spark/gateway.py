"""The Java process of Spark, started by this package.

An interrupted start leaves no process behind.
PySpark starts Java through two shells and another Java that only makes a command line. After an interrupt
all of these remain until they notice it. Here Java is started in a process group of its own, which is ended
and waited for. PySpark connects to it as it connects to the Java of ``spark-submit``.

If Java ends while Spark runs (out of memory, killed), this program continues: PySpark is reset, and the
next session starts another Java.

Check for a Java that Spark can run on, before pyspark starts, whose own error explains nothing.
"""

import atexit
import contextlib
import logging
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError
from mqdssm.model.safe_text import is_secret_setting, redact

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

log: Final = logging.getLogger(__name__)

ENDS_WAIT_S: Final = 10.0
"""Seconds for Java to remove its files when the program ends; it needs one."""
BROKEN_WAIT_S: Final = 5.0
"""Seconds for Java to end after an interrupted start."""
HADOOP: Final = "spark.hadoop."
"""Prefix of settings that Spark passes to file systems: keys of clouds among them."""
_POLL_S: Final = 0.05
_ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_WENT_WAIT_S: Final = 5.0
"""Seconds for a Java that does not answer to end; it still writes the reason."""
_OUT_OF_MEMORY: Final = 52
"""Exit code of a Java whose heap is full (Spark's ``SparkExitCode.OOM``)."""
_CAUSES_MAX: Final = 20  # limit for a chain without end
_LOG_LINES_MAX: Final = 200  # at the end of the log, where the reason is expected
_CLASS: Final = re.compile(r'(?:Exception in thread "\w+" )?(?:[a-z]\w*\.)+[A-Z][\w$]*: ')
_SAYS: Final = re.compile(_CLASS.pattern + r"|.*\b[Ee]rror\b|Invalid ")
"""Pattern of lines of a log that contain a reason."""


_STARTED: Final[list["subprocess.Popen[bytes]"]] = []
"""The Java that this module started, if any."""


class JavaEndedError(ConfigError):
    """Java ended before Spark had started; the text is Java's message."""


@contextlib.contextmanager
def start_java(conf: Mapping[str, str], log: Path) -> Iterator[None]:
    """Start Java for the session that is made inside, unless PySpark has one.

    Java ends with this program.

    Args:
        conf: settings of Spark, among them those that Java itself starts with.
        log: file for the output of Java and its children.

    Raises:
        JavaEndedError: it ended at once.
    """
    if sys.platform == "win32" or "PYSPARK_GATEWAY_PORT" in os.environ or _has_java():
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="mqdssm-java-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        port_file = folder / "told"
        with _delay_signals():
            started.append(_launch(conf, port_file, log))
        port, secret = _wait_for_port_file(started[0], port_file, log)
        with set_environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if _has_java():
            # PySpark keeps it for the next session of this program, also after an error
            _STARTED[:] = started
            atexit.register(_leave_all)
        else:
            for process in started:
                _end(process)


def _has_java() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None  # noqa: SLF001  nothing public says it


def is_java_gone() -> bool:
    """Return True if the Java to which PySpark is connected has ended."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    try:
        if _has_java():
            SparkContext._gateway.jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]  # noqa: SLF001  as above
    except (Py4JError, OSError):
        return True
    return False


def forget_java() -> str:
    """Reset PySpark after Java has ended.

    The next session of PySpark starts another Java.

    Returns:
        The way Java ended, in words.
    """
    _forget()
    if not _STARTED:
        return "its Java has ended"
    process = _STARTED.pop()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_WENT_WAIT_S)
    code = process.returncode
    _end(process)
    return describe_end(code)


def describe_end(code: int | None) -> str:
    """Describe the exit code of a Java that ended unexpectedly.

    A negative code is the number of a signal.
    """
    if code == _OUT_OF_MEMORY:
        return "its Java had no memory left; setting spark.driver.memory, as 4g, gives it more"
    if code == -signal.SIGKILL:
        return "its Java was killed, as a machine does that has no memory left"
    return "its Java answers no more" if code is None else f"its Java has ended with {code}"


def _forget() -> None:
    """Reset PySpark and its gateway without a call to Java.

    `SparkSession.stop` resets PySpark in the same way.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001  nothing public does it
    if context is not None:
        context._jsc = None  # noqa: SLF001
        context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    if gateway is not None:
        _close(gateway)


def _close(gateway: "JavaGateway") -> None:
    """Close the connections of a gateway.

    Connections on which threads wait for calls from Java are closed, too.
    Py4J closes the file of a connection first, which waits for the thread that reads it: a program whose
    streaming query called `foreachBatch` would never end.
    """
    for connection in list(gateway._gateway_client.deque):  # noqa: SLF001  nothing public leads there
        with contextlib.suppress(OSError, AttributeError):  # it is closed already
            connection.socket.shutdown(socket.SHUT_RDWR)
    gateway.close(keep_callback_server=True)


def stop(session: "SparkSession") -> None:
    """Stop a session, even if its Java has ended or was forgotten."""
    if session.sparkContext._jsc is None:  # noqa: SLF001  as above
        return
    if is_java_gone():
        log.info("Spark is not stopped: %s", forget_java())
    else:
        session.stop()


def suppress_tracebacks() -> None:
    """Keep PySpark and Py4J from printing tracebacks after Java has ended.

    An error is raised in any case.
    """
    from pyspark import SparkContext

    logging.getLogger().addFilter(_is_not_of_py4j)
    context = SparkContext._active_spark_context  # noqa: SLF001  nothing public leads there
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: log.debug("Java sends no more counters")


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for records of Py4J in the root logger.

    Py4J logs commands there that Java did not answer.
    """
    if "py4j" not in Path(record.pathname).parts:
        return True
    log.debug("%s", record.getMessage())
    return False


def make_command_line(conf: Mapping[str, str]) -> list[str]:
    """Return Spark's settings as arguments for its start.

    Everybody on the machine can read them.
    A session gets all settings again when it is made: those of Hadoop and the secrets only then.

    Raises:
        ConfigError: a value holds a secret, as an address with a password.
    """
    public = {
        key: value for key, value in conf.items() if not key.startswith(HADOOP) and not is_secret_setting(key)
    }
    words = [f"{key}={value}" for key, value in public.items()]
    for word in words:
        if redact(word) != word:
            raise ConfigError(
                f"{word.partition('=')[0]} holds a secret, which everybody on this machine would see among "
                "the arguments of Java: give that to Java in a file, or with JDK_JAVA_OPTIONS"
            )
    return [word for setting in words for word in ("--conf", setting)]


def _launch(conf: Mapping[str, str], port_file: Path, log: Path) -> subprocess.Popen[bytes]:
    import pyspark

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    settings = make_command_line(conf)
    more = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    inherited = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(port_file)}
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603  the program of the installed package
            [str(Path(home, "bin", "spark-submit")), *settings, *more],
            stdin=subprocess.PIPE,  # its end tells Java that this program has ended, in whatever way
            stdout=file,
            stderr=file,
            env=inherited,
            process_group=0,
        )


def _wait_for_port_file(process: subprocess.Popen[bytes], port_file: Path, log: Path) -> tuple[int, str]:
    """Wait for the file with port and secret of Java's gateway.

    The file has port, length and secret, big-endian.
    """
    while not port_file.is_file():
        if process.poll() is not None and not port_file.is_file():
            raise JavaEndedError(_find_reason(log, process.returncode))
        time.sleep(_POLL_S)
    data = port_file.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def _find_reason(log: Path, code: int) -> str:
    """Return the first of the log's last lines that contains a reason."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES_MAX:]
    message = next((line.strip() for line in lines if _SAYS.match(line)), None)
    return f"it ended with {code}" if message is None else without_class(message)


def without_class(line: str) -> str:
    """Return a line of Java's output without the name of the exception."""
    return _CLASS.sub("", line, count=1)


def cause_of(error: Exception) -> str | None:
    """Return Java's messages for an error of PySpark, the root cause first.

    Returns None for another error.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return None
    try:
        chain: list[Any] = [error.java_exception]
        while len(chain) < _CAUSES_MAX and (cause := chain[-1].getCause()) is not None:
            chain.append(cause)
        messages = [
            without_class(str(cause.toString()).partition("\n")[0]) for cause in (chain[-1], chain[0])
        ]
        return messages[0] if messages[1] in messages[0] else f"{messages[0]} ({messages[1]})"
    except (Py4JError, OSError):  # Java has ended meanwhile
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Java and its shells, whatever their state."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGTERM)
    _leave(process, BROKEN_WAIT_S)


def _leave_all() -> None:
    """End Java with the program.

    A session that was not stopped must not call Java any more.
    """
    if _STARTED:
        _forget()
        _leave(_STARTED.pop())


def _leave(process: subprocess.Popen[bytes], wait_s: float = ENDS_WAIT_S) -> None:
    """Let Java end by itself, and kill it if it does not."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        pass
    finally:  # even after another interrupt
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if sys.platform != "win32":
    # a forked child does not own its parent's Java
    os.register_at_fork(after_in_child=_STARTED.clear)


@contextlib.contextmanager
def _delay_signals() -> Iterator[None]:
    """Delay signals that end programs.

    Otherwise a child that is being started would remain unknown.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals arrive in the main thread only
        return
    received: list[int] = []
    numbers = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {
        number: signal.signal(number, lambda signal_number, _: received.append(signal_number))
        for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if received:
            signal.raise_signal(received[0])


@contextlib.contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for children that start inside.

    The old values are restored at the end.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


JAVA_MAJOR_MIN: Final = 17  # PySpark 4's classes are those of Java 17
_ASK_WAIT_S: Final = 20.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """Find the Java that Spark would start, and check that it is new enough.

    Returns:
        The program: ``$JAVA_HOME/bin/java`` when JAVA_HOME is set, else the first ``java`` of the path.

    Raises:
        ConfigError: there is none, it does not run, or it is older than Java 17; with what to install.
    """
    program = "java.exe" if sys.platform == "win32" else "java"
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", program)
        if not java.is_file():
            raise ConfigError(f"JAVA_HOME is {home}, but there is no {java}; {_suggest_java()}")
    else:
        java_path = shutil.which("java")
        if java_path is None:
            raise ConfigError(f"this runs on Spark, which needs Java {JAVA_MAJOR_MIN}; {_suggest_java()}")
        java = Path(java_path)
    major = find_java_major(java)
    if major < JAVA_MAJOR_MIN:
        raise ConfigError(f"{java} is Java {major}, Spark needs {JAVA_MAJOR_MIN} or later; {_suggest_java()}")
    return java


@cache
def find_java_major(java: Path) -> int:
    """Return the major version of a Java, which is asked once.

    Raises:
        ConfigError: it does not run, or its answer holds no version.
    """
    try:
        answer = subprocess.run(  # noqa: S603  the program is the one that Spark itself will start
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{java} does not run: {error}; {_suggest_java()}") from error
    match = _VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        raise ConfigError(f"{java} -version names no version; {_suggest_java()}")
    return int(match[1])


def _suggest_java() -> str:
    if sys.platform == "win32":
        return f"install one (winget install Microsoft.OpenJDK.{JAVA_MAJOR_MIN}) or set JAVA_HOME"
    if sys.platform == "darwin":
        return f"install one (brew install openjdk@{JAVA_MAJOR_MIN}) or set JAVA_HOME"
    return f"install one (Debian: apt-get install openjdk-{JAVA_MAJOR_MIN}-jre-headless) or set JAVA_HOME"
