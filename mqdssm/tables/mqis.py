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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.fieldtypes import spec_name
from mqdssm.model.propids import Propid, Variant
from mqdssm.tables import TABLES
from mqdssm.tables.row import Row


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

    def list_holding(self, adm: str) -> tuple[MqisColumn, ...]:
        """Return the columns of an attribute, first that with the row's own PROPID."""
        columns = [column for column in self.columns if column.adm == adm and not column.bits]
        return tuple(
            sorted(columns, key=lambda column: column.row is None or column.propid != column.row.propid)
        )


_ATTRIBUTES: Final[Mapping[Propid, str]] = {
    Propid.L_COST: "ActualCost",
    Propid.QM_SITE_ID: "SiteIdentifierList",
    Propid.QM_SIGN_PK: "PublicSigningKeyList",
    Propid.QM_ENCRYPT_PK: "PublicEncryptionKeyList",
}
"""Attributes of the properties that are not the row's own PROPID."""


def _name_members(members: type[IntEnum]) -> Mapping[int, str]:
    return {int(member): spec_name(member) for member in members}


_BOOLEANS: Final[Mapping[int, Any]] = {0: False, 1: True}
_CODES: Final[Mapping[Propid, Mapping[int, Any]]] = {
    Propid.E_NAMESTYLE: {0: False, 1: True, 2: False},
    Propid.E_VERSION: {3: True, 200: False},
    Propid.QM_OS: _name_members(OperatingSystemType),
    Propid.Q_PRIV_LEVEL: _name_members(PrivacyLevel),
}


def _make_column(propid: Propid, rows: Iterable[Row]) -> MqisColumn:
    """Make a column.

    The column's row has the property's PROPID, or the attribute of `_ATTRIBUTES`.
    """
    adm = _ATTRIBUTES.get(propid)
    row = next((row for row in rows if (row.adm == adm if adm else row.propid == propid)), None)
    is_boolean = row is not None and row.kind == "boolean"
    return MqisColumn(
        name=propid.spec_name,
        propid=int(propid),
        variant=propid.variant,
        section=propid.section,
        row=row,
        first=propid is Propid.QM_SITE_ID,
        bits=propid is Propid.QM_SERVICE,
        codes=_CODES.get(propid, _BOOLEANS if is_boolean else None),
    )


def _make_table(
    name: str, type_name: str | None, element: type[DirectoryObject] | None, key: Propid
) -> MqisTable:
    """Make the table of a type of object: each of its properties is a column."""
    object_type = key.object_type
    if object_type is None:
        raise TypeError(f"{key.spec_name} is of no type of object")
    rows = () if element is None else TABLES[element].rows
    return MqisTable(
        name=name,
        type_name=type_name,
        element=element,
        object_type=object_type,
        key=key.spec_name,
        columns=tuple(_make_column(propid, rows) for propid in Propid if propid.object_type is object_type),
    )


ENTERPRISE: Final = _make_table("Enterprise", "enterprise", Enterprise, Propid.E_ID)
SITE: Final = _make_table("Site", "site", Site, Propid.S_SITEID)
ROUTING_LINK: Final = _make_table("RoutingLink", "routing-link", RoutingLink, Propid.L_ID)
CONNECTED_NETWORK: Final = _make_table("ConnectedNetwork", None, None, Propid.CN_GUID)
MACHINE: Final = _make_table("Machine", "queue-manager", QueueManager, Propid.QM_MACHINE_ID)
QUEUE: Final = _make_table("Queue", "queue", Queue, Propid.Q_INSTANCE)
USER: Final = _make_table("User", "user", User, Propid.U_ID)
DELETED: Final = _make_table("Deleted", None, None, Propid.D_IDENTIFIER)

MQIS_TABLES: Final[Mapping[str, MqisTable]] = {
    table.name: table
    for table in (ENTERPRISE, SITE, ROUTING_LINK, CONNECTED_NETWORK, MACHINE, QUEUE, USER, DELETED)
}
"""Every table by its name."""
