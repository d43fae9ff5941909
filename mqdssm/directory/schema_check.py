"""Checks of a server: schema for the mapping, and the enterprise object.

The enterprise object is that of MSMQ.
"""

from typing import TYPE_CHECKING

from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.tables import places

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

from typing import TYPE_CHECKING

from mqdssm.errors import ConfigError
from mqdssm.tables.schema_compare import SchemaDifference, compare, compare_replication

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


def find_subschema_dn(session: "Session") -> str:
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
    attributes, classes = _read_published(session)
    # a server that publishes no matching rules has them nevertheless
    rules = any(" EQUALITY " in definition for definition in attributes)
    return compare(attributes, classes, matching_rules=rules)


def replication_differences_of(session: "Session") -> list[SchemaDifference]:
    """Compare a server's schema with that of the replication store.

    The errors are those of `differences_of`.
    """
    return compare_replication(*_read_published(session))


def _read_published(session: "Session") -> tuple[list[str], list[str]]:
    """Return the definitions of attributes and classes that the server publishes."""
    entry = session.get(find_subschema_dn(session), ["attributeTypes", "objectClasses"])
    attributes = [value.decode(errors="replace") for value in entry.all("attributeTypes")]
    classes = [value.decode(errors="replace") for value in entry.all("objectClasses")]
    return attributes, classes


def check_msmq(session: "Session") -> None:
    """Check that a directory can hold MSMQ's objects: schema and enterprise object.

    Raises:
        GenericDirectoryError: the schema is not loaded, or ``CN=MsmqServices`` does not exist.
    """
    services = places.enterprise_dn(session.naming.forest, session.naming.configuration)
    try:
        session.get(services, ["objectClass"])
    except ObjectNotFound as error:
        raise _make_no_msmq(session, services) from error


def _make_no_msmq(session: "Session", services: DN) -> GenericDirectoryError:
    subschema = session.root_dse.first("subschemaSubentry")
    classes: list[bytes] = []
    if subschema is not None:
        try:
            classes = session.get(subschema.decode(), ["objectClasses"]).all("objectClasses")
        except ObjectNotFound:
            classes = []
    if classes and not any(b"'mSMQEnterpriseSettings'" in definition for definition in classes):
        return GenericDirectoryError(
            "the MSMQ schema is not loaded on this server", hint=session.profile.schema_hint
        )
    return GenericDirectoryError(
        "this is no MSMQ directory: its enterprise object is missing, or this user may not see it",
        dn=str(services),
        hint="is it the right server and naming context?",
    )
