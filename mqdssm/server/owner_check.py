"""Question to the owner of a partition that another server is to take over.

An owner that works would go on giving numbers, and two servers would own the partition (decision T144).
"""

import time
from contextlib import suppress
from threading import Event
from typing import Final

from mqdssm.drivers.authentication.signatures import AS_SPECIFIED
from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.drivers.store_thread import read_object
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.status import PartitionStatus
from mqdssm.errors import DirectoryError, GenericDirectoryError, MappingError, TransportError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Scope, SyncRequestMessage
from mqdssm.model.names import FormatName
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import MAX
from mqdssm.model.transport import (
    PRIORITY_MAX,
    Message,
    MessageClass,
    MessageId,
    own_replication_queue,
    replication_queue,
)
from mqdssm.server.current_roles import role_of_running
from mqdssm.wire.mqdsrp import encode

OWNER_WAIT_S: Final = 30.0
"""Seconds that an owner may take: three attempts to connect, and 10 until its session acknowledges."""
_POLL_S: Final = 0.1


def check_owner_is_silent(server: DirectoryServer, partition_id: Guid, *, wait_s: float) -> None:
    """Return when the owner of a partition has not answered in time.

    Nobody is asked if this server owns the partition or does not have it, or if nobody owns it.

    Args:
        server: the server that is to take the partition over.
        partition_id: the partition.
        wait_s: how long the owner may take.

    Raises:
        GenericDirectoryError: the owner answers, or cannot be asked.
    """
    partitions = server.driver.status().partitions
    partition = next((part for part in partitions if part.partition_id == partition_id), None)
    if partition is None or partition.is_owned or not partition.authority_name:
        return
    if _is_answering(server, partition, wait_s):
        raise GenericDirectoryError(
            f"{partition.authority_name} answers, and would go on changing the partition: have it hand the "
            "partition over (hand-over), or stop it; --from-running-owner takes it over nevertheless"
        )


class _Delivery:
    """Observer of the question (`mqdssm.drivers.queue_manager.delivery_observers`)."""

    def __init__(self) -> None:
        self.is_confirmed: Final = Event()

    def on_accepted(self, identifier: MessageId) -> None:
        """Note nothing."""

    def on_confirmed(self) -> None:
        """Note that the owner's queue manager has the question, and so works."""
        self.is_confirmed.set()

    def on_given_up(self, message_class: MessageClass | None) -> None:
        """Note nothing: other messages of the owner may come."""


def _is_answering(server: DirectoryServer, partition: PartitionStatus, wait_s: float) -> bool:
    """Ask the owner, and return True at its first sign of life."""
    owner, last_heard = partition.authority_name, server.driver.messages.find_last_heard
    before, delivery, deadline = last_heard(owner), _Delivery(), time.monotonic() + wait_s
    question, queue = _build_question(server, partition, wait_s), _queue_of(server, owner)
    try:
        server.queue_manager.send(question, queue, observer=delivery)
    except (TransportError, ValueError) as error:
        raise GenericDirectoryError(f"{owner} cannot be asked if it works: {error}") from error
    while not delivery.is_confirmed.wait(_POLL_S) and last_heard(owner) == before:
        if time.monotonic() >= deadline:
            return False
    return True


def _queue_of(server: DirectoryServer, machine_name: str) -> FormatName:
    """Return the replication queue of a machine.

    Other messages go to its name. A message to its identifier has a session of its own, which connects at
    once: the session by name may wait for a minute before it tries again.
    """
    with suppress(DirectoryError, MappingError):
        machine = read_object(server.store.lookup, ObjectType.MACHINE, path_name=machine_name)
        if machine is not None and machine.identifier is not None:
            return own_replication_queue(machine.identifier)
    return replication_queue(machine_name)


def _build_question(server: DirectoryServer, partition: PartitionStatus, wait_s: float) -> Message:
    """Return a request for newer changes, which changes nothing at the owner."""
    settings = server.settings
    request = SyncRequestMessage(
        site_id=settings.site_id,
        partition_id=partition.partition_id,
        from_seq_number=partition.last,
        to_seq_number=MAX,
        known_purged_seq_number=partition.purged,
        is_sync0=False,
        scope=Scope.SITE if role_of_running(server) is Role.BSC else Scope.ENTERPRISE,
        requester_name=server.driver.status().machine_name,
    )
    return Message(
        body=encode(request),
        time_to_reach_queue_s=int(wait_s) + 1,
        priority=PRIORITY_MAX,
        authentication_level=AS_SPECIFIED.level,
        hash_algorithm=AS_SPECIFIED.hash_algorithm,
    )
