"""Definitions of RabbitMQ (``definitions.json``).

Each queue has a fanout exchange with its own name: programs send to the exchange, and its write permission
is the right to send to this queue alone. The journal of a queue is a second queue at the exchange. A
multicast address is a fanout exchange that is bound to the exchanges of its queues. Accounts become users
without password, who cannot log in until they get one.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mqdssm.pipeline.topology.gaps import Feature
from mqdssm.pipeline.topology.model import BrokerQueue, QueueTopology
from mqdssm.pipeline.topology.names import NameCode, NameKind, NameTable, SourceName

CODE: Final = NameCode(length_max=255, allowed=frozenset("._-"), escape="_")
"""Names have 255 octets of UTF-8. Regular expressions of permissions and URLs take this alphabet as it is."""
FILE: Final = "definitions.json"
VIRTUAL_HOST: Final = "msmq"
PRIORITY_MAX: Final = 7
"""Highest priority of messages of MSMQ."""
NOTHING: Final = "^$"
"""Regular expression of a permission that grants nothing."""

INSTEAD: Final[Mapping[Feature, str]] = {
    Feature.TRANSACTIONAL: "durable queue: use publisher confirms, and make consumers idempotent",
    Feature.JOURNAL: "the journal gets its copy when a message arrives, not when it is received",
    Feature.JOURNAL_QUOTA: "the oldest copies are dropped; MSMQ keeps them, and makes no new ones",
    Feature.DEAD_LETTERS: "rejected and expired messages go to a queue of the queue's computer; "
    "MSMQ keeps them at the sender",
    Feature.PEEK: "not granted: the right to read takes messages out",
    Feature.MULTICAST: "a fanout exchange in place of the address; programs send to it over AMQP",
}


def format_files(topology: QueueTopology, names: NameTable) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files."""
    yield FILE, json.dumps(build_definitions(topology, names), indent=1, ensure_ascii=True) + "\n"


def build_definitions(topology: QueueTopology, names: NameTable) -> dict[str, Any]:
    """Return the definitions, as RabbitMQ imports them."""
    document: dict[str, Any] = {
        "vhosts": [{"name": VIRTUAL_HOST}],
        "users": [_make_user(names.encode(_name_account(name))) for name in topology.accounts.values()],
        "permissions": list(_list_permissions(topology, names)),
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [],
        "policies": [],
        "queues": [],
        "exchanges": [],
        "bindings": [],
    }
    queues_of: dict[str, list[str]] = {computer: [] for computer in topology.list_computers()}
    for queue in topology.queues:
        queues_of[queue.computer].append(_encode_name(queue, names))
    for computer, queue_names in queues_of.items():
        _add_dead_letters(document, computer, queue_names, names)
    for queue in topology.queues:
        _add_queue(document, queue, names)
    for address, queues in topology.group_multicasts().items():
        exchange = names.encode(SourceName(NameKind.MULTICAST, address))
        document["exchanges"].append(_exchange(exchange))
        for queue in queues:
            document["bindings"].append(_make_binding(exchange, _encode_name(queue, names), "exchange"))
    return document


def _name_account(name: str) -> SourceName:
    return SourceName(NameKind.ACCOUNT, name)


def _encode_name(queue: BrokerQueue, names: NameTable, kind: NameKind = NameKind.QUEUE) -> str:
    return names.encode(SourceName.of_path(kind, queue.path))


def _make_user(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "password_hash": "",  # no password: nobody can log in with it
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": [],
    }


def _add_queue(document: dict[str, Any], queue: BrokerQueue, names: NameTable) -> None:
    name = _encode_name(queue, names)
    arguments = _make_limits(queue.quota, "reject-publish")
    if not queue.transactional:  # messages of transactions have no priorities
        arguments["x-max-priority"] = PRIORITY_MAX
    document["queues"].append(_make_queue(name, arguments))
    document["exchanges"].append(_exchange(name))
    document["bindings"].append(_make_binding(name, name, "queue"))
    if queue.journaling:
        journal = _encode_name(queue, names, NameKind.JOURNAL)
        document["queues"].append(_make_queue(journal, _make_limits(queue.journal_quota, "drop-head")))
        document["bindings"].append(_make_binding(name, journal, "queue"))


def _make_limits(octets: int | None, overflow: str) -> dict[str, Any]:
    """Return the arguments for a quota, and for what happens when it is used up."""
    return {} if octets is None else {"x-max-length-bytes": octets, "x-overflow": overflow}


def _add_dead_letters(document: dict[str, Any], computer: str, queues: list[str], names: NameTable) -> None:
    """Add the queue of a computer for dead letters, and a policy that names it."""
    name = names.encode(SourceName(NameKind.DEAD_LETTER, computer))
    document["queues"].append(_make_queue(name, {}))
    document["exchanges"].append(_exchange(name))
    document["bindings"].append(_make_binding(name, name, "queue"))
    prefix = names.code.encode(SourceName(NameKind.QUEUE, "q", computer))[:-1]
    others = [queue for queue in queues if not queue.startswith(prefix)]  # names with a hash
    document["policies"].append(
        {
            "vhost": VIRTUAL_HOST,
            "name": name,
            "pattern": f"^{_escape_name(prefix)}" + (f"|{_any_of(others)}" if others else ""),
            "apply-to": "queues",
            "priority": 0,
            "definition": {"dead-letter-exchange": name},
        }
    )


def _list_permissions(topology: QueueTopology, names: NameTable) -> Iterator[dict[str, Any]]:
    write: dict[str, list[str]] = {sid: [] for sid in topology.accounts}
    read: dict[str, list[str]] = {sid: [] for sid in topology.accounts}
    for queue in topology.queues:
        for sid in queue.rights.send:
            write[sid].append(_encode_name(queue, names))
        for sid in queue.rights.receive:
            read[sid].append(_encode_name(queue, names))
        for sid in queue.rights.journal if queue.journaling else ():
            read[sid].append(_encode_name(queue, names, NameKind.JOURNAL))
    for sid, account in topology.accounts.items():
        yield {
            "user": names.encode(_name_account(account)),
            "vhost": VIRTUAL_HOST,
            "configure": NOTHING,
            "write": _any_of(write[sid]),
            "read": _any_of(read[sid]),
        }


def _any_of(names: list[str]) -> str:
    """Return a regular expression that matches some names, and no other text."""
    return f"^({'|'.join(map(_escape_name, names))})$" if names else NOTHING


def _escape_name(name: str) -> str:
    """Return a name as a part of a regular expression."""
    return re.sub(r"[.\-]", r"\\\g<0>", name)


def _make_queue(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    common = {"vhost": VIRTUAL_HOST, "durable": True, "auto_delete": False}
    return {"name": name, **common, "arguments": dict(arguments)}


def _exchange(name: str) -> dict[str, Any]:
    common = {
        "vhost": VIRTUAL_HOST,
        "type": "fanout",
        "durable": True,
        "auto_delete": False,
        "internal": False,
    }
    return {"name": name, **common, "arguments": {}}


def _make_binding(source: str, destination: str, kind: str) -> dict[str, Any]:
    ends = {"source": source, "vhost": VIRTUAL_HOST, "destination": destination, "destination_type": kind}
    return {**ends, "routing_key": "", "arguments": {}}
