"""Small process between a test run and its server, which it ends in any case.

The process runs this file alone (``python -I -S supervisor.py … -- command``), with the standard library
only. The command is started, the last 64 KB of its output are kept, and it is ended

* when its owner asks for it or ends in any way (``--owned``): the owner holds the other end of its
  standard input, and the kernel closes that end even if the owner is killed, or
* on SIGTERM (a sandbox, which outlives the command that started it).

An owner sends one word a line, ``start``, ``stop``, ``kill`` or ``status``; each is answered by one
line of JSON: ``{"pid": int | null, "exit": int | null, "log": str}``; ``exit`` is the last exit status,
negative for a signal, as in `subprocess`.
"""

import argparse
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

LOG_BYTES_MAX = 64 * 1024
STOP_WAIT_S = 8.0  # slapd needs 0.1 s; after this it is killed
SILENT_TICK_S = 0.01
TICK_S = 0.5  # how soon the end of an owner is noticed when a forked child holds its pipe open
RESTART_PAUSE_S = 0.1
RESTARTS_MAX = 10  # within RESTART_WINDOW_S: a server that always dies at once is not restarted forever
RESTART_WINDOW_S = 60.0
EXIT_FOLDER_IN_USE = 75  # EX_TEMPFAIL, the same as start.sh's


