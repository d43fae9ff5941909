"""The kinds of orphans: their table, and the same in the documentation and in validation."""

import re
from pathlib import Path

import pytest

from mqdssm.cli.orphans import MIN_AGE_DAYS as SHOWN_DAYS
from mqdssm.model.dn import DN
from mqdssm.pipeline.migrate.orphan_plan import MIN_AGE_DAYS, TABLE_NAMES
from mqdssm.pipeline.orphans.places import ORPHAN_CLASSES
from mqdssm.pipeline.orphans.rules import ORPHAN_RULES, TYPE_NAMES
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.tables import places

PAGE = Path(__file__).parents[3] / "docs" / "orphans.md"


def test_the_page_has_the_table() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| (yes|no) \| ", PAGE.read_text(), re.MULTILINE)
    assert rows == [(rule.id, "yes" if rule.removes else "no") for rule in ORPHAN_RULES]


def test_validation_reports_the_same_objects() -> None:
    """Each kind names the rule of validation that such objects break, with the same sections."""
    sections: dict[str, set[str]] = {}
    for validation in RULES:
        sections.setdefault(validation.id, set()).add(validation.section)
    for rule in ORPHAN_RULES:
        assert rule.validation in sections or not rule.validation
        if rule.removes and rule.validation:
            assert rule.section in sections[rule.validation], rule.id


def test_every_class_has_its_names() -> None:
    assert set(TYPE_NAMES) == set(TABLE_NAMES) == set(ORPHAN_CLASSES)
    assert {name for rule in ORPHAN_RULES for name in rule.classes} == set(ORPHAN_CLASSES)
    assert SHOWN_DAYS == MIN_AGE_DAYS


@pytest.mark.parametrize(
    ("name", "before"),
    [("msmq", "msmq"), ("msmq\nCNF:1", "msmq"), ("a\ncnf:1", "a"), ("CNF:1", "CNF:1"), ("a\nb", "a\nb")],
)
def test_names_before_a_conflict(name: str, before: str) -> None:
    assert places.name_before_conflict(name) == before


def test_lost_and_found() -> None:
    root = DN.parse("DC=example,DC=com")
    assert str(places.lost_dn(root)) == "CN=LostAndFound,DC=example,DC=com"
    configuration = places.configuration_dn(root)
    assert str(places.lost_configuration_dn(configuration)) == (
        "CN=LostAndFoundConfig,CN=Configuration,DC=example,DC=com"
    )
