"""Rows of Site ([MS-MQDSSM] 3.1.6.20.4), kept in site entries."""

from typing import Final

from mqdssm.model.elements import INTER_SITE_INTERVAL_DEFAULT_S, INTRA_SITE_INTERVAL_DEFAULT_S, Site
from mqdssm.tables import adsyntax as ad
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Computed, Missing, RowMaker
from mqdssm.tables.syntax import BOOLEAN, DESCRIPTOR, DN_TEXT, GUID, UINT32, UNICODE, Kind, words

NT4_STUB: Final = words("0 or 1", ad.INTEGER, Kind.BOOLEAN, {True: b"1", False: b"0"})

row: Final = RowMaker(
    read="3.1.6.20.4 3.1.6.10.4 3.1.6.11.4",
    create="3.1.6.1.3.2",
    write="3.1.6.7.4.2",
    filter="3.1.6.4.4.2",
)

# fmt: off
TABLE: Final = ElementTable(
    element=Site,
    ldap_class="site",
    rows=(
        #   ADM name            LDAP name              syntax    events   unset
        row("Identifier",       "objectGUID",          GUID,     "RFS",   Missing.ERROR, propid=302),
        row("Name",             "cn",                  UNICODE,  "RFSN",  Missing.ERROR, propid=301),
        row("IntraSiteReplicationInterval", "mSMQInterval1", UINT32, "RCWFS", INTRA_SITE_INTERVAL_DEFAULT_S,
            propid=305, unit="s"),
        row("InterSiteReplicationInterval", "mSMQInterval2", UINT32, "RCWFS", INTER_SITE_INTERVAL_DEFAULT_S,
            propid=306, unit="s"),
        row("FullPath",         "distinguishedName",   DN_TEXT,  "RFS",   Missing.ERROR, propid=309,
            computed=Computed.FULL_PATH),
        # the schema allows both of these several values (M10)
        row("ForeignSite",      "mSMQSiteForeign",     BOOLEAN,  "RCWFS", False,
            propid=311, one_of_set=True),
        # [MS-MQDSSM] 3.1.6.11.4 makes an unset value an error; native sites never have one (M12)
        row("MigratedFromMsmq10", "mSMQNt4Stub",       NT4_STUB, "RCWFS", False,
            propid=310, one_of_set=True),
        row("Security",         "nTSecurityDescriptor", DESCRIPTOR, "RCWFS", Missing.ERROR_IF_ASKED,
            propid=1301, see="3.1.6.1.3.4 3.1.6.7.4.3"),
    ),
)
# fmt: on
