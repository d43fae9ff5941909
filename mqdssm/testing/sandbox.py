"""``mqdssm sandbox``: an OpenLDAP with a kept folder, in the background.

The folder contains the database, the password, the certificates, the end of the log, and ``sandbox.json``
with the addresses. A supervisor outlives the command that started it, and restarts slapd after a crash. Only
one supervisor may use the folder.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.events.durable_files import check_own
from mqdssm.testing import openldap_config
from mqdssm.testing.accounts import Accounts, connect_as_owner
from mqdssm.testing.openldap_start import (
    POLL_S,
    START_WAIT_S,
    AddressTakenError,
    choose_ports,
    explain_failure,
    is_answering,
    require_free,
)
from mqdssm.testing.supervised_server import SUPERVISOR

STOP_WAIT_S: Final = 15.0  # more than the supervisor waits for slapd
START_ATTEMPTS: Final = 5
STATE_FILE: Final = "sandbox.json"
PID_FILE: Final = "supervisor.pid"
LOCK_FILE: Final = "sandbox.lock"
LOG_FILE: Final = "slapd.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxState:
    """Addresses and state of a sandbox.

    Attributes:
        folder: where it is kept.
        running: whether its supervisor runs.
        answers: whether slapd answers.
        pid: process id of the supervisor.
        url: ``ldap:`` on loopback, StartTLS offered.
        ldapi_url: socket on which its owner needs no password.
        ldaps_url: ``ldaps:`` on loopback.
        user: DN of the administrator.
        password_file: file with the administrator's password.
        ca_file: certificate of the authority that signed the server's own.
        base_dn: root of the directory.
    """

    folder: str
    running: bool
    answers: bool
    pid: int | None
    url: str
    ldapi_url: str
    ldaps_url: str
    user: str
    password_file: str
    ca_file: str
    base_dn: str

    def accounts(self) -> Accounts:
        """Return a creator of computers and users in the sandbox."""
        return Accounts(lambda: connect_as_owner(self.ldapi_url), self.base_dn)


def start_sandbox(folder: str | Path, options: openldap_config.OpenLdapOptions | None = None) -> SandboxState:
    """Start a new or existing sandbox in the background, unless it runs already.

    Args:
        folder: made when it is missing; given to its owner alone.
        options: how it behaves; None takes what it was started with before, or the defaults.

    Raises:
        ConfigError: software is missing, the folder or a port is in use, the folder holds a directory
            with another root, ….
    """
    openldap_config.require_software()
    place = openldap_config.ServerFolder(Path(folder).absolute())
    with _lock_start(place.path):
        saved_state = _read(place.path)
        if saved_state is not None and _is_supervisor_running(place.path):
            return _build_state(place.path, saved_state)
        require_free(place.path)
        options = _combine_options(saved_state, options, place.path)
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                return _start(place, options, saved_state if attempt == 1 else None)
            except AddressTakenError as error:
                if attempt == START_ATTEMPTS or (options.port and options.ldaps_port):
                    raise ConfigError(str(error)) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def stop_sandbox(folder: str | Path) -> bool:
    """Stop a sandbox; its folder stays.

    Returns:
        Whether it was running.

    Raises:
        ConfigError: the folder holds no sandbox, or it does not stop.
    """
    path = Path(folder).absolute()
    state = sandbox_status(path)
    if not state.running:
        return False
    deadline = time.monotonic() + STOP_WAIT_S
    was_signalled = False
    while _is_supervisor_running(path):
        pid = _read_pid(path)
        if pid is not None and not was_signalled:
            was_signalled = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise ConfigError(f"the sandbox in {path} (process {pid}) does not stop")
        time.sleep(POLL_S)
    return True


def sandbox_status(folder: str | Path) -> SandboxState:
    """Return the addresses and the state of a sandbox.

    Raises:
        ConfigError: the folder holds no sandbox.
    """
    path = Path(folder).absolute()
    saved_state = _read(path)
    if saved_state is None:
        raise ConfigError(f"{path} holds no sandbox: make one with 'mqdssm sandbox start {path}'")
    return _build_state(path, saved_state)


def _start(
    place: openldap_config.ServerFolder,
    options: openldap_config.OpenLdapOptions,
    saved_state: dict[str, Any] | None,
) -> SandboxState:
    place.make(options)
    ports = choose_ports(options if saved_state is None else replace(options, **saved_state["ports"]))
    written = {
        "url": f"ldap://127.0.0.1:{ports[0]}",
        "ldapi_url": place.ldapi_url,
        "ldaps_url": f"ldaps://127.0.0.1:{ports[1]}",
        "user": options.admin_dn,
        "password_file": str(place.password_file),
        "ca_file": str(place.ca_file),
        "base_dn": options.base_dn,
        "ports": {"port": ports[0], "ldaps_port": ports[1]},
        "options": asdict(options),
    }
    log = place.path / LOG_FILE
    log.unlink(missing_ok=True)
    supervised = [sys.executable, "-I", "-S", str(SUPERVISOR), "--detach", "--restart"]
    supervised += [f"--pid-file={place.path / PID_FILE}", f"--log-file={log}"]
    ran = subprocess.run(
        [*supervised, "--", "/bin/sh", str(openldap_config.START_SCRIPT)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=place.build_environment(options, *ports),
        check=False,
    )
    if ran.returncode:
        raise ConfigError(
            f"the sandbox in {place.path} was not started: {ran.stderr.decode(errors='replace')}"
        )
    deadline = time.monotonic() + START_WAIT_S
    while not is_answering(place.socket):
        if not _is_supervisor_running(place.path):
            raise explain_failure(None, log.read_text(encoding="utf-8") if log.exists() else "", place.path)
        if time.monotonic() > deadline:
            raise ConfigError(f"slapd in {place.path} did not answer within {START_WAIT_S:.0f} s")
        time.sleep(POLL_S)
    _write(place.path, written)
    return _build_state(place.path, written)


def _combine_options(
    saved_state: dict[str, Any] | None, options: openldap_config.OpenLdapOptions | None, path: Path
) -> openldap_config.OpenLdapOptions:
    if saved_state is None:
        return options or openldap_config.OpenLdapOptions()
    before = openldap_config.OpenLdapOptions(**saved_state["options"])
    if options is None:
        return before
    if options.base_dn != before.base_dn:
        raise ConfigError(f"{path} holds a directory with the root {before.base_dn}, not {options.base_dn}")
    return options


def _read(path: Path) -> dict[str, Any] | None:
    file = path / STATE_FILE
    try:
        check_own(path)  # else somebody else says which process "stop" ends
        saved_state = json.loads(file.read_text(encoding="utf-8"))
        openldap_config.OpenLdapOptions(**saved_state["options"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} cannot be used: {error}") from error
    return dict(saved_state)


def _write(path: Path, saved_state: dict[str, Any]) -> None:
    new = path / f"{STATE_FILE}.new"
    new.write_text(json.dumps(saved_state, indent=2) + "\n", encoding="utf-8")
    new.replace(path / STATE_FILE)


def _build_state(path: Path, saved_state: dict[str, Any]) -> SandboxState:
    names = ("url", "ldapi_url", "ldaps_url", "user", "password_file", "ca_file", "base_dn")
    running = _is_supervisor_running(path)
    return SandboxState(
        folder=str(path),
        running=running,
        answers=running and is_answering(openldap_config.ServerFolder(path).socket),
        pid=_read_pid(path) if running else None,
        **{name: saved_state[name] for name in names},
    )


def _is_supervisor_running(path: Path) -> bool:
    """Return True if a process holds the lock on the pid file.

    A running supervisor does.
    """
    import fcntl  # not on Windows, where require_software() has raised

    try:
        with (path / PID_FILE).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _read_pid(path: Path) -> int | None:
    text = (path / PID_FILE).read_text(encoding="ascii").strip()
    return int(text) if text.isdigit() else None


@contextlib.contextmanager
def _lock_start(path: Path) -> Iterator[None]:
    """Hold a lock on starting a sandbox.

    Commands that start the same sandbox run one after the other.
    """
    import fcntl

    with convert_folder_errors(f"{path} cannot hold a sandbox"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_own(path)
        file = path / LOCK_FILE
        if file.is_symlink():
            raise ConfigError(f"{file} is a link, which no sandbox makes: name a folder of your own")
        with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
