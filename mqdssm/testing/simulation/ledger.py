"""Record of all changes by object authorities.

Replicas and answers are compared with it.

An entry is a sequence number that an authority assigned ([MC-MQDSRP] 2.2.2), with the object as it was then.
Entries come from the results of stores, not from the engines.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mqdssm.model.guid import Guid
from mqdssm.model.hresults import name_of
from mqdssm.model.messages import Command, Properties, PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.testing.simulation.trace import Violation

Content = Mapping[Propid, PropertyValue]
"""The replicated properties of an object, without its identifier."""

IDENTIFIERS: Final[Mapping[ObjectType, Propid]] = {
    ObjectType.QUEUE: Propid.Q_INSTANCE,
    ObjectType.MACHINE: Propid.QM_MACHINE_ID,
    ObjectType.SITE: Propid.S_SITEID,
    ObjectType.CN: Propid.CN_GUID,
    ObjectType.ENTERPRISE: Propid.E_ID,
    ObjectType.USER: Propid.U_ID,
    ObjectType.ROUTING_LINK: Propid.L_ID,
}
"""The property that holds an object's GUID ([MS-MQDS] 3.1.4.21.3), independent of the engines' table."""
PATHS: Final[Mapping[ObjectType, Propid]] = {
    ObjectType.QUEUE: Propid.Q_PATHNAME,
    ObjectType.MACHINE: Propid.QM_PATHNAME,
    ObjectType.SITE: Propid.S_PATHNAME,
    ObjectType.CN: Propid.CN_NAME,
    ObjectType.ENTERPRISE: Propid.E_NAME,
}
"""The property that holds an object's path name ([MS-MQDS] 3.1.4.21.4)."""
CONTROLLER: Final = int(Service.PSC | Service.PEC)


def content_of(object_type: ObjectType, properties: Properties) -> Content:
    """Return the properties that must be equal in all replicas: all but Identifier."""
    identifier = IDENTIFIERS[object_type]
    return {propid: value for propid, value in properties if propid != identifier}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedChange:
    """Sequence number and its change.

    Attributes:
        number: the sequence number.
        identifier: the object.
        object_type: its type.
        command: CREATE, UPDATE or DELETE.
        asked: the properties that were to be set.
        content: the object afterwards; None where it was deleted.
        path: its path name, of a deleted one the last.
        giver: index of the server that gave the number.
        at: when, in simulated seconds.
        properties: what the authority's store returned as the content; None: nothing.
    """

    number: int
    identifier: Guid
    object_type: ObjectType
    command: Command
    asked: Properties
    content: Content | None
    path: str
    giver: int
    at: float
    properties: Properties | None = None

    @property
    def is_site_scope(self) -> bool:
        """True for a queue of site scope ([MC-MQDSRP] 3.3.7.3).

        All servers have such a queue nevertheless.
        """
        return self.content is not None and self.content.get(Propid.Q_SCOPE) == 0

    def __str__(self) -> str:
        return f"{self.command.name} {self.object_type.name} {self.path} {str(self.identifier)[:8]}"


@dataclass(slots=True)
class PartitionLedger:
    """All sequence numbers of a partition.

    Attributes:
        partition_id: the partition.
        giver: index of the server that may give numbers.
        entries: by number, ascending.
        latest: the newest entry of each object, by identifier.
        last: the highest number.
        granted: the highest LastSeqNumber of an authority: it may skip numbers (decisions R38, R43).
        purged: the highest PurgedSeqNumber of an authority.
        dead: its site is deleted: nothing is promised any more.
        loose: its authority was lost, replaced or restored by an operator: only the end counts.
        foul: its authority is hostile: nothing is promised from now on.
        vowed: entries that must exist at the end nevertheless, by identifier; a new change removes one.
        foreign: numbers of objects that another program has changed in some directory: copies may differ.
    """

    partition_id: Guid
    giver: int
    entries: dict[int, NumberedChange] = field(default_factory=dict)
    latest: dict[Guid, NumberedChange] = field(default_factory=dict)
    last: int = 0
    granted: int = 0
    purged: int = 0
    dead: bool = False
    loose: bool = False
    foul: bool = False
    vowed: dict[Guid, NumberedChange] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)

    @property
    def is_strict(self) -> bool:
        """True if its rules hold without exception."""
        return not (self.dead or self.loose or self.foul)

    def live(self, object_type: ObjectType | None = None) -> list[NumberedChange]:
        """Return the newest entries of all objects that are not deleted."""
        return [
            entry
            for entry in self.latest.values()
            if entry.content is not None and (object_type is None or entry.object_type is object_type)
        ]

    def record_loss(self, last_known: int) -> None:
        """Note the loss of the authority; its successor knows the changes up to a number."""
        if not self.loose:
            self.vowed = {
                identifier: entry for identifier, entry in self.latest.items() if entry.number <= last_known
            }
        else:
            self.vowed = {
                identifier: entry for identifier, entry in self.vowed.items() if entry.number <= last_known
            }
        self.loose = True

    @property
    def highest(self) -> int:
        """Highest possible LastSeqNumber of a replica."""
        return max(self.last, self.granted)

    def list_between(self, after: int, up_to: int) -> list[NumberedChange]:
        """Return the entries with numbers above `after` and up to `up_to`."""
        if up_to - after > len(self.entries):
            return [entry for number, entry in self.entries.items() if after < number <= up_to]
        entries = (self.entries.get(number) for number in range(after + 1, up_to + 1))
        return [entry for entry in entries if entry is not None]


