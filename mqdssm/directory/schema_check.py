"""How the schema of a server differs from what the mapping needs."""

from typing import TYPE_CHECKING

from mqdssm.errors import ConfigError
from mqdssm.tables.schema_compare import SchemaDifference, compare, compare_replication

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


def subschema_dn(session: "Session") -> str:
    """Where the server's schema is.

    Raises:
        ConfigError: the server does not say so.
    """
    place = session.root_dse.first("subschemaSubentry")
    if place is None:
        raise ConfigError("the server does not say where its schema is (subschemaSubentry)")
    return place.decode()


def differences_of(session: "Session") -> list[SchemaDifference]:
    """How the schema of the server differs from ours.

    Raises:
        ConfigError: the server does not show its schema.
        DirectoryError: it cannot be read.
    """
    attributes, classes = _published(session)
    # a server that publishes no matching rule at all has them nevertheless
    rules = any(" EQUALITY " in one for one in attributes)
    return compare(attributes, classes, matching_rules=rules)


def replication_differences_of(session: "Session") -> list[SchemaDifference]:
    """What the schema of the server lacks for the replication store; errors are those of `differences_of`."""
    return compare_replication(*_published(session))


def _published(session: "Session") -> tuple[list[str], list[str]]:
    """The definitions of attributes and classes that the server publishes."""
    entry = session.get(subschema_dn(session), ["attributeTypes", "objectClasses"])
    attributes = [value.decode(errors="replace") for value in entry.all("attributeTypes")]
    classes = [value.decode(errors="replace") for value in entry.all("objectClasses")]
    return attributes, classes
