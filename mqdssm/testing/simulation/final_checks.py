"""Checks after the end of all faults ([MC-MQDSRP] 1.3.1.2).

Each replica is a true copy.
"""

import gc
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, GeneratorType, ModuleType
from typing import Final

from mqdssm.engines.replication.operations import ListObjects, ObjectsListed
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import MIN
from mqdssm.testing.simulation.ledger import CONTROLLER, IDENTIFIERS, PartitionLedger
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.step_checks import compare
from mqdssm.testing.simulation.stores import changes_of
from mqdssm.testing.simulation.world import World

_IDENTIFYING: Final = frozenset(IDENTIFIERS.values())


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """Contents of a partition in a store: objects and deletions, by identifier."""

    objects: Mapping[Guid, DirectoryChange]
    deletions: Mapping[Guid, int]

    @property
    def highest(self) -> int:
        """Highest sequence number in the copy."""
        numbers = [int(stored_object.seq_number) for stored_object in self.objects.values()]
        return max([*numbers, *self.deletions.values()], default=0)


def copy_of(server: SimulatedServer, partition_id: Guid) -> PartitionCopy:
    """Read all objects and deletions of a partition from a server's store."""
    objects: dict[Guid, DirectoryChange] = {}
    deletions: dict[Guid, int] = {}
    for change in changes_of(server.store, partition_id):
        if change.guid_identifier is None:
            continue
        if change.command is Command.DELETE:
            deletions[change.guid_identifier] = int(change.seq_number)
        else:
            objects[change.guid_identifier] = change
    return PartitionCopy(objects, deletions)


def ghosts_of(server: SimulatedServer, partition_id: Guid) -> list[Guid]:
    """Return objects that a full synchronization marked but did not remove.

    See [MC-MQDSRP] 3.3.7.11.
    """
    ghosts: list[Guid] = []
    for object_type in IDENTIFIERS:
        listed = server.store.look(ListObjects(object_type=object_type, partition_id=partition_id))
        objects = listed.objects if isinstance(listed, ObjectsListed) else ()
        ghosts.extend(
            stored_object.identifier
            for stored_object in objects
            if stored_object.identifier and stored_object.seq_number == MIN
        )
    return ghosts


def list_members(world: World) -> list[SimulatedServer]:
    """Return the servers of the enterprise: servers in its sites that have a role."""
    return [server for server in world.servers if not server.retired and is_member(world, server)]


def is_member(world: World, server: SimulatedServer) -> bool:
    """Return True if a server's site and machine belong to the enterprise."""
    site = world.ledger.partitions.get(server.settings.site_id)
    if site is None or site.dead or world.is_foul(server):
        return False
    machine = site.latest.get(server.settings.machine_id)
    if machine is None or machine.content is None:
        return False
    service = machine.content.get(Propid.QM_SERVICE)
    return isinstance(service, int) and bool(service & (CONTROLLER | Service.BSC))


def find_difference(world: World) -> str:
    """Return the first difference from a consistent enterprise; empty: there is none."""
    servers = list_members(world)
    for server in servers:
        if not server.is_up:
            return f"{server.name} is down"
        if server.is_starting:
            return f"{server.name} waits to repeat its start"
    partitions = [
        partition
        for partition in world.ledger.partitions.values()
        if not (partition.dead or partition.foul)
        and (partition.latest or partition.partition_id == PEC_PARTITION_ID)
    ]
    removed = _find_removed_site(world, servers)
    if removed:
        return removed
    for differs in (_find_state_difference, _compare_contents):  # reading all objects comes last
        for partition in partitions:
            difference = differs(partition, servers)
            if difference:
                return f"partition {partition.partition_id}: {difference}"
    return _compare_neighbors(world, servers)


def _find_removed_site(world: World, servers: list[SimulatedServer]) -> str:
    """Return a removed site that a server still has (decision R189).

    The server's own site is another one. Empty if there is none.
    """
    enterprise = world.ledger.partitions[PEC_PARTITION_ID]
    sites = {entry.identifier for entry in enterprise.live(ObjectType.SITE)}
    for partition in world.ledger.partitions.values():
        if not partition.dead or partition.foul or partition.partition_id in sites:
            continue
        for server in servers:
            if partition.partition_id in server.persisted:
                return f"{server.name} has the removed site {partition.partition_id}"
    return ""


