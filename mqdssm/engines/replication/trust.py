"""Rules of trust, checked before a message reaches its handler.

See decisions R105 and R107.

A signature only proves who sent a message. A statement in it counts only if the sender can know it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mqdssm.engines.replication import permissions, requests
from mqdssm.engines.replication.actions import Received
from mqdssm.engines.replication.jobs import Job, read_object
from mqdssm.engines.replication.properties import CONTROLLER, SITE_TYPES, has_role, type_of
from mqdssm.engines.replication.state import Partition, ReplicaState, key_of, list_authorities
from mqdssm.model import messages as msg
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.model.seqnum import MIN

FULL_SYNC_TRIES: Final = 6
"""Requests of a full synchronization without a reply, before any source will do (R166, R206)."""


def is_from(server: ReplicaState, sender: str, name: str) -> bool:
    """Return True if a sender is, or was, the machine of a name.

    A former name counts if our directory had it.
    """
    if not name:
        return False
    key, name_key = key_of(sender), key_of(name)
    return key == name_key or name_key in server.aliases.get(key, ())


def accepts(server: ReplicaState, partition: Partition, sender: str) -> bool:
    """Return True if changes of a partition are accepted from a machine."""
    if partition.record.owned:
        return False
    return (
        is_from(server, sender, partition.record.authority_name)
        or is_from(server, sender, server.psc_name)
        or is_from(server, sender, partition.hint)
    )


def list_other_sources(server: ReplicaState, partition: Partition) -> list[str]:
    """Return other servers to ask about a partition, likeliest first.

    The authority and our PSC are not among these servers.

    The PEC knows who owns each partition, so that it is trusted about all. For its own partition, while it
    restores that, the PEC asks the PSCs. For a site it asks the PSC that its site's object names (R187). An
    unfinished full synchronization also asks the server that it began with (R192).
    """
    enterprise = server.partitions[PEC_PARTITION_ID]
    names = list_authorities(server)
    if partition.is_doubted and enterprise.is_doubted:
        return names
    if enterprise.record.owned:
        authority_key = key_of(partition.record.authority_name)
        pscs = [psc.name for psc in server.pscs.values() if psc.record.partition_id == partition.id]
        others = [name for name in pscs if key_of(name) != authority_key]
    else:
        pec_key = key_of(enterprise.record.authority_name)
        others = [name for name in names if key_of(name) == pec_key]
    usual = {key_of(name) for name in (partition.record.authority_name, server.psc_name, *others)}
    return others + [name for name in _find_full_sync_source(partition) if key_of(name) not in usual]


def _find_full_sync_source(partition: Partition) -> list[str]:
    """Return the server that a full synchronization began with (decision R192).

    This server may have handed the partition over since, to one that has less than we have.
    """
    is_unfinished = not partition.is_normal and not partition.is_first_source_removed
    return [partition.first_source] if is_unfinished and partition.first_source else []


def must_ask_first_source(partition: Partition) -> bool:
    """Return True if a full synchronization asks its first source alone (R206).

    Another source may lack numbers that we had, and would bring deleted objects back. It is asked only after
    six requests without a reply.
    """
    is_behind = max(partition.last, partition.record.purged) < partition.had_before
    return is_behind and partition.tries < FULL_SYNC_TRIES and bool(_find_full_sync_source(partition))


def is_other_source(server: ReplicaState, partition: Partition, sender: str) -> bool:
    """Return True if a machine may be asked about another owner's partition.

    The machine has more changes of that partition.
    """
    return any(is_from(server, sender, name) for name in list_other_sources(server, partition))


def forget_removed_servers(server: ReplicaState, partitions: Iterable[Partition]) -> Job[None]:
    """Forget what servers reported of partitions that were removed (decision R167).

    A server that is neither an authority nor our PSC may be a BSC, or may have handed its site over: it is
    in the enterprise while its machine has the role of a directory server.
    """
    partitions = tuple(partitions)
    names = [*list_authorities(server), server.psc_name]
    reporting = {
        key_of(name): name for partition in partitions for name in sorted(_list_reporting_servers(partition))
    }
    for key, reporting_name in sorted(reporting.items()):
        if not key or any(is_from(server, key, name) for name in names):
            continue
        machine = yield from read_object(ObjectType.MACHINE, path_name=reporting_name)
        is_server = has_role(machine.properties or (), permissions.SERVER)
        if (
            not is_server or machine.partition_id not in server.partitions
        ):  # of a removed site, objects may stay
            for partition in partitions:
                _forget_server(partition, key)


def _list_reporting_servers(partition: Partition) -> set[str]:
    """Return the names of reporting servers as they wrote them.

    The store compares names otherwise than `key_of`, and does not find each key.
    """
    return {*(name for name, _ in partition.reporters.values()), partition.first_source, partition.hint}


def _forget_server(partition: Partition, key: str) -> None:
    if partition.reporters.pop(key, None) is not None:
        numbers = [number for _, number in partition.reporters.values()]
        numbers += [change.seq_number for change in partition.pending]
        partition.known_number = min(partition.known_number, max(numbers, default=MIN))
    if key == key_of(partition.hint):
        partition.hint = ""
    if key == key_of(partition.first_source):
        partition.is_first_source_removed = True


def may_displace(server: ReplicaState, partition: Partition, sender: str) -> Job[bool]:
    """Return True if a machine may displace us as an owner (decision R39).

    Such a machine has a higher number of our partition, and owns it or may name its owner.
    """
    enterprise = server.partitions[PEC_PARTITION_ID].record
    if partition.id == PEC_PARTITION_ID and not partition.last:
        return True  # a new disk: nothing is lost, and there is nobody to ask (decisions R43, R139)
    if not enterprise.owned and is_from(server, sender, enterprise.authority_name):
        return True
    if is_from(server, sender, partition.record.predecessor):
        return False  # the enterprise does not know of the handover yet (decision R136)
    return (yield from permissions.is_named(partition, sender))


def record_aliases(server: ReplicaState, event: Received) -> Job[None]:
    """Record the names under which our directory has a renamed sender.

    The sender is found by its machine's identifier.

    Each partition is checked separately: an authority may give any identifier to an object of its own.
    """
    key = key_of(event.sender)
    server.aliases.pop(key, None)
    if event.machine_id is None or _is_known(server, key):
        return
    names, authority_keys = set(), set()
    for partition in list(server.partitions.values()):
        if partition.id == PEC_PARTITION_ID:
            continue
        if not (yield from _is_controller(partition, event.machine_id)):
            authority_keys.add(key_of(partition.record.authority_name))
            continue
        names.add(key_of(partition.record.authority_name))
        if partition.id == server.settings.site_id:
            names.add(key_of(server.psc_name))
    names -= authority_keys  # an authority may name its successor like another site's server (decision R142)
    names.discard("")  # of a site without a PSC (decision R186)
    if names:
        server.aliases[key] = frozenset(names)
        for partition in server.partitions.values():
            yield from _rename_source(server, partition, names, event.sender)


def _rename_source(server: ReplicaState, partition: Partition, old_names: set[str], sender: str) -> Job[None]:
    """Record the new name of a server (decision R168).

    The server reported numbers, or began a full synchronization.
    """
    key = key_of(sender)
    if key_of(partition.first_source) in old_names:
        yield from server.save(partition, first_source=sender)
    numbers = [number for name, (_, number) in partition.reporters.items() if name in old_names | {key}]
    for name in old_names:
        if partition.reporters.pop(name, None) is not None:
            partition.reporters[key] = (sender, max(numbers))


def _is_known(server: ReplicaState, key: str) -> bool:
    """Return True if a name is that of an authority, a neighbour or our PSC."""
    if not key:
        return False
    if key in server.pscs or key in server.bscs or key_of(server.psc_name) == key:
        return True
    return any(key_of(partition.record.authority_name) == key for partition in server.partitions.values())


def _is_controller(partition: Partition, machine_id: Guid) -> Job[bool]:
    """Return True if a site's objects give a machine the role of its PSC."""
    machine = yield from read_object(ObjectType.MACHINE, identifier=machine_id, partition_id=partition.id)
    return has_role(machine.properties or (), CONTROLLER)


