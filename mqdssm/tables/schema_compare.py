"""Comparison of a server's schema with the definitions that the mapping needs.

Input: the values of ``attributeTypes`` and ``objectClasses`` in a server's subschema entry (RFC 4512 4.2).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mqdssm.tables import TABLES, schema, schema_mqis
from mqdssm.tables.dependent_objects import COPIED, SETTINGS_CLASS
from mqdssm.tables.row import Access, Holder
from mqdssm.tables.schema_attributes import ROOT_DSE, AttributeType
from mqdssm.tables.schema_classes import ObjectClass

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\[0-9A-Fa-f]{2})*'|[()$]|[^\s()$']+")
_DESCRIPTION_CHARS_MAX: Final = 1_000_000  # AD's class user has some 30,000
_DN: Final = "distinguishedName"
_CLASS_KINDS: Final = ("STRUCTURAL", "ABSTRACT", "AUXILIARY")
_ALWAYS_FILLED_IN: Final = frozenset(
    {"objectclass", "objectcategory", "instancetype", "ntsecuritydescriptor"}
)
"""Attributes that top requires on Active Directory; the server fills them in."""
_TEXT: Final = frozenset(
    f"1.3.6.1.4.1.1466.115.121.1.{number}" for number in (15, 26, 44, 50)
)  # any text, IA5, printable, telephone numbers


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One difference between a server's schema and ours.

    Attributes:
        subject: the differing definition, as ``attribute mSMQQuota``.
        problem: the difference.
        serious: True if the mapping cannot work with it; else it is only information.
    """

    subject: str
    problem: str
    serious: bool = True

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Description:
    """A definition published by a server (RFC 4512 4.1.1 and 4.1.2).

    The definition has the parts that are compared.

    Attributes:
        oid: the object identifier.
        names: all names, in lower case.
        single: True for SINGLE-VALUE.
        fields: the words behind each keyword, as ``{"SUP": ("top",)}``.
    """

    oid: str
    names: tuple[str, ...]
    single: bool
    fields: Mapping[str, tuple[str, ...]]


def parse_description(text: str) -> Description:
    """Read one value of attributeTypes or objectClasses.

    Raises:
        ValueError: an invalid definition.
    """
    tokens = _TOKEN.findall(text[:_DESCRIPTION_CHARS_MAX])
    if len(tokens) < 3 or tokens[0] != "(" or tokens[-1] != ")":
        raise ValueError(f"no schema definition: {text[:60]!r}")
    fields: dict[str, tuple[str, ...]] = {}
    keyword, depth, values = "", 0, list[str]()
    for token in (*tokens[2:-1], "END"):
        if token in {"(", ")"}:
            depth += 1 if token == "(" else -1  # noqa: S105  no password
        elif depth == 0 and not token.startswith("'") and (token in _KEYWORDS or token.startswith("X-")):
            fields[keyword] = tuple(values)
            keyword, values = token, []
        elif token != "$":  # noqa: S105  no password
            values.append(token.strip("'"))
    names = tuple(name.lower() for name in fields.get("NAME", ()))
    return Description(tokens[1].strip("'"), names, "SINGLE-VALUE" in fields, fields)


_ATTRIBUTE_KEYWORDS: Final = ("NAME", "DESC", "OBSOLETE", "SUP", "EQUALITY", "ORDERING", "SUBSTR", "SYNTAX")
_FLAG_KEYWORDS: Final = ("SINGLE-VALUE", "COLLECTIVE", "NO-USER-MODIFICATION", "USAGE")
_CLASS_KEYWORDS: Final = ("ABSTRACT", "STRUCTURAL", "AUXILIARY", "MUST", "MAY", "END")
_KEYWORDS: Final = frozenset((*_ATTRIBUTE_KEYWORDS, *_FLAG_KEYWORDS, *_CLASS_KEYWORDS))


def list_needed_attributes() -> Mapping[str, frozenset[str]]:
    """Return the LDAP attributes of each class that the adapter needs.

    Elements, aliases and settings need them.
    """
    needed: dict[str, set[str]] = {
        SETTINGS_CLASS: {copied.settings for copied in COPIED},
        schema.ALIAS_CLASS: {schema.ALIAS_FORMAT_NAME},
        schema.GROUP_CLASS: {schema.GROUP_MEMBER},
        "computer": {"objectSid"},  # [MS-MQDSSM] 3.1.6.1.1.8
    }
    for table in TABLES.values():
        for row in table.rows:
            holder = table.ldap_class if row.holder is Holder.OWN else "computer"
            needed.setdefault(holder, set()).update(row.ldap, row.written)
            needed["computer"].update(row.computer_ldap)
    return {name: frozenset(attributes - {_DN}) for name, attributes in needed.items()}


