"""Decoding of LDAP requests, for a server ([RFC4511] 4).

The product only encodes them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from mqdssm.directory import filters, requests, responses
from mqdssm.directory.ber import BOOLEAN, ENUMERATED, OCTET_STRING, SEQUENCE, SET, BerReader
from mqdssm.errors import DecodeError

NAMES: Final[Mapping[int, str]] = {
    requests.BIND_REQUEST: "bind",
    requests.UNBIND_REQUEST: "unbind",
    requests.SEARCH_REQUEST: "search",
    requests.MODIFY_REQUEST: "modify",
    requests.ADD_REQUEST: "add",
    requests.DELETE_REQUEST: "delete",
    requests.MODIFY_DN_REQUEST: "modify_dn",
    requests.COMPARE_REQUEST: "compare",
    requests.ABANDON_REQUEST: "abandon",
    requests.EXTENDED_REQUEST: "extended",
}
ANSWERS: Final[Mapping[int, int]] = {
    requests.BIND_REQUEST: responses.BIND_RESPONSE,
    requests.SEARCH_REQUEST: responses.SEARCH_DONE,
    requests.MODIFY_REQUEST: responses.MODIFY_RESPONSE,
    requests.ADD_REQUEST: responses.ADD_RESPONSE,
    requests.DELETE_REQUEST: responses.DELETE_RESPONSE,
    requests.MODIFY_DN_REQUEST: responses.MODIFY_DN_RESPONSE,
    requests.COMPARE_REQUEST: responses.COMPARE_RESPONSE,
    requests.EXTENDED_REQUEST: responses.EXTENDED_RESPONSE,
}
"""Tag of the answer to a request; unbind and abandon have none."""
WRITES: Final = frozenset(
    {requests.MODIFY_REQUEST, requests.ADD_REQUEST, requests.DELETE_REQUEST, requests.MODIFY_DN_REQUEST}
)
"""Tags of the requests that change entries."""

_COMPARISONS: Final[Mapping[int, Callable[[str, bytes], filters.LdapFilter]]] = {
    filters.TAGS[filter_type]: filter_type
    for filter_type in (filters.Equal, filters.GreaterOrEqual, filters.LessOrEqual, filters.Approx)
}
_KEPT: Final = 2048
_SHORT_MIN: Final = 4
_SHORT_MAX: Final = 0x7F
"""Limits of the octets of a comparison whose lengths have one octet each."""
_MESSAGE: Final = "[RFC4511] 4.1.1"
_FILTER: Final = "[RFC4511] 4.5.1.7"


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """Fields of a SearchRequest, without its base.

    Requests with the same octets share one object (`_search_in`).
    """

    scope: requests.SearchScope
    dereference: int
    size_limit: int
    time_limit: int
    types_only: bool
    filter: filters.LdapFilter
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
    controls: tuple[requests.LdapControl, ...] = ()
    search: SearchRequest | None = None
    attributes: dict[str, list[bytes]] = field(default_factory=dict)
    changes: tuple[requests.Modification, ...] = ()
    new_rdn: str = ""
    deletes_old_rdn: bool = True
    new_superior: str | None = None
    simple_bind: bool = False
    abandoned: int = 0

    @property
    def operation(self) -> str:
        """Name of the operation."""
        return NAMES.get(self.tag, f"0x{self.tag:02x}")

    def find_control(self, oid: str) -> requests.LdapControl | None:
        """Return the request's control with an OID; None if there is none."""
        return next((control for control in self.controls if control.oid == oid), None)


