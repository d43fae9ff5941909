"""The store on a real slapd keeps the contract of all stores."""

from collections.abc import Iterator

import pytest
from sessions import options_for
from store_contract import StoreContract
from store_ldap import Cutter, LdapHarness

from mqdssm.testing.openldap import OpenLdapServer


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False, replication=True) as running:
        yield running


@pytest.fixture(scope="module")
def cutter() -> Iterator[Cutter]:
    with Cutter().installed() as cutter:
        yield cutter


@pytest.fixture(scope="module")
def harness(server: OpenLdapServer, cutter: Cutter) -> Iterator[LdapHarness]:
    harness = LdapHarness(options_for(server, server.ldapi_url, user=None, password=None, ca_file=None), cutter)
    yield harness
    harness.store.close()


class TestLdapStore(StoreContract):
    pass
