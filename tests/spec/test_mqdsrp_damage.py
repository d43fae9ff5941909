"""Entries that somebody has damaged: what needs them is given up and tried again, all else goes on (R83)."""

from collections.abc import Callable
from typing import Any

import pytest
from support.replication.lone_authority import OK
from support.replication.network import Net, all_equal, enterprise, guid_of, with_bsc, with_site

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import Received
from mqdssm.engines.replication.directory_failures import AGAIN_S
from mqdssm.engines.replication.state import FINISH_S
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import AlreadyPurgedMessage, Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.memory_store.store import MemoryStore

SITE1 = guid_of("site Site1")
LONG_S = 3000
STATUSES: dict[type, Any] = {
    **dict.fromkeys(
        (ops.CreateObject, ops.UpdateObject, ops.DeleteObject),
        ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_ERROR),
    ),
    ops.ApplyChanges: ops.Applied(count=0, status=Hresult.MQ_ERROR_DS_ERROR),
}
UNTOUCHED = (ops.LoadState, ops.SavePartition, ops.SaveNeighbor, ops.RemoveNeighbor, ops.RemovePartition)
"""Operations on the state of the protocol: what is damaged is objects."""


class Damaged:
    """A store of which some operations come upon damaged entries."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.is_hurt: Callable[[Any], bool] = lambda _operation: False
        self.hurt = 0

    def perform(self, operation: Any) -> Any:
        if not self.is_hurt(operation):
            return self.store.perform(operation)
        self.hurt += 1
        return STATUSES.get(type(operation), ops.Failed(reason="cn=x: mqisSeqNumber is none"))

    def restart(self) -> "Damaged":
        made = Damaged(self.store.restart())
        made.is_hurt = self.is_hurt
        return made


def of_type(*types: type) -> Callable[[Any], bool]:
    return lambda operation: isinstance(operation, types)


def world() -> Net:
    """PEC, PSC1 with BSC1, PSC2; a machine C14 in Site1."""
    net = enterprise(header_s=60.0)
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    with_site(net, "Site2", "PSC2")
    assert net.create_machine("C14", "Site1", "PSC1").status == OK
    net.run(100)
    for host in net.hosts.values():
        host.store = Damaged(host.store)
    return net


def store_of(net: Net, name: str) -> Any:
    return net.hosts[name].store


def notes(net: Net, name: str) -> list[str]:
    return [one.what for one in net.hosts[name].notes]


def queue(net: Net, name: str, at: str = "PSC1") -> int:
    return net.create_queue("C14", name, "Site1", at).status


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_who_cannot_read_one_partition_answers_about_the_others() -> None:
    net = world()
    store_of(net, "PSC1").is_hurt = lambda operation: (
        isinstance(operation, ops.LookupChanges) and operation.partition_id == SITE1
    )
    net.drop = lambda source, _send: source == "PSC1"
    assert queue(net, "q1") == OK
    net.run(20)
    net.drop = lambda _source, _send: False
    assert net.create_site("X", "").status == OK
    net.run(LONG_S)
    assert guid_of("site X") in net.content("BSC1", PEC_PARTITION_ID)
    assert guid_of(r"queue C14\q1") not in net.content("PEC", SITE1)
    assert "given up: the directory is damaged" in notes(net, "PSC1")
    store_of(net, "PSC1").is_hurt = of_type()
    net.run(LONG_S)
    assert guid_of(r"queue C14\q1") in net.content("PEC", SITE1)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
@pytest.mark.parametrize("broken", [ops.ListObjects, ops.ApplyChanges])
def test_a_replica_takes_what_it_could_not_when_that_is_mended(broken) -> None:
    net = world()
    store_of(net, "PSC2").is_hurt = of_type(broken)
    assert net.create_site("Site3", "PSC3").status == OK
    net.run(LONG_S)
    assert "psc3" not in net.hosts["PSC2"].engine._server.pscs
    assert store_of(net, "PSC2").hurt < LONG_S / 10, "no hot loop"
    store_of(net, "PSC2").is_hurt = of_type()
    net.run(LONG_S)
    assert "psc3" in net.hosts["PSC2"].engine._server.pscs
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_a_client_is_told_that_its_change_may_have_been_made() -> None:
    net = world()
    store_of(net, "PEC").is_hurt = of_type(ops.ListObjects)
    assert net.create_site("Site3", "PSC3").status == Hresult.MQDS_NO_RSP_FROM_OWNER
    assert "psc3" not in net.hosts["PEC"].engine._server.pscs
    store_of(net, "PEC").is_hurt = of_type()
    net.run(2 * AGAIN_S)
    assert "psc3" in net.hosts["PEC"].engine._server.pscs, "neighbours are derived again"
    assert net.create_site("Site4", "").status == OK
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
@pytest.mark.parametrize("broken", [ops.Recover, ops.ListObjects, ops.ReadObject])
def test_a_start_is_tried_again(broken) -> None:
    net = world()
    assert queue(net, "q1") == OK
    store_of(net, "PSC1").is_hurt = of_type(broken)
    net.restart("PSC1")
    assert queue(net, "q2") == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    net.run(3 * AGAIN_S)
    assert queue(net, "q2") == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    store_of(net, "PSC1").is_hurt = of_type()
    net.run(2 * AGAIN_S)
    assert queue(net, "q2") == OK
    net.run(LONG_S)
    numbers = [number for number, *_ in net.content("PSC1", SITE1).values()]
    assert len(set(numbers)) == len(numbers), "no number is given twice"
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize("broken", [ops.MarkPartition, ops.SweepPartition])
def test_a_full_synchronization_goes_on_where_it_was_given_up(broken) -> None:
    net = world()
    store = store_of(net, "PSC2")
    store.is_hurt = of_type(broken)
    net.drop = lambda source, send: source == "PSC1" and send.destination == "PSC2"
    assert [queue(net, name) for name in ("q1", "q2", "q3")] == [OK] * 3
    net.run(30)
    net.drop = lambda _source, _send: False
    last = max(number for number, *_ in net.content("PSC1", SITE1).values())
    purged = AlreadyPurgedMessage(site_id=SITE1, partition_id=SITE1, purged_seq_number=last)
    net._put("PSC2", Received(message=purged, sender="PSC1"), 0)
    net.run(LONG_S)
    state = next(one for one in store.perform(ops.LoadState()).partitions if one.partition_id == SITE1)
    assert state.purge_state is not PurgeState.NORMAL
    assert 1 < store.hurt < LONG_S / 10
    assert net.create_site("X", "").status == OK
    net.run(100)
    assert guid_of("site X") in net.content("PSC2", PEC_PARTITION_ID), "other partitions go on"
    store.is_hurt = of_type()
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_given_up_and_when_all_copies_become_equal(seed) -> None:
    """Any operation may come upon damage, at every server, while the enterprise is changed."""
    net = world()
    rng = SeededRandom("damage", seed)
    untouched = of_type(*UNTOUCHED)
    for host in net.hosts.values():
        host.store.is_hurt = lambda operation: not untouched(operation) and rng.draw_one_in(6)
    done = []
    for n in range(30):
        match rng.draw_below(8):
            case 0:
                net.restart(rng.of(list(net.hosts)))
            case 1:
                net.create_site(f"S{n}", "")
            case _:
                done.append((n, queue(net, f"q{n}")))
        net.run(rng.draw_below(60))
    assert any(host.store.hurt for host in net.hosts.values())
    for host in net.hosts.values():
        host.store.is_hurt = of_type()
    net.run(2 * LONG_S)
    there = net.content("PSC1", SITE1)
    for n, status in done:
        found = guid_of(f"queue C14\\q{n}") in there
        if status != Hresult.MQDS_NO_RSP_FROM_OWNER:
            assert found is (status == OK), (n, status)
    assert queue(net, "last") == OK
    net.run(LONG_S)
    assert all_equal(net)


def _with_doubt(net: Net) -> Callable[[Any], Any]:
    """Make the newest entry of Site1 unreadable at its owner; return how its store read before."""
    last = net.hosts["PSC1"].engine._server.partitions[SITE1].last
    store = store_of(net, "PSC1")
    read = store.perform

    def perform(operation: Any) -> Any:
        result = read(operation)
        if isinstance(operation, ops.Recover) and operation.partition_id == SITE1:
            return ops.Recovered(highest=SequenceNumber(last - 1), doubtful=SequenceNumber(255))
        return result

    store.restart = lambda: store
    store.perform = perform
    return read


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
def test_a_number_that_nobody_can_read_is_not_given_again() -> None:
    """Decision R110."""
    net = world()
    assert queue(net, "q1") == OK
    _with_doubt(net)
    net.restart("PSC1")
    net.run(60)
    assert queue(net, "q2") == OK
    assert net.hosts["PSC1"].engine._server.partitions[SITE1].last == 256
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
def test_a_number_that_others_were_told_of_stays_when_the_entry_is_mended() -> None:
    """Decision R155: replicas have it as their last number, and would drop what comes below it."""
    net = world()
    assert queue(net, "q1") == OK
    read = _with_doubt(net)
    net.restart("PSC1")
    net.run(LONG_S)
    assert net.hosts["PEC"].engine._server.partitions[SITE1].last == 255
    store_of(net, "PSC1").perform = read
    net.restart("PSC1")
    net.run(60)
    assert queue(net, "q2") == OK
    assert net.hosts["PSC1"].engine._server.partitions[SITE1].last == 256
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.parametrize("first", ["again", "start", "update"])
def test_a_psc_that_was_named_before_its_sites_entry_was_damaged_is_followed(first) -> None:
    """Decision R195 (seed 840833): the PEC asked the lost PSC for ever, and named that again.

    The PEC goes on behind the numbers that the entry may have, and another site is handed over meanwhile.
    """
    net = world()
    with_bsc(net, "Site2", "BSC2", "PSC2")
    net.stop("PSC1")
    assert net.take_over("BSC1", SITE1).status == OK
    store = store_of(net, "PEC")
    perform = store.perform

    def damaged(operation: Any) -> Any:
        if isinstance(operation, ops.Recover) and operation.partition_id == PEC_PARTITION_ID:
            return ops.Recovered(highest=SequenceNumber(1), doubtful=SequenceNumber(255))
        is_site = getattr(operation, "object_type", None) is ObjectType.SITE
        if is_site and isinstance(operation, ops.ReadObject | ops.ListObjects):
            return ops.Failed(reason="damaged")
        return perform(operation)

    def until_it_is_written(operation: Any) -> Any:
        result = perform(operation)
        if isinstance(operation, ops.UpdateObject) and operation.object_type is ObjectType.SITE:
            store.perform = damaged
        return result

    store.perform = until_it_is_written
    assert net.name_psc("Site1", "BSC1").status == Hresult.MQDS_NO_RSP_FROM_OWNER
    service = ((Propid.QM_SERVICE, int(Service.PSC)),)
    given = {"identifier": guid_of("machine BSC2"), "partition_id": guid_of("site Site2")}
    assert net.change("PSC2", Command.UPDATE, ObjectType.MACHINE, properties=service, **given).status == OK
    net.run(30)
    assert (believed(net, SITE1), believed(net, guid_of("site Site2"))) == ("PSC1", "BSC2")
    store.perform = perform
    net.drop = lambda source, _send: source == "BSC1"  # nobody else tells the PEC (R187)
    if first == "start":
        net.restart("PEC")
    elif first == "update":
        interval = ((Propid.S_INTERVAL1, 17),)
        given = {"identifier": SITE1, "partition_id": PEC_PARTITION_ID}
        assert net.change("PEC", Command.UPDATE, ObjectType.SITE, properties=interval, **given).status == OK
    net.run(2 * AGAIN_S)
    assert believed(net, SITE1) == "BSC1"
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert believed(net, guid_of("site Site2")) == "BSC2"
    assert queue(net, "q1", at="BSC1") == OK
    net.run(LONG_S)
    assert all_equal(net)


def believed(net: Net, partition_id: Guid) -> str:
    """The authority of a partition that the PEC has persisted."""
    partitions = store_of(net, "PEC").perform(ops.LoadState()).partitions
    return next(one.authority_name for one in partitions if one.partition_id == partition_id)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
def test_a_change_whose_entry_cannot_be_read_may_have_its_number() -> None:
    """Decision R159: it was written, its answer was lost, and somebody damaged the entry meanwhile."""
    net = world()
    assert queue(net, "q1") == OK
    server = net.hosts["PSC1"].engine._server
    number = server.partitions[SITE1].last.next()
    store = store_of(net, "PSC1")
    write = store.perform

    def perform(operation: Any) -> Any:
        if isinstance(operation, ops.UpdateObject):
            return ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_ERROR) if write(operation) else None
        result = write(operation)
        if isinstance(operation, ops.Recover) and operation.partition_id == SITE1:
            return ops.Recovered(highest=SequenceNumber(number - 1), doubtful=SequenceNumber(255))
        return result

    store.perform = perform
    given = {"identifier": guid_of(r"queue C14\q1"), "partition_id": SITE1}
    label = ((Propid.Q_LABEL, "changed"),)
    reply = net.change("PSC1", Command.UPDATE, ObjectType.QUEUE, properties=label, **given)
    assert reply.status == Hresult.MQDS_NO_RSP_FROM_OWNER
    assert queue(net, "q2") == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    net.run(FINISH_S)
    assert queue(net, "q2") == OK
    assert server.partitions[SITE1].last == 256
    net.run(LONG_S)
    assert all_equal(net)