def compare(
    attribute_types: Iterable[str], object_classes: Iterable[str], *, matching_rules: bool = True
) -> list[SchemaDifference]:
    """Compare a server's schema with the definitions that the mapping needs.

    Args:
        attribute_types: values of attributeTypes of the subschema entry.
        object_classes: its values of objectClasses.
        matching_rules: the server publishes matching rules (Active Directory does not).

    Returns:
        The differences, serious ones first; empty if there are none.

    Raises:
        ValueError: a value that is no schema definition.
    """
    attributes = _map_by_name(map(parse_description, attribute_types))
    classes = _map_by_name(map(parse_description, object_classes))
    needed = list_needed_attributes()
    names = frozenset().union(*needed.values())
    differences = [
        *_compare_attributes(attributes, names, matching_rules=matching_rules),
        *_compare_classes(classes, needed),
    ]
    return sorted(differences, key=lambda difference: not difference.serious)


def compare_replication(
    attribute_types: Iterable[str], object_classes: Iterable[str]
) -> list[SchemaDifference]:
    """Compare a server's schema with the needs of the replication store.

    Only its additional needs are compared (`schema_mqis`).
    Arguments and errors as in `compare`.

    Returns:
        The differences, all serious; empty if there are none.
    """
    attributes = _map_by_name(map(parse_description, attribute_types))
    classes = _map_by_name(map(parse_description, object_classes))
    differences = []
    for attribute in schema_mqis.ATTRIBUTES:
        description = attributes.get(attribute.name.lower())
        problems = (
            ["is missing"]
            if description is None
            else _find_definition_problems(attribute, description, attributes, matching_rules=True)
        )
        differences += [SchemaDifference(f"attribute {attribute.name}", problem) for problem in problems]
    for cls in schema_mqis.CLASSES:
        allowed = _find_listed_attributes(cls.name, classes, "MUST", "MAY")
        if cls.name.lower() not in classes:
            differences.append(SchemaDifference(f"class {cls.name}", "is missing"))
            continue
        lacking = (name for name in (*cls.must, *cls.may) if name.lower() not in allowed)
        differences += [SchemaDifference(f"class {cls.name}", f"does not allow {name}") for name in lacking]
    return differences


def _map_by_name(descriptions: Iterable[Description]) -> dict[str, Description]:
    return {name: description for description in descriptions for name in description.names}


def _compare_attributes(
    server: Mapping[str, Description], names: frozenset[str], *, matching_rules: bool
) -> Iterator[SchemaDifference]:
    writable = list_written_attributes()
    for attribute in schema.ATTRIBUTES.values():
        serious = attribute.name in names
        subject = f"attribute {attribute.name}"
        description = server.get(attribute.name.lower())
        if description is None:
            if attribute not in ROOT_DSE:  # other servers publish these without a definition
                yield SchemaDifference(subject, "is missing", serious)
        else:
            for problem in _find_definition_problems(
                attribute, description, server, matching_rules=matching_rules
            ):
                yield SchemaDifference(subject, problem, serious)
            if attribute.name in writable and "NO-USER-MODIFICATION" in description.fields:
                yield SchemaDifference(subject, "may not be written (NO-USER-MODIFICATION)")


def _find_definition_problems(
    attribute: AttributeType,
    description: Description,
    server: Mapping[str, Description],
    *,
    matching_rules: bool,
) -> Iterator[str]:
    if description.oid != attribute.oid:
        yield f"has OID {description.oid}, not {attribute.oid}"
    # core.schema lets attributes of its own hold more values than Active Directory does
    if description.single is not attribute.single and (description.single or not attribute.builtin):
        yield f"holds {'one value' if description.single else 'many values'}, not as in Microsoft's schema"
    syntax = _find_syntax(description, server)
    if syntax is not None and syntax not in _list_syntaxes(attribute):
        yield f"has syntax {syntax}, not {attribute.syntax.ldap_oid} ({attribute.syntax.name})"
    if matching_rules and not attribute.builtin and "EQUALITY" not in description.fields:
        yield "has no equality rule, so searches for its values find nothing (is msuser.schema loaded?)"


