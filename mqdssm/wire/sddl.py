"""Security descriptors as text, SDDL ([MS-DTYP] 2.5.1).

Every descriptor has a text form. The grammar lacks entries of unknown types, conditions and flags without a
name. These parts are written in hexadecimal, in their place and behind a `#`; only this module reads them.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from mqdssm.wire.acl import Ace, AceFlags, AceType, Acl
from mqdssm.wire.masks import ACCESS_MASK_MAX, DescriptorControl
from mqdssm.wire.sid import Sid

SDDL_CHARS_MAX: Final = 2**20  # ours: the largest binary descriptor takes less than half of it
NO_ACCESS_CONTROL: Final = "NO_ACCESS_CONTROL"


class RightsStyle(Enum):
    """Form of access masks in SDDL."""

    NAMES = "names"
    """Two letters for each right of Active Directory, if every bit has them; else hexadecimal."""
    HEX = "hex"
    """Always hexadecimal: MSMQ's own masks ([MS-MQMQ] 2.2.23 to 2.2.27) have other meanings."""


class SddlParts(NamedTuple):
    """Parts of an SDDL text: Control bits and four parts.

    A part is None if it is absent. If a part is NULL, its present bit is set.
    """

    control: int
    owner: Sid | None
    group: Sid | None
    sacl: Acl | None
    dacl: Acl | None


WELL_KNOWN_ALIASES: Final[Mapping[str, Sid]] = {
    alias: Sid(text)
    for alias, text in {
        "AA": "S-1-5-32-579",
        "AC": "S-1-15-2-1",
        "AN": "S-1-5-7",
        "AO": "S-1-5-32-548",
        "AS": "S-1-18-1",
        "AU": "S-1-5-11",
        "BA": "S-1-5-32-544",
        "BG": "S-1-5-32-546",
        "BO": "S-1-5-32-551",
        "BU": "S-1-5-32-545",
        "CD": "S-1-5-32-574",
        "CG": "S-1-3-1",
        "CO": "S-1-3-0",
        "CY": "S-1-5-32-569",
        "ED": "S-1-5-9",
        "ER": "S-1-5-32-573",
        "ES": "S-1-5-32-576",
        "HA": "S-1-5-32-578",
        "HI": "S-1-16-12288",
        "IS": "S-1-5-32-568",
        "IU": "S-1-5-4",
        "LS": "S-1-5-19",
        "LU": "S-1-5-32-559",
        "LW": "S-1-16-4096",
        "ME": "S-1-16-8192",
        "MP": "S-1-16-8448",
        "MS": "S-1-5-32-577",
        "MU": "S-1-5-32-558",
        "NO": "S-1-5-32-556",
        "NS": "S-1-5-20",
        "NU": "S-1-5-2",
        "OW": "S-1-3-4",
        "PO": "S-1-5-32-550",
        "PS": "S-1-5-10",
        "PU": "S-1-5-32-547",
        "RA": "S-1-5-32-575",
        "RC": "S-1-5-12",
        "RD": "S-1-5-32-555",
        "RE": "S-1-5-32-552",
        "RM": "S-1-5-32-580",
        "RU": "S-1-5-32-554",
        "SI": "S-1-16-16384",
        "SO": "S-1-5-32-549",
        "SS": "S-1-18-2",
        "SU": "S-1-5-6",
        "SY": "S-1-5-18",
        "UD": "S-1-5-84-0-0-0-0-0",
        "WD": "S-1-1-0",
        "WR": "S-1-5-33",
    }.items()
}
"""Aliases of SIDs that are the same in every domain ([MS-DTYP] 2.5.1.1)."""

DOMAIN_ALIASES: Final[Mapping[str, int]] = {
    "AP": 525,
    "CA": 517,
    "CN": 522,
    "DA": 512,
    "DC": 515,
    "DD": 516,
    "DG": 514,
    "DU": 513,
    "EA": 519,
    "EK": 527,
    "KA": 526,
    "LA": 500,
    "LG": 501,
    "PA": 520,
    "RO": 498,
    "RS": 553,
    "SA": 518,
}
"""Aliases of a domain's accounts by their relative identifiers ([MS-DTYP] 2.5.1.1)."""

