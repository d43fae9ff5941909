"""Meanings of domain controllers' errors, with hints.

Texts of these errors begin with a Windows error code in hexadecimal, as ``000020B5: AtrErr: DSID-...``
([MS-ERREF] 2.2).
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from mqdssm.errors import DirectoryError, GenericDirectoryError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.tables import rights
from mqdssm.tables.ldap_results import ATTRIBUTE_OR_VALUE_EXISTS, NO_SUCH_ATTRIBUTE

if TYPE_CHECKING:
    from mqdssm.directory.responses import LdapResult


CONSTRAINT_VIOLATION: Final = 19
INSUFFICIENT_ACCESS: Final = 50
SINGLE_VALUE_CONSTRAINT: Final = 0x2081
"""ERROR_DS_SINGLE_VALUE_CONSTRAINT ([MS-ERREF] 2.2)."""


class _Meaning(NamedTuple):
    words: str
    hint: str
    kind: type[DirectoryError] = GenericDirectoryError


_NUMBER: Final = re.compile(r"([0-9A-Fa-f]{8})(?::|\b)")

_NOBODY: Final = _Meaning(
    "the domain controller answers nobody who has not logged in",
    "give user and password, or authentication='kerberos' with a ticket",
)

_WINDOWS: Final[Mapping[int, _Meaning]] = {
    0x20B5: _Meaning(
        "it names an object that does not exist",
        "sites and queue managers must exist before something refers to them",
    ),
    0x4DC: _NOBODY,
    0x2020: _NOBODY,  # from Samba
    0x2015: _Meaning("it still has objects below it", "delete these first"),
    0x2099: _Meaning(
        "such an object may not stand in this place",
        "queues go below CN=msmq of a computer, sites below CN=Sites of the configuration",
    ),
    0x51B: _Meaning(
        "this user may not make that account the owner",
        "only itself, or Administrators for their members: leave the owner out of Security",
    ),
}

_RESULTS: Final[Mapping[int, _Meaning]] = {
    10: _Meaning(
        "the object belongs to another domain, which this domain controller does not hold",
        "connect to a domain controller of that domain, or say naming_context=; referrals are never followed",
        ObjectNotFound,
    ),
    64: _Meaning(
        "such an object may not stand in this place",
        "queues go below CN=msmq of a computer, sites below CN=Sites of the configuration",
    ),
}


def find_windows_code(text: str) -> int | None:
    """Return the Windows error code at the start of a server's text.

    None if there is none.
    """
    match = _NUMBER.match(text)
    return int(match.group(1), 16) if match else None


def is_other_value(result: "LdapResult") -> bool:
    """Return True if a change met other values than it expected.

    A deleted value was absent, or a second value was added to a single-valued attribute.
    """
    if result.code == CONSTRAINT_VIOLATION:
        return find_windows_code(result.text) == SINGLE_VALUE_CONSTRAINT
    return result.code in {NO_SUCH_ATTRIBUTE, ATTRIBUTE_OR_VALUE_EXISTS}


def explain(result: "LdapResult", operation: str, dn: str | None) -> DirectoryError | None:
    """Return the error for a result that a domain controller explains.

    None for any other result.
    """
    code, text = result.code, result.text
    if (
        code == INSUFFICIENT_ACCESS
        and dn is not None
        and (right := rights.describe_missing_right(operation, dn, text))
    ):
        return GenericDirectoryError(
            f"{operation} failed: insufficientAccessRights",
            dn=dn,
            ldap_code=code,
            server_text=text,
            hint=f"this user has no right to do that: it needs {right}",
        )
    meaning = (
        _find_special_meaning(result, operation)
        or _WINDOWS.get(find_windows_code(text) or -1)
        or _RESULTS.get(code)
    )
    if meaning is None:
        return None
    return meaning.kind(
        f"{operation} failed: {meaning.words}", dn=dn, ldap_code=code, server_text=text, hint=meaning.hint
    )


def _find_special_meaning(result: "LdapResult", operation: str) -> _Meaning | None:
    text = result.text.lower()
    if result.code == 53 and "global catalog" in text:
        return _Meaning("a global catalog takes no changes", "use port 389 or 636 instead of 3268 or 3269")
    if result.code == 53 and "objectguid" in text:
        return _Meaning("this directory makes objectGUIDs itself", "leave it out")
    if result.code == 19 and operation == "add" and "objectguid" in text:
        return _Meaning(
            "another object has, or had, the same objectGUID",
            "deleted objects keep theirs until they are gone for good",
            ObjectAlreadyExists,
        )
    if result.code == 19 and find_windows_code(result.text) == 0x51B:
        return _WINDOWS[0x51B]
    return None
