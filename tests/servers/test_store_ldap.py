"""The store on a real slapd keeps the contract of all stores."""

import pytest
from hypothesis import given, settings
from store_contract import StoreContract
from store_model import CRASHES, PLANS, SPLITS, STEPS, check_propagation, check_replica, numbered_drafts
from store_servers import cutter, harness, server

__all__ = ["cutter", "harness", "server"]
"""The fixtures."""


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
