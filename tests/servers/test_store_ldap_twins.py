"""The store on slapd has what the one in memory has, whatever the changes, names and values."""

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from support.store.fixtures import by_socket
from support.store.twins import DRAFTS, LOOK, REPLICA_STEPS, Twins, check_replica_twins

from mqdssm.model.guid import Guid
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.openldap import OpenLdapServer

NUMBERS = count(1)


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[LdapStore, MemoryStore]]:
    """Names of other examples are taken: by other partitions, which a replica must not mind."""
    with (
        OpenLdapServer(durable=False, replication=True) as server,
        LdapStore.open(by_socket(server)) as store,
    ):
        store.perform(LOOK)
        yield store, MemoryStore()


def twins(stores: tuple[LdapStore, MemoryStore]) -> Twins:
    sites = [Guid(next(NUMBERS).to_bytes(8, "big") + b"twinsite") for _ in range(2)]
    return Twins(*stores, (sites[0], sites[1]))


@settings(max_examples=6)
@given(DRAFTS, REPLICA_STEPS)
def test_replicas(stores, planned, steps) -> None:
    check_replica_twins(twins(stores), planned, steps)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=1500)
@given(DRAFTS, REPLICA_STEPS)
def test_many_replicas(stores, planned, steps) -> None:
    check_replica_twins(twins(stores), planned, steps)