def decode_request(buffer: bytes, message: responses.MessageBounds) -> LdapRequest:
    """Decode one request.

    Raises:
        DecodeError: it is none.
    """
    content = buffer[message.start : message.end]
    reader = BerReader(buffer, message.start, message.end)
    controls = _decode_controls(buffer[message.end : message.stop])
    fields: dict[str, Any]
    match message.tag:
        case requests.SEARCH_REQUEST:
            base, search = _search_in(content)
            fields = {"dn": base, "search": search}
        case requests.ADD_REQUEST:
            fields = {"dn": reader.name("entry"), "attributes": _read_attributes(reader)}
        case requests.MODIFY_REQUEST:
            fields = {"dn": reader.name("object"), "changes": tuple(_read_changes(reader))}
        case requests.DELETE_REQUEST:
            fields = {"dn": content.decode()}
        case requests.MODIFY_DN_REQUEST:
            fields = _read_rename(reader)
        case requests.COMPARE_REQUEST:
            fields = {"dn": reader.name("entry")}
        case requests.BIND_REQUEST:
            reader.integer("version")
            fields = {"dn": reader.name("name"), "simple_bind": reader.at(requests.SIMPLE_TAG)}
        case requests.EXTENDED_REQUEST:
            fields = {"dn": reader.name("requestName", requests.REQUEST_NAME_TAG)}
        case requests.UNBIND_REQUEST | requests.ABANDON_REQUEST:
            fields = {"abandoned": int.from_bytes(content, "big")}
        case tag:
            raise DecodeError(_MESSAGE, "protocolOp", message.start, f"tag 0x{tag:02x} is no request")
    return LdapRequest(message.id, message.tag, controls=controls, **fields)


@lru_cache(maxsize=_KEPT)
def _decode_controls(octets: bytes) -> tuple[requests.LdapControl, ...]:
    return responses.decode_controls(octets, 0, len(octets))


@lru_cache(maxsize=_KEPT)
def _search_in(octets: bytes) -> tuple[str, SearchRequest]:
    """Decode the base and the other fields of a SearchRequest.

    A client repeats most of its searches.
    """
    reader = BerReader.of(octets)
    base = reader.name("baseObject")
    scope = requests.SearchScope(reader.integer("scope", ENUMERATED))
    dereference = reader.integer("derefAliases", ENUMERATED)
    size_limit, time_limit = reader.integer("sizeLimit"), reader.integer("timeLimit")
    types_only = reader.boolean("typesOnly", BOOLEAN)
    begin = reader.position
    reader.span(octets[begin], "filter")
    search_filter = decode_filter(octets[begin : reader.position])
    names = reader.enter(SEQUENCE, "attributes")
    reader.finish("SearchRequest")
    attributes = []
    while names.has_more():
        attributes.append(names.name("attribute"))
    return base, SearchRequest(
        scope, dereference, size_limit, time_limit, types_only, search_filter, tuple(attributes)
    )


def _read_attributes(reader: BerReader) -> dict[str, list[bytes]]:
    attributes: dict[str, list[bytes]] = {}
    listed = reader.enter(SEQUENCE, "attributes")
    while listed.has_more():
        name, values = _read_attribute(listed)
        attributes.setdefault(name.lower(), []).extend(values)
    return attributes


def _read_changes(reader: BerReader) -> Iterator[requests.Modification]:
    listed = reader.enter(SEQUENCE, "changes")
    while listed.has_more():
        change = listed.enter(SEQUENCE, "change")
        kind = requests.ChangeType(change.integer("operation", ENUMERATED))
        yield requests.Modification(kind, *_read_attribute(change))


def _read_attribute(reader: BerReader) -> tuple[str, list[bytes]]:
    sequence = reader.enter(SEQUENCE, "attribute")
    name, values = sequence.name("type"), sequence.enter(SET, "vals")
    raws = []
    while values.has_more():
        raws.append(values.octets("value"))
    return name, raws


def _read_rename(reader: BerReader) -> dict[str, Any]:
    fields: dict[str, Any] = {"dn": reader.name("entry"), "new_rdn": reader.name("newrdn")}
    fields["deletes_old_rdn"] = reader.boolean("deleteoldrdn", BOOLEAN)
    if reader.at(requests.NEW_SUPERIOR_TAG):
        fields["new_superior"] = reader.name("newSuperior", requests.NEW_SUPERIOR_TAG)
    return fields


