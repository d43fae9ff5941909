"""Topics of Apache Kafka, as a script for its own tools (``create-topics.sh``).

Every distribution of Kafka brings ``kafka-topics.sh`` and ``kafka-acls.sh``; resources of Strimzi would
need Kubernetes. Names of topics need no quoting in a shell. A topic has one partition: only so the order of
messages is that of a queue.
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files as files_of
from typing import Final

from mqdssm.pipeline.topology.gaps import Feature
from mqdssm.pipeline.topology.model import BrokerQueue, QueueTopology
from mqdssm.pipeline.topology.names import NameCode, NameKind, NameTable, SourceName

CODE: Final = NameCode(length_max=249, allowed=frozenset(".-"), escape="-")
"""Kafka refuses a topic whose name differs from another one by ``.`` and ``_`` alone: no name has ``_``."""
FILE: Final = "create-topics.sh"
SEGMENT_BYTES_MIN: Final = 1024 * 1024
"""Smallest retention that is written: a topic keeps whole segments."""

INSTEAD: Final[Mapping[Feature, str]] = {
    Feature.TRANSACTIONAL: "use a transactional producer and read_committed consumers",
    Feature.PRIORITY: "none: the order is that of arrival",
    Feature.QUOTA: "retention.bytes deletes the oldest messages; MSMQ refuses new ones",
    Feature.JOURNAL: "the topic is its own journal: received messages stay in it",
    Feature.JOURNAL_QUOTA: "none: the quota of the queue limits both",
    Feature.DEAD_LETTERS: "a topic for each computer; consumers have to write to it",
    Feature.PEEK: "READ: reading takes nothing out of a topic",
    Feature.MULTICAST: "a topic in place of the address: consumers of its queues have to read it, too",
}

_PACKAGE: Final = "mqdssm.pipeline.topology"
"""Package with the beginning of the script: functions for topics and rights."""


def format_files(topology: QueueTopology, names: NameTable) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files."""
    yield (
        FILE,
        "".join(
            [
                files_of(_PACKAGE).joinpath(FILE).read_text(encoding="ascii"),
                *(f"{line}\n" for line in _format_lines(topology, names)),
            ]
        ),
    )


def _format_lines(topology: QueueTopology, names: NameTable) -> Iterator[str]:
    for computer in topology.list_computers():
        yield f"topic {names.encode(SourceName(NameKind.DEAD_LETTER, computer))}"
    for address in topology.group_multicasts():
        yield f"topic {names.encode(SourceName(NameKind.MULTICAST, address))}"
    for queue in topology.queues:
        name = names.encode(SourceName.of_path(NameKind.QUEUE, queue.path))
        yield f"topic {name} --config retention.ms=-1{_format_retention(queue)}"
        for sid in queue.rights.send:
            account = names.encode(SourceName(NameKind.ACCOUNT, topology.accounts[sid]))
            yield f"acl {account} WRITE topic {name}"
        for sid in dict.fromkeys((*queue.rights.receive, *queue.rights.peek)):
            account = names.encode(SourceName(NameKind.ACCOUNT, topology.accounts[sid]))
            yield f"acl {account} READ topic {name}"
            yield f"acl {account} READ group {name}"


def _format_retention(queue: BrokerQueue) -> str:
    if queue.quota is None:
        return ""
    return f" --config retention.bytes={max(queue.quota, SEGMENT_BYTES_MIN)}"
