"""Configuration of Apache ActiveMQ Artemis (``broker.xml``).

Each queue is an anycast address with a queue. Journals and multicast addresses are diverts, which copy
messages on the way to an address. Accounts become roles. Wildcards of Artemis (``#``, ``*``) occur in no
name.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree as ET

from mqdssm.pipeline.topology.gaps import Feature
from mqdssm.pipeline.topology.model import BrokerQueue, QueueTopology
from mqdssm.pipeline.topology.names import NameCode, NameKind, NameTable, SourceName

CODE: Final = NameCode(length_max=255, allowed=frozenset("._-"), escape="_")
"""Artemis has no limit of its own. JMX, consoles and page files take this alphabet and length."""
FILE: Final = "broker.xml"
_CONFIGURATION: Final = "urn:activemq"
_CORE: Final = "urn:activemq:core"
REFUSE: Final = "FAIL"
"""Policy of a full queue: senders get an error, as from MSMQ."""
DROP: Final = "DROP"
"""Policy of a full journal: it takes no new copies, as MSMQ's."""

INSTEAD: Final[Mapping[Feature, str]] = {
    Feature.TRANSACTIONAL: "durable queue: use transacted sessions; the order holds for one consumer",
    Feature.PRIORITY: "priorities 0 to 9 of the broker: MSMQ's are 0 to 7",
    Feature.JOURNAL: "the journal gets its copy when a message arrives, not when it is received",
    Feature.DEAD_LETTERS: "undelivered and expired messages go to an address of the computer; "
    "MSMQ keeps them at the sender",
    Feature.MULTICAST: "a multicast address of the broker in place of the network's; programs send to it",
}


def format_files(topology: QueueTopology, names: NameTable) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files."""
    root = build_configuration(topology, names)
    ET.indent(root, " ")
    yield FILE, ET.tostring(root, encoding="utf-8", xml_declaration=True).decode() + "\n"


def build_configuration(topology: QueueTopology, names: NameTable) -> ET.Element:
    """Return the document."""
    root = ET.Element("configuration", {"xmlns": _CONFIGURATION})
    core = ET.SubElement(root, "core", {"xmlns": _CORE})
    security = ET.SubElement(core, "security-settings")
    settings = ET.SubElement(core, "address-settings")
    diverts = ET.SubElement(core, "diverts")
    addresses = ET.SubElement(core, "addresses")
    for computer in topology.list_computers():
        _add_anycast(addresses, names.encode(SourceName(NameKind.DEAD_LETTER, computer)))
    for queue in topology.queues:
        name = names.encode(SourceName.of_path(NameKind.QUEUE, queue.path))
        dead_letters = names.encode(SourceName(NameKind.DEAD_LETTER, queue.computer))
        _add_anycast(addresses, name)
        _add_address_setting(settings, name, queue.quota, REFUSE, dead_letters)
        rights = queue.rights
        _add_security_setting(
            security,
            name,
            {"send": rights.send, "consume": rights.receive, "browse": (*rights.receive, *rights.peek)},
            topology,
            names,
        )
        if queue.journaling:
            journal = names.encode(SourceName.of_path(NameKind.JOURNAL, queue.path))
            _add_anycast(addresses, journal)
            _add_address_setting(settings, journal, queue.journal_quota, DROP, "")
            granted = {"consume": rights.journal, "browse": rights.journal}
            _add_security_setting(security, journal, granted, topology, names)
            _divert(diverts, journal, name, journal)
    for address, queues in topology.group_multicasts().items():
        _add_multicast(
            addresses, diverts, names.encode(SourceName(NameKind.MULTICAST, address)), queues, names
        )
    return root


def _add_anycast(addresses: ET.Element, name: str) -> None:
    address = ET.SubElement(addresses, "address", {"name": name})
    queue = ET.SubElement(ET.SubElement(address, "anycast"), "queue", {"name": name})
    ET.SubElement(queue, "durable").text = "true"


def _add_address_setting(
    settings: ET.Element, name: str, quota: int | None, policy: str, dead_letters: str
) -> None:
    if quota is None and not dead_letters:
        return
    setting = ET.SubElement(settings, "address-setting", {"match": name})
    if dead_letters:
        ET.SubElement(setting, "dead-letter-address").text = dead_letters
        ET.SubElement(setting, "expiry-address").text = dead_letters
    if quota is not None:
        ET.SubElement(setting, "max-size-bytes").text = str(max(quota, 1))  # 0 would be no limit
        ET.SubElement(setting, "address-full-policy").text = policy


def _add_security_setting(
    security: ET.Element,
    name: str,
    granted: Mapping[str, tuple[str, ...]],
    topology: QueueTopology,
    names: NameTable,
) -> None:
    """Add the roles of an address; a right that nobody has is left out."""
    setting = ET.SubElement(security, "security-setting", {"match": name})
    for kind, sids in granted.items():
        accounts = [SourceName(NameKind.ACCOUNT, topology.accounts[sid]) for sid in dict.fromkeys(sids)]
        if accounts:
            roles = ",".join(map(names.encode, accounts))
            ET.SubElement(setting, "permission", {"type": kind, "roles": roles})


def _divert(diverts: ET.Element, name: str, address: str, target: str) -> None:
    divert = ET.SubElement(diverts, "divert", {"name": name})
    ET.SubElement(divert, "address").text = address
    ET.SubElement(divert, "forwarding-address").text = target
    ET.SubElement(divert, "exclusive").text = "false"
    ET.SubElement(divert, "routing-type").text = "ANYCAST"


def _add_multicast(
    addresses: ET.Element, diverts: ET.Element, name: str, queues: list[BrokerQueue], names: NameTable
) -> None:
    ET.SubElement(ET.SubElement(addresses, "address", {"name": name}), "multicast")
    for number, queue in enumerate(queues):
        target = names.encode(SourceName.of_path(NameKind.QUEUE, queue.path))
        _divert(diverts, f"{name}.{number}", name, target)
