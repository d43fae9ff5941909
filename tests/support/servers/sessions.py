"""Sessions for the tests of the directory layer, and small objects to try them on."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.session import Session

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
    """Delete an object and all below it, deepest first."""
    from mqdssm.directory.filters import TRUE

    found = [entry.dn for entry in session.find(dn, TRUE, [])]
    for one in sorted(found, key=lambda text: text.count(","), reverse=True):
        session.delete(one)
