"""LDAP answers as a server would send them, for servers made of a few lines."""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mqdssm.directory.ber import octet_string
from mqdssm.directory.responses import (
    ADD_RESPONSE,
    BIND_RESPONSE,
    EXTENDED_RESPONSE,
    MessageSplitter,
)
from mqdssm.testing.ldap.answers import (
    encode_entry_content,
    encode_entry_message,
    encode_message,
    encode_result,
    search_done,
)

NOTICE_OF_DISCONNECTION_OID = "1.3.6.1.4.1.1466.20036"  # [RFC4511] 4.4.1

__all__ = [
    "add_done",
    "bind_done",
    "conversation",
    "encode_message",
    "encode_result",
    "entry",
    "notice_of_disconnection",
    "openldap_root_dse",
    "search_done",
]


def bind_done(number: int, code: int = 0) -> bytes:
    return encode_result(number, BIND_RESPONSE, code)


def add_done(number: int, code: int = 0, **fields: Any) -> bytes:
    return encode_result(number, ADD_RESPONSE, code, **fields)


def entry(number: int, dn: str, attributes: Mapping[str, Sequence[bytes]] | None = None) -> bytes:
    return encode_entry_message(number, encode_entry_content(dn, (attributes or {}).items()))


def notice_of_disconnection(code: int = 52) -> bytes:
    name = octet_string(NOTICE_OF_DISCONNECTION_OID, 0x8A)
    return encode_result(0, EXTENDED_RESPONSE, code, text="shutting down", more=name)


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
