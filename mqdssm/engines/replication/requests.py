"""Change requests of our clients and other servers, on the way to the authority.

[MC-MQDSRP] 3.1.7.1.1, 3.2.7.2, 3.2.7.6, 3.3.7.1, 3.3.7.6, 3.3.7.8, 3.3.7.9.
"""

from typing import Final

from mqdssm.engines.replication import authority, purging
from mqdssm.engines.replication.actions import ChangeObject, Nacked, PropagateChange
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.jobs import Job, read_object
from mqdssm.engines.replication.operations import ObjectOutcome
from mqdssm.engines.replication.outcomes import RequestKey
from mqdssm.engines.replication.properties import IDENTIFIERS, get_guid, get_value, type_of, with_identifier
from mqdssm.engines.replication.state import (
    REQUEST_TIMEOUT_S,
    Partition,
    PendingRequest,
    ReplicaState,
    key_of,
)
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.model import messages as msg
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.propids import ObjectType, Propid

REMEMBERED_S: Final = 60.0
"""Shortest time for which an outcome is kept: longer than a copy of its request can be under way (R33)."""
WAITING_MAX: Final = 10_000
"""Limit of the requests of others and of our clients that wait for their replies."""
RESENDS_MAX: Final = 3
"""Number of times a message with a bad signature is sent to a machine again (decision R44)."""
QUIET_S: Final = 2 * REQUEST_TIMEOUT_S
"""Duration of that time: a request takes at most two messages from a BSC to the authority (3.1.1.5.1)."""
_NUMBERS: Final = 1 << 32  # RequestIdentifier has 32 bits


def change_object(server: ReplicaState, event: ChangeObject) -> Job[None]:
    """Make a client's change, here or through the authority (3.1.7.1.1)."""
    properties = event.properties
    if event.object_type not in IDENTIFIERS:  # tombstones cannot be changed
        server.reply(event.request, Hresult.MQDS_WRONG_OBJ_TYPE)
        return
    if event.command is msg.Command.CREATE and event.identifier is not None:
        properties = with_identifier(event.object_type, event.identifier, properties)
    partition = server.partitions.get(event.partition_id)
    if partition is not None and partition.record.owned:
        requested = ChangeRequest(
            command=event.command,
            object_type=event.object_type,
            path_name=event.path_name,
            identifier=event.identifier if event.command is not msg.Command.CREATE else None,
            properties=properties,
            scope=event.scope,
        )
        outcome = yield from authority.execute(server, partition, requested)
        new_identifier = outcome.identifier if outcome.status == Hresult.MQ_OK else None
        server.reply(event.request, outcome.status, new_identifier)
        return
    change = _change_of_event(event, properties)
    if change is None:
        server.reply(event.request, Hresult.MQ_ERROR_INVALID_PARAMETER)
        return
    new_identifier = event.identifier if event.command is msg.Command.CREATE else None
    _send_request(server, change, PendingRequest(client=event.request, identifier=new_identifier))


def _change_of_event(event: ChangeObject, properties: msg.Properties) -> msg.DirectoryChange | None:
    if event.command is msg.Command.DELETE:
        properties = msg.make_deletion_properties(event.object_type, event.scope)
    by_path = event.path_name is not None
    try:
        return msg.DirectoryChange(
            command=event.command,
            path_name=event.path_name,
            guid_identifier=None if by_path else event.identifier,
            partition_id=event.partition_id,
            properties=properties,
        )
    except ValueError:  # no name, no property, or one twice
        return None


def request_update(
    server: ReplicaState, kind: ObjectType, identifier: Guid, partition_id: Guid, properties: msg.Properties
) -> None:
    """Request an update of an object from its authority, without waiting."""
    change = msg.DirectoryChange(
        command=msg.Command.UPDATE,
        guid_identifier=identifier,
        partition_id=partition_id,
        properties=properties,
    )
    server.note("asks the authority", f"for a change of {kind.spec_name} {identifier}")
    _send_request(server, change, PendingRequest())


def _send_request(server: ReplicaState, change: msg.DirectoryChange, request: PendingRequest) -> None:
    """Send a change request: Change Remote Object (3.1.7.1.1)."""
    identifier = server.next_request % _NUMBERS
    server.next_request += 1
    message = msg.ChangeRequestMessage(
        site_id=server.settings.site_id,
        partition_id=change.partition_id,
        request_identifier=identifier,
        requester_name=server.name,
        psc_name=server.psc_name if server.is_bsc else None,
        directory_change=change,
    )
    _forward(server, message, request)


