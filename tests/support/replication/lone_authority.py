"""A directory server without a network: the PEC of a site with a BSC and a neighbour."""

from mqdssm.engines.replication.actions import Action, Send
from mqdssm.engines.replication.operations import Operation, ReadObject
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeReplyMessage,
    ChangeRequestMessage,
    Command,
    DirectoryChange,
    Properties,
    PSCAckMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.testing.simulation.stores import look_up_everything
from support.replication.lone_server import AWAY, HOME, Lone
from support.replication.network import guid_of, machine_properties

PSC_TIMER = "propagate psc other"
BSC_TIMER = "propagate bsc back"
OK = 0


def make_enterprise(server: Lone) -> list[Action]:
    """Number 1 of the enterprise."""
    return server.change(
        Command.CREATE,
        ObjectType.ENTERPRISE,
        PEC_PARTITION_ID,
        path_name="Fabrikam",
        identifier=guid_of("enterprise"),
        properties=((Propid.E_NAME, "Fabrikam"), (Propid.E_PECNAME, server.settings.machine_name)),
    )


def make_site(server: Lone, name: str, psc: str) -> list[Action]:
    """A site."""
    return server.change(
        Command.CREATE,
        ObjectType.SITE,
        PEC_PARTITION_ID,
        path_name=name,
        identifier=guid_of(f"site {name}"),
        properties=((Propid.S_PATHNAME, name), (Propid.S_PSC, psc)),
    )


def make_cn(server: Lone, name: str, protocol: int = 1) -> list[Action]:
    """A connected network: an enterprise-wide object that nobody depends on."""
    return server.change(
        Command.CREATE,
        ObjectType.CN,
        PEC_PARTITION_ID,
        path_name=name,
        identifier=guid_of(name),
        properties=((Propid.CN_PROTOCOLID, protocol), (Propid.CN_NAME, name)),
    )


def make_machine(server: Lone, name: str, service: Service | None = Service.NONE) -> list[Action]:
    """A machine of our site."""
    return server.change(
        Command.CREATE,
        ObjectType.MACHINE,
        HOME,
        path_name=name,
        identifier=guid_of(f"machine {name}"),
        properties=machine_properties(name, HOME, service),
    )


def make_queue(server: Lone, queue: str, machine: str = "Desk") -> list[Action]:
    """A queue of a machine of our site."""
    path = f"{machine}\\{queue}"
    return server.change(
        Command.CREATE,
        ObjectType.QUEUE,
        HOME,
        path_name=path,
        identifier=guid_of(f"queue {queue}"),
        properties=((Propid.Q_PATHNAME, path), (Propid.Q_LABEL, queue)),
    )


def label(server: Lone, queue: str, text: str) -> list[Action]:
    """Another label for a queue."""
    return server.change(
        Command.UPDATE,
        ObjectType.QUEUE,
        HOME,
        path_name=f"Desk\\{queue}",
        properties=((Propid.Q_LABEL, text),),
    )


def delete(server: Lone, kind: ObjectType, partition_id: Guid, **given) -> list[Action]:
    """A deletion that a client of ours asks for."""
    return server.change(Command.DELETE, kind, partition_id, **given)


def authority(**settings) -> Lone:
    """PEC "Me" with sites Home (its own) and Away (of "Other"), BSC "Back", and a machine "Desk".

    Its numbers: enterprise 1, sites 2 and 3; machines Me, Back and Desk 1 to 3.
    """
    server = Lone(Role.PEC, **settings)
    make_enterprise(server)
    make_site(server, "Home", "Me")
    make_machine(server, "Me", Service.PEC)
    make_machine(server, "Back", Service.BSC)
    make_site(server, "Away", "Other")
    make_machine(server, "Desk")
    server.fired(PSC_TIMER, 10)
    server.fired(BSC_TIMER, 2)
    server.all.clear()
    return server


def request(
    command: Command,
    properties: Properties,
    *,
    partition_id: Guid = HOME,
    requester: str = "Other",
    identifier: int = 7,
    psc: str | None = None,
    **given,
) -> ChangeRequestMessage:
    """A change request of another server."""
    change = DirectoryChange(command=command, partition_id=partition_id, properties=properties, **given)
    return ChangeRequestMessage(
        site_id=AWAY,
        partition_id=partition_id,
        request_identifier=identifier,
        requester_name=requester,
        psc_name=psc,
        directory_change=change,
    )


def queue_request(queue: str, **given) -> ChangeRequestMessage:
    """A request for a new queue."""
    path = f"Desk\\{queue}"
    properties = (
        (Propid.Q_PATHNAME, path),
        (Propid.Q_LABEL, queue),
        (Propid.Q_INSTANCE, guid_of(f"queue {queue}")),
    )
    return request(Command.CREATE, properties, path_name=path, **given)


def acked(name: str, number: int, partition_id: Guid = HOME) -> PSCAckMessage:
    """A PSC's acknowledgement."""
    return PSCAckMessage(
        site_id=AWAY,
        psc_site_id=AWAY,
        acked_partition_id=partition_id,
        acked_seq_number=SequenceNumber(number),
        psc_name=name,
    )


def results(actions: list[Action]) -> list[tuple[str, int]]:
    """To whom change replies go, and what they say."""
    messages = [(one.destination, one.message) for one in actions if isinstance(one, Send)]
    return [(to, message.result) for to, message in messages if isinstance(message, ChangeReplyMessage)]


def propagated(actions: list[Action], to: str) -> list[DirectoryChange]:
    """The changes that go to a neighbour."""
    messages = [one.message for one in actions if isinstance(one, Send) and one.destination == to]
    return [
        change
        for message in messages
        if isinstance(message, ChangePropagationMessage)
        for change in message.directory_changes
    ]


def told(server: Lone, timer: str = PSC_TIMER, to: str = "Other") -> list[DirectoryChange]:
    """What a neighbour is told when its timer runs out."""
    return propagated(server.fired(timer), to)


def queue_of(server: Lone, queue: str) -> dict[Propid, object] | None:
    """A queue's properties, or None where it is not there."""
    operation = ReadObject(object_type=ObjectType.QUEUE, identifier=guid_of(f"queue {queue}"))
    found = server.store.perform(operation).properties
    return None if found is None else dict(found)


def numbers(server: Lone, partition_id: Guid = HOME) -> dict[Guid | None, tuple[int, Command]]:
    """Number and command of every object and tombstone of a partition."""
    found = server.store.perform(look_up_everything(partition_id)).changes
    return {one.guid_identifier: (int(one.seq_number), one.command) for one in found}


def last(server: Lone, partition_id: Guid = HOME) -> int:
    """LastSeqNumber of a partition of ours."""
    return int(server.engine.read_next_number(partition_id)) - 1


def recorded(server: Lone) -> list[Operation]:
    """The operations that the server has performed from now on."""
    performed: list[Operation] = []
    perform = server.store.perform

    def record(operation: Operation):
        performed.append(operation)
        return perform(operation)

    server.store.perform = record  # type: ignore[method-assign]
    return performed
