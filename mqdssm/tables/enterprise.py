"""Rows of Enterprise ([MS-MQDSSM] 3.1.6.20.3), kept in the entry CN=MsmqServices."""

from typing import Final

from mqdssm.model.elements import TIME_TO_LIVE_DEFAULT_S, Enterprise
from mqdssm.tables import adsyntax as ad
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Computed, Missing, RowMaker
from mqdssm.tables.syntax import BOOLEAN, DESCRIPTOR, DN_TEXT, GUID, UINT32, Kind, words

NOTIFICATION: Final = words("Y or N", ad.TELETEX, Kind.BOOLEAN, {True: b"Y", False: b"N"})
OLD_DIRECTORY: Final = words("MSMQ version", ad.INTEGER, Kind.BOOLEAN, {True: b"3", False: b"200"})

row: Final = RowMaker(read="3.1.6.20.3 3.1.6.10.3 3.1.6.11.3", write="3.1.6.7.3.2", filter="3.1.6.4.3.2")

# fmt: off
TABLE: Final = ElementTable(
    element=Enterprise,
    ldap_class="mSMQEnterpriseSettings",
    rows=(
        #   ADM name             LDAP name        syntax         events  unset
        row("Identifier",        "objectGUID",    GUID,          "RFS",  Missing.ERROR,  propid=609),
        row("Name",              "",              DN_TEXT,       "R",    Missing.ERROR,  propid=601,
            computed=Computed.ENTERPRISE_NAME, kind=Kind.TEXT, see="3.1.6.11.3.1"),
        # the schema makes it a Boolean; unset is "internal default", which is False (M10)
        row("WeakenedSecurity",  "mSMQNameStyle", BOOLEAN,       "RWFS", False,          propid=602,
            see="3.1.6.4.3.4 3.1.6.11.3.2"),
        row("NonLDAPCapableQueueManagerNotification", "mSMQCSPName", NOTIFICATION, "RWFS", True, propid=None,
            see="3.1.6.4.3.5 3.1.6.7.3.4 3.1.6.11.3.3"),
        row("DefaultTimeToLive", "mSMQLongLived", UINT32,        "RWFS", TIME_TO_LIVE_DEFAULT_S,
            propid=616, unit="s"),
        row("OldDirectory",      "mSMQVersion",   OLD_DIRECTORY, "RWFS", True,           propid=617),
        row("Security",          "nTSecurityDescriptor", DESCRIPTOR, "RWFS", Missing.ERROR_IF_ASKED,
            propid=1601, see="3.1.6.7.3.3"),
    ),
)
# fmt: on