def _find_state_difference(partition: PartitionLedger, servers: list[SimulatedServer]) -> str:
    """Return a difference in a partition's numbers or authority.

    Empty if there is none.
    """
    partition_id = partition.partition_id
    owners = [server for server in servers if server.owns(partition_id)]
    if len(owners) != 1:
        return f"its authorities are {[owner.name for owner in owners]}"
    owner = owners[0]
    if owner.index != partition.giver and partition.last and not partition.loose:
        last = partition.entries[partition.last]
        if last.identifier != owner.settings.machine_id and partition_id != PEC_PARTITION_ID:
            return f"{owner.name} is its authority, but server {partition.giver} gave its numbers"
    return _find_server_behind(partition, owner, servers)


def _compare_contents(partition: PartitionLedger, servers: list[SimulatedServer]) -> str:
    """Return a difference in the objects of a partition.

    The partition has one authority. Empty if there is no difference.
    """
    partition_id = partition.partition_id
    owner = next(server for server in servers if server.owns(partition_id))
    for server in servers:
        ghosts = ghosts_of(server, partition_id)
        if ghosts:
            return f"{server.name} has {ghosts[0]} without a number"
    truth = copy_of(owner, partition_id)
    differs = _find_broken_promise if partition.loose else _compare_with_ledger
    difference = differs(partition, truth)
    if difference:
        return f"its authority {owner.name} {difference}"
    for server in servers:
        if server is not owner:
            difference = _copy_differs(
                truth, copy_of(server, partition_id), int(server.persisted[partition_id].purged)
            )
            if difference:
                return f"{server.name} {difference} (authority: {owner.name})"
    return ""


def _find_server_behind(
    partition: PartitionLedger, owner: SimulatedServer, servers: list[SimulatedServer]
) -> str:
    last = partition.last if not partition.loose else copy_of(owner, partition.partition_id).highest
    # a replica below the purged number needs a full synchronization (decision R39)
    last = max(last, int(owner.persisted[partition.partition_id].purged))
    for server in servers:
        saved = server.persisted.get(partition.partition_id)
        if saved is None:
            return f"{server.name} does not know it"
        if saved.purge_state is not PurgeState.NORMAL:
            return f"{server.name} is in {saved.purge_state.name}"
        if server is not owner and saved.last < last:
            return f"{server.name} is at {saved.last}, {owner.name} at {last}"
    return ""


def _compare_with_ledger(partition: PartitionLedger, copy: PartitionCopy) -> str:
    live = {entry.identifier: entry for entry in partition.live()}
    if live.keys() != copy.objects.keys():
        lacking = [str(live[identifier]) for identifier in live.keys() - copy.objects.keys()]
        extra = [str(identifier) for identifier in copy.objects.keys() - live.keys()]
        return f"lacks {lacking}, has besides {extra}"
    for identifier, entry in live.items():
        change = copy.objects[identifier]
        if change.seq_number != entry.number:
            return f"has {entry} with {change.seq_number}"
        difference = compare(entry, change.properties)
        if difference:
            return f"has {entry}: {difference}"
    return ""


def _find_broken_promise(partition: PartitionLedger, copy: PartitionCopy) -> str:
    """Return a loss in a partition whose authority was lost (decision R70).

    The lost objects are some that its successor had.
    """
    for identifier, entry in partition.vowed.items():
        change = copy.objects.get(identifier)
        if entry.content is None:
            if change is not None:
                return f"has {_name_object(change)} again, which was deleted: {entry.number} {entry}"
        elif change is None:
            return f"lost {entry.number} {entry}"
        elif compare(entry, change.properties):
            return f"has {entry}: {compare(entry, change.properties)}"
    return ""


