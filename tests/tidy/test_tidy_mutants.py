"""Planted defects: every mutant can still be planted, and every section of the adapter has one."""

import conformance
import mutants
import pytest
from support.project.source_tree import marks, report

COVERED = ("MS-MQDSSM", "3.1.6")
"""Document and chapter of which each normative section needs a mutant."""


@pytest.mark.slow
def test_every_mutant_can_be_planted() -> None:
    """Whoever changes a line that a mutant names changes the mutant with it."""
    proofs, _ = conformance.check(conformance.read_sections(), marks())
    report(mutants.find_problems(mutants.read_lists(), proofs))


def test_every_section_of_the_adapter_has_a_mutant() -> None:
    document, chapter = COVERED
    caught = {section for mutant in mutants.read_lists() for section in mutant.caught_by}
    without = [
        f"tests/mutants/adapter.toml: no mutant for [{section.document}] {section.number} {section.title}"
        for section in conformance.read_sections().values()
        if section.document == document
        and f"{section.number}.".startswith(f"{chapter}.")
        and section.kind == "normative"
        and section.name not in caught
    ]
    report(without)