_ALIAS_OF: Final = {sid: alias for alias, sid in WELL_KNOWN_ALIASES.items()}
_ALIAS_OF_RID: Final = {rid: alias for alias, rid in DOMAIN_ALIASES.items()}

_TYPES: Final[Mapping[str, int]] = {
    "A": AceType.ACCESS_ALLOWED,
    "D": AceType.ACCESS_DENIED,
    "AU": AceType.SYSTEM_AUDIT,
    "AL": AceType.SYSTEM_ALARM,
    "OA": AceType.ACCESS_ALLOWED_OBJECT,
    "OD": AceType.ACCESS_DENIED_OBJECT,
    "OU": AceType.SYSTEM_AUDIT_OBJECT,
    "OL": AceType.SYSTEM_ALARM_OBJECT,
    "XA": AceType.ACCESS_ALLOWED_CALLBACK,
    "XD": AceType.ACCESS_DENIED_CALLBACK,
    "XU": AceType.SYSTEM_AUDIT_CALLBACK,
    "ZA": AceType.ACCESS_ALLOWED_CALLBACK_OBJECT,
    "ML": AceType.SYSTEM_MANDATORY_LABEL,
    "RA": AceType.SYSTEM_RESOURCE_ATTRIBUTE,
    "SP": AceType.SYSTEM_SCOPED_POLICY_ID,
}
_TYPE_NAMES: Final = {number: name for name, number in _TYPES.items()}

_FLAGS: Final[Mapping[str, int]] = {
    "OI": AceFlags.OBJECT_INHERIT,
    "CI": AceFlags.CONTAINER_INHERIT,
    "NP": AceFlags.NO_PROPAGATE_INHERIT,
    "IO": AceFlags.INHERIT_ONLY,
    "ID": AceFlags.INHERITED,
    "SA": AceFlags.SUCCESSFUL_ACCESS,
    "FA": AceFlags.FAILED_ACCESS,
}

# in the order of other programs
_SINGLE_RIGHTS: Final[Mapping[str, int]] = {
    "RP": 0x10,
    "WP": 0x20,
    "CR": 0x100,
    "CC": 0x1,
    "DC": 0x2,
    "LC": 0x4,
    "LO": 0x80,
    "RC": 0x2_0000,
    "WO": 0x8_0000,
    "WD": 0x4_0000,
    "SD": 0x1_0000,
    "DT": 0x40,
    "SW": 0x8,
    "GA": 0x1000_0000,
    "GR": 0x8000_0000,
    "GW": 0x4000_0000,
    "GX": 0x2000_0000,
}
_COMBINED_RIGHTS: Final[Mapping[str, int]] = {
    "FA": 0x1F_01FF,
    "FR": 0x12_0089,
    "FW": 0x12_0116,
    "FX": 0x12_00A0,
    "KA": 0xF_003F,
    "KR": 0x2_0019,
    "KW": 0x2_0006,
    "KX": 0x2_0019,
}
_LABEL_RIGHTS: Final[Mapping[str, int]] = {"NW": 0x1, "NR": 0x2, "NX": 0x4}

_ACL_FLAGS: Final[Mapping[str, Mapping[str, int]]] = {
    "D": {
        "P": DescriptorControl.DACL_PROTECTED,
        "AR": DescriptorControl.DACL_AUTO_INHERIT_REQUIRED,
        "AI": DescriptorControl.DACL_AUTO_INHERITED,
    },
    "S": {
        "P": DescriptorControl.SACL_PROTECTED,
        "AR": DescriptorControl.SACL_AUTO_INHERIT_REQUIRED,
        "AI": DescriptorControl.SACL_AUTO_INHERITED,
    },
}
_PRESENT: Final = {"D": DescriptorControl.DACL_PRESENT, "S": DescriptorControl.SACL_PRESENT}

