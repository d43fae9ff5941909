"""Attribute values formatted for people: SDDL, names, times in UTC."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import DecodeError

if TYPE_CHECKING:
    from mqdssm.model.base import DirectoryObject
    from mqdssm.tables.element_table import ElementTable
    from mqdssm.tables.row import Row

SHOWN_BYTES_MAX: Final = 48
"""Maximum bytes shown in base64; longer values are shown by their length."""
ORIGINAL: Final = "OriginalIdentifier"
"""Name of the GUID that an object had elsewhere; it is no attribute of the specification."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LIST_COLUMNS: Final = {
    "Queue": ("Pathname", "Label", "Transactional", "Quota", "Identifier"),
    "QueueManager": ("ComputerName", "OperatingSystemType", "RoutingServer", "DirectoryServer", "Identifier"),
    "Enterprise": ("Name", "DefaultTimeToLive", "WeakenedSecurity", "Identifier"),
    "Site": (
        "Name",
        "ForeignSite",
        "MigratedFromMsmq10",
        "InterSiteReplicationInterval",
        "Identifier",
    ),
    "RoutingLink": ("Site1Identifier", "Site2Identifier", "ActualCost", "Description", "Identifier"),
    "User": ("FullPath", "SecurityIdentifier", "Identifier"),
}
"""Default columns of a table of objects."""


def format_cells(obj: "DirectoryObject", rows: Sequence["Row"]) -> list[str]:
    """Format the values of some attributes; unpopulated ones are empty."""
    populated = obj.model_fields_set
    return [text_of(row, getattr(obj, row.field)) if row.field in populated else "" for row in rows]


def format_pairs(obj: "DirectoryObject", table: "ElementTable") -> Iterator[tuple[str, str]]:
    """Yield names and values of populated attributes, in the table's order."""
    rows = [row for row in table.rows if row.field in obj.model_fields_set]
    for name, cell in zip((row.adm for row in rows), format_cells(obj, rows), strict=True):
        yield name, cell
        if name == "Identifier" and obj.original_identifier is not None:
            yield ORIGINAL, str(obj.original_identifier)


def json_of(obj: "DirectoryObject") -> str:
    """Return the JSON form of an object, with its earlier GUID if known.

    See decision M37.
    """
    text = obj.to_json(memory=False)
    if obj.original_identifier is None:
        return text
    return json.dumps(json.loads(text) | {ORIGINAL: str(obj.original_identifier)}, ensure_ascii=False)


def format_with_original(obj: "DirectoryObject", rows: Sequence["Row"]) -> list[str]:
    """Format the values of some attributes and the earlier GUID of the object."""
    return [*format_cells(obj, rows), str(obj.original_identifier or "")]


def text_of(row: "Row", value: Any) -> str:
    """Format a value of an attribute."""
    if value is None:
        return ""
    if row.multi:
        return ", ".join(_format_item(row, item) for item in value)
    return _format_item(row, value)


def _format_item(row: "Row", value: Any) -> str:
    from mqdssm.tables.syntax import Kind

    if isinstance(value, bytes):
        return _format_bytes(row.adm, value)
    if row.kind is Kind.TIME:
        return time_of(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        from mqdssm.model.fieldtypes import spec_name

        return spec_name(value)
    return str(value)


def time_of(seconds: int) -> str:
    """Format a time in UTC by ISO 8601."""
    try:
        return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return str(seconds)


def _format_bytes(adm: str, value: bytes) -> str:
    if not value:
        return ""
    try:
        match adm:
            case "Security":
                return _format_descriptor(value)
            case "PublicEncryptionKeyList":
                return _describe_keys(value)
            case "PublicSigningKeyList" | "Certificates":
                return _describe_certificates(value)
            case "CertificateDigestList":
                return value.hex()
    except DecodeError as error:
        return f"{len(value)} bytes, damaged: {error}"
    return _encode_base64(value)


def _encode_base64(value: bytes) -> str:
    from base64 import b64encode

    if len(value) > SHOWN_BYTES_MAX:
        return f"{len(value)} bytes"
    return b64encode(value).decode()


def _format_descriptor(value: bytes) -> str:
    from mqdssm.wire.dtyp import SecurityDescriptor
    from mqdssm.wire.sddl import RightsStyle

    return SecurityDescriptor.from_bytes(value).to_sddl(rights=RightsStyle.HEX)  # MSMQ's own masks


def _describe_keys(value: bytes) -> str:
    from mqdssm.wire.keys import PublicKeys

    keys = PublicKeys.from_bytes(value).keys
    return "; ".join(f"{key.provider_name}, {len(key.blob)} bytes" for key in keys) or "no keys"


def _describe_certificates(value: bytes) -> str:
    from mqdssm.wire.certificates import UserSignCerts

    certificates = UserSignCerts.from_bytes(value).certificates
    return (
        "; ".join(f"{certificate.digest.hex()}, {len(certificate.der)} bytes" for certificate in certificates)
        or "no certificates"
    )
