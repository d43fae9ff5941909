"""The tables of MQIS, the directory of MSMQ 1.0: their columns, named by PROPID.

MQIS is kept as one table for each type of object. A column is called as the property is, for instance
``PROPID_Q_LABEL`` ([MS-MQMQ] 2.3); which attribute of the abstract model it holds follows from the PROPID in
the mapping table's row. Values have one form in columns of their own type and one in text:

====================  =============================  ====================================================
variant               column                         text (CSV, JSON Lines, or a text column)
====================  =============================  ====================================================
VT_UI1 … VT_I4        integer                        decimal; what is unsigned is written unsigned
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
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Final

from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.fieldtypes import spec_name
from mqdssm.tables import TABLES, Row

PREFIX: Final = "PROPID_"


class Variant(StrEnum):
    """The type of a property's value ([MS-MQMQ] 2.2.12)."""

    UI1 = "VT_UI1"
    UI2 = "VT_UI2"
    UI4 = "VT_UI4"
    I2 = "VT_I2"
    I4 = "VT_I4"
    LPWSTR = "VT_LPWSTR"
    CLSID = "VT_CLSID"
    BLOB = "VT_BLOB"
    BYTES = "VT_VECTOR|VT_UI1"
    CLSIDS = "VT_VECTOR|VT_CLSID"
    LPWSTRS = "VT_VECTOR|VT_LPWSTR"


