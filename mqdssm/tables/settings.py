"""Objects of class mSMQSettings: copies of a queue manager's attributes, one entry for each of its sites.

[MS-MQDSSM] 3.1.6.1.1.3 and 3.1.6.7.1.9: the object exists while the queue manager is a routing, directory
or supporting server.
"""

from typing import Any, Final, NamedTuple

from mqdssm.tables import schema
from mqdssm.tables.syntax import BOOLEAN, GUID, UINT32, Syntax

LDAP_CLASS: Final = "mSMQSettings"
RDN_VALUE: Final = "MSMQ Settings"
SERVER_ROLES: Final = ("RoutingServer", "DirectoryServer", "SupportingServer")
"""Attributes of QueueManager; at least one must be true for the objects to exist."""


class CopiedAttribute(NamedTuple):
    """One line of the table in [MS-MQDSSM] 3.1.6.1.1.3.

    Attributes:
        settings: the attribute of mSMQSettings.
        configuration: the attribute of mSMQConfiguration that it repeats.
        syntax: syntax of both.
        adm: name in QueueManager; a name of our own if QueueManager has none.
    """

    settings: str
    configuration: str
    syntax: Syntax[Any]
    adm: str


COPIED: Final[tuple[CopiedAttribute, ...]] = (
    CopiedAttribute("mSMQQMID", "objectGUID", GUID, "QueueManagerIdentifier"),
    CopiedAttribute("mSMQServices", "mSMQServiceType", UINT32, "Services"),
    CopiedAttribute("mSMQRoutingService", "mSMQRoutingServices", BOOLEAN, "RoutingServer"),
    CopiedAttribute("mSMQDsService", "mSMQDsServices", BOOLEAN, "DirectoryServer"),
    CopiedAttribute("mSMQDependentClientService", "mSMQDependentClientServices", BOOLEAN, "SupportingServer"),
)

for _copied in COPIED:
    for _name in (_copied.settings, _copied.configuration):
        if schema.attribute(_name).syntax != _copied.syntax.ad_syntax:
            raise ValueError(f"{_name} is no {_copied.syntax.name} in the schema")
