"""Answers of machines: one machine's reports belong together, and to one machine of the directory."""

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.pipeline.inventory.machines.answers import (
    DirectoryMachine,
    MachineMatch,
    answers_of,
    matches_of,
)
from mqdssm.pipeline.inventory.machines.report import Counts, MachineReport, QueueReport

A, B, C = (f"00000000-0000-0000-0000-00000000000{n}" for n in "abc")
DAY = [datetime(2026, 6, n, tzinfo=UTC) for n in range(1, 9)]


def report(name: str, dns: str | None = None, guid: str | None = None, **more: Any) -> MachineReport:
    return MachineReport(
        origin=f"{name}-{dns}-{guid}", computer_name=name, dns_name=dns, identifier=guid, **more
    )


def groups(*reports: MachineReport) -> list[tuple[list[str], bool]]:
    """Files and ambiguity of each answer; whatever the order of the reports."""
    made = [
        [(list(one.files), one.is_ambiguous) for one in answers_of(order)]
        for order in itertools.permutations(reports)
    ]
    assert all(one == made[0] for one in made)
    return made[0]


@pytest.mark.parametrize(
    ("reports", "sizes", "ambiguous"),
    [
        ([report("P", "p.x.com"), report("p"), report("P", "P.X.COM.", A)], [3], 0),
        ([report("P", "p.x.com"), report("P", "p.y.com")], [1, 1], 0),
        ([report("P", "p.x.com"), report("P", "p.y.com"), report("P")], [1, 1, 1], 1),
        ([report("P", "p.x.com", A), report("P", "p.y.com", B), report("P", None, B)], [1, 2], 0),
        ([report("P", "p.x.com", A), report("P", None, B)], [1, 1], 0),
        ([report("P", "p.x.com"), report("P", None, B)], [2], 0),
        ([report("P"), report("P", "p")], [2], 0),
        ([report("P", None, A), report("P")], [2], 0),
        ([report("P", None, A), report("P", None, B)], [1, 1], 0),
        ([report("P", None, A), report("P", None, B), report("P")], [1, 1, 1], 1),
        ([report("P"), report("O")], [1, 1], 0),
        ([report("P", "p.x.com", A), report("O", "o.x.com", A)], [1, 1], 0),
    ],
)
def test_reports_of_one_machine(reports, sizes, ambiguous) -> None:
    found = groups(*reports)
    assert sorted(len(files) for files, _ in found) == sizes
    assert sum(one for _, one in found) == ambiguous


def test_the_last_known_value_counts() -> None:
    old = report(
        "P",
        moment=DAY[0],
        service="Running",
        system="old",
        is_complete=True,
        queues=(QueueReport(name="q", label="a", counts=Counts(1, 1)), QueueReport(name="gone")),
    )
    new = report(
        "P",
        moment=DAY[1],
        service="Stopped",
        is_complete=True,
        queues=(QueueReport(name="Q", counts=Counts(messages=2)), QueueReport(name="new")),
    )
    counters = report("P", queues=(QueueReport(name="q", counts=Counts(9, 9, 9)), QueueReport(name="idle")))
    for order in itertools.permutations((old, new, counters)):
        (answer,) = answers_of(order)
        assert (answer.report.service, answer.report.system, answer.report.moment) == (
            "Stopped",
            "old",
            DAY[1],
        )
        assert [(queue.key, queue.label, queue.counts) for queue in answer.report.queues] == [
            ("q", "a", Counts(2, 1, 9)),
            ("new", None, Counts()),
        ]
        assert answer.activity == {"q": DAY[1]}


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8))
def test_activity_is_the_last_change(numbers) -> None:
    reports = [
        report("P", moment=moment, queues=(QueueReport(name="q", counts=Counts(number)),))
        for moment, number in zip(DAY, numbers, strict=False)
    ]
    (answer,) = answers_of(reversed(reports))
    changes = [n for n in range(1, len(numbers)) if numbers[n] != numbers[n - 1]]
    assert answer.activity == ({"q": DAY[changes[-1]]} if changes else {})


