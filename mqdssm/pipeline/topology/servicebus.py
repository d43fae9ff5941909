"""Bicep for Azure Service Bus (``main.bicep`` with modules).

A queue with a journal has a topic before it, and the subscriptions of the topic forward to the queue and to
the journal. A multicast address is a topic, too. A deployment takes 800 resources, so that queues are
divided among modules. Rights are role assignments for those accounts that the parameter ``principals``
names with their object id in Microsoft Entra.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from mqdssm.pipeline.topology.gaps import Feature
from mqdssm.pipeline.topology.model import BrokerQueue, QueueTopology
from mqdssm.pipeline.topology.names import NameCode, NameKind, NameTable, SourceName

CODE: Final = NameCode(length_max=260, allowed=frozenset("._-"), escape="_", ignores_case=True)
"""Entities begin and end with a letter or digit."""
SUBSCRIPTION_CODE: Final = NameCode(length_max=50, allowed=frozenset("._-"), escape="_", ignores_case=True)
FILE: Final = "main.bicep"
RESOURCES_MAX: Final = 700
"""Resources of a module: a deployment takes 800."""
MEGABYTE: Final = 1024 * 1024
SIZES_MB: Final = (1024, 2048, 3072, 4096, 5120)
"""Sizes of queues that the service offers."""
SENDER: Final = "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39"
RECEIVER: Final = "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0"
"""Roles Azure Service Bus Data Sender and Data Receiver."""

INSTEAD: Final[Mapping[Feature, str]] = {
    Feature.TRANSACTIONAL: "duplicate detection: use transactions of the client, sessions for the order",
    Feature.PRIORITY: "none: the order is that of arrival",
    Feature.QUOTA: f"maxSizeInMegabytes is one of {', '.join(map(str, SIZES_MB))}: the next larger",
    Feature.JOURNAL: "the journal gets its copy when a message arrives, not when it is received; "
    "programs send to the topic entry",
    Feature.JOURNAL_QUOTA: "as the quota of queues",
    Feature.DEAD_LETTERS: "each queue has a dead-letter queue; MSMQ keeps dead letters at the sender",
    Feature.PEEK: "not granted: the role of receivers takes messages out",
    Feature.MULTICAST: "a topic in place of the address; programs send to it",
}

_API: Final = "2022-10-01-preview"
_SUBSCRIPTION: Final = f"Microsoft.ServiceBus/namespaces/topics/subscriptions@{_API}"
_ROLE: Final = "Microsoft.Authorization/roleAssignments@2022-04-01"
_MAIN: Final = f"""\
// Queues of MSMQ for Azure Service Bus, made by mqdssm. names.json has the path names.
param namespaceName string
param location string = resourceGroup().location

@description('SID of an account -> object id in Microsoft Entra. Accounts that are missing get no rights.')
param principals object = {{}}

resource namespace 'Microsoft.ServiceBus/namespaces@{_API}' = {{
  name: namespaceName
  location: location
  sku: {{
    name: 'Standard'
    tier: 'Standard'
  }}
}}
"""
_PART_HEAD: Final = f"""\
param namespaceName string
param principals object

resource namespace 'Microsoft.ServiceBus/namespaces@{_API}' existing = {{
  name: namespaceName
}}
"""
_PART_TAIL: Final = f"""\
resource queue 'Microsoft.ServiceBus/namespaces/queues@{_API}' = [for item in queues: {{
  parent: namespace
  name: item.name
  properties: {{
    maxSizeInMegabytes: item.size
    requiresDuplicateDetection: item.detectsDuplicates
    deadLetteringOnMessageExpiration: true
  }}
}}]

resource topic 'Microsoft.ServiceBus/namespaces/topics@{_API}' = [for item in topics: {{
  parent: namespace
  name: item.name
}}]

resource subscription '{_SUBSCRIPTION}' = [for item in subscriptions: {{
  parent: topic[item.topic]
  name: item.name
  properties: {{
    forwardTo: item.target
  }}
  dependsOn: [
    queue
  ]
}}]

resource queueRight '{_ROLE}' = [for item in queueRights: if (contains(principals, item.sid)) {{
  scope: queue[item.entity]
  name: guid(queue[item.entity].id, item.sid, item.role)
  properties: {{
    principalId: contains(principals, item.sid) ? principals[item.sid] : ''
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', item.role)
  }}
}}]

