"""Names of SIDs that are known without a directory ([MS-DTYP] 2.4.2.4)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqdssm.wire.sid import WELL_KNOWN, Sid

OWNER_RIGHTS: Final = Sid("S-1-3-4")
"""Entries for it replace the rights that an owner has without an entry."""
WELL_KNOWN_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{sid.text: name.replace("_", " ").title() for name, sid in WELL_KNOWN.items()},
        OWNER_RIGHTS.text: "Owner Rights",
        "S-1-5-1": "Dialup",
        "S-1-5-2": "Network",
        "S-1-5-3": "Batch",
        "S-1-5-4": "Interactive",
        "S-1-5-6": "Service",
        "S-1-5-12": "Restricted Code",
        "S-1-5-13": "Terminal Server Users",
        "S-1-5-14": "Remote Interactive Logon",
        "S-1-5-15": "This Organization",
        "S-1-5-32-547": "Builtin Power Users",
        "S-1-5-32-548": "Builtin Account Operators",
        "S-1-5-32-549": "Builtin Server Operators",
        "S-1-5-32-550": "Builtin Print Operators",
        "S-1-5-32-551": "Builtin Backup Operators",
        "S-1-5-32-552": "Builtin Replicator",
        "S-1-5-32-554": "Builtin Pre-Windows 2000 Compatible Access",
        "S-1-5-32-555": "Builtin Remote Desktop Users",
        "S-1-5-32-556": "Builtin Network Configuration Operators",
        "S-1-5-32-560": "Builtin Windows Authorization Access Group",
    }
)
"""Accounts with one SID in every domain."""
DOMAIN_ACCOUNTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        500: "Administrator",
        501: "Guest",
        502: "krbtgt",
        512: "Domain Admins",
        513: "Domain Users",
        514: "Domain Guests",
        515: "Domain Computers",
        516: "Domain Controllers",
        517: "Cert Publishers",
        518: "Schema Admins",
        519: "Enterprise Admins",
        520: "Group Policy Creator Owners",
    }
)
"""Accounts that every domain has, by their relative identifiers ([MS-DTYP] 2.4.2.4)."""


def find_known_name(sid: str) -> str:
    """Return the name of a well-known SID or domain account; empty for any other SID."""
    name = WELL_KNOWN_NAMES.get(sid)
    if name is not None:
        return name
    try:
        parsed = Sid(sid)
    except ValueError:
        return ""
    return DOMAIN_ACCOUNTS.get(parsed.rid, "") if parsed.domain is not None else ""
