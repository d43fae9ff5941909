"""The protocol examples of [MC-MQDSRP] section 4: who sends what to whom, as the figures describe it."""

from collections.abc import Iterator

import pytest
from support.replication.network import SETTLE_S, Net, all_equal, enterprise, guid_of, with_bsc, with_site

from mqdssm.engines.replication.operations import LoadState
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, ReplicationMessage
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MAX, MIN

SITE1 = guid_of("site Site1")


def messages(net: Net, *kinds: str) -> list[tuple[str, str, str]]:
    """Sender, receiver and kind of what was sent, of the kinds that a figure shows."""
    told = [(source, to, type(message).__name__.removesuffix("Message")) for source, to, message in net.sent]
    return [one for one in told if one[2] in kinds]


def of_kind(net: Net, source: str, kind: str) -> Iterator[ReplicationMessage]:
    """What a server sent of a kind."""
    return (message for sender, _, message in net.sent if (sender, type(message).__name__) == (source, kind))


def partitions(net: Net, name: str) -> set[Guid]:
    """DirectoryPartitionCollection of a server."""
    return {one.partition_id for one in net.hosts[name].store.perform(LoadState()).partitions}


def neighbors(net: Net, name: str) -> set[str]:
    """PSCNeighborCollection and BSCNeighborCollection of a server."""
    return {one.machine_name for one in net.hosts[name].store.perform(LoadState()).neighbors}


def three_sites(**settings) -> Net:
    """Figure 11, less the servers that no example needs."""
    net = enterprise(**settings)
    with_site(net, "Site1", "PSC1")
    with_site(net, "Site2", "PSC2")
    with_bsc(net, "Site2", "BSC21", "PSC2")
    with_bsc(net, "Site0", "BSC01", "PEC")
    with_bsc(net, "Site0", "BSC02", "PEC")
    assert net.create_machine("C14", "Site1", "PSC1").status == Hresult.MQ_OK
    net.run(SETTLE_S)
    net.sent.clear()
    return net


