"""Access masks: generic, standard and MSMQ's specific rights.

MSMQ gives the lower bits their meaning.

[MS-DTYP] 2.4.3 and [MS-MQMQ] 2.2.23 to 2.2.27. On Active Directory the lower bits have other meanings
(bit 0x20 is *write property* there): do not write these masks there without translation (decision M31).
"""

from enum import IntFlag
from typing import Final

DELETE: Final = 0x0001_0000
READ_CONTROL: Final = 0x0002_0000
WRITE_DAC: Final = 0x0004_0000
WRITE_OWNER: Final = 0x0008_0000
SYNCHRONIZE: Final = 0x0010_0000
GENERIC_ALL: Final = 0x1000_0000
GENERIC_EXECUTE: Final = 0x2000_0000
GENERIC_WRITE: Final = 0x4000_0000  # the text of [MS-DTYP] 2.4.3 prints one zero less; its diagram does not
GENERIC_READ: Final = 0x8000_0000

GENERIC_BITS: Final = GENERIC_ALL | GENERIC_EXECUTE | GENERIC_WRITE | GENERIC_READ
ACCESS_MASK_MAX: Final = 0xFFFF_FFFF


class MachineAccess(IntFlag):
    """Rights on a queue manager, MQQMACCESSMASK ([MS-MQMQ] 2.2.23).

    The names are without the prefix ``MQSEC_``.
    """

    DELETE_DEADLETTER_MESSAGE = 0x1
    PEEK_DEADLETTER_MESSAGE = 0x2
    CREATE_QUEUE = 0x4
    SET_MACHINE_PROPERTIES = 0x10
    GET_MACHINE_PROPERTIES = 0x20
    DELETE_JOURNAL_QUEUE_MESSAGE = 0x40
    PEEK_JOURNAL_QUEUE_MESSAGE = 0x80
    DELETE_MACHINE = 0x1_0000
    GET_MACHINE_PERMISSIONS = 0x2_0000
    CHANGE_MACHINE_PERMISSIONS = 0x4_0000
    TAKE_MACHINE_OWNERSHIP = 0x8_0000

    RECEIVE_DEADLETTER_MESSAGE = 0x3
    RECEIVE_JOURNAL_QUEUE_MESSAGE = 0xC0
    WORLD_RIGHTS = 0x2_0020
    GENERIC_READ = 0x2_00E3
    GENERIC_WRITE = 0x2_0024
    GENERIC_ALL = 0xF_00F7


class QueueAccess(IntFlag):
    """Rights on a queue, MQQUEUEACCESSMASK ([MS-MQMQ] 2.2.24).

    The names are without the prefix ``MQSEC_``.
    """

    DELETE_MESSAGE = 0x1
    PEEK_MESSAGE = 0x2
    WRITE_MESSAGE = 0x4
    DELETE_JOURNAL_MESSAGE = 0x8
    SET_QUEUE_PROPERTIES = 0x10
    GET_QUEUE_PROPERTIES = 0x20
    DELETE_QUEUE = 0x1_0000
    GET_QUEUE_PERMISSIONS = 0x2_0000
    CHANGE_QUEUE_PERMISSIONS = 0x4_0000
    TAKE_QUEUE_OWNERSHIP = 0x8_0000

    RECEIVE_MESSAGE = 0x3
    RECEIVE_JOURNAL_MESSAGE = 0xA
    GENERIC_READ = 0x2_002B
    GENERIC_WRITE = 0x2_0024
    GENERIC_ALL = 0xF_003F


class SiteAccess(IntFlag):
    """Rights on a site, MQSITEACCESSMASK ([MS-MQMQ] 2.2.25).

    The names are without the prefix ``MQSEC_``.
    """

    CREATE_FRS = 0x1
    CREATE_BSC = 0x2
    CREATE_MACHINE = 0x4
    SET_SITE_PROPERTIES = 0x10
    GET_SITE_PROPERTIES = 0x20
    DELETE_SITE = 0x1_0000
    GET_SITE_PERMISSIONS = 0x2_0000
    CHANGE_SITE_PERMISSIONS = 0x4_0000
    TAKE_SITE_OWNERSHIP = 0x8_0000

    GENERIC_READ = 0x2_0020
    GENERIC_WRITE = 0x2_0024
    GENERIC_ALL = 0xF_0037


