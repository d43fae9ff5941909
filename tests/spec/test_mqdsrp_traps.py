"""States that would wait for ever or lose something, if the rules of [MC-MQDSRP] were taken one by one."""

import copy

import pytest
from support.replication.lone_authority import OK
from support.replication.network import Net, all_equal, enterprise, guid_of, with_bsc, with_site

from mqdssm.engines.replication.actions import PropagateChange, Send
from mqdssm.engines.replication.operations import LoadState, UpdateObject
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryNotConnected
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeRequestMessage,
    Command,
    SyncRequestMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition, Service
from mqdssm.testing.memory_store.store import MemoryStore

SITE1 = guid_of("site Site1")
LONG_S = 3000
BSC_TO_PSC = ((Propid.QM_SERVICE, int(Service.PSC)),)


def kept(net: Net, name: str, partition_id=SITE1) -> DirectoryPartition:
    """What a server persisted of a partition."""
    found = net.hosts[name].store.perform(LoadState()).partitions
    return next(one for one in found if one.partition_id == partition_id)


def owners(net: Net, partition_id=SITE1) -> list[str]:
    return [name for name, host in net.hosts.items() if host.engine.read_next_number(partition_id) > 0]


def world(**settings) -> Net:
    """PEC, PSC1 with BSC1, PSC2; a machine C14 in Site1."""
    net = enterprise(**({"header_s": 60.0} | settings))
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    with_site(net, "Site2", "PSC2")
    assert net.create_machine("C14", "Site1", "PSC1").status == Hresult.MQ_OK
    net.run(100)
    return net


def queues(net: Net, *names: str, at: str = "PSC1", pause_s: float = 0) -> None:
    for name in names:
        assert net.create_queue("C14", name, "Site1", at).status == Hresult.MQ_OK
        net.run(pause_s)


def hand_over(net: Net) -> None:
    made = net.change(
        "PSC1",
        Command.UPDATE,
        ObjectType.MACHINE,
        path_name="BSC1",
        partition_id=SITE1,
        properties=BSC_TO_PSC,
    )
    assert made.status == Hresult.MQ_OK


def has(net: Net, server: str, queue: str) -> bool:
    return guid_of(f"queue C14\\{queue}") in net.content(server, SITE1)


def warnings(net: Net, name: str) -> list[str]:
    return [one.what for one in net.hosts[name].notes if one.is_warning]


def restored(net: Net, name: str, *made_since: str) -> None:
    """Take a server back to an old copy of its directory."""
    net.run(100)
    old = copy.deepcopy(net.hosts[name].store._kept)
    queues(net, *made_since)
    net.run(200)
    net.hosts[name].store._kept = old


@pytest.mark.parametrize("restart", [False, True])
def test_a_restored_authority_does_not_go_on_at_its_old_number(restart) -> None:
    net = world()
    queues(net, "before")
    restored(net, "PSC1", "q1", "q2", "q3")
    if restart:  # it has stepped down, and not yet synchronized
        net.drop = lambda source, send: source == "PSC1" and isinstance(send.message, SyncRequestMessage)
        net.restart("PSC1")
        net.run(100)
        assert owners(net) == []
        net.restart("PSC1")
        assert owners(net) == []  # decision R39
        net.drop = lambda _source, _send: False
    else:
        net.restart("PSC1")
    net.run(30)
    reply = net.create_queue("C14", "after", "Site1", "PSC2")
    net.run(LONG_S)
    assert reply.status == OK or restart
    assert owners(net) == ["PSC1"]
    assert all(has(net, "PSC1", name) for name in ("before", "q1", "q2", "q3"))
    assert all_equal(net)


def test_a_restored_authority_is_told_by_the_pec() -> None:
    """Others warn it (decision R107)."""
    net = world()
    restored(net, "PSC1", "q1", "q2")
    net.drop = lambda source, send: "PEC" in {source, send.destination}
    net.restart("PSC1")
    net.run(LONG_S)
    assert "somebody claims to know more of our partition than we do" in warnings(net, "PSC1")
    assert kept(net, "PSC1").owned
    assert kept(net, "PSC1").last < 20
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]
    assert kept(net, "PSC1").last > 1 << 20  # decision R39: far behind what anybody may know
    assert all_equal(net)


def test_a_pec_that_was_replaced_does_not_become_it_again() -> None:
    net = world()
    away = net.stop("PEC")
    assert net.take_over("PSC1", PEC_PARTITION_ID).status == OK
    net.run(500)
    assert net.name_authority("PSC2", PEC_PARTITION_ID, "PSC1").status == OK
    net.hosts["PEC"] = away
    net.drop = lambda source, send: source == "PEC" and isinstance(send.message, SyncRequestMessage)
    net.restart("PEC")
    net.run(200)
    assert "somebody claims to know more of our partition than we do" in warnings(net, "PEC")
    assert net.name_authority("PEC", PEC_PARTITION_ID, "PSC1").status == OK
    for _ in range(2):
        net.run(200)
        assert owners(net, PEC_PARTITION_ID) == ["PSC1"]
        net.restart("PEC")
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert all_equal(net)


