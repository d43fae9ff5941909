"""Persisted state of partitions and neighbours.

See [MC-MQDSRP] 3.1.1.2.3 and 3.1.1.2.4.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import TRUE, Equal, Present, all_of
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.requests import SearchScope, make_entry
from mqdssm.directory.session import Session
from mqdssm.engines.replication.operations import PersistedState
from mqdssm.errors import MappingError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.replication import DirectoryNeighbor, DirectoryPartition, PurgeState, Service
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store.ldap.places import CONTAINERS, DirectoryPlaces, decode_name, encode_name
from mqdssm.tables.numbering import compute_ceiling, number_of, number_value
from mqdssm.tables.syntax import BOOLEAN

Values = dict[str, tuple[bytes, ...]]
_PARTITION_CLASS: Final = "mqisPartition"
_NEIGHBOR_CLASS: Final = "mqisNeighbor"
_ID: Final = "mqisStatePartitionID"
_CEILING: Final = "mqisCeiling"
_SAVED: Final = "mqisPurgeState"  # in every saved state, but not in an entry that only has a ceiling
_MILLISECONDS: Final = 1000


class StateKeeper:
    """Reader and writer of the partitions and neighbours of one directory."""

    def __init__(self, session: Session, places: DirectoryPlaces) -> None:
        self._session = session
        self._places = places
        self._ceilings: dict[Guid, int] = {}

    def prepare(self) -> None:
        """Add the missing containers.

        Raises:
            DirectoryError: a container cannot be added.
        """
        for dn in (self._places.state, *(self._places.state.child("CN", name) for name in CONTAINERS)):
            self._add(dn, make_entry(("container",), {}))

    def _add(self, dn: DN, values: Values) -> bool:
        """Add an entry; return False if it exists already."""
        try:
            self._session.add(dn, values)
        except ObjectAlreadyExists:
            return False
        return True

    # -- all state

    def load(self) -> PersistedState:
        """Read all persisted state.

        Raises:
            DirectoryError: the state cannot be read.
            MappingError: the state is damaged.
        """
        of_partition = all_of(Equal("objectClass", _PARTITION_CLASS.encode()), Present(_SAVED))
        of_neighbor = Equal("objectClass", _NEIGHBOR_CLASS.encode())
        find = self._session.find
        return PersistedState(
            partitions=tuple(
                _decode_partition(entry)
                for entry in find(self._places.partitions, of_partition, ["*"], SearchScope.ONE_LEVEL)
            ),
            neighbors=tuple(
                _decode_neighbor(entry)
                for entry in find(self._places.neighbors, of_neighbor, ["*"], SearchScope.ONE_LEVEL)
            ),
        )

    def read_partition(self, partition: Guid) -> DirectoryPartition | None:
        """Return the state of one partition; None if it was never saved."""
        entry = self._read_entry(partition)
        return None if entry is None or entry.first(_SAVED) is None else _decode_partition(entry)

    def _read_entry(self, partition: Guid) -> Entry | None:
        try:
            return self._session.get(self._places.place_partition(partition), ["*"])
        except ObjectNotFound:
            return None

    # -- partitions

    def save_partition(self, state: DirectoryPartition) -> None:
        """Persist a partition's state."""
        values: Values = {
            "mqisAuthorityName": _encode_names(state.authority_name),
            "mqisOwned": (BOOLEAN.dump(state.owned),),
            "mqisLastSeqNumber": (number_value(state.last),),
            "mqisPurgedSeqNumber": (number_value(state.purged),),
            "mqisAllowedPurgeSeqNumber": (number_value(state.allowed_purge),),
            "mqisPurgeState": (b"%d" % state.purge_state,),
            "mqisPredecessor": _encode_names(state.predecessor),
            "mqisIsNew": (_YES,) if state.is_new else (),
            "mqisFollowedSeqNumber": (number_value(state.followed),) if state.followed else (),
            "mqisSyncSource": _encode_names(state.first_source),
            "mqisFormerSeqNumber": (number_value(state.had_before),) if state.had_before else (),
        }
        self._write(
            self._places.place_partition(state.partition_id), _PARTITION_CLASS, values, state.partition_id
        )

    def _write(self, dn: DN, ldap_class: str, values: Values, partition: Guid) -> None:
        """Replace the attributes of an entry, or add the entry."""
        try:
            self._session.modify(dn, values)
        except ObjectNotFound:
            attributes = {name: raws for name, raws in values.items() if raws}
            if not self._add(dn, make_entry((ldap_class,), {_ID: (bytes(partition),), **attributes})):
                self._session.modify(dn, values)

    def remove_partition(self, partition: Guid) -> None:
        """Remove a partition's state and its tombstones."""
        dn = self._places.place_partition(partition)
        self._ceilings.pop(partition, None)
        try:
            tombstones = self._session.find(dn, TRUE, ["1.1"], SearchScope.ONE_LEVEL)
            delete_all(self._session, (tombstone.dn for tombstone in tombstones))
            self._session.delete(dn)
        except ObjectNotFound:
            pass

    # -- ceilings

    def read_ceiling(self, partition: Guid) -> int | None:
        """Return the upper limit of all written numbers of a partition.

        None if it is not known.
        """
        ceiling = self._ceilings.get(partition)
        if ceiling is None:
            entry = self._read_entry(partition)
            raw = None if entry is None else entry.first(_CEILING)
            if raw is None:
                return None
            ceiling = self._ceilings[partition] = number_of(raw)
        return ceiling

    def raise_ceiling(self, partition: Guid, number: SequenceNumber, highest: SequenceNumber) -> None:
        """Raise the ceiling before numbers are written.

        One write is enough for `CEILING_STEP` numbers.

        Args:
            partition: the partition.
            number: the highest number that will be written.
            highest: the highest number that may exist if there is no ceiling.
        """
        ceiling = self.read_ceiling(partition)
        if ceiling is not None and ceiling >= number:
            return
        value = max(compute_ceiling(number), highest)
        values: Values = {_CEILING: (number_value(value),)}
        self._write(self._places.place_partition(partition), _PARTITION_CLASS, values, partition)
        self._ceilings[partition] = value

    # -- neighbours

    def save_neighbor(self, neighbor: DirectoryNeighbor) -> None:
        """Persist a neighbour."""
        dn = self._places.place_neighbor(neighbor.machine_name, is_bsc=neighbor.is_bsc)
        milliseconds = round(neighbor.last_acked_time * _MILLISECONDS)
        values: Values = {
            "mqisMachineName": _encode_names(neighbor.machine_name),
            _ID: (bytes(neighbor.partition_id),),
            "mqisServerRole": (b"%d" % (Service.BSC if neighbor.is_bsc else Service.PSC),),
            "mqisAckedSeqNumber": (number_value(neighbor.acked),),
            "mqisAckedPecSeqNumber": (number_value(neighbor.acked_pec),),
            "mqisLastAckedTime": (b"%d" % milliseconds,),
        }
        self._write(dn, _NEIGHBOR_CLASS, values, neighbor.partition_id)

    def remove_neighbor(self, machine_name: str, *, is_bsc: bool) -> None:
        """Remove a neighbour."""
        with suppress(ObjectNotFound):
            self._session.delete(self._places.place_neighbor(machine_name, is_bsc=is_bsc))


