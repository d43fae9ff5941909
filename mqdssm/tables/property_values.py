"""Values of properties as octets, one form for each variant: what ``mqisExact`` keeps.

The forms are those of [MS-MQCN] 2.2.3, which replication messages use too: little-endian, no type, no
padding. A VT_LPWSTR ends with a NUL, so that even an empty text has octets.
"""

from collections.abc import Callable, Mapping
from struct import Struct, error
from types import MappingProxyType
from typing import Any, Final

from mqdssm.errors import MappingError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import INTEGERS, Propid, Variant

SHOWN_CHARS_MAX: Final = 60  # of a wrong value in a message
_COUNT: Final = Struct("<I")
_NUL: Final = b"\0\0"
_BLOB_VARIANTS: Final = (Variant.BLOB, Variant.BYTES)


def _integer(variant: Variant) -> Struct:
    low, high = INTEGERS[variant]
    letter = {1: "b", 2: "h", 4: "i", 8: "q"}[(high - low + 1).bit_length() // 8]
    return Struct("<" + (letter if low else letter.upper()))


_INTEGERS: Final[Mapping[Variant, Struct]] = MappingProxyType({one: _integer(one) for one in INTEGERS})


def _pack_integer(packing: Struct, value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return packing.pack(value)


def _pack_text(value: Any) -> bytes:
    if "\0" in value:
        raise ValueError
    return str(value).encode("utf-16-le", "surrogatepass") + _NUL


def _pack_guid(value: Any) -> bytes:
    return bytes(Guid(value))


def _pack_octets(value: Any) -> bytes:
    if not isinstance(value, bytes) or isinstance(value, Guid):
        raise TypeError
    return _COUNT.pack(len(value)) + value


def _pack_list(pack: Callable[[Any], bytes], value: Any) -> bytes:
    if not isinstance(value, tuple):
        raise TypeError
    return _COUNT.pack(len(value)) + b"".join(map(pack, value))


def packed(propid: Propid, value: PropertyValue) -> bytes:
    """The octets of a value ([MS-MQCN] 2.2.3).

    Raises:
        MappingError: it is no value of the property's variant.
    """
    variant = propid.variant
    try:
        if variant in INTEGERS:
            return _pack_integer(_INTEGERS[variant], value)
        match variant:
            case Variant.LPWSTR:
                return _pack_text(value)
            case Variant.CLSID:
                return _pack_guid(value)
            case Variant.CLSIDS:
                return _pack_list(_pack_guid, value)
            case Variant.LPWSTRS:
                return _pack_list(_pack_text, value)
            case _ if variant in _BLOB_VARIANTS:
                return _pack_octets(value)
    except (TypeError, ValueError, error):
        pass
    shown = repr(value)[:SHOWN_CHARS_MAX]
    raise MappingError(f"{propid.spec_name}: {shown} is no {variant}")


def unpacked(propid: Propid, octets: bytes) -> PropertyValue:
    """The value of some octets; what `packed` gives comes back bit for bit.

    Raises:
        MappingError: they are none of the property's variant.
    """
    variant = propid.variant
    try:
        if variant in INTEGERS:
            return int(_INTEGERS[variant].unpack(octets)[0])
        match variant:
            case Variant.LPWSTR:
                return _only(_texts(octets, 1))
            case Variant.CLSID:
                return Guid(octets)
            case Variant.CLSIDS:
                return _guids(octets)
            case Variant.LPWSTRS:
                return _texts(octets[_COUNT.size :], _COUNT.unpack_from(octets)[0])
            case _ if (
                variant in _BLOB_VARIANTS and _COUNT.unpack_from(octets)[0] == len(octets) - _COUNT.size
            ):
                return octets[_COUNT.size :]
    except (ValueError, error):
        pass
    raise MappingError(f"{propid.spec_name}: {octets[:SHOWN_CHARS_MAX]!r} is no {variant}")


def _only(texts: tuple[str, ...]) -> str:
    (text,) = texts
    return text


def _texts(octets: bytes, count: int) -> tuple[str, ...]:
    *texts, rest = octets.decode("utf-16-le", "surrogatepass").split("\0")
    if rest or len(texts) != count:
        raise ValueError
    return tuple(texts)


def _guids(octets: bytes) -> tuple[Guid, ...]:
    (count,) = _COUNT.unpack_from(octets)
    found = guids_of(octets[_COUNT.size :])
    if len(found) != count:
        raise ValueError
    return found


def guids_of(octets: bytes) -> tuple[Guid, ...]:
    """GUIDs that stand one behind the other, as one attribute keeps a list in order.

    Raises:
        ValueError: the last one is cut.
    """
    return tuple(Guid(octets[i : i + GUID_BYTES]) for i in range(0, len(octets), GUID_BYTES))
