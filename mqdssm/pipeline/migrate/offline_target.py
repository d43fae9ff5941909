"""Offline target: a stand-in for an empty directory, for plans that become LDIF."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from mqdssm.directory.entries import Entry
from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import ConfigError, ObjectNotFound
from mqdssm.model.dn import DN

if TYPE_CHECKING:
    from mqdssm.directory.profile import Naming, Profile
    from mqdssm.directory.session import Session

DEFAULT_PROFILE: Final = "openldap"


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of a session, as far as look-ups read them."""

    forest: bool = False


@dataclass(frozen=True, slots=True)
class OfflineTarget:
    """Stand-in for a session to an empty directory.

    Attributes:
        profile: the kind of server.
        naming: where things will be.
    """

    profile: "Profile"
    naming: "Naming"
    server_url: None = None
    catalog: None = None
    options: _Options = _Options()

    @property
    def keeps_guids(self) -> bool:
        """True if servers of this kind keep the GUID that an object had in the source."""
        return self.profile.makes_guid

    def bound_sid(self) -> None:
        """Return None: no user is logged in."""

    def find(self, *_: Any, **__: Any) -> Iterator[Entry]:
        """Return no entries."""
        return iter(())

    def get(self, target: Any, attributes: Sequence[str] = (), **_: Any) -> Entry:
        """Find no entry.

        Raises:
            ObjectNotFound: always.
        """
        del attributes
        raise ObjectNotFound("there is no directory", dn=str(target))


def offline_session(root: str, profile: str = DEFAULT_PROFILE) -> "Session":
    """Return a stand-in for a session to an empty directory.

    Args:
        root: the root of the names, a DN that begins with ``DC=``.
        profile: the kind of server.

    Raises:
        ConfigError: no such kind, or no such root.
    """
    found = PROFILES.get(profile)
    if found is None:
        raise ConfigError(f"there is no profile {profile!r}: {', '.join(PROFILES)} are known")
    try:
        top = DN.parse(root)
    except ValueError as error:
        raise ConfigError(f"{root!r} is no root of names: {error}") from error
    if not top.rdns or top.rdn[0][0].upper() != "DC":
        raise ConfigError(f"the root of the names has to begin with DC=, not {root!r}")
    configuration = top.child("CN", "Configuration")
    contexts = {
        "defaultnamingcontext": top,
        "rootdomainnamingcontext": top,
        "configurationnamingcontext": configuration,
        "schemanamingcontext": configuration.child("CN", "Schema"),
    }
    root_dse = Entry("", {name: [str(dn).encode()] for name, dn in contexts.items()})
    # all that planning asks of a session is answered above
    return cast("Session", OfflineTarget(found, found.naming(root_dse, None)))
