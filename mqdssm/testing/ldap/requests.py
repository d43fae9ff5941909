"""Decoding of LDAP requests, for a server ([RFC4511] 4); the product only encodes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from mqdssm.directory.ber import BOOLEAN, ENUMERATED, OCTET_STRING, SEQUENCE, SET, BerReader
from mqdssm.directory.filters import (
    ANY_TAG,
    DN_ATTRIBUTES_TAG,
    EXTENSIBLE_TAG,
    FINAL_TAG,
    INITIAL_TAG,
    NOT_TAG,
    PRESENT_TAG,
    RULE_TAG,
    SUBSTRINGS_TAG,
    TAGS,
    TYPE_TAG,
    VALUE_TAG,
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
from mqdssm.directory.requests import (
    ABANDON_REQUEST,
    ADD_REQUEST,
    BIND_REQUEST,
    COMPARE_REQUEST,
    DELETE_REQUEST,
    EXTENDED_REQUEST,
    MODIFY_DN_REQUEST,
    MODIFY_REQUEST,
    NEW_SUPERIOR_TAG,
    REQUEST_NAME_TAG,
    SEARCH_REQUEST,
    SIMPLE_TAG,
    UNBIND_REQUEST,
    ChangeType,
    LdapControl,
    Modification,
    SearchScope,
)
from mqdssm.directory.responses import (
    ADD_RESPONSE,
    BIND_RESPONSE,
    COMPARE_RESPONSE,
    DELETE_RESPONSE,
    EXTENDED_RESPONSE,
    MODIFY_DN_RESPONSE,
    MODIFY_RESPONSE,
    SEARCH_DONE,
    MessageBounds,
    decode_controls,
)
from mqdssm.errors import DecodeError

NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        BIND_REQUEST: "bind",
        UNBIND_REQUEST: "unbind",
        SEARCH_REQUEST: "search",
        MODIFY_REQUEST: "modify",
        ADD_REQUEST: "add",
        DELETE_REQUEST: "delete",
        MODIFY_DN_REQUEST: "modify_dn",
        COMPARE_REQUEST: "compare",
        ABANDON_REQUEST: "abandon",
        EXTENDED_REQUEST: "extended",
    }
)
ANSWERS: Final[Mapping[int, int]] = MappingProxyType(
    {
        BIND_REQUEST: BIND_RESPONSE,
        SEARCH_REQUEST: SEARCH_DONE,
        MODIFY_REQUEST: MODIFY_RESPONSE,
        ADD_REQUEST: ADD_RESPONSE,
        DELETE_REQUEST: DELETE_RESPONSE,
        MODIFY_DN_REQUEST: MODIFY_DN_RESPONSE,
        COMPARE_REQUEST: COMPARE_RESPONSE,
        EXTENDED_REQUEST: EXTENDED_RESPONSE,
    }
)
"""Tag of the answer to a request; unbind and abandon have none."""
WRITES: Final = frozenset({MODIFY_REQUEST, ADD_REQUEST, DELETE_REQUEST, MODIFY_DN_REQUEST})
"""Tags of the requests that change entries."""

_COMPARISONS: Final[Mapping[int, Callable[[str, bytes], LdapFilter]]] = MappingProxyType(
    {TAGS[one]: one for one in (Equal, GreaterOrEqual, LessOrEqual, Approx)}
)
_KEPT: Final = 2048
_MESSAGE: Final = "[RFC4511] 4.1.1"
_FILTER: Final = "[RFC4511] 4.5.1.7"


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """Fields of a SearchRequest, without its base; requests with the same octets share one (`_search_in`)."""

    scope: SearchScope
    dereference: int
    size_limit: int
    time_limit: int
    types_only: bool
    filter: LdapFilter
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LdapRequest:
    """A decoded LDAP request.

    Attributes:
        id: the message id.
        tag: of the operation, as `SEARCH_REQUEST`.
        dn: of the entry concerned (bind: the user; extended: the operation's number).
        controls: sent along.
        search: of a search, else None.
        attributes: of an add: values by lower-case name.
        changes: of a modify.
        new_rdn: of a rename.
        deletes_old_rdn: of a rename: the old name is no value any more.
        new_superior: of a rename: the new parent; None: the entry stays where it is.
        simple_bind: whether it is a bind that shows a password.
        abandoned: message id that an abandon is about.
    """

    id: int
    tag: int
    dn: str = ""
    controls: tuple[LdapControl, ...] = ()
    search: SearchRequest | None = None
    attributes: dict[str, list[bytes]] = field(default_factory=dict)
    changes: tuple[Modification, ...] = ()
    new_rdn: str = ""
    deletes_old_rdn: bool = True
    new_superior: str | None = None
    simple_bind: bool = False
    abandoned: int = 0

    @property
    def operation(self) -> str:
        """Name of the operation."""
        return NAMES.get(self.tag, f"0x{self.tag:02x}")

    def control(self, oid: str) -> LdapControl | None:
        """Return the request's control with an OID; None if there is none."""
        return next((control for control in self.controls if control.oid == oid), None)


def decode_request(buffer: bytes, message: MessageBounds) -> LdapRequest:
    """Decode one request.

    Raises:
        DecodeError: it is none.
    """
    reader = BerReader(buffer, message.start, message.end)
    controls = _controls_in(buffer[message.end : message.stop])
    if message.tag == SEARCH_REQUEST:
        base, search = _search_in(buffer[message.start : message.end])
        return LdapRequest(message.id, message.tag, base, controls, search)
    read = _READERS.get(message.tag)
    if read is None:
        raise DecodeError(_MESSAGE, "protocolOp", message.start, f"tag 0x{message.tag:02x} is no request")
    return read(message, reader, controls)


_Controls = tuple[LdapControl, ...]


@lru_cache(maxsize=_KEPT)
def _controls_in(octets: bytes) -> _Controls:
    return decode_controls(octets, 0, len(octets))


@lru_cache(maxsize=_KEPT)
def _search_in(octets: bytes) -> tuple[str, SearchRequest]:
    """Decode the base and the other fields of a SearchRequest; a client repeats most of its searches."""
    reader = BerReader.of(octets)
    base = reader.name("baseObject")
    scope = SearchScope(reader.integer("scope", ENUMERATED))
    dereference = reader.integer("derefAliases", ENUMERATED)
    size_limit, time_limit = reader.integer("sizeLimit"), reader.integer("timeLimit")
    types_only = reader.boolean("typesOnly", BOOLEAN)
    begin = reader.position
    reader.span(octets[begin], "filter")
    found = decode_filter(octets[begin : reader.position])
    names = reader.enter(SEQUENCE, "attributes")
    reader.finish("SearchRequest")
    attributes = []
    while names.more():
        attributes.append(names.name("attribute"))
    return base, SearchRequest(
        scope, dereference, size_limit, time_limit, types_only, found, tuple(attributes)
    )


def _read_add(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    dn = reader.name("entry")
    found: dict[str, list[bytes]] = {}
    listed = reader.enter(SEQUENCE, "attributes")
    while listed.more():
        name, values = _read_attribute(listed)
        found.setdefault(name.lower(), []).extend(values)
    return LdapRequest(message.id, message.tag, dn, controls, attributes=found)


def _read_modify(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    dn = reader.name("object")
    listed = reader.enter(SEQUENCE, "changes")
    changes = []
    while listed.more():
        one = listed.enter(SEQUENCE, "change")
        kind = ChangeType(one.integer("operation", ENUMERATED))
        changes.append(Modification(kind, *_read_attribute(one)))
    return LdapRequest(message.id, message.tag, dn, controls, changes=tuple(changes))


def _read_attribute(reader: BerReader) -> tuple[str, list[bytes]]:
    one = reader.enter(SEQUENCE, "attribute")
    name, values = one.name("type"), one.enter(SET, "vals")
    found = []
    while values.more():
        found.append(values.octets("value"))
    return name, found


def _read_rename(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    dn, new_rdn = reader.name("entry"), reader.name("newrdn")
    deletes = reader.boolean("deleteoldrdn", BOOLEAN)
    superior = reader.name("newSuperior", NEW_SUPERIOR_TAG) if reader.at(NEW_SUPERIOR_TAG) else None
    return LdapRequest(
        message.id,
        message.tag,
        dn,
        controls,
        new_rdn=new_rdn,
        deletes_old_rdn=deletes,
        new_superior=superior,
    )


def _read_delete(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    dn = reader.buffer[message.start : message.end].decode()
    return LdapRequest(message.id, message.tag, dn, controls)


def _read_compare(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    return LdapRequest(message.id, message.tag, reader.name("entry"), controls)


def _read_bind(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    reader.integer("version")
    user = reader.name("name")
    return LdapRequest(message.id, message.tag, user, controls, simple_bind=reader.at(SIMPLE_TAG))


def _read_extended(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    return LdapRequest(message.id, message.tag, reader.name("requestName", REQUEST_NAME_TAG), controls)


def _read_end(message: MessageBounds, reader: BerReader, controls: _Controls) -> LdapRequest:
    abandoned = int.from_bytes(reader.buffer[message.start : message.end], "big")
    return LdapRequest(message.id, message.tag, controls=controls, abandoned=abandoned)


_READERS: Final[Mapping[int, Callable[[MessageBounds, BerReader, _Controls], LdapRequest]]] = (
    MappingProxyType(
        {
            BIND_REQUEST: _read_bind,
            UNBIND_REQUEST: _read_end,
            MODIFY_REQUEST: _read_modify,
            ADD_REQUEST: _read_add,
            DELETE_REQUEST: _read_delete,
            MODIFY_DN_REQUEST: _read_rename,
            COMPARE_REQUEST: _read_compare,
            ABANDON_REQUEST: _read_end,
            EXTENDED_REQUEST: _read_extended,
        }
    )
)


@lru_cache(maxsize=_KEPT)
def decode_filter(octets: bytes) -> LdapFilter:
    """Decode a filter ([RFC4511] 4.5.1.7).

    Raises:
        DecodeError: it is none.
    """
    reader = BerReader.of(octets, _FILTER)
    found = _filter(reader)
    reader.finish("filter")
    return found


def _filter(reader: BerReader) -> LdapFilter:
    tag = reader.buffer[reader.position] if reader.more() else 0
    if tag == PRESENT_TAG:
        return Present(reader.name("present", PRESENT_TAG))
    inner = reader.enter(tag, "filter")
    comparison = _COMPARISONS.get(tag)
    if comparison is not None:
        return comparison(inner.name("attribute"), inner.octets("value"))
    if tag in {TAGS[And], TAGS[Or]}:
        operands = []
        while inner.more():
            operands.append(_filter(inner))
        return And(tuple(operands)) if tag == TAGS[And] else Or(tuple(operands))
    if tag == NOT_TAG:
        return Not(_filter(inner))
    if tag == SUBSTRINGS_TAG:
        return _substrings(inner)
    if tag == EXTENSIBLE_TAG:
        return _extensible(inner)
    raise DecodeError(_FILTER, "filter", reader.position, f"tag 0x{tag:02x}")


def _substrings(inner: BerReader) -> Substrings:
    attribute = inner.name("type")
    parts = inner.enter(SEQUENCE, "substrings")
    initial, final, middle = None, None, []
    while parts.more():
        tag = parts.buffer[parts.position]
        value = parts.octets("substring", tag)
        if tag == INITIAL_TAG:
            initial = value
        elif tag == FINAL_TAG:
            final = value
        elif tag == ANY_TAG:
            middle.append(value)
    return Substrings(attribute, initial, tuple(middle), final)


def _extensible(inner: BerReader) -> Extensible:
    rule = inner.name("matchingRule", RULE_TAG) if inner.at(RULE_TAG) else None
    attribute = inner.name("type", TYPE_TAG) if inner.at(TYPE_TAG) else None
    value = inner.octets("matchValue", VALUE_TAG)
    dn_attributes = inner.boolean("dnAttributes", DN_ATTRIBUTES_TAG) if inner.at(DN_ATTRIBUTES_TAG) else False
    return Extensible(attribute, rule, value, dn_attributes)


def read_paging(control: LdapControl) -> tuple[int, bytes]:
    """Decode size and cookie of a paged results control ([RFC2696])."""
    reader = BerReader.of(control.value or b"").enter(SEQUENCE, "realSearchControlValue")
    return reader.integer("size"), reader.octets("cookie", OCTET_STRING)
