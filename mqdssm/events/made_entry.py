"""Entry before it is written ([MS-MQDSSM] 3.1.6.12), and the forms in which it is written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from mqdssm.directory.requests import new_entry
from mqdssm.events.encode import Values
from mqdssm.model.dn import DN


@dataclass(slots=True)
class MadeEntry:
    """One entry before it is written ([MS-MQDSSM] 3.1.6.12).

    Attributes:
        type: of the object, as on the command line; empty for what only holds others.
        dn: its name.
        ldap_class: its structural class.
        values: its attributes, apart from objectClass and the naming attribute; as the server holds them.
        original: the GUID that the object brought, or that was given to it; None: it brought none.
        refers: LDAP attribute -> GUIDs of what it refers to, whether it was found or not.
        missing: the same, of what was not found: a queue manager left out of a list, a site.
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
        """The objectGUID, if it has one."""
        raw = self.values.get("objectGUID")
        return UUID(bytes_le=raw[0]) if raw else None

    @property
    def role(self) -> str:
        """The role in a migration: ``object``, or of an entry that an object needs beside its own."""
        return self.type if self.type in {"computer", "settings"} else "object" if self.type else "container"

    def attributes(self) -> Values:
        """All attributes, as an add sends them."""
        return new_entry((self.ldap_class,), self.values)

    def complete(self) -> Values:
        """All attributes as LDIF has them: with the class above, and the naming attribute."""
        name, value = self.dn.rdn[0]
        return new_entry(("top", self.ldap_class), {name.lower(): (value.encode(),), **self.values})

    def pairs(self) -> Iterator[tuple[str, str | bytes]]:
        """The entry as LDIF has it."""
        yield "dn", str(self.dn)
        for attribute, raws in self.complete().items():
            for raw in raws:
                yield attribute, raw

    def postpone(self, attributes: Iterable[str]) -> dict[str, tuple[UUID, ...]]:
        """Take references out, which are to be written when what they refer to is there.

        Args:
            attributes: LDAP names; those that refer to nothing are left out.

        Returns:
            Attribute -> the GUIDs that it refers to, without those that nothing was found for.
        """
        later = {}
        for name in attributes:
            gone = self.missing.get(name, ())
            if found := tuple(guid for guid in self.refers.get(name, ()) if guid not in gone):
                later[name] = found
                self.values.pop(name, None)
        return later
