"""LDAP answers as a server would send them, for servers made of a few lines."""

from collections.abc import Mapping, Sequence

from mqdssm.directory.ber import ENUMERATED, SET, boolean, integer, octet_string, sequence, tlv
from mqdssm.directory.requests import PAGED_RESULTS_OID
from mqdssm.directory.responses import (
    ADD_RESPONSE,
    BIND_RESPONSE,
    EXTENDED_RESPONSE,
    NOTICE_OF_DISCONNECTION_OID,
    SEARCH_DONE,
    SEARCH_ENTRY,
)


def message(number: int, operation: bytes, controls: bytes = b"") -> bytes:
    return sequence(integer(number), operation, controls)


def result(
    number: int, tag: int, code: int = 0, *, matched: str = "", text: str = "", more: bytes = b""
) -> bytes:
    fields = integer(code, ENUMERATED) + octet_string(matched) + octet_string(text) + more
    return message(number, tlv(tag, fields))


def bind_done(number: int, code: int = 0) -> bytes:
    return result(number, BIND_RESPONSE, code)


def add_done(number: int, code: int = 0, **fields: str) -> bytes:
    return result(number, ADD_RESPONSE, code, **fields)


def search_done(number: int, code: int = 0, *, cookie: bytes | None = None) -> bytes:
    fields = integer(code, ENUMERATED) + octet_string("") + octet_string("")
    controls = b""
    if cookie is not None:
        value = sequence(integer(0), octet_string(cookie))
        control = sequence(octet_string(PAGED_RESULTS_OID), boolean(value=False), octet_string(value))
        controls = sequence(control, tag=0xA0)
    return message(number, tlv(SEARCH_DONE, fields), controls)


def entry(number: int, dn: str, attributes: Mapping[str, Sequence[bytes]] | None = None) -> bytes:
    listed = [
        sequence(octet_string(name), sequence(*map(octet_string, values), tag=SET))
        for name, values in (attributes or {}).items()
    ]
    return message(number, tlv(SEARCH_ENTRY, octet_string(dn) + sequence(*listed)))


def notice_of_disconnection(code: int = 52) -> bytes:
    name = octet_string(NOTICE_OF_DISCONNECTION_OID, 0x8A)
    return result(0, EXTENDED_RESPONSE, code, text="shutting down", more=name)
