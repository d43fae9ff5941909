"""Comparison of replicas by object and by number ([MC-MQDSRP] 3.1.1.2).

Directories are read while their servers keep working. A change that a replica has not applied yet is lag, not
a difference: its number is above the last number of that replica. Objects that differ are read a second time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from mqdssm.directory.filters import Equal
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError, MappingError
from mqdssm.events.references import split_into_batches
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import DirectoryPartition, PurgeState
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store.ldap.directory_owner import read_owner
from mqdssm.store.ldap.foreign_changes import UNNUMBERED
from mqdssm.store.ldap.places import DirectoryPlaces
from mqdssm.store.ldap.ranges import NumberSearches, change_of
from mqdssm.store.ldap.state import StateKeeper
from mqdssm.store.ldap.stored_entry import StoredEntry, select_readable
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.tables.numbering import PARTITION
from mqdssm.tables.properties import NAME

READ_AGAIN_TOGETHER: Final = 1000
"""Number of objects that are read a second time together, and so kept in memory with their properties."""
_DIGEST_BYTES: Final = 16


class DifferenceKind(StrEnum):
    """Kinds of differences.

    MISSING: a replica lacks an object or a tombstone although its last number covers it.
    NUMBER: two replicas have different numbers for an object, and the lower one should have been updated.
    CONTENT: two replicas have other properties under one number.
    UNKNOWN: the owner of the partition does not know a number that a replica has.
    UNNUMBERED: another program created an object, which has no number.
    DAMAGED: an entry of a replica cannot be read.
    """

    MISSING = "missing"
    NUMBER = "number"
    CONTENT = "content"
    UNKNOWN = "unknown"
    UNNUMBERED = "unnumbered"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDifference:
    """Difference between two replicas, or an error in one.

    Attributes:
        kind: kind of the difference.
        replicas: machine names of the servers; the one with the higher number comes first.
        numbers: number of the object in each; None if it does not exist there.
        partition_id: its partition; None if the object has no number.
        object_type: its type; DELETED_OBJECT if the first replica has a tombstone.
        identifier: its GUID.
        name: its path name or distinguished name.
        properties: names of the properties that differ, for CONTENT.
    """

    kind: DifferenceKind
    replicas: tuple[str, ...]
    numbers: tuple[SequenceNumber | None, ...] = ()
    partition_id: Guid | None = None
    object_type: ObjectType | None = None
    identifier: Guid | None = None
    name: str = ""
    properties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Version:
    """State of an object in one replica."""

    number: SequenceNumber
    object_type: ObjectType
    digest: bytes

    @property
    def is_deleted(self) -> bool:
        return self.object_type is ObjectType.DELETED_OBJECT


@dataclass(frozen=True, slots=True)
class _Counted:
    """Objects of a partition, and those that a replica has not received yet."""

    objects: set[Guid] = field(default_factory=set)
    lagging: set[Guid] = field(default_factory=set)


class Replica:
    """The directory of a replicating server, for reading only.

    Args:
        session: a session with the directory; it may be read-only.

    Raises:
        ConfigError: the directory has no replicating server as its owner.
        DirectoryError: the directory cannot be read.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._places = DirectoryPlaces(session)
        self._reader = StoreSearches(session, self._places)
        owner = read_owner(session, self._places)
        if owner is None:
            raise ConfigError(f"{session.server_url} holds the directory of no replicating server")
        self.machine_id, self.name = owner.machine_id, owner.machine_name

    def read_partitions(self) -> dict[Guid, DirectoryPartition]:
        """Return the state of all partitions.

        The state of an owned partition has the highest number in the directory.
        """
        keeper = StateKeeper(self._session, self._places)
        states = {partition.partition_id: partition for partition in keeper.load().partitions}
        ranges = NumberSearches(self._session, self._reader)
        for identifier, state in states.items():
            if state.owned:
                highest, _ = ranges.find_highest(identifier, keeper.read_ceiling(identifier))
                states[identifier] = replace(state, last=max(state.last, highest))
        return states

    def read_objects(self, partition: Guid) -> Iterator[StoredEntry]:
        """Yield objects and tombstones of a partition; damaged entries are logged."""
        yield from select_readable(self._reader.find(Equal(PARTITION, bytes(partition))))

    def objects_of(self, partition: Guid, identifiers: Iterable[Guid]) -> Iterator[StoredEntry]:
        """Yield some objects and tombstones of a partition."""
        for stored_entry in self._reader.find_objects(identifiers):
            if stored_entry.numbers is not None and stored_entry.numbers.partition == partition:
                yield stored_entry

    def find_unnumbered(self) -> Iterator[StoredEntry]:
        """Yield objects that another program created: they have a GUID and no number."""
        yield from select_readable(self._reader.find(UNNUMBERED))


