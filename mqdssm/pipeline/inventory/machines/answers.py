"""Answers of machines: all reports of each, matched with the directory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from mqdssm.pipeline.inventory.machines.report import (
    Counts,
    MachineReport,
    QueueReport,
    find_last_known,
    find_newest,
)

ANSWERED: Final = "answered"
SILENT: Final = "no answer"
UNKNOWN: Final = "not in the directory"
AMBIGUOUS: Final = "ambiguous"
_NEVER: Final = datetime(1, 1, 1, tzinfo=UTC)
_OF_ALL: Final = frozenset({"queues", "problems", "is_complete", "own", "outgoing", "origin"})
"""Fields of a report that are not the last known value of all reports."""


@dataclass(frozen=True, slots=True)
class MachineAnswer:
    """Combined reports of one machine.

    Attributes:
        report: last known values; `origin` is empty.
        files: the files, oldest report first.
        activity: by the key of a queue, the moment of the report whose numbers differ from the report before.
        is_ambiguous: True if the files have several machines of this name.
    """

    report: MachineReport
    files: tuple[str, ...]
    activity: Mapping[str, datetime]
    is_ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class DirectoryMachine:
    """A queue manager of the directory.

    Attributes:
        place: key by which queues name it.
        identifier: its GUID.
        computer_name: name of its computer.
        dns_name: full name of the computer, or empty.
        is_foreign: True for a foreign system, which has no Windows.
    """

    place: Any
    identifier: str
    computer_name: str
    dns_name: str = ""
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class MachineMatch:
    """A machine of the directory, an answer, or both.

    Attributes:
        state: `ANSWERED`, `SILENT`, `UNKNOWN` or `AMBIGUOUS`.
        machine: of the directory; None if it has none, or several that could be meant.
        answer: of the machine; None if there is none, or several that could be meant.
        by: by which names they were matched.
        notes: what does not agree, and what could be meant.
    """

    state: str
    machine: DirectoryMachine | None = None
    answer: MachineAnswer | None = None
    by: str = ""
    notes: tuple[str, ...] = ()


# -- reports of one machine


def answers_of(reports: Iterable[MachineReport]) -> list[MachineAnswer]:
    """Combine the reports of each machine, in any order.

    Reports belong together if their DNS names are equal. A report without a DNS name belongs to the machine
    of its computer name. It stands alone if there are several of that name, or the GUIDs differ.
    """
    groups: defaultdict[tuple[str, ...], list[MachineReport]] = defaultdict(list)
    by_name: defaultdict[str, list[MachineReport]] = defaultdict(list)
    for report in reports:
        if report.dns_key:
            groups["dns", report.dns_key].append(report)
        else:
            by_name[report.name_key].append(report)
    full: defaultdict[str, list[list[MachineReport]]] = defaultdict(list)
    for group in groups.values():
        for name in {report.name_key for report in group}:
            full[name].append(group)
    full = defaultdict(
        list, {name: [list(group) for group in groups_of_name] for name, groups_of_name in full.items()}
    )
    ambiguous: set[tuple[str, ...]] = set()
    for name, short in by_name.items():
        for report in short:
            key, is_ambiguous = _group_of(report, full[name], short)
            groups[key].append(report)
            if is_ambiguous:
                ambiguous.add(key)
    answers = [_combine(group, is_ambiguous=key in ambiguous) for key, group in groups.items()]
    return sorted(answers, key=lambda answer: (answer.report.name_key, answer.report.dns_key, answer.files))


def _group_of(
    report: MachineReport, full: Sequence[Sequence[MachineReport]], short: Sequence[MachineReport]
) -> tuple[tuple[str, ...], bool]:
    """Find the group of a report without a DNS name.

    Args:
        report: the report.
        full: groups of reports with DNS names that have its computer name.
        short: all reports without a DNS name that have it.

    Returns:
        The key of the group, and True if other machines could be meant.
    """
    guids = [{other.identifier for other in group if other.identifier} for group in full]
    if report.identifier is not None:
        fitting = [
            group
            for group, guids_of_group in zip(full, guids, strict=True)
            if report.identifier in guids_of_group
        ]
        fitting = fitting or [
            group for group, guids_of_group in zip(full, guids, strict=True) if not guids_of_group
        ]
    else:
        fitting = list(full)
    if len(fitting) == 1:
        return ("dns", fitting[0][0].dns_key), False
    own = sorted({other.identifier for other in short if other.identifier is not None})
    if report.identifier is not None:
        return ("name", report.name_key, report.identifier), len(fitting) > 1
    is_ambiguous = len(own) > 1 or len(fitting) > 1
    return ("name", report.name_key, "" if is_ambiguous or not own else own[0]), is_ambiguous


def _combine(group: Sequence[MachineReport], *, is_ambiguous: bool) -> MachineAnswer:
    ordered = sorted(
        group, key=lambda report: (report.moment or _NEVER, report.is_complete, report.origin, repr(report))
    )
    values = {
        field.name: find_last_known(getattr(report, field.name) for report in ordered)
        for field in fields(MachineReport)
        if field.name not in _OF_ALL
    }
    complete = [number for number, report in enumerate(ordered) if report.is_complete]
    current = ordered[complete[-1] :] if complete else ordered
    keys = dict.fromkeys(queue.key for report in current for queue in report.queues)
    queues: dict[str, list[QueueReport]] = {key: [] for key in keys}
    seen: defaultdict[str, list[tuple[datetime, Counts]]] = defaultdict(list)
    for report in ordered:
        for queue in report.queues:
            if queue.key in queues:
                queues[queue.key].append(queue)
                if report.moment is not None and queue.counts.is_known:
                    seen[queue.key].append((report.moment, queue.counts))
    combined = MachineReport(
        **values,
        origin="",
        queues=tuple(find_newest(values_of_queue) for values_of_queue in queues.values()),
        is_complete=bool(complete),
        own=find_newest([report.own for report in ordered]),
        outgoing=find_newest([report.outgoing for report in ordered]),
        problems=current[0].problems if complete else (),
    )
    activity = {
        key: moment
        for key, values_of_queue in seen.items()
        if (moment := _find_last_change(values_of_queue)) is not None
    }
    return MachineAnswer(
        combined, tuple(dict.fromkeys(report.origin for report in ordered)), activity, is_ambiguous
    )


def _find_last_change(seen: Sequence[tuple[datetime, Counts]]) -> datetime | None:
    """Return the time of the last numbers that differ from the numbers before."""
    change = None
    for (_, before), (moment, after) in pairwise(seen):
        if before != after:
            change = moment
    return change


# -- machines of the directory


class _Index:
    """Machines of the directory by their names."""

    def __init__(self, machines: Iterable[DirectoryMachine]) -> None:
        self._by_guid: defaultdict[str, list[DirectoryMachine]] = defaultdict(list)
        self._by_dns: defaultdict[str, list[DirectoryMachine]] = defaultdict(list)
        self._by_name: defaultdict[str, list[DirectoryMachine]] = defaultdict(list)
        for machine in machines:
            self._by_guid[machine.identifier].append(machine)
            self._by_name[machine.computer_name.casefold()].append(machine)
            if machine.dns_name:
                self._by_dns[machine.dns_name.casefold()].append(machine)

    def match(self, answer: MachineAnswer) -> MachineMatch:
        """Find the machine that answered.

        A DNS name is stronger than a computer name. The GUID decides between several machines of one name,
        and finds a machine of another name.
        """
        report = answer.report
        named, by = self._by_dns.get(report.dns_key, []), "DNS name"
        if not named:
            named, by = (
                [machine for machine in self._by_name.get(report.name_key, []) if _fits(machine, report)],
                ("computer name"),
            )
        guids = self._by_guid.get(report.identifier, []) if report.identifier else []
        agreeing = [machine for machine in named if machine in guids]
        if len(agreeing) == 1:
            return MachineMatch(ANSWERED, agreeing[0], answer, f"{by} and GUID")
        if len(named) == 1:
            return MachineMatch(ANSWERED, named[0], answer, by, _report_other_guid(named[0], report))
        if not named and len(guids) == 1:
            note = f"the directory calls this queue manager {guids[0].computer_name}"
            return MachineMatch(ANSWERED, guids[0], answer, "GUID", (note,))
        meant = agreeing or named or guids
        if not meant:
            return MachineMatch(UNKNOWN, None, answer)
        names = ", ".join(sorted(machine.dns_name or machine.identifier for machine in meant))
        return MachineMatch(
            AMBIGUOUS, None, answer, "", (f"the directory has several such machines: {names}",)
        )


def _fits(machine: DirectoryMachine, report: MachineReport) -> bool:
    """Return True unless both have DNS names, which differ then."""
    return not (machine.dns_name and report.dns_key)


def _report_other_guid(machine: DirectoryMachine, report: MachineReport) -> tuple[str, ...]:
    if report.identifier in {None, machine.identifier}:
        return ()
    return (f"its queue manager is {report.identifier}, that of the directory {machine.identifier}",)


def matches_of(machines: Sequence[DirectoryMachine], answers: Iterable[MachineAnswer]) -> list[MachineMatch]:
    """Match answers with the machines of the directory.

    Returns:
        The machines of the directory in their order, then all other answers.
    """
    index = _Index(machines)
    by_machine: defaultdict[int, list[MachineMatch]] = defaultdict(list)
    others: list[MachineMatch] = []
    for answer in answers:
        match = index.match(answer)
        if answer.is_ambiguous:
            note = "the files have several machines of this name"
            match = MachineMatch(AMBIGUOUS, None, answer, "", (note, *match.notes))
        if match.machine is None:
            others.append(match)
        else:
            by_machine[id(match.machine)].append(match)
    matched = []
    for machine in machines:
        several = by_machine[id(machine)]
        if len(several) < 2:
            matched += several or [MachineMatch(SILENT, machine)]
            continue
        names = ", ".join(file for match in several if match.answer for file in match.answer.files)
        matched.append(MachineMatch(AMBIGUOUS, machine, None, "", (f"several machines answered: {names}",)))
        others += [replace(match, state=AMBIGUOUS, machine=None, by="") for match in several]
    return matched + others
