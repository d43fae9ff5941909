"""Properties of directory objects, PROPID: numbers, names, variant types.

See [MS-MQMQ] 2.3.
:class:`Propid` holds the properties of directory objects. Two separate enumerations hold those of local
management, which use small numbers again. The mapping table (`mqdssm.tables`) connects properties with
attributes of the abstract model.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, Self

PREFIX: Final = "PROPID_"
"""Prefix of every name in the specifications."""


class Variant(StrEnum):
    """Type of a property's value ([MS-MQMQ] 2.2.12)."""

    UI1 = "VT_UI1"
    UI2 = "VT_UI2"
    UI4 = "VT_UI4"
    UI8 = "VT_UI8"
    I1 = "VT_I1"
    I2 = "VT_I2"
    I4 = "VT_I4"
    I8 = "VT_I8"
    BOOL = "VT_BOOL"
    LPWSTR = "VT_LPWSTR"
    CLSID = "VT_CLSID"
    BLOB = "VT_BLOB"
    BYTES = "VT_VECTOR|VT_UI1"
    UI4S = "VT_VECTOR|VT_UI4"
    CLSIDS = "VT_VECTOR|VT_CLSID"
    LPWSTRS = "VT_VECTOR|VT_LPWSTR"
    VARIANTS = "VT_VECTOR|VT_VARIANT"


INTEGERS: Final[Mapping[Variant, tuple[int, int]]] = {
    Variant.UI1: (0, 2**8 - 1),
    Variant.UI2: (0, 2**16 - 1),
    Variant.UI4: (0, 2**32 - 1),
    Variant.UI8: (0, 2**64 - 1),
    Variant.I1: (-(2**7), 2**7 - 1),
    Variant.I2: (-(2**15), 2**15 - 1),
    Variant.I4: (-(2**31), 2**31 - 1),
    Variant.I8: (-(2**63), 2**63 - 1),
}
"""Smallest and largest number of each integer variant."""
BLOBS: Final = frozenset({Variant.BLOB, Variant.BYTES})
LISTS: Final = frozenset({Variant.UI4S, Variant.CLSIDS, Variant.LPWSTRS})
GUIDS: Final = frozenset({Variant.CLSID, Variant.CLSIDS})


class ObjectType(IntEnum):
    """Types of directory objects, as MQDS_QUEUE.

    See [MS-MQDS] 2.2.8 and [MC-MQDSRP] 3.1.1.4.
    """

    QUEUE = 1
    MACHINE = 2
    SITE = 3
    DELETED_OBJECT = 4  # missing in [MC-MQDSRP] 3.1.1.4 (decision R20)
    CN = 5
    ENTERPRISE = 6
    USER = 7
    ROUTING_LINK = 8

    @property
    def spec_name(self) -> str:
        """Name in the specifications: ``MQDS_ROUTINGLINK``."""
        return f"MQDS_{self.name.replace('_', '')}"


_PRIVATE: Final = 1000
"""Greater numbers belong to properties with rights of their own: type * 100 + 1000."""
_TYPES: Final[Mapping[int, ObjectType]] = {int(object_type): object_type for object_type in ObjectType}