resource topicRight '{_ROLE}' = [for item in topicRights: if (contains(principals, item.sid)) {{
  scope: topic[item.entity]
  name: guid(topic[item.entity].id, item.sid, item.role)
  properties: {{
    principalId: contains(principals, item.sid) ? principals[item.sid] : ''
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', item.role)
  }}
}}]
"""


@dataclass(slots=True)
class _Part:
    """Resources of one module, as lines of Bicep's arrays."""

    queues: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    subscriptions: list[str] = field(default_factory=list)
    queue_rights: list[str] = field(default_factory=list)
    topic_rights: list[str] = field(default_factory=list)

    @property
    def resources(self) -> int:
        """Number of resources."""
        lists = (self.queues, self.topics, self.subscriptions, self.queue_rights, self.topic_rights)
        return sum(map(len, lists))

    def format_module(self) -> str:
        """Return the module."""
        arrays = {
            "queues": self.queues,
            "topics": self.topics,
            "subscriptions": self.subscriptions,
            "queueRights": self.queue_rights,
            "topicRights": self.topic_rights,
        }
        blocks = [f"var {name} = {_format_array(lines)}" for name, lines in arrays.items()]
        return "\n".join([_PART_HEAD, *blocks, _PART_TAIL])

    def add_queue(self, name: str, quota: int | None, *, detects_duplicates: bool = False) -> int:
        """Add a queue; return its number."""
        flag = "true" if detects_duplicates else "false"
        self.queues.append(
            f"{{ name: {quote_text(name)}, size: {_choose_size(quota)}, detectsDuplicates: {flag} }}"
        )
        return len(self.queues) - 1

    def add_topic(self, name: str) -> int:
        """Add a topic; return its number."""
        self.topics.append(f"{{ name: {quote_text(name)} }}")
        return len(self.topics) - 1

    def forward(self, topic: int, name: str, target: str) -> None:
        """Add a subscription that forwards to a queue."""
        self.subscriptions.append(
            f"{{ topic: {topic}, name: {quote_text(name)}, target: {quote_text(target)} }}"
        )


def _format_array(lines: Iterable[str]) -> str:
    return "".join(["[\n", *(f"  {line}\n" for line in lines), "]\n"])


def quote_text(text: str) -> str:
    """Return a text as a string of Bicep."""
    escaped = "".join(_escape(character) for character in text)
    return "'" + escaped.replace("${", "\\${") + "'"


def _escape(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"


def _choose_size(quota: int | None) -> int:
    """Return the smallest size that holds a quota."""
    return next((size for size in SIZES_MB if quota is not None and quota <= size * MEGABYTE), SIZES_MB[-1])


def format_files(topology: QueueTopology, names: NameTable) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files."""
    count = 0
    part = _Part()
    for queue in topology.queues:
        before = part.resources
        _add_queue(part, queue, names)
        if part.resources >= RESOURCES_MAX and before:
            yield _name_file("part", count), part.format_module()
            count, part = count + 1, _Part()
    if part.resources:
        yield _name_file("part", count), part.format_module()
        count += 1
    multicasts = list(_split_multicasts(topology, names))
    for number, topics in enumerate(multicasts):
        yield _name_file("multicast", number), topics.format_module()
    yield FILE, _format_main(count, len(multicasts))


def _name_file(kind: str, number: int) -> str:
    return f"{kind}-{number:03}.bicep"


def _format_main(parts: int, multicasts: int) -> str:
    text = _MAIN
    part_names = [f"part{number:03}" for number in range(parts)]
    for kind, count in (("part", parts), ("multicast", multicasts)):
        for number in range(count):
            name = f"{kind}{number:03}"
            others = "".join(f"    {part_name}\n" for part_name in part_names)
            depends = "" if kind == "part" else f"  dependsOn: [\n{others}  ]\n"
            text += (
                f"\nmodule {name} '{_name_file(kind, number)}' = {{\n  name: 'msmq-{name}'\n  params: {{\n"
                f"    namespaceName: namespace.name\n    principals: principals\n  }}\n{depends}}}\n"
            )
    return text


def _add_queue(part: _Part, queue: BrokerQueue, names: NameTable) -> None:
    name = names.encode(SourceName.of_path(NameKind.QUEUE, queue.path))
    entity = part.add_queue(name, queue.quota, detects_duplicates=queue.transactional)
    senders, sender_rights = entity, part.queue_rights
    part.queue_rights += [_format_right(sid, entity, RECEIVER) for sid in queue.rights.receive]
    if queue.journaling:
        journal = names.encode(SourceName.of_path(NameKind.JOURNAL, queue.path))
        copy = part.add_queue(journal, queue.journal_quota)
        part.queue_rights += [_format_right(sid, copy, RECEIVER) for sid in queue.rights.journal]
        topic = part.add_topic(names.encode(SourceName.of_path(NameKind.ENTRY, queue.path)))
        part.forward(topic, "queue", name)
        part.forward(topic, "journal", journal)
        senders, sender_rights = topic, part.topic_rights
    sender_rights += [_format_right(sid, senders, SENDER) for sid in queue.rights.send]


def _format_right(sid: str, entity: int, role: str) -> str:
    return f"{{ sid: {quote_text(sid)}, entity: {entity}, role: '{role}' }}"


def _split_multicasts(topology: QueueTopology, names: NameTable) -> Iterator[_Part]:
    """Yield modules with the topics of multicast addresses.

    A subscription forwards to the queue, or to the topic before it.
    """
    for address, queues in topology.group_multicasts().items():
        part = _Part()
        topic = part.add_topic(names.encode(SourceName(NameKind.MULTICAST, address)))
        subscriptions = NameTable(SUBSCRIPTION_CODE)
        for queue in queues:
            kind = NameKind.ENTRY if queue.journaling else NameKind.QUEUE
            source = SourceName.of_path(kind, queue.path)
            part.forward(topic, subscriptions.encode(source), names.encode(source))
        yield part