def _forward(server: ReplicaState, message: msg.ChangeRequestMessage, request: PendingRequest) -> None:
    """Forward a request to its next hop: Process Change Request (3.3.7.1)."""
    key = _request_key(message.requester_name, message.request_identifier)
    partition = server.partitions.get(message.partition_id)
    if server.is_bsc:
        next_hop = server.psc_name
    elif partition is None:
        _answer(server, request, Hresult.MQDS_UNKNOWN_SOURCE)
        return
    else:
        next_hop = partition.record.authority_name
    if not next_hop or server.is_me(next_hop):
        _answer(server, request, Hresult.MQDS_UNKNOWN_SOURCE)
        return
    if len(server.requests) >= WAITING_MAX:
        _answer(server, request, Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        return
    request.hop = next_hop
    server.requests[key] = request
    server.send_soon(next_hop, message)
    server.start_timer(_timer_of(key), _wait_s(server, next_hop, partition))


def _wait_s(server: ReplicaState, next_hop: str, partition: Partition | None) -> float:
    """Return the timeout of a reply (3.3.7.1 <11>).

    The timeout is longer if the next hop is not the authority.
    """
    direct = partition is not None and key_of(partition.record.authority_name) == key_of(next_hop)
    return server.settings.request_wait_s if direct else server.settings.forwarded_wait_s


def _timer_of(key: RequestKey) -> Timer:
    name, identifier = key
    return Timer(TimerPurpose.REQUEST, f"{identifier} {name}")


def _request_key(requester_name: str, identifier: int) -> RequestKey:
    return key_of(requester_name), identifier


def receive(server: ReplicaState, message: msg.ChangeRequestMessage, sender: str) -> Job[None]:
    """Handle Change Request (3.2.7.2)."""
    key = _request_key(message.requester_name, message.request_identifier)
    if server.is_quiet:
        server.note("dropped: a change request soon after our start", f"from {sender}")
        return
    if key in server.requests:
        server.note("dropped: a change request that we forwarded already", f"from {sender}")
        return
    old_outcome = server.executed.find((key_of(sender), *key))
    if old_outcome is not None:
        _send_reply(server, message, old_outcome, sender)
        return
    partition = server.partitions.get(message.partition_id)
    if partition is None or not partition.record.owned:
        _forward(server, message, PendingRequest(message=message, sender=sender))
        return
    requested = _read_change(message.directory_change)
    if message.directory_change.partition_id != message.partition_id:
        outcome = ObjectOutcome(status=Hresult.MQ_ERROR_INVALID_PARAMETER)
    elif requested is None:
        outcome = ObjectOutcome(status=Hresult.MQ_ERROR)
    elif (yield from _is_named_already(server, partition, requested)):
        outcome = ObjectOutcome(status=Hresult.MQ_OK)
    else:
        outcome = yield from authority.execute(server, partition, requested)
    answer_request(server, message, outcome.status, sender)


def _is_named_already(server: ReplicaState, partition: Partition, requested: ChangeRequest) -> Job[bool]:
    """Return True if an object has the requested name already (decision R185).

    A server repeats such a request until its own copy of the object has the name.
    """
    if requested.command is not msg.Command.UPDATE or len(requested.properties) != 1:
        return False
    ((propid, name),) = requested.properties
    if propid not in {Propid.S_PSC, Propid.QM_PATHNAME}:
        return False
    stored_object = yield from read_object(
        requested.object_type,
        path_name=requested.path_name,
        identifier=requested.identifier,
        partition_id=partition.id,
    )
    if stored_object.identifier is None or get_value(stored_object.properties or (), propid) != name:
        return False
    site = server.partitions.get(stored_object.identifier)
    return site is None or site.record.authority_name == name  # else the PEC has to follow the new object


def is_known_request(server: ReplicaState, message: msg.ChangeRequestMessage, sender: str) -> bool:
    """Return True if a request is dropped, under way or answered.

    What the sender is allowed does not matter.
    """
    key = _request_key(message.requester_name, message.request_identifier)
    waiting = server.requests.get(key)
    is_copy = waiting is not None and key_of(waiting.sender) == key_of(sender)
    return server.is_quiet or is_copy or server.executed.find((key_of(sender), *key)) is not None


def answer_request(server: ReplicaState, message: msg.ChangeRequestMessage, status: int, sender: str) -> None:
    """Answer a request (decisions R33, R61, R119).

    The status is kept for later copies of the request.
    """
    key = _request_key(message.requester_name, message.request_identifier)
    _keep_outcome(server, key, status, sender)
    _send_reply(server, message, status, sender)


def _read_change(change: msg.DirectoryChange) -> ChangeRequest | None:
    """Return the change that a request asks for.

    None for a type that cannot be changed.
    """
    kind = type_of(change)
    scope = msg.Scope.ENTERPRISE
    if change.command is msg.Command.DELETE and change.get(Propid.D_SCOPE) == msg.Scope.SITE:
        scope = msg.Scope.SITE
    if kind is None or kind not in IDENTIFIERS:
        return None
    identifier = change.guid_identifier
    properties = change.properties
    if change.command is msg.Command.CREATE and identifier is not None:
        properties = with_identifier(kind, identifier, properties)
    if change.command in {msg.Command.CREATE, msg.Command.SYNC}:
        identifier = get_guid(properties, IDENTIFIERS[kind]) or identifier
    return ChangeRequest(
        command=change.command,
        object_type=kind,
        path_name=change.path_name,
        identifier=None if change.command is msg.Command.CREATE else identifier,
        properties=() if change.command is msg.Command.DELETE else properties,
        scope=scope,
    )


def _keep_outcome(server: ReplicaState, key: RequestKey, status: int, sender: str) -> None:
    if not server.executed:
        server.start_timer(Timer(TimerPurpose.FORGET), REMEMBERED_S)
    server.executed.put((key_of(sender), *key), status)


def on_forget_timer(server: ReplicaState, _key: str) -> None:
    """Remove the outcomes of earlier rounds, and begin the next round."""
    server.executed.forget()
    if server.executed:
        server.start_timer(Timer(TimerPurpose.FORGET), REMEMBERED_S)


def begin_quiet_time(server: ReplicaState) -> None:
    """Drop requests of others for a while (decision R33).

    Outcomes of requests from before our start are lost.
    """
    server.is_quiet = True
    server.start_timer(Timer(TimerPurpose.QUIET), QUIET_S)


def on_quiet_timer(server: ReplicaState, _key: str) -> None:
    """Accept requests of others again."""
    server.is_quiet = False


def _send_reply(server: ReplicaState, message: msg.ChangeRequestMessage, status: int, sender: str) -> None:
    """Send Change Reply (3.2.7.6) to the sender of the request.

    The sender is the requester or its PSC.
    """
    reply = msg.ChangeReplyMessage(
        site_id=server.settings.site_id,
        request_identifier=message.request_identifier,
        result=status,
        requester_name=message.requester_name,
    )
    server.send_soon(sender, reply)


def receive_reply(server: ReplicaState, message: msg.ChangeReplyMessage, sender: str) -> None:
    """Handle Change Reply (3.3.7.6) of the machine that was asked (decision R40)."""
    key = _request_key(message.requester_name, message.request_identifier)
    request = server.requests.get(key)
    if request is not None and key_of(request.hop) != key_of(sender):
        server.note("dropped: a reply from a machine that was not asked", f"from {sender}")
        return
    _end_request(server, key, message.result)


def receive_nack(server: ReplicaState, event: Nacked) -> None:
    """Handle Change Request Nack (3.3.7.8) and Receive Request Nack (3.3.7.9)."""
    message = event.message
    if isinstance(message, msg.ChangeRequestMessage):
        key = _request_key(message.requester_name, message.request_identifier)
        _end_request(server, key, Hresult.MQDS_OWNER_NOT_REACHED)
    elif event.bad_signature:
        key_name = key_of(event.destination)
        count = server.resent.get(key_name, 0)
        if count < RESENDS_MAX:
            server.resent[key_name] = count + 1
            server.resend(event.destination, message)
        else:
            server.note("gave up: our signature is not taken", f"by {event.destination}")


def on_request_timer(server: ReplicaState, key: str) -> None:
    """End a change request whose reply did not come in time (3.3.7.1)."""
    identifier, _, name = key.partition(" ")
    _end_request(server, (name, int(identifier)), Hresult.MQDS_NO_RSP_FROM_OWNER)


def _end_request(server: ReplicaState, key: RequestKey, status: int) -> None:
    request = server.requests.pop(key, None)
    if request is not None:
        server.stop_timer(_timer_of(key))
        _answer(server, request, status)


def _answer(server: ReplicaState, request: PendingRequest, status: int) -> None:
    if request.message is not None:
        answer_request(server, request.message, status, request.sender)
    elif request.client is not None:
        identifier = request.identifier if status == Hresult.MQ_OK else None
        server.reply(request.client, status, identifier)


def propagate_service_change(server: ReplicaState, event: PropagateChange) -> Job[None]:
    """Handle Propagate Directory Change (3.1.7.1.2).

    A service that writes beside this server causes the event.

    A number that was given to another change meanwhile is refused. The service then writes the object again
    with the next number, since other servers drop changes with a number that they know.
    """
    partition = server.partitions.get(event.partition_id)
    if partition is None or not partition.record.owned or event.seq_number != partition.last.next():
        server.reply(event.request, Hresult.MQ_ERROR_ILLEGAL_OPERATION)
        return
    requested = ChangeRequest(
        command=msg.Command.SYNC if event.command is msg.Command.CREATE else event.command,
        object_type=event.object_type,
        identifier=event.identifier,
        scope=event.scope,
    )
    status, number = event.status, event.seq_number
    with partition.guard_numbering():
        if status != Hresult.MQ_OK:  # the error may have come after the write (decision R156)
            outcome = yield from authority.check_failed_write(server, partition, requested, number, status)
            status = outcome.status
            if outcome.identifier is None:
                server.reply(event.request, status)
                return
        change = yield from authority.propagate_change(server, partition, requested, event.identifier, number)
        if change is not None:
            yield from authority.hand_over_if_named(server, partition, change)
    yield from purging.purge_if_due(server, partition)
    server.reply(event.request, status, event.identifier)
