"""Decoding of LDAP answers: messages, results, controls ([RFC4511] 4).

The messages come from a stream.

For any input these functions raise nothing but `DecodeError`, and no message makes them
keep more than `ber.MESSAGE_BYTES_MAX` octets.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from mqdssm.directory.ber import (
    ENUMERATED,
    INTEGER,
    LENGTH_OCTETS_MAX,
    MESSAGE_BYTES_MAX,
    SEQUENCE,
    BerReader,
    integer,
    octet_string,
    read_length,
    sequence,
)
from mqdssm.directory.requests import DEREF_OID, MESSAGE_ID_MAX, PAGED_RESULTS_OID, LdapControl
from mqdssm.errors import DecodeError

BIND_RESPONSE: Final = 0x61
SEARCH_ENTRY: Final = 0x64
SEARCH_DONE: Final = 0x65
MODIFY_RESPONSE: Final = 0x67
ADD_RESPONSE: Final = 0x69
DELETE_RESPONSE: Final = 0x6B
MODIFY_DN_RESPONSE: Final = 0x6D
COMPARE_RESPONSE: Final = 0x6F
SEARCH_REFERENCE: Final = 0x73
EXTENDED_RESPONSE: Final = 0x78
INTERMEDIATE_RESPONSE: Final = 0x79

#: The answers that consist of an LDAPResult.
RESULT_TAGS: Final = frozenset(
    {
        BIND_RESPONSE,
        SEARCH_DONE,
        MODIFY_RESPONSE,
        ADD_RESPONSE,
        DELETE_RESPONSE,
        MODIFY_DN_RESPONSE,
        COMPARE_RESPONSE,
        EXTENDED_RESPONSE,
    }
)

_MESSAGE: Final = "[RFC4511] 4.1.1"
_CONTROL: Final = "[RFC4511] 4.1.11"
_DEREF: Final = "draft-masarati-ldap-deref 2.3"
_RESULT: Final = "[RFC4511] 4.1.9"
_SUCCESS: Final = b"\x0a\x01\x00\x04\x00\x04\x00"
"""LDAPResult of nearly all answers: success, no name, no text."""
CONTROLS_TAG: Final = 0xA0
_REFERRAL_TAG: Final = 0xA3
_SASL_CREDENTIALS_TAG: Final = 0x87
_RESPONSE_NAME_TAG: Final = 0x8A
_RESPONSE_VALUE_TAG: Final = 0x8B
_ATTRIBUTES_TAG: Final = 0xA0
_NO_COOKIE: Final = sequence(integer(0), octet_string(b""))
"""Value of the control of [RFC2696] on the last page."""
_LAST_PAGE: Final = (LdapControl(PAGED_RESULTS_OID, critical=False, value=_NO_COOKIE),)
"""Controls of the results of most searches."""
_LAST_PAGE_OCTETS: Final = sequence(
    sequence(octet_string(PAGED_RESULTS_OID), octet_string(_NO_COOKIE)), tag=CONTROLS_TAG
)
#: Controls on one message; servers send one or two.
CONTROLS_MAX: Final = 64
#: URIs of one referral.
REFERRALS_MAX: Final = 1024
#: Entries that one dereference control tells of; a distribution list may have thousands of members.
DEREFERENCED_MAX: Final = 100_000


_ID_BYTES_MAX: Final = 4
#: Octets of a message in which id, tag and length have room, however long they are.
_EASY_BYTES_MIN: Final = 2 + _ID_BYTES_MAX + 2 + LENGTH_OCTETS_MAX


class MessageBounds(NamedTuple):
    """Position of an LDAPMessage in its buffer.

    Attributes:
        id: the message id; 0 is an unsolicited notification.
        tag: of the operation, as `SEARCH_ENTRY`.
        start: first octet of the operation's content.
        end: first octet behind it; controls lie from here to `stop`.
        stop: first octet behind the message.
    """

    id: int
    tag: int
    start: int
    end: int
    stop: int


@dataclass(frozen=True, slots=True)
class LdapResult:
    """LDAPResult with its controls and response values ([RFC4511] 4.1.9, 4.12).

    Attributes:
        code: the result code, as the server sent it.
        matched_dn: the deepest entry that exists, where the server says so.
        text: the server's own words; octets that are no UTF-8 are escaped.
        referrals: URIs; nothing in mqdssm follows them.
        controls: the controls of the answer.
        response_name: of an extended answer, else empty.
        response_value: of an extended answer, else None.
    """

    code: int
    matched_dn: str = ""
    text: str = ""
    referrals: tuple[str, ...] = ()
    controls: tuple[LdapControl, ...] = ()
    response_name: str = ""
    response_value: bytes | None = None

    def control(self, oid: str) -> LdapControl | None:
        """Return the control with an OID; None if the answer has none."""
        return next((control for control in self.controls if control.oid == oid), None)


@dataclass(frozen=True, slots=True)
class Dereferenced:
    """Entry named by a DN-valued attribute, as returned together with the attribute.

    Attributes:
        dn: the value of the DN-valued attribute.
        attributes: lower-case name -> values; empty when the entry does not exist or may not be read.
        identity_only: nothing but its objectGUID is known: not even its class was asked for.
    """

    dn: str
    attributes: dict[str, list[bytes]]
    identity_only: bool = False


def split_messages(buffer: bytes, position: int = 0) -> tuple[list[MessageBounds], int]:
    """Split received octets into messages.

    Args:
        buffer: octets of the stream; the first message begins at `position`.
        position: where to begin.

    Returns:
        The whole messages in order, and where the first incomplete one begins.

    Raises:
        DecodeError: the stream is no LDAP, or a message is larger than `MESSAGE_BYTES_MAX`.
    """
    messages: list[MessageBounds] = []
    append, available = messages.append, len(buffer)
    new, number_of = tuple.__new__, int.from_bytes
    while position + 1 < available:
        if buffer[position] != SEQUENCE:
            raise DecodeError(_MESSAGE, "LDAPMessage", position, f"tag 0x{buffer[position]:02x}")
        size = buffer[position + 1]
        start = position + 2
        if size > 0x7F:
            if size > 0x7F + 1 + LENGTH_OCTETS_MAX or size == 0x80:
                raise DecodeError(_MESSAGE, "LDAPMessage", position + 1, f"length octet 0x{size:02x}")
            start += size & 0x7F
            if start > available:
                break
            size = int.from_bytes(buffer[position + 2 : start], "big")
            if size > MESSAGE_BYTES_MAX:
                raise DecodeError(_MESSAGE, "LDAPMessage", position, f"{size} octets are too many")
        stop = start + size
        if stop > available:
            break
        position = stop
        width = buffer[start + 1] if size >= _EASY_BYTES_MIN and buffer[start] == INTEGER else 0
        if 0 < width <= _ID_BYTES_MAX:
            # fast path for nearly all messages, without a call
            at = start + 2 + width
            tag, length, begin = buffer[at], buffer[at + 1], at + 2
            if 0x80 < length <= 0x80 + LENGTH_OCTETS_MAX:
                begin += length & 0x7F
                length = number_of(buffer[at + 2 : begin], "big")
                is_easy = begin + length <= stop
            else:
                is_easy = length < 0x80 and begin + length <= stop
            number = number_of(buffer[start + 2 : at], "big")
            if is_easy and number <= MESSAGE_ID_MAX:
                append(new(MessageBounds, (number, tag, begin, begin + length, stop)))
                continue
        append(_parse_message(buffer, start, stop))
    return messages, position


def _parse_message(buffer: bytes, position: int, stop: int) -> MessageBounds:
    """Parse the fields of the message whose content lies from `position` to `stop`."""
    try:
        width = buffer[position + 1]
        start = position + 2 + width
        if buffer[position] != INTEGER or not 0 < width <= _ID_BYTES_MAX:
            raise DecodeError(_MESSAGE, "messageID", position, "is no integer of 1 to 4 octets")
        number = int.from_bytes(buffer[position + 2 : start], "big")
        tag = buffer[start]
        size = buffer[start + 1]
    except IndexError:
        raise DecodeError(_MESSAGE, "messageID", position, "is cut off") from None
    start += 2
    if size > 0x7F:
        size, start = read_length(buffer, start - 1, "protocolOp", _MESSAGE)
    end = start + size
    if end > stop:
        raise DecodeError(_MESSAGE, "protocolOp", start, f"needs {size} octets, {max(stop - start, 0)} left")
    if number > MESSAGE_ID_MAX:
        raise DecodeError(_MESSAGE, "messageID", position, "is negative")
    return MessageBounds(number, tag, start, end, stop)


class MessageSplitter:
    """Splits a stream of octets into messages.

    The octets of a long message are joined only once.

    Attributes:
        pending: octets received that belong to a message not yet complete.
    """

    __slots__ = ("_needed", "_pieces", "pending")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._needed = 2
        self.pending = 0

    def feed(self, data: bytes) -> tuple[bytes, list[MessageBounds]]:
        """Take received octets and return the complete messages.

        Returns:
            A buffer and the messages that lie in it; both are empty while the next one is incomplete.

        Raises:
            DecodeError: as `split_messages`.
        """
        self._pieces.append(data)
        self.pending += len(data)
        if self.pending < self._needed:
            return b"", []
        buffer = data if len(self._pieces) == 1 else b"".join(self._pieces)
        messages, position = split_messages(buffer)
        remainder = buffer[position:]
        self._pieces = [remainder] if remainder else []
        self.pending = len(remainder)
        self._needed = _size_of_first(remainder)
        return (buffer, messages) if messages else (b"", [])


def _size_of_first(buffer: bytes) -> int:
    """Return the octets of the message at the start of `buffer`.

    If the header is incomplete, its octets are returned.
    """
    if len(buffer) < 2:
        return 2
    width = buffer[1] & 0x7F if buffer[1] > 0x7F else 0
    if len(buffer) < 2 + width:
        return 2 + width
    size = int.from_bytes(buffer[2 : 2 + width], "big") if width else buffer[1]
    return 2 + width + size


def decode_result(buffer: bytes, message: MessageBounds) -> LdapResult:
    """Decode an answer that consists of an LDAPResult.

    Raises:
        DecodeError: another kind of answer, or one that breaks its grammar.
    """
    if message.tag not in RESULT_TAGS:
        raise DecodeError(_RESULT, "protocolOp", message.start, f"tag 0x{message.tag:02x} is no result")
    if buffer[message.start : message.end] == _SUCCESS:
        return LdapResult(0, "", "", (), decode_controls(buffer, message.end, message.stop))
    reader = BerReader(buffer, message.start, message.end, _RESULT)
    code = reader.integer("resultCode", ENUMERATED)
    matched_dn = reader.words("matchedDN")
    text = reader.words("diagnosticMessage")
    referrals: list[str] = []
    if reader.at(_REFERRAL_TAG):
        uris = reader.enter(_REFERRAL_TAG, "referral")
        while uris.has_more():
            if len(referrals) == REFERRALS_MAX:
                raise DecodeError(_RESULT, "referral", uris.position, f"more than {REFERRALS_MAX}")
            referrals.append(uris.words("URI"))
    name, value = "", None
    if message.tag == BIND_RESPONSE and reader.at(_SASL_CREDENTIALS_TAG):
        value = reader.octets("serverSaslCreds", _SASL_CREDENTIALS_TAG)
    if message.tag == EXTENDED_RESPONSE:
        if reader.at(_RESPONSE_NAME_TAG):
            name = reader.words("responseName", _RESPONSE_NAME_TAG)
        if reader.at(_RESPONSE_VALUE_TAG):
            value = reader.octets("responseValue", _RESPONSE_VALUE_TAG)
    reader.finish("LDAPResult")
    controls = decode_controls(buffer, message.end, message.stop)
    return LdapResult(code, matched_dn, text, tuple(referrals), controls, name, value)


def decode_controls(buffer: bytes, position: int, stop: int) -> tuple[LdapControl, ...]:
    """Decode the controls behind a message's operation ([RFC4511] 4.1.11).

    Usually there are none.

    Raises:
        DecodeError: it breaks its grammar, or there are more than `CONTROLS_MAX`.
    """
    if position == stop:
        return ()
    if buffer[position:stop] == _LAST_PAGE_OCTETS:
        return _LAST_PAGE
    outer = BerReader(buffer, position, stop, _CONTROL)
    reader = outer.enter(CONTROLS_TAG, "controls")
    outer.finish("LDAPMessage")
    controls: list[LdapControl] = []
    while reader.has_more():
        if len(controls) == CONTROLS_MAX:
            raise DecodeError(_CONTROL, "controls", reader.position, f"more than {CONTROLS_MAX}")
        item = reader.enter(SEQUENCE, "control")
        oid = item.name("controlType")
        critical = item.boolean("criticality") if item.at(0x01) else False
        value = item.octets("controlValue") if item.has_more() else None
        item.finish("control")
        controls.append(LdapControl(oid, critical, value))
    return tuple(controls)


def parse_paged_cookie(result: LdapResult) -> bytes | None:
    """Return the cookie for the next page ([RFC2696] 3).

    The cookie is empty after the last page, None without the control.

    Raises:
        DecodeError: the value of the control breaks its grammar.
    """
    control = result.control(PAGED_RESULTS_OID)
    if control is None:
        return None
    if control.value == _NO_COOKIE:
        return b""
    outer = BerReader.of(control.value or b"", "[RFC2696] 2")
    reader = outer.enter(SEQUENCE, "realSearchControlValue")
    outer.finish("realSearchControlValue")
    reader.integer("size")
    cookie = reader.octets("cookie")
    reader.finish("realSearchControlValue")
    return cookie


def decode_deref(controls: tuple[LdapControl, ...]) -> dict[str, list[Dereferenced]]:
    """Decode the dereference control of an entry.

    Returns:
        Lower-case name of each DN-valued attribute -> what its values name, in the server's order.
        Empty without the control.

    Raises:
        DecodeError: the value of the control breaks its grammar.
    """
    by_attribute: dict[str, list[Dereferenced]] = {}
    for control in controls:
        if control.oid != DEREF_OID or control.value is None:
            continue
        outer = BerReader.of(control.value, _DEREF)
        results = outer.enter(SEQUENCE, "controlValue")
        outer.finish("controlValue")
        count = 0
        while results.has_more():
            count += 1
            if count > DEREFERENCED_MAX:
                raise DecodeError(_DEREF, "controlValue", results.position, f"more than {DEREFERENCED_MAX}")
            item = results.enter(SEQUENCE, "DerefRes")
            attribute = item.name("derefAttr").lower()
            dn = item.name("derefVal")
            attributes: dict[str, list[bytes]] = {}
            if item.has_more():
                _parse_attributes(item.enter(_ATTRIBUTES_TAG, "attrVals"), attributes)
            item.finish("DerefRes")
            by_attribute.setdefault(attribute, []).append(Dereferenced(dn, attributes))
    return by_attribute


def _parse_attributes(reader: BerReader, attributes: dict[str, list[bytes]]) -> None:
    while reader.has_more():
        attribute = reader.enter(SEQUENCE, "PartialAttribute")
        name = attribute.name("type").lower()
        values = attribute.enter(0x31, "vals")
        attribute.finish("PartialAttribute")
        into = attributes.setdefault(name, [])
        while values.has_more():
            into.append(values.octets("value"))
