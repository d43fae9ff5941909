"""``mqdssm watch`` as a program of its own, which can be killed."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from support.programs.starting import MQDSSM, start

PROGRAM = [*MQDSSM, "watch"]
WAIT_S = 90.0


T = TypeVar("T")


class Program:
    """The command, running; its output lies in files."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *args: str) -> None:
        self.out, self.err = folder / f"{uuid4()}.out", folder / f"{uuid4()}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = start([*PROGRAM, *args], stdout=out, stderr=err, env=environment)

    def wait(self, fits: Callable[[], T | None]) -> T:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if found := fits():
                return found
            assert self.process.poll() is None, self.err.read_text()
            time.sleep(0.02)
        raise AssertionError(f"{self.out.read_text()}\n{self.err.read_text()}")

    def is_ready(self) -> bool:
        """True once it has said so."""
        return '"event": "ready"' in self.out.read_text() or "watching " in self.err.read_text()

    def lines(self, number: int) -> list[str]:
        """Wait for lines, but for those that tell of the watch itself."""

        def fits() -> list[str] | None:
            lines = self.out.read_text().splitlines(keepends=True)
            found = [line[:-1] for line in lines if line.endswith("\n") and '"event": "ready"' not in line]
            return found if len(found) >= number else None

        return self.wait(fits)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(WAIT_S)


@contextmanager
def running(folder: Path, environment: Mapping[str, str], *args: str, state: Path) -> Iterator[Program]:
    """The command, once it has told what happened before: then there is a state."""
    program = Program(folder, environment, *args, "--state", str(state))
    try:
        program.wait(program.is_ready)
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()