def object_type_of(number: int) -> ObjectType | None:
    """Return the object type of a property number ([MC-MQDSRP] 3.1.1.4).

    Returns None for an unknown number.
    """
    return _TYPES.get((number - _PRIVATE if number > _PRIVATE else number) // 100)


class Propid(IntEnum):
    """Property of directory objects: its number, with `variant` and `section`.

    See [MS-MQMQ] 2.3.
    ``Propid(103)`` and ``Propid["Q_PATHNAME"]`` find a property; :func:`propid` takes any spelling of a name.
    """

    variant: Variant
    section: str

    def __new__(cls, number: int, variant: Variant, section: str) -> Self:
        """Make a member from its number, variant and section of [MS-MQMQ]."""
        prop = int.__new__(cls, number)
        prop._value_ = number
        prop.variant = variant
        prop.section = f"[MS-MQMQ] {section}"
        return prop

    # queues, MQDS_QUEUE
    Q_INSTANCE = 101, Variant.CLSID, "2.3.1.1"
    Q_TYPE = 102, Variant.CLSID, "2.3.1.2"
    Q_PATHNAME = 103, Variant.LPWSTR, "2.3.1.3"
    Q_JOURNAL = 104, Variant.UI1, "2.3.1.4"
    Q_QUOTA = 105, Variant.UI4, "2.3.1.5"
    Q_BASEPRIORITY = 106, Variant.I2, "2.3.1.6"
    Q_JOURNAL_QUOTA = 107, Variant.UI4, "2.3.1.7"
    Q_LABEL = 108, Variant.LPWSTR, "2.3.1.8"
    Q_CREATE_TIME = 109, Variant.I4, "2.3.1.9"
    Q_MODIFY_TIME = 110, Variant.I4, "2.3.1.10"
    Q_AUTHENTICATE = 111, Variant.UI1, "2.3.1.11"
    Q_PRIV_LEVEL = 112, Variant.UI4, "2.3.1.12"
    Q_TRANSACTION = 113, Variant.UI1, "2.3.1.13"
    Q_SCOPE = 114, Variant.UI1, "2.3.1.14"
    Q_QMID = 115, Variant.CLSID, "2.3.1.15"
    Q_PARTITIONID = 116, Variant.CLSID, "2.3.1.16"
    Q_SEQNUM = 117, Variant.BLOB, "2.3.1.17"
    Q_HASHKEY = 118, Variant.UI4, "2.3.1.18"
    Q_LABEL_HASHKEY = 119, Variant.UI4, "2.3.1.19"
    Q_FULL_PATH = 121, Variant.LPWSTR, "2.3.1.20"
    Q_NAME_SUFFIX = 123, Variant.LPWSTR, "2.3.1.21"
    Q_PATHNAME_DNS = 124, Variant.LPWSTR, "2.3.1.22"
    Q_MULTICAST_ADDRESS = 125, Variant.LPWSTR, "2.3.1.23"
    Q_ADS_PATH = 126, Variant.LPWSTR, "2.3.1.24"
    Q_SECURITY = 1101, Variant.BLOB, "2.3.1.25"
    Q_OBJ_SECURITY = 1102, Variant.BLOB, "2.3.1.26"
    Q_SECURITY_INFORMATION = 1103, Variant.UI4, "2.3.1.27"
    # queue managers, MQDS_MACHINE
    QM_SITE_ID = 201, Variant.CLSID, "2.3.2.1"
    QM_MACHINE_ID = 202, Variant.CLSID, "2.3.2.2"
    QM_PATHNAME = 203, Variant.LPWSTR, "2.3.2.3"
    QM_ENCRYPTION_PK = 205, Variant.BYTES, "2.3.2.4"
    QM_ADDRESS = 206, Variant.BLOB, "2.3.2.5"
    QM_CNS = 207, Variant.CLSIDS, "2.3.2.6"
    QM_OUTFRS = 208, Variant.CLSIDS, "2.3.2.7"
    QM_INFRS = 209, Variant.CLSIDS, "2.3.2.8"
    QM_SERVICE = 210, Variant.UI4, "2.3.2.9"
    QM_PARTITIONID = 211, Variant.CLSID, "2.3.2.11"
    QM_HASHKEY = 212, Variant.UI4, "2.3.2.12"
    QM_SEQNUM = 213, Variant.BLOB, "2.3.2.13"
    QM_QUOTA = 214, Variant.UI4, "2.3.2.10"
    QM_JOURNAL_QUOTA = 215, Variant.UI4, "2.3.2.14"
    QM_MACHINE_TYPE = 216, Variant.LPWSTR, "2.3.2.15"
    QM_CREATE_TIME = 217, Variant.I4, "2.3.2.16"
    QM_MODIFY_TIME = 218, Variant.I4, "2.3.2.17"
    QM_FOREIGN = 219, Variant.UI1, "2.3.2.18"
    QM_OS = 220, Variant.UI4, "2.3.2.19"
    QM_FULL_PATH = 221, Variant.LPWSTR, "2.3.2.20"
    QM_SITE_IDS = 222, Variant.CLSIDS, "2.3.2.21"
    QM_OUTFRS_DN = 223, Variant.LPWSTRS, "2.3.2.22"
    QM_INFRS_DN = 224, Variant.LPWSTRS, "2.3.2.23"
    QM_SERVICE_ROUTING = 227, Variant.UI1, "2.3.2.24"
    QM_SERVICE_DSSERVER = 228, Variant.UI1, "2.3.2.25"
    QM_SERVICE_DEPCLIENTS = 229, Variant.UI1, "2.3.2.26"
    QM_ENCRYPTION_PK_BASE = 231, Variant.BYTES, "2.3.2.27"
    QM_ENCRYPTION_PK_ENHANCED = 232, Variant.BYTES, "2.3.2.28"
    QM_PATHNAME_DNS = 233, Variant.LPWSTR, "2.3.2.29"
    QM_OBJ_SECURITY = 234, Variant.BLOB, "2.3.2.30"
    QM_SECURITY_INFORMATION = 237, Variant.UI4, "2.3.2.31"
    QM_ENCRYPT_PKS = 238, Variant.BLOB, "2.3.2.32"
    QM_SIGN_PKS = 239, Variant.BLOB, "2.3.2.33"
    QM_OWNER_SID = 241, Variant.BLOB, "2.3.2.34"
    QM_GROUP_IN_CLUSTER = 242, Variant.UI1, "2.3.2.35"
    QM_SECURITY = 1201, Variant.BLOB, "2.3.2.36"
    QM_SIGN_PK = 1202, Variant.BLOB, "2.3.2.37"
    QM_ENCRYPT_PK = 1203, Variant.BLOB, "2.3.2.38"
    QM_UPGRADE_DACL = 1205, Variant.BLOB, "2.3.2.39"
    # sites, MQDS_SITE
    S_PATHNAME = 301, Variant.LPWSTR, "2.3.3.1"
    S_SITEID = 302, Variant.CLSID, "2.3.3.2"
    S_GATES = 303, Variant.CLSIDS, "2.3.3.3"
    S_PSC = 304, Variant.LPWSTR, "2.3.3.4"
    S_INTERVAL1 = 305, Variant.UI2, "2.3.3.5"
    S_INTERVAL2 = 306, Variant.UI2, "2.3.3.6"
    S_PARTITIONID = 307, Variant.CLSID, "2.3.3.7"
    S_SEQNUM = 308, Variant.BLOB, "2.3.3.8"
    S_FULL_NAME = 309, Variant.LPWSTR, "2.3.3.9"
    S_NT4_STUB = 310, Variant.UI2, "2.3.3.10"
    S_FOREIGN = 311, Variant.UI1, "2.3.3.11"
    S_DONOTHING = 312, Variant.UI1, "2.3.3.12"
    S_SECURITY = 1301, Variant.BLOB, "2.3.3.13"
    S_PSC_SIGNPK = 1302, Variant.BLOB, "2.3.3.14"
    S_SECURITY_INFORMATION = 1303, Variant.UI4, "2.3.3.15"
    # connected networks, MQDS_CN
    CN_PROTOCOLID = 501, Variant.UI1, "2.3.4.1"
    CN_NAME = 502, Variant.LPWSTR, "2.3.4.2"
    CN_GUID = 503, Variant.CLSID, "2.3.4.3"
    CN_PARTITIONID = 504, Variant.CLSID, "2.3.4.4"
    CN_SEQNUM = 505, Variant.BLOB, "2.3.4.5"
    CN_SECURITY = 1501, Variant.BLOB, "2.3.4.6"
    # the enterprise, MQDS_ENTERPRISE
    E_NAME = 601, Variant.LPWSTR, "2.3.5.1"
    E_NAMESTYLE = 602, Variant.UI1, "2.3.5.2"
    E_CSP_NAME = 603, Variant.LPWSTR, "2.3.5.3"
    E_PECNAME = 604, Variant.LPWSTR, "2.3.5.4"
    E_S_INTERVAL1 = 605, Variant.UI2, "2.3.5.5"
    E_S_INTERVAL2 = 606, Variant.UI2, "2.3.5.6"
    E_PARTITIONID = 607, Variant.CLSID, "2.3.5.7"
    E_SEQNUM = 608, Variant.BLOB, "2.3.5.8"
    E_ID = 609, Variant.CLSID, "2.3.5.9"
    E_CRL = 610, Variant.BLOB, "2.3.5.10"
    E_CSP_TYPE = 611, Variant.UI4, "2.3.5.11"
    E_ENCRYPT_ALG = 612, Variant.UI4, "2.3.5.12"
    E_SIGN_ALG = 613, Variant.UI4, "2.3.5.13"
    E_HASH_ALG = 614, Variant.UI4, "2.3.5.14"
    E_CIPHER_MODE = 615, Variant.UI4, "2.3.5.18"
    E_LONG_LIVE = 616, Variant.UI4, "2.3.5.15"
    E_VERSION = 617, Variant.UI2, "2.3.5.16"
    E_SECURITY = 1601, Variant.BLOB, "2.3.5.17"
    # users, MQDS_USER
    U_SID = 701, Variant.BLOB, "2.3.6.1"
    U_SIGN_CERT = 702, Variant.BLOB, "2.3.6.4"
    U_PARTITIONID = 703, Variant.CLSID, "2.3.6.2"
    U_SEQNUM = 704, Variant.BLOB, "2.3.6.3"
    U_DIGEST = 705, Variant.CLSIDS, "2.3.6.5"
    U_ID = 706, Variant.CLSID, "2.3.6.6"
    # routing links, MQDS_ROUTINGLINK
    L_NEIGHBOR1 = 801, Variant.CLSID, "2.3.7.1"
    L_NEIGHBOR2 = 802, Variant.CLSID, "2.3.7.2"
    L_COST = 803, Variant.UI4, "2.3.7.3"
    L_PARTITIONID = 804, Variant.CLSID, "2.3.7.4"
    L_SEQNUM = 805, Variant.BLOB, "2.3.7.5"
    L_ID = 806, Variant.CLSID, "2.3.7.6"
    L_GATES_DN = 807, Variant.LPWSTRS, "2.3.7.7"
    L_NEIGHBOR1_DN = 808, Variant.LPWSTR, "2.3.7.8"
    L_NEIGHBOR2_DN = 809, Variant.LPWSTR, "2.3.7.9"
    L_DESCRIPTION = 810, Variant.LPWSTR, "2.3.7.10"
    L_FULL_PATH = 811, Variant.LPWSTR, "2.3.7.11"
    L_ACTUAL_COST = 812, Variant.UI4, "2.3.7.12"
    L_GATES = 813, Variant.CLSIDS, "2.3.7.13"
    # deleted objects, MQDS_DELETEDOBJECT
    D_SEQNUM = 1401, Variant.BLOB, "2.3.13.1"
    D_PARTITIONID = 1402, Variant.CLSID, "2.3.13.2"
    D_SCOPE = 1403, Variant.UI1, "2.3.13.3"
    D_OBJTYPE = 1404, Variant.UI1, "2.3.13.4"
    D_IDENTIFIER = 1405, Variant.CLSID, "2.3.13.5"
    # settings objects, in Active Directory only
    SET_NAME = 5101, Variant.LPWSTR, "2.3.8.1"
    SET_SERVICE = 5102, Variant.UI4, "2.3.8.2"
    SET_QM_ID = 5103, Variant.CLSID, "2.3.8.3"
    SET_FULL_PATH = 5105, Variant.LPWSTR, "2.3.8.4"
    SET_NT4 = 5106, Variant.UI1, "2.3.8.5"
    SET_PARTITIONID = 5107, Variant.CLSID, "2.3.8.6"
    SET_SITENAME = 5108, Variant.LPWSTR, "2.3.8.7"
    SET_SERVICE_ROUTING = 5109, Variant.UI1, "2.3.8.8"
    SET_SERVICE_DSSERVER = 5110, Variant.UI1, "2.3.8.9"
    SET_SERVICE_DEPCLIENTS = 5111, Variant.UI1, "2.3.8.10"
    SET_OLDSERVICE = 5112, Variant.UI4, "2.3.8.11"
    # users that were migrated, in Active Directory only
    MQU_SID = 5401, Variant.BLOB, "2.3.9.1"
    MQU_SIGN_CERT = 5402, Variant.BLOB, "2.3.9.2"
    MQU_DIGEST = 5405, Variant.CLSIDS, "2.3.9.3"
    MQU_ID = 5406, Variant.CLSID, "2.3.9.4"
    MQU_SECURITY = 5407, Variant.BLOB, "2.3.9.5"
    # computers, in Active Directory only
    COM_FULL_PATH = 5201, Variant.LPWSTR, "2.3.10.1"
    COM_SAM_ACCOUNT = 5202, Variant.LPWSTR, "2.3.10.2"
    COM_ACCOUNT_CONTROL = 5204, Variant.UI4, "2.3.10.3"
    COM_DNS_HOSTNAME = 5205, Variant.LPWSTR, "2.3.10.4"
    COM_SID = 5206, Variant.BLOB, "2.3.10.5"
    COM_SIGN_CERT = 5207, Variant.BLOB, "2.3.10.6"
    COM_DIGEST = 5208, Variant.CLSIDS, "2.3.10.7"
    COM_ID = 5209, Variant.CLSID, "2.3.10.8"
    # named in [MC-MQDSRP] 3.1.7.2.8 and defined nowhere (decision R20)
    Q_ID = Q_INSTANCE
    QM_ID = QM_MACHINE_ID
    S_ID = S_SITEID
    CN_ID = CN_GUID

    @property
    def spec_name(self) -> str:
        """Name in the specifications: ``PROPID_Q_PATHNAME``."""
        return PREFIX + self.name

    @property
    def object_type(self) -> ObjectType | None:
        """Type of the objects that have the property.

        The type is None if only Active Directory has such objects.
        """
        return object_type_of(self)


def propid(name: str) -> Propid:
    """Find a property by its name, in any case, with or without ``PROPID_``.

    Raises:
        ValueError: an unknown name.
    """
    member = Propid.__members__.get(name.upper().removeprefix(PREFIX))
    if member is None:
        raise ValueError(f"{name!r} is no property of directory objects")
    return member


PROPIDS: Final[Mapping[int, Propid]] = {int(member): member for member in Propid}
"""Every property of directory objects by its number."""
