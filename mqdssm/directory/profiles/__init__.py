"""Known kinds of servers, in the order in which they are recognised."""

from collections.abc import Mapping
from typing import Final

from mqdssm.directory.profile import Profile
from mqdssm.directory.profiles.active_directory import ActiveDirectory
from mqdssm.directory.profiles.openldap import OpenLdap

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile for profile in (OpenLdap(), ActiveDirectory())
}