def test_a_successor_that_lost_its_disk_is_whole_before_it_goes_on() -> None:
    net = world(message_changes_max=4)
    hand_over(net)
    net.run(500)
    queues(net, *(f"q{n}" for n in range(20)), at="BSC1")
    net.run(500)
    net.stop("BSC1")
    net.server("BSC1", Role.BSC, "Site1", psc="PSC1", store=MemoryStore())
    for _ in range(100_000):
        net.run(0.002)
        if owners(net):
            break
    assert owners(net) == ["BSC1"]
    assert all(has(net, "BSC1", f"q{n}") for n in range(20))
    queues(net, "later", at="BSC1")
    net.run(LONG_S)
    assert all_equal(net)


def test_the_enterprise_is_not_inherited_half() -> None:
    net = world(message_changes_max=2)
    for n in range(8):
        net.create_site(f"X{n}", "")
    net.run(200)
    net.stop("PEC")
    net.server("PEC", Role.PEC, "Site0", store=MemoryStore())  # a new disk
    net.run(LONG_S)
    net.restart("PEC")
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert net.create_site("Later", "").status == OK
    net.run(LONG_S)
    assert guid_of("site X7") in net.content("PEC", PEC_PARTITION_ID)
    assert all_equal(net)


def test_a_service_that_hands_over_leaves_one_owner() -> None:
    net = world()
    psc = net.hosts["PSC1"]
    number = psc.engine.read_next_number(SITE1)
    identifier = guid_of("machine BSC1")
    written = UpdateObject(
        object_type=ObjectType.MACHINE,
        path_name=None,
        identifier=identifier,
        properties=BSC_TO_PSC,
        partition_id=SITE1,
        seq_number=number,
    )
    assert psc.store.perform(written).status == OK
    event = PropagateChange(
        request=1,
        command=Command.UPDATE,
        object_type=ObjectType.MACHINE,
        identifier=identifier,
        partition_id=SITE1,
        seq_number=number,
    )
    net._put("PSC1", event, 0)
    net.run(100)
    assert owners(net) == ["BSC1"]  # decision R38


def test_a_site_whose_psc_never_came_can_be_removed() -> None:
    net = enterprise()
    net.create_site("Site9", "Nobody")
    identifier = guid_of("site Site9")
    net.run(100)
    assert net.take_over("PEC", identifier).status == Hresult.MQ_ERROR_ILLEGAL_OPERATION

    def remove() -> int:
        return net.change(
            "PEC", Command.DELETE, ObjectType.SITE, identifier=identifier, partition_id=PEC_PARTITION_ID
        ).status

    assert remove() == Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS  # it may be on its way
    net.change(
        "PEC",
        Command.UPDATE,
        ObjectType.SITE,
        identifier=identifier,
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.S_PSC, ""),),
    )
    assert remove() == OK
    assert identifier not in net.partitions("PEC")


def test_a_psc_whose_name_was_wrong_at_first() -> None:
    net = enterprise(header_s=60.0)
    net.create_site("Site1", "Wrong")
    net.server("PSC1", Role.PSC, "Site1")
    net.run(200)
    assert owners(net) == []
    net.change(
        "PEC",
        Command.UPDATE,
        ObjectType.SITE,
        identifier=SITE1,
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.S_PSC, "PSC1"),),
    )
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]  # decision R43


def test_a_bsc_that_its_psc_does_not_know_hears_the_outcome() -> None:
    net = world()
    net.drop = lambda source, send: source == "New" and not _is_request(send)
    net.restart("BSC1", as_name="New")
    net.run(100)
    assert net.create_queue("C14", "q", "Site1", "New").status == OK


def _is_request(send: Send) -> bool:
    message = send.message
    return isinstance(message, ChangeRequestMessage) and message.directory_change.command is Command.CREATE


def test_a_reply_by_a_shorter_way_is_taken() -> None:
    net = world()
    net.drop = lambda source, send: (
        send.destination == "PEC"
        and (isinstance(send.message, ChangePropagationMessage) or (source == "BSC1" and _claims(send)))
    )
    hand_over(net)
    net.run(5)
    assert kept(net, "PEC").authority_name == "PSC1"
    # PEC asks PSC1, which it takes for the authority; PSC1 asks BSC1; BSC1 knows PEC, and tells it directly
    assert net.create_queue("C14", "q", "Site1", "PEC").status == OK


def _claims(send: Send) -> bool:
    return isinstance(send.message, ChangeRequestMessage)


def test_take_over_of_the_enterprise_survives_a_crash_in_the_middle() -> None:
    net = world()
    net.stop("PEC")
    psc = net.hosts["PSC1"]
    perform = psc.store.perform

    def cut(operation):
        if isinstance(operation, UpdateObject):
            raise DirectoryNotConnected("the power is gone")
        return perform(operation)

    psc.store.perform = cut
    with pytest.raises(DirectoryNotConnected):
        net.take_over("PSC1", PEC_PARTITION_ID)
    psc.store.perform = perform
    net.restart("PSC1")
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PSC1"]


def test_a_pec_with_a_new_disk_gives_no_number_again() -> None:
    net = world()
    net.drop = lambda source, send: source == "PEC" and send.destination == "PSC1"
    for n in range(3):
        assert net.create_site(f"X{n}", "").status == OK
    net.run(100)
    net.stop("PEC")
    # whom it hears first lacks what another one has
    net.drop = lambda source, send: "PSC2" in {source, send.destination}
    net.server("PEC", Role.PEC, "Site0", store=MemoryStore())
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert kept(net, "PEC", PEC_PARTITION_ID).last > 1 << 20  # decisions R39 and R43
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert all_equal(net)
