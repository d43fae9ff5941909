"""The command line as a program of its own: speed, pipes, signals, terminals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import starting
from support.programs.starting import MQDSSM
from support.servers.terminal import in_terminal

pytestmark = pytest.mark.slow  # starts programs

HEAVY = (
    "ldap3",
    "pyspark",
    "pyarrow",
    "cryptography",
    "pydantic_settings",
    "mqdssm.directory.session",
    "mqdssm.tables",
)


def run(*args: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MQDSSM, *args], capture_output=True, text=True, timeout=60, check=False, **more)


def test_help_is_quick_because_it_imports_little():
    code = (
        "import sys\n"
        "from mqdssm.cli.main import run\n"
        "for command in ([], ['create'], ['doctor'], ['demo'], ['schema', 'check']):\n"
        "    sys.argv = ['mqdssm', *command, '--help']\n"
        "    try: run()\n"
        "    except SystemExit as end: assert not end.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert not loaded.intersection(HEAVY)
    assert "mqdssm.cli.main" in loaded
    assert done.stdout.count("Usage: mqdssm") == 5


def test_the_installed_program_is_the_same():
    program = Path(sys.executable).parent / "mqdssm"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mqdssm 0.1.0\n", "")


def test_a_comparison_ends_quietly(tmp_path):
    """DuckDB's binding reports objects on stderr that nothing has collected when the program ends."""
    tables = str(tmp_path / "mqis")
    made = run(
        "generate", "--sites", "1", "--machines", "2", "--queues", "5", "--format", "mqis", "--to", tables
    )
    assert made.returncode == 0, made.stderr
    done = run("diff", tables, tables)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].endswith(", engine: local")


@pytest.mark.server
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_log_file_on_a_full_disk_is_told_once_and_is_no_failure(openldap_server, debug):
    environment = {
        **os.environ,
        "MQDSSM_URL": openldap_server.ldapi_url,
        "MQDSSM_LOG_FILE": "/dev/full",
    }
    command = [*MQDSSM, "read", "enterprise", "-o", "json", *debug]
    done = starting.run(command, env=environment, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    warning = "the log file /dev/full cannot be written: No space left on device; this run goes on without it"
    assert done.stderr.count(f"warning: {warning}\n") == 1
    assert "Traceback" not in done.stderr
    assert debug or done.stderr.count("\n") == 1


@pytest.mark.server
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_log_file_and_error_output_on_one_full_disk_are_no_failure(openldap_server, debug):
    """As of a job whose output and log go to the same folder."""
    environment = {
        **os.environ,
        "MQDSSM_URL": openldap_server.ldapi_url,
        "MQDSSM_LOG_FILE": "/dev/full",
    }
    command = [*MQDSSM, "read", "enterprise", "-o", "json", *debug]
    with Path("/dev/full").open("wb") as full:
        done = starting.run(command, stderr=full, env=environment)
    assert done.returncode == 0
    assert json.loads(done.stdout)


def test_exit_codes_leave_the_process():
    done = run("read", "queue")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: which queue? give an Attribute=Value, or use 'mqdssm list queue'\n"


def test_a_reader_that_has_seen_enough_is_no_error():
    with subprocess.Popen(
        [*MQDSSM, "schema", "show", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.skipif(os.name != "posix", reason="signals are sent to processes")
@pytest.mark.parametrize(
    ("closed", "code"),
    [
        ("</dev/null >&-", 1),
        ("</dev/null 2>&-", 1),
        ("</dev/null >&- 2>&-", 1),
        ("<&-", 2),
        ("<&- >&- 2>&-", 2),
    ],
)
def test_a_stream_that_is_closed_is_no_error_of_ours(closed, code):
    command = f"{sys.executable} -m mqdssm.cli.main decode --kind replication - {closed}"
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code  # what is read is no message, or there is nothing to read
    assert "Traceback" not in ran.stderr
    assert ("error: " in ran.stderr) == ("2>&-" not in closed)


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the stream")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("list queue --url ldaps://127.0.0.1:9 --user cn=x", "there is no terminal to ask at"),
        ("decode --kind replication -", "there is no standard input: name a file"),
        ("send DIRECT=TCP:127.0.0.1\\\\private$\\\\x --body -", "there is no standard input: name a file"),
        (
            "enterprise add-server new --token - --listen 127.0.0.1:9",
            "there is no standard input: name a file",
        ),
    ],
)
def test_a_standard_input_that_is_closed_is_named(arguments, words, tmp_path):
    command = f"{sys.executable} -m mqdssm.cli.main {arguments} <&-"
    ran = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: ")
    assert words in ran.stderr


def test_interrupt_ends_quietly(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ldap://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*MQDSSM, "list", "queue", "--url", url, "--tls", "none"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(30)
        connection, _ = silent.accept()  # it has connected, and waits for an answer
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        connection.close()
    assert (process.returncode, out, err) == (130, "", "error: interrupted\n")


def test_json_is_utf8_whatever_the_locale(tmp_path):
    done = subprocess.run(
        [*MQDSSM, "schema", "ldif", "--format", "root-dse", "--root", "DC=größe", "-o", "json"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("utf-8"))["format"] == "root-dse"


def test_the_password_is_asked_for_at_a_terminal(openldap_server):
    environment = {
        "MQDSSM_URL": openldap_server.url,
        "MQDSSM_USER": openldap_server.user,
        "MQDSSM_CA_FILE": openldap_server.ca_file,
    }
    question = f"Password of {openldap_server.user}: "
    args = ["read", "enterprise", "-a", "Name"]
    code, screen = in_terminal(args, {question: openldap_server.password}, environment)
    assert code == 0, screen
    assert "dc=example,dc=com" in screen
    assert openldap_server.password not in screen  # it is not echoed
    code, screen = in_terminal(args, {question: "wrong"}, environment)
    assert code == 3
    assert "unknown user or wrong password" in screen


def test_on_a_terminal_tables_are_drawn_and_progress_is_cleared(openldap_server):
    environment = {"MQDSSM_URL": openldap_server.ldapi_url, "COLUMNS": "100"}
    code, screen = in_terminal(["list", "enterprise"], {}, environment)
    assert code == 0, screen
    assert "──" in screen
    assert "dc=example,dc=com" in screen
    assert screen.rstrip().endswith("1 enterprise")
    code, screen = in_terminal(["list", "enterprise", "-o", "json"], {}, environment)
    assert json.loads(screen)[0]["Name"] == "dc=example,dc=com"
    assert "\x1b" not in screen
