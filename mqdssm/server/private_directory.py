"""Private directory of a directory server: a slapd in its folder.

The slapd ends with the process.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.secret import read_password
from mqdssm.errors import ConfigError
from mqdssm.server.config import StoreSection
from mqdssm.server.folder import DirectoryServerFolder


@contextmanager
def directory_of(store: StoreSection, folder: DirectoryServerFolder) -> Iterator[ConnectionOptions]:
    """Run the private directory of a server, unless another one is given.

    The block gets the options to connect to the directory.

    Raises:
        ConfigError: slapd is missing or cannot be started, or the settings contradict each other.
    """
    if store.url:
        yield _given(store, folder)
        return
    try:
        from mqdssm.testing.openldap import OpenLdapServer  # noqa: PLC0415  needs Linux or another Unix
    except ImportError as error:  # no fcntl on Windows
        raise ConfigError(f"a private directory needs Linux or another Unix ({error}): give a url") from error
    slapd = OpenLdapServer(
        folder.directory,
        base_dn=store.base_dn,
        replication=True,
        database_bytes_max=store.database_bytes_max,
        restart=True,
    )
    slapd.start()
    try:
        yield ConnectionOptions.of(slapd.ldapi_url)
    finally:
        slapd.close()


def _given(store: StoreSection, folder: DirectoryServerFolder) -> ConnectionOptions:
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
