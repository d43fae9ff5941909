"""A program that has imported ``mqdssm``, and forks a process for each Python program that it is to start.

`support.programs.starting` runs it; its argument is the number of a socket. A request is four bytes with the
length of a JSON object (`Request`), and the descriptors of standard input, output, errors and a status pipe.
The new process writes its number to that pipe when it is what was asked for, and this one its wait status
when it has ended, each with the other number zero.
"""

import array
import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

import mqdssm

NUMBER: Final = struct.Struct("=I")
STATUS: Final = struct.Struct("=ii")
STREAMS: Final = 3
LATER: Final = ("mqdssm.cli.main", "mqdssm.spark", "mqdssm.testing", "mqdssm.pipeline.worker")
"""Modules that programs import themselves: the program itself, and what most of them do without."""
HIDDEN: Final = ("duckdb", "jinja2", "pandas", "py4j", "pyspark", "sqlglot")
"""Packages that no program has imported when it is forked: most do without, some are not to find them."""
OTHERS: Final = ("rich.console", "rich.progress", "rich.table")
CLONE_NEWNET: Final = 0x40000000


class Request(TypedDict):
    """What to start, and how: a module, a script or statements, with arguments."""

    kind: Literal["module", "script", "code"]
    program: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    new_session: bool
    terminal: bool
    network: str
    ignored_signals: list[int]
    umask: int


class Hiding:
    """Import finder that finds none of some packages, as if they were not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        """See ``importlib.abc.MetaPathFinder``."""
        if name in HIDDEN:
            raise ModuleNotFoundError(name, name=name)


def import_package() -> None:
    """Import what commands import; modules that need what is hidden are imported by those that use them."""
    hiding = Hiding()
    sys.meta_path.insert(0, hiding)
    for name in OTHERS:
        importlib.import_module(name)
    packages: list[tuple[Sequence[str], str]] = [(mqdssm.__path__, "mqdssm.")]
    for path, prefix in packages:
        for module in pkgutil.iter_modules(path, prefix):
            if module.name in LATER:
                continue
            with contextlib.suppress(ModuleNotFoundError):
                imported = importlib.import_module(module.name)
                if module.ispkg:
                    packages.append((imported.__path__, f"{module.name}."))
    sys.meta_path.remove(hiding)


class Starter:
    """Processes that were forked, each with its status pipe."""

    def __init__(self, requests: socket.socket) -> None:
        self.requests = requests
        self.pipes: dict[int, int] = {}
        self.wakeups = os.pipe()
        for end in self.wakeups:
            os.set_blocking(end, False)

    def serve(self) -> tuple[Request, list[int], int] | None:
        """Fork processes until the socket is closed.

        Returns:
            None then; in a process that was forked, its request, streams and status pipe.
        """
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wakeups[1])
        with selectors.DefaultSelector() as selector:
            selector.register(self.requests, selectors.EVENT_READ)
            selector.register(self.wakeups[0], selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if self.wakeups[0] in ready:
                    os.read(self.wakeups[0], 4096)
                    self._report_ended()
                if self.requests.fileno() not in ready:
                    continue
                head, descriptors = self._receive_head()
                if not head:
                    return None
                request: Request = json.loads(self._receive(*NUMBER.unpack(head)))
                *streams, pipe = descriptors
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    return request, streams, pipe
                for descriptor in streams:
                    os.close(descriptor)
                self.pipes[pid] = pipe

    def _receive_head(self) -> tuple[bytes, list[int]]:
        descriptors = array.array("i")
        space = socket.CMSG_SPACE((STREAMS + 1) * descriptors.itemsize)
        head, ancillary, _, _ = self.requests.recvmsg(NUMBER.size, space)
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        return head, list(descriptors)

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.requests.recv(size - len(data))
        return data

    def _report_ended(self) -> None:
        for pid in list(self.pipes):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                pipe = self.pipes.pop(pid)
                with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
                    os.write(pipe, STATUS.pack(0, status))
                os.close(pipe)


def become(request: Request, streams: list[int], pipe: int) -> None:
    """Make this process what a new one would be, and say so: session, streams, folder, variables, signals."""
    if request["new_session"] or request["terminal"]:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number, inheritable=True)
    if request["terminal"]:
        take_terminal()
    if request["network"]:
        _enter_network(request["network"])
    for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in request["ignored_signals"] else usual)
    os.umask(request["umask"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    sys.stdin = _stream(0, sys.stdin)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    for name in "stdin", "stdout", "stderr":
        setattr(sys, f"__{name}__", getattr(sys, name))
    os.write(pipe, STATUS.pack(os.getpid(), 0))
    os.closerange(STREAMS, os.sysconf("SC_OPEN_MAX"))


def take_terminal() -> None:
    """Make the terminal on standard input that of this process's session."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _enter_network(name: str) -> None:
    import ctypes

    with Path("/run/netns", name).open("rb") as space:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(space.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), space.name)


def _stream(number: int, as_before: Any) -> Any:
    raw: Any = io.FileIO(number, "w" if number else "r", closefd=False)
    raw.name = as_before.name
    binary: Any
    if number == 0:
        binary = io.BufferedReader(raw)
    else:
        binary = raw if as_before.write_through else io.BufferedWriter(raw)
    stream: Any = io.TextIOWrapper(
        binary,
        encoding=as_before.encoding,
        errors=as_before.errors,
        line_buffering=number == 2 or raw.isatty(),
        write_through=as_before.write_through,
    )
    stream.mode = as_before.mode
    return stream


def run(request: Request) -> None:
    """Run the program, as `python` would with these arguments."""
    kind, program, arguments = request["kind"], request["program"], request["arguments"]
    option = {"module": "-m", "code": "-c", "script": program}[kind]
    words = [program, *arguments] if kind != "script" else arguments
    sys.orig_argv[:] = [sys.executable, option, *words]
    sys.argv[:] = [option, *arguments]
    added = [one for one in request["environment"].get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[1:] = dict.fromkeys([*added, *sys.path[1:]])
    sys.path[0] = {"module": str(Path.cwd()), "code": "", "script": str(Path(program).resolve().parent)}[kind]
    match kind:
        case "module":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        case "script":
            runpy.run_path(program, run_name="__main__")
        case "code":
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


def end(status: SystemExit) -> None:
    """End as Python does, but without taking each module apart, which takes six times as long as all else.

    Returns:
        Where there is something to say: Python says it then.
    """
    code = status.code or 0
    if not isinstance(code, int):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code & 0xFF)


def main() -> Request | None:
    """Import the package, and serve; a process that is forked returns its request."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    import_package()
    gc.collect()
    gc.freeze()
    begun = Starter(requests).serve()
    if begun is None:
        return None
    requests.detach()
    become(*begun)
    return begun[0]


if __name__ == "__main__" and (given := main()) is not None:
    try:
        run(given)
    except SystemExit as ended:
        end(ended)
        raise
    end(SystemExit())
