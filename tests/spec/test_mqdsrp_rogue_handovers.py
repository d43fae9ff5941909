"""A handover to a server that starts or synchronizes is no loss of its disk, nor the reverse (R140, R160)."""

import copy
from dataclasses import replace

import pytest
from support.replication.lying_servers import LONG_S, OK, SITE1, kept, silenced, world
from support.replication.network import SETTLE_S, Net, all_equal, guid_of, objects, with_bsc

from mqdssm.engines.replication.actions import Resynchronize, Send
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.succession import GAP, PREDECESSOR_TRIES
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, SyncReplyMessage, SyncRequestMessage
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service

HANDOVERS = {"site": ("PSC1", "BSC1", "BSC3", SITE1), "enterprise": ("PEC", "PSC1", "BSC1", PEC_PARTITION_ID)}
"""Predecessor, successor, a BSC of the successor's site that would lie, and the partition."""


def begun(what: str, how: str) -> Net:
    """A handover has arrived at a successor that starts or synchronizes; its predecessor is not heard."""
    net = world()
    with_bsc(net, "Site1", "BSC3", "PSC1")
    predecessor, successor, _, partition_id = HANDOVERS[what]
    net.drop = lambda source, send: (
        source == predecessor and send.destination == successor and isinstance(send.message, SyncReplyMessage)
    )
    if how == "restarted":
        net.restart(successor)
    else:
        net._put(successor, Resynchronize(request=1, partition_id=partition_id), 0)
        net.run(1)
        net.drop = lambda _source, _send: False
        net.run(1)  # all has come, and it has not asked whether that was all
    hand_over(net, what)
    if how == "sync0":
        net.drop = lambda source, send: source == predecessor and isinstance(send.message, SyncReplyMessage)
    return net


def hand_over(net: Net, what: str) -> None:
    predecessor, successor, _, partition_id = HANDOVERS[what]
    kind, identifier, properties = ObjectType.ENTERPRISE, guid_of("enterprise"), ((Propid.E_PECNAME, "PSC1"),)
    if what == "site":
        kind, identifier = ObjectType.MACHINE, guid_of(f"machine {successor}")
        properties = ((Propid.QM_SERVICE, int(Service.PSC)),)
    made = net.change(
        predecessor,
        Command.UPDATE,
        kind,
        identifier=identifier,
        partition_id=partition_id,
        properties=properties,
    )
    assert made.status == OK


def owns(net: Net, name: str, partition_id: Guid) -> bool:
    return net.hosts[name].engine.read_next_number(partition_id) > 0


def asked(net: Net, successor: str, partition_id: Guid, since: int) -> set[str]:
    """Return whom a server asked for a partition."""
    return {
        to
        for source, to, message in net.sent[since:]
        if source == successor
        and isinstance(message, SyncRequestMessage)
        and message.partition_id == partition_id
    }


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
@pytest.mark.parametrize("how", ["restarted", "sync0"])
@pytest.mark.parametrize("what", HANDOVERS)
def test_a_handover_is_taken_from_the_predecessor_alone(what: str, how: str) -> None:
    """A BSC that was asked could say that there is nothing, or numbers that nobody has."""
    _, successor, liar, partition_id = HANDOVERS[what]
    net = begun(what, how)
    since = len(net.sent)
    net.run(20)
    before = objects(net, successor, partition_id)
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert liar not in asked(net, successor, partition_id, since)
    assert owns(net, successor, partition_id)
    assert kept(net, successor, partition_id).last < GAP
    assert before.keys() <= objects(net, successor, partition_id).keys()
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
@pytest.mark.parametrize("what", HANDOVERS)
def test_a_handover_is_taken_from_a_predecessor_that_answers_late(what: str) -> None:
    """Decision R190: after any number of questions without an answer."""
    predecessor, successor, liar, partition_id = HANDOVERS[what]
    net = begun(what, "restarted")
    answering: set[str] = set()
    net.drop = lambda source, send: (
        send.destination == successor
        and isinstance(send.message, SyncReplyMessage)
        and source not in answering
    )
    since = len(net.sent)
    net.run(LONG_S)
    questions = [
        message
        for source, _, message in net.sent[since:]
        if source == successor
        and isinstance(message, SyncRequestMessage)
        and message.partition_id == partition_id
    ]
    assert len(questions) > PREDECESSOR_TRIES
    answering.add(predecessor)
    net.run(LONG_S)
    assert liar not in asked(net, successor, partition_id, since)
    assert owns(net, successor, partition_id)
    assert kept(net, successor, partition_id).last < GAP


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_predecessor_that_is_lost_is_not_waited_for_without_end() -> None:
    """Decision R104 holds again: its BSCs heard of its changes before anybody else."""
    net = begun("site", "restarted")
    net.run(20)
    silenced(net, "PSC1")
    since = len(net.sent)
    net.run(2 * LONG_S)
    assert {"BSC3"} <= asked(net, "BSC1", SITE1, since)
    assert owns(net, "BSC1", SITE1)
    assert kept(net, "BSC1", SITE1).last > GAP


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
def test_a_new_disk_stays_one_until_it_is_whole() -> None:
    """Decision R104: a PSC that restarts in its first synchronization loses nothing that its BSC has."""
    net = world()
    quota = net.change(
        "PSC1",
        Command.UPDATE,
        ObjectType.MACHINE,
        path_name="PSC1",
        partition_id=SITE1,
        properties=((Propid.QM_QUOTA, 7),),
    )
    assert quota.status == OK  # the last that the PEC hears: the object that names the PSC
    net.run(SETTLE_S)
    net.drop = lambda source, send: source == "PSC1" and send.destination in {"PEC", "PSC2"}
    assert net.create_queue("C14", "known to BSC1", "Site1", "PSC1").status == OK
    net.run(SETTLE_S)
    net.stop("PSC1")
    net.run(SETTLE_S)
    heard: list[Send] = []

    def is_second(source: str, send: Send) -> bool:
        """Return True for all answers about the site but the first one."""
        message = send.message
        if source == "PEC" and isinstance(message, SyncReplyMessage) and message.partition_id == SITE1:
            heard.append(send)
            return len(heard) > 1
        return source == "BSC1"

    net.drop = is_second
    net.server("PSC1", Role.PSC, "Site1")
    net.run(2)
    assert len(heard) > 1
    net.drop = lambda _source, _send: False
    net.restart("PSC1")
    net.run(LONG_S)
    assert owns(net, "PSC1", SITE1)
    assert guid_of("queue C14\\known to BSC1") in objects(net, "PSC1", SITE1)
    assert all_equal(net)


