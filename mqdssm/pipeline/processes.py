"""Worker process of the local runner, on the side of its parent: start, requests, end."""

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
"""Seconds for a worker to exit after the end of its input, before it is killed."""
_START: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from mqdssm.pipeline.worker import main; main()"
)
_WITHHELD: Final = "MQDSSM_PASSWORD"
"""Variable that is removed from the environment of workers, which read passwords from a file."""
_SHOWN_CHARS: Final = 300


class WorkerDiedError(Exception):
    """The worker process has ended without an answer."""


class WorkerProcess:
    """Process that runs `mqdssm.pipeline.worker`.

    It does not run the parent's script, so this needs no ``if __name__ == "__main__"``. Work and numbers go
    through its standard input, so arguments and environment do not show them.
    """

    def __init__(self) -> None:
        """Start the process.

        Raises:
            OSError: the system cannot start it.
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
                start_new_session=True,  # Ctrl-C at the terminal goes to the parent alone
            )
        except BaseException:
            self._errors.close()
            raise
        self._stdin = cast(BinaryIO, self._process.stdin)
        self._stdout = cast(BinaryIO, self._process.stdout)

    @property
    def pid(self) -> int:
        """ID of the process."""
        return self._process.pid

    def prepare(self, work: bytes) -> None:
        """Send the pickled work, before the first piece.

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
        """Let the process do a piece of work, and wait for the answer.

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
        """Close the input of the process, so that it ends; kill a process that has no work yet."""
        if not self._is_ready:
            self._process.kill()  # `prepare` may still wait for it to read: the work may not fit into a pipe
            return
        with contextlib.suppress(OSError):
            self._stdin.close()

    def end(self, wait_s: float) -> None:
        """Wait until the process has ended, and kill it after `wait_s` seconds."""
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
        """Return the exit code or signal of the process, and the last line of its standard error."""
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
