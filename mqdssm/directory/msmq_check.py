"""Check that a directory holds MSMQ's schema and enterprise object."""

from typing import TYPE_CHECKING

from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.tables import places

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


def check_msmq(session: "Session") -> None:
    """Check that a directory can hold MSMQ's objects: schema and enterprise object.

    Raises:
        GenericDirectoryError: the schema is not loaded, or ``CN=MsmqServices`` does not exist.
    """
    services = places.enterprise_dn(session.naming.forest, session.naming.configuration)
    try:
        session.get(services, ["objectClass"])
    except ObjectNotFound as error:
        raise _no_msmq(session, services) from error


def _no_msmq(session: "Session", services: DN) -> GenericDirectoryError:
    subschema = session.root_dse.first("subschemaSubentry")
    classes: list[bytes] = []
    if subschema is not None:
        try:
            classes = session.get(subschema.decode(), ["objectClasses"]).all("objectClasses")
        except ObjectNotFound:
            classes = []
    if classes and not any(b"'mSMQEnterpriseSettings'" in one for one in classes):
        return GenericDirectoryError(
            "the MSMQ schema is not loaded on this server", hint=session.profile.schema_hint
        )
    return GenericDirectoryError(
        "this is no MSMQ directory: its enterprise object is missing, or this user may not see it",
        dn=str(services),
        hint="is it the right server and naming context?",
    )
