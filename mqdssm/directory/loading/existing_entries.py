"""Look-up of many existing entries at once, by name and by objectGUID."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, LdapFilter, any_of
from mqdssm.errors import ObjectNotFound
from mqdssm.model.dn import normalize

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

AT_ONCE: Final = 100
"""Objects of one search: slapd tests each candidate against all terms."""
GUID: Final = "objectGUID"


def read_entries_at(session: "Session", dns: Sequence[str], attributes: Iterable[str]) -> dict[str, Entry]:
    """Read the entries with the given names.

    Args:
        session: where to look.
        dns: of the objects, at most `AT_ONCE`.
        attributes: to read; objectGUID always comes along.

    Returns:
        Normalised name -> entry, for existing entries that the user may see.

    Raises:
        DirectoryError: the search failed.
    """
    if not dns:
        return {}
    search_filter = any_of(*(session.profile.build_dn_filter(dn) for dn in dns))
    names = tuple(dict.fromkeys((*attributes, GUID)))
    return {normalize(entry.dn): entry for entry in _find_entries(session, search_filter, names)}


def owners_of(session: "Session", guids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the DNs of the objects with the given objectGUIDs."""
    if not guids:
        return {}
    search_filter = any_of(*(Equal(GUID, guid.bytes_le) for guid in guids))
    owners = {}
    for entry in _find_entries(session, search_filter, (GUID,)):
        guid = guid_of(entry.attributes)
        if guid is not None:
            owners[guid] = entry.dn
    return owners


def guid_of(attributes: Mapping[str, Sequence[bytes]]) -> UUID | None:
    """Return the objectGUID among some attributes; None if there is none."""
    for name, values in attributes.items():
        if name.lower() == GUID.lower() and len(values) == 1 and len(values[0]) == 16:
            return UUID(bytes_le=values[0])
    return None


def _find_entries(
    session: "Session", search_filter: LdapFilter, attributes: Sequence[str]
) -> Iterable[Entry]:
    for base in session.naming.guid_bases:
        try:
            yield from session.find(base, search_filter, attributes)
        except ObjectNotFound:
            continue  # there is no such base, so nothing is below it
