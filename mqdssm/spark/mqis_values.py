"""Cells of MQIS tables as values of the abstract model, in Spark SQL: no Python object per row.

Every function gives NULL for what cannot be read; whether that was a cell without a value is seen beside it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mqdssm.model.propids import BLOBS, GUIDS, INTEGERS, LISTS, Variant
from mqdssm.tables.mqis import MqisColumn
from mqdssm.tables.syntax import TIME_SECONDS_MAX, TIME_SECONDS_MIN, Kind
from mqdssm.wire.sid import AUTHORITY_DECIMAL_MAX, SID_HEADER_BYTES, SUBAUTHORITIES_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_GUID: Final = r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_GUID_TEXT: Final = rf"^(?:{_GUID}|\{{{_GUID}\}})\z"
_BASE64: Final = r"^[A-Za-z0-9+/]*={0,2}\z"  # groups would be recursion, and a certificate is long
_INTEGER: Final = r"^-?[0-9]{1,18}\z"
_ORDER: Final = (3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15)
"""Where the bytes of a GUID stand in its text: its first three numbers are little-endian."""
SHOWN_CHARS_MAX: Final = 60
_DASHES: Final = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 16))


def decoded(column: MqisColumn, raw: "Column", stored: "DataType") -> "Column":
    """The value of the attribute that a column holds.

    Args:
        column: which one, with a row of the mapping table.
        raw: its cell.
        stored: the type that it has in the file.
    """
    if column.row is None:
        raise ValueError(f"{column.name} holds no attribute")
    value = plain(column.variant, raw, stored)
    kind = column.row.kind
    if column.variant in INTEGERS:
        return _from_number(column, value, kind)
    if column.first:
        return _when(value.isNotNull(), _functions().array(value))
    if column.variant in LISTS and kind is Kind.BYTES:
        digests: Column = _functions().transform(value, guid_octets)
        return digests
    return sid_text(value) if kind is Kind.SID else value


def plain(variant: Variant, raw: "Column", stored: "DataType") -> "Column":
    """A cell as its variant says: a long, a string, octets, a GUID in lower case, an array."""
    from pyspark.sql.types import StringType

    if variant in INTEGERS:
        return _integer(variant, raw, stored)
    if variant in BLOBS:
        return _octets(raw, stored)
    if variant in LISTS:
        return _list(variant, raw, stored)
    if variant in GUIDS:
        return _guid(raw, stored)
    return raw if isinstance(stored, StringType) else raw.cast("string")


def shown(raw: "Column", stored: "DataType") -> "Column":
    """A cell as messages show it, cut."""
    from pyspark.sql import types as T  # noqa: N812  what everybody calls it

    F = _functions()  # noqa: N806
    if isinstance(stored, T.BinaryType):
        text = F.hex(raw)
    elif isinstance(stored, T.ArrayType):
        text = F.to_json(raw)
    else:
        text = raw.cast("string")
    found: Column = F.substring(text, 1, SHOWN_CHARS_MAX)
    return found


def _functions() -> Any:
    from pyspark.sql import functions

    return functions


def _when(condition: "Column", value: "Column") -> "Column":
    found: Column = _functions().when(condition, value)
    return found


# -- numbers and what they stand for


def _integer(variant: Variant, raw: "Column", stored: "DataType") -> "Column":
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(stored, T.StringType):
        number = _when(raw.rlike(_INTEGER), raw).cast("long")
    elif isinstance(stored, T.IntegralType | T.BooleanType):
        number = raw.cast("int").cast("long") if isinstance(stored, T.BooleanType) else raw.cast("long")
    elif isinstance(stored, T.DecimalType | T.FractionalType):
        number = _when(raw == raw.cast("long"), raw.cast("long"))
    else:
        return _functions().lit(None).cast("long")  # type: ignore[no-any-return]
    if variant is Variant.UI4:
        # databases without unsigned numbers keep the upper half as negative ones
        return _functions().when(number.between(-(2**31), -1), number + 2**32).otherwise(number)  # type: ignore[no-any-return]
    return number


def _from_number(column: MqisColumn, number: "Column", kind: Kind) -> "Column":
    F = _functions()  # noqa: N806
    if kind is Kind.TIME:
        in_range = number.between(TIME_SECONDS_MIN, TIME_SECONDS_MAX)
        return _when(in_range, F.timestamp_seconds(_when(in_range, number)))
    if column.codes is None:
        return number
    meant = _meaning(number, column.codes)
    # an unknown number of an enumeration stays a number, in text
    return F.coalesce(meant, number.cast("string")) if kind is Kind.ENUMERATION else meant


def _meaning(number: "Column", codes: Mapping[int, Any]) -> "Column":
    F = _functions()  # noqa: N806
    (first, value), *others = codes.items()
    chain = F.when(number == first, F.lit(value))
    for code, other in others:
        chain = chain.when(number == code, F.lit(other))
    return chain  # type: ignore[no-any-return]


# -- octets, GUIDs, lists


def _octets(raw: "Column", stored: "DataType") -> "Column":
    from pyspark.sql import types as T  # noqa: N812

    F = _functions()  # noqa: N806
    if isinstance(stored, T.BinaryType):
        return raw
    if isinstance(stored, T.StringType):
        fits = raw.rlike(_BASE64) & (F.length(raw) % 4 == 0)
        return F.try_to_binary(_when(fits, raw), F.lit("base64"))  # type: ignore[no-any-return]
    return F.lit(None).cast("binary")  # type: ignore[no-any-return]


def _guid(raw: "Column", stored: "DataType") -> "Column":
    from pyspark.sql import types as T  # noqa: N812

    F = _functions()  # noqa: N806
    if isinstance(stored, T.BinaryType):
        digits = F.lower(F.hex(raw))
        pairs = [F.substring(digits, 2 * place + 1, 2) for place in _ORDER]
        parts = (F.concat(*pairs[begin:end]) for begin, end in _DASHES)
        return _when(F.length(raw) == 16, F.concat_ws("-", *parts))
    if isinstance(stored, T.StringType):
        return _guid_text(raw)
    return F.lit(None).cast("string")  # type: ignore[no-any-return]


def _guid_text(raw: "Column") -> "Column":
    return _when(raw.rlike(_GUID_TEXT), _functions().lower(_functions().translate(raw, "{}", "")))


def guid_octets(text: "Column") -> "Column":
    """The 16 octets of a GUID: digests stand in GUIDs ([MS-MQMQ] 2.3.6.5)."""
    F = _functions()  # noqa: N806
    digits = F.translate(text, "-", "")
    return F.unhex(F.concat(*(F.substring(digits, 2 * place + 1, 2) for place in _ORDER)))  # type: ignore[no-any-return]


def _list(variant: Variant, raw: "Column", stored: "DataType") -> "Column":
    from pyspark.sql import types as T  # noqa: N812

    F = _functions()  # noqa: N806
    if isinstance(stored, T.StringType):
        # without the brackets Spark would take a single value for a list
        raw = F.from_json(_when(raw.rlike(r"^\s*\["), raw), "array<string>")
        items: T.DataType = T.StringType()
    elif isinstance(stored, T.ArrayType):
        items = stored.elementType
    else:
        return F.lit(None).cast("array<string>")  # type: ignore[no-any-return]
    made = F.transform(raw, lambda item: _guid(item, items)) if variant in GUIDS else raw
    return _when(~F.exists(made, lambda item: item.isNull()), made)


def sid_text(raw: "Column") -> "Column":
    """The text of a SID in packet form ([MS-DTYP] 2.4.2.1, 2.4.2.2); NULL for what is none."""
    F = _functions()  # noqa: N806
    digits = F.hex(raw)

    def number(text: "Column") -> "Column":
        found: Column = F.conv(text, 16, 10)
        return found

    def part(index: "Column") -> "Column":
        at = index * 8 + 2 * SID_HEADER_BYTES + 1
        swapped = F.concat(*(F.substring(digits, at + offset, F.lit(2)) for offset in (6, 4, 2, 0)))
        return F.concat(F.lit("-"), number(swapped))  # type: ignore[no-any-return]

    count = number(F.substring(digits, 3, 2)).cast("int")
    fits = (
        (F.length(raw) >= SID_HEADER_BYTES)
        & (F.substring(digits, 1, 2) == "01")
        & (count <= SUBAUTHORITIES_MAX)
        & (F.length(raw) == SID_HEADER_BYTES + 4 * count)
    )
    authority = F.substring(digits, 5, 12)
    head = F.when(number(authority).cast("long") <= AUTHORITY_DECIMAL_MAX, number(authority)).otherwise(
        F.concat(F.lit("0x"), authority)
    )
    indices = F.when(fits & (count > 0), F.sequence(F.lit(0), F.greatest(count, F.lit(1)) - 1))
    rest = F.coalesce(F.array_join(F.transform(indices, part), ""), F.lit(""))
    return _when(fits, F.concat(F.lit("S-1-"), head, rest))