def _find_syntax(description: Description, server: Mapping[str, Description]) -> str | None:
    """Return the OID of an attribute's syntax, own or inherited.

    Returns None if no definition has one.
    """
    seen: set[str] = set()
    current: Description | None = description
    while current is not None and current.oid not in seen:
        seen.add(current.oid)
        if syntax := current.fields.get("SYNTAX"):
            return syntax[0].partition("{")[0].strip("'")
        above = current.fields.get("SUP", ())
        current = server.get(above[0].lower()) if above else None
    return None


def _list_syntaxes(attribute: AttributeType) -> frozenset[str]:
    """Return the OIDs of syntaxes that fit the attribute's values."""
    oids = {attribute.syntax.ldap_oid, attribute.syntax.ad_oid or attribute.syntax.ldap_oid}
    if attribute.builtin and attribute.syntax.ldap_oid in _TEXT:  # core.schema is stricter with some texts
        oids |= _TEXT
    return frozenset(oids)


def list_written_attributes() -> frozenset[str]:
    """Return the LDAP attributes that creates and writes send."""
    sent = {copied.settings for copied in COPIED}
    for table in TABLES.values():
        for row in table.rows:
            if (Access.CREATE | Access.WRITE) & row.access:
                sent.update(row.written or row.ldap)
    return frozenset(sent - {_DN})


def _compare_classes(
    server: Mapping[str, Description], needed: Mapping[str, frozenset[str]]
) -> Iterator[SchemaDifference]:
    for cls in schema.CLASSES.values():
        subject = f"class {cls.name}"
        description = server.get(cls.name.lower())
        if description is None:
            if not cls.own:
                yield SchemaDifference(subject, "is missing", cls.name in needed)
            continue
        if description.oid != cls.oid:
            yield SchemaDifference(subject, f"has OID {description.oid}, not {cls.oid}", cls.name in needed)
        for problem in _find_class_problems(cls, description, server):
            yield SchemaDifference(subject, problem, cls.name in needed)
        yield from _compare_memberships(cls, server, needed.get(cls.name, frozenset()))


def _find_class_problems(
    cls: ObjectClass, description: Description, server: Mapping[str, Description]
) -> Iterator[str]:
    kind = next((word for word in _CLASS_KINDS if word in description.fields), _CLASS_KINDS[0])
    if kind != cls.kind:
        yield f"is {kind}, not {cls.kind}"
    superior = " and ".join(description.fields.get("SUP", ("top",)))
    if superior.lower() not in {cls.superior.lower(), cls.ad_superior.lower()}:
        yield f"is derived from {superior}, not from {cls.ad_superior}"
    published = {
        *schema.list_required_attributes(cls.name),
        *(a for c in schema.list_superiors(cls.name) for a in c.filled_in),
    }
    names = {name.lower() for name in published} | _ALWAYS_FILLED_IN
    for name in sorted(_find_listed_attributes(cls.name, server, "MUST")):
        if name not in names:
            yield f"demands {name}, which nobody gives"


def _compare_memberships(
    cls: ObjectClass, server: Mapping[str, Description], needed: frozenset[str]
) -> Iterator[SchemaDifference]:
    allowed = _find_listed_attributes(cls.name, server, "MUST", "MAY")
    # Active Directory gives these to principals through auxiliary classes, which it publishes elsewhere
    filled_in = {a.lower() for c in schema.list_superiors(cls.name) for a in c.filled_in}
    for name in sorted(needed):
        if name.lower() not in allowed and name.lower() not in filled_in:
            yield SchemaDifference(f"class {cls.name}", f"does not allow {name}")


def _find_listed_attributes(name: str, server: Mapping[str, Description], *words: str) -> frozenset[str]:
    """Return the attributes in MUST or MAY of a server's class, in lower case.

    Attributes of the class's superiors are included.
    """
    allowed: set[str] = set()
    seen: set[str] = set()
    waiting = [name.lower()]
    while waiting:
        current = waiting.pop()
        description = server.get(current)
        if current in seen or description is None:
            continue
        seen.add(current)
        allowed.update(a.lower() for word in words for a in description.fields.get(word, ()))
        waiting += [superior.lower() for superior in description.fields.get("SUP", ())]
    return frozenset(allowed)