@lru_cache(maxsize=_KEPT)
def decode_filter(octets: bytes) -> filters.LdapFilter:
    """Decode a filter ([RFC4511] 4.5.1.7).

    Raises:
        DecodeError: it is none.
    """
    reader = BerReader.of(octets, _FILTER)
    search_filter = _filter(reader)
    reader.finish("filter")
    return search_filter


def _filter(reader: BerReader) -> filters.LdapFilter:
    tag = reader.buffer[reader.position] if reader.has_more() else 0
    if tag == filters.PRESENT_TAG:
        return filters.Present(reader.name("present", filters.PRESENT_TAG))
    if tag in _COMPARISONS:
        return _decode_comparison(reader, tag)
    inner = reader.enter(tag, "filter")
    if tag in {filters.TAGS[filters.And], filters.TAGS[filters.Or]}:
        operands = []
        while inner.has_more():
            operands.append(_filter(inner))
        return (
            filters.And(tuple(operands)) if tag == filters.TAGS[filters.And] else filters.Or(tuple(operands))
        )
    if tag == filters.NOT_TAG:
        return filters.Not(_filter(inner))
    if tag == filters.SUBSTRINGS_TAG:
        return _decode_substrings(inner)
    if tag == filters.EXTENSIBLE_TAG:
        return _decode_extensible(inner)
    raise DecodeError(_FILTER, "filter", reader.position, f"tag 0x{tag:02x}")


def _decode_comparison(reader: BerReader, tag: int) -> filters.LdapFilter:
    """Decode a comparison; searches for numbers have thousands, with short values."""
    make, octets = _COMPARISONS[tag], reader.buffer
    start, stop = reader.span(tag, "filter")
    if _SHORT_MIN <= stop - start <= _SHORT_MAX and octets[start] == OCTET_STRING:
        middle = start + 2 + octets[start + 1]
        name = octets[start + 2 : middle]
        is_short = middle + 2 <= stop and octets[middle] == OCTET_STRING
        if is_short and octets[middle + 1] == stop - middle - 2 and name.isascii():
            return make(name.decode(), octets[middle + 2 : stop])
    inner = BerReader(octets, start, stop, reader.section)
    return make(inner.name("attribute"), inner.octets("value"))


def _decode_substrings(inner: BerReader) -> filters.Substrings:
    attribute = inner.name("type")
    parts = inner.enter(SEQUENCE, "substrings")
    initial, final, middle = None, None, []
    while parts.has_more():
        tag = parts.buffer[parts.position]
        value = parts.octets("substring", tag)
        if tag == filters.INITIAL_TAG:
            initial = value
        elif tag == filters.FINAL_TAG:
            final = value
        elif tag == filters.ANY_TAG:
            middle.append(value)
    return filters.Substrings(attribute, initial, tuple(middle), final)


def _decode_extensible(inner: BerReader) -> filters.Extensible:
    rule = inner.name("matchingRule", filters.RULE_TAG) if inner.at(filters.RULE_TAG) else None
    attribute = inner.name("type", filters.TYPE_TAG) if inner.at(filters.TYPE_TAG) else None
    value = inner.octets("matchValue", filters.VALUE_TAG)
    dn_attributes = (
        inner.boolean("dnAttributes", filters.DN_ATTRIBUTES_TAG)
        if inner.at(filters.DN_ATTRIBUTES_TAG)
        else False
    )
    return filters.Extensible(attribute, rule, value, dn_attributes)


def read_paging(control: requests.LdapControl) -> tuple[int, bytes]:
    """Decode size and cookie of a paged results control ([RFC2696])."""
    reader = BerReader.of(control.value or b"").enter(SEQUENCE, "realSearchControlValue")
    return reader.integer("size"), reader.octets("cookie", OCTET_STRING)
