"""Results of directory operations ([MS-MQDMPR] 3.1.1.17)."""

from enum import Enum


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