def _copy_differs(truth: PartitionCopy, copy: PartitionCopy, purged: int) -> str:
    for identifier, meant in truth.objects.items():
        actual = copy.objects.get(identifier)
        if actual is None:
            return f"lacks {meant.seq_number}, {_name_object(meant)}"
        if actual.seq_number != meant.seq_number or (
            actual.properties != meant.properties and _select_content(actual) != _select_content(meant)
        ):
            return (
                f"has {_name_object(actual)} of {actual.seq_number}: {actual.properties}; {meant.properties}"
            )
    extra = [identifier for identifier in copy.objects if identifier not in truth.objects]
    if extra:
        return f"has {_name_object(copy.objects[extra[0]])}, which is not there"
    for identifier, number in truth.deletions.items():
        if number > purged and copy.deletions.get(identifier) != number:
            return f"lacks the deletion {number} of {identifier}"
    alive = [identifier for identifier in copy.deletions if identifier in truth.objects]
    return f"has a tombstone of {alive[0]}, which is there" if alive else ""


def _select_content(change: DirectoryChange) -> Mapping[Propid, object]:
    return {propid: value for propid, value in change.properties if propid not in _IDENTIFYING}


def _name_object(change: DirectoryChange) -> str:
    kind = change.object_type
    return f"{kind.name if kind else 'object'} {change.guid_identifier}"


def _compare_neighbors(world: World, servers: list[SimulatedServer]) -> str:
    """Return a difference in neighbours (decision R36).

    Neighbours are the other primary controllers and the own backup controllers.
    """
    owners = {other.settings.site_id: other for other in servers if other.owns(other.settings.site_id)}
    for site_id, server in owners.items():
        pscs = {owner.name.casefold() for owner in owners.values() if owner is not server}
        bscs = {
            other.name.casefold()
            for other in servers
            if other.settings.site_id == site_id and other is not server
        }
        known_pscs, known_bscs = _neighbors_of(world, server, pscs | bscs)
        if known_pscs != pscs:
            return f"{server.name} has the PSC neighbours {sorted(known_pscs)}, not {sorted(pscs)}"
        if known_bscs != bscs:
            return f"{server.name} has the BSC neighbours {sorted(known_bscs)}, not {sorted(bscs)}"
    return _check_sites(world, owners)


def _neighbors_of(world: World, server: SimulatedServer, expected: set[str]) -> tuple[set[str], set[str]]:
    """Return the names of a server's PSC and BSC neighbours, without a hostile one."""
    names: tuple[set[str], set[str]] = (set(), set())
    for (is_bsc, name), neighbor in server.neighbors.items():
        if name in expected or not world.is_foul_neighbor(neighbor):
            names[is_bsc].add(name)
    return names


def _check_sites(world: World, owners: Mapping[Guid, SimulatedServer]) -> str:
    """Return a site or enterprise object that does not name its authority.

    Empty if there is none.
    """
    enterprise = world.ledger.partitions[PEC_PARTITION_ID]
    for entry in enterprise.live(ObjectType.SITE):
        owner = owners.get(entry.identifier)
        psc_name = _read_text((entry.content or {}).get(Propid.S_PSC))
        if owner is not None and psc_name.casefold() != owner.name.casefold():
            return f"{entry} has the PSC {psc_name}, but its authority is {owner.name}"
    pecs = [server for server in world.servers if not server.retired and server.owns(PEC_PARTITION_ID)]
    for entry in enterprise.live(ObjectType.ENTERPRISE):
        pec_name = _read_text((entry.content or {}).get(Propid.E_PECNAME))
        if pecs and pec_name.casefold() != pecs[0].name.casefold():
            return f"the enterprise has the PEC {pec_name}, but its authority is {pecs[0].name}"
    return ""


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


__all__ = ["PartitionCopy", "Properties", "copy_of", "find_difference", "is_member", "list_members"]


CONTAINER_MAX: Final = 1_000
"""More than any collection of an engine needs after a run of some hundred changes."""
_OUTSIDE: Final = (type, ModuleType, FunctionType, GeneratorType)


def measure_largest(engine: object) -> int:
    """Return the size of the largest collection that can be reached from an engine."""
    size = 0
    seen = {id(engine)}
    waiting = [engine]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list | set | tuple | deque):
            size = max(size, len(item))
        for other in gc.get_referents(item):
            if id(other) not in seen and not isinstance(other, _OUTSIDE):
                seen.add(id(other))
                waiting.append(other)
    return size
