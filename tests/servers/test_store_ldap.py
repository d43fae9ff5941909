"""The store on a real slapd keeps the contract of all stores."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from sessions import options_for
from store_contract import StoreContract
from store_ldap import Cutter, LdapHarness
from store_model import CRASHES, PLANS, SPLITS, STEPS, check_propagation, check_replica, numbered_drafts

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
    harness = LdapHarness(
        options_for(server, server.ldapi_url, user=None, password=None, ca_file=None), cutter
    )
    yield harness
    harness.store.close()


class TestLdapStore(StoreContract):
    """What is the same for every store."""

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
