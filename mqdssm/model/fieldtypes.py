"""Types of the attributes of the abstract model.

A type says which values it accepts, and has their JSON form.
A refused value raises a ValueError that names the problem and the limit; a field puts the name of its
attribute before that. Types are not guessed: a number is no truth value, and bytes are no text.
"""

import re
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, SupportsBytes, TypeVar, overload

from pydantic import PlainSerializer, PlainValidator, ValidationError, ValidationInfo
from pydantic_core import PydanticCustomError

from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryServerType, OperatingSystemType, PrivacyLevel
from mqdssm.model.memory import Memory
from mqdssm.model.names import MulticastFormatName, PathName
from mqdssm.model.queuenames import units_of

LABEL_UNITS_MAX: Final = 124
"""Longest queue label in UTF-16 code units ([MS-MQMQ] 2.3.1.8; upper range of mSMQLabelEx, M28)."""
COMMON_NAME_UNITS_MAX: Final = 64
"""Longest name of a computer or site in UTF-16 code units (upper range of cn in Active Directory)."""
DESCRIPTION_UNITS_MAX: Final = 1024
"""Longest description in UTF-16 code units (upper range of description in Active Directory, M28)."""
CERTIFICATES_BYTES_MAX: Final = 1_048_576
"""Largest value of mSMQSignCertificates in bytes (its upper range in Active Directory, M28)."""
DIGEST_BYTES: Final = 16
"""Length of an MD5 digest of a certificate in bytes ([MS-MQDMPR] 3.1.1.15)."""
UNSIGNED_MAX: Final = 0xFFFF_FFFF
BASE_PRIORITY_MIN: Final = -32768
BASE_PRIORITY_MAX: Final = 32767
COST_MIN: Final = 1
COST_MAX: Final = 999_999
"""Largest cost of a routing link ([MS-MQDMPR] 3.1.1.8)."""
SUB_AUTHORITIES_MAX: Final = 15
"""Most sub-authorities of a SID ([MS-DTYP] 2.4.2)."""
TIME_MIN: Final = -62_135_596_800
TIME_MAX: Final = 253_402_300_799
"""Last second since 1970 that a GeneralizedTime can hold (years 1 to 9999)."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}|0[xX][0-9A-Fa-f]{1,16}")
_GUID: Final = re.compile(r"(\{)?[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?(1)\})")
# leading zeros are refused: two texts of one SID would not be equal
_SID: Final = re.compile(
    r"S-1-(?:(?:0|[1-9][0-9]{0,9})|0[xX][0-9A-Fa-f]{12})((?:-(?:0|[1-9][0-9]{0,9}))*)", re.IGNORECASE
)
_DIGEST_HEX: Final = re.compile(r"[0-9A-Fa-f]{32}")

_E = TypeVar("_E", bound=IntEnum)
_T = TypeVar("_T")
_Read = TypeVar("_Read")
_Given = TypeVar("_Given")
_Compared = TypeVar("_Compared")
_Owner = TypeVar("_Owner")


def attribute_name(field: str) -> str:
    """Return the specification's name of a field.

    ``"base_priority"`` gives ``"BasePriority"``.
    """
    return "".join("LDAP" if part == "ldap" else part.capitalize() for part in field.split("_"))


def _make_problem(words: str) -> ValueError:
    """Return the error for a refused value.

    Wrong types have the same kind of error as wrong values.
    """
    return ValueError(words)


def make_refusal(problem: str) -> PydanticCustomError:
    """Return the error (a ValueError) that refuses a value of an element."""
    return PydanticCustomError("refused", "{problem}", {"problem": problem})


def describe_problems(error: ValidationError) -> str:
    """Return the problems of a validation error in one line.

    The line has none of pydantic's own words.
    """
    return "; ".join(problem["msg"] for problem in error.errors(include_url=False, include_input=False))


@lru_cache(maxsize=64, typed=True)  # typed: members of different enumerations are equal as numbers
def spec_name(member: Enum) -> str:
    """Return the specification's name of an enumeration's member.

    ``WIN_SERVER`` gives ``WinServer``.
    """
    aliases = [name for name, same in type(member).__members__.items() if same is member]
    return aliases[1] if len(aliases) > 1 else member.name.title()


def text(units_max: int | None = None, *, units_min: int = 0) -> Callable[[Any], str]:
    """Make a validator of texts.

    The limits are for their length in UTF-16 code units.
    """

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise _make_problem(f"must be text, not {type(value).__name__}")
        if "\0" in value:
            raise _make_problem("contains NUL, which no directory can hold")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise _make_problem("contains half of a surrogate pair")
        length = units_of(value)
        if length < units_min:
            raise _make_problem("may not be empty")
        if units_max is not None and length > units_max:
            raise _make_problem(f"is {length} UTF-16 code units long: the limit is {units_max}")
        return str(value)

    return check


def integer(lowest: int, highest: int) -> Callable[[Any], int]:
    """Make a validator of whole numbers within the limits.

    The validator also accepts their decimal or 0x text.
    """

    def check(value: Any) -> int:
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value, 16 if value[:2] in {"0x", "0X"} else 10)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _make_problem(f"must be a whole number, not {value!r}")
        if not lowest <= value <= highest:
            raise _make_problem(f"is {value}: {lowest} to {highest} are allowed")
        return int(value)

    return check


def blob(bytes_max: int | None = None) -> Callable[[Any], bytes]:
    """Make a validator of byte strings.

    The validator accepts bytes, base64 text, or an object with ``__bytes__``.
    """

    def check(value: Any) -> bytes:
        data = _bytes_of(value)
        if bytes_max is not None and len(data) > bytes_max:
            raise _make_problem(f"is {len(data)} bytes long: the limit is {bytes_max}")
        return data

    return check


def member_of(enumeration: type[_E]) -> Callable[[Any], _E]:
    """Make a validator of an enumeration's members.

    The validator also accepts their numbers, and any of their names (M25).
    """
    by_name = {_normalize_name(name): member for name, member in enumeration.__members__.items()}
    if enumeration is OperatingSystemType:
        by_name["windows95"] = by_name["win95"]
    names = ", ".join(spec_name(member) for member in enumeration)

    def check(value: Any) -> _E:
        if isinstance(value, str):
            named = by_name.get(_normalize_name(value))
            if named is not None:
                return named
            value = int(value, 0) if _INTEGER.fullmatch(value) and not _has_leading_zero(value) else value
        if isinstance(value, int) and not isinstance(value, bool) and value in list(enumeration):
            return enumeration(value)
        raise _make_problem(f"is {value!r}: one of {names} is expected")

    return check


def make_tuple_validator(item: Callable[[Any], _T]) -> Callable[[Any], tuple[_T, ...]]:
    """Make a validator of lists and tuples whose items pass another validator."""

    def check(value: Any) -> tuple[_T, ...]:
        if not isinstance(value, list | tuple):
            raise _make_problem(f"must be a list, not {type(value).__name__}")
        return tuple(item(each) for each in value)

    return check


def boolean(value: Any) -> bool:
    """Validate a truth value: True, False, or these words in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise _make_problem(f"must be true or false, not {value!r}")


