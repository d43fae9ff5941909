"""Changes and sequence numbers that neighbours are sent.

See [MC-MQDSRP] 3.3.7.2 and 3.3.6.1.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mqdssm.engines.replication.properties import size_of_change
from mqdssm.engines.replication.state import Neighbor, Partition, ReplicaState, key_of
from mqdssm.model.messages import (
    ChangePropagationMessage,
    DirectoryChange,
    PartitionSeqNumbers,
    SeqNumberHeader,
)

_NO_NUMBERS: Final = SeqNumberHeader()


def enqueue(server: ReplicaState, neighbors: Iterable[Neighbor], change: DirectoryChange) -> None:
    """Queue a change for neighbours.

    If too many are queued, the neighbour has to synchronize.
    """
    for neighbor in neighbors:
        if len(neighbor.available) < server.settings.available_max:
            neighbor.available.append(change)
        else:
            server.note("forgot changes: too many are waiting", f"for {neighbor.name}")
            neighbor.available.clear()


def on_timer(server: ReplicaState, key: str) -> None:
    """Handle Change Propagation Timer Event (3.3.6.1)."""
    kind, _, name_key = key.partition(" ")
    neighbor = (server.bscs if kind == "bsc" else server.pscs).get(name_key)
    if neighbor is not None:
        send(server, neighbor)
        settings = server.settings
        server.start_timer(
            neighbor.timer, settings.intrasite_s if neighbor.record.is_bsc else settings.intersite_s
        )


def flush(server: ReplicaState) -> None:
    """Send the waiting changes to the BSCs at once (3.1.7.2.3)."""
    for neighbor in server.bscs.values():
        send(server, neighbor)


def send_to_all(server: ReplicaState) -> None:
    """Send waiting changes and our sequence numbers to every neighbour at once."""
    for neighbor in server.neighbors:
        neighbor.header_at = None
        send(server, neighbor)


def send(server: ReplicaState, neighbor: Neighbor) -> None:
    """Send Change Propagation (3.3.7.2).

    The message has the neighbour's waiting changes, and at intervals our numbers.
    """
    header = _NO_NUMBERS
    since = None if neighbor.header_at is None else server.now - neighbor.header_at
    if since is None or not 0 <= since < server.settings.header_s:  # the clock may be set back
        header = _make_header(server, neighbor)
        neighbor.header_at = server.now
    if not neighbor.available and not header.partition_seq_numbers:
        return
    waiting, neighbor.available = neighbor.available, []
    parts = list(split_changes(server, waiting)) or [()]
    for number, part in enumerate(parts, start=1):
        message = ChangePropagationMessage(
            site_id=server.settings.site_id,
            directory_changes=part,
            seq_number_header=header if number == len(parts) else _NO_NUMBERS,
        )
        server.send(neighbor.name, message, acks=False)


def split_changes(
    server: ReplicaState, waiting: Iterable[DirectoryChange]
) -> Iterator[tuple[DirectoryChange, ...]]:
    """Split changes into messages of limited size (decision R18)."""
    settings = server.settings
    part: list[DirectoryChange] = []
    size = 0
    for change in waiting:
        more = size_of_change(change)
        full = len(part) >= settings.message_changes_max or size + more > settings.message_bytes_max
        if part and full:
            yield tuple(part)
            part, size = [], 0
        part.append(change)
        size += more
    if part:
        yield tuple(part)


def _make_header(server: ReplicaState, neighbor: Neighbor) -> SeqNumberHeader:
    partitions = (
        server.partitions.values() if neighbor.record.is_bsc else _list_intersite_partitions(server, neighbor)
    )
    numbers = tuple(
        PartitionSeqNumbers(
            partition_id=partition.id,
            last_seq_number=partition.last,
            purged_seq_number=(
                partition.record.purged if partition.record.owned else partition.record.allowed_purge
            ),
        )
        for partition in partitions
        if partition.is_normal
    )
    return SeqNumberHeader(machine_name=server.name if numbers else "", partition_seq_numbers=numbers)


def _list_intersite_partitions(server: ReplicaState, neighbor: Neighbor) -> Iterator[Partition]:
    """Yield partitions whose numbers other sites are sent (decision R38).

    Such a partition is ours, being handed over, or the neighbour's, which it may not know yet.
    """
    for partition in server.partitions.values():
        is_authority = key_of(partition.record.authority_name) == key_of(neighbor.name)
        handed_over = partition.id == server.settings.site_id and server.is_retiring
        if partition.record.owned or is_authority or handed_over:
            yield partition
