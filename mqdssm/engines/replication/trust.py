"""Who is believed about what: one table, asked before a message reaches its handler (decision R105).

A signature says who sent a message, and no more: what it tells counts only where the sender can know it.
"""

from dataclasses import dataclass, replace
from typing import Final

from mqdssm.engines.replication.operations import ObjectRead, ReadObject
from mqdssm.engines.replication.properties import is_of, text
from mqdssm.engines.replication.state import Job, Partition, Server, key_of, perform
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    ChangePropagationMessage,
    ChangeReplyMessage,
    ChangeRequestMessage,
    ReplicationMessage,
    SeqNumberHeader,
    SyncReplyMessage,
    SyncRequestMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table.

    Attributes:
        statement: what a message says.
        believed: from whom it is taken.
        otherwise: what becomes of it when somebody else says it.
    """

    statement: str
    believed: str
    otherwise: str


RULES: Final = (
    Rule(
        "changes, answers and AlreadyPurged of a partition that is not ours",
        "its authority; a BSC: its PSC; whom we asked since he says that he has more (R46), "
        "or since nobody else answers (R71)",
        "dropped",
    ),
    Rule("the same of a partition that is ours", "nobody", "dropped"),
    Rule("a higher number than ours", "any directory server: it is asked (R39, R46, R72)", "dropped"),
    Rule("how far a PSC has got", "that PSC", "dropped"),
    Rule("that a BSC is alive", "that BSC", "dropped"),
    Rule(
        "a request, and in whose name it is",
        "the requester itself; of a BSC: the PSC of its site; any server, where we know nobody of that name",
        "refused with MQ_ERROR_ACCESS_DENIED",
    ),
    Rule(
        "a question, and in whose name it is",
        "the requester itself; any server, where we know nobody of that name",
        "dropped",
    ),
    Rule("what came of a request", "the machine that we asked", "dropped"),
)
"""docs/replication.md has them as a table."""


def believes(server: Server, partition: Partition, sender: str) -> bool:
    """Return True if a machine may tell us of a partition's changes."""
    if partition.record.owned:
        return False
    names = (partition.record.authority_name, server.psc_name, partition.hint)
    return key_of(sender) in {key_of(name) for name in names if name}


def _is_named(partition: Partition, sender: str) -> Job[bool]:
    """Return True if the enterprise says that a machine is the PSC of a site."""
    if partition.id == PEC_PARTITION_ID:
        return False
    found = yield from perform(ReadObject(object_type=ObjectType.SITE, identifier=partition.id), ObjectRead)
    return key_of(text(found.properties or (), Propid.S_PSC) or "") == key_of(sender)


def admit(server: Server, message: ReplicationMessage, sender: str) -> Job[ReplicationMessage | None]:
    """Take from a message what its sender may say.

    Returns:
        What is left for its handler; None where nothing is.
    """
    match message:
        case ChangePropagationMessage():
            return _admit_propagation(server, message, sender)
        case SyncReplyMessage() | AlreadyPurgedMessage():
            partition = server.partitions.get(message.partition_id)
            if partition is None or not believes(server, partition, sender):
                server.note(
                    "dropped: a reply that was not asked for", f"{message.partition_id}, from {sender}"
                )
                return None
        case SyncRequestMessage():
            if not (yield from _is_own_name(server, message.requester_name, sender)):
                server.note(
                    "dropped: a question in another's name", f"{message.requester_name}, from {sender}"
                )
                return None
        case ChangeRequestMessage():
            if not (yield from _may_ask(server, message, sender)):
                _refuse(server, message, sender)
                return None
    return message


def _admit_propagation(
    server: Server, message: ChangePropagationMessage, sender: str
) -> ChangePropagationMessage:
    believed = []
    refused: dict[Guid, None] = {}  # in the order of the message, so that a run can be repeated
    for change in message.directory_changes:
        partition = server.partitions.get(change.partition_id)
        if partition is not None and believes(server, partition, sender):
            believed.append(change)
        else:
            refused[change.partition_id] = None
    for partition_id in refused:
        unknown = partition_id not in server.partitions
        why = "of an unknown partition" if unknown else "from a machine that is not asked"
        server.note(f"dropped: changes {why}", f"{partition_id}, from {sender}")
    header = message.seq_number_header
    if header.partition_seq_numbers and key_of(header.machine_name) != key_of(sender):
        server.note("dropped: numbers in another machine's name", f"{header.machine_name}, from {sender}")
        header = SeqNumberHeader()
    return replace(message, directory_changes=tuple(believed), seq_number_header=header)


def _may_ask(server: Server, message: ChangeRequestMessage, sender: str) -> Job[bool]:
    """Return True if a machine may ask in a requester's name: its own, or that of a BSC of its site."""
    name = message.requester_name
    if (yield from _is_own_name(server, name, sender)):
        return True
    sent = server.requests.get((key_of(name), message.request_identifier))
    if sent is not None and key_of(sent.hop) == key_of(sender):
        return True  # what we sent comes round
    asked = server.partitions.get(message.partition_id)
    if asked is not None and asked.record.owned and (yield from _is_named(asked, sender)):
        return True  # our predecessor passes on what others still ask it (decision R38)
    operation = ReadObject(object_type=ObjectType.MACHINE, path_name=name)
    found = yield from perform(operation, ObjectRead)
    home = server.partitions.get(found.partition_id) if found.partition_id is not None else None
    if home is None or home.record.owned or not is_of(found.properties or (), Service.BSC):
        return False
    if key_of(home.record.authority_name) == key_of(sender):
        return True
    return (yield from _is_named(home, sender))


def _is_own_name(server: Server, name: str, sender: str) -> Job[bool]:
    """Return True if a name may be a machine's own: the one we know it by, or one that we know nobody by.

    Our directory may not have heard of its new name yet, or of the BSC that a PSC asks for.
    """
    if key_of(name) == key_of(sender):
        return True
    if server.is_me(name) or key_of(name) in {key_of(one.name) for one in server.neighbors}:
        return False
    if key_of(name) in {key_of(one.record.authority_name) for one in server.partitions.values()}:
        return False
    found = yield from perform(ReadObject(object_type=ObjectType.MACHINE, path_name=name), ObjectRead)
    return found.identifier is None


def _refuse(server: Server, message: ChangeRequestMessage, sender: str) -> None:
    server.note("refused: a request in another's name", f"{message.requester_name}, from {sender}")
    reply = ChangeReplyMessage(
        site_id=server.settings.site_id,
        request_identifier=message.request_identifier,
        result=Hresult.MQ_ERROR_ACCESS_DENIED,
        requester_name=message.requester_name,
    )
    server.send_soon(sender, reply)
