"""Conversion of file and database values into cells in text form.

See `mqdssm.tables.mqis`.
No value is judged here. A value without a text form stays similar; the step that judges cells refuses it.
"""

import json
import math
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from mqdssm.model.propids import BLOBS, GUIDS, Variant
from mqdssm.tables.mqis import MqisColumn

GUID_BYTES: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

CellMaker = Callable[[Any], str | None]


def build_cell_maker(
    column: MqisColumn, *, code_page: str = "utf-8", guid_bytes: str = "windows"
) -> CellMaker:
    """Return a function that converts values of a column into cells.

    Args:
        column: which one.
        code_page: of text that comes as bytes.
        guid_bytes: order of GUIDs that come as bytes: ``windows`` or ``text``.

    Returns:
        A function that raises UnicodeDecodeError for bytes that the code page does not know.
    """

    def of_bytes(data: bytes) -> str:
        if column.variant in BLOBS:
            return b64encode(data).decode("ascii")
        if column.variant in GUIDS and len(data) == GUID_BYTES:
            return str(UUID(bytes_le=data) if guid_bytes == "windows" else UUID(bytes=data))
        if column.variant in GUIDS:
            return data.hex()
        return data.decode(code_page, "strict")

    def cell(value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bytes):
            return of_bytes(value)
        if isinstance(value, list | tuple):
            return json.dumps([cell(item) for item in value], ensure_ascii=False)
        return _format_scalar(value)

    return cell


def build_bcp_maker(column: MqisColumn, *, guid_bytes: str = "windows") -> CellMaker:
    """Return a function that converts texts that bcp wrote into cells.

    Octets are hexadecimal digits, and NUL is an empty text.

    Args:
        column: which one.
        guid_bytes: as for `build_cell_maker`.
    """
    of_octets = build_cell_maker(column, guid_bytes=guid_bytes)

    def cell(value: Any) -> str | None:
        if value == "\0":
            return ""
        if column.variant in BLOBS or (column.variant in GUIDS and len(value) == 2 * GUID_BYTES):
            with suppress(ValueError):  # text that is not hexadecimal stays, and is refused later
                return of_octets(bytes.fromhex(value))
        return str(value)

    return cell


def build_text_maker(column: MqisColumn) -> CellMaker:
    """Return a function that converts JSON values into cells.

    Lists and numbers become text.
    """
    whole = column.variant in {Variant.CLSIDS, Variant.LPWSTRS}

    def cell(value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list | dict):
            return json.dumps(value, ensure_ascii=False)
        return json.dumps([value]) if whole else _format_scalar(value)

    return cell


def _format_scalar(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return str(int((aware - _EPOCH).total_seconds() // 1))
    if isinstance(value, date):
        return str(int((datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH).total_seconds()))
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)
