"""Reasons for refused log-ins in texts of domain controllers, as ``data 52e`` ([MS-ERREF] 2.2)."""

import re
from collections.abc import Mapping
from typing import Final

_DATA: Final = re.compile(r"\bdata ([0-9A-Fa-f]{1,8})\b")

_CHECK_BOTH: Final = (
    "servers do not tell which of the two: check the user's name (user@domain, DOMAIN\\user or, "
    "in a simple bind, a DN) and the password"
)

LOG_IN: Final[Mapping[int, tuple[str, str]]] = {
    0x525: ("there is no such user", "check the name: user@domain, DOMAIN\\user or a DN"),
    0x52E: (
        "unknown user or wrong password",
        _CHECK_BOTH,
    ),
    0x490: (
        "unknown user or wrong password",
        _CHECK_BOTH,
    ),
    0x52F: ("the account is restricted", "may it log in here, and with a password?"),
    0x530: ("the account may not log in at this hour", "see the account's log-on hours"),
    0x531: ("the account may not log in from this machine", "see the account's workstations"),
    0x532: ("the password has expired", "set a new one"),
    0x533: ("the account is disabled", "an administrator of the domain can enable it"),
    0x568: ("the account is in too many groups", "an administrator of the domain can remove it from some"),
    0x57: (
        "the log-in had no protection that the server requires",
        "sign and seal (authentication='spnego'), or use LDAPS",
    ),
    0x701: ("the account has expired", "an administrator of the domain can prolong it"),
    0x773: ("the password must be changed before the first log-in", "set a new one"),
    0x775: (
        "the account is locked",
        "wait until it opens again or have it unlocked, then check the password",
    ),
    0x80090346: (
        "the channel binding was missing or wrong",
        "use LDAPS directly, with nothing in between that ends TLS",
    ),
}
"""Reasons and hints by Windows error ([MS-ADTS] 3.1.1.3.1.9)."""


def log_in_failure(text: str) -> tuple[str, str] | None:
    """Return the reason for a refused log-in and a hint, from the server's text; None if unknown."""
    found = _DATA.search(text)
    return LOG_IN.get(int(found.group(1), 16)) if found else None
