"""Problems of a directory server, found in the parts of its snapshot."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mqdssm.model.replication import PurgeState
from mqdssm.server.snapshot import (
    NeighborSnapshot,
    OwnObjectsSnapshot,
    PartitionSnapshot,
    Problem,
    Severity,
    StoreSnapshot,
    describe_backlog,
)

BSC_SILENT_INTERVALS: Final = 2
"""Intervals of acknowledgements after which a silent BSC is a problem: a single message may get lost."""
PSC_SILENT_INTERVALS: Final = 3
"""Intervals of headers after which a BSC's silent PSC is a problem."""
_RANK: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderProblems:
    """Reasons why files of a server cannot be written; empty texts if they can.

    Attributes:
        messages: messages that arrive cannot be recorded.
        numbers: messages cannot be numbered, or not many more of them.
        notified: the changes whose owners were notified cannot be recorded, or nobody is notified.
        directory: the private directory has ended, and is not started again.
    """

    messages: str = ""
    numbers: str = ""
    notified: str = ""
    directory: str = ""


@dataclass(frozen=True, slots=True)
class UnreachablePsc:
    """PSC of a BSC that cannot be reached.

    Attributes:
        machine_name: its machine.
        problem: why the last attempt to reach it failed.
        queued: messages that wait for it.
    """

    machine_name: str
    problem: str
    queued: int


NO_FOLDER_PROBLEMS: Final = FolderProblems()


def problems_of(
    *,
    is_working: bool,
    store: StoreSnapshot,
    partitions: Iterable[PartitionSnapshot],
    neighbors: Iterable[NeighborSnapshot],
    own_objects: OwnObjectsSnapshot | None = None,
    folder: FolderProblems = NO_FOLDER_PROBLEMS,
    bsc_ack_s: float,
    psc: UnreachablePsc | None = None,
) -> tuple[Problem, ...]:
    """Find the problems of a server, the worst first.

    Args:
        is_working: False if the server was stopped.
        store: its directory.
        partitions: its partitions.
        neighbors: its neighbours.
        own_objects: what it knows by notifications; None if it receives none.
        folder: why files of the server cannot be written.
        bsc_ack_s: interval of the acknowledgements of BSCs in seconds.
        psc: for a BSC, its PSC if that cannot be reached.
    """
    problems = [
        *_of_server(store, own_objects, is_working=is_working),
        *_of_folder(folder),
        *(problem for partition in partitions for problem in _of_partition(partition)),
        *(problem for neighbor in neighbors for problem in _of_neighbor(neighbor, bsc_ack_s)),
        *(() if psc is None else (_of_psc(psc),)),
    ]
    return tuple(sorted(problems, key=lambda problem: _RANK[problem.severity]))


def _of_server(
    store: StoreSnapshot, own_objects: OwnObjectsSnapshot | None, *, is_working: bool
) -> Iterator[Problem]:
    if not is_working:
        yield Problem(
            severity="error", subject="server", text="it has stopped: its log has the reason; start it again"
        )
    if not store.is_reachable:
        text = f"the directory cannot be reached, and changes wait for it: {store.problem}"
        yield Problem(severity="error", subject="store", text=text)
    if own_objects is not None and not own_objects.is_receiving:
        text = "no change notifications are received: the log has the reason; start the server again"
        yield Problem(severity="warning", subject="notification", text=text)


def _of_folder(folder: FolderProblems) -> Iterator[Problem]:
    if folder.directory:
        yield Problem(severity="error", subject="private directory", text=folder.directory)
    if folder.messages:
        text = f"messages of other servers are not accepted, and come again: {folder.messages}"
        yield Problem(severity="error", subject="folder", text=text)
    if folder.numbers:
        yield Problem(severity="error", subject="message numbers", text=folder.numbers)
    if folder.notified:
        text = f"owners of changed objects are not notified: {folder.notified}"
        yield Problem(severity="warning", subject="notification of owners", text=text)


def _of_partition(partition: PartitionSnapshot) -> Iterator[Problem]:
    def problem(severity: Severity, text: str) -> Problem:
        return Problem(severity=severity, subject=f"partition {partition.label}", text=text)

    if partition.is_unfinished:
        yield problem("warning", "a change failed halfway, and is tried again: look at the last notes")
    if not partition.owner:
        yield problem("warning", "no server owns it: name an owner, or remove the site")
    if partition.foreign:
        yield problem(
            "warning",
            f"another program has changed {partition.foreign} objects here, which are not replicated: "
            "change them through the owner of the partition",
        )
    if partition.state != PurgeState.NORMAL.name:
        yield problem("info", f"it is synchronized in full ({partition.state})")
    elif partition.missing:
        yield problem(
            "info", f"{partition.missing} numbers of {partition.owner} are missing, and are asked for"
        )


def _of_neighbor(neighbor: NeighborSnapshot, bsc_ack_s: float) -> Iterator[Problem]:
    subject = f"{'BSC' if neighbor.is_bsc else 'PSC'} {neighbor.machine_name}"
    for ack in neighbor.acknowledgements:
        if ack.is_alarm:
            text = (
                f"it has acknowledged {ack.acked_number} of partition {ack.partition_id}, "
                f"{ack.unacknowledged} numbers less than there are, and deleted objects are kept for it: "
                "start it, or remove its site"
            )
            yield Problem(severity="warning", subject=subject, text=text)
    if neighbor.problem:
        text = f"it cannot be reached, and {neighbor.backlog}: {neighbor.problem}"
        yield Problem(severity="warning", subject=subject, text=text)
    if neighbor.silent_s is not None and neighbor.silent_s > BSC_SILENT_INTERVALS * bsc_ack_s:
        text = f"it has acknowledged nothing for {neighbor.silent_s / 3600:.0f} hours: start it, or remove it"
        yield Problem(severity="warning", subject=subject, text=text)


def _of_psc(psc: UnreachablePsc) -> Problem:
    text = f"this server's PSC cannot be reached, and {describe_backlog(0, psc.queued)}: {psc.problem}"
    return Problem(severity="warning", subject=f"PSC {psc.machine_name}", text=text)
