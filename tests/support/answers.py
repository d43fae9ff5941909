"""LDAP answers as a server would send them, for servers made of a few lines."""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mqdssm.directory.ber import ENUMERATED, SET, boolean, integer, octet_string, sequence, tlv
from mqdssm.directory.requests import PAGED_RESULTS_OID
from mqdssm.directory.responses import (
    ADD_RESPONSE,
    BIND_RESPONSE,
    EXTENDED_RESPONSE,
    NOTICE_OF_DISCONNECTION_OID,
    SEARCH_DONE,
    SEARCH_ENTRY,
    MessageSplitter,
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


def add_done(number: int, code: int = 0, **fields: Any) -> bytes:
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


def conversation(*replies: Callable[[int], bytes]) -> Callable[[socket.socket], None]:
    """A server's script: each request in turn gets the reply made for its message id; then silence."""

    def talk(connection: socket.socket) -> None:
        splitter = MessageSplitter()
        waiting = list(replies)
        while data := connection.recv(65536):
            for request in splitter.feed(data)[1]:
                if waiting:
                    connection.sendall(waiting.pop(0)(request.id))

    return talk


def openldap_root_dse(number: int) -> bytes:
    """What makes a client take the server for an OpenLDAP."""
    shown = {"objectClass": [b"OpenLDAProotDSE"], "namingContexts": [b"dc=example,dc=com"]}
    return entry(number, "", shown) + search_done(number)
