"""LDAP result codes: their names, and their meaning in [MS-MQDSSM] (2.2.6)."""

from collections.abc import Mapping
from typing import Final

from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryOperationResult

SUCCESS: Final = 0
NO_SUCH_ATTRIBUTE: Final = 16
ATTRIBUTE_OR_VALUE_EXISTS: Final = 20
NO_SUCH_OBJECT: Final = 32
ENTRY_ALREADY_EXISTS: Final = 68
ASSERTION_FAILED: Final = 122

_RESULTS: Final[Mapping[int, DirectoryOperationResult]] = {
    SUCCESS: DirectoryOperationResult.SUCCESS,
    NO_SUCH_ATTRIBUTE: DirectoryOperationResult.ATTRIBUTE_NOT_FOUND,
    NO_SUCH_OBJECT: DirectoryOperationResult.OBJECT_NOT_FOUND,
    ENTRY_ALREADY_EXISTS: DirectoryOperationResult.OBJECT_ALREADY_EXISTS,
}

NAMES: Final[Mapping[int, str]] = {
    0: "success",
    1: "operationsError",
    2: "protocolError",
    3: "timeLimitExceeded",
    4: "sizeLimitExceeded",
    5: "compareFalse",
    6: "compareTrue",
    7: "authMethodNotSupported",
    8: "strongerAuthRequired",
    10: "referral",
    11: "adminLimitExceeded",
    12: "unavailableCriticalExtension",
    13: "confidentialityRequired",
    14: "saslBindInProgress",
    16: "noSuchAttribute",
    17: "undefinedAttributeType",
    18: "inappropriateMatching",
    19: "constraintViolation",
    20: "attributeOrValueExists",
    21: "invalidAttributeSyntax",
    32: "noSuchObject",
    33: "aliasProblem",
    34: "invalidDNSyntax",
    36: "aliasDereferencingProblem",
    48: "inappropriateAuthentication",
    49: "invalidCredentials",
    50: "insufficientAccessRights",
    51: "busy",
    52: "unavailable",
    53: "unwillingToPerform",
    54: "loopDetect",
    64: "namingViolation",
    65: "objectClassViolation",
    66: "notAllowedOnNonLeaf",
    67: "notAllowedOnRDN",
    68: "entryAlreadyExists",
    69: "objectClassModsProhibited",
    71: "affectsMultipleDSAs",
    80: "other",
    118: "canceled",
    119: "noSuchOperation",
    120: "tooLate",
    121: "cannotCancel",
    122: "assertionFailed",
    123: "authorizationDenied",
    4096: "syncRefreshRequired",
}
"""Names of result codes (RFC 4511 4.1.9, RFC 3909, 4370, 4528, 4533)."""

ADMIN_LIMIT_EXCEEDED: Final = 11
OTHER: Final = 80
_FULL_TEXTS: Final = frozenset(
    {
        "entry store failed",
        "entry update failed",
        "entry delete failed",
        "entry index delete failed",
        "entryCSN index update failed",
        "index generation failed",
        "DN index add failed",
        "DN index delete failed",
        "txn_commit failed",
        "commit failed",  # of a deletion
    }
)
"""Texts of slapd's back-mdb, by step, when `maxsize` of its database does not admit a write."""
_TOO_BIG: Final = "too big"  # only this entry does not fit


RDN_VALUE_BYTES_MAX: Final = 242
"""UTF-8 bytes that slapd admits in the value of an RDN (LMDB's key has 511 bytes)."""


def count_rdn_bytes(dn: str) -> int:
    """Count the UTF-8 bytes in the value of a DN's first RDN; 0 for no DN."""
    try:
        return len(DN.parse(dn).name.encode())
    except ValueError:
        return 0


def is_name_too_long(code: int | None, text: str, dn: str | None) -> bool:
    """Return True if the name of an entry is too long, which slapd does not say."""
    return code == OTHER and not text and dn is not None and count_rdn_bytes(dn) > RDN_VALUE_BYTES_MAX


def is_full(code: int | None, text: str, dn: str | None) -> bool:
    """Return True if a server refuses a write because its database is full.

    The error is `MQ_ERROR_DS_IS_FULL`. Where the index of names has no room for a new entry, slapd's
    back-mdb answers without a text, as it does to a name that is too long.

    Args:
        code: the resultCode of a write.
        text: its diagnosticMessage.
        dn: the object that was written.
    """
    if code == ADMIN_LIMIT_EXCEEDED:
        return _TOO_BIG not in text
    if code != OTHER:
        return False
    if not text:
        return dn is not None and 0 < count_rdn_bytes(dn) <= RDN_VALUE_BYTES_MAX
    return text in _FULL_TEXTS or "MDB_MAP_FULL" in text


def result_of(code: int) -> DirectoryOperationResult:
    """Return the DirectoryOperationResult of an LDAP result code ([MS-MQDSSM] 2.2.6).

    Args:
        code: the resultCode of an LDAPResult.

    Returns:
        GenericError for every code that the specification does not list.
    """
    return _RESULTS.get(code, DirectoryOperationResult.GENERIC_ERROR)


def name_of(code: int) -> str:
    """Return the name of an LDAP result code, as ``noSuchObject``.

    An unknown code is returned as ``result 12345``.
    """
    return NAMES.get(code, f"result {code}")
