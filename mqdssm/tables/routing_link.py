"""Rows of RoutingLink ([MS-MQDSSM] 3.1.6.20.5), kept in mSMQSiteLink entries."""

from typing import Final

from mqdssm.model.elements import RoutingLink
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Computed, Missing, RowMaker
from mqdssm.tables.syntax import DN_TEXT, GUID, UINT32, UNICODE, Kind

row: Final = RowMaker(
    read="3.1.6.20.5 3.1.6.10.5 3.1.6.11.5",
    create="3.1.6.1.4.2",
    write="3.1.6.7.5.2",
    filter="3.1.6.4.5.2",
)

# fmt: off
TABLE: Final = ElementTable(
    element=RoutingLink,
    ldap_class="mSMQSiteLink",
    rows=(
        #   ADM name      LDAP name            syntax   events   unset
        row("Identifier", "objectGUID",        GUID,    "RFS",   Missing.ERROR, propid=806),
        row("Description", "description",      UNICODE, "RCWFS", "",            propid=810, one_of_set=True),
        row("FullPath",   "distinguishedName", DN_TEXT, "RFS",   Missing.ERROR, propid=811,
            computed=Computed.FULL_PATH),
        row("ActualCost", "mSMQCost",          UINT32,  "RCWFS", Missing.ERROR, propid=812),
        row("Site1Identifier", "mSMQSite1",    DN_TEXT, "RCWFSN", Missing.ERROR, propid=801,
            computed=Computed.SITE, kind=Kind.GUID, see="3.1.6.1.4.4 3.1.6.7.5.4 3.1.6.4.5.4 3.1.6.11.5.1"),
        row("Site2Identifier", "mSMQSite2",    DN_TEXT, "RCWFSN", Missing.ERROR, propid=802,
            computed=Computed.SITE, kind=Kind.GUID, see="3.1.6.1.4.5 3.1.6.7.5.5 3.1.6.4.5.5 3.1.6.11.5.2"),
        row("SiteGateIdentifierList", "mSMQSiteGates", DN_TEXT, "RCWS", (), propid=813, multi=True,
            computed=Computed.QUEUE_MANAGERS, kind=Kind.GUID, see="3.1.6.1.4.6 3.1.6.7.5.6 3.1.6.11.5.3"),
    ),
)
# fmt: on
