"""Permissions of directory servers to request changes and to use a name.

See decisions R105 and R107.
"""

from typing import Final

from mqdssm.engines.replication import properties as props
from mqdssm.engines.replication.actions import Received
from mqdssm.engines.replication.jobs import Job, read_object
from mqdssm.engines.replication.state import Partition, ReplicaState, key_of
from mqdssm.model.guid import Guid
from mqdssm.model.messages import ChangeRequestMessage, Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service

SERVER: Final = props.CONTROLLER | Service.BSC
"""Roles of directory servers."""
_OF_SITE: Final = frozenset({Propid.S_PSC, Propid.S_PSC_SIGNPK})
"""Properties of a site that name its PSC."""
_OF_SERVER: Final = frozenset({Propid.QM_PATHNAME, Propid.QM_SIGN_PK})
"""Properties of a machine that identify a directory server."""


def is_named(partition: Partition, sender: str) -> Job[bool]:
    """Return True if a site's object names a machine as its PSC.

    The object in the enterprise partition counts.
    """
    if partition.id == PEC_PARTITION_ID:
        return False
    site_object = yield from read_object(
        ObjectType.SITE, identifier=partition.id, partition_id=PEC_PARTITION_ID
    )
    return key_of(props.get_text(site_object.properties or (), Propid.S_PSC) or "") == key_of(sender)


def is_permitted(server: ReplicaState, message: ChangeRequestMessage, event: Received) -> Job[bool]:
    """Return True if a request may be handled; note a refusal."""
    sender = event.sender
    if not (yield from _may_use_name(server, message, sender)):
        server.note("refused: a request in another's name", f"{message.requester_name}, from {sender}")
    elif not (yield from _may_change(server, message, event)):
        server.note("refused: a change of roles, names or keys", f"from {sender}")
    else:
        return True
    return False


# -- requesters


def _may_use_name(server: ReplicaState, message: ChangeRequestMessage, sender: str) -> Job[bool]:
    """Return True if a machine may ask in a requester's name.

    The name is its own, or that of a BSC of its site. Our own name is ours alone.
    """
    name = message.requester_name
    if (yield from is_own_name(server, name, sender)):
        return True
    sent = server.requests.get((key_of(name), message.request_identifier))
    if sent is not None and key_of(sent.hop) == key_of(sender):
        return True  # a request that we sent ourselves comes back
    if server.is_me(name):
        return False  # forwarded, it would count as our own (decision R141)
    partition = server.partitions.get(message.partition_id)
    # our predecessor forwards requests that others still send to it (decision R38)
    if partition is not None and partition.record.owned and (yield from _is_predecessor(partition, sender)):
        return True
    return (yield from _is_bsc_of(server, name, sender))


def _is_predecessor(partition: Partition, sender: str) -> Job[bool]:
    if key_of(partition.predecessor) == key_of(sender):
        return True
    return (yield from is_named(partition, sender))


def _is_bsc_of(server: ReplicaState, name: str, sender: str) -> Job[bool]:
    """Return True if a name is that of a BSC of a PSC's site.

    The given machine is the PSC.
    """
    for home in list(server.partitions.values()):
        if not home.record.owned and key_of(home.record.authority_name) == key_of(sender):
            machine = yield from read_object(ObjectType.MACHINE, path_name=name, partition_id=home.id)
            if props.has_role(machine.properties or (), Service.BSC):
                return True
    machine = yield from read_object(ObjectType.MACHINE, path_name=name)
    home_id = machine.partition_id
    if home_id not in server.partitions or not props.has_role(machine.properties or (), Service.BSC):
        return False
    return (yield from is_named(server.partitions[home_id], sender))


