"""Rows of Queue ([MS-MQDSSM] 3.1.6.20.2), kept in mSMQQueue entries."""

from typing import Final

from mqdssm.model.elements import GUID_NULL, QUOTA_UNLIMITED, Queue
from mqdssm.model.enums import PrivacyLevel
from mqdssm.tables import adsyntax as ad
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Computed, Missing, RowMaker
from mqdssm.tables.syntax import (
    BOOLEAN,
    DESCRIPTOR,
    DN_TEXT,
    GUID,
    INT32,
    TIME,
    UINT32,
    UNICODE,
    Kind,
    enumeration,
)

PRIVACY_LEVEL: Final = enumeration(PrivacyLevel, ad.ENUMERATION)

row: Final = RowMaker(
    read="3.1.6.20.2 3.1.6.10.2 3.1.6.11.2",
    create="3.1.6.1.2.2",
    write="3.1.6.7.2.2",
    filter="3.1.6.4.2.2",
)

# fmt: off
TABLE: Final = ElementTable(
    element=Queue,
    ldap_class="mSMQQueue",
    rows=(
        #   ADM name            LDAP name                syntax   events   unset
        row("Identifier",       "objectGUID",            GUID,    "RFS",   Missing.ERROR, propid=101),
        row("Label",            "mSMQLabelEx",           UNICODE, "RCWFS", "",            propid=108),
        row("CreateTime",       "whenCreated",           TIME,    "RFS",   Missing.ERROR,
            propid=109, unit="s"),
        row("ModifyTime",       "whenChanged",           TIME,    "RFS",   Missing.ERROR,
            propid=110, unit="s"),
        row("Type",             "mSMQQueueType",         GUID,    "RCWFS", GUID_NULL,     propid=102),
        row("Pathname",         "distinguishedName mSMQQueueNameExt", DN_TEXT, "RSN", Missing.ERROR,
            propid=103, computed=Computed.PATHNAME, kind=Kind.TEXT, written=("mSMQQueueNameExt",),
            see="3.1.6.1.2.5 3.1.6.7.2.5 3.1.6.11.2.1"),
        row("QualifiedPathname", "distinguishedName mSMQQueueNameExt", DN_TEXT, "RS", "",
            propid=124, computed=Computed.QUALIFIED_PATHNAME, kind=Kind.TEXT, computer_ldap=("dNSHostName",),
            see="3.1.6.11.2.2"),
        row("Journaling",       "mSMQJournal",           BOOLEAN, "RCWFS", False,         propid=104),
        row("Quota",            "mSMQQueueQuota",        UINT32,  "RCWFS", QUOTA_UNLIMITED,
            propid=105, unit="KB"),
        row("JournalQuota",     "mSMQQueueJournalQuota", UINT32,  "RCWFS", QUOTA_UNLIMITED,
            propid=107, unit="KB"),
        row("Authentication",   "mSMQAuthenticate",      BOOLEAN, "RCWFS", False,         propid=111),
        row("PrivacyLevel",     "mSMQPrivacyLevel",      PRIVACY_LEVEL, "RCWFS", PrivacyLevel.OPTIONAL,
            propid=112, see="3.1.6.1.2.4 3.1.6.7.2.4 3.1.6.11.2.3"),
        row("Transactional",    "mSMQTransactional",     BOOLEAN, "RCFS",  False,         propid=113),
        row("MulticastAddress", "MSMQ-MulticastAddress", UNICODE, "RCWFS", "",            propid=125),
        row("Security",         "nTSecurityDescriptor",  DESCRIPTOR, "RCWFS", Missing.ERROR_IF_ASKED,
            propid=1101, see="3.1.6.7.2.3"),
        row("BasePriority",     "mSMQBasePriority",      INT32,   "RCWFS", 0,             propid=106),
        row("FullPath",         "distinguishedName",     DN_TEXT, "RFS",   Missing.ERROR, propid=121,
            computed=Computed.FULL_PATH),
        row("DirectoryPath",    "distinguishedName",     DN_TEXT, "RS",    Missing.ERROR, propid=126,
            computed=Computed.DIRECTORY_PATH, kind=Kind.TEXT),
    ),
)
# fmt: on
