"""Property values as bytes, little-endian and without a tag ([MS-MQCN] 2.2.3).

The PROPID determines the type.

[MC-MQDSRP] 2.2.4 says only PROPVARIANT: the same form serves both protocols.
"""

from collections.abc import Mapping
from typing import Any, Final

from mqdssm.errors import DecodeError
from mqdssm.model.propids import PROPIDS, Propid, Variant
from mqdssm.wire import codecs
from mqdssm.wire.fields import Keyed
from mqdssm.wire.source import ENCODING_FAILURES, make_reader, make_writer

SECTION: Final = "[MS-MQCN] 2.2.3"

# No document gives limits. An MSMQ message holds at most 4 MiB, and no value is longer than its message
# (decision R24).
VALUE_BYTES_MAX: Final = 4 * 1024 * 1024
TEXT_UNITS_MAX: Final = 32_767
VECTOR_ITEMS_MAX: Final = 65_535

_TEXT: Final = codecs.Text16Z(TEXT_UNITS_MAX)

CODECS: Final[Mapping[Variant, codecs.Scalar | codecs.Codec]] = {
    Variant.I2: codecs.I16,  # 2.2.3.1
    Variant.I4: codecs.I32,  # 2.2.3.2
    Variant.BOOL: codecs.BOOL16,  # 2.2.3.3
    Variant.I1: codecs.I8,  # 2.2.3.4
    Variant.UI1: codecs.U8,  # 2.2.3.5
    Variant.UI2: codecs.U16,  # 2.2.3.6
    Variant.UI4: codecs.U32,  # 2.2.3.7
    Variant.I8: codecs.I64,  # 2.2.3.8
    Variant.UI8: codecs.U64,  # 2.2.3.9
    Variant.LPWSTR: _TEXT,  # 2.2.3.10
    Variant.BLOB: codecs.SizedBytes(codecs.U32, VALUE_BYTES_MAX),  # 2.2.3.11
    Variant.CLSID: codecs.GUID_PACKET,  # 2.2.3.12
    Variant.UI4S: codecs.Counted(codecs.U32, codecs.U32, VECTOR_ITEMS_MAX),  # 2.2.3.13
    Variant.CLSIDS: codecs.Counted(codecs.U32, codecs.GUID_PACKET, VECTOR_ITEMS_MAX),  # 2.2.3.14
    Variant.LPWSTRS: codecs.Counted(codecs.U32, _TEXT, VECTOR_ITEMS_MAX),  # 2.2.3.15
    Variant.BYTES: codecs.SizedBytes(codecs.U32, VALUE_BYTES_MAX),  # as the other vectors (decision R25)
}
"""Codec of the values of each variant, except VT_VARIANT, which no property of a directory object has."""
_READERS: Final = {variant: make_reader(codec) for variant, codec in CODECS.items()}
_WRITERS: Final = {variant: make_writer(codec) for variant, codec in CODECS.items()}

PROPERTY_CODECS: Final[Mapping[int, codecs.Scalar | codecs.Codec]] = {
    propid: CODECS[propid.variant] for propid in Propid
}
"""Codec of the value of each property of directory objects."""


def name_key(number: int) -> str:
    """Return the name of a property for messages, or its number if it has no name."""
    propid = PROPIDS.get(number)
    return str(number) if propid is None else propid.spec_name


def properties(name: str, spec_key: str = "PropertyID", spec: str = "PropertyValue") -> Keyed:
    """Make the field of a layout for a dataclass field of type `Properties`.

    The type is that of `mqdssm.model.messages`.

    Args:
        name: name of the dataclass's field.
        spec_key: name of the array of identifiers in the specification.
        spec: name of the array of values in the specification.
    """
    return Keyed(name, codecs.U32, PROPERTY_CODECS, spec, spec_key, name_key)


def decode_value(variant: Variant, data: bytes) -> Any:
    """Decode bytes that hold one value and nothing else.

    Raises:
        DecodeError: no value of this variant, or bytes left over.
        ValueError: a variant without a binary form, VT_VARIANT.
    """
    codec = CODECS.get(variant)
    if codec is None:
        raise _explain_no_form(variant)
    if isinstance(codec, codecs.Scalar) and len(data) < codec.size:
        raise DecodeError(SECTION, variant, 0, f"needs {codec.size} bytes, {len(data)} left")
    try:
        value, end = _READERS[variant](data, 0, len(data), SECTION, variant)
    except DecodeError:
        raise
    except ValueError as error:
        raise DecodeError(SECTION, variant, 0, str(error)) from None
    codecs.finish(SECTION, end, len(data))
    return value


def encode_value(variant: Variant, value: Any) -> bytes:
    """Encode one value.

    Raises:
        ValueError: the value does not fit the variant, or the variant has no binary form, VT_VARIANT.
    """
    write = _WRITERS.get(variant)
    if write is None:
        raise _explain_no_form(variant)
    try:
        return write(value)
    except ENCODING_FAILURES as error:
        raise ValueError(f"{value!r} is no {variant}: {error}") from None


def _explain_no_form(variant: Variant) -> ValueError:
    return ValueError(f"{variant} has no form in bytes")
