"""The store on a real slapd keeps the contract of all stores."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from support.store.contract import StoreContract
from support.store.fixtures import by_socket, cutter, harness, server
from support.store.model import (
    CRASHES,
    PLANS,
    SPLITS,
    STEPS,
    check_propagation,
    check_replica,
    numbered_drafts,
)
from support.store.slapd_store import Cutter
from support.store.twins import LOOK

from mqdssm.engines.replication.operations import ForeignFound
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.openldap import OpenLdapServer

__all__ = ["cutter", "harness", "server"]
"""The fixtures."""


@pytest.fixture(scope="module")
def onlooker(server: OpenLdapServer, cutter: Cutter) -> Iterator[LdapStore]:
    """A second store, which is not opened anew by crashes."""
    cutter.disarm()
    with LdapStore.open(by_socket(server)) as store:
        yield store


class TestLdapStore(StoreContract):
    """What is the same for every store."""

    @pytest.fixture(autouse=True)
    def _own_writes_are_not_foreign(self, onlooker: LdapStore) -> Iterator[None]:
        """Whatever a test does, crashes too: nothing of it is taken for a change of another program."""
        onlooker.perform(LOOK)
        yield
        assert onlooker.perform(LOOK) == ForeignFound(objects=(), reached="")

    @settings(max_examples=8)
    @given(numbered_drafts(), STEPS)
    def test_a_replica_is_what_the_model_is(self, harness, drafts, steps) -> None:
        check_replica(harness, drafts, steps)

    @settings(max_examples=4)
    @given(PLANS, SPLITS, CRASHES)
    def test_propagation_in_any_batches_with_crashes(self, harness, plan, splits, points) -> None:
        check_propagation(harness, plan, splits, points)

    @pytest.mark.soak
    @pytest.mark.timeout(1800)
    @settings(max_examples=150)
    @given(numbered_drafts(), STEPS)
    def test_many_replicas_are_what_the_model_is(self, harness, drafts, steps) -> None:
        check_replica(harness, drafts, steps)

    @pytest.mark.soak
    @pytest.mark.timeout(1800)
    @settings(max_examples=80)
    @given(PLANS, SPLITS, CRASHES)
    def test_much_propagation_in_any_batches_with_crashes(self, harness, plan, splits, points) -> None:
        check_propagation(harness, plan, splits, points)
