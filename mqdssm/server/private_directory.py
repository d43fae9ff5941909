"""Private directory of a directory server: a slapd in its folder.

The slapd ends with the process.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.secret import read_password
from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import write_atomically
from mqdssm.server.config import StoreSection
from mqdssm.server.folder import DirectoryServerFolder

if TYPE_CHECKING:
    from mqdssm.testing.openldap import OpenLdapServer


@contextmanager
def directory_of(
    store: StoreSection,
    folder: DirectoryServerFolder,
    *,
    on_start: "Callable[[OpenLdapServer], object]" = lambda _slapd: None,
) -> Iterator[ConnectionOptions]:
    """Run the private directory of a server, unless another one is given.

    The block gets the options to connect to the directory. `on_start` gets the slapd when it has started.

    Raises:
        ConfigError: slapd is missing or cannot be started, or the settings contradict each other.
    """
    if store.url:
        yield _build_options(store, folder)
        return
    slapd = _prepare_private_server(store, folder)
    slapd.start()
    try:
        on_start(slapd)
        yield ConnectionOptions.of(slapd.ldapi_url)
    finally:
        slapd.close()


def end_of(slapd: "OpenLdapServer", folder: DirectoryServerFolder, config_file: Path) -> str:
    """Say why a slapd stays down, and write its last output to a file.

    Args:
        slapd: the slapd, which is started again when it dies, but not ten times within a minute.
        folder: the server's folder.
        config_file: file of the server's configuration.

    Returns:
        An empty text if the slapd runs.
    """
    advice = f"Remove the cause, stop this server and start it again: mqdssm serve {config_file}"
    try:
        state = slapd.state
    except ConfigError as error:  # killed: its slapd ends with it
        return f"{error}, and slapd is not started again. {advice}"
    if state["pid"] is not None:
        return ""
    where = f"its last output is in {folder.slapd_log}"
    try:
        write_atomically(folder.slapd_log, [state["log"]])
    except ConfigError as error:
        where = f"its last output cannot be written: {error}"
    return (
        f"its slapd has ended ({_describe_exit(state['exit'])}), and is not started again; {where}. {advice}"
    )


def _describe_exit(status: int | None) -> str:
    """Return words for an exit status, which is negative for a signal."""
    if status is None or status >= 0:
        return f"exit status {status}"
    try:
        return f"by signal {-status}, {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


def check_dump(folder: DirectoryServerFolder) -> tuple[str, Path]:
    """Return slapcat and the configuration of the private directory.

    Raises:
        ConfigError: there is no directory yet, or no slapcat.
    """
    configuration = folder.directory / "conf" / "slapd.conf"
    if not configuration.exists():
        raise ConfigError(f"{folder.path} has no directory yet: start the server once before its backup")
    from mqdssm.testing.openldap_config import PLACES_OF_PROGRAMS  # noqa: PLC0415  seldom needed

    search = os.pathsep.join((os.environ.get("PATH", os.defpath), *PLACES_OF_PROGRAMS))
    program = shutil.which("slapcat", path=search)
    if program is None:
        raise ConfigError("slapcat is not installed: it is a part of OpenLDAP's server")
    return program, configuration


def dump_directory(store: StoreSection, folder: DirectoryServerFolder, file: Path) -> None:
    """Write all entries of the private directory to a new LDIF file.

    The file is a snapshot; slapd may run meanwhile.

    Raises:
        ConfigError: there is no directory yet, or slapcat fails.
    """
    program, configuration = check_dump(folder)
    command = [program, "-f", str(configuration), "-b", store.base_dn, "-l", str(file)]
    result = subprocess.run(  # noqa: S603  a program of the system, without a shell
        command, capture_output=True, text=True, errors="replace", check=False
    )
    if result.returncode:
        raise ConfigError(
            f"slapcat cannot read the directory of {folder.path}: {result.stderr.strip()[:500]}"
        )


def load_directory(store: StoreSection, folder: DirectoryServerFolder, file: Path) -> None:
    """Make the private directory of a server, with the entries of an LDIF file.

    Raises:
        ConfigError: slapd is missing, or an entry cannot be loaded.
    """
    with _prepare_private_server(store, folder) as slapd:
        slapd.load(file)


def _prepare_private_server(store: StoreSection, folder: DirectoryServerFolder) -> "OpenLdapServer":
    try:
        from mqdssm.testing.openldap import OpenLdapServer  # noqa: PLC0415  needs Linux or another Unix
    except ImportError as error:  # no fcntl on Windows
        raise ConfigError(f"a private directory needs Linux or another Unix ({error}): give a url") from error
    return OpenLdapServer(
        folder.directory,
        base_dn=store.base_dn,
        replication=True,
        database_bytes_max=store.database_bytes_max,
        restart=True,
    )


def _build_options(store: StoreSection, folder: DirectoryServerFolder) -> ConnectionOptions:
    """Return the options for a given directory."""
    password = None
    if store.password_file is not None:
        password = read_password(folder.path / store.password_file)
    return ConnectionOptions.of(
        store.url,
        password=password,
        user=store.user or None,
        tls=store.tls,
        ca_file=folder.path / store.ca_file if store.ca_file else None,
        authentication=store.authentication,
        keytab=folder.path / store.keytab if store.keytab else None,
        kerberos_host=store.kerberos_host,
        naming_context=store.naming_context,
        allow_clear_text=store.allow_clear_text,
    )
