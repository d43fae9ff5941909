"""Information on a session's directory from the root DSE.

See [MS-MQDSSM] 3.1.3 and 3.1.1.5.
"""

import threading
import time
from dataclasses import dataclass

from mqdssm.directory import failures
from mqdssm.directory.channel import Channel, ConnectionBroken
from mqdssm.directory.entries import Entry, decode_entry
from mqdssm.directory.filters import TRUE, encode
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.profile import ROOT_DSE_ATTRIBUTES, Naming, Profile, choose
from mqdssm.directory.profiles import PROFILES
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.responses import LdapResult
from mqdssm.directory.searching import Search
from mqdssm.errors import (
    ConfigError,
    DecodeError,
    DirectoryError,
    DirectoryNotConnected,
    GenericDirectoryError,
)


@dataclass(frozen=True, slots=True)
class _Directory:
    profile: Profile
    naming: Naming
    root_dse: Entry


class ServerInfo:
    """Profile and naming contexts of a directory.

    The first server is read, and the others are compared with it.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        """Initialize without any request."""
        self._options = options
        self._lock = threading.Lock()
        self._directory: _Directory | None = None

    @property
    def is_there(self) -> bool:
        """True if a server was reached.

        CachedConfigurationNamingContext is empty until then.
        """
        return self._directory is not None

    @property
    def profile(self) -> Profile:
        """Profile of this kind of server."""
        return self._require_directory().profile

    @property
    def naming(self) -> Naming:
        """Naming contexts."""
        return self._require_directory().naming

    @property
    def root_dse(self) -> Entry:
        """Root DSE of the first server."""
        return self._require_directory().root_dse

    def _require_directory(self) -> _Directory:
        directory = self._directory
        if directory is None:
            raise DirectoryNotConnected("no server of this directory has been reached yet")
        return directory

    def error_of(self, result: LdapResult, operation: str, dn: str | None) -> DirectoryError:
        """Return the error for a result other than success ([MS-MQDSSM] 2.2.6)."""
        directory = self._directory
        special = None if directory is None else directory.profile.explain(result, operation, dn)
        return special or failures.error_of(result, operation, dn)

    def welcome(self, channel: Channel, endpoint: Endpoint, deadline: float) -> None:
        """Read the root DSE of a server that is new to the session ([MS-MQDSSM] 3.1.3).

        Raises:
            DirectoryNotConnected: it does not answer.
            GenericDirectoryError: it is of no known kind, or holds another directory than the others.
            ConfigError: the options name an unknown profile, or a naming context that is none.
        """
        limit = min(deadline, time.monotonic() + self._options.connect_timeout_s)
        root_dse = _read_root_dse(channel, endpoint, limit)
        profile = choose(root_dse, self._options.profile, PROFILES)
        naming = profile.naming(root_dse, self._options.naming_context)
        if self._options.forest and not profile.has_catalog:
            raise ConfigError(
                f"forest=True is for Active Directory: {endpoint.url} is {profile.title}, "
                "which has no global catalog"
            )
        if self._options.from_the_top:
            naming = naming.of_catalog
        directory = _Directory(profile, naming, root_dse)
        with self._lock:
            old_directory = self._directory
            if old_directory is None:
                self._directory = directory
        if old_directory is not None and (old_directory.profile, old_directory.naming) != (
            directory.profile,
            directory.naming,
        ):
            raise GenericDirectoryError(
                f"{endpoint.url} holds another directory than the other servers of the list: "
                f"{directory.profile.title} {directory.naming.forest} instead of "
                f"{old_directory.profile.title} {old_directory.naming.forest}",
                hint="one session is for the servers of one directory",
            )


def _read_root_dse(channel: Channel, endpoint: Endpoint, deadline: float) -> Entry:
    search = Search("", SearchScope.BASE, encode(TRUE), ROOT_DSE_ATTRIBUTES)
    number = channel.choose_id()
    try:
        channel.send(search.encode(number), deadline)
        page = channel.receive(number, deadline)
        entries = [decode_entry(buffer, m.start, m.end, m.stop) for buffer, ms in page.parts for m in ms]
    except (ConnectionBroken, DecodeError) as error:
        raise DirectoryNotConnected(
            f"{endpoint.url} did not tell what it is: {error}", hint="is this an LDAP server?"
        ) from error
    if page.result.code != 0 or len(entries) != 1:
        raise GenericDirectoryError(
            f"{endpoint.url} does not show its root DSE",
            ldap_code=page.result.code,
            server_text=page.result.text,
            hint="may this user read it?",
        )
    return entries[0]
