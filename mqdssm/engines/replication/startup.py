"""Start of a server, also after a crash (decision R14).

See [MC-MQDSRP] 3.1.3 and 3.3.3.
"""

from mqdssm.engines.replication import (
    authority,
    foreign_changes,
    propagation,
    purging,
    requests,
    server_roles,
    succession,
    sync,
    topology,
)
from mqdssm.engines.replication.actions import Started
from mqdssm.engines.replication.jobs import Job, perform
from mqdssm.engines.replication.operations import LoadState, PersistedState
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import Neighbor, Partition, ReplicaState, key_of
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition


def start(server: ReplicaState, _event: Started) -> Job[None]:
    """Initialize the state, neighbours and timers.

    Missed changes are asked for.
    """
    state = yield from perform(LoadState(), PersistedState)
    if state.partitions:
        requests.begin_quiet_time(server)
    yield from _load_state(server, state)
    if server.settings.restored:
        yield from succession.disown_restored(server)
    server.psc_name = _find_first_psc_name(server)
    yield from succession.complete_handovers(server)
    if server.is_demoted and server.site is None:
        server.psc_name = server.partitions[server.settings.site_id].record.authority_name
    yield from topology.derive_neighbors(server)
    if server.is_bsc:
        purging.start_bsc_ack(server)
    for partition in list(server.partitions.values()):
        yield from sync.resume(server, partition)
    yield from server_roles.write_roles(server)
    foreign_changes.start(server)
    propagation.send_to_all(server)  # servers with higher numbers then report them (decision R39)


def _load_state(server: ReplicaState, state: PersistedState) -> Job[None]:
    """Initialize replication state (3.1.3.1) and neighbours (3.1.3.2).

    The events are Replication State Initialization and Directory Neighbor Initialization.
    """
    for record in state.partitions:
        server.partitions[record.partition_id] = Partition.of(record)
    for neighbor in state.neighbors:
        neighbors = server.bscs if neighbor.is_bsc else server.pscs
        neighbors[key_of(neighbor.machine_name)] = Neighbor(neighbor)
    if PEC_PARTITION_ID not in server.partitions:
        yield from _make_enterprise(server)
    for partition in server.partitions.values():
        yield from _recover_partition(server, partition)


def _make_enterprise(server: ReplicaState) -> Job[None]:
    settings = server.settings
    owned = settings.role is Role.PEC
    record = DirectoryPartition(
        partition_id=PEC_PARTITION_ID,
        authority_name=settings.machine_name if owned else settings.pec_name,
        owned=owned,
        is_new=not owned,
    )
    server.partitions[PEC_PARTITION_ID] = partition = Partition.of(record)
    yield from server.save(partition)


def _recover_partition(server: ReplicaState, partition: Partition) -> Job[None]:
    yield from authority.recover_partition(server, partition)
    record = partition.record
    if record.owned:
        partition.is_whole = partition.is_settled = True
        if record.authority_name != server.name:
            server.note("we have another name now", f"{record.authority_name} -> {server.name}")
    partition.acked_at = partition.last


def _find_first_psc_name(server: ReplicaState) -> str:
    """Return MyPSCName of a server that began as a BSC (3.1.3.1); empty for others."""
    site = server.partitions.get(server.settings.site_id)
    if server.settings.role is not Role.BSC:
        return ""
    if site is None or not site.record.authority_name:
        return server.settings.psc_name
    return "" if site.record.owned else site.record.authority_name
