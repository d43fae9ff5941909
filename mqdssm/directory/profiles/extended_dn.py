"""Extended distinguished names, with the objectGUID in front.

See [MS-ADTS] 3.1.1.3.4.1.5 and decision M29.

With the control every name in an answer, also that of the entry, is ``<GUID=...>;CN=...`` or, of accounts,
``<GUID=...>;<SID=...>;CN=...``: references need no further look-up.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from mqdssm.directory.ber import integer, sequence
from mqdssm.directory.entries import PartialValues
from mqdssm.directory.requests import LdapControl
from mqdssm.directory.responses import Dereferenced
from mqdssm.errors import DecodeError
from mqdssm.tables import adsyntax
from mqdssm.tables.schema import ATTRIBUTES

CONTROL_OID: Final = "1.2.840.113556.1.4.529"
"""LDAP_SERVER_EXTENDED_DN_OID."""
_TEXT_FORM: Final = 1  # GUIDs with dashes, SIDs as S-1-...

_EXTENDED: Final = re.compile(
    rb"<GUID=([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})>;(?:<SID=[^>;]*>;)?", re.DOTALL
)
_DELETED: Final = b"\\0ADEL:"
"""Suffix of a deleted object's name ([MS-ADTS] 3.1.1.5.5)."""


def make_control() -> LdapControl:
    """Return the control that requests extended names, with GUIDs as text."""
    return LdapControl(CONTROL_OID, critical=True, value=sequence(integer(_TEXT_FORM)))


def split(value: bytes) -> tuple[UUID | None, bytes]:
    """Split an extended name into its objectGUID and the plain name.

    The objectGUID is None if there is none.
    """
    match = _EXTENDED.match(value)
    if match is None:
        return None, value
    return UUID(match.group(1).decode("ascii")), value[match.end() :]


def make_plain_row(row: tuple[Any, ...], columns: Sequence[str]) -> tuple[Any, ...]:
    """Return a row with plain names, and the referenced objects.

    The additional item has the objects to which the row's DN-valued columns refer.

    Raises:
        DecodeError: a name is no UTF-8.
    """
    cells: list[Any] = [split(row[0].encode())[1].decode()]
    dereferenced: dict[str, list[Dereferenced]] = {}
    for name, cell in zip(columns, row[1:], strict=True):
        attribute = ATTRIBUTES.get(name.lower())
        if cell is None or attribute is None or attribute.syntax is not adsyntax.DN:
            cells.append(cell)
            continue
        pairs = [split(value) for value in ([cell] if isinstance(cell, bytes) else cell)]
        dereferenced[name.lower()] = [
            _make_dereferenced(guid, value) for guid, value in pairs if guid is not None or _DELETED in value
        ]
        names = [value for _, value in pairs]
        if isinstance(cell, PartialValues):
            cells.append(PartialValues(names, cell.next_index))
        else:
            cells.append(names[0] if isinstance(cell, bytes) else names)
    return (*cells, dereferenced)


def _make_dereferenced(guid: UUID | None, value: bytes) -> Dereferenced:
    try:
        dn = value.decode()
    except UnicodeDecodeError:
        raise DecodeError("[MS-ADTS] 3.1.1.3.4.1.5", "DN", 0, "is no UTF-8") from None
    if guid is None or _DELETED in value:
        return Dereferenced(dn, {})  # a deleted object is as good as none (decision M40)
    return Dereferenced(dn, {"objectguid": [guid.bytes_le]}, identity_only=True)
