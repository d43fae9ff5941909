"""Owner's side of a supervisor.

The server ends with this process, even if this is killed.
"""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict

from mqdssm.errors import ConfigError

SUPERVISOR: Final = Path(__file__).parent / "supervisor.py"


class ServerState(TypedDict):
    """State of a server, as its supervisor reports it.

    Attributes:
        pid: process id of the server, None when it does not run.
        exit: its last exit status, negative for a signal.
        log: the last 64 KB of what it wrote.
    """

    pid: int | None
    exit: int | None
    log: str


class SupervisedServer:
    """A server's command under a separate supervisor.

    Several threads may use an instance.

    Attributes:
        process: the supervisor.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        name: str,
        *,
        restart: bool = False,
        remove: Sequence[Path] = (),
    ) -> None:
        """Start the supervisor; the server itself is started by ``ask("start")``.

        Args:
            command: runs the server in the foreground.
            environment: the complete environment of the command.
            name: name of the server in messages.
            restart: start the server again when it dies by a signal.
            remove: folders to delete at the end.
        """
        options = ["--owned", *(["--restart"] if restart else []), *(f"--remove={path}" for path in remove)]
        self._name = name
        self._lock = threading.RLock()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), *options, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )

    def ask(self, word: str) -> ServerState:
        """Send a command and return the state afterwards.

        The command is ``start``, ``stop``, ``kill`` or ``status``.

        Raises:
            ConfigError: the supervisor is gone.
        """
        with self._lock:
            process = self.process
            line = b""
            if process.stdin is not None and process.stdout is not None and not process.stdin.closed:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(word.encode() + b"\n")
                    process.stdin.flush()
                    line = process.stdout.readline()
            if not line:
                raise ConfigError(f"the supervisor of {self._name} is gone")
            state: ServerState = json.loads(line)
            return state

    def close(self) -> None:
        """Stop the server for good, and wait until it and its supervisor have ended."""
        with self._lock:
            self.process.communicate()  # closes the supervisor's standard input, which makes it end
