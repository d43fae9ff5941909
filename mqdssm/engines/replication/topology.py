"""Sites, their controllers, and the resulting neighbours.

See [MC-MQDSRP] 3.1.7.2.5-8 and 3.1.7.2.10-12.

The objects name the servers. The collections of neighbours are derived from the objects, at each start,
too. So a crash between writing an object and a neighbour loses neither (decision R36).
"""

from collections.abc import Iterable

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication import propagation, server_roles, succession, sync_requests, trust
from mqdssm.engines.replication.internal_events import AuthorityChanged, ObjectsChanged, PartitionSwept
from mqdssm.engines.replication.jobs import Job, list_objects, perform, read_object
from mqdssm.engines.replication.properties import CONTROLLER, get_guid, get_roles, get_text, has_role, type_of
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import Neighbor, Partition, ReplicaState, key_of
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, DirectoryChange
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryNeighbor, DirectoryPartition, Service


def derive_neighbors(server: ReplicaState) -> Job[None]:
    """Derive partitions and neighbours from the objects."""
    sites = yield from list_objects(ObjectType.SITE, PEC_PARTITION_ID)
    for site in sites:
        if site.identifier is not None:
            yield from _add_partition(server, site.identifier, _psc_of(site))
            yield from _follow_site(server, site, server.partitions[site.identifier])
    if server.enterprise is not None:  # a crash interrupted their removal
        for site_id in _find_deleted_sites(server, sites):
            yield from _remove_site(server, site_id)
    server.is_retiring = succession.is_retiring(server, sites)
    serves = server.enterprise is not None or server.site is not None or server.is_retiring
    pscs = _find_pscs(server, sites) if serves else {}
    yield from _replace_neighbors(server, server.pscs, pscs)
    bscs: dict[str, Neighbor] = {}
    if server.site is not None or server.is_retiring:
        bscs = yield from _find_bscs(server)
    yield from _replace_neighbors(server, server.bscs, bscs)


def _follow_site(server: ReplicaState, site: ops.ObjectRead, partition: Partition) -> Job[None]:
    """Record the new PSC of a site if it was named and not recorded (decision R127)."""
    psc_name = _psc_of(site)
    if server.has_not_followed(site) and not server.is_me(psc_name) and not partition.record.owned:
        yield from _follow_psc(server, partition, psc_name)


def _follow_psc(server: ReplicaState, site: Partition, psc_name: str) -> Job[None]:
    """Record the PSC that a site's object names.

    Another site whose object names nobody has no authority (decision R186).

    If a sender has that name, and is the machine that we know as the PEC, the PEC was renamed (R172).
    """
    if not psc_name:
        if site.id == server.settings.site_id:
            return
        site.hint = ""
    is_new = key_of(site.record.authority_name) != key_of(psc_name)
    pec_name = server.partitions[PEC_PARTITION_ID].record.authority_name
    if is_new and trust.is_from(server, psc_name, pec_name):
        yield from follow_pec(server, psc_name)
    yield from succession.follow_authority(server, site, psc_name)


def _find_deleted_sites(server: ReplicaState, sites: Iterable[ops.ObjectRead]) -> list[Guid]:
    """Return the sites of partitions that have no site object."""
    site_ids = {PEC_PARTITION_ID, *(site.identifier for site in sites)}
    return [partition_id for partition_id in server.partitions if partition_id not in site_ids]


def _psc_of(site: ops.ObjectRead) -> str:
    return get_text(site.properties or (), Propid.S_PSC) or ""


def _find_pscs(server: ReplicaState, sites: Iterable[ops.ObjectRead]) -> dict[str, Neighbor]:
    neighbors = {}
    for site in sites:
        name = _psc_of(site)
        partition = server.partitions.get(site.identifier) if site.identifier is not None else None
        if partition is None or partition.id == server.settings.site_id:
            continue
        for server_name in dict.fromkeys((name, partition.record.authority_name)):
            # the authority may already differ from the PSC in the site's object (decision R38)
            if server_name and not server.is_me(server_name):
                neighbors[key_of(server_name)] = Neighbor(
                    DirectoryNeighbor(partition_id=partition.id, machine_name=server_name)
                )
    return neighbors


def _find_bscs(server: ReplicaState) -> Job[dict[str, Neighbor]]:
    machines = yield from list_objects(ObjectType.MACHINE, server.settings.site_id, Service.BSC | CONTROLLER)
    neighbors = {}
    for machine in machines:
        name = get_text(machine.properties or (), Propid.QM_PATHNAME)
        if name and machine.identifier != server.settings.machine_id:
            record = DirectoryNeighbor(partition_id=server.settings.site_id, machine_name=name, is_bsc=True)
            neighbors[key_of(name)] = Neighbor(record, machine_id=machine.identifier)
    return neighbors


