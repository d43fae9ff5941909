"""Delivery of changes: standard output, or a command for each change."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Final, Self, TextIO

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.output import say
from mqdssm.cli.watch.termination import Ending
from mqdssm.errors import MqdssmError

STALLED_S: Final = 10.0
"""Seconds without a reader of the standard output after which a warning is printed."""
_TICK_S: Final = 0.2
_LAST_S: Final = 1.0
"""Seconds in which a command has to end when the watch ends."""


class LinePrinter:
    """Prints lines; a line is delivered when it is completely written and flushed."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name="output", daemon=True)

    def deliver(self, line: str) -> bool:
        """Print a line.

        Raises:
            OSError: it cannot be written.
        """
        self._since = time.monotonic()
        _write(sys.stdout, line + "\n")
        self._since = None
        return True

    def _look(self) -> None:
        """Print a warning once if the output is not read."""
        reported: float | None = None
        while not self._closed.wait(_TICK_S):
            since = self._since
            if since is not None and since != reported and time.monotonic() - since >= STALLED_S:
                reported = since
                say(
                    f"warning: nobody has read the output for {STALLED_S:.0f} s; "
                    "the server is not read meanwhile"
                )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()


def _write(stream: TextIO, text: str) -> None:
    """Write a text completely.

    An unbuffered stream would drop the rest after a signal.

    Raises:
        OSError: it cannot be written.
    """
    stream.flush()
    try:
        handle = stream.fileno()
    except OSError:  # something else stands for it
        stream.write(text)
        stream.flush()
        return
    remaining = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
    while remaining:
        remaining = remaining[os.write(handle, remaining) :]


class CommandRunner:
    """Runs a command for each change.

    A change is delivered if the command ends with exit code 0.
    """

    def __init__(self, command: str, end: Ending, *, tries: int, limit_s: float) -> None:
        """Check the command without running it.

        Args:
            command: with arguments, as a shell splits them; no shell runs it.
            end: of the watch.
            tries: how often it is run for one change.
            limit_s: how long it may take, in seconds.

        Raises:
            UsageProblem: there is no such command.
        """
        try:
            self._args = shlex.split(command)
        except ValueError as error:
            raise UsageProblem(f"--exec {command}: {error}") from error
        if not self._args or shutil.which(self._args[0]) is None:
            raise UsageProblem(f"--exec {command}: there is no such command, or it may not be run")
        self._end, self._tries, self._limit_s = end, tries, limit_s

    def deliver(self, line: str) -> bool:
        """Run the command with a line on its standard input, with retries.

        Returns:
            False: the watch was ended before the command succeeded.

        Raises:
            MqdssmError: it failed each time.
        """
        from mqdssm.events.watching.watch import Pauses

        pauses = Pauses()
        for failures in range(1, self._tries + 1):
            why = self._run_once(line)
            if why is None:
                return True
            if self._end.is_asked:
                return False
            if failures < self._tries:
                pause_s = pauses.after(failures)
                say(f"warning: {why}; trying again in {pause_s:.1f} s")
                if not self._end.rest(pause_s):
                    return False
        raise MqdssmError(f"{why}, {self._tries} times; the change is told again at the next start: {line}")

    def _run_once(self, line: str) -> str | None:
        """Run the command once; return the reason of a failure, None for success."""
        try:
            process = subprocess.Popen(  # the user's own command  # noqa: S603
                self._args, stdin=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            return f"{self._args[0]} cannot be run: {error.strerror}"
        with process:
            is_over = self._wait(process, f"{line}\n".encode(errors="surrogatepass"))
        if not is_over:
            return f"{self._args[0]} did not end within {self._limit_s:g} s"
        code = process.returncode
        return None if code == 0 else f"{self._args[0]} ended with exit code {code}"

    def _wait(self, process: "subprocess.Popen[bytes]", line: bytes) -> bool:
        """Pass input to a command and wait for its end.

        Returns False if the command took too long and was killed.
        """
        deadline = time.monotonic() + self._limit_s
        data: bytes | None = line
        while True:
            try:
                process.communicate(data, timeout=_TICK_S)
            except subprocess.TimeoutExpired:
                data = None
            else:
                return True
            now = time.monotonic()
            if self._end.is_asked:
                deadline = min(deadline, now + _LAST_S)
            if now >= deadline:
                _kill(process)
                return False


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a command and its child processes."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
