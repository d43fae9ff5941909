"""Messages of a hostile server, with false values in any field (R105, R107).

A false value has the type of its field, so that the message can be decoded.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

from mqdssm.model import messages as msg
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.ledger import IDENTIFIERS, NumberedChange, PartitionLedger
from mqdssm.testing.simulation.server_list import ServerRegistry
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

NOBODY: Final = "nobody"
"""Beginning of names that no server has."""
KINDS: Final[tuple[type[msg.ReplicationMessage], ...]] = (
    msg.ChangePropagationMessage,
    msg.ChangePropagationMessage,
    msg.ChangeRequestMessage,
    msg.ChangeReplyMessage,
    msg.SyncRequestMessage,
    msg.SyncReplyMessage,
    msg.PSCAckMessage,
    msg.BSCAckMessage,
    msg.AlreadyPurgedMessage,
)
"""Types of all messages; propagations are twice as frequent."""
_CHANGES_MAX: Final = 3
_FAR: Final = 1 << 21
"""Distance above any number of a run, and above the numbers that a successor skips."""
_RESULTS: Final = (Hresult.MQ_OK, Hresult.MQ_ERROR_ACCESS_DENIED, Hresult.MQDS_OBJECT_NOT_FOUND)
_ROLES: Final = (0, int(Service.BSC), int(Service.PSC), int(Service.PEC))

_OTHER: Final[Mapping[ObjectType, Mapping[Propid, Any]]] = {
    ObjectType.CN: {Propid.CN_SECURITY: NOBODY.encode()},
    ObjectType.USER: {Propid.U_SIGN_CERT: NOBODY.encode()},
    ObjectType.ROUTING_LINK: {Propid.L_COST: 666},
}
"""False values for objects that do not describe servers."""


def header_of(site_id: Guid, sender: str, *numbers: msg.PartitionSeqNumbers) -> msg.ChangePropagationMessage:
    """Return a propagation that only announces sequence numbers."""
    header = msg.SeqNumberHeader(machine_name=sender, partition_seq_numbers=numbers)
    return msg.ChangePropagationMessage(site_id=site_id, seq_number_header=header)


def make_false_claims(
    site_id: Guid, sender: str, partition_id: Guid, number: SequenceNumber
) -> tuple[msg.ReplicationMessage, ...]:
    """Return messages of a false story.

    The story: newer changes, then a full synchronization is needed, then there are no objects.
    """
    numbers = msg.PartitionSeqNumbers(
        partition_id=partition_id, last_seq_number=number, purged_seq_number=number
    )
    question = msg.SyncRequestMessage(
        site_id=site_id,
        partition_id=partition_id,
        from_seq_number=number,
        to_seq_number=MAX,
        known_purged_seq_number=number,
        requester_name=sender,
    )
    purged = msg.AlreadyPurgedMessage(site_id=site_id, partition_id=partition_id, purged_seq_number=number)
    answer = msg.SyncReplyMessage(
        site_id=site_id,
        partition_id=partition_id,
        from_seq_number=MIN,
        to_seq_number=number,
        purged_seq_number=number,
        complete_sync0=msg.CompleteSync0.NOW,
        directory_changes=(),
    )
    return header_of(site_id, sender, numbers), question, purged, answer


class HostileMessages:
    """Source of false messages of one server.

    The server knows the whole state of the enterprise.

    Args:
        world: the enterprise.
        registry: who is there.
        sender: the hostile server.
        rng: chance.
    """

    def __init__(
        self, world: World, registry: ServerRegistry, sender: SimulatedServer, rng: SeededRandom
    ) -> None:
        self._world = world
        self._registry = registry
        self._sender = sender
        self._rng = rng
        self._partition = world.ledger.partitions[PEC_PARTITION_ID]
        self._nobody = world.guid(NOBODY)
        guids = self._draw_guid
        self._fields: Mapping[str, Callable[[], Any]] = {
            "site_id": guids,
            "partition_id": self._draw_partition_id,
            "psc_site_id": guids,
            "acked_partition_id": self._draw_partition_id,
            "bsc_machine_id": guids,
            "from_seq_number": self._draw_number,
            "to_seq_number": self._draw_number,
            "known_purged_seq_number": self._draw_number,
            "purged_seq_number": self._draw_number,
            "acked_seq_number": self._draw_number,
            "requester_name": self._draw_name,
            "psc_name": self._draw_name,
            "bsc_name": self._draw_name,
            "is_sync0": self._draw_boolean,
            "flush": self._draw_boolean,
            "scope": lambda: rng.of((msg.Scope.SITE, msg.Scope.ENTERPRISE)),
            "complete_sync0": lambda: rng.of(
                (msg.CompleteSync0.NONE, msg.CompleteSync0.SOON, msg.CompleteSync0.NOW)
            ),
            "request_identifier": self._request_identifier,
            "result": lambda: int(rng.of(_RESULTS)),
            "directory_changes": self._draw_changes,
            "directory_change": self._draw_refused_change,
            "seq_number_header": self._draw_header,
        }

    def tell(self) -> tuple[msg.ReplicationMessage, ...]:
        """Return one false message of any kind, or a consistent story.

        The story has several messages.
        """
        partitions = list(self._world.ledger.partitions.values())
        self._partition = self._rng.of(partitions)
        sender = self._sender
        if self._rng.draw_one_in(8):
            number = self._draw_number()
            return make_false_claims(
                sender.settings.site_id, sender.name, self._partition.partition_id, number
            )
        kind = self._rng.of(KINDS)
        message = kind(**{field.name: self._fields[field.name]() for field in fields(kind)})
        return (self._as_our_own(message),)

    def falsify(self, message: msg.ReplicationMessage) -> msg.ReplicationMessage:
        """Return a copy of a message with a false value in one of its fields."""
        partition_id = getattr(message, "partition_id", PEC_PARTITION_ID)
        partitions = self._world.ledger.partitions
        self._partition = partitions.get(partition_id, partitions[PEC_PARTITION_ID])
        name = self._rng.of([field.name for field in fields(message)])
        return replace(message, **{name: self._fields[name]()})

    def _as_our_own(self, message: msg.ReplicationMessage) -> msg.ReplicationMessage:
        """Make a message more plausible: in the sender's own name, about one partition."""
        values: dict[str, Any] = {}
        for name in ("psc_name", "bsc_name"):
            if hasattr(message, name) and not self._rng.draw_one_in(3):
                values[name] = self._sender.name
        if isinstance(message, msg.SyncRequestMessage) and not self._rng.draw_one_in(3):
            values["requester_name"] = self._sender.name
        if isinstance(message, msg.ChangeRequestMessage):
            values["partition_id"] = message.directory_change.partition_id
            if self._draw_boolean():
                values["requester_name"] = self._sender.name
        return replace(message, **values) if values else message

    # -- single values

    def _draw_boolean(self) -> bool:
        return self._rng.draw_one_in(2)

    def _draw_partition_id(self) -> Guid:
        return self._draw_guid() if self._rng.draw_one_in(8) else self._partition.partition_id

    def _draw_guid(self) -> Guid:
        server = self._rng.of(self._world.servers).settings
        choices = (server.machine_id, server.site_id, PEC_PARTITION_ID, self._nobody)
        return self._rng.of(choices)

    def _draw_number(self) -> SequenceNumber:
        highest, rng = self._partition.highest, self._rng
        near = max(0, highest + rng.draw_between(-3, 5))
        return SequenceNumber(rng.of((0, highest, near, near, highest + 1, highest + _FAR, int(MAX))))

    def _draw_name(self) -> str:
        """Return the name of any server, an unknown name, or an empty one."""
        rng = self._rng
        if rng.draw_one_in(6):
            return rng.of(("", f"{NOBODY}{rng.draw_below(3)}"))
        name = rng.of(self._world.servers).name
        return name.upper() if rng.draw_one_in(6) else name

    def _request_identifier(self) -> int:
        """Return a number that a client has used, or a random one."""
        request_ids = list(self._world.book.requests)
        return (
            self._rng.of(request_ids)
            if request_ids and self._draw_boolean()
            else self._rng.draw_below(1 << 20)
        )

    # -- numbers and changes

    def _draw_header(self) -> msg.SeqNumberHeader:
        partitions = list(self._world.ledger.partitions)
        numbers = [
            msg.PartitionSeqNumbers(
                partition_id=partition_id,
                last_seq_number=self._draw_number(),
                purged_seq_number=self._draw_number(),
            )
            for partition_id in {self._partition.partition_id: 0, self._rng.of(partitions): 0}
        ]
        name = self._draw_name() if self._rng.draw_one_in(4) else self._sender.name
        return msg.SeqNumberHeader(machine_name=name, partition_seq_numbers=tuple(numbers))

    def _draw_changes(self) -> tuple[msg.DirectoryChange, ...]:
        """Return plausible changes with consecutive numbers."""
        changes = []
        previous = (
            self._draw_number() if self._rng.draw_one_in(4) else SequenceNumber(self._partition.highest)
        )
        for _ in range(self._rng.draw_below(_CHANGES_MAX + 1)):
            if previous >= MAX:
                break
            number = previous.next()
            changes.append(self._change(previous, number))
            previous = number
        return tuple(changes)

    def _change(self, previous: SequenceNumber, number: SequenceNumber) -> msg.DirectoryChange:
        kind, identifier, properties = self._draw_subject()
        command = self._rng.of((msg.Command.UPDATE, msg.Command.DELETE, msg.Command.SYNC))
        if command is msg.Command.DELETE:
            properties = msg.make_deletion_properties(
                kind, self._rng.of((msg.Scope.SITE, msg.Scope.ENTERPRISE))
            )
        return msg.DirectoryChange(
            command=command,
            guid_identifier=identifier,
            partition_id=self._partition.partition_id if not self._rng.draw_one_in(8) else self._draw_guid(),
            previous_seq_number=previous,
            seq_number=number,
            purged_seq_number=self._draw_number() if self._rng.draw_one_in(4) else MIN,
            properties=properties,
        )

    def _draw_subject(self) -> tuple[ObjectType, Guid, msg.Properties]:
        """Return type and identifier of any object, and false properties for it."""
        homes = [partition for partition in self._world.ledger.partitions.values() if partition.latest]
        home = self._partition if self._partition.latest and self._draw_boolean() else self._rng.of(homes)
        entry = self._rng.of(list(home.latest.values()))
        return entry.object_type, entry.identifier, self._falsify_properties(entry)

    def _falsify_properties(self, entry: NumberedChange) -> msg.Properties:
        """Return false properties for an object: other roles, names or values."""
        properties: dict[Propid, Any] = dict(entry.content or {})
        match entry.object_type:
            case ObjectType.SITE:
                properties[Propid.S_PSC] = self._draw_name()
            case ObjectType.ENTERPRISE:
                properties[Propid.E_PECNAME] = self._draw_name()
            case ObjectType.MACHINE:
                properties[Propid.QM_SERVICE] = self._rng.of(_ROLES)
                if self._draw_boolean():
                    properties[Propid.QM_PATHNAME] = self._draw_name()
            case ObjectType.QUEUE:
                properties[Propid.Q_LABEL] = NOBODY
            case _:
                properties |= _OTHER.get(entry.object_type, {})
        return tuple(properties.items()) or ((IDENTIFIERS[entry.object_type], entry.identifier),)

    # -- requests that no server may carry out

    def _draw_refused_change(self) -> msg.DirectoryChange:
        """Return a change of other servers' roles, names or keys, to be refused."""
        enterprise = self._world.ledger.partitions[PEC_PARTITION_ID]
        partitions = self._world.ledger.partitions
        sites = [site for site in enterprise.live(ObjectType.SITE) if not partitions[site.identifier].foul]
        servers = [
            controller
            for controller in self._list_controllers()
            if controller.identifier != self._sender.machine_id
        ]
        if servers and self._draw_boolean():
            return self._change_server(self._rng.of(servers))
        if sites and self._draw_boolean():
            return self._change_site(self._rng.of(sites))
        named = enterprise.live(ObjectType.ENTERPRISE)  # none: a PEC took over before it had received it
        identifier = named[0].identifier if named else NULL_GUID
        return self._request_change(
            msg.Command.UPDATE, PEC_PARTITION_ID, identifier, ((Propid.E_PECNAME, self._draw_name()),)
        )

    def _list_controllers(self) -> list[NumberedChange]:
        machines = (self._registry.machine(controller) for controller in self._registry.controllers())
        return [machine for machine in machines if machine is not None]

    def _change_server(self, machine: NumberedChange) -> msg.DirectoryChange:
        """Return a change of a directory server's role, key, name or existence."""
        home = next(
            partition
            for partition in self._world.ledger.partitions.values()
            if partition.latest.get(machine.identifier) is machine
        )
        changes: tuple[msg.Properties, ...] = (
            ((Propid.QM_SERVICE, self._rng.of(_ROLES)),),
            ((Propid.QM_SIGN_PK, b"mine"),),
            ((Propid.QM_PATHNAME, self._draw_name() or NOBODY),),
            msg.make_deletion_properties(ObjectType.MACHINE, msg.Scope.ENTERPRISE),
        )
        return self._change_of_entry(home, machine, self._rng.of(changes))

    def _change_site(self, site: NumberedChange) -> msg.DirectoryChange:
        """Return a change of a site's PSC or its key, or the deletion of the site."""
        changes: tuple[msg.Properties, ...] = (
            ((Propid.S_PSC, self._draw_name()),),
            ((Propid.S_PSC_SIGNPK, b"mine"),),
            msg.make_deletion_properties(ObjectType.SITE, msg.Scope.ENTERPRISE),
        )
        return self._change_of_entry(
            self._world.ledger.partitions[PEC_PARTITION_ID], site, self._rng.of(changes)
        )

    def _change_of_entry(
        self, home: PartitionLedger, entry: NumberedChange, properties: msg.Properties
    ) -> msg.DirectoryChange:
        is_end = properties[0][0] is Propid.D_SCOPE
        command = msg.Command.DELETE if is_end else msg.Command.UPDATE
        return self._request_change(command, home.partition_id, entry.identifier, properties)

    def _request_change(
        self, command: msg.Command, partition_id: Guid, identifier: Guid, properties: msg.Properties
    ) -> msg.DirectoryChange:
        return msg.DirectoryChange(
            command=command, partition_id=partition_id, guid_identifier=identifier, properties=properties
        )
