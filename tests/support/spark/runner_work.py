"""Pieces of work that succeed, fail, crash, hang or look at their own process, for tests of runners."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqdssm.errors import DecodeError, GenericDirectoryError
from mqdssm.pipeline.runner import Job, StopRequest

MINUTE_S = 60.0


@dataclass(frozen=True)
class TestWork:
    """Work that notes in a folder what happens to it; `kind` names what its pieces do."""

    folder: Path
    kind: str = "square"
    secret: str = ""

    __test__ = False

    @contextlib.contextmanager
    def open(self, stop: StopRequest) -> Iterator[Callable[[int], Any]]:
        self.note(f"opened-{os.getpid()}")
        piece = getattr(self, self.kind)
        yield lambda number: piece(number, stop)
        self.note(f"closed-{os.getpid()}")

    def note(self, name: str) -> bool:
        """Make a file; True if there was none."""
        with contextlib.suppress(FileExistsError):
            (self.folder / name).touch(exist_ok=False)
            return True
        return False

    def square(self, number: int, _: StopRequest) -> tuple[int, int]:
        time.sleep(0.02)
        return number * number, os.getpid()

    def crash_once(self, number: int, stop: StopRequest) -> Any:
        if number == 2 and self.note("crashed"):
            os.kill(os.getpid(), signal.SIGKILL)
        self.note(f"done-{number}-{os.getpid()}")
        return self.square(number, stop)

    def crash(self, number: int, stop: StopRequest) -> Any:
        if number == 1:
            self.note(f"crash-{os.getpid()}")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.square(number, stop)

    def leave(self, number: int, _: StopRequest) -> None:
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os._exit(7)

    def fail(self, number: int, stop: StopRequest) -> Any:
        if number == 1:
            raise GenericDirectoryError("refused", dn="cn=x", ldap_code=53, hint="do not")
        return self.square(number, stop) if number == 0 else self.wait(number, stop)

    def fail_and_die(self, number: int, stop: StopRequest) -> Any:
        """Fail, and lose the worker as soon as others know of it; do nothing else when done again."""
        if number != 1 or not self.note("died"):
            return self.wait(number, stop)
        real = stop.set

        def set_and_die() -> None:
            real()
            os.kill(os.getpid(), signal.SIGKILL)

        stop.set = set_and_die  # type: ignore[method-assign]
        raise GenericDirectoryError("refused", dn="cn=x", ldap_code=53, hint="do not")

    def fail_to_decode(self, number: int, _: StopRequest) -> Any:
        raise DecodeError("[MS-DTYP] 2.4.6", "Owner", 3, "too short")

    def fail_unforeseen(self, number: int, _: StopRequest) -> Any:
        raise KeyError("unforeseen")

    def unpicklable(self, number: int, _: StopRequest) -> Any:
        return lambda: number

    def wait(self, number: int, stop: StopRequest) -> None:
        """Wait for a minute at safe places."""
        self.note(f"begun-{number}-{os.getpid()}")
        end = time.monotonic() + MINUTE_S
        try:
            while time.monotonic() < end:
                stop.check()
                time.sleep(0.01)
        finally:
            self.note(f"ended-{number}")

    def wait_once(self, number: int, stop: StopRequest) -> int:
        """Wait for a minute at safe places, but not when done again."""
        if self.note(f"waited-{number}"):
            self.wait(number, stop)
        return number

    def hang(self, number: int, _: StopRequest) -> None:
        """Wait for a minute without a safe place."""
        self.note(f"begun-{number}-{os.getpid()}")
        time.sleep(MINUTE_S)

    def hang_once(self, number: int, stop: StopRequest) -> int:
        """Wait for a minute without a safe place, but not when done again."""
        if self.note(f"hung-{number}"):
            self.hang(number, stop)
        return number

    def look(self, number: int, _: StopRequest) -> dict[str, Any]:
        """What can be seen of the process that does this."""
        import pyarrow as pa

        pa.array([number])
        os.write(1, b"what a library prints")
        return {
            "command": Path("/proc/self/cmdline").read_bytes(),
            "environment": Path("/proc/self/environ").read_bytes(),
            "secret": self.secret,
            "has_pandas": "pandas" in sys.modules,
            "path": sys.path,
            "pid": os.getpid(),
        }

    def names(self, prefix: str) -> list[str]:
        return sorted(path.name for path in self.folder.glob(f"{prefix}*"))


def job(work: Any, count: int = 6, *, is_small: bool = False) -> Job:
    return Job(work, tuple(f"piece {number}" for number in range(count)), is_small=is_small)


def begun_pids(work: TestWork, count: int, wait_s: float = 60.0) -> list[int]:
    """Wait until pieces have begun; gives the processes that do them."""
    deadline = time.monotonic() + wait_s
    while len(found := work.names("begun-")) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return [int(name.rpartition("-")[2]) for name in found]


def are_gone(pids: list[int], wait_s: float = 15.0) -> bool:
    """Wait until processes have ended; False if they have not."""
    deadline = time.monotonic() + wait_s
    while any(Path(f"/proc/{pid}").exists() and b"\nState:\tZ" not in _status(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def processes_with(variable: str) -> list[str]:
    """Return the command lines of processes that run, Java and workers included.

    Args:
        variable: in their environment, by which they are known: children inherit it.
    """
    running = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                running.append((process / "cmdline").read_text().replace("\0", " "))
    return running


def _status(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/status").read_bytes()
    return b"\nState:\tZ"