class EnterpriseAccess(IntFlag):
    """Rights on the enterprise, MQENTACCESSMASK ([MS-MQMQ] 2.2.26).

    The names are without the prefix ``MQSEC_``.
    """

    CREATE_USER = 0x1
    CREATE_SITE = 0x2
    CREATE_CN = 0x4
    SET_ENTERPRISE_PROPERTIES = 0x10
    GET_ENTERPRISE_PROPERTIES = 0x20
    DELETE_ENTERPRISE = 0x1_0000
    GET_ENTERPRISE_PERMISSIONS = 0x2_0000
    CHANGE_ENTERPRISE_PERMISSIONS = 0x4_0000
    TAKE_ENTERPRISE_OWNERSHIP = 0x8_0000

    GENERIC_READ = 0x2_0021
    GENERIC_WRITE = 0x2_0027
    GENERIC_ALL = 0xF_0037


class ConnectedNetworkAccess(IntFlag):
    """Rights on a connected network, MQCNACCESSMASK ([MS-MQMQ] 2.2.27).

    The names are without the prefix ``MQSEC_``.
    """

    OPEN_CONNECTOR = 0x1
    SET_CN_PROPERTIES = 0x10
    GET_CN_PROPERTIES = 0x20
    DELETE_CN = 0x1_0000
    GET_CN_PERMISSIONS = 0x2_0000
    CHANGE_CN_PERMISSIONS = 0x4_0000
    TAKE_CN_OWNERSHIP = 0x8_0000

    GENERIC_READ = 0x2_0020
    GENERIC_ALL = 0xF_0031


MQSEC_MACHINE_WORLD_RIGHTS: Final = MachineAccess.WORLD_RIGHTS
MQSEC_MACHINE_GENERIC_READ: Final = MachineAccess.GENERIC_READ
MQSEC_MACHINE_GENERIC_WRITE: Final = MachineAccess.GENERIC_WRITE
MQSEC_MACHINE_GENERIC_ALL: Final = MachineAccess.GENERIC_ALL
MQSEC_QUEUE_GENERIC_READ: Final = QueueAccess.GENERIC_READ
MQSEC_QUEUE_GENERIC_WRITE: Final = QueueAccess.GENERIC_WRITE
MQSEC_QUEUE_GENERIC_ALL: Final = QueueAccess.GENERIC_ALL
MQSEC_SITE_GENERIC_READ: Final = SiteAccess.GENERIC_READ
MQSEC_SITE_GENERIC_WRITE: Final = SiteAccess.GENERIC_WRITE
MQSEC_SITE_GENERIC_ALL: Final = SiteAccess.GENERIC_ALL
MQSEC_ENTERPRISE_GENERIC_READ: Final = EnterpriseAccess.GENERIC_READ
MQSEC_ENTERPRISE_GENERIC_WRITE: Final = EnterpriseAccess.GENERIC_WRITE
MQSEC_ENTERPRISE_GENERIC_ALL: Final = EnterpriseAccess.GENERIC_ALL
MQSEC_CN_GENERIC_READ: Final = ConnectedNetworkAccess.GENERIC_READ
MQSEC_CN_GENERIC_ALL: Final = ConnectedNetworkAccess.GENERIC_ALL


def map_generic(mask: int, kind: type[IntFlag]) -> int:
    """Replace the generic bits of a mask by an object kind's specific rights.

    A generic right that [MS-MQMQ] does not define for the kind (execute; write on a connected network) grants
    nothing and is dropped.

    Args:
        mask: 32-bit access mask ([MS-DTYP] 2.4.3).
        kind: the kind's class in this module, as `QueueAccess`.

    Returns:
        The mask without generic bits.
    """
    mapped = mask & ~GENERIC_BITS
    for bit, name in (
        (GENERIC_READ, "GENERIC_READ"),
        (GENERIC_WRITE, "GENERIC_WRITE"),
        (GENERIC_ALL, "GENERIC_ALL"),
    ):
        if mask & bit and name in kind.__members__:
            mapped |= kind[name].value
    return mapped


class DescriptorControl(IntFlag):
    """Flags of a security descriptor, the Control field ([MS-DTYP] 2.4.6)."""

    OWNER_DEFAULTED = 0x0001
    GROUP_DEFAULTED = 0x0002
    DACL_PRESENT = 0x0004
    DACL_DEFAULTED = 0x0008
    SACL_PRESENT = 0x0010
    SACL_DEFAULTED = 0x0020
    DACL_TRUSTED = 0x0040
    SERVER_SECURITY = 0x0080
    DACL_AUTO_INHERIT_REQUIRED = 0x0100
    SACL_AUTO_INHERIT_REQUIRED = 0x0200
    DACL_AUTO_INHERITED = 0x0400
    SACL_AUTO_INHERITED = 0x0800
    DACL_PROTECTED = 0x1000
    SACL_PROTECTED = 0x2000
    RM_CONTROL_VALID = 0x4000
    SELF_RELATIVE = 0x8000
