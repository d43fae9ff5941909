"""A replication store on a slapd of its own for each module that has these fixtures in its ``__all__``."""

from collections.abc import Iterator

import pytest

import mqdssm
from mqdssm.directory.options import ConnectionOptions
from mqdssm.testing.openldap import OpenLdapServer
from support.servers.sessions import options_for
from support.store.slapd_store import Cutter, LdapHarness
from support.store.world import World


def by_socket(server: OpenLdapServer) -> ConnectionOptions:
    """The server's own socket: who may open it is the administrator without a password."""
    return options_for(server, server.ldapi_url, user=None, password=None, ca_file=None)


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    """A server that has room for a store."""
    with OpenLdapServer(durable=False, replication=True) as running:
        yield running


@pytest.fixture(scope="module")
def cutter() -> Iterator[Cutter]:
    """It stands between the store and its server."""
    with Cutter().installed() as cutter:
        yield cutter


@pytest.fixture(scope="module")
def harness(server: OpenLdapServer, cutter: Cutter) -> Iterator[LdapHarness]:
    """The store."""
    harness = LdapHarness(by_socket(server), cutter)
    yield harness
    harness.store.close()


@pytest.fixture(scope="module")
def directory(server: OpenLdapServer) -> Iterator[mqdssm.Directory]:
    """The adapter beside the store, on the same server."""
    with mqdssm.connect(server.ldapi_url) as directory:
        yield directory


@pytest.fixture
def world(harness: LdapHarness) -> World:
    """A partition of the test's own."""
    return World(harness)
