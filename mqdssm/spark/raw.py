"""Objects as the directory stores them, for LDIF: LDAP attributes, not those of the abstract model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mqdssm.directory.filters import TRUE, LdapFilter
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryError, DirectoryNotConnected
from mqdssm.tables import schema

_NAMES: Final = re.compile(rb"NAME\s+(?:'([^']+)'|\(\s*'([^']+)')")


@dataclass(frozen=True, slots=True)
class RawEntry:
    """One object.

    Attributes:
        dn: where it is.
        guid: its objectGUID, 16 octets if it is sound; None if it has none.
        attributes: in the schema's spelling.
    """

    dn: str
    guid: bytes | None
    attributes: Sequence[tuple[str, Sequence[bytes]]]


class RawReader:
    """Reads objects as they are stored.

    Args:
        session: with the directory.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._spelling = _spelling(session)

    def entries(self, base: str, wanted: LdapFilter = TRUE) -> Iterator[RawEntry]:
        """All objects below a base, streamed; user attributes only, so that they can be added again.

        Raises:
            DirectoryError: while iterating.
        """
        # asked for by name, too: a server may need to be told that the descriptor is wanted
        for entry in self._session.find(base, wanted, ["*", "nTSecurityDescriptor"]):
            attributes = [
                (self._spelled(name), values) for name, values in entry.attributes.items() if values
            ]
            yield RawEntry(entry.dn, entry.first("objectGUID"), attributes)

    def _spelled(self, name: str) -> str:
        plain, separator, options = name.partition(";")
        return self._spelling.get(plain, plain) + separator + options


def _spelling(session: Session) -> dict[str, str]:
    """Lower-case name -> the name as the server's schema and ours write it."""
    names = {name: one.name for name, one in schema.ATTRIBUTES.items()}
    place = session.root_dse.first("subschemaSubentry")
    if place is None:
        return names
    try:
        definitions = session.get(place.decode(), ["attributeTypes"]).all("attributeTypes")
    except DirectoryNotConnected:
        raise
    except DirectoryError:
        return names  # hidden from this user: only the spelling is lost
    for definition in definitions:
        found = _NAMES.search(definition)
        if found is not None:
            name = (found[1] or found[2]).decode(errors="replace")
            names.setdefault(name.lower(), name)
    return names