class Supervisor:
    """Runner of one command, with at most one process at a time."""

    def __init__(self, command: list[str], *, restart: bool, log_file: Path | None) -> None:
        self._command = command
        self._restart = restart
        self._log_file = log_file
        self._log = bytearray()
        self._log_written = True
        self._process: subprocess.Popen[bytes] | None = None
        self._exit: int | None = None
        self._restarts: list[float] = []
        self._is_wanted = False

    def start(self) -> None:
        """Start the command, unless it runs."""
        self._is_wanted = True
        if self._process is not None:
            return
        # if this process is killed, the kernel ends the command (on Linux only)
        guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        self._process = subprocess.Popen(
            [*guard, *self._command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal goes to the owner, which then ends this process
        )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the command and wait for its end; kill it after `STOP_WAIT_S`."""
        self._is_wanted = False
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)  # a paused process takes no SIGTERM
        deadline = time.monotonic() + STOP_WAIT_S
        while self._process is not None:
            if time.monotonic() > deadline:
                self._process.kill()
            self.pump(0.01)

    def pump(self, wait_s: float, *descriptors: int) -> list[int]:
        """Read the output of the command, and detect its end.

        Returns:
            The other descriptors that are ready to read.
        """
        out = self._process.stdout if self._process is not None else None
        watched = list(descriptors)
        if out is not None and out.closed:
            wait_s = min(wait_s, SILENT_TICK_S)  # no descriptor becomes ready at its end
        elif out is not None:
            watched.append(out.fileno())
        ready, _, _ = select.select(watched, [], [], wait_s)
        if out is not None:
            self._read(out)
        self._reap()
        return [number for number in ready if number in descriptors]

    def _read(self, out: IO[bytes]) -> None:
        if out.closed:
            return
        try:
            while data := os.read(out.fileno(), LOG_BYTES_MAX):
                self._log += data
                del self._log[:-LOG_BYTES_MAX]
                self._log_written = False
        except BlockingIOError:
            return
        out.close()  # end of file: the command has closed its side, usually because it has ended

    def _reap(self) -> None:
        process = self._process
        if process is None:
            return
        status = process.poll()
        if status is None:
            return
        if process.stdout is not None:
            self._read(process.stdout)
            process.stdout.close()
        self._process, self._exit = None, status
        if self._is_wanted and self._restart and status <= 0:  # positive: it refuses its configuration
            self._start_again(status)

    def _start_again(self, status: int) -> None:
        now = time.monotonic()
        self._restarts = [moment for moment in self._restarts if now - moment < RESTART_WINDOW_S]
        if len(self._restarts) >= RESTARTS_MAX:
            self._log += (
                f"supervisor: ended {RESTARTS_MAX + 1} times within {RESTART_WINDOW_S:.0f} s, it stays down\n"
            ).encode()
            self._log_written = False
            self._is_wanted = False
            return
        self._restarts.append(now)
        why = f"by signal {-status}" if status else "in good order, unasked"
        self._log += f"supervisor: ended {why}, started again\n".encode()
        self._log_written = False
        time.sleep(RESTART_PAUSE_S)
        self.start()

    @property
    def running(self) -> bool:
        """True if the command runs, perhaps after a restart."""
        return self._process is not None

    def answer(self) -> bytes:
        """Return the state as one line of JSON."""
        state = {
            "pid": None if self._process is None else self._process.pid,
            "exit": self._exit,
            "log": self._log.decode(errors="replace"),
        }
        return json.dumps(state).encode() + b"\n"

    def write_log(self) -> None:
        """Write the kept output to the log file, if there is a log file and new output."""
        if self._log_file is None or self._log_written:
            return
        self._log_written = True
        with contextlib.suppress(OSError):
            self._log_file.write_bytes(self._log)


def serve_owner(supervisor: Supervisor, wake: int) -> None:
    """Obey the owner's words on standard input, until the owner or a signal ends it."""
    owner = os.getppid()
    words: dict[bytes, Callable[[], None]] = {
        b"start": supervisor.start,
        b"stop": supervisor.stop,
        b"kill": lambda: supervisor.stop(signal.SIGKILL),
        b"status": lambda: None,
    }
    pending = b""
    # a child of the owner may hold the pipe open: then a new parent process id shows the end
    while os.getppid() == owner:
        ready = supervisor.pump(TICK_S, 0, wake)
        if wake in ready:
            return
        if 0 not in ready:
            continue
        data = os.read(0, 4096)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            words[line]()
            supervisor.pump(0)
            sys.stdout.buffer.write(supervisor.answer())
            sys.stdout.buffer.flush()


def serve_alone(supervisor: Supervisor, wake: int) -> None:
    """Keep the command running until a signal comes or it ends by itself."""
    supervisor.start()
    while supervisor.running:
        if wake in supervisor.pump(TICK_S, wake):
            return
        supervisor.write_log()


def go_on_in_the_background() -> None:
    """Continue in a forked child.

    All open files and locks are kept. The calling process ends.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


@contextlib.contextmanager
def pid_file_of_its_own(path: Path | None, *, detach: bool) -> Iterator[bool]:
    """Hold the lock on the pid file; yield False if another supervisor holds it.

    The lock is taken before the fork into the background: the starting process may check it at once.
    """
    if path is None:
        yield True
        return
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        if detach:
            go_on_in_the_background()
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield True
        file.truncate(0)


def main() -> int:
    """Parse the command line and run until the end."""
    parser = argparse.ArgumentParser(description="keeps one server running for its owner")
    parser.add_argument("--detach", action="store_true", help="go on in the background")
    parser.add_argument("--owned", action="store_true", help="obey standard input, end with it")
    parser.add_argument(
        "--restart",
        action="store_true",
        help="start again after the command died by a signal, or ended unasked",
    )
    parser.add_argument("--pid-file", type=Path)
    parser.add_argument("--log-file", type=Path)
    parser.add_argument(
        "--remove", type=Path, action="append", default=[], help="a folder to delete at the end"
    )
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    wake_out, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    supervisor = Supervisor(options.command, restart=options.restart, log_file=options.log_file)
    with pid_file_of_its_own(options.pid_file, detach=options.detach) as is_own:
        if not is_own:
            sys.stderr.write(f"supervisor: {options.pid_file} is held by another supervisor\n")
            return EXIT_FOLDER_IN_USE
        try:
            if options.owned:
                serve_owner(supervisor, wake_out)
            else:
                serve_alone(supervisor, wake_out)
        finally:
            supervisor.stop()
            supervisor.write_log()
            for folder in options.remove:
                shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
