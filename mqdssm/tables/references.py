"""Attributes that refer to other objects.

Each has the class of these objects and the form of the reference.
[MS-MQDSSM] 3.1.6.20 has references by GUID; a directory stores most of them as distinguished names.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from mqdssm.model.elements import QueueManager, Site
from mqdssm.tables import TABLES
from mqdssm.tables.dependent_objects import COPIED, SETTINGS_CLASS
from mqdssm.tables.row import Computed

REFERRED_CLASSES: Final[Mapping[Computed, str]] = {
    Computed.QUEUE_MANAGERS: TABLES[QueueManager].ldap_class,
    Computed.SITE: TABLES[Site].ldap_class,
}
"""Class of the objects whose DNs an attribute may hold; a DN of any other object counts as missing."""


GUID_BYTES: Final = 16


class ReferenceForm(Enum):
    """Form of a reference in a directory."""

    DN = "distinguished name"
    GUID = "objectGUID"


class AttributeReference(NamedTuple):
    """One attribute that refers to other objects.

    Attributes:
        attribute: name of the LDAP attribute.
        adm: name in the abstract model.
        ldap_class: class of the objects to which it refers.
        form: form of its values.
    """

    attribute: str
    adm: str
    ldap_class: str
    form: ReferenceForm

    def encode_stored(self, dn: str, guid: UUID) -> bytes:
        """Return the value that a directory stores for a reference to an object."""
        return dn.encode() if self.form is ReferenceForm.DN else guid.bytes_le

    def target(self, raw: bytes) -> "str | UUID | None":
        """Return the DN or objectGUID in a stored value; None for a damaged value."""
        if self.form is ReferenceForm.GUID:
            return UUID(bytes_le=raw) if len(raw) == GUID_BYTES else None
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return None


def find_references(
    ldap_class: str, values: Mapping[str, Sequence[bytes]]
) -> Iterator[tuple[AttributeReference, "str | UUID"]]:
    """Yield the references among the values of an entry.

    Each has its DN or objectGUID.
    """
    for name, reference in REFERENCES.get(ldap_class, {}).items():
        for raw in values.get(name, ()):
            target = reference.target(raw)
            if target is not None:
                yield reference, target


def _of_tables() -> Mapping[str, Mapping[str, AttributeReference]]:
    by_class: dict[str, dict[str, AttributeReference]] = {}
    for table in TABLES.values():
        of_class = by_class.setdefault(table.ldap_class, {})
        for row in table.rows:
            if row.computed is not None and row.computed in REFERRED_CLASSES:
                referred = REFERRED_CLASSES[row.computed]
                of_class[row.ldap[0]] = AttributeReference(row.ldap[0], row.adm, referred, ReferenceForm.DN)
    sites = TABLES[QueueManager].row("SiteIdentifierList")
    by_class[TABLES[QueueManager].ldap_class][sites.ldap[0]] = AttributeReference(
        sites.ldap[0], sites.adm, TABLES[Site].ldap_class, ReferenceForm.GUID
    )
    owner = next(copied for copied in COPIED if copied.configuration == "objectGUID")
    by_class[SETTINGS_CLASS] = {
        owner.settings: AttributeReference(
            owner.settings, owner.adm, TABLES[QueueManager].ldap_class, ReferenceForm.GUID
        )
    }
    return by_class


REFERENCES: Final = _of_tables()
"""Class of the referring objects -> its attributes with references, by LDAP name."""
