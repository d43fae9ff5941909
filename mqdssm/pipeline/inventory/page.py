"""Page of an inventory: totals, charts and lists.

A list has as many rows as a page can hold.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqdssm.pipeline.inventory.collect import PEOPLE_COUNTS, Inventory, Record
from mqdssm.pipeline.inventory.machines.answers import ANSWERED
from mqdssm.pipeline.inventory.machines.states import MachineStates
from mqdssm.pipeline.inventory.problems import CLONES, ORPHANS, list_problem_rules
from mqdssm.pipeline.report.charts import make_chart
from mqdssm.pipeline.report.page import check_page, format_value, write_page
from mqdssm.pipeline.report.validation import make_anchor

SITES_MAX: Final = 300
MACHINES_MAX: Final = 300
QUEUES_MAX: Final = 300
STATES_MAX: Final = 300
PEOPLE_MAX: Final = 100
PROBLEMS_MAX: Final = 50
NAMES_MAX: Final = 4
"""Accounts that are named in one cell."""


def write_inventory_page(path: Path, inventory: Inventory) -> None:
    """Write the page of an inventory.

    Args:
        path: of the file, which is replaced.
        inventory: what it shows.

    Raises:
        ConfigError: jinja2 is missing, or the file cannot be written.
    """
    check_page(path)
    rules = {rule.id: rule for rule in reversed(list_problem_rules())}  # the first part of each rule
    counts = Counter(problem.rule for problem in inventory.problems)
    sites = list(inventory.list_sites())
    people = list(itertools.islice(inventory.list_people(), PEOPLE_MAX + 1))
    write_page(
        path,
        "inventory.html",
        title=f"Inventory of {format_value(inventory.source)}",
        inventory=inventory,
        tiles=_make_tiles(inventory, counts, sites),
        by_site=make_chart(
            "by-site",
            "Queues by site",
            ((str(site["Name"] or site["Identifier"]), "", {"plain": site["Queues"]}) for site in sites),
            _ONE,
        ),
        by_system=make_chart(
            "by-system", "Machines by operating system", _make_bars(inventory.systems), _ONE
        ),
        by_role=make_chart("by-role", "Machines by role", _make_bars(inventory.roles), _ONE),
        problems=[
            (rules[name], make_anchor(name), counts[name], _select_samples(inventory, name))
            for name in ORPHANS + CLONES
            if counts[name]
        ],
        sites=sorted(sites, key=lambda site: (-site["Queues"], -site["Machines"]))[:SITES_MAX],
        sites_count=len(sites),
        people=people[:PEOPLE_MAX],
        people_more=len(people) > PEOPLE_MAX,
        people_counts=PEOPLE_COUNTS[:7],
        machines=heapq.nsmallest(MACHINES_MAX, inventory.list_machines(), key=_rank_machine),
        queues=heapq.nsmallest(QUEUES_MAX, inventory.list_queues(), key=_rank_queue),
        states=_select_states(inventory),
        named=format_accounts,
    )


_ONE: Final = (("plain", ""),)


def format_accounts(texts: list[str]) -> str:
    """Return a few accounts for a narrow cell, by name if they have one."""
    short = [text.partition(" (S-")[0] for text in texts[:NAMES_MAX]]
    more = f" and {len(texts) - NAMES_MAX} more" if len(texts) > NAMES_MAX else ""
    return ", ".join(short) + more


@dataclass(frozen=True, slots=True)
class _StateLists:
    """States of machines, as the page shows them.

    Attributes:
        states: of the inventory.
        machines: the first machines: those that need a look, then those with most messages.
        machines_count: number of all machines.
        queues: the queues with most messages.
        queues_count: number of all queues.
    """

    states: MachineStates
    machines: list[Record]
    machines_count: int
    queues: list[Record]
    queues_count: int


def _select_states(inventory: Inventory) -> _StateLists | None:
    states = inventory.states
    if states is None:
        return None
    machines = list(states.list_machines())
    counted = _Counted(states.list_queues())
    queues = heapq.nsmallest(STATES_MAX, counted, key=_rank_queue_state)
    first = heapq.nsmallest(STATES_MAX, machines, key=_rank_machine_state)
    return _StateLists(states, first, len(machines), queues, counted.count)


class _Counted:
    """Iterator that counts its records.

    Attributes:
        count: number of records so far.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.count = 0
        self._records = iter(records)

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.count += 1
            yield record


def _rank_machine_state(row: Record) -> tuple[bool, int, str]:
    """Sort key of machines: those that need a look, then those with most messages."""
    return row["State"] == ANSWERED, -(row["Messages"] or 0), str(row["ComputerName"])


def _rank_queue_state(row: Record) -> tuple[int, int, str, str]:
    """Sort key of queues: by messages, then by messages in the journal."""
    return (
        -(row["Messages"] or 0),
        -(row["JournalMessages"] or 0),
        str(row["Machine"]).casefold(),
        str(row["Name"]).casefold(),
    )


def _make_bars(numbers: Mapping[str, int]) -> list[tuple[str, str, dict[str, int]]]:
    return [(name, "", {"plain": count}) for name, count in numbers.items()]


def _make_tiles(
    inventory: Inventory, counts: Counter[str], sites: list[Record]
) -> list[tuple[int, str, str]]:
    problems = (
        (sum(counts[name] for name in ORPHANS), "orphans", "warning"),
        (sum(counts[name] for name in CLONES), "clones and doubles", "error"),
    )
    return [
        (inventory.counts.get("queue-manager", 0), "machines", ""),
        (inventory.counts.get("queue", 0), "queues", ""),
        (len(sites), "sites", ""),
        *((count, called, tone if count else "fine") for count, called, tone in problems),
    ]


def _select_samples(inventory: Inventory, name: str) -> list[object]:
    return list(
        itertools.islice((problem for problem in inventory.problems if problem.rule == name), PROBLEMS_MAX)
    )


def _rank_machine(row: Record) -> tuple[bool, int, str]:
    """Sort key of machines: with problems first, then with most queues."""
    return not row["Problems"], -(row["Queues"] or 0), str(row["ComputerName"])


def _rank_queue(row: Record) -> tuple[bool, bool, str]:
    """Sort key of queues: with problems first, then with wrong descriptors."""
    return not row["Problems"], not row["RightsProblem"], str(row["Pathname"])
