"""Tables of MQIS, the directory of MSMQ 1.0: their columns, named by PROPID.

MQIS has one table for each type of object. A column has the name of its property, for instance
``PROPID_Q_LABEL`` ([MS-MQMQ] 2.3); the mapping table's row with that PROPID names the attribute of the
abstract model. Values have one form in typed columns and one in text:

====================  =============================  ====================================================
variant               column                         text (CSV, JSON Lines, or a text column)
====================  =============================  ====================================================
VT_UI1 … VT_I4        integer                        decimal; unsigned values are written unsigned
VT_LPWSTR             string                         as it is
VT_CLSID              string                         GUID with hyphens, any case, with or without braces
VT_BLOB               binary                         base64 ([RFC4648] 4)
VT_VECTOR|VT_UI1      binary                         base64
VT_VECTOR|VT_CLSID    array of string                JSON array of GUIDs
VT_VECTOR|VT_LPWSTR   array of string                JSON array of strings
====================  =============================  ====================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.fieldtypes import spec_name
from mqdssm.model.propids import ObjectType, Propid, Variant
from mqdssm.tables import TABLES, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class MqisColumn:
    """One column of a table.

    Attributes:
        name: name of the column, as ``PROPID_Q_LABEL``.
        propid: its number.
        variant: type of its values.
        section: section of [MS-MQMQ] that describes it.
        row: the mapping table's row of its attribute; None: no directory stores it.
        first: True if it holds only the first item of the attribute's list.
        bits: True if its bits stand for several attributes (`compute.SERVICE_BITS`).
        codes: number -> the attribute's value, for numbers with a meaning; other numbers are wrong
            for booleans, and stay numbers for enumerations.
    """

    name: str
    propid: int
    variant: Variant
    section: str
    row: Row | None = None
    first: bool = False
    bits: bool = False
    codes: Mapping[int, Any] | None = None

    @property
    def adm(self) -> str | None:
        """The specification's name of the column's attribute; None: no attribute."""
        return None if self.row is None else self.row.adm


@dataclass(frozen=True, slots=True, kw_only=True)
class MqisTable:
    """One table with the objects of one type.

    Attributes:
        name: name of the table, as ``Queue``, and of its file or folder.
        type_name: type of the objects on the command line; None: no directory stores them.
        element: element of the objects; None as above.
        object_type: its number, MQDS_QUEUE and so on ([MS-MQMQ] 2.3.13.4).
        key: the column that holds the object's GUID.
        columns: all columns that it may have.
    """

    name: str
    type_name: str | None
    element: type[DirectoryObject] | None
    object_type: int
    key: str
    columns: tuple[MqisColumn, ...]

    def column(self, name: str) -> MqisColumn:
        """Find a column by its name, in any case.

        Raises:
            ValueError: the table has no such column.
        """
        upper_name = name.upper()
        for column in self.columns:
            if column.name == upper_name:
                return column
        raise ValueError(f"table {self.name} of MQIS has no column {name!r}")

    def holding(self, adm: str) -> tuple[MqisColumn, ...]:
        """Return the columns of an attribute, first that with the row's own PROPID."""
        columns = [column for column in self.columns if column.adm == adm and not column.bits]
        return tuple(
            sorted(columns, key=lambda column: column.row is None or column.propid != column.row.propid)
        )


_BOOLEANS: Final = MappingProxyType({0: False, 1: True})


def _names(members: type[IntEnum]) -> Mapping[int, str]:
    return MappingProxyType({int(member): spec_name(member) for member in members})


def _make_table(
    name: str,
    type_name: str | None,
    element: type[DirectoryObject] | None,
    object_type: ObjectType,
    *columns: tuple[Propid, dict[str, Any]],
) -> MqisTable:
    """Make a table; each column has its row by the PROPID, or by the name of an attribute."""
    rows = () if element is None else TABLES[element].rows
    by_propid = {row.propid: row for row in rows if row.propid is not None}
    by_adm = {row.adm: row for row in rows}
    table_columns = []
    key = ""
    for propid, more in columns:
        if propid.object_type is not object_type:
            raise TypeError(f"{propid.spec_name} is no property of {object_type.spec_name}")
        adm = more.pop("adm", None)
        row = by_adm[adm] if adm else by_propid.get(propid)
        if more.pop("key", False):
            key = propid.spec_name
        if row is not None and row.kind == "boolean":
            more.setdefault("codes", _BOOLEANS)
        column = MqisColumn(
            name=propid.spec_name,
            propid=int(propid),
            variant=propid.variant,
            section=propid.section,
            row=row,
            **more,
        )
        table_columns.append(column)
    return MqisTable(
        name=name,
        type_name=type_name,
        element=element,
        object_type=object_type,
        key=key,
        columns=tuple(table_columns),
    )


