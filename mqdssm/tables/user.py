"""Rows of User ([MS-MQDSSM] 3.1.6.20.6), kept in user entries."""

from typing import Final

from mqdssm.model.elements import User
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Computed, Missing, RowMaker
from mqdssm.tables.syntax import DN_TEXT, GUID, OCTETS, OCTETS16, SID

row: Final = RowMaker(read="3.1.6.20.6 3.1.6.10.6 3.1.6.11.6", write="3.1.6.7.6.2", filter="3.1.6.4.6.2")

# fmt: off
TABLE: Final = ElementTable(
    element=User,
    ldap_class="user",
    rows=(
        #   ADM name                LDAP name               syntax    events  unset
        row("Identifier",           "objectGUID",           GUID,     "RFS",  Missing.ERROR, propid=706),
        row("SecurityIdentifier",   "objectSid",            SID,      "RFS",  Missing.ERROR, propid=701),
        row("CertificateDigestList", "mSMQDigests",         OCTETS16, "RWFS", (),
            propid=705, multi=True, see="3.1.6.7.6.4"),
        row("Certificates",         "mSMQSignCertificates", OCTETS,   "RWFS", b"",           propid=702,
            see="3.1.6.7.6.4"),
        row("FullPath",             "distinguishedName",    DN_TEXT,  "RFS",  Missing.ERROR, propid=None,
            computed=Computed.FULL_PATH),
    ),
)
# fmt: on