def _replace_neighbors(
    server: ReplicaState, neighbors: dict[str, Neighbor], new_neighbors: dict[str, Neighbor]
) -> Job[None]:
    for key in [key for key in neighbors if key not in new_neighbors]:
        yield from _remove_neighbor(server, neighbors, key)
    for key, neighbor in new_neighbors.items():
        if key in neighbors:
            neighbors[key].machine_id = neighbor.machine_id
            _start_timer(server, neighbors[key])
        else:
            yield from _add_neighbor(server, neighbors, neighbor)


def _add_neighbor(server: ReplicaState, neighbors: dict[str, Neighbor], neighbor: Neighbor) -> Job[None]:
    neighbors[key_of(neighbor.name)] = neighbor
    yield from server.save_neighbor(neighbor)
    _start_timer(server, neighbor)


def _remove_neighbor(server: ReplicaState, neighbors: dict[str, Neighbor], key: str) -> Job[None]:
    gone = neighbors.pop(key)
    propagation.send(server, gone)  # its removal is among the waiting changes
    server.stop_timer(gone.timer)
    operation = ops.RemoveNeighbor(machine_name=gone.name, is_bsc=gone.record.is_bsc)
    yield from perform(operation, ops.Done)


def _start_timer(server: ReplicaState, neighbor: Neighbor) -> None:
    settings = server.settings
    wait_s = settings.intrasite_s if neighbor.record.is_bsc else settings.intersite_s
    server.start_timer(neighbor.timer, wait_s)


def _add_partition(server: ReplicaState, site_id: Guid, psc_name: str) -> Job[None]:
    """Add a partition for a new site (3.1.7.2.5, 3.1.7.2.11; decision R4)."""
    if site_id in server.partitions:
        return
    authority, owned = psc_name, False
    if site_id == server.settings.site_id and server.settings.role is not Role.BSC and server.is_me(psc_name):
        owned = server.enterprise is not None
        if not owned:
            # first take what others have of this partition, if anything (decision R43)
            authority = server.partitions[PEC_PARTITION_ID].record.authority_name
    record = DirectoryPartition(
        partition_id=site_id,
        authority_name=authority,
        owned=owned,
        is_new=not owned and site_id == server.settings.site_id,
        followed=server.partitions[PEC_PARTITION_ID].last,
    )
    server.partitions[site_id] = partition = Partition.of(record)
    yield from perform(ops.SavePartition(partition=record), ops.Done)
    sync_requests.send(server, partition)


def on_authority_changed(server: ReplicaState, _event: AuthorityChanged) -> Job[None]:
    """Derive the neighbours that belong to our new role."""
    yield from derive_neighbors(server)


def on_partition_swept(server: ReplicaState, event: PartitionSwept) -> Job[None]:
    """Remove what belongs to the objects that were swept away (decision R189).

    Sites have partitions; sites and machines name neighbours.
    """
    partition_id = event.partition.id
    if partition_id == PEC_PARTITION_ID:
        yield from _remove_swept_sites(server)
    elif partition_id != server.settings.site_id:
        return
    yield from derive_neighbors(server)
    yield from trust.forget_removed_servers(server, server.partitions.values())


def _remove_swept_sites(server: ReplicaState) -> Job[None]:
    """Remove the partitions of other sites that the PEC no longer has.

    Our own site may be one that a new PEC never knew. Our copy may be the last one, and is kept.
    """
    sites = yield from list_objects(ObjectType.SITE, PEC_PARTITION_ID)
    for site_id in _find_deleted_sites(server, sites):
        if site_id == server.settings.site_id:
            server.warn(
                "the enterprise does not have our site",
                f"site {site_id}: create it again with its identifier, or remove this server",
            )
        else:
            server.note("removes a site that the enterprise does not have", f"site {site_id}")
            yield from _remove_site(server, site_id)


def on_objects_changed(server: ReplicaState, event: ObjectsChanged) -> Job[None]:
    """Update the topology after changes have been written.

    BSCs are sent changes of the topology at once.
    """
    partition = event.partition
    needs_flush = needs_derive = False
    for change in event.changes:
        kind = type_of(change)
        if kind is ObjectType.SITE:
            needs_derive |= yield from _follow_site_change(server, change)
        elif kind is ObjectType.ENTERPRISE and change.command is not Command.DELETE:
            needs_flush |= yield from _follow_enterprise_change(server, partition, change)
        elif kind is ObjectType.MACHINE:
            needs_derive |= yield from _follow_machine_change(server, partition, change)
    if needs_derive:
        yield from derive_neighbors(server)
        yield from server_roles.write_roles(server)
    if any(_may_remove_server(change) for change in event.changes):
        yield from trust.forget_removed_servers(server, server.partitions.values())
    if event.flush and (needs_flush or needs_derive):
        propagation.flush(server)