def filter_message(server: ReplicaState, event: Received) -> Job[msg.ReplicationMessage | None]:
    """Filter a message: keep the content that is accepted from its sender.

    Returns:
        The rest for its handler; None if nothing is left.
    """
    yield from record_aliases(server, event)
    message, sender = event.message, event.sender
    match message:
        case msg.ChangePropagationMessage():
            return _admit_propagation(server, message, sender)
        case msg.SyncReplyMessage() | msg.AlreadyPurgedMessage():
            partition = server.partitions.get(message.partition_id)
            if partition is None or not accepts(server, partition, sender):
                server.note(
                    "dropped: a reply that was not asked for", f"{message.partition_id}, from {sender}"
                )
                return None
            if isinstance(message, msg.SyncReplyMessage):
                return _admit_reply(server, message, sender)
        case msg.SyncRequestMessage():
            if not (yield from permissions.is_own_name(server, message.requester_name, sender)):
                server.note(
                    "dropped: a question in another's name", f"{message.requester_name}, from {sender}"
                )
                return None
        case msg.ChangeRequestMessage():
            if requests.is_known_request(server, message, sender):
                return message  # a copy gets the same answer as the first one (decision R119)
            if not (yield from permissions.is_permitted(server, message, event)):
                requests.answer_request(server, message, Hresult.MQ_ERROR_ACCESS_DENIED, sender)
                return None
    return message


def _admit_propagation(
    server: ReplicaState, message: msg.ChangePropagationMessage, sender: str
) -> msg.ChangePropagationMessage:
    believed = []
    refused: dict[tuple[str, Guid], None] = {}  # ordered as in the message, so that a run is reproducible
    for change in message.directory_changes:
        partition = server.partitions.get(change.partition_id)
        if partition is None:
            refused["of an unknown partition", change.partition_id] = None
        elif not accepts(server, partition, sender):
            refused["from a machine that is not asked", change.partition_id] = None
        elif not _is_possible(change):
            refused["of objects that a partition cannot have", change.partition_id] = None
        else:
            believed.append(change)
    for why, partition_id in refused:
        server.note(f"dropped: changes {why}", f"{partition_id}, from {sender}")
    header = message.seq_number_header
    if header.partition_seq_numbers and key_of(header.machine_name) != key_of(sender):
        server.note("dropped: numbers in another machine's name", f"{header.machine_name}, from {sender}")
        header = msg.SeqNumberHeader()
    if header is message.seq_number_header and not refused:
        return message
    return replace(message, directory_changes=tuple(believed), seq_number_header=header)


def _admit_reply(server: ReplicaState, message: msg.SyncReplyMessage, sender: str) -> msg.SyncReplyMessage:
    fitting = tuple(change for change in message.directory_changes if _is_possible(change))
    if len(fitting) == len(message.directory_changes):
        return message
    why = "of objects that a partition cannot have"
    server.note(f"dropped: changes {why}", f"{message.partition_id}, from {sender}")
    return replace(message, directory_changes=fitting)


def _is_possible(change: msg.DirectoryChange) -> bool:
    """Return True if a partition can have objects of a change's type."""
    kind = type_of(change)
    return kind is None or (change.partition_id != PEC_PARTITION_ID) is (kind in SITE_TYPES)
