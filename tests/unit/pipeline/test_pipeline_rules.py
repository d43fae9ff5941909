"""Rules are declarations that prove themselves."""

import csv
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.project.source_tree import ROOT

from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.catalogue import make_entries, make_page
from mqdssm.pipeline.validate.rules.examiners import EXAMINERS
from mqdssm.pipeline.validate.rules.graphs import DRAWINGS
from mqdssm.pipeline.validate.rules.rule import (
    DIRECTORY,
    FRAMES,
    Drift,
    Finding,
    GraphRule,
    Judged,
    MissingReference,
    Repeated,
    Undecodable,
    Unequal,
    Wrong,
)

ISSUE_ASKS_FOR = 40


def test_ids_are_plain_and_enough() -> None:
    assert len({rule.id for rule in RULES}) >= ISSUE_ASKS_FOR
    assert all(re.fullmatch(r"[a-z0-9-]+", rule.id) for rule in RULES)


def test_parts_of_a_rule_agree() -> None:
    by_id = {rule.id: rule for rule in RULES}
    for rule in RULES:
        assert rule.severity == by_id[rule.id].severity


def test_every_rule_says_what_must_hold_and_where_that_is_written() -> None:
    for rule in RULES:
        assert rule.requirement
        assert not rule.requirement.endswith(".")
        assert set(rule.types) <= {*FRAMES, DIRECTORY}
        assert rule.message or isinstance(rule, Judged | GraphRule | Undecodable | Drift)


CITATION = re.compile(r"\[(M[SC]-[A-Z0-9]+)\] (\d+(?:\.\d+)*(?:, \d+(?:\.\d+)*)*)")


def cited(section: str) -> Iterator[tuple[str, str]]:
    """Document and number of each section of ``[DOC] n, n, [DOC] n``."""
    for document, numbers in CITATION.findall(section):
        yield from ((document, number) for number in numbers.split(", "))


def index(name: str) -> set[tuple[str, str]]:
    with (ROOT / "tests" / "spec" / name).open(encoding="utf-8", newline="") as file:
        return {(row["document"], row["section"]) for row in csv.DictReader(file)}


def test_every_cited_section_exists() -> None:
    """In the four specifications; of others in the list of what was looked up, which has nothing else."""
    ours, others = index("sections.csv"), index("cited_sections.csv")
    used = set()
    for rule in RULES:
        assert CITATION.sub("", rule.section).replace(", ", "") == "", rule.section
        found = set(cited(rule.section))
        assert found, rule.id
        assert found <= ours | others, rule.id
        used |= found
    assert used - ours == others


def test_all_forms_are_in_use() -> None:
    forms = {Wrong, Undecodable, Repeated, MissingReference, Unequal, Judged, GraphRule, Drift}
    assert {type(rule) for rule in RULES} == forms


def test_functions_that_rules_name_exist_and_all_are_named() -> None:
    assert {rule.examiner for rule in RULES if isinstance(rule, Judged)} == set(EXAMINERS)
    assert {rule.drawing for rule in RULES if isinstance(rule, GraphRule)} == set(DRAWINGS)


def test_a_rule_with_a_wrong_word_is_refused() -> None:
    with pytest.raises(ValueError, match="severity"):
        replace(RULES[0], severity="fatal")


def test_a_rule_applies_to_what_is_there() -> None:
    by_id = {rule.id: rule for rule in RULES}
    has = frozenset({"Identifier", "FullPath", "Security", "SiteIdentifierList"})
    assert by_id["security-required"].applies({"queue": has, "user": has}).types == ("queue",)
    lost = by_id["queue-manager-sites-exist"].applies({"queue-manager": has})
    assert (lost.types, lost.reason) == ((), "type site is not in the source")
    bare = by_id["queue-manager-sites-exist"].applies({"queue-manager": has, "site": frozenset()})
    assert bare.reason == "site has no column Identifier"


def test_a_finding_is_what_a_line_of_json_holds() -> None:
    wanted = ["rule", "severity", "type", "dn", "guid", "attribute", "message", "section"]
    assert list(Finding.__slots__) == wanted


def test_the_catalogue_names_every_rule_once() -> None:
    listed = make_entries(RULES)
    assert [one["id"] for one in listed] == list(dict.fromkeys(rule.id for rule in RULES))
    text = make_page(RULES)
    assert all(f"| `{one['id']}` |" in text for one in listed)
    assert all(one["conditions"] or one["form"] == "directory" for one in listed)
