"""Conversion of text cells of MQIS tables to abstract values.

Refusals have a reason.
"""

import json
import re
from base64 import b64decode
from typing import Any, Final
from uuid import UUID

from mqdssm.model.propids import BLOBS, GUIDS, INTEGERS, LISTS, Variant
from mqdssm.tables.mqis import MqisColumn
from mqdssm.tables.syntax import SID, TIME_SECONDS_MAX, TIME_SECONDS_MIN, Kind

LIST_ITEMS_MAX: Final = 10_000
SHOWN_CHARS_MAX: Final = 60
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_GUID: Final = re.compile(r"(\{)?[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?(1)\})", re.ASCII)


class CellError(ValueError):
    """Cell without a valid value of its column ([MS-MQMQ] 2.3).

    The text gives the reason.
    """


def value_of(column: MqisColumn, cell: str) -> Any:
    """Return the value of the attribute in a cell ([MS-MQMQ] 2.3).

    Args:
        column: the column, with a row of the mapping table.
        cell: its text.

    Raises:
        CellError: no valid value.
    """
    value = convert_cell(column, cell)
    if column.row is None or column.bits:
        return value
    kind = column.row.kind
    if kind is Kind.TIME:
        if not TIME_SECONDS_MIN <= value <= TIME_SECONDS_MAX:
            raise CellError(f"{value} is no time since 1970 of the years 1601 to 9999")
        return value
    if column.codes is not None:
        return _find_member(column, value)
    if column.first:
        return (value,)
    if column.variant is Variant.CLSIDS and kind is Kind.BYTES:
        return tuple(digest.bytes_le for digest in value)  # digests stand in GUIDs ([MS-MQMQ] 2.3.6.5)
    if kind is Kind.SID:
        return _load_sid(value)
    return value


def read_value(column: MqisColumn, cell: str) -> Any:
    """Return the value in a cell ([MS-MQMQ] 2.3).

    A number that no directory accepts is returned, too.
    A number that does not fit its variant, and an unknown number of an enumeration (as text), are returned
    for the validation rules about them. `value_of` refuses both.

    Args:
        column: the column.
        cell: its text.

    Raises:
        CellError: no value of this form.
    """
    if column.variant not in INTEGERS or (column.row is not None and column.row.kind is Kind.TIME):
        return value_of(column, cell)
    number = _parse_number(column.variant, cell)
    if column.row is None or column.bits or column.codes is None:
        return number
    if column.row.kind is Kind.ENUMERATION and number not in column.codes:
        return str(number)
    return _find_member(column, number)


def convert_cell(column: MqisColumn, cell: str) -> Any:
    """Convert a cell by its variant ([MS-MQMQ] 2.2.12).

    The result is a number, text, octets, a GUID, or a tuple.

    Raises:
        CellError: no valid value.
    """
    variant = column.variant
    if variant in INTEGERS:
        return _parse_integer(variant, cell)
    if variant in BLOBS:
        return _decode_octets(cell)
    if variant in LISTS:
        return tuple(_parse_guid(item) if variant in GUIDS else item for item in _parse_items(cell))
    return _parse_guid(cell) if variant in GUIDS else cell


def _describe_cell(cell: str) -> str:
    """Return a cell in the form for messages."""
    return repr(cell if len(cell) <= SHOWN_CHARS_MAX else f"{cell[:SHOWN_CHARS_MAX]}…")


def _parse_integer(variant: Variant, cell: str) -> int:
    low, high = INTEGERS[variant]
    number = _parse_number(variant, cell)
    if not low <= number <= high:
        raise CellError(f"{number} does not fit {variant}: {low} to {high}")
    return number


def _parse_number(variant: Variant, cell: str) -> int:
    text = cell.strip()
    if _INTEGER.fullmatch(text) is None:  # int() alone takes "1_0"
        raise CellError(f"{_describe_cell(cell)} is no whole number")
    low, high = INTEGERS[variant]
    number = int(text)
    if low == 0 and -(high + 1) // 2 <= number < 0:
        # databases without unsigned numbers store the upper half as negative numbers
        number += high + 1
    return number


def _decode_octets(cell: str) -> bytes:
    try:
        return b64decode(cell, validate=True)
    except ValueError:
        raise CellError(f"{_describe_cell(cell)} is no base64") from None


def _parse_guid(cell: Any) -> UUID:
    text = cell.strip() if isinstance(cell, str) else ""
    if _GUID.fullmatch(text) is None:
        raise CellError(f"{_describe_cell(str(cell))} is no GUID")
    return UUID(text)


def _parse_items(cell: str) -> list[str]:
    try:
        items = json.loads(cell)
    except (ValueError, RecursionError):
        raise CellError(f"{_describe_cell(cell)} is no JSON array") from None
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise CellError(f"{_describe_cell(cell)} is no JSON array of texts")
    if len(items) > LIST_ITEMS_MAX:
        raise CellError(f"a list of {len(items)} items: at most {LIST_ITEMS_MAX} are read")
    return items


def _find_member(column: MqisColumn, number: int) -> Any:
    codes = column.codes or {}
    if number in codes:
        return codes[number]
    choices = ", ".join(map(str, codes))
    raise CellError(f"{number} is none of {choices}")


def _load_sid(image: bytes) -> str:
    try:
        return SID.load(image)
    except ValueError as error:
        raise CellError(str(error)) from None
