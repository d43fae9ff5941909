"""Planted defects in a directory: read and judged in this process, every one is found and nothing else."""

from collections import Counter
from pathlib import Path

import pytest
from support.enterprises import rules_world
from support.enterprises.planted import added, assert_equal, directory, read_tables

from mqdssm.pipeline.validate.rules import RULES
from mqdssm.samples.fault_table import FAULTS
from mqdssm.samples.faults import EnterpriseForm, Truth
from mqdssm.testing.openldap import OpenLdapServer

SEED = 1
NOT_PLANTED = {
    "primary-enterprise-controller-single": "the finding would name the sound controller, too",
    "schema-drift": "it is about a server's schema, not about objects",
    "everyone-inherits-control": "only Active Directory inherits rights",
    "security-masks-untranslated": "only Active Directory holds descriptors in a form of its own",
}
"""Rules without a planted fault, with the reasons."""


def test_every_planted_defect_is_found_and_nothing_else(tmp_path: Path) -> None:
    with OpenLdapServer(durable=False) as server:
        truth = directory(server, tmp_path / "x", SEED)
        found = rules_world.found(rules_world.source(tmp_path, read_tables(server)))
    wanted = Counter(one._replace(dn=None) for one in truth.elements())  # `found` does not tell where
    assert_equal(wanted, (Truth(rule, kind, guid, None) for rule, kind, guid, _ in found))
    possible = {fault.rule for fault in FAULTS if EnterpriseForm.SLAPADD in fault.forms and not fault.whole}
    assert possible <= {one.rule for one in wanted}


@pytest.mark.soak  # the one thing that slapd shows otherwise is in test_pipeline_rules_cases.py
def test_what_a_running_server_takes_is_found_too(tmp_path: Path) -> None:
    """It rewrites names: a line feed stands in them as it is."""
    with OpenLdapServer(durable=False) as server:
        truth = added(server, tmp_path / "x", SEED)
        found = rules_world.found(rules_world.source(tmp_path, read_tables(server)))
    wanted = Counter(one._replace(dn=None) for one in truth.elements())
    seen = (Truth(rule, kind, guid, None) for rule, kind, guid, _ in found if kind != "enterprise")
    assert_equal(wanted, seen)


def test_a_rule_is_planted_or_a_reason_stands_in_the_table() -> None:
    planted = {fault.rule for fault in FAULTS}
    assert planted | set(NOT_PLANTED) == {rule.id for rule in RULES}
    assert not planted & set(NOT_PLANTED)
    assert all(NOT_PLANTED.values())
