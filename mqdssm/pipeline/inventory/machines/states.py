"""Records of all machines and their queues, private and public ones."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from mqdssm.pipeline.inventory.machines.answers import (
    SILENT,
    DirectoryMachine,
    MachineAnswer,
    MachineMatch,
    answers_of,
    matches_of,
)
from mqdssm.pipeline.inventory.machines.files import FileProblem, files_of, read_reports
from mqdssm.pipeline.inventory.machines.report import Counts, QueueReport, sum_of

Record = dict[str, Any]

BOTH: Final = "directory and machine"
MACHINE_ONLY: Final = "machine"
DIRECTORY_ONLY: Final = "directory"
_COUNTS: Final = ("Messages", "Bytes", "JournalMessages", "JournalBytes")
MACHINE_STATE_COLUMNS: Final = (
    *("ComputerName", "State", "MatchedBy", "DnsName", "Identifier", "Taken"),
    *("OperatingSystem", "OperatingSystemVersion", "Service", "StartMode", "Started", "Received", "Sent"),
    *("PublicQueues", "PrivateQueues", *_COUNTS, "DeadLetterMessages", "DeadLetterBytes"),
    *(
        "ComputerJournalMessages",
        "ComputerJournalBytes",
        "OutgoingMessages",
        "OutgoingBytes",
        "Notes",
        "Files",
    ),
)
QUEUE_STATE_COLUMNS: Final = (
    *("Machine", "Kind", "Name", "State", "Identifier", "Label", *_COUNTS, "LastActivity"),
    *("Transactional", "Journaling", "Authentication", "PrivacyLevel", "Quota", "JournalQuota"),
    *("CreateTime", "ModifyTime", "FullPath"),
)
_SHARED: Final[Mapping[str, str]] = {
    "Identifier": "identifier",
    "Label": "label",
    "Transactional": "transactional",
    "Journaling": "journaling",
    "Authentication": "authentication",
    "PrivacyLevel": "privacy",
    "Quota": "quota",
    "JournalQuota": "journal_quota",
    "CreateTime": "created",
    "ModifyTime": "modified",
}
"""Attributes of a queue that the directory and the machine have: column -> field of a report."""
DIRECTORY_QUEUE_COLUMNS: Final = ("Pathname", *_SHARED, "FullPath")
DIRECTORY_MACHINE_COLUMNS: Final = (
    "Identifier",
    "ComputerName",
    "QualifiedComputerName",
    "ForeignSystem",
    "FullPath",
)


class PlacedRows(Protocol):
    """Source of rows of the directory, with the keys of their machines."""

    def __call__(self, name: str, columns: Sequence[str]) -> Iterator[tuple[Record, Any]]:
        """Yield rows of a type, and the key of each one's machine; None is not known."""


class MachineStates:
    """States of machines.

    Attributes:
        files: number of files.
        problems: files that were not added.
        counts: number of machines by state.

    Args:
        paths: files, or folders of files.
        rows: rows of the directory.
        dns_name: returns the DNS name of the computer of a queue manager, by the DN of the queue manager.
    """

    def __init__(self, paths: Sequence[Path], rows: PlacedRows, dns_name: Callable[[str], str]) -> None:
        files = files_of(paths)
        reports, problems = read_reports(files)
        self.files = len(files)
        self.problems: Sequence[FileProblem] = problems
        self._rows = rows
        self._matches = matches_of(list(_list_directory_machines(rows, dns_name)), answers_of(reports))
        self.counts: Mapping[str, int] = Counter(match.state for match in self._matches)

    def list_machines(self) -> Iterator[Record]:
        """Yield all machines: those of the directory, then those that are not in it."""
        for match in self._matches:
            yield _make_machine_record(match)

    def list_queues(self) -> Iterator[Record]:
        """Yield all queues: those of the directory, then those that only machines have."""
        places = {match.machine.place: match for match in self._matches if match.machine is not None}
        by_name = self._by_name()
        public = {id(match.answer): _PublicQueues(match.answer) for match in self._matches if match.answer}
        seen: defaultdict[int, set[str]] = defaultdict(set)
        for row, place in self._rows("queue", DIRECTORY_QUEUE_COLUMNS):
            machine, _, name = (row.get("Pathname") or "").partition("\\")
            match = by_name.get(machine.casefold()) if place is None else places.get(place)
            answer = None if match is None else match.answer
            queue = None if answer is None else public[id(answer)].find(row.get("Identifier"), name)
            if answer is not None and queue is not None:
                seen[id(answer)].add(queue.key)
            yield _make_public_record(row, machine, name, answer, queue)
        for match in self._matches:
            if match.answer is None:
                continue
            for queue in match.answer.report.queues:
                if queue.key not in seen[id(match.answer)]:
                    yield _make_queue_record(match.answer, queue, MACHINE_ONLY)

    def _by_name(self) -> dict[str, MachineMatch]:
        """Return the matches by computer name, where queues name no queue manager."""
        by_name: defaultdict[str, list[MachineMatch]] = defaultdict(list)
        for match in self._matches:
            if match.answer is not None:
                by_name[match.answer.report.name_key].append(match)
        return {name: files[0] for name, files in by_name.items() if len(files) == 1}