def _make_column(propid: Propid, **more: Any) -> tuple[Propid, dict[str, Any]]:
    return propid, more


# fmt: off
ENTERPRISE: Final = _make_table("Enterprise", "enterprise", Enterprise, ObjectType.ENTERPRISE,
    _make_column(Propid.E_NAME),
    _make_column(Propid.E_NAMESTYLE, codes={0: False, 1: True, 2: False}),
    _make_column(Propid.E_CSP_NAME),
    _make_column(Propid.E_PECNAME),
    _make_column(Propid.E_S_INTERVAL1),
    _make_column(Propid.E_S_INTERVAL2),
    _make_column(Propid.E_PARTITIONID),
    _make_column(Propid.E_SEQNUM),
    _make_column(Propid.E_ID, key=True),
    _make_column(Propid.E_CRL),
    _make_column(Propid.E_CSP_TYPE),
    _make_column(Propid.E_ENCRYPT_ALG),
    _make_column(Propid.E_SIGN_ALG),
    _make_column(Propid.E_HASH_ALG),
    _make_column(Propid.E_CIPHER_MODE),
    _make_column(Propid.E_LONG_LIVE),
    _make_column(Propid.E_VERSION, codes={3: True, 200: False}),
    _make_column(Propid.E_SECURITY),
)
# fmt: on
# fmt: off
SITE: Final = _make_table("Site", "site", Site, ObjectType.SITE,
    _make_column(Propid.S_PATHNAME),
    _make_column(Propid.S_SITEID, key=True),
    _make_column(Propid.S_GATES),
    _make_column(Propid.S_PSC),
    _make_column(Propid.S_INTERVAL1),
    _make_column(Propid.S_INTERVAL2),
    _make_column(Propid.S_PARTITIONID),
    _make_column(Propid.S_SEQNUM),
    _make_column(Propid.S_FULL_NAME),
    _make_column(Propid.S_NT4_STUB),
    _make_column(Propid.S_FOREIGN),
    _make_column(Propid.S_DONOTHING),
    _make_column(Propid.S_SECURITY),
    _make_column(Propid.S_PSC_SIGNPK),
    _make_column(Propid.S_SECURITY_INFORMATION),
)
# fmt: on
# fmt: off
ROUTING_LINK: Final = _make_table("RoutingLink", "routing-link", RoutingLink, ObjectType.ROUTING_LINK,
    _make_column(Propid.L_NEIGHBOR1),
    _make_column(Propid.L_NEIGHBOR2),
    _make_column(Propid.L_COST, adm="ActualCost"),
    _make_column(Propid.L_PARTITIONID),
    _make_column(Propid.L_SEQNUM),
    _make_column(Propid.L_ID, key=True),
    _make_column(Propid.L_GATES_DN),
    _make_column(Propid.L_NEIGHBOR1_DN),
    _make_column(Propid.L_NEIGHBOR2_DN),
    _make_column(Propid.L_DESCRIPTION),
    _make_column(Propid.L_FULL_PATH),
    _make_column(Propid.L_ACTUAL_COST),
    _make_column(Propid.L_GATES),
)
# fmt: on
# fmt: off
CONNECTED_NETWORK: Final = _make_table("ConnectedNetwork", None, None, ObjectType.CN,
    _make_column(Propid.CN_PROTOCOLID),
    _make_column(Propid.CN_NAME),
    _make_column(Propid.CN_GUID, key=True),
    _make_column(Propid.CN_PARTITIONID),
    _make_column(Propid.CN_SEQNUM),
    _make_column(Propid.CN_SECURITY),
)
# fmt: on
# fmt: off
MACHINE: Final = _make_table("Machine", "queue-manager", QueueManager, ObjectType.MACHINE,
    _make_column(Propid.QM_SITE_ID, adm="SiteIdentifierList", first=True),
    _make_column(Propid.QM_MACHINE_ID, key=True),
    _make_column(Propid.QM_PATHNAME),
    _make_column(Propid.QM_ENCRYPTION_PK),
    _make_column(Propid.QM_ADDRESS),
    _make_column(Propid.QM_CNS),
    _make_column(Propid.QM_OUTFRS),
    _make_column(Propid.QM_INFRS),
    _make_column(Propid.QM_SERVICE, bits=True),
    _make_column(Propid.QM_PARTITIONID),
    _make_column(Propid.QM_HASHKEY),
    _make_column(Propid.QM_SEQNUM),
    _make_column(Propid.QM_QUOTA),
    _make_column(Propid.QM_JOURNAL_QUOTA),
    _make_column(Propid.QM_MACHINE_TYPE),
    _make_column(Propid.QM_CREATE_TIME),
    _make_column(Propid.QM_MODIFY_TIME),
    _make_column(Propid.QM_FOREIGN),
    _make_column(Propid.QM_OS, codes=_names(OperatingSystemType)),
    _make_column(Propid.QM_FULL_PATH),
    _make_column(Propid.QM_SITE_IDS),
    _make_column(Propid.QM_OUTFRS_DN),
    _make_column(Propid.QM_INFRS_DN),
    _make_column(Propid.QM_SERVICE_ROUTING),
    _make_column(Propid.QM_SERVICE_DSSERVER),
    _make_column(Propid.QM_SERVICE_DEPCLIENTS),
    _make_column(Propid.QM_ENCRYPTION_PK_BASE),
    _make_column(Propid.QM_ENCRYPTION_PK_ENHANCED),
    _make_column(Propid.QM_PATHNAME_DNS),
    _make_column(Propid.QM_OBJ_SECURITY),
    _make_column(Propid.QM_SECURITY_INFORMATION),
    _make_column(Propid.QM_ENCRYPT_PKS),
    _make_column(Propid.QM_SIGN_PKS),
    _make_column(Propid.QM_OWNER_SID),
    _make_column(Propid.QM_GROUP_IN_CLUSTER),
    _make_column(Propid.QM_SECURITY),
    _make_column(Propid.QM_SIGN_PK, adm="PublicSigningKeyList"),
    _make_column(Propid.QM_ENCRYPT_PK, adm="PublicEncryptionKeyList"),
    _make_column(Propid.QM_UPGRADE_DACL),
)
# fmt: on
# fmt: off
QUEUE: Final = _make_table("Queue", "queue", Queue, ObjectType.QUEUE,
    _make_column(Propid.Q_INSTANCE, key=True),
    _make_column(Propid.Q_TYPE),
    _make_column(Propid.Q_PATHNAME),
    _make_column(Propid.Q_JOURNAL),
    _make_column(Propid.Q_QUOTA),
    _make_column(Propid.Q_BASEPRIORITY),
    _make_column(Propid.Q_JOURNAL_QUOTA),
    _make_column(Propid.Q_LABEL),
    _make_column(Propid.Q_CREATE_TIME),
    _make_column(Propid.Q_MODIFY_TIME),
    _make_column(Propid.Q_AUTHENTICATE),
    _make_column(Propid.Q_PRIV_LEVEL, codes=_names(PrivacyLevel)),
    _make_column(Propid.Q_TRANSACTION),
    _make_column(Propid.Q_SCOPE),
    _make_column(Propid.Q_QMID),
    _make_column(Propid.Q_PARTITIONID),
    _make_column(Propid.Q_SEQNUM),
    _make_column(Propid.Q_HASHKEY),
    _make_column(Propid.Q_LABEL_HASHKEY),
    _make_column(Propid.Q_FULL_PATH),
    _make_column(Propid.Q_NAME_SUFFIX),
    _make_column(Propid.Q_PATHNAME_DNS),
    _make_column(Propid.Q_MULTICAST_ADDRESS),
    _make_column(Propid.Q_ADS_PATH),
    _make_column(Propid.Q_SECURITY),
    _make_column(Propid.Q_OBJ_SECURITY),
    _make_column(Propid.Q_SECURITY_INFORMATION),
)
# fmt: on
# fmt: off
USER: Final = _make_table("User", "user", User, ObjectType.USER,
    _make_column(Propid.U_SID),
    _make_column(Propid.U_SIGN_CERT),
    _make_column(Propid.U_PARTITIONID),
    _make_column(Propid.U_SEQNUM),
    _make_column(Propid.U_DIGEST),
    _make_column(Propid.U_ID, key=True),
)
# fmt: on
# fmt: off
DELETED: Final = _make_table("Deleted", None, None, ObjectType.DELETED_OBJECT,
    _make_column(Propid.D_SEQNUM),
    _make_column(Propid.D_PARTITIONID),
    _make_column(Propid.D_SCOPE),
    _make_column(Propid.D_OBJTYPE),
    _make_column(Propid.D_IDENTIFIER, key=True),
)
# fmt: on

MQIS_TABLES: Final[Mapping[str, MqisTable]] = MappingProxyType(
    {
        table.name: table
        for table in (ENTERPRISE, SITE, ROUTING_LINK, CONNECTED_NETWORK, MACHINE, QUEUE, USER, DELETED)
    }
)
"""Every table by its name."""
