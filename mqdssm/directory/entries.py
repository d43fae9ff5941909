"""Complete decoder of search result entries ([RFC4511] 4.5.2).

The faster decoder of `mqdssm.directory.rows` is compared with this one, and falls back to it. Decoding is
index arithmetic on one buffer, without copies except of the values. Every length is checked against its
parent. Values stay octets: the table of attributes gives their syntax.
"""

import re
from dataclasses import dataclass
from typing import Final

from mqdssm.directory.ber import NAME_BYTES_MAX, OCTET_STRING, SEQUENCE, SET, read_length
from mqdssm.directory.requests import LdapControl
from mqdssm.directory.responses import decode_controls
from mqdssm.errors import DecodeError, GenericDirectoryError
from mqdssm.model.dn import DN

_SECTION: Final = "[RFC4511] 4.5.2"
#: Attributes of one entry; the largest classes of Active Directory have some 500.
ATTRIBUTES_MAX: Final = 10_000
#: Values of one attribute: with 32 octets each they fill the largest message.
VALUES_MAX: Final = 2_000_000
#: Attribute descriptions that are remembered; a directory has a few hundred.
KEYS_MAX: Final = 4096
#: Longer descriptions are decoded each time, so that what is remembered stays small (octets).
KEY_BYTES_MAX: Final = 256

_RANGE: Final = re.compile(r"range=([0-9]+)-([0-9]+|\*)", re.IGNORECASE)
_DESCRIPTION: Final = re.compile(rb"[!-~]+")
_keys: dict[bytes, tuple[str, int]] = {}