def _list_directory_machines(rows: PlacedRows, dns_name: Callable[[str], str]) -> Iterator[DirectoryMachine]:
    for row, place in rows("queue-manager", DIRECTORY_MACHINE_COLUMNS):
        yield DirectoryMachine(
            place=place if place is not None else row.get("Identifier"),
            identifier=row.get("Identifier") or "",
            computer_name=row.get("ComputerName") or "",
            dns_name=row.get("QualifiedComputerName") or dns_name(row.get("FullPath") or ""),
            is_foreign=bool(row.get("ForeignSystem")),
        )


class _PublicQueues:
    """Public queues of an answer, by GUID and by name."""

    def __init__(self, answer: MachineAnswer) -> None:
        public = [queue for queue in answer.report.queues if queue.kind == "public"]
        self._by_guid = {queue.identifier: queue for queue in public if queue.identifier is not None}
        self._by_name = {queue.key: queue for queue in public}

    def find(self, identifier: str | None, name: str) -> QueueReport | None:
        """Find a queue by GUID, else by name."""
        return self._by_guid.get(identifier or "") or self._by_name.get(name.casefold())


def _select_numbers(counts: Counts, names: Sequence[str] = _COUNTS) -> Record:
    values = (counts.messages, counts.bytes, counts.journal_messages, counts.journal_bytes)
    return dict(zip(names, values, strict=True))


def _make_machine_record(match: MachineMatch) -> Record:
    machine, answer = match.machine, match.answer
    record: Record = dict.fromkeys(MACHINE_STATE_COLUMNS)
    notes = list(match.notes)
    if machine is not None:
        record |= {
            "ComputerName": machine.computer_name,
            "DnsName": machine.dns_name or None,
            "Identifier": machine.identifier,
        }
        notes += ["a foreign system"] if machine.is_foreign else []
    if answer is not None:
        report = answer.report
        own = [queue for queue in report.queues if queue.kind != "system"]
        if machine is None:
            record |= {"ComputerName": report.computer_name, "Identifier": report.identifier}
        record |= {
            "DnsName": record["DnsName"] or report.dns_name,
            "Taken": report.moment,
            "OperatingSystem": report.system,
            "OperatingSystemVersion": report.system_version,
            "Service": report.service,
            "StartMode": report.start_mode,
            "Started": report.started,
            "Received": report.received,
            "Sent": report.sent,
            "PublicQueues": sum(queue.kind == "public" for queue in own),
            "PrivateQueues": sum(queue.kind == "private" for queue in own),
            **_select_numbers(sum_of(queue.counts for queue in own)),
            **_select_numbers(
                report.own,
                ("DeadLetterMessages", "DeadLetterBytes", "ComputerJournalMessages", "ComputerJournalBytes"),
            ),
            "OutgoingMessages": report.outgoing.messages,
            "OutgoingBytes": report.outgoing.bytes,
            "Files": list(answer.files),
        }
        notes += [f"not found out: {problem}" for problem in report.problems]
        notes += [] if report.is_complete else ["idle queues may be missing: the files have counters only"]
    return record | {"State": match.state, "MatchedBy": match.by or None, "Notes": notes}


def _make_public_record(
    row: Record, machine: str, name: str, answer: MachineAnswer | None, queue: QueueReport | None
) -> Record:
    """Return the record of a queue of the directory, with its attributes there."""
    if queue is None or answer is None:
        is_complete = answer is not None and answer.report.is_complete
        record = dict.fromkeys(QUEUE_STATE_COLUMNS) | {"State": DIRECTORY_ONLY if is_complete else SILENT}
    else:
        record = _make_queue_record(answer, queue, BOTH)
    stored = {column: row[column] for column in (*_SHARED, "FullPath") if row.get(column) is not None}
    return record | stored | {"Machine": machine, "Kind": "public", "Name": name}


def _make_queue_record(answer: MachineAnswer, queue: QueueReport, state: str) -> Record:
    record: Record = dict.fromkeys(QUEUE_STATE_COLUMNS)
    return (
        record
        | {column: getattr(queue, name) for column, name in _SHARED.items()}
        | _select_numbers(queue.counts)
        | {
            "Machine": answer.report.computer_name,
            "Kind": queue.kind,
            "Name": queue.name,
            "State": state,
            "LastActivity": answer.activity.get(queue.key),
        }
    )