def is_own_name(server: ReplicaState, name: str, sender: str) -> Job[bool]:
    """Return True if a name may be a machine's own.

    A machine's own name is its known name, or one that no known machine has.

    A new name of the machine, or the BSC of a requesting PSC, may not have reached our directory yet.
    """
    if key_of(name) == key_of(sender):
        return True
    if not name:
        return False  # a reply could not be sent to anybody (decision R137)
    if server.is_me(name) or key_of(name) in {key_of(neighbor.name) for neighbor in server.neighbors}:
        return False
    if key_of(name) in {key_of(partition.record.authority_name) for partition in server.partitions.values()}:
        return False
    machine = yield from read_object(ObjectType.MACHINE, path_name=name)
    return machine.identifier is None


# -- roles


def _may_change(server: ReplicaState, message: ChangeRequestMessage, event: Received) -> Job[bool]:
    """Return True if a server may request a change.

    Only the servers concerned may change roles.

    Else a server could make itself, or a machine of its own, the authority of another partition.
    """
    partition = server.partitions.get(message.partition_id)
    change = message.directory_change
    if partition is None or not partition.record.owned:
        return True  # the owner decides
    # a request that a server forwards is not its own (decision R141)
    is_its_own = key_of(message.requester_name) == key_of(event.sender)
    match props.type_of(change):
        case ObjectType.ENTERPRISE:
            return change.command is Command.UPDATE and change.get(Propid.E_PECNAME) is None
        case ObjectType.SITE:
            return (yield from _may_change_site(server, change, event, is_its_own=is_its_own))
        case ObjectType.MACHINE:
            return (yield from _may_change_machine(server, partition, change, event, is_its_own=is_its_own))
        case _:
            return True


def _may_change_site(
    server: ReplicaState, change: DirectoryChange, event: Received, *, is_its_own: bool
) -> Job[bool]:
    if change.command is not Command.UPDATE:
        return False
    if not _has_any_property(change, _OF_SITE):
        return True
    if not is_its_own:
        return False
    site_object = yield from read_object(
        ObjectType.SITE,
        path_name=change.path_name,
        identifier=change.guid_identifier,
        partition_id=PEC_PARTITION_ID,
    )
    site = server.partitions.get(site_object.identifier) if site_object.identifier is not None else None
    if site is None or site.record.owned:
        return False
    names = {key_of(event.sender), *server.aliases.get(key_of(event.sender), ())}
    if key_of(site.record.authority_name) not in names:
        return False
    return (yield from _is_own(server, change.properties, Propid.S_PSC, event.sender))


def _may_change_machine(
    server: ReplicaState, partition: Partition, change: DirectoryChange, event: Received, *, is_its_own: bool
) -> Job[bool]:
    machine = yield from read_object(
        ObjectType.MACHINE,
        path_name=change.path_name,
        identifier=change.guid_identifier,
        partition_id=partition.id,
    )
    stored_properties = machine.properties or ()
    if not props.has_role(stored_properties, SERVER) and not props.has_role(change.properties, SERVER):
        return True
    if change.command is not Command.UPDATE or props.get_roles(change.properties) is not None:
        return False
    if not _has_any_property(change, _OF_SERVER):
        return True
    if not is_its_own or not _is_itself(machine.identifier, stored_properties, event):
        return False
    return (yield from _is_own(server, change.properties, Propid.QM_PATHNAME, event.sender))


def _is_itself(identifier: Guid | None, stored_properties: Properties, event: Received) -> bool:
    if event.machine_id is not None:
        return identifier == event.machine_id
    return key_of(props.get_text(stored_properties, Propid.QM_PATHNAME) or "") == key_of(event.sender)


def _is_own(server: ReplicaState, properties: Properties, propid: Propid, sender: str) -> Job[bool]:
    """Return True if a property is absent, or a name of the sender.

    The sender may call such a name its own.
    """
    if props.get_value(properties, propid) is None:
        return True
    return (yield from is_own_name(server, props.get_text(properties, propid) or "", sender))


def _has_any_property(change: DirectoryChange, propids: frozenset[Propid]) -> bool:
    return any(propid in propids for propid, _ in change.properties)