def cut_off(net: Net, name: str) -> None:
    """Let a server hear nothing, and be heard by nobody."""
    net.drop = lambda source, send: name in {source, send.destination}


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
@pytest.mark.parametrize("crashes", [False, True])
def test_a_restored_pec_asks_its_bscs_about_the_enterprise(crashes: bool) -> None:
    """Decisions R160, R161: also after a crash soon behind its start with `restored`."""
    net = world()
    with_bsc(net, "Site0", "BSC0", "PEC")
    old = copy.deepcopy(net.hosts["PEC"].store._kept)
    properties = ((Propid.E_LONG_LIVE, 7),)
    enterprise = {"identifier": guid_of("enterprise"), "partition_id": PEC_PARTITION_ID}
    kind = ObjectType.ENTERPRISE
    assert net.change("PEC", Command.UPDATE, kind, properties=properties, **enterprise).status == OK
    net.run(SETTLE_S)  # the last that PSCs hear: the object that names the PEC
    net.drop = lambda source, send: source == "PEC" and send.destination.startswith("PSC")
    assert net.create_network("known to BSC0", "PEC").status == OK
    net.run(SETTLE_S)
    cut_off(net, "PEC")
    net.hosts["PEC"].store._kept = old
    net.hosts["PEC"].settings = replace(net.hosts["PEC"].settings, restored=True)
    net.restart("PEC")
    assert not owns(net, "PEC", PEC_PARTITION_ID)
    net.drop = lambda _source, _send: False
    if crashes:
        net.hosts["PEC"].settings = replace(net.hosts["PEC"].settings, restored=False)
        net.restart("PEC")
    net.run(LONG_S)
    assert owns(net, "PEC", PEC_PARTITION_ID)
    assert kept(net, "PEC", PEC_PARTITION_ID).last > GAP
    assert guid_of("network known to BSC0") in objects(net, "PEC", PEC_PARTITION_ID)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_a_restart_makes_no_handover_of_a_step_down() -> None:
    """Decision R160: the same, where an old copy was found to be one."""
    net = world()
    old = copy.deepcopy(net.hosts["PSC1"].store._kept)
    quota = {"path_name": "PSC1", "partition_id": SITE1, "properties": ((Propid.QM_QUOTA, 7),)}
    assert net.change("PSC1", Command.UPDATE, ObjectType.MACHINE, **quota).status == OK
    net.run(SETTLE_S)  # the last that the PEC hears: the object that names the PSC
    net.drop = lambda source, send: source == "PSC1" and send.destination in {"PEC", "PSC2"}
    assert net.create_queue("C14", "known to BSC1", "Site1", "PSC1").status == OK
    net.run(SETTLE_S)
    net.hosts["PSC1"].store._kept = old
    net.drop = lambda source, send: source == "BSC1" or isinstance(send.message, SyncReplyMessage)
    net.restart("PSC1")
    net.run(SETTLE_S)
    assert not owns(net, "PSC1", SITE1)
    net.drop = lambda _source, _send: False
    net.restart("PSC1")
    net.run(LONG_S)
    assert owns(net, "PSC1", SITE1)
    assert kept(net, "PSC1", SITE1).last > GAP
    assert guid_of("queue C14\\known to BSC1") in objects(net, "PSC1", SITE1)
    assert all_equal(net)