class Ledger:
    """Ledgers of all partitions, with the authority of each."""

    def __init__(self) -> None:
        self.partitions: dict[Guid, PartitionLedger] = {}

    def found(self, partition_id: Guid, giver: int) -> PartitionLedger:
        """Add a partition with its first authority."""
        return self.partitions.setdefault(partition_id, PartitionLedger(partition_id, giver))

    def record(self, partition_id: Guid, entry: NumberedChange, machine_id: Guid, name: str) -> None:
        """Record a number that a server has assigned.

        Args:
            partition_id: the partition.
            entry: the number.
            machine_id: the server's own machine.
            name: its name now.

        Raises:
            Violation: the server must not assign this number, or any.
        """
        partition = self.partitions.get(partition_id)
        if partition is None:
            raise Violation(f"{name} gave {entry.number} of an unknown partition {partition_id}: {entry}")
        if partition.is_strict:
            self._may_give(partition, entry, machine_id, name)
            self._may_be(partition, entry)
        partition.vowed.pop(entry.identifier, None)
        partition.entries[entry.number] = entry
        partition.latest[entry.identifier] = entry
        partition.last = max(partition.last, entry.number)
        self._note_sites(entry)

    def _may_give(
        self, partition: PartitionLedger, entry: NumberedChange, machine_id: Guid, name: str
    ) -> None:
        if entry.number in partition.entries:
            before = partition.entries[entry.number]
            raise Violation(f"number {entry.number} is given twice, by {name}: {entry}; before: {before}")
        if entry.number <= partition.last:
            raise Violation(f"{name} gave {entry.number} behind {partition.last}: {entry}")
        if entry.giver != partition.giver:
            if not is_baton(partition, machine_id, name):
                raise Violation(
                    f"{name} gave {entry.number} ({entry}) of the partition of server {partition.giver}, "
                    f"whose last was {partition.last}"
                )
            partition.giver = entry.giver

    def _may_be(self, partition: PartitionLedger, entry: NumberedChange) -> None:
        """Check rules that no authority may break, for any client (decisions R34, R96)."""
        in_site = entry.object_type in {ObjectType.QUEUE, ObjectType.MACHINE}
        if in_site is (partition.partition_id == PEC_PARTITION_ID):
            raise Violation(f"{entry.number} {entry} is in partition {partition.partition_id}")
        other_entries = [
            other for other in partition.live(entry.object_type) if other.identifier != entry.identifier
        ]
        match entry.object_type:
            case ObjectType.SITE:
                site = self.partitions.get(entry.identifier)
                if entry.content is None and site is not None and site.is_strict and site.live():
                    raise Violation(f"{entry.number} {entry}: the site has {site.live()[0]}")
            case ObjectType.MACHINE if entry.content is not None:
                if _is_controller(entry) and any(map(_is_controller, other_entries)):
                    raise Violation(f"{entry.number} {entry}: the site has two primary controllers")
                if entry.content.get(Propid.QM_SITE_ID) != partition.partition_id:
                    raise Violation(f"{entry.number} {entry} says that it is of another site")
            case ObjectType.ENTERPRISE:
                if entry.content is None or other_entries:
                    raise Violation(f"{entry.number} {entry}: there is always one enterprise")

    def _note_sites(self, entry: NumberedChange) -> None:
        if entry.object_type is ObjectType.SITE:
            site = self.partitions.get(entry.identifier)
            if site is not None:
                site.dead = entry.content is None

    def start_over(self, partition_id: Guid, remaining: Iterable[NumberedChange]) -> None:
        """Record the remaining objects of a partition whose authority was lost.

        Args:
            partition_id: the partition.
            remaining: the objects that its authority has now.
        """
        partition = self.partitions[partition_id]
        partition.latest = {change.identifier: change for change in remaining}
        if partition_id == PEC_PARTITION_ID:
            for site in self.partitions.values():
                gone = site is not partition and site.partition_id not in partition.latest
                site.dead = site.dead or gone

    def site_of(self, partition_id: Guid) -> NumberedChange | None:
        """Return the newest entry of a site's object."""
        return self.partitions[PEC_PARTITION_ID].latest.get(partition_id)


def _is_controller(machine: NumberedChange) -> bool:
    service = (machine.content or {}).get(Propid.QM_SERVICE)
    return isinstance(service, int) and bool(service & CONTROLLER)


def is_baton(partition: PartitionLedger, machine_id: Guid, name: str) -> bool:
    """Return True if a partition's last change hands it over (decision R38).

    A server gets the partition.
    """
    last = partition.entries.get(partition.last)
    if last is None or last.content is None:
        return False
    if partition.partition_id == PEC_PARTITION_ID:
        pec_name = last.content.get(Propid.E_PECNAME)
        return isinstance(pec_name, str) and pec_name.casefold() == name.casefold()
    return last.identifier == machine_id and _is_controller(last)


def describe(status: int | None) -> str:
    """Return the name of a status, for messages."""
    return "nothing yet" if status is None else name_of(status)