_PART: Final = re.compile(r"([OGDS]):((?:[^():]|\([^()]*\))*?)(?=[OGDS]:|\Z)")
_ACL: Final = re.compile(r"([A-Z_]*)((?:\([^()]*\))*)")
_HEX_BYTE: Final = re.compile(r"0[xX][0-9A-Fa-f]{1,2}")
_HEX_MASK: Final = re.compile(r"0[xX][0-9A-Fa-f]{1,16}")
_OCTAL: Final = re.compile(r"0[0-7]{1,21}")
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,19}")
_GUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DATA: Final = re.compile(r"#((?:[0-9A-Fa-f]{2})*)")


def parse_sddl(text: str, domain: Sid | None = None) -> SddlParts:
    """Read a security descriptor from SDDL.

    Args:
        text: owner, group, DACL and SACL, each at most once, in any order.
        domain: the domain of aliases such as DA.

    Raises:
        ValueError: for text that is no descriptor, or names a domain's account without `domain`.
    """
    if len(text) > SDDL_CHARS_MAX:
        raise ValueError(f"SDDL of {len(text)} characters, at most {SDDL_CHARS_MAX}")
    text = text.strip()
    control: int = DescriptorControl.SELF_RELATIVE
    sids: dict[str, Sid] = {}
    acls: dict[str, Acl | None] = {}
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise ValueError(f"SDDL: expected O:, G:, D: or S: at {at}: {text[at : at + 40]!r}")
        letter, body = match.groups()
        if letter in sids or letter in acls:
            raise ValueError(f"SDDL: {letter}: appears twice")
        if letter in _PRESENT:
            bits, acls[letter] = _parse_acl(letter, body, domain)
            control |= bits | _PRESENT[letter]
        else:
            sids[letter] = _parse_sid(body, domain)
        at = match.end()
    return SddlParts(control, sids.get("O"), sids.get("G"), acls.get("S"), acls.get("D"))


def _parse_acl(letter: str, body: str, domain: Sid | None) -> tuple[int, Acl | None]:
    match = _ACL.fullmatch(body)
    if match is None:
        raise ValueError(f"SDDL: {letter}: is not flags and entries in parentheses: {body[:60]!r}")
    flags, entries = match.groups()
    has_list = NO_ACCESS_CONTROL not in flags
    bits = _parse_names(flags.replace(NO_ACCESS_CONTROL, "", 1), _ACL_FLAGS[letter], f"flag of {letter}:")
    aces = [_parse_ace(entry, domain) for entry in entries[1:-1].split(")(")] if entries else []
    if not has_list and aces:
        raise ValueError(f"SDDL: {letter}: {NO_ACCESS_CONTROL} has no entries")
    return bits, Acl.of(aces) if has_list else None


def _parse_names(text: str, names: Mapping[str, int], kind: str) -> int:
    """Add up the bits of names that follow each other without a separator."""
    bits = 0
    at = 0
    while at < len(text):
        name = next((name for name in names if text.startswith(name, at)), None)
        if name is None:
            raise ValueError(f"SDDL: unknown {kind} at {text[at : at + 20]!r}; known: {', '.join(names)}")
        bits |= names[name]
        at += len(name)
    return bits


def _parse_sid(text: str, domain: Sid | None) -> Sid:
    if text in WELL_KNOWN_ALIASES:
        return WELL_KNOWN_ALIASES[text]
    if text in DOMAIN_ALIASES:
        if domain is None:
            raise ValueError(f"SDDL: {text} is an account of a domain: which one?")
        return Sid.of(domain.authority, *domain.subauthorities, DOMAIN_ALIASES[text])
    if " " in text:
        raise ValueError(f"SDDL: {text!r} is neither an alias nor a SID")
    return Sid.parse(text)


def _parse_mask(text: str, ace_type: int) -> int:
    if _HEX_MASK.fullmatch(text):
        mask = int(text, 16)
    elif _OCTAL.fullmatch(text):
        mask = int(text, 8)
    elif _DECIMAL.fullmatch(text):
        mask = int(text)
    elif ace_type == AceType.SYSTEM_MANDATORY_LABEL:
        mask = _parse_names(text, _LABEL_RIGHTS, "right")
    else:
        mask = _parse_names(text, {**_SINGLE_RIGHTS, **_COMBINED_RIGHTS}, "right")
    if mask > ACCESS_MASK_MAX:
        raise ValueError(f"SDDL: rights {text} do not fit 32 bits")
    return mask


