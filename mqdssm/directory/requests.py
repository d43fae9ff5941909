"""Encoding of LDAP requests ([RFC4511] 4) and of their controls.

Every function returns one whole LDAPMessage. Nothing here knows a connection; message ids come
from the caller. What cannot be sent is refused with ValueError before anything is.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final

from mqdssm.directory.ber import (
    BOOLEAN,
    ENUMERATED,
    INTEGER,
    NAME_BYTES_MAX,
    OCTET_STRING,
    SEQUENCE,
    SET,
    boolean,
    integer,
    octet_string,
    sequence,
    tlv,
)
from mqdssm.directory.filters import LdapFilter, encode, encode_description

MESSAGE_ID_MAX: Final = 2**31 - 1

#: Tags of the requests ([RFC4511] 4.2 to 4.12), and of parts of them.
BIND_REQUEST: Final = 0x60
UNBIND_REQUEST: Final = 0x42
SEARCH_REQUEST: Final = 0x63
MODIFY_REQUEST: Final = 0x66
ADD_REQUEST: Final = 0x68
DELETE_REQUEST: Final = 0x4A
MODIFY_DN_REQUEST: Final = 0x6C
COMPARE_REQUEST: Final = 0x6E
ABANDON_REQUEST: Final = 0x50
EXTENDED_REQUEST: Final = 0x77
SIMPLE_TAG: Final = 0x80
NEW_SUPERIOR_TAG: Final = 0x80
REQUEST_NAME_TAG: Final = 0x80

_LDAP_VERSION: Final = 3
_SASL: Final = 0xA3
_CONTROLS: Final = 0xA0
_REQUEST_VALUE: Final = 0x81
_NEVER_DEREFERENCE: Final = integer(0, ENUMERATED)

#: Attribute selectors that are no attribute descriptions ([RFC4511] 4.5.1.8, [RFC3673]).
ALL_USER_ATTRIBUTES: Final = "*"
ALL_OPERATIONAL_ATTRIBUTES: Final = "+"
NO_ATTRIBUTES: Final = "1.1"

PAGED_RESULTS_OID: Final = "1.2.840.113556.1.4.319"
ASSERTION_OID: Final = "1.3.6.1.1.12"
MANAGE_DSA_IT_OID: Final = "2.16.840.1.113730.3.4.2"
DEREF_OID: Final = "1.3.6.1.4.1.4203.666.5.16"

_RANGE: Final = re.compile(r"[0-9]{1,10}-(?:[0-9]{1,10}|\*)")


class SearchScope(IntEnum):
    """Scope of a search ([RFC4511] 4.5.1.2)."""

    BASE = 0
    ONE_LEVEL = 1
    SUBTREE = 2


class ChangeType(IntEnum):
    """Kind of a modification ([RFC4511] 4.6, [RFC4525])."""

    ADD = 0
    DELETE = 1
    REPLACE = 2
    INCREMENT = 3


@dataclass(frozen=True, slots=True)
class Modification:
    """Modification of an attribute.

    REPLACE or DELETE without values removes the attribute.
    """

    op: ChangeType
    attribute: str
    values: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class LdapControl:
    """Control of a request or an answer ([RFC4511] 4.1.11).

    Attributes:
        oid: its number.
        critical: whether a server that does not know it must refuse the request.
        value: its own encoding; None is absent, which differs from empty.
    """

    oid: str
    critical: bool = False
    value: bytes | None = field(default=None)


def encode_search_operation(
    base: str,
    scope: SearchScope,
    search_filter: bytes,
    attributes: Iterable[str],
    *,
    size_limit: int = 0,
    time_limit: int = 0,
    types_only: bool = False,
) -> bytes:
    """Encode a SearchRequest ([RFC4511] 4.5.1) for `encode_message`.

    Aliases are never dereferenced.

    Args:
        base: DN of the entry where the search begins.
        scope: how far below it the search goes.
        search_filter: from `mqdssm.directory.filters.encode`.
        attributes: what to return; *no name means no attribute* (LDAP itself would return all:
            ask for those with ``*``).
        size_limit: most entries wanted; 0 is no limit.
        time_limit: seconds the server may take; 0 is no limit.
        types_only: names without values.

    Raises:
        ValueError: an attribute name that is none, a number out of range.
    """
    content = (
        _encode_dn(base)
        + integer(SearchScope(scope), ENUMERATED)
        + _NEVER_DEREFERENCE
        + _encode_number(size_limit, "size limit")
        + _encode_number(time_limit, "time limit")
        + boolean(types_only)
        + search_filter
        + _encode_selection(tuple(attributes))
    )
    return tlv(SEARCH_REQUEST, content)


OBJECT_CLASS: Final = "objectClass"


def make_entry(classes: Sequence[str], values: Mapping[str, Sequence[bytes]]) -> dict[str, tuple[bytes, ...]]:
    """Return the attributes of an add.

    Args:
        classes: of the entry, the structural class first; the server adds those above them.
        values: the other attributes. The server takes those of the name from the DN.
    """
    attributes = {name: tuple(raws) for name, raws in values.items()}
    return {OBJECT_CLASS: tuple(name.encode() for name in classes), **attributes}


def encode_add(
    message_id: int, dn: str, attributes: Mapping[str, Sequence[bytes]], controls: Sequence[LdapControl] = ()
) -> bytes:
    """Encode an AddRequest ([RFC4511] 4.7).

    `attributes` includes objectClass and those of the RDN.

    Raises:
        ValueError: an attribute without values (an add cannot carry one), or a name that is none.
    """
    parts = []
    for name, values in attributes.items():
        if not values:
            raise ValueError(f"{name} has no value: leave it out of an add")
        parts.append(_encode_attribute(name, values))
    content = _encode_dn(dn) + tlv(SEQUENCE, b"".join(parts))
    return encode_message(message_id, tlv(ADD_REQUEST, content), controls)


def encode_modify(
    message_id: int, dn: str, changes: Iterable[Modification], controls: Sequence[LdapControl] = ()
) -> bytes:
    """Encode a ModifyRequest ([RFC4511] 4.6).

    The changes are made in this order, all or none.

    Raises:
        ValueError: no change (servers differ in what they answer), or an addition without values.
    """
    parts = []
    for change in changes:
        if not change.values and change.op in {ChangeType.ADD, ChangeType.INCREMENT}:
            raise ValueError(f"{change.op.name} of {change.attribute} needs a value")
        operation = integer(ChangeType(change.op), ENUMERATED)
        parts.append(tlv(SEQUENCE, operation + _encode_attribute(change.attribute, change.values)))
    if not parts:
        raise ValueError(f"a modify of {dn} without any change")
    return encode_message(
        message_id, tlv(MODIFY_REQUEST, _encode_dn(dn) + tlv(SEQUENCE, b"".join(parts))), controls
    )


def encode_delete(message_id: int, dn: str, controls: Sequence[LdapControl] = ()) -> bytes:
    """Encode a DelRequest ([RFC4511] 4.8)."""
    return encode_message(message_id, _encode_dn(dn, DELETE_REQUEST), controls)


def encode_modify_dn(
    message_id: int,
    dn: str,
    new_rdn: str,
    *,
    new_superior: str | None = None,
    delete_old_rdn: bool = True,
    controls: Sequence[LdapControl] = (),
) -> bytes:
    """Encode a ModifyDNRequest ([RFC4511] 4.9).

    The request sets a new name, and a new parent if `new_superior` is given.
    """
    content = _encode_dn(dn) + _encode_dn(new_rdn) + boolean(delete_old_rdn, BOOLEAN)
    if new_superior is not None:
        content += _encode_dn(new_superior, NEW_SUPERIOR_TAG)
    return encode_message(message_id, tlv(MODIFY_DN_REQUEST, content), controls)


def encode_extended(message_id: int, oid: str, value: bytes | None = None) -> bytes:
    """Encode an ExtendedRequest ([RFC4511] 4.12)."""
    content = octet_string(_encode_oid(oid), REQUEST_NAME_TAG)
    if value is not None:
        content += tlv(_REQUEST_VALUE, value)
    return encode_message(message_id, tlv(EXTENDED_REQUEST, content), ())


def encode_sasl_bind(message_id: int, mechanism: str, credentials: bytes) -> bytes:
    """Encode a BindRequest for one step of SASL ([RFC4511] 4.2)."""
    sasl = octet_string(mechanism.encode()) + octet_string(credentials)
    content = integer(_LDAP_VERSION) + _encode_dn("") + tlv(_SASL, sasl)
    return encode_message(message_id, tlv(BIND_REQUEST, content), ())


def encode_unbind(message_id: int) -> bytes:
    """Encode an UnbindRequest ([RFC4511] 4.3); the server closes the connection."""
    return encode_message(message_id, tlv(UNBIND_REQUEST, b""), ())


@lru_cache(maxsize=64)
def make_paged_control(size: int, cookie: bytes = b"", *, critical: bool = True) -> LdapControl:
    """Return the control that requests a page of `size` entries ([RFC2696] 3).

    The page follows the page that returned the cookie.

    Critical, because a server that ignores it may truncate the result silently (M14).
    """
    return LdapControl(
        PAGED_RESULTS_OID, critical, sequence(_encode_number(size, "page size"), octet_string(cookie))
    )


def make_assertion_control(condition: LdapFilter) -> LdapControl:
    """Return the control that asserts a filter on a change ([RFC4528]).

    The change fails (result 122) unless the entry matches.
    """
    return LdapControl(ASSERTION_OID, critical=True, value=encode(condition))


def make_deref_control(references: Mapping[str, Sequence[str]]) -> LdapControl:
    """Return the control that requests attributes of referenced entries.

    The attributes come in the same round trip (decision M29).

    Args:
        references: DN-valued attribute -> attributes wanted of the entries it names. Not critical:
            a server without it answers without.
    """
    parts = []
    for attribute, attributes_of_reference in references.items():
        names = b"".join([_encode_type(name) for name in attributes_of_reference])
        parts.append(tlv(SEQUENCE, tlv(OCTET_STRING, encode_description(attribute)) + tlv(SEQUENCE, names)))
    return LdapControl(DEREF_OID, critical=False, value=tlv(SEQUENCE, b"".join(parts)))


def encode_message(message_id: int, operation: bytes, controls: Sequence[LdapControl]) -> bytes:
    """Encode an LDAPMessage ([RFC4511] 4.1.1) around an encoded operation."""
    content = integer(_check_message_id(message_id)) + operation
    if controls:
        content += tlv(_CONTROLS, b"".join([_encode_control(control) for control in controls]))
    return tlv(SEQUENCE, content)


@lru_cache(maxsize=256)
def _encode_control(control: LdapControl) -> bytes:
    content = octet_string(_encode_oid(control.oid))
    if control.critical:  # DEFAULT FALSE: encoded only when true
        content += boolean(value=True)
    if control.value is not None:
        content += octet_string(control.value)
    return tlv(SEQUENCE, content)


def _check_message_id(value: int) -> int:
    if not 0 < value <= MESSAGE_ID_MAX:
        raise ValueError(f"message id {value} is not in 1..{MESSAGE_ID_MAX}")
    return value


def _encode_number(value: int, field: str) -> bytes:
    if not 0 <= value <= MESSAGE_ID_MAX:
        raise ValueError(f"{field} {value} is not in 0..{MESSAGE_ID_MAX}")
    return integer(value, INTEGER)


def _encode_dn(text: str, tag: int = OCTET_STRING) -> bytes:
    octets = text.encode()
    if len(octets) > NAME_BYTES_MAX:
        raise ValueError(f"a distinguished name of {len(octets)} octets, more than {NAME_BYTES_MAX}")
    return tlv(tag, octets)


def _encode_oid(text: str) -> bytes:
    if not all(part.isascii() and part.isdecimal() for part in text.split(".")):
        raise ValueError(f"{text!r} is no object identifier")
    return text.encode()


@lru_cache(maxsize=1024)
def _encode_selection(attributes: tuple[str, ...]) -> bytes:
    return sequence(*[octet_string(_encode_selector(name)) for name in attributes or (NO_ATTRIBUTES,)])


def _encode_selector(name: str) -> bytes:
    if name in {ALL_USER_ATTRIBUTES, ALL_OPERATIONAL_ATTRIBUTES}:
        return name.encode()
    if name.startswith("@"):  # all attributes of an object class ([RFC4529])
        return b"@" + encode_description(name[1:])
    attribute, marker, values = name.partition(";range=")
    if marker and _RANGE.fullmatch(values):  # beyond the grammar: see `mqdssm.directory.ranges`
        return encode_description(attribute) + (marker + values).encode()
    return encode_description(name)


@lru_cache(maxsize=4096)
def _encode_type(name: str) -> bytes:
    return tlv(OCTET_STRING, encode_description(name))


def _encode_attribute(name: str, values: Sequence[bytes]) -> bytes:
    """Encode a PartialAttribute ([RFC4511] 4.1.7)."""
    return tlv(
        SEQUENCE, _encode_type(name) + tlv(SET, b"".join([tlv(OCTET_STRING, value) for value in values]))
    )
