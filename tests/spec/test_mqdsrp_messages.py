"""What the engines send each other is what [MC-MQDSRP] section 2 describes, in both directions."""

from collections import Counter

import pytest
from support.replication.network import SETTLE_S, Net, enterprise, guid_of, objects_equal, with_bsc, with_site

from mqdssm.engines.replication.operations import LoadState
from mqdssm.model.messages import Command, ReplicationMessage
from mqdssm.model.propids import ObjectType
from mqdssm.model.seqnum import MIN
from mqdssm.wire.mqdsrp import decode, encode

SITE1 = guid_of("site Site1")
KINDS = {one.__name__ for one in ReplicationMessage.__subclasses__()}


def busy() -> Net:
    """A net in which every kind of message was needed."""
    net = enterprise(ack_interval=1, purge_interval=0, purge_buffer=0, header_s=20.0, bsc_ack_s=30.0)
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    assert net.create_machine("C14", "Site1", "BSC1").status == 0
    net.run(SETTLE_S)
    away = net.stop("BSC1")
    for n in range(3):
        net.create_queue("C14", f"q{n}", "Site1", "PEC")
        net.change("PSC1", Command.DELETE, ObjectType.QUEUE, path_name=f"C14\\q{n}", partition_id=SITE1)
        net.run(SETTLE_S)
    net.hosts["BSC1"] = away
    net.restart("BSC1")
    net.run(SETTLE_S)
    return net


@pytest.mark.spec("MC-MQDSRP 2")
@pytest.mark.spec("MC-MQDSRP 3")
@pytest.mark.spec("MC-MQDSRP 3.1.1.5")
def test_every_kind_of_message_is_sent_and_survives_the_wire() -> None:
    net = busy()
    assert {type(message).__name__ for _, _, message in net.sent} == KINDS
    for _, _, message in net.sent:
        assert decode(encode(message)) == message
    assert objects_equal(net)


@pytest.mark.spec("MC-MQDSRP 3")
@pytest.mark.spec("MC-MQDSRP 3.1")
def test_a_server_of_one_exchange_is_the_client_of_another() -> None:
    net = busy()
    sent = Counter((source, type(message).__name__) for source, _, message in net.sent)
    client = {"SyncRequestMessage", "ChangeRequestMessage", "ChangePropagationMessage"}
    served = {"SyncReplyMessage", "ChangeReplyMessage"}
    assert {kind for source, kind in sent if source == "PSC1"} >= client - {"ChangeRequestMessage"} | served
    assert {kind for source, kind in sent if source == "PEC"} >= client | {"SyncReplyMessage"}


@pytest.mark.spec("MC-MQDSRP 3.1.1")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2")
@pytest.mark.spec("MC-MQDSRP 3.3.1.1")
def test_what_is_kept_of_partitions_and_neighbours() -> None:
    net = busy()
    kept = {name: host.store.perform(LoadState()) for name, host in net.hosts.items()}
    for state in kept.values():
        assert {one.partition_id for one in state.partitions} == net.partitions("PEC")
        assert all(one.last > MIN for one in state.partitions if not one.owned)
    neighbours = {name: {one.machine_name for one in state.neighbors} for name, state in kept.items()}
    assert neighbours == {"PEC": {"PSC1"}, "PSC1": {"PEC", "BSC1"}, "BSC1": set()}
    (bsc,) = [one for one in kept["PSC1"].neighbors if one.is_bsc]
    assert bsc.last_acked_time > 0
    (pec,) = [one for one in kept["PSC1"].neighbors if not one.is_bsc]
    assert pec.acked > MIN
    (psc,) = kept["PEC"].neighbors
    assert psc.acked_pec > MIN