def delete_all(session: Session, dns: Iterator[str]) -> None:
    """Delete entries without entries below them, many at the same time."""
    items = (Item(row=0, action=Action.DELETE, dn=dn) for dn in dns)
    for request, result in session.loader.send(ChangeInFlight(item=item) for item in items):
        if result.code and result.code != _NO_SUCH_OBJECT:
            raise session.loader.error_of(result, "delete", request.item.dn)


_NO_SUCH_OBJECT: Final = 32
_YES: Final = BOOLEAN.dump(True)


def _encode_names(name: str) -> tuple[bytes, ...]:
    return (encode_name(name).encode(),) if name else ()


def _decode_name(entry: Entry, name: str) -> str:
    return decode_name((entry.first(name) or b"").decode())


def _decode_number(entry: Entry, name: str) -> SequenceNumber:
    raw = entry.first(name)
    return MIN if raw is None else number_of(raw)


def _decode_guid(entry: Entry, name: str) -> Guid:
    raw = entry.first(name) or b""
    if len(raw) != GUID_BYTES:
        raise MappingError(f"{entry.dn}: {name} is no GUID: {raw!r}")
    return Guid(raw)


def _decode_partition(entry: Entry) -> DirectoryPartition:
    try:
        return DirectoryPartition(
            partition_id=_decode_guid(entry, _ID),
            authority_name=_decode_name(entry, "mqisAuthorityName"),
            owned=entry.first("mqisOwned") == _YES,
            last=_decode_number(entry, "mqisLastSeqNumber"),
            purged=_decode_number(entry, "mqisPurgedSeqNumber"),
            allowed_purge=_decode_number(entry, "mqisAllowedPurgeSeqNumber"),
            purge_state=PurgeState(int(entry.first(_SAVED) or b"0")),
            predecessor=_decode_name(entry, "mqisPredecessor"),
            is_new=entry.first("mqisIsNew") == _YES,
            followed=_decode_number(entry, "mqisFollowedSeqNumber"),
            first_source=_decode_name(entry, "mqisSyncSource"),
            had_before=_decode_number(entry, "mqisFormerSeqNumber"),
        )
    except ValueError as error:
        raise MappingError(f"{entry.dn} holds no state of a partition: {error}") from None


def _decode_neighbor(entry: Entry) -> DirectoryNeighbor:
    try:
        return DirectoryNeighbor(
            partition_id=_decode_guid(entry, _ID),
            machine_name=_decode_name(entry, "mqisMachineName"),
            is_bsc=int(entry.first("mqisServerRole") or b"0") == Service.BSC,
            acked=_decode_number(entry, "mqisAckedSeqNumber"),
            acked_pec=_decode_number(entry, "mqisAckedPecSeqNumber"),
            last_acked_time=int(entry.first("mqisLastAckedTime") or b"0") / _MILLISECONDS,
        )
    except ValueError as error:
        raise MappingError(f"{entry.dn} holds no neighbour: {error}") from None
