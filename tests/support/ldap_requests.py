"""LDAP requests as a server reads them ([RFC4511] 4): what our own code only writes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.ber import BOOLEAN, ENUMERATED, OCTET_STRING, SEQUENCE, SET, Reader
from mqdssm.directory.filters import (
    And,
    Approx,
    Equal,
    Extensible,
    GreaterOrEqual,
    LdapFilter,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
)
from mqdssm.directory.requests import Control, Scope
from mqdssm.directory.responses import Message, decode_controls
from mqdssm.errors import DecodeError

BIND: Final = 0x60
UNBIND: Final = 0x42
SEARCH: Final = 0x63
MODIFY: Final = 0x66
ADD: Final = 0x68
DELETE: Final = 0x4A
MODIFY_DN: Final = 0x6C
COMPARE: Final = 0x6E
ABANDON: Final = 0x50
EXTENDED: Final = 0x77

NAMES: Final = {
    BIND: "bind",
    UNBIND: "unbind",
    SEARCH: "search",
    MODIFY: "modify",
    ADD: "add",
    DELETE: "delete",
    MODIFY_DN: "modify_dn",
    COMPARE: "compare",
    ABANDON: "abandon",
    EXTENDED: "extended",
}
#: Tag of the answer to a request; unbind and abandon have none.
ANSWERS: Final = {
    BIND: 0x61,
    SEARCH: 0x65,
    MODIFY: 0x67,
    ADD: 0x69,
    DELETE: 0x6B,
    MODIFY_DN: 0x6D,
    COMPARE: 0x6F,
    EXTENDED: 0x78,
}


_COMPARISONS: Final[dict[int, Callable[[str, bytes], LdapFilter]]] = {
    0xA3: Equal,
    0xA5: GreaterOrEqual,
    0xA6: LessOrEqual,
    0xA8: Approx,
}


@dataclass(frozen=True)
class Search:
    """What a SearchRequest asks for, beside its base."""

    scope: Scope
    dereference: int
    size_limit: int
    time_limit: int
    types_only: bool
    filter: LdapFilter
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """One request, with what rules look at.

    Attributes:
        id: the message id.
        tag: of the operation, as `SEARCH`.
        dn: of the entry concerned (bind: the user; extended: the operation's number).
        controls: sent along.
        search: of a search, else None.
        attributes: of an add: values by lower-case name.
        new_rdn: of a rename.
        simple_bind: whether it is a bind that shows a password.
        abandoned: message id that an abandon is about.
    """

    id: int
    tag: int
    dn: str = ""
    controls: tuple[Control, ...] = ()
    search: Search | None = None
    attributes: dict[str, list[bytes]] = field(default_factory=dict)
    new_rdn: str = ""
    simple_bind: bool = False
    abandoned: int = 0

    @property
    def operation(self) -> str:
        return NAMES.get(self.tag, f"0x{self.tag:02x}")

    def control(self, oid: str) -> Control | None:
        return next((control for control in self.controls if control.oid == oid), None)


def decode_request(buffer: bytes, message: Message) -> Request:
    """Read one request; DecodeError for what is none."""
    reader = Reader(buffer, message.start, message.end)
    controls = decode_controls(buffer, message.end, message.stop)
    number, tag = message.id, message.tag
    match tag:
        case 0x63:
            base = reader.name("baseObject")
            return Request(number, tag, base, controls, _search(reader))
        case 0x68:
            return Request(number, tag, reader.name("entry"), controls, attributes=_attributes(reader))
        case 0x6C:
            dn, new_rdn = reader.name("entry"), reader.name("newrdn")
            return Request(number, tag, dn, controls, new_rdn=new_rdn)
        case 0x66 | 0x6E:
            return Request(number, tag, reader.name("entry"), controls)
        case 0x4A:
            return Request(number, tag, buffer[message.start : message.end].decode(), controls)
        case 0x60:
            reader.integer("version")
            user = reader.name("name")
            return Request(number, tag, user, controls, simple_bind=reader.at(0x80))
        case 0x77:
            return Request(number, tag, reader.name("requestName", 0x80), controls)
        case 0x50 | 0x42:
            abandoned = int.from_bytes(buffer[message.start : message.end], "big")
            return Request(number, tag, controls=controls, abandoned=abandoned)
    raise DecodeError("[RFC4511] 4.1.1", "protocolOp", message.start, f"tag 0x{tag:02x} is no request")


def _search(reader: Reader) -> Search:
    scope = Scope(reader.integer("scope", ENUMERATED))
    dereference = reader.integer("derefAliases", ENUMERATED)
    size_limit, time_limit = reader.integer("sizeLimit"), reader.integer("timeLimit")
    types_only = reader.boolean("typesOnly", BOOLEAN)
    found = _filter(reader)
    names = reader.enter(SEQUENCE, "attributes")
    reader.finish("SearchRequest")
    attributes = []
    while names.more():
        attributes.append(names.name("attribute"))
    return Search(scope, dereference, size_limit, time_limit, types_only, found, tuple(attributes))


def _attributes(reader: Reader) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    listed = reader.enter(SEQUENCE, "attributes")
    while listed.more():
        one = listed.enter(SEQUENCE, "attribute")
        name, values = one.name("type").lower(), one.enter(SET, "vals")
        into = found.setdefault(name, [])
        while values.more():
            into.append(values.octets("value"))
    return found


def _filter(reader: Reader) -> LdapFilter:
    tag = reader.buffer[reader.position] if reader.more() else 0
    if tag == 0x87:
        return Present(reader.name("present", 0x87))
    inner = reader.enter(tag, "filter")
    match tag:
        case 0xA0 | 0xA1:
            operands = []
            while inner.more():
                operands.append(_filter(inner))
            return And(tuple(operands)) if tag == 0xA0 else Or(tuple(operands))
        case 0xA2:
            return Not(_filter(inner))
        case 0xA3 | 0xA5 | 0xA6 | 0xA8:
            return _COMPARISONS[tag](inner.name("attribute"), inner.octets("value"))
        case 0xA4:
            return _substrings(inner)
        case 0xA9:
            return _extensible(inner)
    raise DecodeError("[RFC4511] 4.5.1.7", "filter", reader.position, f"tag 0x{tag:02x}")


def _substrings(inner: Reader) -> Substrings:
    attribute = inner.name("type")
    parts = inner.enter(SEQUENCE, "substrings")
    initial, final, middle = None, None, []
    while parts.more():
        tag = parts.buffer[parts.position]
        value = parts.octets("substring", tag)
        if tag == 0x80:
            initial = value
        elif tag == 0x82:
            final = value
        else:
            middle.append(value)
    return Substrings(attribute, initial, tuple(middle), final)


def _extensible(inner: Reader) -> Extensible:
    rule = inner.name("matchingRule", 0x81) if inner.at(0x81) else None
    attribute = inner.name("type", 0x82) if inner.at(0x82) else None
    value = inner.octets("matchValue", 0x83)
    dn_attributes = inner.boolean("dnAttributes", 0x84) if inner.at(0x84) else False
    return Extensible(attribute, rule, value, dn_attributes)


def leaves(node: LdapFilter) -> Iterator[LdapFilter]:
    """The comparisons that a filter consists of."""
    if isinstance(node, (And, Or)):
        for operand in node.operands:
            yield from leaves(operand)
    elif isinstance(node, Not):
        yield from leaves(node.operand)
    else:
        yield node


def sort_keys(control: Control) -> list[str]:
    """The attributes that a sort control names ([RFC2891])."""
    keys = Reader.of(control.value or b"").enter(SEQUENCE, "SortKeyList")
    found = []
    while keys.more():
        found.append(keys.enter(SEQUENCE, "key").name("attributeType"))
    return found


def page_size(control: Control) -> tuple[int, bytes]:
    """Size and cookie of a request for a page ([RFC2696])."""
    reader = Reader.of(control.value or b"").enter(SEQUENCE, "realSearchControlValue")
    return reader.integer("size"), reader.octets("cookie", OCTET_STRING)