INTEGERS: Final[Mapping[Variant, tuple[int, int]]] = MappingProxyType(
    {
        Variant.UI1: (0, 2**8 - 1),
        Variant.UI2: (0, 2**16 - 1),
        Variant.UI4: (0, 2**32 - 1),
        Variant.I2: (-(2**15), 2**15 - 1),
        Variant.I4: (-(2**31), 2**31 - 1),
    }
)
"""The integer variants, each with its smallest and largest number."""
BLOBS: Final = frozenset({Variant.BLOB, Variant.BYTES})
LISTS: Final = frozenset({Variant.CLSIDS, Variant.LPWSTRS})
GUIDS: Final = frozenset({Variant.CLSID, Variant.CLSIDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class MqisColumn:
    """One column of a table.

    Attributes:
        name: as ``PROPID_Q_LABEL``.
        propid: its number.
        variant: type of its values.
        section: where [MS-MQMQ] describes it.
        row: the mapping table's row of the attribute that it holds; None: no directory keeps it.
        first: it holds only the first item of the attribute's list.
        bits: its bits stand for several attributes (`compute.SERVICE_BITS`).
        codes: number -> the attribute's value, where numbers stand for something; other numbers are wrong
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
        """The specification's name of the attribute that it holds."""
        return None if self.row is None else self.row.adm


@dataclass(frozen=True, slots=True, kw_only=True)
class MqisTable:
    """One table, which holds the objects of one type.

    Attributes:
        name: as ``Queue``; the name of its file or folder.
        type_name: of the objects on the command line; None: no directory keeps them.
        element: of the objects; None as above.
        object_type: its number, MQDS_QUEUE and so on ([MS-MQMQ] 2.3.13.4).
        key: the column that holds the object's GUID.
        columns: all that it may have.
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
        wanted = name.upper()
        for column in self.columns:
            if column.name == wanted:
                return column
        raise ValueError(f"table {self.name} of MQIS has no column {name!r}")

    def holding(self, adm: str) -> tuple[MqisColumn, ...]:
        """The columns that hold an attribute, the one with the row's own PROPID first."""
        found = [column for column in self.columns if column.adm == adm and not column.bits]
        return tuple(
            sorted(found, key=lambda column: column.row is None or column.propid != column.row.propid)
        )


_BOOLEANS: Final = MappingProxyType({0: False, 1: True})


def _names(members: type[IntEnum]) -> Mapping[int, str]:
    return MappingProxyType({int(member): spec_name(member) for member in members})


def _table(
    name: str,
    type_name: str | None,
    element: type[DirectoryObject] | None,
    object_type: int,
    *columns: tuple[str, int, Variant, str, dict[str, Any]],
) -> MqisTable:
    """Make a table: each column finds its row by the PROPID, or by the attribute that it names."""
    rows = () if element is None else TABLES[element].rows
    by_propid = {row.propid: row for row in rows if row.propid is not None}
    by_adm = {row.adm: row for row in rows}
    made = []
    key = ""
    for short, propid, variant, section, more in columns:
        adm = more.pop("adm", None)
        row = by_adm[adm] if adm else by_propid.get(propid)
        if more.pop("key", False):
            key = PREFIX + short
        if row is not None and row.kind == "boolean":
            more.setdefault("codes", _BOOLEANS)
        column = MqisColumn(
            name=PREFIX + short, propid=propid, variant=variant, section=section, row=row, **more
        )
        made.append(column)
    return MqisTable(
        name=name, type_name=type_name, element=element, object_type=object_type, key=key, columns=tuple(made)
    )


def _column(
    name: str, propid: int, variant: Variant, section: str, **more: Any
) -> tuple[str, int, Variant, str, dict[str, Any]]:
    return name, propid, variant, f"[MS-MQMQ] {section}", more


BLOB, BYTES, CLSID, CLSIDS = Variant.BLOB, Variant.BYTES, Variant.CLSID, Variant.CLSIDS
LPWSTR, LPWSTRS = Variant.LPWSTR, Variant.LPWSTRS
UI1, UI2, UI4, I2, I4 = Variant.UI1, Variant.UI2, Variant.UI4, Variant.I2, Variant.I4

# fmt: off
ENTERPRISE: Final = _table("Enterprise", "enterprise", Enterprise, 6,
    _column("E_NAME", 601, LPWSTR, "2.3.5.1"),
    _column("E_NAMESTYLE", 602, UI1, "2.3.5.2", codes={0: False, 1: True, 2: False}),
    _column("E_CSP_NAME", 603, LPWSTR, "2.3.5.3"),
    _column("E_PECNAME", 604, LPWSTR, "2.3.5.4"),
    _column("E_S_INTERVAL1", 605, UI2, "2.3.5.5"),
    _column("E_S_INTERVAL2", 606, UI2, "2.3.5.6"),
    _column("E_PARTITIONID", 607, CLSID, "2.3.5.7"),
    _column("E_SEQNUM", 608, BLOB, "2.3.5.8"),
    _column("E_ID", 609, CLSID, "2.3.5.9", key=True),
    _column("E_CRL", 610, BLOB, "2.3.5.10"),
    _column("E_CSP_TYPE", 611, UI4, "2.3.5.11"),
    _column("E_ENCRYPT_ALG", 612, UI4, "2.3.5.12"),
    _column("E_SIGN_ALG", 613, UI4, "2.3.5.13"),
    _column("E_HASH_ALG", 614, UI4, "2.3.5.14"),
    _column("E_CIPHER_MODE", 615, UI4, "2.3.5.18"),
    _column("E_LONG_LIVE", 616, UI4, "2.3.5.15"),
    _column("E_VERSION", 617, UI2, "2.3.5.16", codes={3: True, 200: False}),
    _column("E_SECURITY", 1601, BLOB, "2.3.5.17"),
)
# fmt: on
# fmt: off
SITE: Final = _table("Site", "site", Site, 3,
    _column("S_PATHNAME", 301, LPWSTR, "2.3.3.1"),
    _column("S_SITEID", 302, CLSID, "2.3.3.2", key=True),
    _column("S_GATES", 303, CLSIDS, "2.3.3.3"),
    _column("S_PSC", 304, LPWSTR, "2.3.3.4"),
    _column("S_INTERVAL1", 305, UI2, "2.3.3.5"),
    _column("S_INTERVAL2", 306, UI2, "2.3.3.6"),
    _column("S_PARTITIONID", 307, CLSID, "2.3.3.7"),
    _column("S_SEQNUM", 308, BLOB, "2.3.3.8"),
    _column("S_FULL_NAME", 309, LPWSTR, "2.3.3.9"),
    _column("S_NT4_STUB", 310, UI2, "2.3.3.10"),
    _column("S_FOREIGN", 311, UI1, "2.3.3.11"),
    _column("S_DONOTHING", 312, UI1, "2.3.3.12"),
    _column("S_SECURITY", 1301, BLOB, "2.3.3.13"),
    _column("S_PSC_SIGNPK", 1302, BLOB, "2.3.3.14"),
    _column("S_SECURITY_INFORMATION", 1303, UI4, "2.3.3.15"),
)
# fmt: on
# fmt: off
ROUTING_LINK: Final = _table("RoutingLink", "routing-link", RoutingLink, 8,
    _column("L_NEIGHBOR1", 801, CLSID, "2.3.7.1"),
    _column("L_NEIGHBOR2", 802, CLSID, "2.3.7.2"),
    _column("L_COST", 803, UI4, "2.3.7.3", adm="ActualCost"),
    _column("L_PARTITIONID", 804, CLSID, "2.3.7.4"),
    _column("L_SEQNUM", 805, BLOB, "2.3.7.5"),
    _column("L_ID", 806, CLSID, "2.3.7.6", key=True),
    _column("L_GATES_DN", 807, LPWSTRS, "2.3.7.7"),
    _column("L_NEIGHBOR1_DN", 808, LPWSTR, "2.3.7.8"),
    _column("L_NEIGHBOR2_DN", 809, LPWSTR, "2.3.7.9"),
    _column("L_DESCRIPTION", 810, LPWSTR, "2.3.7.10"),
    _column("L_FULL_PATH", 811, LPWSTR, "2.3.7.11"),
    _column("L_ACTUAL_COST", 812, UI4, "2.3.7.12"),
    _column("L_GATES", 813, CLSIDS, "2.3.7.13"),
)
# fmt: on
# fmt: off
CONNECTED_NETWORK: Final = _table("ConnectedNetwork", None, None, 5,
    _column("CN_PROTOCOLID", 501, UI1, "2.3.4.1"),
    _column("CN_NAME", 502, LPWSTR, "2.3.4.2"),
    _column("CN_GUID", 503, CLSID, "2.3.4.3", key=True),
    _column("CN_PARTITIONID", 504, CLSID, "2.3.4.4"),
    _column("CN_SEQNUM", 505, BLOB, "2.3.4.5"),
    _column("CN_SECURITY", 1501, BLOB, "2.3.4.6"),
)
# fmt: on
# fmt: off
MACHINE: Final = _table("Machine", "queue-manager", QueueManager, 2,
    _column("QM_SITE_ID", 201, CLSID, "2.3.2.1", adm="SiteIdentifierList", first=True),
    _column("QM_MACHINE_ID", 202, CLSID, "2.3.2.2", key=True),
    _column("QM_PATHNAME", 203, LPWSTR, "2.3.2.3"),
    _column("QM_ENCRYPTION_PK", 205, BYTES, "2.3.2.4"),
    _column("QM_ADDRESS", 206, BLOB, "2.3.2.5"),
    _column("QM_CNS", 207, CLSIDS, "2.3.2.6"),
    _column("QM_OUTFRS", 208, CLSIDS, "2.3.2.7"),
    _column("QM_INFRS", 209, CLSIDS, "2.3.2.8"),
    _column("QM_SERVICE", 210, UI4, "2.3.2.9", bits=True),
    _column("QM_PARTITIONID", 211, CLSID, "2.3.2.11"),
    _column("QM_HASHKEY", 212, UI4, "2.3.2.12"),
    _column("QM_SEQNUM", 213, BLOB, "2.3.2.13"),
    _column("QM_QUOTA", 214, UI4, "2.3.2.10"),
    _column("QM_JOURNAL_QUOTA", 215, UI4, "2.3.2.14"),
    _column("QM_MACHINE_TYPE", 216, LPWSTR, "2.3.2.15"),
    _column("QM_CREATE_TIME", 217, I4, "2.3.2.16"),
    _column("QM_MODIFY_TIME", 218, I4, "2.3.2.17"),
    _column("QM_FOREIGN", 219, UI1, "2.3.2.18"),
    _column("QM_OS", 220, UI4, "2.3.2.19", codes=_names(OperatingSystemType)),
    _column("QM_FULL_PATH", 221, LPWSTR, "2.3.2.20"),
    _column("QM_SITE_IDS", 222, CLSIDS, "2.3.2.21"),
    _column("QM_OUTFRS_DN", 223, LPWSTRS, "2.3.2.22"),
    _column("QM_INFRS_DN", 224, LPWSTRS, "2.3.2.23"),
    _column("QM_SERVICE_ROUTING", 227, UI1, "2.3.2.24"),
    _column("QM_SERVICE_DSSERVER", 228, UI1, "2.3.2.25"),
    _column("QM_SERVICE_DEPCLIENTS", 229, UI1, "2.3.2.26"),
    _column("QM_ENCRYPTION_PK_BASE", 231, BYTES, "2.3.2.27"),
    _column("QM_ENCRYPTION_PK_ENHANCED", 232, BYTES, "2.3.2.28"),
    _column("QM_PATHNAME_DNS", 233, LPWSTR, "2.3.2.29"),
    _column("QM_OBJ_SECURITY", 234, BLOB, "2.3.2.30"),
    _column("QM_SECURITY_INFORMATION", 237, UI4, "2.3.2.31"),
    _column("QM_ENCRYPT_PKS", 238, BLOB, "2.3.2.32"),
    _column("QM_SIGN_PKS", 239, BLOB, "2.3.2.33"),
    _column("QM_OWNER_SID", 241, BLOB, "2.3.2.34"),
    _column("QM_GROUP_IN_CLUSTER", 242, UI1, "2.3.2.35"),
    _column("QM_SECURITY", 1201, BLOB, "2.3.2.36"),
    _column("QM_SIGN_PK", 1202, BLOB, "2.3.2.37", adm="PublicSigningKeyList"),
    _column("QM_ENCRYPT_PK", 1203, BLOB, "2.3.2.38", adm="PublicEncryptionKeyList"),
    _column("QM_UPGRADE_DACL", 1205, BLOB, "2.3.2.39"),
)
# fmt: on
# fmt: off
QUEUE: Final = _table("Queue", "queue", Queue, 1,
    _column("Q_INSTANCE", 101, CLSID, "2.3.1.1", key=True),
    _column("Q_TYPE", 102, CLSID, "2.3.1.2"),
    _column("Q_PATHNAME", 103, LPWSTR, "2.3.1.3"),
    _column("Q_JOURNAL", 104, UI1, "2.3.1.4"),
    _column("Q_QUOTA", 105, UI4, "2.3.1.5"),
    _column("Q_BASEPRIORITY", 106, I2, "2.3.1.6"),
    _column("Q_JOURNAL_QUOTA", 107, UI4, "2.3.1.7"),
    _column("Q_LABEL", 108, LPWSTR, "2.3.1.8"),
    _column("Q_CREATE_TIME", 109, I4, "2.3.1.9"),
    _column("Q_MODIFY_TIME", 110, I4, "2.3.1.10"),
    _column("Q_AUTHENTICATE", 111, UI1, "2.3.1.11"),
    _column("Q_PRIV_LEVEL", 112, UI4, "2.3.1.12", codes=_names(PrivacyLevel)),
    _column("Q_TRANSACTION", 113, UI1, "2.3.1.13"),
    _column("Q_SCOPE", 114, UI1, "2.3.1.14"),
    _column("Q_QMID", 115, CLSID, "2.3.1.15"),
    _column("Q_PARTITIONID", 116, CLSID, "2.3.1.16"),
    _column("Q_SEQNUM", 117, BLOB, "2.3.1.17"),
    _column("Q_HASHKEY", 118, UI4, "2.3.1.18"),
    _column("Q_LABEL_HASHKEY", 119, UI4, "2.3.1.19"),
    _column("Q_FULL_PATH", 121, LPWSTR, "2.3.1.20"),
    _column("Q_NAME_SUFFIX", 123, LPWSTR, "2.3.1.21"),
    _column("Q_PATHNAME_DNS", 124, LPWSTR, "2.3.1.22"),
    _column("Q_MULTICAST_ADDRESS", 125, LPWSTR, "2.3.1.23"),
    _column("Q_ADS_PATH", 126, LPWSTR, "2.3.1.24"),
    _column("Q_SECURITY", 1101, BLOB, "2.3.1.25"),
    _column("Q_OBJ_SECURITY", 1102, BLOB, "2.3.1.26"),
    _column("Q_SECURITY_INFORMATION", 1103, UI4, "2.3.1.27"),
)
# fmt: on
# fmt: off
USER: Final = _table("User", "user", User, 7,
    _column("U_SID", 701, BLOB, "2.3.6.1"),
    _column("U_SIGN_CERT", 702, BLOB, "2.3.6.4"),
    _column("U_PARTITIONID", 703, CLSID, "2.3.6.2"),
    _column("U_SEQNUM", 704, BLOB, "2.3.6.3"),
    _column("U_DIGEST", 705, CLSIDS, "2.3.6.5"),
    _column("U_ID", 706, CLSID, "2.3.6.6", key=True),
)
# fmt: on
# fmt: off
DELETED: Final = _table("Deleted", None, None, 4,
    _column("D_SEQNUM", 1401, BLOB, "2.3.13.1"),
    _column("D_PARTITIONID", 1402, CLSID, "2.3.13.2"),
    _column("D_SCOPE", 1403, UI1, "2.3.13.3"),
    _column("D_OBJTYPE", 1404, UI1, "2.3.13.4"),
    _column("D_IDENTIFIER", 1405, CLSID, "2.3.13.5", key=True),
)
# fmt: on

MQIS_TABLES: Final[Mapping[str, MqisTable]] = MappingProxyType(
    {
        table.name: table
        for table in (ENTERPRISE, SITE, ROUTING_LINK, CONNECTED_NETWORK, MACHINE, QUEUE, USER, DELETED)
    }
)
"""Every table by its name."""
