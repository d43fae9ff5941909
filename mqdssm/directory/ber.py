"""Basic Encoding Rules as far as LDAP uses them ([RFC4511] 5.1).

Every length is checked.

Only definite lengths of up to four octets and one-octet tags are supported: LDAP has no others. The
encoder writes the shortest lengths. The decoder accepts any form, since Active Directory writes
``84 xx xx xx xx`` throughout.
"""

from typing import Final

from mqdssm.errors import DecodeError

BOOLEAN: Final = 0x01
INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
ENUMERATED: Final = 0x0A
SEQUENCE: Final = 0x30
SET: Final = 0x31

#: Maximum length of a message ([RFC4511] gives no limit): far above the largest value in use.
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
#: Longest distinguished name, attribute description or object identifier that is accepted, in octets.
NAME_BYTES_MAX: Final = 64 * 1024
#: Integers of LDAP fit 32 bits; those inside controls (update sequence numbers) 64.
INTEGER_BYTES_MAX: Final = 8
LENGTH_OCTETS_MAX: Final = 4

_SECTION: Final = "[RFC4511] 5.1"
_SHORT: Final = tuple(bytes((n,)) for n in range(256))


def tlv(tag: int, content: bytes) -> bytes:
    """Encode an element: tag, shortest definite length, content.

    Raises:
        ValueError: the content is larger than any message may be.
    """
    size = len(content)
    if size < 0x80:
        return _SHORT[tag] + _SHORT[size] + content
    return _SHORT[tag] + encode_length(size) + content


def encode_length(size: int) -> bytes:
    """Encode a length in its shortest definite form.

    Raises:
        ValueError: `size` exceeds `MESSAGE_BYTES_MAX`.
    """
    if size < 0x80:
        return _SHORT[size]
    if size > MESSAGE_BYTES_MAX:
        raise ValueError(f"{size} bytes are more than an LDAP message may hold ({MESSAGE_BYTES_MAX})")
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return _SHORT[0x80 | len(octets)] + octets


def integer(value: int, tag: int = INTEGER) -> bytes:
    """Encode an integer in as few octets as possible; also ENUMERATED, by its tag."""
    if 0 <= value < 0x80:
        return _SHORT[tag] + b"\x01" + _SHORT[value]
    magnitude = value if value >= 0 else ~value
    return tlv(tag, value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True))


def boolean(value: bool, tag: int = BOOLEAN) -> bytes:
    """Encode a Boolean; TRUE is 0xFF ([RFC4511] 5.1, third restriction)."""
    return _SHORT[tag] + (b"\x01\xff" if value else b"\x01\x00")


def octet_string(value: bytes | str, tag: int = OCTET_STRING) -> bytes:
    """Encode an octet string; text is encoded as UTF-8.

    Raises:
        ValueError: text with a lone surrogate, which has no UTF-8.
    """
    return tlv(tag, value.encode() if isinstance(value, str) else value)


def sequence(*parts: bytes, tag: int = SEQUENCE) -> bytes:
    """Encode a constructed element from parts that are already encoded."""
    return tlv(tag, b"".join(parts))


def read_length(buffer: bytes, position: int, field: str, section: str = _SECTION) -> tuple[int, int]:
    """Read the length octets at `position`.

    Returns:
        The length, and the position behind its octets.

    Raises:
        DecodeError: an indefinite form, more than four octets, or the buffer ends.
    """
    try:
        size = buffer[position]
        position += 1
        if size < 0x80:
            return size, position
        if size == 0x84 and position + 4 <= len(buffer):
            return int.from_bytes(buffer[position : position + 4], "big"), position + 4
        count = size & 0x7F
        if not 0 < count <= LENGTH_OCTETS_MAX:
            kind = "indefinite length" if count == 0 else f"length of {count} octets"
            raise DecodeError(
                section, field, position - 1, f"{kind}, at most {LENGTH_OCTETS_MAX} are allowed"
            )
        stop = position + count
        if stop > len(buffer):
            raise DecodeError(section, field, position, "ends inside its length")
        return int.from_bytes(buffer[position:stop], "big"), stop
    except IndexError:
        raise DecodeError(section, field, position, "ends before its length") from None


