"""Programs that tests fork instead of starting them: they are what started ones would be."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import starting
from support.programs.starting import ForkedProcess
from support.spark.without_java import NOT_NEEDED, environment_without_java

from mqdssm.cli.main import MODULES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="programs are forked on Linux alone"),
]

REPORT = """
import json, os, signal, sys, tempfile
streams = [sys.stdin, sys.stdout, sys.stderr]
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path[0], "name": __name__,
    "folder": os.getcwd(), "environment": dict(os.environ), "temporary": tempfile.gettempdir(),
    "streams": [[s.encoding, s.errors, s.line_buffering, s.isatty(), s.name, s.mode] for s in streams],
    "same": [sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr],
    "signals": [str(signal.getsignal(n)).partition(" at ")[0] for n in (1, 2, 13, 15, 17)],
    "leader": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid(),
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1], "mask": os.umask(0o22),
    "read": sys.stdin.read(),
}, default=str))
print("errors", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize("kind", ["code", "script"])
@pytest.mark.parametrize("session", [False, True])
def test_a_forked_process_is_as_a_started_one(kind: str, session: bool, tmp_path: Path) -> None:
    script = tmp_path / "report.py"
    script.write_text(REPORT)
    words = [sys.executable, *(["-c", REPORT] if kind == "code" else [str(script)]), "a", "b c"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "MQDSSM_NEW": "grün"}
    options = {"env": environment, "cwd": tmp_path, "text": True, "start_new_session": session}
    started = subprocess.run(words, input="given\n", capture_output=True, check=False, timeout=60, **options)
    process = starting.start(words, stdin=-1, stdout=-1, stderr=-1, **options)
    assert isinstance(process, ForkedProcess)
    out, errors = process.communicate("given\n", 60)
    assert (process.returncode, errors) == (7, "errors\n") == (started.returncode, started.stderr)
    assert json.loads(out) == json.loads(started.stdout)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(300)", 300 & 255),
        ("raise SystemExit('text')", 1),
        ("raise ValueError('text')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.close(1); os.dup2(os.open('/dev/full', 1), 1); print('text')", 120),
        ("import atexit; atexit.register(print, 'last')", 0),
        ("import threading; threading.Timer(0.2, print, ['last']).start()", 0),
    ],
)
def test_it_ends_as_a_started_one(code: str, status: int) -> None:
    words = [sys.executable, "-c", code]
    started = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    forked = starting.run(words, text=True, timeout=60)
    assert forked.returncode == status == started.returncode
    assert forked.stdout == started.stdout
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_it_is_what_was_asked_for_at_once(tmp_path: Path) -> None:
    """Otherwise a signal to its group would find none."""
    for _ in range(10):
        with starting.start([sys.executable, "-c", "input()"], start_new_session=True, stdin=-1) as process:
            os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    with pytest.raises(OSError, match="could not become"):
        starting.start([sys.executable, "-c", "pass"], cwd=tmp_path / "none", stderr=subprocess.DEVNULL)


def test_a_program_with_other_settings_of_python_is_started() -> None:
    words = [sys.executable, "-c", "import sys; print(sys.flags.optimize, len(sys.warnoptions))"]
    with starting.start(words, env={**os.environ, "PYTHONOPTIMIZE": "1"}, stdout=-1, text=True) as process:
        assert not isinstance(process, ForkedProcess)
        assert process.communicate()[0].startswith("1 ")


def test_packages_that_are_to_be_missing_are_missing(tmp_path: Path) -> None:
    environment = environment_without_java(tmp_path, NOT_NEEDED)
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n  try: importlib.import_module(name)\n"
    words = [sys.executable, "-c", f"{code}  except ModuleNotFoundError as error: print(error.name)"]
    with starting.start([*words, *NOT_NEEDED], env=environment, stdout=-1, text=True) as process:
        assert isinstance(process, ForkedProcess)
        assert process.communicate()[0].split() == list(NOT_NEEDED)


ALONE = """
import importlib, os, sys
import pyarrow.compute, pyarrow.parquet, pydantic_settings, rich.console, rich.table, typer, ldap3, asyncio
for name in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_the_module_of_each_command_can_be_imported_first() -> None:
    """Forked programs, of which most tests are, do not prove it: they have imported every module."""
    modules = sorted({module.partition(":")[0] for module in MODULES.values()})
    words = [sys.executable, "-c", ALONE, *modules]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
