"""Entry to be written, with its forms for LDAP and LDIF ([MS-MQDSSM] 3.1.6.12)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from mqdssm.directory.requests import make_entry
from mqdssm.events.encode import Values
from mqdssm.model.dn import DN


@dataclass(slots=True)
class NewEntry:
    """Entry to be written ([MS-MQDSSM] 3.1.6.12).

    Attributes:
        type: of the object, as on the command line; empty for what only holds others.
        dn: its name.
        ldap_class: its structural class.
        values: its attributes, apart from objectClass and the naming attribute; as the server holds them.
        original: the GUID that the object brought, or that was given to it; None: it brought none.
        refers: LDAP attribute -> GUIDs of the objects to which it refers, found or not.
        missing: LDAP attribute -> GUIDs of objects that were not found: a queue manager left out of a list, a
            site.
    """

    type: str
    dn: DN
    ldap_class: str
    values: Values = field(default_factory=dict)
    original: UUID | None = None
    refers: dict[str, tuple[UUID, ...]] = field(default_factory=dict)
    missing: dict[str, tuple[UUID, ...]] = field(default_factory=dict)

    @property
    def guid(self) -> UUID | None:
        """ObjectGUID of the entry, if it has one."""
        raw = self.values.get("objectGUID")
        return UUID(bytes_le=raw[0]) if raw else None

    @property
    def role(self) -> str:
        """Role in a migration.

        The role is ``object``, or the kind of an additional entry that an object needs.
        """
        return self.type if self.type in {"computer", "settings"} else "object" if self.type else "container"

    def attributes(self) -> Values:
        """Return all attributes of an add request."""
        return make_entry((self.ldap_class,), self.values)

    def complete(self) -> Values:
        """Return all attributes for LDIF, with class ``top`` and the naming attribute."""
        name, value = self.dn.rdn[0]
        return make_entry(("top", self.ldap_class), {name.lower(): (value.encode(),), **self.values})

    def list_pairs(self) -> Iterator[tuple[str, str | bytes]]:
        """Yield the name and attribute values for LDIF."""
        yield "dn", str(self.dn)
        for attribute, raws in self.complete().items():
            for raw in raws:
                yield attribute, raw

    def postpone(self, attributes: Iterable[str]) -> dict[str, tuple[UUID, ...]]:
        """Remove references that have to be written later, when their objects exist.

        Args:
            attributes: LDAP names; attributes without references are left out.

        Returns:
            Attribute -> the GUIDs of the found objects to which it refers.
        """
        later = {}
        for name in attributes:
            absent = self.missing.get(name, ())
            if present := tuple(guid for guid in self.refers.get(name, ()) if guid not in absent):
                later[name] = present
                self.values.pop(name, None)
        return later
