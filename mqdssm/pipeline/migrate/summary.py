"""Results of all tasks of a planning, added up for the plan."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from mqdssm.pipeline.migrate.operations import LEVELS
from mqdssm.pipeline.migrate.outcome import TaskResult
from mqdssm.pipeline.migrate.plan_file import SIDS_NAME, SOURCE_NAME, Level, PlanFile, TableCounts
from mqdssm.tables.mqis import MQIS_TABLES

_COUNTS: Final = ("read", "add", "modify", "equal", "skipped", "conflicts", "rejected")


@dataclass(slots=True)
class PlanSummary:
    """Results of planning tasks, added up.

    Attributes:
        refused: GUIDs of objects that other rows cannot depend on: their rows were rejected or conflict.
    """

    refused: set[UUID] = field(default_factory=set)
    _done: list[TaskResult] = field(default_factory=list)

    def add(self, done: Iterable[TaskResult]) -> None:
        """Add the results of tasks."""
        for one in done:
            self._done.append(one)
            self.refused |= {UUID(guid) for guid in one.refused}

    @property
    def stopped(self) -> int:
        """Number of rows with a conflict that prevents the plan from being applied."""
        return sum(one.counts["stopped"] for one in self._done)

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations, by ``role action``."""
        sums: Counter[str] = Counter()
        for one in self._done:
            sums.update(one.operations)
        return dict(sorted(sums.items()))

    @property
    def unmapped(self) -> Counter[tuple[str, str]]:
        """Number of occurrences of SIDs that the map lacks, by (SID, where)."""
        sums: Counter[tuple[str, str]] = Counter()
        for one in self._done:
            sums.update(one.unmapped)
        return sums

    @property
    def equal(self) -> tuple[PlanFile, ...]:
        """Files of equal objects."""
        return _by_path(file for one in self._done for file in one.equal)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels with their files of operations."""
        files: dict[int, list[PlanFile]] = {}
        for one in self._done:
            for number, file in one.levels:
                files.setdefault(number, []).append(file)
        return tuple(
            Level(number=number, name=LEVELS[number], files=_by_path(files[number]))
            for number in sorted(files)
        )

    def tables(self, folder: Path) -> dict[str, TableCounts]:
        """Return the counts of each table that the source has."""
        found = {}
        for name, table in MQIS_TABLES.items():
            if not (folder / SOURCE_NAME / name).is_dir():
                continue
            counts: Counter[str] = Counter()
            lost: Counter[str] = Counter()
            for one in self._done:
                if one.table == name:
                    counts.update(one.counts)
                    lost.update(one.not_carried)
            found[name] = TableCounts(
                type=table.type_name,
                not_carried=dict(sorted(lost.items())),
                **{one: counts[one] for one in _COUNTS},
            )
        return found


def _by_path(files: Iterable[PlanFile]) -> tuple[PlanFile, ...]:
    return tuple(sorted(files, key=lambda one: one.path))


def write_sids(folder: Path, unmapped: Mapping[tuple[str, str], int], known: Collection[str]) -> int:
    """Write the list of SIDs that are neither mapped nor known to the target.

    Args:
        folder: of the plan.
        unmapped: (SID, where) -> how often.
        known: SIDs that the target knows.

    Returns:
        The number of these SIDs.
    """
    found: dict[str, dict[str, int]] = {}
    for (sid, where), count in sorted(unmapped.items()):
        if sid not in known:
            found.setdefault(sid, {})[where] = count
    counted = sorted(
        ((sum(where.values()), sid) for sid, where in found.items()), key=lambda one: (-one[0], one)
    )
    listed = [{"sid": sid, "count": count, "where": found[sid]} for count, sid in counted]
    (folder / SIDS_NAME).write_text(json.dumps(listed, indent=2) + "\n", encoding="ascii")
    return len(listed)