class PartialValues(list[bytes]):
    """Some of the values of an attribute.

    The rest must be requested (``;range=`` of Active Directory).

    Attributes:
        next_index: the first value that is missing, counted from 0.
    """

    __slots__ = ("next_index",)

    def __init__(self, values: list[bytes], next_index: int) -> None:
        super().__init__(values)
        self.next_index = next_index


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry as the server sent it.

    Attributes:
        dn: its distinguished name, in the server's spelling.
        attributes: lower-case attribute description -> values. The option ``;binary`` is dropped;
            values of a ``;range=`` stand under the name itself, as `PartialValues` unless complete.
        controls: controls of the message, as the dereference control.
    """

    dn: str
    attributes: dict[str, list[bytes]]
    controls: tuple[LdapControl, ...] = ()

    def first(self, name: str) -> bytes | None:
        """Return the first value of an attribute (in any case); None if it has no value."""
        values = self.attributes.get(name.lower())
        return values[0] if values else None

    def all(self, name: str) -> list[bytes]:
        """Return all values of an attribute (in any case); empty if it has none."""
        return self.attributes.get(name.lower(), [])

    @property
    def name(self) -> DN:
        """Distinguished name of the entry, parsed.

        Raises:
            GenericDirectoryError: as `parse_name`.
        """
        return parse_name(self.dn)


def parse_name(dn: str) -> DN:
    """Parse a distinguished name that a server sent.

    Raises:
        GenericDirectoryError: it is none.
    """
    try:
        return DN.parse(dn)
    except ValueError as error:
        raise GenericDirectoryError(
            f"the server sent a name that is no distinguished name: {error}",
            dn=dn,
            hint="look at the object with another program: the server, or what is before it, damages names",
        ) from error


def is_name(dn: str, above: int = 0) -> bool:
    """Return True if a text is a distinguished name of more RDNs than `above`."""
    try:
        return len(DN.parse(dn)) > above
    except ValueError:
        return False


def decode_entry(buffer: bytes, start: int, end: int, stop: int | None = None) -> Entry:
    """Decode the content of a SearchResultEntry.

    Args:
        buffer: holds the message.
        start: first octet of the content (`Message.start`).
        end: first octet behind it (`Message.end`).
        stop: first octet behind the message (`Message.stop`); controls lie between `end` and it.

    Raises:
        DecodeError: it breaks its grammar, a length leaves its parent, a name is too long.
    """
    name, pairs = parse_entry(buffer, start, end)
    attributes: dict[str, list[bytes]] = {}
    for description, values in pairs:
        key, next_index = _keys.get(description) or parse_attribute_key(description)
        raws: list[bytes] = PartialValues(values, next_index) if next_index else values
        if key in attributes:
            raws = merge_values(attributes[key], raws)
        attributes[key] = raws
    controls = () if stop is None or stop == end else decode_controls(buffer, end, stop)
    return Entry(decode_dn(name, start), attributes, controls)


def parse_entry(buffer: bytes, start: int, end: int) -> tuple[bytes, list[tuple[bytes, list[bytes]]]]:
    """Return an entry's name and attributes as octets, in the server's order.

    Each attribute has its description and values.

    Raises:
        DecodeError: as `decode_entry`, except for the encoding of the names.
    """
    try:
        if buffer[start] != OCTET_STRING:
            raise _make_tag_error("objectName", buffer, start)
        size, name_start = read_length(buffer, start + 1, "objectName", _SECTION)
        name_end = name_start + size
        if size > NAME_BYTES_MAX or name_end >= end or buffer[name_end] != SEQUENCE:
            raise DecodeError(_SECTION, "attributes", name_end, "no list of attributes follows the name")
        size, position = read_length(buffer, name_end + 1, "attributes", _SECTION)
        if position + size != end:
            raise _make_length_error("attributes", position)
        return buffer[name_start:name_end], _parse_attributes(buffer, position, end)
    except IndexError:
        raise DecodeError(_SECTION, "attributes", len(buffer), "the buffer ends") from None


def _parse_attributes(buffer: bytes, position: int, end: int) -> list[tuple[bytes, list[bytes]]]:  # noqa: C901, PLR0912  lengths inline: calls cost most here
    """Parse a PartialAttributeList.

    Each attribute is ``30 len 04 len type 31 len { 04 len value }``.

    A length that leads out of its element is caught by the comparison of the ends: positions never
    move backwards.
    """
    attributes: list[tuple[bytes, list[bytes]]] = []
    while position < end:
        if buffer[position] != SEQUENCE:
            raise _make_tag_error("PartialAttribute", buffer, position)
        size = buffer[position + 1]
        position += 2
        if size > 0x7F:
            size, position = read_length(buffer, position - 1, "PartialAttribute", _SECTION)
        attribute_end = position + size
        if attribute_end > end:
            raise _make_length_error("PartialAttribute", position)
        if buffer[position] != OCTET_STRING:
            raise _make_tag_error("type", buffer, position)
        size = buffer[position + 1]
        position += 2
        if size > 0x7F:
            size, position = read_length(buffer, position - 1, "type", _SECTION)
            if size > NAME_BYTES_MAX:
                raise _make_length_error("type", position)
        name_end = position + size
        if name_end >= attribute_end or buffer[name_end] != SET:
            raise DecodeError(_SECTION, "vals", name_end, "no set of values follows the type")
        name = buffer[position:name_end]
        size = buffer[name_end + 1]
        position = name_end + 2
        if size > 0x7F:
            size, position = read_length(buffer, position - 1, "vals", _SECTION)
        if position + size != attribute_end:
            raise _make_length_error("vals", position)
        if 2 <= size < 0x82 and buffer[position + 1] == size - 2 and buffer[position] == OCTET_STRING:
            attributes.append((name, [buffer[position + 2 : attribute_end]]))  # one short value
        else:
            attributes.append((name, parse_values(buffer, position, attribute_end)))
        position = attribute_end
        if len(attributes) > ATTRIBUTES_MAX:
            raise DecodeError(_SECTION, "attributes", position, f"more than {ATTRIBUTES_MAX}")
    return attributes


def parse_values(buffer: bytes, position: int, end: int) -> list[bytes]:
    """Parse the values of a set whose content lies from `position` to `end`.

    Raises:
        DecodeError: something else than octet strings, or one that leaves the set.
        IndexError: the buffer ends inside (only when `end` lies at its end).
    """
    values: list[bytes] = []
    while position < end:
        if buffer[position] != OCTET_STRING:
            raise _make_tag_error("value", buffer, position)
        size = buffer[position + 1]
        position += 2
        if size > 0x7F:
            size, position = read_length(buffer, position - 1, "value", _SECTION)
        value_end = position + size
        if value_end > end:
            raise _make_length_error("value", position)
        values.append(buffer[position:value_end])
        if len(values) > VALUES_MAX:
            raise DecodeError(_SECTION, "vals", position, f"more than {VALUES_MAX} values")
        position = value_end
    return values


def _make_tag_error(field: str, buffer: bytes, position: int) -> DecodeError:
    return DecodeError(_SECTION, field, position, f"tag 0x{buffer[position]:02x}")


def _make_length_error(field: str, position: int) -> DecodeError:
    return DecodeError(_SECTION, field, position, "its length does not fit the element around it")


def decode_dn(octets: bytes, offset: int) -> str:
    """Decode a distinguished name from UTF-8.

    Raises:
        DecodeError: it is no UTF-8.
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise DecodeError(_SECTION, "objectName", offset, "is no UTF-8") from None


def parse_attribute_key(description: bytes) -> tuple[str, int]:
    """Return an attribute's key in `Entry.attributes`, and first missing value.

    The number is 0 if no value is missing.

    Raises:
        DecodeError: the description is empty or not of visible ASCII characters.
    """
    try:
        return _keys[description]
    except KeyError:
        pass
    if not _DESCRIPTION.fullmatch(description):
        raise DecodeError(_SECTION, "type", 0, f"{description[:40]!r} is no attribute description")
    name, *options = description.decode("ascii").lower().split(";")
    next_index = 0
    parts = [name]
    for option in options:
        if match := _RANGE.fullmatch(option):
            next_index = 0 if match.group(2) == "*" else int(match.group(2)[:10]) + 1
        elif option != "binary":
            parts.append(option)
    key = (";".join(parts), next_index)
    if len(description) <= KEY_BYTES_MAX:
        if len(_keys) >= KEYS_MAX:
            _keys.clear()
        _keys[description] = key
    return key


def merge_values(first_values: list[bytes], second_values: list[bytes]) -> list[bytes]:
    """Merge the values of an attribute that occurs twice.

    Active Directory sends such an attribute empty and as a range.
    """
    next_index = max(getattr(first_values, "next_index", 0), getattr(second_values, "next_index", 0))
    both = [*first_values, *second_values]
    return PartialValues(both, next_index) if next_index else both