def _may_remove_server(change: DirectoryChange) -> bool:
    return change.command is Command.DELETE and type_of(change) in {ObjectType.SITE, ObjectType.MACHINE}


def _follow_site_change(server: ReplicaState, change: DirectoryChange) -> Job[bool]:
    """Handle Site Update, and the creation and deletion of sites.

    See 3.1.7.2.5, 3.1.7.2.7 and 3.1.7.2.11.

    Returns:
        True if neighbours have to be derived from the objects again.
    """
    site_id = change.guid_identifier or get_guid(change.properties, Propid.S_SITEID)
    if site_id is None or site_id == PEC_PARTITION_ID:  # an error of another server (R95)
        return False
    if change.command is Command.DELETE:
        yield from _remove_site(server, site_id)
        return True
    psc_name = get_text(change.properties, Propid.S_PSC)
    if psc_name is None:
        return False
    partition = server.partitions.get(site_id)
    if partition is not None and partition.record.owned:
        yield from _check_owner(server, partition, psc_name)
    if partition is None or partition.record.owned:
        return True
    mine = site_id == server.settings.site_id
    if not server.is_me(psc_name):
        yield from _follow_psc(server, partition, psc_name)
    elif mine and server.settings.role is not Role.BSC and not server.is_demoted:
        # our name was wrong before: as for a new site (decision R43)
        yield from server.save(
            partition, authority_name=server.partitions[PEC_PARTITION_ID].record.authority_name
        )
        sync_requests.send(server, partition)
    return True


def _check_owner(server: ReplicaState, site: Partition, psc_name: str) -> Job[None]:
    """Handle the PSC named for our own site (decision R39).

    The enterprise confirms us, or we were replaced.
    """
    predecessor = site.record.predecessor
    if predecessor and server.is_me(psc_name):
        yield from server.save(site, predecessor="")
    elif key_of(psc_name) in site.claimants and key_of(psc_name) != key_of(predecessor):
        yield from succession.step_down(server, site, psc_name)


def _remove_site(server: ReplicaState, site_id: Guid) -> Job[None]:
    """Remove a deleted site's partition, on every server (decision R37)."""
    gone = server.partitions.pop(site_id, None)
    if gone is not None:
        server.stop_timer(sync_requests.timer_of(gone))
        yield from perform(ops.RemovePartition(partition_id=site_id), ops.Done)
    if site_id == server.settings.site_id:
        server.has_machine = False
        server.note("our site was removed from the enterprise")


def _follow_enterprise_change(
    server: ReplicaState, partition: Partition, change: DirectoryChange
) -> Job[bool]:
    """Handle Enterprise Update (3.1.7.2.10)."""
    pec_name = get_text(change.properties, Propid.E_PECNAME)
    if not pec_name or partition.record.owned:
        return False
    yield from follow_pec(server, pec_name)
    yield from succession.become_authority_if_named(server, partition)
    return True


def follow_pec(server: ReplicaState, pec_name: str) -> Job[None]:
    """Record another PEC (decisions R43, R89).

    A new PSC asks this PEC about its site, too.
    """
    enterprise = server.partitions[PEC_PARTITION_ID]
    site = server.partitions.get(server.settings.site_id)
    adopts = site is not None and succession.is_adopting(server, site)
    if not server.is_me(pec_name) and key_of(pec_name) != key_of(enterprise.record.authority_name):
        if site is not None and adopts:  # an empty name marks the next step as missing
            yield from server.save(site, authority_name="")
        yield from server.save(enterprise, authority_name=pec_name)
    if site is not None and adopts and not site.record.authority_name:
        yield from server.save(site, authority_name=enterprise.record.authority_name)


def _follow_machine_change(server: ReplicaState, partition: Partition, change: DirectoryChange) -> Job[bool]:
    """Handle Machine Update (3.1.7.2.12).

    A change of the site's owner is handled as well (decision R38).

    Returns:
        True if neighbours have to be derived from the objects again.
    """
    mine = partition.id == server.settings.site_id
    identifier = change.guid_identifier or get_guid(change.properties, Propid.QM_MACHINE_ID)
    if change.command is Command.DELETE:
        if mine and identifier is not None:
            yield from _remove_machine(server, identifier)
        return False
    role = get_roles(change.properties)
    if mine and identifier == server.settings.machine_id:
        server.has_machine = True
    if role is None:
        return False
    name = get_text(change.properties, Propid.QM_PATHNAME) or change.path_name
    if identifier is None or name is None:
        machine = yield from read_object(
            ObjectType.MACHINE, identifier=identifier, path_name=change.path_name, partition_id=partition.id
        )
        identifier, name = machine.identifier, get_text(machine.properties or (), Propid.QM_PATHNAME)
    if identifier is None or not name:
        return False
    followed = yield from _record_authority(server, partition, identifier, name, role)
    if mine and identifier != server.settings.machine_id:
        yield from _update_bsc(server, partition, identifier, name, role)
    return followed