def guid(value: Any) -> uuid.UUID:
    """Validate a GUID; bytes are refused, because their order is unknown."""
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, str) and _GUID.fullmatch(value):
        return uuid.UUID(value)
    raise _make_problem(f"must be a GUID as 01234567-89ab-cdef-0123-456789abcdef, not {value!r}")


def seconds(value: Any) -> int:
    """Validate a time: seconds since 1970, or a datetime with a time zone.

    The seconds count from 1970-01-01T00:00Z.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise _make_problem("is a datetime without a time zone")
        value = (value - _EPOCH) // timedelta(seconds=1)  # exact, and downwards before 1970 too
    return integer(TIME_MIN, TIME_MAX)(value)


def time_of_seconds(value: int | None) -> datetime | None:
    """Return a time in seconds since 1970 as a datetime in UTC; None for None."""
    return None if value is None else _EPOCH + timedelta(seconds=value)


def security_identifier(value: Any) -> str:
    """Validate a SID in its text form ([MS-DTYP] 2.4.2.1).

    An object whose text is a SID is accepted, too.
    """
    words = str(value)
    match = _SID.fullmatch(words)
    if match is None:
        raise _make_problem(f"must be a SID as S-1-5-21-1-2-3-1001, not {words!r}")
    numbers = match[1].split("-")[1:]
    if len(numbers) > SUB_AUTHORITIES_MAX or any(int(number) > UNSIGNED_MAX for number in numbers):
        raise _make_problem(f"{words!r} is no SID: at most {SUB_AUTHORITIES_MAX} sub-authorities of 32 bits")
    return "S" + words[1:]


def distinguished_name(value: Any) -> str:
    """Validate a distinguished name; its spelling is kept."""
    words = str(value) if isinstance(value, DN) else text(units_min=1)(value)
    try:
        DN.parse(words)
    except ValueError as error:
        raise _make_problem(f"must be a distinguished name: {error}") from None
    return words


def path_name(value: Any) -> str:
    """Validate a path name by the rules that hold for all stored path names (M7)."""
    words = str(value) if isinstance(value, PathName) else text()(value)
    PathName.parse_stored(words)
    return words


def qualified_path_name(value: Any) -> str:
    """Validate a path name with a DNS name.

    The path name is empty where the computer has no DNS name.
    """
    return "" if value == "" else path_name(value)


def multicast_address(value: Any) -> str:
    """Validate ``address:port``, or an empty text."""
    words = text()(value)
    if words:
        MulticastFormatName.parse_address(words)
    return words


def digest(value: Any) -> bytes:
    """Validate an MD5 digest.

    A digest is 16 bytes, a GUID of these bytes, or their hexadecimal digits.
    """
    if isinstance(value, uuid.UUID):
        return value.bytes_le
    if isinstance(value, str) and _DIGEST_HEX.fullmatch(value):
        return bytes.fromhex(value)
    data = _bytes_of(value)
    if len(data) != DIGEST_BYTES:
        raise _make_problem(f"is {len(data)} bytes long: a digest has {DIGEST_BYTES}")
    return data


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except ValueError:
            raise _make_problem("must be bytes, or base64 text") from None
    if isinstance(value, SupportsBytes) and not isinstance(value, uuid.UUID):
        return bytes(value)
    raise _make_problem(f"must be bytes, or base64 text, not {type(value).__name__}")


def _normalize_name(name: str) -> str:
    return name.replace("_", "").replace(" ", "").lower()


def _has_leading_zero(digits: str) -> bool:
    return len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"


def _encode_base64(value: bytes) -> str:
    return b64encode(value).decode()


def _format_hex_digits(value: tuple[bytes, ...]) -> list[str]:
    return [each.hex() for each in value]


def _name_member(value: object) -> object:
    return spec_name(value) if isinstance(value, Enum) else value


def _format_guids(value: tuple[uuid.UUID, ...]) -> list[str]:
    return [str(each) for each in value]


_as_base64: Final = PlainSerializer(_encode_base64, when_used="json")
_as_name: Final = PlainSerializer(_name_member, when_used="json")


def _name_attribute(info: ValidationInfo) -> str:
    return attribute_name(info.field_name or "value")


def _make_validator(
    check: Callable[[Any], object], stored: Callable[[Any], object] | None = None
) -> PlainValidator:
    """Make the validator of a field; its errors begin with the attribute's name.

    Args:
        check: for assigned values.
        stored: for values from a directory, in JSON: checks only the type; None: `check`.
    """

    def validate(value: Any, info: ValidationInfo) -> object:
        if value is None:
            raise make_refusal(f"{_name_attribute(info)} may not be None: leave it out, or unset() it")
        as_stored = isinstance(info.context, Memory) and _name_attribute(info) not in info.context.assigned
        try:
            return (stored or check)(value) if as_stored else check(value)
        except ValueError as error:
            raise make_refusal(f"{_name_attribute(info)} {error}") from None

    return PlainValidator(validate)


def _accept_any_text(value: Any) -> str:
    """Validate a text from a directory: any text."""
    if not isinstance(value, str):
        raise _make_problem(f"must be text, not {type(value).__name__}")
    return value


_any_integer: Final = integer(-(2**63), 2**63 - 1)

# Type checkers see descriptors: of a class they give the attribute's expression, of an element its value.
# Many accept more than they return.
if TYPE_CHECKING:
    from mqdssm.model.expressions import (
        Attribute,
        BooleanAttribute,
        ListAttribute,
        OrderedAttribute,
        TextAttribute,
    )

    class PlainField(Generic[_Read, _Given, _Compared]):
        """Field for type checkers: the types it returns, accepts and compares with."""

        @overload
        def __get__(self, element: None, owner: type[_Owner]) -> Attribute[_Owner, _Compared]: ...
        @overload
        def __get__(self, element: object, owner: Any) -> _Read: ...
        def __get__(self, element: object, owner: Any) -> Any: ...

        def __set__(self, element: object, value: _Given) -> None: ...

    class OrderedField(PlainField[_Read, _Given, _Compared]):
        """Field with values that have an order."""

        @overload
        def __get__(self, element: None, owner: type[_Owner]) -> OrderedAttribute[_Owner, _Compared]: ...
        @overload
        def __get__(self, element: object, owner: Any) -> _Read: ...
        def __get__(self, element: object, owner: Any) -> Any: ...

    class TextField(PlainField[_Read, _Given, _Compared]):
        """Field with text."""

        @overload
        def __get__(self, element: None, owner: type[_Owner]) -> TextAttribute[_Owner, _Compared]: ...
        @overload
        def __get__(self, element: object, owner: Any) -> _Read: ...
        def __get__(self, element: object, owner: Any) -> Any: ...

    class BooleanField(PlainField[_Read, _Given, bool]):
        """Field with a truth value."""

        @overload
        def __get__(self, element: None, owner: type[_Owner]) -> BooleanAttribute[_Owner]: ...
        @overload
        def __get__(self, element: object, owner: Any) -> _Read: ...
        def __get__(self, element: object, owner: Any) -> Any: ...

    class ListField(PlainField[_Read, _Given, Sequence[_Compared]], Generic[_Read, _Given, _Compared]):
        """Field with a list; the third type is that of an item."""

        @overload
        def __get__(self, element: None, owner: type[_Owner]) -> ListAttribute[_Owner, _Compared]: ...
        @overload
        def __get__(self, element: object, owner: Any) -> _Read: ...
        def __get__(self, element: object, owner: Any) -> Any: ...

    GivenGuids = list[uuid.UUID] | list[str] | tuple[uuid.UUID | str, ...]
    GivenDigests = list[bytes] | list[str] | list[uuid.UUID] | tuple[bytes | str | uuid.UUID, ...]
    GivenBytes = bytes | bytearray | memoryview | str | SupportsBytes

    Text = TextField[str, str, str]
    Label = TextField[str, str, str]
    Description = TextField[str, str, str]
    MulticastAddress = TextField[str, str, str]
    OptionalText = TextField[str | None, str | None, str]
    OptionalName = TextField[str | None, str | None, str]
    Path = TextField[str, str | PathName, str | PathName]
    OptionalPath = TextField[str | None, str | PathName | None, str | PathName]
    QualifiedPath = TextField[str, str | PathName, str | PathName]
    OptionalQualifiedPath = TextField[str | None, str | PathName | None, str | PathName]
    DnText = TextField[str, str | DN, str | DN]
    OptionalDnText = TextField[str | None, str | DN | None, str | DN]
    SidText = PlainField[str, object, object]  # any object whose text is a SID
    OptionalSidText = PlainField[str | None, object, object]
    Boolean = BooleanField[bool, bool]
    OptionalBoolean = BooleanField[bool | None, bool | None]
    Unsigned = OrderedField[int, int, int]
    BasePriority = OrderedField[int, int, int]
    OptionalCost = OrderedField[int | None, int | None, int]
    Seconds = OrderedField[int, int | datetime, int | datetime]
    OptionalSeconds = OrderedField[int | None, int | datetime | None, int | datetime]
    Guid = PlainField[uuid.UUID, uuid.UUID | str, uuid.UUID | str]
    OptionalGuid = PlainField[uuid.UUID | None, uuid.UUID | str | None, uuid.UUID | str]
    Guids = ListField[tuple[uuid.UUID, ...], GivenGuids, uuid.UUID | str]
    Blob = PlainField[bytes, GivenBytes, GivenBytes]
    CertificateBlob = PlainField[bytes, GivenBytes, GivenBytes]
    OptionalBlob = PlainField[bytes | None, GivenBytes | None, GivenBytes]
    Digests = ListField[tuple[bytes, ...], GivenDigests, bytes | str | uuid.UUID]
    PrivacyLevelValue = OrderedField[PrivacyLevel, PrivacyLevel | int | str, PrivacyLevel | int | str]
    OperatingSystemTypeValue = OrderedField[
        OperatingSystemType, OperatingSystemType | int | str, OperatingSystemType | int | str
    ]
    OptionalDirectoryServerTypeValue = OrderedField[
        DirectoryServerType | None,
        DirectoryServerType | int | str | None,
        DirectoryServerType | int | str,
    ]
else:
    Text = Annotated[str, _make_validator(text(), _accept_any_text)]
    Label = Annotated[str, _make_validator(text(LABEL_UNITS_MAX), _accept_any_text)]
    Name = Annotated[str, _make_validator(text(COMMON_NAME_UNITS_MAX, units_min=1), _accept_any_text)]
    Description = Annotated[str, _make_validator(text(DESCRIPTION_UNITS_MAX), _accept_any_text)]
    MulticastAddress = Annotated[str, _make_validator(multicast_address, _accept_any_text)]
    Boolean = Annotated[bool, _make_validator(boolean)]
    Unsigned = Annotated[int, _make_validator(integer(0, UNSIGNED_MAX))]
    BasePriority = Annotated[
        int, _make_validator(integer(BASE_PRIORITY_MIN, BASE_PRIORITY_MAX), _any_integer)
    ]
    Cost = Annotated[int, _make_validator(integer(COST_MIN, COST_MAX), _any_integer)]
    Path = Annotated[str, _make_validator(path_name, _accept_any_text)]
    QualifiedPath = Annotated[str, _make_validator(qualified_path_name, _accept_any_text)]
    DnText = Annotated[str, _make_validator(distinguished_name, _accept_any_text)]
    SidText = Annotated[str, _make_validator(security_identifier, _accept_any_text)]
    Seconds = Annotated[int, _make_validator(seconds)]
    Guid = Annotated[uuid.UUID, _make_validator(guid), PlainSerializer(str, when_used="json")]
    Guids = Annotated[
        tuple[uuid.UUID, ...],
        _make_validator(make_tuple_validator(guid)),
        PlainSerializer(_format_guids, when_used="json"),
    ]
    Blob = Annotated[bytes, _make_validator(blob()), _as_base64]
    CertificateBlob = Annotated[bytes, _make_validator(blob(CERTIFICATES_BYTES_MAX), blob()), _as_base64]
    Digests = Annotated[
        tuple[bytes, ...],
        _make_validator(make_tuple_validator(digest)),
        PlainSerializer(_format_hex_digits, when_used="json"),
    ]
    PrivacyLevelValue = Annotated[PrivacyLevel, _make_validator(member_of(PrivacyLevel)), _as_name]
    OperatingSystemTypeValue = Annotated[
        OperatingSystemType, _make_validator(member_of(OperatingSystemType)), _as_name
    ]
    DirectoryServerTypeValue = Annotated[
        DirectoryServerType, _make_validator(member_of(DirectoryServerType)), _as_name
    ]
    OptionalText = Text | None
    OptionalName = Name | None
    OptionalPath = Path | None
    OptionalQualifiedPath = QualifiedPath | None
    OptionalDnText = DnText | None
    OptionalSidText = SidText | None
    OptionalBoolean = Boolean | None
    OptionalCost = Cost | None
    OptionalSeconds = Seconds | None
    OptionalGuid = Guid | None
    OptionalBlob = Blob | None
    OptionalDirectoryServerTypeValue = DirectoryServerTypeValue | None