def _parse_guid(text: str) -> UUID | None:
    if text and not _GUID.fullmatch(text):
        raise ValueError(f"SDDL: {text!r} is no GUID")
    return UUID(text) if text else None


def _parse_data(text: str) -> bytes:
    match = _DATA.fullmatch(text)
    if match is None:
        raise ValueError(f"SDDL: conditions and attributes are read in hexadecimal only: {text[:40]!r}")
    return bytes.fromhex(match[1])


def _parse_ace(text: str, domain: Sid | None) -> Ace:
    fields = text.split(";")
    if len(fields) not in {6, 7}:
        raise ValueError(f"SDDL: ({text[:60]}) has {len(fields)} fields, must have 6")
    kind, flags, rights, object_type, inherited, sid = fields[:6]
    if kind not in _TYPES and not _HEX_BYTE.fullmatch(kind):
        raise ValueError(f"SDDL: unknown type {kind!r} in ({text[:60]}); known: {', '.join(_TYPES)}")
    ace_type = _TYPES[kind] if kind in _TYPES else int(kind, 16)
    return Ace(
        ace_type,
        int(flags, 16) if _HEX_BYTE.fullmatch(flags) else _parse_names(flags, _FLAGS, "flag"),
        _parse_mask(rights, ace_type),
        _parse_sid(sid, domain) if sid else None,
        _parse_guid(object_type),
        _parse_guid(inherited),
        _parse_data(fields[6]) if len(fields) == 7 else b"",
    )


def format_sddl(parts: SddlParts, domain: Sid | None = None, rights: RightsStyle = RightsStyle.NAMES) -> str:
    """Write a security descriptor as SDDL: owner, group, DACL, SACL.

    Args:
        parts: the descriptor's parts; Control bits without a text form are left out.
        domain: the domain whose accounts are written as aliases.
        rights: form of the access masks.
    """
    pieces = [
        f"{letter}:{_format_sid(sid, domain)}"
        for letter, sid in (("O", parts.owner), ("G", parts.group))
        if sid is not None
    ]
    for letter, acl in (("D", parts.dacl), ("S", parts.sacl)):
        if not parts.control & _PRESENT[letter]:
            continue
        flags = "".join(name for name, bit in _ACL_FLAGS[letter].items() if parts.control & bit)
        if acl is None:
            pieces.append(f"{letter}:{flags}{NO_ACCESS_CONTROL}")
        else:
            pieces.append(f"{letter}:{flags}" + "".join(_format_ace(ace, domain, rights) for ace in acl.aces))
    return "".join(pieces)


def _format_sid(sid: Sid, domain: Sid | None) -> str:
    if sid in _ALIAS_OF:
        return _ALIAS_OF[sid]
    if domain is not None and sid.domain == domain and sid.rid in _ALIAS_OF_RID:
        return _ALIAS_OF_RID[sid.rid]
    return str(sid)


def _format_mask(ace: Ace, rights: RightsStyle) -> str:
    names = _LABEL_RIGHTS if ace.type == AceType.SYSTEM_MANDATORY_LABEL else _SINGLE_RIGHTS
    known_mask = sum(names.values())
    if rights is RightsStyle.HEX or ace.mask & ~known_mask:
        return f"0x{ace.mask:08x}"
    return "".join(name for name, bit in names.items() if ace.mask & bit)


def _format_flags(flags: int) -> str:
    if flags & ~sum(_FLAGS.values()):
        return f"0x{flags:02x}"
    return "".join(name for name, bit in _FLAGS.items() if flags & bit)


def _format_ace(ace: Ace, domain: Sid | None, rights: RightsStyle) -> str:
    fields = [
        _TYPE_NAMES.get(ace.type, f"0x{ace.type:02x}"),
        _format_flags(ace.flags),
        _format_mask(ace, rights) if ace.sid is not None else "",
        str(ace.object_type or ""),
        str(ace.inherited_object_type or ""),
        _format_sid(ace.sid, domain) if ace.sid is not None else "",
    ]
    if ace.data or ace.sid is None:
        fields.append(f"#{ace.data.hex()}")
    return f"({';'.join(fields)})"
