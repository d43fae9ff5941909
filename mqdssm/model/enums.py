"""Enumerations of the abstract data model, with their numbers or names.

See [MS-MQMQ] 2.3 and [MS-MQDSSM] 3.1.6.
"""

from enum import Enum, IntEnum


class PrivacyLevel(IntEnum):
    """Messages that a queue accepts, by encryption of the body.

    See [MS-MQDSSM] 3.1.6.1.2.4.
    """

    NONE = 0
    OPTIONAL = 1
    BODY = 2

    # the specification's spellings, as aliases
    Optional = 1
    Body = 2


class OperatingSystemType(IntEnum):
    """Operating system of a queue manager ([MS-MQDSSM] 3.1.6.1.1.4).

    Decision M25 has the spellings.
    """

    OTHER = 0x000
    FOREIGN = 0x100
    WIN95 = 0x200
    WIN_CLIENT = 0x300
    WIN_SERVER = 0x400
    WIN_ENT = 0x500

    # the specification's spellings, as aliases
    Other = 0x000
    Unknown = 0x000
    Foreign = 0x100
    Win95 = 0x200
    WinClient = 0x300
    WinServer = 0x400
    WinEnt = 0x500


class DirectoryServerType(IntEnum):
    """Role of a directory server ([MS-MQDSSM] 3.1.6.1.1.5).

    The number is its bit in mSMQServiceType.
    """

    STANDALONE = 0
    BACKUP_SITE_CONTROLLER = 2
    PRIMARY_SITE_CONTROLLER = 4
    PRIMARY_ENTERPRISE_CONTROLLER = 8

    # the specification's spellings, as aliases
    Standalone = 0
    BackupSiteController = 2
    PrimarySiteController = 4
    PrimaryEnterpriseController = 8


class DirectoryOperationResult(Enum):
    """Result of a directory operation ([MS-MQDMPR] 3.1.1.17, [MS-MQDSSM] 2.2).

    The value is the specification's own name; it is also an alias of the member.
    """

    SUCCESS = "Success"
    GENERIC_ERROR = "GenericError"
    DIRECTORY_NOT_CONNECTED = "DirectoryNotConnected"
    OBJECT_NOT_FOUND = "ObjectNotFound"
    ATTRIBUTE_NOT_FOUND = "AttributeNotFound"
    END_OF_DATA = "EndOfData"
    OBJECT_ALREADY_EXISTS = "ObjectAlreadyExists"

    # the specification's spellings, as aliases
    Success = "Success"
    GenericError = "GenericError"
    DirectoryNotConnected = "DirectoryNotConnected"
    ObjectNotFound = "ObjectNotFound"
    AttributeNotFound = "AttributeNotFound"
    EndOfData = "EndOfData"
    ObjectAlreadyExists = "ObjectAlreadyExists"
