"""Report of one machine about itself: queues, service, operating system."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, TypeVar

PRIVATE: Final = "private$\\"
"""Beginning of the names of private queues ([MS-MQMQ] 2.1.1)."""
SYSTEM_ENDING: Final = "queue$"
r"""Ending of the names of the private queues that MSMQ makes for itself, as ``private$\admin_queue$``."""
SERVICE: Final = "msmq"
"""Name of MSMQ's service in Windows, in lower case."""


class ReportProblem(ValueError):  # noqa: N818  as ObjectNotFound
    """Defect of a file; the message names its place in the file."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a queue and of its journal.

    Attributes:
        messages: messages in the queue.
        bytes: size of these messages.
        journal_messages: messages in its journal.
        journal_bytes: size of these messages.
    """

    messages: int | None = None
    bytes: int | None = None
    journal_messages: int | None = None
    journal_bytes: int | None = None

    @property
    def is_known(self) -> bool:
        """True if at least one number is known."""
        return self != Counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    r"""One queue of a machine; None is not known.

    Attributes:
        name: name below the machine, as ``orders`` or ``private$\orders``.
        identifier: GUID of a public queue.
        label: its label.
        transactional: True if messages come in transactions.
        journaling: True if read messages go to the journal.
        authentication: True if only authenticated messages are accepted.
        privacy: the accepted encryption, in Windows' words.
        quota: of the queue, KB.
        journal_quota: of its journal, KB.
        created: when it was made.
        modified: when its properties were changed.
        counts: numbers of messages.
    """

    name: str
    identifier: str | None = None
    label: str | None = None
    transactional: bool | None = None
    journaling: bool | None = None
    authentication: bool | None = None
    privacy: str | None = None
    quota: int | None = None
    journal_quota: int | None = None
    created: datetime | None = None
    modified: datetime | None = None
    counts: Counts = Counts()

    @property
    def key(self) -> str:
        """Name for comparisons: names of queues have no case."""
        return self.name.casefold()

    @property
    def kind(self) -> str:
        """Kind of queue: public, private or system."""
        if not self.key.startswith(PRIVATE):
            return "public"
        return "system" if self.key.endswith(SYSTEM_ENDING) else "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """One machine at one moment; None is not known.

    Attributes:
        origin: the file.
        computer_name: name of the computer.
        dns_name: its full name in the DNS.
        identifier: GUID of its queue manager.
        moment: of the report.
        system: operating system.
        system_version: its version.
        service: state of MSMQ's service.
        start_mode: how the service starts.
        started: when the service started.
        received: messages that arrived since then.
        sent: messages that were sent since then.
        queues: queues of this machine.
        is_complete: True if `queues` are all of them.
        own: dead-letter queue and computer journal.
        outgoing: messages that wait to be sent to other machines.
        problems: what the machine could not find out about itself.
    """

    origin: str
    computer_name: str
    dns_name: str | None = None
    identifier: str | None = None
    moment: datetime | None = None
    system: str | None = None
    system_version: str | None = None
    service: str | None = None
    start_mode: str | None = None
    started: datetime | None = None
    received: int | None = None
    sent: int | None = None
    queues: tuple[QueueReport, ...] = ()
    is_complete: bool = False
    own: Counts = Counts()
    outgoing: Counts = Counts()
    problems: tuple[str, ...] = ()

    @property
    def name_key(self) -> str:
        """Computer name for comparisons."""
        return self.computer_name.casefold()

    @property
    def dns_key(self) -> str:
        """DNS name for comparisons; empty if none is known, or one without a domain."""
        name = (self.dns_name or "").rstrip(".").casefold()
        return name if "." in name else ""


Data = TypeVar("Data", Counts, QueueReport)


def find_newest(values: Sequence[Data]) -> Data:
    """Return the last known value of each field.

    Args:
        values: of one thing, oldest first.
    """
    return type(values[-1])(**{name: _find_last(values, name) for name in _list_names(values[-1])})


def find_last_known(values: Iterable[Any]) -> Any:
    """Return the last value that is not None; None if there is none."""
    last = None
    for value in values:
        last = last if value is None else value
    return last


def _find_last(values: Sequence[Any], name: str) -> Any:
    field_values = [getattr(value, name) for value in values]
    return (
        find_newest(field_values) if isinstance(field_values[-1], Counts) else find_last_known(field_values)
    )


def _list_names(value: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(value))


@dataclass(frozen=True, slots=True)
class CountedQueues:
    """Numbers of a machine's performance counters.

    Attributes:
        queues: of its own queues, by name.
        own: of its dead-letter queue and its journal.
        outgoing: sums of its outgoing queues.
    """

    queues: Mapping[str, Counts]
    own: Counts
    outgoing: Counts


def sort_instances(names: Iterable[str | None], instances: Iterable[tuple[str, Counts]]) -> CountedQueues:
    r"""Sort the instances of the performance object *MSMQ Queue*.

    An own queue is ``machine\queue``. The instance of the computer's own queues has a name without a
    backslash, in the language of Windows. All others are outgoing queues, with the name of another machine or
    a format name.

    Args:
        names: names of the machine.
        instances: name and numbers of each instance.
    """
    own_names = {name.casefold() for name in names if name} | {"."}
    queues: dict[str, Counts] = {}
    own = Counts()
    outgoing: list[Counts] = []
    for instance, counts in instances:
        machine, backslash, name = instance.partition("\\")
        if backslash and name and machine.casefold() in own_names:
            queues[name] = counts
        elif not backslash and "=" not in instance:
            own = find_newest([own, counts])
        else:
            outgoing.append(counts)
    return CountedQueues(queues, own, sum_of(outgoing))


def sum_of(counts: Iterable[Counts]) -> Counts:
    """Add numbers; a sum of nothing known is not known."""
    sums: dict[str, int] = {}
    for summand in counts:
        for name in _list_names(summand):
            if (number := getattr(summand, name)) is not None:
                sums[name] = sums.get(name, 0) + number
    return Counts(**sums)


def with_counts(queues: Iterable[QueueReport], counted: Mapping[str, Counts]) -> Iterator[QueueReport]:
    """Yield queues with numbers of performance counters.

    Queues that only the counters have come last. A number that the queue has itself is kept.
    """
    remaining = {name.casefold(): (name, counts) for name, counts in counted.items()}
    for queue in queues:
        _, counts = remaining.pop(queue.key, ("", Counts()))
        yield find_newest([QueueReport(name=queue.name, counts=counts), queue])
    for name, counts in remaining.values():
        yield QueueReport(name=name, counts=counts)
