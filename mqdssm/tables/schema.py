"""The directory schema: look-ups of attribute types and classes.

Attribute types and classes are checked at import.
[MS-MQDSSM] 2.2.1, 2.2.2, 2.2.4 and 2.4 name the classes and attributes; ``ldif/`` and the documentation
are generated from here.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mqdssm.tables import schema_attributes, schema_classes
from mqdssm.tables.schema_attributes import AttributeType
from mqdssm.tables.schema_classes import ObjectClass

ALIAS_CLASS: Final = "msMQ-Custom-Recipient"
"""Class of queue aliases. The prose has mSMQ-Custom-Recipient; servers have this spelling."""
ALIAS_FORMAT_NAME: Final = "msMQ-Recipient-FormatName"
GROUP_CLASS: Final = "group"
GROUP_MEMBER: Final = "member"
QUEUE_CLASS: Final = "mSMQQueue"
MANAGER_CLASS: Final = "mSMQConfiguration"

ATTRIBUTES: Final[Mapping[str, AttributeType]] = {a.name.lower(): a for a in schema_attributes.ALL}
"""Attribute types by lower-case name."""

CLASSES: Final[Mapping[str, ObjectClass]] = {c.name.lower(): c for c in schema_classes.ALL}
"""Object classes by lower-case name."""

ORIGINAL_GUID_CLASSES: Final = frozenset({"mSMQQueue", "mSMQConfiguration", "mSMQSettings"})
"""Classes whose mSMQOwnerID keeps a GUID from before a migration, if the server makes new GUIDs (M37)."""

UNUSED_ATTRIBUTES: Final[frozenset[str]] = frozenset(
    (
        "mSMQOwnerID",
        "mSMQSiteID",
        "mSMQPrevSiteGates",
        "MSMQ-SecuredSource",
        "mSMQComputerType",
        "mSMQLabel",
        "mSMQSiteName",
    )
)
"""Attributes in the schema that no version of Windows uses ([MS-MQDSSM] 2.2.4); mSMQOwnerID: decision M37."""


def attribute(name: str) -> AttributeType:
    """Find an attribute type by name, in any case.

    Raises:
        ValueError: the schema has no such attribute.
    """
    definition = ATTRIBUTES.get(name.lower())
    if definition is None:
        raise ValueError(f"the schema has no attribute {name!r}")
    return definition


def is_in_catalog(name: str) -> bool:
    """Return True if Active Directory's global catalogs hold an attribute.

    Returns False for an unknown attribute.
    """
    definition = ATTRIBUTES.get(name.lower())
    return definition is not None and definition.catalog


def find_object_class(name: str) -> ObjectClass:
    """Find an object class by name, in any case.

    Raises:
        ValueError: the schema has no such class.
    """
    definition = CLASSES.get(name.lower())
    if definition is None:
        raise ValueError(f"the schema has no class {name!r}")
    return definition


def list_superiors(name: str) -> tuple[ObjectClass, ...]:
    """Return the class and all its superior classes, without top.

    The most specific class is first.
    """
    chain: list[ObjectClass] = []
    while name.lower() != "top":
        chain.append(find_object_class(name))
        name = chain[-1].superior
    return tuple(chain)


def list_allowed_attributes(name: str) -> frozenset[str]:
    """Return the attributes that objects of a class can have, by name.

    The attributes are own and inherited ones.
    """
    return frozenset(a for c in list_superiors(name) for a in (*c.must, *c.filled_in, *c.may))


def list_required_attributes(name: str) -> frozenset[str]:
    """Return the attributes that the creator of an object must give, by name.

    The attributes depend on the class of the object.
    """
    return frozenset(a for c in list_superiors(name) for a in c.must)


def prove(attributes: Sequence[AttributeType], classes: Sequence[ObjectClass]) -> None:
    """Check definitions against each other, at import.

    A wrong definition must not reach a server.

    Raises:
        ValueError: an OID or a name twice, or a class with undefined names.
    """
    oids = [a.oid for a in attributes] + [c.oid for c in classes]
    problems = [f"OID {oid} is defined twice" for oid in sorted({o for o in oids if oids.count(o) > 1})]
    names = [a.name.lower() for a in attributes]
    class_names = [c.name.lower() for c in classes]
    if len(set(names)) < len(names) or len(set(class_names)) < len(class_names):
        problems.append("a name is defined twice")
    spellings = frozenset(a.name for a in attributes)
    for cls in classes:
        used = (*cls.must, *cls.filled_in, *cls.may)
        problems += [f"{cls.name}: no attribute {name}" for name in used if name not in spellings]
        if cls.superior != "top" and cls.superior.lower() not in class_names:
            problems.append(f"{cls.name}: no class {cls.superior}")
    if problems:
        raise ValueError(f"schema: {'; '.join(problems)}")


prove(schema_attributes.ALL, schema_classes.ALL)
