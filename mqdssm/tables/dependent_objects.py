"""Rows of objects that belong to queue managers, and are no elements.

mSMQSettings repeat a queue manager's roles in each site; computers have queue managers. The rows only
describe how such objects are shown; nothing is created or written by them.

A queue manager has an mSMQSettings object in each of its sites while it is a routing, directory or supporting
server ([MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9).
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mqdssm.tables import schema
from mqdssm.tables.row import Computed, Missing, Row, RowMaker
from mqdssm.tables.syntax import BOOLEAN, DN_TEXT, GUID, OCTETS, OCTETS16, SID, UINT32, UNICODE, Syntax

SETTINGS_CLASS: Final = "mSMQSettings"
SETTINGS_NAME: Final = "MSMQ Settings"
SETTINGS_OWNER: Final = "mSMQQMID"
"""Attribute of mSMQSettings with the GUID of the queue manager."""
SERVER_CLASS: Final = "server"
"""Class of the parents of mSMQSettings."""
ACCOUNT_DISABLED: Final = 0x2
"""Bit of userAccountControl of a computer ([MS-ADTS] 2.2.16)."""


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
    CopiedAttribute(SETTINGS_OWNER, "objectGUID", GUID, "QueueManagerIdentifier"),
    CopiedAttribute("mSMQServices", "mSMQServiceType", UINT32, "Services"),
    CopiedAttribute("mSMQRoutingService", "mSMQRoutingServices", BOOLEAN, "RoutingServer"),
    CopiedAttribute("mSMQDsService", "mSMQDsServices", BOOLEAN, "DirectoryServer"),
    CopiedAttribute("mSMQDependentClientService", "mSMQDependentClientServices", BOOLEAN, "SupportingServer"),
)

for _copied in COPIED:
    for _name in (_copied.settings, _copied.configuration):
        if schema.attribute(_name).syntax != _copied.syntax.ad_syntax:
            raise ValueError(f"{_name} is no {_copied.syntax.name} in the schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentObjectTable:
    """Rows for reading one kind of dependent objects.

    See [MS-MQDSSM] 3.1.6.1.1.3 and 3.1.6.11.1.

    Attributes:
        name: name of the kind in messages.
        ldap_class: the class of its entries.
        rows: one for each attribute.
    """

    name: str
    ldap_class: str
    rows: tuple[Row, ...]


_UNSET: Final[dict[Syntax[Any], Any]] = {BOOLEAN: False, UINT32: 0}  # as in the queue manager's own rows

copy: Final = RowMaker(read="3.1.6.1.1.3")
seen: Final = RowMaker(read="3.1.6.11.1")
signs: Final = RowMaker(read="3.1.6.1.1.9 3.1.6.7.1.8")

# fmt: off
SETTINGS: Final = DependentObjectTable(
    name="Settings",
    ldap_class=SETTINGS_CLASS,
    rows=(
        copy("Identifier", "objectGUID", GUID, "R", Missing.ERROR, propid=None),
        copy("FullPath", "distinguishedName", DN_TEXT, "R", Missing.ERROR, propid=None,
             computed=Computed.FULL_PATH),
        *(
            copy(copied.adm, copied.settings, copied.syntax, "R",
                 _UNSET.get(copied.syntax, Missing.UNPOPULATED), propid=None)
            for copied in COPIED
        ),
    ),
)

COMPUTER: Final = DependentObjectTable(
    name="Computer",
    ldap_class="computer",
    rows=(
        #    name                   LDAP name               syntax  events  unset
        seen("Identifier",          "objectGUID",           GUID,    "R", Missing.ERROR, propid=None),
        seen("FullPath",            "distinguishedName",    DN_TEXT, "R", Missing.ERROR, propid=None,
             computed=Computed.FULL_PATH),
        seen("Name",                "cn",                   UNICODE, "R", Missing.ERROR, propid=None),
        seen("AccountName",         "sAMAccountName",       UNICODE, "R", Missing.UNPOPULATED, propid=None),
        seen("DnsHostName",         "dNSHostName",          UNICODE, "R", Missing.UNPOPULATED, propid=None),
        seen("ServicePrincipalNames", "servicePrincipalName", UNICODE, "R", (), propid=None, multi=True),
        seen("Sid",                 "objectSid",            SID,     "R", Missing.UNPOPULATED, propid=None),
        seen("OperatingSystemVersion", "operatingSystemVersion", UNICODE, "R", "", propid=None),
        signs("Certificates",       "mSMQSignCertificates", OCTETS,  "R", b"", propid=None),
        signs("CertificateDigestList", "mSMQDigests",       OCTETS16, "R", (), propid=None, multi=True),
    ),
)
# fmt: on