class ReplicaComparison:
    """Comparison of replicas with the first one.

    Args:
        replicas: at least two, of different servers.

    Attributes:
        objects: number of objects and tombstones that were compared, each counted once.
        lag: number of objects and tombstones that one replica or more have not received yet.

    Raises:
        ConfigError: a server is named twice, or there are fewer than two.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        if len(replicas) < 2:
            raise ConfigError("there is nothing to compare: name two or more replicas")
        if len({replica.machine_id for replica in replicas}) < len(replicas):
            names = ", ".join(replica.name for replica in replicas)
            raise ConfigError(f"each replica is to be named once: {names}")
        self._replicas = replicas
        self.objects = 0
        self.lag = 0

    def find_differences(self) -> Iterator[ReplicaDifference]:
        """Yield all differences.

        Raises:
            DirectoryError: a directory cannot be read.
        """
        first, *other_replicas = self._replicas
        partitions = {identifier for replica in self._replicas for identifier in replica.read_partitions()}
        for partition in sorted(partitions):
            counted = _Counted()
            for other in other_replicas:
                yield from self._compare_partition(first, other, partition, counted)
            self.objects += len(counted.objects)
            self.lag += len(counted.lagging)
        for replica in self._replicas:
            for stored_entry in replica.find_unnumbered():
                yield ReplicaDifference(
                    kind=DifferenceKind.UNNUMBERED,
                    replicas=(replica.name,),
                    object_type=stored_entry.type,
                    identifier=stored_entry.identifier,
                    name=stored_entry.dn,
                )

    def _compare_partition(
        self, a: Replica, b: Replica, partition: Guid, counted: _Counted
    ) -> Iterator[ReplicaDifference]:
        # before the objects: a replica has all numbers up to its last one
        states = _look_up_states(a, b, partition)
        versions: list[dict[Guid, _Version]] = []
        for replica in (a, b):
            by_guid: dict[Guid, _Version] = {}
            for stored_entry in replica.read_objects(partition):
                try:
                    _note_version(by_guid, stored_entry)
                except MappingError:
                    yield _describe_damaged(replica, partition, stored_entry)
            versions.append(by_guid)
        keys = versions[0].keys() | versions[1].keys()
        counted.objects.update(keys)
        suspects = []
        for key in sorted(keys):
            verdict = _judge((versions[0].get(key), versions[1].get(key)), states)
            if verdict is _LAG:
                counted.lagging.add(key)
            elif verdict is not None:
                suspects.append(key)
        for some in split_into_batches(suspects, READ_AGAIN_TOGETHER):
            yield from self._read_again((a, b), partition, some, counted)

    def _read_again(
        self, pair: tuple[Replica, Replica], partition: Guid, keys: Sequence[Guid], counted: _Counted
    ) -> Iterator[ReplicaDifference]:
        """Read objects that differ a second time, as servers keep working meanwhile."""
        a, b = pair
        states = _look_up_states(a, b, partition)
        entries: list[dict[Guid, StoredEntry]] = []
        for replica in (a, b):
            newest: dict[Guid, StoredEntry] = {}
            for stored_entry in replica.objects_of(partition, keys):
                if stored_entry.identifier is not None:
                    newest[stored_entry.identifier] = max(
                        stored_entry,
                        newest.get(stored_entry.identifier, stored_entry),
                        key=lambda entry: entry.age,
                    )
            entries.append(newest)
        for key in keys:
            stored = (entries[0].get(key), entries[1].get(key))
            versions = (_make_version(stored[0]), _make_version(stored[1]))
            verdict = _judge(versions, states)
            if verdict is _LAG:
                counted.lagging.add(key)
            elif verdict is not None:
                yield _build_difference(verdict, (a.name, b.name), stored, partition)


_LAG: Final = "lag"


def _look_up_states(a: Replica, b: Replica, partition: Guid) -> tuple[DirectoryPartition, DirectoryPartition]:
    nothing = DirectoryPartition(partition_id=partition, authority_name="")
    return a.read_partitions().get(partition, nothing), b.read_partitions().get(partition, nothing)


def _make_version(stored_entry: StoredEntry | None) -> _Version | None:
    if stored_entry is None or stored_entry.numbers is None:
        return None
    change, _ = change_of(stored_entry, MIN)
    content = repr((change.command, sorted(change.properties))).encode()
    digest = blake2b(content, digest_size=_DIGEST_BYTES).digest()
    return _Version(stored_entry.numbers.number, stored_entry.type or ObjectType.DELETED_OBJECT, digest)


def _note_version(by_guid: dict[Guid, _Version], stored_entry: StoredEntry) -> None:
    version = _make_version(stored_entry)
    if version is None or stored_entry.identifier is None:
        raise MappingError(f"{stored_entry.dn} has no number or no GUID")
    old_version = by_guid.get(stored_entry.identifier)
    if (
        old_version is None or old_version.number < version.number
    ):  # the newer one of an object and its tombstone counts
        by_guid[stored_entry.identifier] = version


def _judge(
    versions: tuple[_Version | None, _Version | None],
    states: tuple[DirectoryPartition, DirectoryPartition],
) -> str | None:
    """Return the kind of a difference, `_LAG`, or None if there is none."""
    a, b = versions
    if a == b:
        return None
    if any(state.purge_state is not PurgeState.NORMAL for state in states):
        return _LAG  # a full synchronization is under way
    if a is not None and b is not None and a.number == b.number:
        return DifferenceKind.CONTENT
    is_first = b is None or (a is not None and a.number > b.number)
    newer, older = (a, b) if is_first else (b, a)
    ahead, behind = states if is_first else (states[1], states[0])
    if newer is None:
        return None
    if older is None and newer.is_deleted and newer.number <= behind.purged:
        return None
    if newer.number > behind.last:
        return DifferenceKind.UNKNOWN if behind.owned else _LAG
    if older is None and behind.purged > ahead.last:
        return _LAG  # the deletion is purged already, and the other replica has to synchronize in full
    return DifferenceKind.MISSING if older is None else DifferenceKind.NUMBER


def _describe_damaged(replica: Replica, partition: Guid, stored_entry: StoredEntry) -> ReplicaDifference:
    return ReplicaDifference(
        kind=DifferenceKind.DAMAGED,
        replicas=(replica.name,),
        partition_id=partition,
        object_type=stored_entry.type,
        identifier=stored_entry.identifier,
        name=stored_entry.dn,
    )


def _build_difference(
    kind: str, names: tuple[str, str], pair: tuple[StoredEntry | None, StoredEntry | None], partition: Guid
) -> ReplicaDifference:
    numbers = tuple(
        None if entry is None or entry.numbers is None else entry.numbers.number for entry in pair
    )
    if (numbers[1] or MIN) > (numbers[0] or MIN) or numbers[0] is None:
        names, pair, numbers = (names[1], names[0]), (pair[1], pair[0]), (numbers[1], numbers[0])
    stored_entry = pair[0] or pair[1]
    return ReplicaDifference(
        kind=DifferenceKind(kind),
        replicas=names,
        numbers=numbers,
        partition_id=partition,
        object_type=None if stored_entry is None else stored_entry.type,
        identifier=None if stored_entry is None else stored_entry.identifier,
        name="" if stored_entry is None else _decode_name(stored_entry),
        properties=_compare_properties(pair) if kind == DifferenceKind.CONTENT else (),
    )


def _decode_name(stored_entry: StoredEntry) -> str:
    raws = stored_entry.entry.get(NAME, ())
    return raws[0].decode(errors="replace") if raws else stored_entry.dn


def _compare_properties(pair: tuple[StoredEntry | None, StoredEntry | None]) -> tuple[str, ...]:
    if pair[0] is None or pair[1] is None:
        return ()
    a, b = (
        dict(change_of(stored_entry, MIN)[0].properties) for stored_entry in pair if stored_entry is not None
    )
    return tuple(name.name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name))
