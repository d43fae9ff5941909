"""Rules are declarations that prove themselves."""

import re
from dataclasses import fields, replace

import pytest

from mqdssm.spark.columns import TYPES
from mqdssm.spark.rules import RULES, Finding, MissingReference, Repeated, Wrong
from mqdssm.spark.rules.link import RULES as LINK_RULES


def test_ids_are_unique_and_plain() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) >= 5
    assert all(re.fullmatch(r"[a-z0-9-]+", rule.id) for rule in RULES)


def test_every_rule_says_what_must_hold_and_where_that_is_written() -> None:
    for rule in RULES:
        assert rule.what
        assert re.match(r"\[M[SC]-[A-Z]+\] \d", rule.section), rule.id
        assert set(rule.types) <= set(TYPES)


def test_all_forms_are_in_use() -> None:
    assert {type(rule) for rule in RULES} == {Wrong, Repeated, MissingReference}


def test_a_rule_with_a_wrong_word_is_refused() -> None:
    with pytest.raises(ValueError, match="severity"):
        replace(LINK_RULES[0], severity="fatal")
    with pytest.raises(ValueError, match="Cost"):
        replace(LINK_RULES[0], attribute="Cost")
    with pytest.raises(ValueError, match="ActualCost"):
        replace(LINK_RULES[0], types=("queue",))


def test_a_rule_applies_to_what_is_there() -> None:
    by_id = {rule.id: rule for rule in RULES}
    assert by_id["security-required"].applies_to({"queue", "user"}) == ("queue",)
    assert by_id["security-required"].applies_to({"user"}) == ()
    # without the targets every reference would be a finding
    assert by_id["queue-manager-exists"].applies_to({"queue"}) == ()
    assert by_id["queue-manager-exists"].applies_to({"queue", "queue-manager"}) == ("queue",)
    assert by_id["guid-unique"].applies_to(TYPES) == tuple(TYPES)


def test_a_finding_as_json_has_the_promised_names() -> None:
    finding = Finding("r", "error", "queue", "CN=q", None, "Label", "bad", "[MS-MQDSSM] 1")
    assert list(finding.as_dict()) == [field.name for field in fields(Finding)]
    assert ", ".join(finding.as_dict()) == "rule, severity, type, dn, guid, attribute, message, section"
