"""Objects as the directory stores them, for LDIF: LDAP attributes, not those of the abstract model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mqdssm.directory.filters import LdapFilter
from mqdssm.directory.session import Session
from mqdssm.pipeline.frames.bases import Base

STORED: Final = ("*", "nTSecurityDescriptor")
"""Attributes that users write, enough to add an object again; a domain controller returns the security
descriptor only if it is named."""
_GUID: Final = "objectguid"
_GUID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class RawEntry:
    """One object as stored.

    Attributes:
        dn: DN of the object.
        attributes: description and values, as the server writes them.
    """

    dn: str
    attributes: Sequence[tuple[str, Sequence[bytes]]]

    @property
    def guid(self) -> str | None:
        """The objectGUID as text; None if there is none or it is damaged."""
        return next((guid_text(values[0]) for name, values in self.attributes if name.lower() == _GUID), None)


def guid_text(guid: bytes | None) -> str | None:
    """Convert an objectGUID into text; None if there is none or it is damaged."""
    return str(UUID(bytes_le=guid)) if guid is not None and len(guid) == _GUID_BYTES else None


def raw_entries(session: Session, base: Base, wanted: LdapFilter) -> Iterator[RawEntry]:
    """Yield the objects below a base, as a stream.

    Raises:
        DirectoryError: while iterating.
    """
    with base.perhaps_absent():
        for dn, attributes in session.spelt(base.dn, wanted, STORED):
            yield RawEntry(dn, tuple(attributes.items()))
