"""LDAP attribute values and their Python values, with conversion both ways.

Each syntax is strict: a value that does not match its pattern is a MappingError, and stays in the directory
unchanged. Wire forms are those that servers store (decision M10), not those of the prose.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Final, Generic, TypeVar
from uuid import UUID

from mqdssm.errors import MappingError
from mqdssm.tables import adsyntax as ad
from mqdssm.tables.adsyntax import AdSyntax
from mqdssm.wire.sid import Sid

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)

UINT32_MAX: Final = 2**32 - 1
INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
GUID_BYTES: Final = 16
TIME_SECONDS_MIN: Final = -11_644_473_600  # 1601-01-01, the first time of Windows
TIME_SECONDS_MAX: Final = 253_402_300_799  # 9999-12-31T23:59:59Z
CACHED_VALUES: Final = 4096  # of each kind: quotas and times repeat, refusals are not kept
SHOWN_BYTES_MAX: Final = 60  # of a wrong value in a message

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_INTEGER: Final = re.compile(rb"-?[1-9][0-9]{0,9}|0")
# [RFC4517] 3.3.13: minutes and seconds may be left out; the fraction belongs to the last given part
_TIME: Final = re.compile(
    rb"([0-9]{8})([01][0-9]|2[0-3])(?:([0-5][0-9])([0-5][0-9]|60)?)?(?:[.,]([0-9]+))?"
    rb"(?:Z|([+-])([01][0-9]|2[0-3])([0-5][0-9])?)"
)
_FRACTION_DIGITS_MAX: Final = 18


class Kind(StrEnum):
    """Type of an abstract value in Python.

    Documentation and Spark columns are derived from it.
    """

    BOOLEAN = "boolean"
    INTEGER = "integer"
    ENUMERATION = "enumeration"
    TEXT = "text"
    BYTES = "octets"
    GUID = "GUID"
    SID = "SID"
    DN = "DN"
    TIME = "time since 1970 UTC"


@dataclass(frozen=True, slots=True)
class Syntax(Generic[T]):
    """Reader and writer of one kind of attribute value.

    Attributes:
        name: name in messages.
        ad_syntax: the syntax of the attribute in the schema.
        kind: type of the Python value.
        load: converts one value from the server to the Python value; raises MappingError.
        dump: converts the Python value to the value to send; raises MappingError.
    """

    name: str
    ad_syntax: AdSyntax
    kind: Kind
    load: Callable[[bytes], T]
    dump: Callable[[T], bytes]


def _make_refusal(name: str, value: object, reason: str = "") -> MappingError:
    value_text = repr(value)
    if len(value_text) > SHOWN_BYTES_MAX:
        value_text = f"{value_text[:SHOWN_BYTES_MAX]}…"
    return MappingError(f"is no {name}: {value_text}{f' {reason}' if reason else ''}")


def _load_integer(raw: bytes, name: str, low: int, high: int) -> int:
    if _INTEGER.fullmatch(raw) is None:  # int() alone takes "1_0" and " 7"
        raise _make_refusal(name, raw)
    value = int(raw)
    if not low <= value <= high:
        raise _make_refusal(name, value, "does not fit a 32-bit integer")
    return value


def _check_integer(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _make_refusal(name, value)
    if not low <= value <= high:
        raise _make_refusal(name, value, f"is not in {low}..{high}")
    return int(value)


@lru_cache(maxsize=CACHED_VALUES)
def _load_uint32(raw: bytes) -> int:
    # unsigned values that other programs wrote into a server without a 32-bit limit are accepted, too
    return _load_integer(raw, "UINT32", INT32_MIN, UINT32_MAX) & UINT32_MAX


def _dump_uint32(value: int) -> bytes:
    number = _check_integer(value, "UINT32", 0, UINT32_MAX)
    return b"%d" % (number if number <= INT32_MAX else number - 2**32)


@lru_cache(maxsize=CACHED_VALUES)
def _load_int32(raw: bytes) -> int:
    return _load_integer(raw, "INT32", INT32_MIN, INT32_MAX)


def _dump_int32(value: int) -> bytes:
    return b"%d" % _check_integer(value, "INT32", INT32_MIN, INT32_MAX)


def _load_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _make_refusal("UTF-8 text", raw) from None


def _dump_text(value: str) -> bytes:
    if not isinstance(value, str):
        raise _make_refusal("text", value)
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise _make_refusal("text that UTF-8 can carry", value) from None


def _load_octets(raw: bytes) -> bytes:
    return raw


def _dump_octets(value: bytes) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _make_refusal("octets", value)
    return bytes(value)


def _load_octets16(raw: bytes) -> bytes:
    if len(raw) != GUID_BYTES:
        raise _make_refusal("16 octets", raw, f"has {len(raw)}")
    return raw


def _dump_octets16(value: bytes) -> bytes:
    return _load_octets16(_dump_octets(value))


def _load_guid(raw: bytes) -> UUID:
    if len(raw) != GUID_BYTES:
        raise _make_refusal("GUID", raw, f"has {len(raw)} bytes, not 16")
    return UUID(bytes_le=raw)


def _dump_guid(value: UUID) -> bytes:
    if not isinstance(value, UUID):
        raise _make_refusal("GUID", value)
    return value.bytes_le


def _load_sid(raw: bytes) -> str:
    try:
        return str(Sid.from_bytes(raw))
    except ValueError as error:
        raise _make_refusal("SID", raw, f"({error})") from None


def _dump_sid(value: str) -> bytes:
    try:
        return bytes(Sid.parse(str(value)))
    except ValueError as error:
        raise _make_refusal("SID", value, f"({error})") from None


@lru_cache(maxsize=CACHED_VALUES)
def _seconds_of_day(digits: bytes) -> int:
    """Return the seconds from 1970 to the beginning of a day in the form YYYYMMDD."""
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    return (date(year, month, day).toordinal() - _EPOCH_DAY) * 86_400


@lru_cache(maxsize=CACHED_VALUES)
def _load_time(raw: bytes) -> int:
    match = _TIME.fullmatch(raw)
    if match is None:
        raise _make_refusal("GeneralizedTime", raw)
    day, hour, minute, second, fraction, sign, hours, minutes = match.groups(default=b"")
    try:
        seconds = _seconds_of_day(day) + int(hour) * 3600 + int(minute or 0) * 60 + int(second or 0)
    except ValueError:
        raise _make_refusal("GeneralizedTime", raw, "(no such day)") from None
    if fraction and not second:
        digits = fraction[:_FRACTION_DIGITS_MAX]
        seconds += (60 if minute else 3600) * int(digits) // 10 ** len(digits)
    if sign:
        east = int(hours) * 3600 + int(minutes or 0) * 60
        seconds -= east if sign == b"+" else -east
    if not TIME_SECONDS_MIN <= seconds <= TIME_SECONDS_MAX:
        raise _make_refusal("GeneralizedTime", raw, "(before 1601 or after 9999)")
    return seconds


def _dump_time(value: int) -> bytes:
    seconds = _check_integer(value, "time", TIME_SECONDS_MIN, TIME_SECONDS_MAX)
    days, rest = divmod(seconds, 86_400)
    day = date.fromordinal(days + _EPOCH_DAY)
    clock = f"{rest // 3600:02}{rest // 60 % 60:02}{rest % 60:02}"
    # Active Directory would accept "1577836800" or no fraction, and compare wrongly (M35)
    return f"{day.year:04}{day.month:02}{day.day:02}{clock}.0Z".encode("ascii")


def words(name: str, ad_syntax: AdSyntax, kind: Kind, values: Mapping[T, bytes]) -> Syntax[T]:
    """Make a syntax of a few fixed words, one for each value.

    Args:
        name: name in messages.
        ad_syntax: the syntax of the attribute in the schema.
        kind: type of the Python values.
        values: each value and its word on the wire.
    """
    dumps = dict(values)
    loads = {word: value for value, word in values.items()}
    types = {type(value) for value in values}

    def load(raw: bytes) -> T:
        try:
            return loads[raw]
        except KeyError:
            raise _make_refusal(name, raw) from None

    def dump(value: T) -> bytes:
        if type(value) not in types:  # True == 1, yet 1 is no boolean
            raise _make_refusal(name, value)
        return dumps[value]

    return Syntax(name, ad_syntax, kind, load, dump)


def enumeration(members: type[E], ad_syntax: AdSyntax) -> Syntax[E]:
    """Make the syntax of an enumeration that is stored as its number.

    Args:
        members: the enumeration, with its numbers on the wire.
        ad_syntax: Enumeration or Integer.
    """
    words_of: Mapping[E, bytes] = {member: b"%d" % member.value for member in members}
    return words(members.__name__, ad_syntax, Kind.ENUMERATION, words_of)


BOOLEAN: Final = words("BOOLEAN", ad.BOOLEAN, Kind.BOOLEAN, {True: b"TRUE", False: b"FALSE"})
INT32: Final = Syntax("INT32", ad.INTEGER, Kind.INTEGER, _load_int32, _dump_int32)
UINT32: Final = Syntax("UINT32", ad.INTEGER, Kind.INTEGER, _load_uint32, _dump_uint32)  # M11
UNICODE: Final = Syntax("UNICODE", ad.UNICODE, Kind.TEXT, _load_text, _dump_text)
TELETEX: Final = Syntax("TELETEX", ad.TELETEX, Kind.TEXT, _load_text, _dump_text)
OCTETS: Final = Syntax("OCTETS", ad.OCTET_STRING, Kind.BYTES, _load_octets, _dump_octets)
OCTETS16: Final = Syntax("OCTETS16", ad.OCTET_STRING, Kind.BYTES, _load_octets16, _dump_octets16)
DESCRIPTOR: Final = Syntax("DESCRIPTOR", ad.SECURITY_DESCRIPTOR, Kind.BYTES, _load_octets, _dump_octets)
GUID: Final = Syntax("GUID", ad.OCTET_STRING, Kind.GUID, _load_guid, _dump_guid)
SID: Final = Syntax("SID", ad.SID, Kind.SID, _load_sid, _dump_sid)
DN_TEXT: Final = Syntax("DN_TEXT", ad.DN, Kind.DN, _load_text, _dump_text)
TIME: Final = Syntax("TIME", ad.GENERALIZED_TIME, Kind.TIME, _load_time, _dump_time)
