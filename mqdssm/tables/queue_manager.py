"""Rows of QueueManager ([MS-MQDSSM] 3.1.6.20.1).

The rows are kept in mSMQConfiguration entries and their computers.
"""

from typing import Final

from mqdssm.model.elements import QUEUE_MANAGER_QUOTA_DEFAULT, QUOTA_UNLIMITED, QueueManager
from mqdssm.model.enums import OperatingSystemType
from mqdssm.tables import adsyntax as ad
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Computed, Holder, Missing, RowMaker
from mqdssm.tables.syntax import (
    BOOLEAN,
    DESCRIPTOR,
    DN_TEXT,
    GUID,
    OCTETS,
    TIME,
    UINT32,
    UNICODE,
    Kind,
    enumeration,
)

OPERATING_SYSTEM_TYPE: Final = enumeration(OperatingSystemType, ad.INTEGER)
OS_OTHER: Final = OperatingSystemType.OTHER

row: Final = RowMaker(
    read="3.1.6.20.1 3.1.6.10.1 3.1.6.11.1",
    create="3.1.6.1.1.2",
    write="3.1.6.7.1.2",
    filter="3.1.6.4.1.2",
)
on_computer: Final = RowMaker(read="3.1.6.20.1 3.1.6.11.1", create="3.1.6.1.1.3", write="3.1.6.7.1.3")

# fmt: off
TABLE: Final = ElementTable(
    element=QueueManager,
    ldap_class="mSMQConfiguration",
    rows=(
        #   ADM name               LDAP name             syntax   events   unset
        row("Identifier",          "objectGUID",         GUID,    "RFS",   Missing.ERROR, propid=202),
        row("ComputerName",        "distinguishedName",  DN_TEXT, "RSN",   Missing.ERROR, propid=203,
            computed=Computed.COMPUTER_NAME, kind=Kind.TEXT, see="3.1.6.11.1.1"),
        row("QueueManagerVersion", "mSMQComputerTypeEx", UNICODE, "RCWFS", "",            propid=216),
        row("OperatingSystemType", "mSMQOSType",         OPERATING_SYSTEM_TYPE, "RCWFS", OS_OTHER, propid=220,
            see="3.1.6.1.1.4 3.1.6.7.1.4 3.1.6.11.1.2"),
        row("CreateTime",          "whenCreated",        TIME,    "RFS",   Missing.ERROR,
            propid=217, unit="s"),
        row("ModifyTime",          "whenChanged",        TIME,    "RFS",   Missing.ERROR,
            propid=218, unit="s"),
        # [MS-MQDMPR] 3.1.1.1 says bytes; the number is copied unchanged
        row("QueueManagerQuota",   "mSMQQuota",          UINT32,  "RCWFS", QUEUE_MANAGER_QUOTA_DEFAULT,
            propid=214),
        row("JournalQuota",        "mSMQJournalQuota",   UINT32,  "RCWFS", QUOTA_UNLIMITED,
            propid=215, unit="KB"),
        row("ForeignSystem",       "mSMQForeign",        BOOLEAN, "RCWFS", False,         propid=219),
        row("FullPath",            "distinguishedName",  DN_TEXT, "RFS",   Missing.ERROR, propid=221,
            computed=Computed.FULL_PATH),
        row("SiteIdentifierList",  "mSMQSites",          GUID,    "RCWFS", (),
            propid=222, multi=True),
        row("OutRoutingServerIdentifierList", "mSMQOutRoutingServers", DN_TEXT, "RCWS", (),
            propid=208, multi=True,
            computed=Computed.QUEUE_MANAGERS, kind=Kind.GUID, see="3.1.6.1.1.6 3.1.6.7.1.6 3.1.6.11.1.3"),
        row("InRoutingServerIdentifierList", "mSMQInRoutingServers", DN_TEXT, "RCWS", (),
            propid=209, multi=True,
            computed=Computed.QUEUE_MANAGERS, kind=Kind.GUID, see="3.1.6.1.1.7 3.1.6.7.1.7 3.1.6.11.1.4"),
        row("RoutingServer",       "mSMQRoutingServices", BOOLEAN, "RCWFS", False,        propid=227,
            written=("mSMQRoutingServices", "mSMQServiceType"), see="3.1.6.1.1.5 3.1.6.7.1.5"),
        row("DirectoryServer",     "mSMQDsServices",     BOOLEAN, "RCWFS", False,         propid=228,
            written=("mSMQDsServices", "mSMQServiceType"), see="3.1.6.1.1.5 3.1.6.7.1.5"),
        row("DirectoryServerType", "mSMQDsServices mSMQServiceType", BOOLEAN, "RCWS", Missing.UNPOPULATED,
            propid=210, computed=Computed.DIRECTORY_SERVER_TYPE, kind=Kind.ENUMERATION,
            written=("mSMQServiceType",), see="3.1.6.1.1.5 3.1.6.7.1.5 3.1.6.11.1.5"),
        row("RemoteAccessServer",  "mSMQServiceType",    UINT32,  "RCWS",  False,         propid=None,
            computed=Computed.REMOTE_ACCESS_SERVER, kind=Kind.BOOLEAN, see="3.1.6.1.1.5 3.1.6.7.1.5"),
        row("SupportingServer",    "mSMQDependentClientServices", BOOLEAN, "RCWFS", False, propid=229),
        row("PublicEncryptionKeyList", "mSMQEncryptKey", OCTETS,  "RCWFS", b"",           propid=238),
        row("Security",            "nTSecurityDescriptor", DESCRIPTOR, "RCWFS", Missing.ERROR_IF_ASKED,
            propid=1201, see="3.1.6.1.1.8 3.1.6.7.1.3"),
        on_computer("QualifiedComputerName", "dNSHostName", UNICODE, "R",  Missing.ERROR_IF_ASKED, propid=233,
            holder=Holder.COMPUTER),
        on_computer("PublicSigningKeyList", "mSMQSignCertificates", OCTETS, "RCW", b"",   propid=239,
            holder=Holder.COMPUTER, computed=Computed.SIGNING_KEYS,
            written=("mSMQSignCertificates", "mSMQDigests"), see="3.1.6.1.1.9 3.1.6.7.1.8 3.1.6.7.1.10"),
        on_computer("Clustered",   "servicePrincipalName", UNICODE, "R",   Missing.ERROR_IF_ASKED, propid=242,
            holder=Holder.COMPUTER, computed=Computed.CLUSTERED, kind=Kind.BOOLEAN, see="3.1.6.11.1.6"),
        on_computer("OperatingSystemVersion", "operatingSystemVersion", UNICODE, "R", "", propid=None,
            holder=Holder.COMPUTER),
    ),
)
# fmt: on
