"""Directory servers as processes of their own, with what they print."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.programs.starting import MQDSSM, start

WAIT_S = 60.0


class ServerProcess:
    """``mqdssm serve`` as a process, with what it prints."""

    def __init__(self, file: Path, **environment: str) -> None:
        self.process = start(
            [*MQDSSM, "serve", str(file), "-o", "json"],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, event: str) -> dict[str, Any]:
        """The next event of this kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            document: dict[str, Any] = json.loads(line)
            if document["event"] == event:
                return document
        raise AssertionError(f"ended with {self.process.wait()} before {event}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@contextmanager
def served(file: Path, **environment: str) -> Iterator[ServerProcess]:
    """A process that serves, which is killed in the end."""
    server = ServerProcess(file, **environment)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()
