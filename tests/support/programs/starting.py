"""Python programs as processes that are forked instead of started: `start`, `run`.

Such a process has its own variables, folder, streams, session and signals, as a started one. But most of what
it imports was imported before it was forked, which saves half a second of processor time. `/proc` shows
another command line of it. Tests of that, of the start itself and of closed streams start programs with
`subprocess`. The functions here start them, too, where they cannot fork: see `_request_of`.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from support.programs.starter import HIDDEN, NUMBER, STATUS, Request, take_terminal
from support.project.source_tree import ROOT

MQDSSM: Final = (sys.executable, "-m", "mqdssm.cli.main")
_OF_PYTHON: Final = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
"""Beginnings of the names of variables that Python reads when it starts."""
_KNOWN: Final = {"env", "cwd", "stdin", "stdout", "stderr", "text", "start_new_session"}
"""Options of `subprocess.Popen` that a forked process can have, too."""
_KINDS: Final[dict[str, Literal["module", "code"]]] = {"-m": "module", "-c": "code"}


class _Starter:
    """The program that forks, one for each process of tests; started on first use, it ends with the tests."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner = 0

    def fork(self, request: Request, streams: Sequence[int]) -> int:
        """Fork a process.

        Returns:
            The descriptor of its status pipe.
        """
        here, there = os.pipe()
        text = json.dumps(request).encode()
        try:
            with self._lock:
                if self._owner != os.getpid():
                    self._start()
                socket.send_fds(self._requests, [NUMBER.pack(len(text))], [*streams, there])
                self._requests.sendall(text)
        finally:
            os.close(there)
        return here

    def _start(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.programs.starter", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT / "tests",
                env={**os.environ, "PYTHONPATH": _python_path(os.environ)},
            )
        self._owner = os.getpid()
        atexit.register(self._end)

    def _end(self) -> None:
        if self._owner == os.getpid():
            self._requests.close()
            self._process.wait()


def _python_path(environment: Mapping[str, str]) -> str:
    """The folders of Python's path, without those that only hide what no forked program has imported."""
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    given = [one for one in folders if one not in {"", str(ROOT)} and not _only_hides(Path(one))]
    return os.pathsep.join([*given, str(ROOT)])


def _only_hides(folder: Path) -> bool:
    return folder.is_dir() and {path.name for path in folder.iterdir()}.issubset(HIDDEN)


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    chosen = {name: value for name, value in environment.items() if name.startswith(_OF_PYTHON)}
    return {**chosen, "PYTHONPATH": _python_path(environment)}


_STARTER: Final = _Starter()
_ENVIRONMENT: Final = _of_python(os.environ)


class ForkedProcess(subprocess.Popen[Any]):
    """A process that was forked by another one, which tells how it ended."""

    _waitpid_lock: Lock
    _close_pipe_fds: Callable[..., None]
    _handle_exitstatus: Callable[[int], None]

    def __init__(self, request: Request, words: Sequence[str], **options: Any) -> None:
        self._request = request
        super().__init__(words, **options)

    def _execute_child(self, *arguments: Any) -> None:
        # of each stream, its end in the new process and ours; -1 where it is inherited, or nobody's
        ends = arguments[10:16]
        theirs = (ends[0], ends[3], ends[5])
        try:
            streams = [end if end != -1 else number for number, end in enumerate(theirs)]
            self._status = _STARTER.fork(self._request, streams)
        finally:
            self._close_pipe_fds(*ends)
        data = os.read(self._status, STATUS.size)
        self.pid = STATUS.unpack(data)[0] if data else 0
        if not self.pid:
            os.close(self._status)
            raise OSError(f"a forked process could not become {self.args!r}")
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        ready = select.select([self._status], [], [], 0 if wait_flags & os.WNOHANG else None)[0]
        if not ready:
            return 0, 0
        data = os.read(self._status, STATUS.size)
        os.close(self._status)
        if not data:
            raise ChildProcessError("the program that forks processes has ended")
        return self.pid, STATUS.unpack(data)[1]

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def start(
    words: Sequence[str], *, terminal: bool = False, network: str = "", **options: Any
) -> "subprocess.Popen[Any]":
    """Start a program as `subprocess.Popen` does.

    Args:
        words: its command line.
        terminal: its streams are a terminal that becomes the one of its session.
        network: name of the network namespace that it runs in.
        options: as of `subprocess.Popen`.
    """
    chosen = [str(word) for word in words]
    if (request := _request_of(chosen, options)) is not None:
        return ForkedProcess({**request, "terminal": terminal, "network": network}, chosen, **options)
    if terminal:
        options |= {"start_new_session": True, "preexec_fn": take_terminal}
    inside = ["ip", "netns", "exec", network] if network else []
    return subprocess.Popen([*inside, *chosen], **options)


def run(
    words: Sequence[str], *, data: Any = None, timeout: float | None = None, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run a program as `subprocess.run` does, with its output and errors caught unless they go elsewhere."""
    caught = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given = {"stdin": subprocess.PIPE} if data is not None else {}
    with start(words, **{**caught, **given, **options}) as process:
        try:
            out, errors = process.communicate(data, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def _request_of(words: Sequence[str], options: Mapping[str, Any]) -> Request | None:
    """What to ask for; None if the program has to be started: Python itself would read what is given."""
    environment = dict(options.get("env") or os.environ)
    if sys.platform != "linux" or words[0] != sys.executable or not _KNOWN.issuperset(options):
        return None
    kind: Literal["module", "script", "code"] = _KINDS.get(words[1], "script")
    if _of_python(environment) != _ENVIRONMENT or (kind == "script" and words[1].startswith("-")):
        return None
    program, *arguments = words[1:] if kind == "script" else words[2:]
    umask = os.umask(0o22)
    os.umask(umask)
    signals = signal.SIGHUP, signal.SIGINT, signal.SIGTERM
    return {
        "kind": kind,
        "program": program,
        "arguments": arguments,
        "folder": str(options.get("cwd") or Path.cwd()),
        "environment": environment,
        "new_session": bool(options.get("start_new_session")),
        "terminal": False,
        "network": "",
        "ignored_signals": [int(one) for one in signals if signal.getsignal(one) is signal.SIG_IGN],
        "umask": umask,
    }
