"""Comparisons that a server supports: the matching rules of its attributes, from its schema (RFC 4512 4.2).

A server evaluates a filter that it does not support to "undefined", without an error, and finds nothing. So a
filter is only sent if the schema says that the server can evaluate it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryError
from mqdssm.tables.schema_compare import Description, parse_description

_SUPERIORS_MAX = 20  # attribute types have a few; more is a cycle


@dataclass(frozen=True, slots=True)
class Matching:
    """Attributes that a server knows, and the matching rules for them.

    Attributes:
        types: lower-case name -> definition; empty if the server does not publish its schema.
        publishes_rules: the definitions name matching rules. Active Directory's do not: there the syntax
            alone decides, and all that the mapping uses can be compared.
    """

    types: Mapping[str, Description]
    publishes_rules: bool

    @classmethod
    def of(cls, session: Session, names: Iterable[str]) -> Self:
        """Read the definitions of some attributes from a server.

        Args:
            session: with the server.
            names: the attributes that matter.
        """
        subschema = session.root_dse.first("subschemaSubentry")
        if subschema is None:
            return cls({}, publishes_rules=False)
        try:
            entry = session.get(subschema.decode(errors="replace"), ["attributeTypes"])
        except DirectoryError:  # hidden from this user: nothing is known
            return cls({}, publishes_rules=False)
        return cls.parse([raw.decode(errors="replace") for raw in entry.all("attributeTypes")], names)

    @classmethod
    def parse(cls, definitions: Iterable[str], names: Iterable[str]) -> Self:
        """Parse the definitions of some attributes, and of their supertypes."""
        texts: dict[str, str] = {}
        rules = False
        for text in definitions:
            rules = rules or " EQUALITY " in text
            for name in _names(text):
                texts[name] = text
        types: dict[str, Description] = {}
        wanted = [name.lower() for name in names]
        while wanted:
            name = wanted.pop()
            if name in types or name not in texts:
                continue
            try:
                types[name] = parse_description(texts[name])
            except ValueError:
                continue
            wanted += [superior.lower() for superior in types[name].fields.get("SUP", ())]
        return cls(types, rules)

    def knows(self, attribute: str, rule: str) -> bool:
        """Return True if the server compares an attribute by a kind of rule.

        Args:
            attribute: its name.
            rule: ``EQUALITY``, ``ORDERING`` or ``SUBSTR``.
        """
        name = attribute.lower()
        for _ in range(_SUPERIORS_MAX):
            found = self.types.get(name)
            if found is None:
                return False
            if rule in found.fields or not self.publishes_rules:
                return True
            superiors = found.fields.get("SUP", ())
            if not superiors:
                return False
            name = superiors[0].lower()
        return False


def _names(definition: str) -> list[str]:
    """Return the names in a definition, in lower case, without parsing all of it: a server has thousands."""
    _, _, behind = definition.partition(" NAME ")
    text = behind.lstrip()
    if text.startswith("("):
        return [name.strip("'").lower() for name in text[1 : text.find(")")].split()]
    return [text[1:].partition("'")[0].lower()] if text.startswith("'") else []
