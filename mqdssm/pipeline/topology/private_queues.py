r"""Private queues for other message brokers, from reports of machines.

No directory knows private queues. The files are those of ``mqdssm inventory --add``: the output of the script
on a machine, or metrics of windows_exporter. They have no rights and no multicast addresses of queues.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqdssm.pipeline.inventory.machines.answers import MachineAnswer, answers_of
from mqdssm.pipeline.inventory.machines.files import FileProblem, files_of, read_reports
from mqdssm.pipeline.inventory.machines.report import QueueReport
from mqdssm.pipeline.topology.model import BrokerQueue, QueueRights, octets_of

_RIGHTS: Final = QueueRights(problem="machines do not report the rights on their private queues")
_ENCRYPTED: Final = "body"


@dataclass(frozen=True, slots=True)
class PrivateQueues:
    """Private queues of machines.

    Attributes:
        queues: the queues; each has the computer's name as its machine says it.
        problems: files that could not be read.
        incomplete: machines whose files have counters only: idle queues may be missing.
    """

    queues: tuple[BrokerQueue, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    incomplete: tuple[str, ...] = ()


def read_private_queues(paths: Sequence[Path]) -> PrivateQueues:
    """Read the private queues of machines; a broken file does not stop the others.

    Args:
        paths: files, or folders of files.

    Raises:
        ConfigError: a path does not exist.
    """
    reports, problems = read_reports(files_of(paths))
    answers = answers_of(reports)
    return PrivateQueues(
        tuple(_list_queues(answers)),
        tuple(problems),
        tuple(answer.report.computer_name for answer in answers if not answer.report.is_complete),
    )


def _list_queues(answers: Iterable[MachineAnswer]) -> Iterator[BrokerQueue]:
    for answer in answers:
        for queue in answer.report.queues:
            if queue.kind == "private":
                yield _make_queue(answer.report.computer_name, queue)


def _make_queue(computer: str, queue: QueueReport) -> BrokerQueue:
    return BrokerQueue(
        path=f"{computer}\\{queue.name}",
        label=queue.label or "",
        quota=octets_of(queue.quota),
        journal_quota=octets_of(queue.journal_quota),
        journaling=bool(queue.journaling),
        transactional=bool(queue.transactional),
        authentication=bool(queue.authentication),
        encrypted=(queue.privacy or "").casefold() == _ENCRYPTED,
        rights=_RIGHTS,
    )
