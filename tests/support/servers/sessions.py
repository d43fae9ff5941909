"""Sessions for the tests of the directory layer, and small objects to try them on."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError
from mqdssm.events.delete import NOT_ALLOWED_ON_NON_LEAF

if TYPE_CHECKING:
    from mqdssm.testing.openldap import OpenLdapServer
    from support.servers.proxy import Proxy


def options_for(server: "OpenLdapServer", url: str | None = None, **settings: Any) -> ConnectionOptions:
    """The administrator's options, on the server itself or on another URL that leads to it."""
    values: dict[str, Any] = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
    return ConnectionOptions.of(url or server.url, **(values | settings))


def clear_text(server: "OpenLdapServer", proxy: "Proxy", **settings: Any) -> ConnectionOptions:
    """Through a proxy that reads along: without TLS, as loopback allows.

    The first change is not preceded by a search (decision R106): faults strike what a test sends.
    """
    usual = {"tls": "none", "connect_timeout_s": 5.0, "allow_replicated": True}
    return options_for(server, proxy.url, **(usual | settings))


def container(guid: UUID, **more: list[bytes]) -> dict[str, list[bytes]]:
    """The attributes of the smallest object with an objectGUID."""
    return {"objectClass": [b"container"], "objectGUID": [guid.bytes_le], **more}


@contextlib.contextmanager
def scratch(session: Session) -> Iterator[str]:
    """A container of the test's own; it and all below it are deleted at the end."""
    dn = f"CN=t-{uuid4()},CN=Computers,{session.naming.root}"
    session.add(dn, container(uuid4()))
    try:
        yield dn
    finally:
        remove_tree(session, dn)


def remove_tree(session: Session, dn: str) -> None:
    """Delete an object and all below it, deepest first.

    The server may still add what was sent to it before: then the objects are listed again.
    """
    from mqdssm.directory.filters import TRUE

    for is_last in (False, False, False, True):
        found = [entry.dn for entry in session.find(dn, TRUE, [])]
        try:
            for one in sorted(found, key=lambda text: text.count(","), reverse=True):
                session.delete(one)
        except GenericDirectoryError as error:
            if is_last or error.ldap_code != NOT_ALLOWED_ON_NON_LEAF:
                raise
        else:
            return
