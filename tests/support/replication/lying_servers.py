"""Servers whose signatures are good and whose words are lies: what a test has them say (R105, R107)."""

from mqdssm.engines.replication.actions import Received
from mqdssm.engines.replication.operations import LoadState
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeReplyMessage,
    ChangeRequestMessage,
    Command,
    DirectoryChange,
    PartitionSeqNumbers,
    Properties,
    ReplicationMessage,
)
from mqdssm.model.propids import Propid
from mqdssm.model.replication import DirectoryPartition, Service
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.testing.simulation.hostile_messages import header_of, make_false_claims
from support.replication.network import SETTLE_S, Net, enterprise, guid_of, objects, with_bsc, with_site

OK = Hresult.MQ_OK
DENIED = Hresult.MQ_ERROR_ACCESS_DENIED
LONG_S = 3000
FAR = SequenceNumber(1_000_000)
SITE0 = guid_of("site Site0")
SITE1 = guid_of("site Site1")
SITE2 = guid_of("site Site2")


def world() -> Net:
    """PEC, PSC1 with BSC1, PSC2 with BSC2; a machine and queues in each site."""
    net = enterprise(header_s=60.0)
    for site in ("1", "2"):
        with_site(net, f"Site{site}", f"PSC{site}")
        with_bsc(net, f"Site{site}", f"BSC{site}", f"PSC{site}")
        assert net.create_machine(f"C{site}4", f"Site{site}", f"PSC{site}").status == OK
        for number in range(4):
            assert net.create_queue(f"C{site}4", f"q{number}", f"Site{site}", f"PSC{site}").status == OK
    net.run(SETTLE_S)
    return net


def says(net: Net, liar: str, target: str, *messages: ReplicationMessage) -> list[ReplicationMessage]:
    """Let a machine say something with its own signature; what the target sends it then."""
    before = len(net.sent)
    for message in messages:
        event = Received(message=message, sender=liar, machine_id=guid_of(f"machine {liar}"))
        net._put(target, event, 0)
    net.run(2)
    return [sent for source, to, sent in net.sent[before:] if source == target and to == liar]


def header(liar: str, partition_id: Guid, *, last: int = FAR, purged: int = MIN) -> ChangePropagationMessage:
    numbers = PartitionSeqNumbers(
        partition_id=partition_id,
        last_seq_number=SequenceNumber(last),
        purged_seq_number=SequenceNumber(purged),
    )
    return header_of(SITE1, liar, numbers)


def claims(liar: str, partition_id: Guid) -> tuple[ReplicationMessage, ...]:
    """All that says: I have more of it, you have to begin anew, and this is all that there is."""
    return make_false_claims(SITE1, liar, partition_id, FAR)


def asks(partition_id: Guid, command: Command, properties: Properties, **given) -> DirectoryChange:
    return DirectoryChange(
        command=command,
        partition_id=partition_id,
        properties=properties,
        **({"guid_identifier": None} | given),
    )


def request(requester: str, change: DirectoryChange, identifier: int = 77) -> ChangeRequestMessage:
    return ChangeRequestMessage(
        site_id=SITE1,
        partition_id=change.partition_id,
        request_identifier=identifier,
        requester_name=requester,
        psc_name=None,
        directory_change=change,
    )


def kept(net: Net, name: str, partition_id: Guid) -> DirectoryPartition:
    found: tuple[DirectoryPartition, ...] = net.hosts[name].store.perform(LoadState()).partitions
    return next(one for one in found if one.partition_id == partition_id)


def everything(net: Net) -> dict[str, object]:
    """All objects of all servers, and who owns what."""
    return {
        name: {one: (objects(net, name, one), kept(net, name, one).owned) for one in net.partitions(name)}
        for name in net.hosts
    }


def silenced(net: Net, *liars: str) -> None:
    """Leave to servers nothing of their own: a test speaks for them."""
    for liar in liars:
        net.stop(liar)


def results(sent: list[ReplicationMessage]) -> list[int]:
    return [one.result for one in sent if isinstance(one, ChangeReplyMessage)]


def lies(partition_id: Guid, *changes: tuple[Command, Guid, Properties]) -> ChangePropagationMessage:
    """Changes of a partition, in order, behind any number that a replica may have."""
    made = []
    previous = MIN
    for number, (command, identifier, properties) in enumerate(changes, start=int(FAR)):
        change = DirectoryChange(
            command=command,
            guid_identifier=identifier,
            partition_id=partition_id,
            previous_seq_number=previous,
            seq_number=SequenceNumber(number),
            purged_seq_number=MIN,
            properties=properties,
        )
        made.append(change)
        previous = change.seq_number
    return ChangePropagationMessage(site_id=SITE1, directory_changes=tuple(made))


def machine(name: str, service: Service) -> Properties:
    return (
        (Propid.QM_PATHNAME, name),
        (Propid.QM_SITE_ID, SITE1),
        (Propid.QM_ADDRESS, b""),
        (Propid.QM_CNS, ()),
        (Propid.QM_SERVICE, int(service)),
    )
