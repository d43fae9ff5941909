"""Features of queues without a counterpart in another broker, for the report."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from mqdssm.pipeline.topology.model import EVERYBODY, BrokerQueue, QueueTopology

EXAMPLES_MAX: Final = 5
TITLE: Final = "Features without a counterpart"


class Feature(StrEnum):
    """Feature of a queue that a broker may lack."""

    TRANSACTIONAL = "transactional queue"
    AUTHENTICATION = "authenticated messages"
    ENCRYPTION = "encrypted messages"
    PRIORITY = "priority of messages"
    BASE_PRIORITY = "base priority"
    QUOTA = "quota"
    JOURNAL = "journal"
    JOURNAL_QUOTA = "quota of the journal"
    MULTICAST = "multicast address"
    DEAD_LETTERS = "dead letters"
    PEEK = "right to peek alone"
    EVERYBODY = "rights of everybody"
    GROUPS = "rights of groups"
    REFUSALS = "refused rights"
    RIGHTS_UNKNOWN = "rights that cannot be read"
    SERVICE_TYPE = "type of service"
    LABEL = "label"


_APPLIES: Final[Mapping[Feature, Callable[[BrokerQueue], bool]]] = MappingProxyType(
    {
        Feature.TRANSACTIONAL: lambda queue: queue.transactional,
        Feature.AUTHENTICATION: lambda queue: queue.authentication,
        Feature.ENCRYPTION: lambda queue: queue.encrypted,
        Feature.PRIORITY: lambda queue: not queue.transactional,
        Feature.BASE_PRIORITY: lambda queue: queue.base_priority != 0,
        Feature.QUOTA: lambda queue: queue.quota is not None,
        Feature.JOURNAL: lambda queue: queue.journaling,
        Feature.JOURNAL_QUOTA: lambda queue: queue.journaling and queue.journal_quota is not None,
        Feature.MULTICAST: lambda queue: bool(queue.multicast),
        Feature.DEAD_LETTERS: lambda _: True,
        Feature.PEEK: lambda queue: bool(queue.rights.peek),
        Feature.EVERYBODY: lambda queue: not EVERYBODY.isdisjoint(queue.rights.list_sids()),
        Feature.GROUPS: lambda queue: any(True for _ in queue.rights.list_sids()),
        Feature.REFUSALS: lambda queue: bool(queue.rights.refused),
        Feature.RIGHTS_UNKNOWN: lambda queue: (
            bool(queue.rights.problem) and not any(queue.rights.list_sids())
        ),
        Feature.SERVICE_TYPE: lambda queue: bool(queue.service_type),
        Feature.LABEL: lambda queue: bool(queue.label),
    }
)

COMMON: Final[Mapping[Feature, str]] = MappingProxyType(
    {
        Feature.AUTHENTICATION: "connections are authenticated, messages are not: sign them in the program",
        Feature.ENCRYPTION: "use TLS for all connections, or encrypt messages in the program",
        Feature.BASE_PRIORITY: "none: the broker has no priorities between machines",
        Feature.EVERYBODY: "no account stands for all users: grant its rights by hand",
        Feature.GROUPS: "a group is written as one account: the broker does not know its members",
        Feature.REFUSALS: "rights are only granted: take members of refused groups out by hand",
        Feature.RIGHTS_UNKNOWN: "nobody gets rights: grant them by hand",
        Feature.SERVICE_TYPE: "none: names.json has it",
        Feature.LABEL: "none: names.json has it",
    }
)
"""What takes the place of features that no broker has."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Feature that queues of the source have, and the broker lacks.

    Attributes:
        feature: the feature.
        queues: number of queues with it.
        examples: path names of the first of them.
        instead: what takes its place.
    """

    feature: Feature
    queues: int
    examples: tuple[str, ...]
    instead: str

    def to_document(self) -> dict[str, Any]:
        """Return the gap as a JSON object."""
        return {
            "feature": self.feature.value,
            "queues": self.queues,
            "examples": list(self.examples),
            "instead": self.instead,
        }


def find_gaps(topology: QueueTopology, instead: Mapping[Feature, str]) -> tuple[Gap, ...]:
    """Return the features of the queues that a broker lacks.

    Args:
        topology: the queues.
        instead: what takes the place of features that the broker lacks.
    """
    words = {**COMMON, **instead}
    gaps = []
    for feature, applies in _APPLIES.items():
        paths = [queue.path for queue in topology.queues if applies(queue)] if words.get(feature) else []
        if paths:
            gaps.append(Gap(feature, len(paths), tuple(paths[:EXAMPLES_MAX]), words[feature]))
    return tuple(gaps)


def format_markdown(title: str, facts: Iterable[tuple[str, str]], gaps: Iterable[Gap]) -> str:
    """Return the report as Markdown.

    Args:
        title: of the page.
        facts: names and values above the table.
        gaps: rows of the table.
    """
    lines = [
        f"# {_format_cell(title)}",
        "",
        *(f"* {_format_cell(name)}: {_format_cell(value)}" for name, value in facts),
        "",
    ]
    lines += [
        f"## {TITLE}",
        "",
        "| feature | queues | in its place | examples |",
        "| --- | --- | --- | --- |",
    ]
    for gap in gaps:
        examples = ", ".join(map(_format_cell, gap.examples))
        lines.append(f"| {gap.feature} | {gap.queues} | {_format_cell(gap.instead)} | {examples} |")
    return "\n".join(lines) + "\n"


def _format_cell(text: str) -> str:
    """Return a text without meaning in Markdown and HTML, in one line."""
    safe = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
    return "".join(f"\\{character}" if character in _MARKDOWN else character for character in safe)


_MARKDOWN: Final = frozenset("\\`*_{}[]<>()#+!|&~^$")