class BerReader:
    """Reader of the elements in one constructed element.

    No length may exceed its parent.

    Attributes:
        buffer: the octets of the whole message, never copied.
        position: where the next element begins.
        end: the first octet behind the last element.
        section: where the structure is specified; it stands in the errors.
    """

    __slots__ = ("buffer", "end", "position", "section")

    def __init__(self, buffer: bytes, position: int, end: int, section: str = _SECTION) -> None:
        self.buffer = buffer
        self.position = position
        self.end = end
        self.section = section
        if not 0 <= position <= end <= len(buffer):
            raise DecodeError(section, "span", position, f"{position}..{end} of {len(buffer)} octets")

    @classmethod
    def of(cls, value: bytes, section: str = _SECTION) -> "BerReader":
        """Return a reader of all of `value`."""
        return cls(value, 0, len(value), section)

    def has_more(self) -> bool:
        """Return True if another element follows."""
        return self.position < self.end

    def at(self, tag: int) -> bool:
        """Return True if the next element, an OPTIONAL one, exists with this tag."""
        return self.position < self.end and self.buffer[self.position] == tag

    def span(self, tag: int, field: str) -> tuple[int, int]:
        """Skip the next element; return the start and end of its content.

        The element must have this tag.
        """
        position = self.position
        if position >= self.end:
            raise DecodeError(self.section, field, position, "is missing")
        tag_found = self.buffer[position]
        if tag_found != tag:
            raise DecodeError(self.section, field, position, f"tag 0x{tag_found:02x} instead of 0x{tag:02x}")
        size, start = read_length(self.buffer, position + 1, field, self.section)
        stop = start + size
        if stop > self.end:
            octets_left = max(self.end - start, 0)
            raise DecodeError(self.section, field, position, f"needs {size} octets, {octets_left} left")
        self.position = stop
        return start, stop

    def enter(self, tag: int, field: str) -> "BerReader":
        """Return a reader of the elements inside the next element."""
        start, stop = self.span(tag, field)
        return BerReader(self.buffer, start, stop, self.section)

    def octets(self, field: str, tag: int = OCTET_STRING) -> bytes:
        """Read the next element as octets."""
        start, stop = self.span(tag, field)
        return self.buffer[start:stop]

    def name(self, field: str, tag: int = OCTET_STRING) -> str:
        """Read the next element as UTF-8 text of at most `NAME_BYTES_MAX` octets."""
        start, stop = self.span(tag, field)
        if stop - start > NAME_BYTES_MAX:
            raise DecodeError(
                self.section, field, start, f"{stop - start} octets, more than {NAME_BYTES_MAX}"
            )
        try:
            return self.buffer[start:stop].decode()
        except UnicodeDecodeError:
            raise DecodeError(self.section, field, start, "is no UTF-8") from None

    def words(self, field: str, tag: int = OCTET_STRING) -> str:
        """Read the next element as text for people.

        Octets that are no UTF-8 become hexadecimal escapes.
        """
        return self.octets(field, tag).decode(errors="backslashreplace")

    def integer(self, field: str, tag: int = INTEGER) -> int:
        """Read the next element as a signed integer, at most `INTEGER_BYTES_MAX` long.

        The length counts octets.
        """
        start, stop = self.span(tag, field)
        if not 1 <= stop - start <= INTEGER_BYTES_MAX:
            raise DecodeError(self.section, field, start, f"an integer of {stop - start} octets")
        return int.from_bytes(self.buffer[start:stop], "big", signed=True)

    def boolean(self, field: str, tag: int = BOOLEAN) -> bool:
        """Read the next element as a Boolean; any octet but zero is true, as in BER."""
        start, stop = self.span(tag, field)
        if stop - start != 1:
            raise DecodeError(self.section, field, start, f"a Boolean of {stop - start} octets")
        return self.buffer[start] != 0

    def finish(self, field: str) -> None:
        """Raise DecodeError if elements follow the last specified one."""
        if self.position != self.end:
            octets_left = self.end - self.position
            raise DecodeError(self.section, field, self.position, f"{octets_left} octets too many")
