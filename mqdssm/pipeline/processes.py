"""Worker process as its parent sees it: started, asked piece by piece, ended."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from typing import BinaryIO, Final, cast

from mqdssm.pipeline.worker import GRACE_S, number_in, receive, send, send_number

END_WAIT_S: Final = GRACE_S + 2.0
"""Time for a worker to end itself after its input has ended; then it is killed."""
_START: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from mqdssm.pipeline.worker import main; main()"
)
_WITHHELD: Final = "MQDSSM_PASSWORD"
"""Variable that users may set. Workers read passwords from a file, so the worker's environment has none."""
_SHOWN_CHARS: Final = 300


class WorkerDiedError(Exception):
    """The process has ended without an answer."""


class WorkerProcess:
    """A process that runs `mqdssm.pipeline.worker`.

    Its program is not the parent's: a script without ``if __name__ == "__main__"`` is not run again. Work and
    numbers go through its standard input, so nothing of them stands in arguments or environment.
    """

    def __init__(self) -> None:
        """Start the process.

        Raises:
            OSError: the system does not let us.
        """
        self._is_ready = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        environment = {name: value for name, value in os.environ.items() if name != _WITHHELD}
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own Python
                [sys.executable, "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # Ctrl-C at the terminal is the parent's alone
            )
        except BaseException:
            self._errors.close()
            raise
        self._stdin = cast(BinaryIO, self._process.stdin)
        self._stdout = cast(BinaryIO, self._process.stdout)

    def prepare(self, work: bytes) -> None:
        """Send the work, before the first piece.

        Raises:
            WorkerDiedError: the process has ended.
        """
        try:
            self._stdin.write(pickle.dumps(sys.path))
            send(self._stdin, work)
        except (OSError, ValueError) as error:
            raise WorkerDiedError(self._why()) from error
        self._is_ready = True

    def ask(self, number: int) -> bytes:
        """Let the process do a piece of work.

        Returns:
            The answer, for `mqdssm.pipeline.runner.Results`.

        Raises:
            WorkerDiedError: the process has ended.
        """
        message = None
        with contextlib.suppress(OSError, ValueError):  # ValueError: `release` has closed the pipe
            send_number(self._stdin, number)
            message = receive(self._stdout)
        if message is None:
            raise WorkerDiedError(self._why())
        return number_in(message)[1]

    def release(self) -> None:
        """Ask the process to end: its input ends. It need not be ready for that."""
        if not self._is_ready:
            self._process.kill()  # what it is sent may be more than a pipe takes, and it may not read
            return
        with contextlib.suppress(OSError):
            self._stdin.close()

    def end(self, wait_s: float) -> None:
        """Wait until the process has ended, and kill it if it does not."""
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(wait_s, 0.0))
        finally:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Close the files of an ended process."""
        for file in (self._stdin, self._stdout, self._errors):
            with contextlib.suppress(OSError):
                file.close()

    def _why(self) -> str:
        """How the process ended, and its last words."""
        self.end(END_WAIT_S)
        code = self._process.returncode
        how = f"exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
        words = ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            words = lines[-1][:_SHOWN_CHARS] if lines else ""
        return f"{how}: {words}" if words else how
