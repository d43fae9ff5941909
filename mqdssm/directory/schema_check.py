"""Comparison of a server's schema with the one that the mapping needs."""

from typing import TYPE_CHECKING

from mqdssm.errors import ConfigError
from mqdssm.tables.schema_compare import SchemaDifference, compare, compare_replication

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


def subschema_dn(session: "Session") -> str:
    """Return the DN of the server's subschema entry.

    Raises:
        ConfigError: the server does not say so.
    """
    place = session.root_dse.first("subschemaSubentry")
    if place is None:
        raise ConfigError("the server does not say where its schema is (subschemaSubentry)")
    return place.decode()


def differences_of(session: "Session") -> list[SchemaDifference]:
    """Compare the schema of the server with the MSMQ schema.

    Raises:
        ConfigError: the server does not show its schema.
        DirectoryError: it cannot be read.
    """
    attributes, classes = _published(session)
    # a server that publishes no matching rules has them nevertheless
    rules = any(" EQUALITY " in one for one in attributes)
    return compare(attributes, classes, matching_rules=rules)


def replication_differences_of(session: "Session") -> list[SchemaDifference]:
    """Compare the schema of the server with that of the replication store; errors as in `differences_of`."""
    return compare_replication(*_published(session))


def _published(session: "Session") -> tuple[list[str], list[str]]:
    """Return the definitions of attributes and classes that the server publishes."""
    entry = session.get(subschema_dn(session), ["attributeTypes", "objectClasses"])
    attributes = [value.decode(errors="replace") for value in entry.all("attributeTypes")]
    classes = [value.decode(errors="replace") for value in entry.all("objectClasses")]
    return attributes, classes