@pytest.mark.spec("MC-MQDSRP 4.1")
@pytest.mark.spec("MC-MQDSRP 3.1.1.5.3")
@pytest.mark.spec("MC-MQDSRP 3.3.3")
def test_adding_a_site() -> None:
    net = enterprise()
    assert net.create_site("Site1", "PSC1").status == Hresult.MQ_OK
    assert SITE1 in partitions(net, "PEC")
    assert neighbors(net, "PEC") == {"PSC1"}
    net.sent.clear()
    net.server("PSC1", Role.PSC, "Site1")
    net.run(SETTLE_S)

    assert partitions(net, "PSC1") == {PEC_PARTITION_ID, guid_of("site Site0"), SITE1}
    assert neighbors(net, "PSC1") == {"PEC"}
    asked = [
        (message.partition_id, message.from_seq_number, message.to_seq_number)
        for message in of_kind(net, "PSC1", "SyncRequestMessage")
    ]
    # first the enterprise's partition, then that of each site that it tells of, all from the beginning
    assert asked[0] == (PEC_PARTITION_ID, MIN, MAX)
    assert (guid_of("site Site0"), MIN, MAX) in asked
    answers = {
        message.partition_id: message.directory_changes
        for message in of_kind(net, "PEC", "SyncReplyMessage")
        if message.directory_changes
    }
    assert [one.object_type for one in answers[PEC_PARTITION_ID]] == [
        ObjectType.ENTERPRISE,
        ObjectType.SITE,
        ObjectType.SITE,
    ]
    assert [one.object_type for one in answers[guid_of("site Site0")]] == [ObjectType.MACHINE]
    assert all(one.command is Command.SYNC for one in answers[PEC_PARTITION_ID])

    net.sent.clear()
    assert net.create_machine("PSC1", "Site1", "PSC1", Service.PSC).status == Hresult.MQ_OK
    net.run(SETTLE_S)
    assert ("PSC1", "PEC", "ChangePropagation") in messages(net, "ChangePropagation")
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 4.1")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.8")
def test_a_second_site_asks_both_controllers() -> None:
    net = enterprise()
    with_site(net, "Site1", "PSC1")
    assert net.create_site("Site2", "PSC2").status == Hresult.MQ_OK
    net.sent.clear()
    net.server("PSC2", Role.PSC, "Site2")
    net.run(SETTLE_S)
    asked = {
        (to, message.partition_id)
        for source, to, message in net.sent
        if source == "PSC2" and type(message).__name__ == "SyncRequestMessage"
    }
    assert {("PEC", PEC_PARTITION_ID), ("PEC", guid_of("site Site0")), ("PSC1", SITE1)} <= asked
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 4.2")
def test_adding_a_bsc() -> None:
    net = enterprise()
    with_site(net, "Site1", "PSC1")
    with_site(net, "Site2", "PSC2")
    assert net.create_machine("BSC01", "Site0", "PEC", Service.BSC).status == Hresult.MQ_OK
    net.sent.clear()
    net.server("BSC01", Role.BSC, "Site0", psc="PEC")
    net.run(SETTLE_S)
    asked = [
        (to, message.partition_id)
        for source, to, message in net.sent
        if source == "BSC01" and type(message).__name__ == "SyncRequestMessage"
    ]
    assert asked[0] == ("PEC", PEC_PARTITION_ID)
    assert {to for to, _ in asked} == {"PEC"}  # a BSC asks its PSC for every partition
    everything = {PEC_PARTITION_ID, *(guid_of(f"site Site{n}") for n in range(3))}
    assert {one for _, one in asked} == everything == partitions(net, "BSC01")
    assert neighbors(net, "BSC01") == set()
    assert neighbors(net, "PEC") == {"PSC1", "PSC2", "BSC01"}
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 4.3")
@pytest.mark.spec("MC-MQDSRP 3.1.1.5.1")
@pytest.mark.spec("MC-MQDSRP 3.1.1.5.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
@pytest.mark.spec("MC-MQDSRP 3.2.7.6")
def test_creating_a_remote_queue() -> None:
    net = three_sites()
    made = net.create_queue("C14", "testq", "Site1", "BSC21")
    assert made.status == Hresult.MQ_OK
    assert messages(net, "ChangeRequest", "ChangeReply") == [
        ("BSC21", "PSC2", "ChangeRequest"),
        ("PSC2", "PSC1", "ChangeRequest"),
        ("PSC1", "PSC2", "ChangeReply"),
        ("PSC2", "BSC21", "ChangeReply"),
    ]
    request = next(of_kind(net, "BSC21", "ChangeRequestMessage"))
    assert (request.requester_name, request.psc_name) == ("BSC21", "PSC2")
    assert request == next(of_kind(net, "PSC2", "ChangeRequestMessage"))  # forwarded as it is
    net.sent.clear()
    net.run(SETTLE_S)
    told = messages(net, "ChangePropagation")
    assert sorted(told) == [
        ("PEC", "BSC01", "ChangePropagation"),
        ("PEC", "BSC02", "ChangePropagation"),
        ("PSC1", "PEC", "ChangePropagation"),
        ("PSC1", "PSC2", "ChangePropagation"),
        ("PSC2", "BSC21", "ChangePropagation"),
    ]
    assert told.index(("PSC1", "PSC2", "ChangePropagation")) < told.index(
        ("PSC2", "BSC21", "ChangePropagation")
    )
    (change,) = next(of_kind(net, "PSC1", "ChangePropagationMessage")).directory_changes
    assert (change.command, change.path_name) == (Command.CREATE, "C14\\testq")
    assert change.get(Propid.Q_INSTANCE) == guid_of("queue C14\\testq")  # decision R11
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 4.4")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
@pytest.mark.spec("MC-MQDSRP 3.3.6.2")
@pytest.mark.spec("MC-MQDSRP 3.2.7.5")
def test_deleting_a_queue() -> None:
    net = three_sites(ack_interval=1, purge_interval=1, purge_buffer=0, bsc_ack_s=30.0)
    net.create_queue("C14", "testq", "Site1", "PSC1")
    net.run(SETTLE_S)
    net.sent.clear()
    gone = net.change("PSC1", Command.DELETE, ObjectType.QUEUE, path_name="C14\\testq", partition_id=SITE1)
    assert gone.status == Hresult.MQ_OK
    tombstone = {"command": Command.DELETE, "guid_identifier": guid_of("queue C14\\testq")}
    net.stop("BSC01")
    net.run(SETTLE_S)
    sent = next(of_kind(net, "PSC1", "ChangePropagationMessage")).directory_changes
    assert [{name: getattr(one, name) for name in tombstone} for one in sent] == [tombstone]
    acks = messages(net, "BSCAck", "PSCAck")
    assert {("BSC02", "PEC", "BSCAck"), ("BSC21", "PSC2", "BSCAck")} <= set(acks)
    assert "BSC01" not in {source for source, _, _ in acks}
    assert {("PEC", "PSC1", "PSCAck"), ("PSC2", "PSC1", "PSCAck")} <= set(acks)
    # both have acknowledged the deletion: the next change purges it
    assert guid_of("queue C14\\testq") in net.content("PSC1", SITE1)
    for name in ("one", "two", "three"):
        net.create_queue("C14", name, "Site1", "PSC1")
        net.run(SETTLE_S)
    assert guid_of("queue C14\\testq") not in net.content("PSC1", SITE1)


@pytest.mark.spec("MC-MQDSRP 4.5")
@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.spec("MC-MQDSRP 3.3.7.7")
@pytest.mark.spec("MC-MQDSRP 3.2.7.7")
def test_full_partition_synchronization() -> None:
    small = {"ack_interval": 1, "purge_interval": 1, "purge_buffer": 0, "header_s": 20.0}
    net = three_sites(**small)
    net.create_queue("C14", "testq", "Site1", "PSC1")
    net.run(SETTLE_S)
    away = net.stop("BSC01")
    gone = net.change("PSC1", Command.DELETE, ObjectType.QUEUE, path_name="C14\\testq", partition_id=SITE1)
    assert gone.status == Hresult.MQ_OK
    for n in range(6):
        net.create_queue("C14", f"q{n}", "Site1", "PSC1")
        net.run(SETTLE_S)
    net.sent.clear()
    net.hosts["BSC01"] = away
    net.restart("BSC01")
    net.run(SETTLE_S)
    told = [
        (source, type(message).__name__)
        for source, to, message in net.sent
        if "BSC01" in {source, to} and getattr(message, "partition_id", None) == SITE1
    ]
    assert told[:4] == [
        ("BSC01", "SyncRequestMessage"),
        ("PEC", "AlreadyPurgedMessage"),
        ("BSC01", "SyncRequestMessage"),
        ("PEC", "SyncReplyMessage"),
    ]
    requests = [one for one in of_kind(net, "BSC01", "SyncRequestMessage") if one.partition_id == SITE1]
    assert not requests[0].is_sync0
    assert requests[0].from_seq_number > MIN
    assert requests[0].to_seq_number == MAX
    assert requests[1].is_sync0
    assert requests[1].from_seq_number == MIN
    assert guid_of("queue C14\\testq") not in net.content("BSC01", SITE1)
    assert all_equal(net)