def _record_authority(
    server: ReplicaState, partition: Partition, identifier: Guid, name: str, role: Service
) -> Job[bool]:
    """Record the authority of another owner's partition that a machine's role names."""
    mine = partition.id == server.settings.site_id
    if partition.record.owned or (not mine and identifier == server.settings.machine_id):
        return False
    if not mine and not partition.record.authority_name:
        return False  # the site's object names nobody (decision R186)
    if identifier == server.settings.machine_id:
        if role & CONTROLLER:
            yield from succession.become_authority_if_named(server, partition)
        elif role & Service.BSC:
            succession.become_bsc(server, partition)
        return False
    old_names = {key_of(partition.record.authority_name)}
    if mine and server.is_bsc:
        old_names.add(key_of(server.psc_name))  # set by an administrator, and outdated
    if not role & CONTROLLER or old_names == {key_of(name)}:
        return False
    if (yield from _is_name_taken(server, partition, name)):
        server.note("dropped: an authority with another one's name", f"{name}, partition {partition.id}")
        return False
    was_pec = key_of(server.partitions[PEC_PARTITION_ID].record.authority_name) in old_names
    is_renamed_pec = was_pec and (yield from _is_pec_renamed(server, partition))
    if is_renamed_pec:  # first, or a crash would hide that the site's authority is the PEC (decision R172)
        yield from follow_pec(server, name)
    yield from succession.follow_authority(server, partition, name)
    return True


def _is_pec_renamed(server: ReplicaState, site: Partition) -> Job[bool]:
    """Return True if the PEC has another name (decision R171).

    The PSC of the PEC's site has that name now.

    A PEC cannot hand its site over. If the old name is still that of a machine, another server became the
    PEC before, unknown to us. A new copy of the site may lack that machine.
    """
    enterprise = server.partitions[PEC_PARTITION_ID].record
    if enterprise.owned or site.record.is_new:
        return False
    machine = yield from read_object(
        ObjectType.MACHINE, path_name=enterprise.authority_name, partition_id=site.id
    )
    return machine.identifier is None


def _is_name_taken(server: ReplicaState, partition: Partition, name: str) -> Job[bool]:
    """Return True if a successor's name is that of another site's server.

    The successor could send in that server's name.

    If two sites have a machine of that name, the enterprise names the PSC (decision R142).
    """
    own_ids = {PEC_PARTITION_ID, partition.id}
    site = server.partitions.get(server.settings.site_id)
    if site is not None and succession.is_adopting(server, site):
        own_ids.add(site.id)  # its authority's name is the PEC's until we own it (decision R43)
    others = [other for other in server.partitions.values() if other.id not in own_ids]
    if key_of(name) in {key_of(other.record.authority_name) for other in others}:
        return True
    for other in others:
        machine = yield from read_object(ObjectType.MACHINE, path_name=name, partition_id=other.id)
        if has_role(machine.properties or (), CONTROLLER | Service.BSC):
            return True
    return False


def _update_bsc(
    server: ReplicaState, partition: Partition, identifier: Guid, name: str, role: Service
) -> Job[None]:
    """Add or remove a BSC of our site after a change of its machine's role."""
    if server.site is None and not server.is_retiring:
        return
    if role & (Service.BSC | CONTROLLER):
        for key in [key for key, bsc in server.bscs.items() if bsc.machine_id == identifier]:
            if key != key_of(name):  # the machine was renamed
                yield from _remove_neighbor(server, server.bscs, key)
        if key_of(name) not in server.bscs:
            record = DirectoryNeighbor(partition_id=partition.id, machine_name=name, is_bsc=True)
            yield from _add_neighbor(server, server.bscs, Neighbor(record, machine_id=identifier))
    else:
        yield from _remove_machine(server, identifier)


def _remove_machine(server: ReplicaState, identifier: Guid) -> Job[None]:
    if identifier == server.settings.machine_id:
        server.has_machine = False
    for key in [key for key, bsc in server.bscs.items() if bsc.machine_id == identifier]:
        yield from _remove_neighbor(server, server.bscs, key)