# -- machines of the directory


def machine(name: str, guid: str, dns: str = "") -> DirectoryMachine:
    return DirectoryMachine(guid, guid, name, dns)


def matched(machines: list[DirectoryMachine], *reports: MachineReport) -> list[tuple[str, str | None, str]]:
    found = matches_of(machines, answers_of(reports))
    return [(one.state, one.machine.identifier if one.machine else None, one.by) for one in found]


TWO = [machine("p", A, "p.x.com"), machine("p", B, "p.y.com")]
NAME, BOTH = "computer name", "computer name and GUID"


def answered(guid: str, by: str) -> tuple[str, str | None, str]:
    return "answered", guid, by


def silent(guid: str) -> tuple[str, str | None, str]:
    return "no answer", guid, ""


UNKNOWN = ("not in the directory", None, "")
AMBIGUOUS = ("ambiguous", None, "")


@pytest.mark.parametrize(
    ("machines", "reports", "wanted"),
    [
        ([machine("p", A)], [report("P")], [answered(A, NAME)]),
        ([machine("p", A)], [report("P", "p.x.com")], [answered(A, NAME)]),
        ([machine("p", A)], [report("P", None, A)], [answered(A, BOTH)]),
        ([machine("p", A)], [report("P", None, B)], [answered(A, NAME)]),
        ([machine("p", A)], [report("o", None, A)], [answered(A, "GUID")]),
        ([machine("p", A)], [report("o")], [silent(A), UNKNOWN]),
        ([machine("p", A, "p.x.com")], [report("P", "p.z.com")], [silent(A), UNKNOWN]),
        (TWO, [report("P", "p.y.com")], [silent(A), answered(B, "DNS name")]),
        (TWO, [report("P")], [silent(A), silent(B), AMBIGUOUS]),
        (TWO, [report("P", None, B)], [silent(A), answered(B, BOTH)]),
        ([machine("p", A), machine("o", A)], [report("O", None, A)], [silent(A), answered(A, BOTH)]),
        ([machine("p", A), machine("o", A)], [report("R", None, A)], [silent(A), silent(A), AMBIGUOUS]),
        (  # a clone answers under its own name, also if another machine has its GUID
            [machine("p", A), machine("o", B)],
            [report("P", None, A), report("O", None, A)],
            [answered(A, BOTH), answered(B, NAME)],
        ),
        (
            [machine("p", A)],
            [report("P", "p.x.com"), report("P", "p.y.com")],
            [("ambiguous", A, ""), AMBIGUOUS, AMBIGUOUS],
        ),
        ([], [report("P")], [UNKNOWN]),
        ([machine("p", "")], [report("o")], [silent(""), UNKNOWN]),  # two unknown GUIDs are not equal
    ],
)
def test_machines_of_the_directory(machines, reports, wanted) -> None:
    assert matched(machines, *reports) == wanted


def test_notes_say_what_does_not_agree() -> None:
    def notes(machines: list[DirectoryMachine], *reports: MachineReport) -> list[MachineMatch]:
        return [one for found in matches_of(machines, answers_of(reports)) for one in found.notes]

    assert notes([machine("p", A)], report("P", None, B)) == [
        f"its queue manager is {B}, that of the directory {A}"
    ]
    assert notes([machine("p", A)], report("o", None, A)) == ["the directory calls this queue manager p"]
    assert notes(TWO, report("P")) == ["the directory has several such machines: p.x.com, p.y.com"]
    assert notes([], report("P", "p.x.com"), report("P", "p.y.com"), report("P")) == [
        "the files have several machines of this name"
    ]
    several = notes([machine("p", C)], report("P", "p.x.com"), report("P", "p.y.com"))
    assert several == ["several machines answered: P-p.x.com-None, P-p.y.com-None"]
