"""Acknowledgements, and tombstones that may go: [MC-MQDSRP] 3.1.7.2.9, 3.2.7.4, 3.2.7.5."""

from itertools import pairwise

import pytest
from support.replication.lone_authority import (
    acked,
    authority,
    delete,
    make_cn,
    make_enterprise,
    make_machine,
    make_queue,
    make_site,
    numbers,
    recorded,
)
from support.replication.lone_server import AWAY, HOME, Lone, notes, numbered
from support.replication.network import guid_of

from mqdssm.engines.actions import Note
from mqdssm.engines.replication.actions import Action
from mqdssm.engines.replication.operations import PurgeDeletedObjects, SavePartition
from mqdssm.engines.replication.settings import Role
from mqdssm.model.messages import (
    BSCAckMessage,
    Command,
    PartitionSeqNumbers,
    SeqNumberHeader,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryNeighbor, Service
from mqdssm.model.seqnum import MIN, SequenceNumber


def neighbor(server: Lone, name: str) -> DirectoryNeighbor:
    """What is persisted of a neighbour."""
    return next(one for one in server.state().neighbors if one.machine_name == name)


def tombstone(server: Lone, queue: str, partition_id=HOME) -> bool:
    """Whether there is a tombstone of a queue."""
    return numbers(server, partition_id).get(guid_of(f"queue {queue}"), (0, None))[1] is Command.DELETE


def eager(**settings) -> Lone:
    """An authority that thinks of purging with every change, and a tombstone with number 5."""
    server = authority(purge_interval=0, **({"purge_buffer": 0} | settings))
    make_queue(server, "gone")
    delete(server, ObjectType.QUEUE, HOME, path_name="Desk\\gone")
    return server


@pytest.mark.spec("MC-MQDSRP 3.2.7.4")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.4")
def test_a_psc_acknowledges_our_partitions_one_by_one() -> None:
    server = authority()
    server.got(acked("Other", 2), "Other")
    assert (neighbor(server, "Other").acked, neighbor(server, "Other").acked_pec) == (2, MIN)
    server.got(acked("OTHER", 3, PEC_PARTITION_ID), "Other")
    assert (neighbor(server, "Other").acked, neighbor(server, "Other").acked_pec) == (2, 3)
    assert neighbor(server.again(), "Other").acked == 2


@pytest.mark.spec("MC-MQDSRP 3.2.7.4")
@pytest.mark.parametrize(
    "message", [acked("Stranger", 2), acked("Back", 2), acked("Other", 2, AWAY)], ids=str
)
def test_other_acknowledgements_are_dropped(message) -> None:
    server = authority()
    before = server.state()
    assert notes(server.got(message, "Other")) == ["dropped: an acknowledgement of nothing of ours"]
    assert server.state() == before


@pytest.mark.spec("MC-MQDSRP 3.2.7.4")
def test_who_is_no_psc_is_not_acknowledged() -> None:
    server = Lone(Role.BSC)
    server.answered(sender="Boss")
    assert notes(server.got(acked("Other", 2), "Other")) == ["dropped: an acknowledgement of nothing of ours"]


@pytest.mark.spec("MC-MQDSRP 3.2.7.4")
def test_nobody_acknowledges_what_was_not_given() -> None:
    server = authority()
    server.got(acked("Other", 1000), "Other")
    assert neighbor(server, "Other").acked == 3


@pytest.mark.spec("MC-MQDSRP 3.2.7.4")
def test_an_older_acknowledgement_that_comes_later_changes_nothing() -> None:
    """Decision R158: deleted objects would be kept until the PSC acknowledges the next interval."""
    server = authority()
    for number in (3, 2):
        server.got(acked("Other", number), "Other")
        server.got(acked("Other", number, PEC_PARTITION_ID), "Other")
    assert (neighbor(server, "Other").acked, neighbor(server, "Other").acked_pec) == (3, 3)


@pytest.mark.spec("MC-MQDSRP 3.2.7.5")
def test_a_bsc_is_alive() -> None:
    server = authority()
    message = BSCAckMessage(site_id=HOME, bsc_machine_id=guid_of("machine Back"), bsc_name="BACK")
    assert neighbor(server, "Back").last_acked_time == 0
    server.got(message, "Back", after_s=50)
    assert neighbor(server, "Back").last_acked_time == server.now


@pytest.mark.spec("MC-MQDSRP 3.2.7.5")
def test_a_machine_that_is_no_bsc_of_ours_is_not() -> None:
    server = authority()
    before = server.state()
    for name in ("Stranger", "Other"):
        message = BSCAckMessage(site_id=HOME, bsc_machine_id=guid_of("machine Back"), bsc_name=name)
        assert notes(server.got(message, name)) == ["dropped: an acknowledgement of no BSC of ours"]
    assert server.state() == before


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_what_all_pscs_have_acknowledged_is_purged() -> None:
    server = eager()
    make_queue(server, "q1")
    assert tombstone(server, "gone")  # nobody has acknowledged it
    server.got(acked("Other", 4), "Other")
    make_queue(server, "q2")
    assert tombstone(server, "gone")
    assert server.partition(HOME).purged == 4
    server.got(acked("Other", 5), "Other")
    make_queue(server, "q3")
    assert not tombstone(server, "gone")
    assert server.partition(HOME).purged == 5  # decision R5
    assert numbers(server)[guid_of("queue q3")] == (8, Command.SYNC)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_the_slowest_psc_counts() -> None:
    server = eager()
    make_site(server, "Third", "Far")
    server.got(acked("Other", 5), "Other")
    make_queue(server, "q1")
    assert tombstone(server, "gone")
    server.got(acked("Far", 5), "Far")
    make_queue(server, "q2")
    assert not tombstone(server, "gone")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
@pytest.mark.parametrize(("buffer", "there"), [(2, True), (1, False)])
def test_the_newest_numbers_are_a_buffer(buffer, there) -> None:
    server = eager(purge_buffer=buffer)
    server.got(acked("Other", 5), "Other")
    make_queue(server, "q1")
    assert tombstone(server, "gone") is there  # decision R5: inside the buffer, acknowledged or not
    assert server.partition(HOME).purged == 6 - buffer


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_a_young_partition_has_nothing_outside_the_buffer() -> None:
    server = eager(purge_buffer=1024)
    server.got(acked("Other", 5), "Other")
    make_queue(server, "q1")
    assert server.partition(HOME).purged == MIN  # decision R2: 6 - 1024 is not a large number
    assert tombstone(server, "gone")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_the_enterprise_counts_its_own_acknowledgements() -> None:
    server = eager()
    make_cn(server, "cn")
    delete(server, ObjectType.CN, PEC_PARTITION_ID, path_name="cn")
    server.got(acked("Other", 5), "Other")
    make_cn(server, "cn2")
    assert guid_of("cn") in numbers(server, PEC_PARTITION_ID)
    server.got(acked("Other", 5, PEC_PARTITION_ID), "Other")
    make_cn(server, "cn3")
    assert guid_of("cn") not in numbers(server, PEC_PARTITION_ID)
    assert server.partition(PEC_PARTITION_ID).purged == 5


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_without_other_pscs_nothing_has_to_be_acknowledged() -> None:
    server = Lone(Role.PEC, purge_interval=0, purge_buffer=0)
    make_enterprise(server)
    make_site(server, "Home", "Me")
    make_machine(server, "Me", Service.PEC)
    make_machine(server, "Desk")
    make_queue(server, "gone")
    delete(server, ObjectType.QUEUE, HOME, path_name="Desk\\gone")
    assert not tombstone(server, "gone")
    assert server.partition(HOME).purged == 4


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_purging_is_thought_of_at_intervals() -> None:
    server = authority(purge_interval=4, purge_buffer=0)
    server.got(acked("Other", 3), "Other")
    purged = []
    for n in range(10):
        make_queue(server, f"q{n}")
        server.got(acked("Other", 4 + n), "Other")
        purged.append(int(server.partition(HOME).purged))
    steps = [n for n in range(1, 10) if purged[n] != purged[n - 1]]
    assert {after - before for before, after in pairwise(steps)} == {5}


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_the_number_is_persisted_before_tombstones_go() -> None:
    server = eager()
    server.got(acked("Other", 5), "Other")
    performed = recorded(server)
    make_queue(server, "q1")
    purge = next(n for n, one in enumerate(performed) if isinstance(one, PurgeDeletedObjects))
    saved = [one.partition.purged for one in performed[:purge] if isinstance(one, SavePartition)]
    assert saved == [5]
    assert performed[purge] == PurgeDeletedObjects(partition_id=HOME, up_to=SequenceNumber(5))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_nothing_is_purged_twice() -> None:
    server = eager()
    server.got(acked("Other", 5), "Other")
    make_queue(server, "q1")
    performed = recorded(server)
    make_queue(server, "q2")
    assert not any(isinstance(one, PurgeDeletedObjects) for one in performed)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_a_replica_keeps_tombstones_that_its_authority_keeps() -> None:
    server = Lone(purge_interval=0, purge_buffer=0)
    gone = numbered(
        2,
        command=Command.DELETE,
        guid_identifier=guid_of("cn1"),
        properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(ObjectType.CN))),
    )
    server.told(numbered(1), gone, numbered(3))
    assert guid_of("cn1") in numbers(server, PEC_PARTITION_ID)  # decision R9

    def allowed(purged: int) -> None:
        said = PartitionSeqNumbers(
            partition_id=PEC_PARTITION_ID,
            last_seq_number=SequenceNumber(3),
            purged_seq_number=SequenceNumber(purged),
        )
        header = SeqNumberHeader(machine_name="PEC", partition_seq_numbers=(said,))
        server.told(seq_number_header=header)

    allowed(1)
    assert server.partition().allowed_purge == 1  # decision R12
    server.told(numbered(4, purged_seq_number=SequenceNumber(1)))
    assert guid_of("cn1") in numbers(server, PEC_PARTITION_ID)
    allowed(2)
    server.told(numbered(5, purged_seq_number=SequenceNumber(2)))
    assert guid_of("cn1") not in numbers(server, PEC_PARTITION_ID)
    assert server.partition().purged == 2


SILENCE = "deleted objects are kept for a PSC that does not acknowledge"


def warnings(actions: list[Action]) -> list[str]:
    """Return what the operator was warned of."""
    return [one.detail for one in actions if isinstance(one, Note) and one.is_warning and one.what == SILENCE]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_the_operator_is_told_of_a_psc_for_which_deleted_objects_are_kept() -> None:
    server = eager(purge_buffer=2, ack_interval=3)
    server.got(acked("Other", 3), "Other")
    for n in range(3):  # 6, 7, 8: up to five numbers behind is usual
        assert not warnings(make_queue(server, f"q{n}"))
    told = warnings(make_queue(server, "q3"))
    assert len(told) == 1
    assert told[0].startswith(f"Other has acknowledged 3 of 9 in partition {HOME}")
    server.got(acked("Other", 9), "Other")
    assert not warnings(make_queue(server, "q4"))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_a_replica_does_not_wait_for_pscs() -> None:
    server = Lone(Role.BSC, purge_interval=0, purge_buffer=0, ack_interval=1)
    server.answered(sender="Boss")
    told = [server.told(numbered(n), sender="Boss") for n in range(1, 20)]
    assert server.partition().last == 19
    assert not any(warnings(actions) for actions in told)


@pytest.mark.spec("MC-MQDSRP 3.1.1.2.3")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.4")
def test_status_of_partitions_and_neighbours() -> None:
    server = eager(purge_buffer=2, ack_interval=3)
    server.got(acked("Other", 3), "Other")
    for n in range(4):
        make_queue(server, f"q{n}")
    alive = BSCAckMessage(site_id=HOME, bsc_machine_id=guid_of("machine Back"), bsc_name="Back")
    server.got(alive, "Back", after_s=50)
    before = server.state()
    status = server.engine.report_status(server.now + 7)
    assert server.state() == before
    home = next(one for one in status.partitions if one.partition_id == HOME)
    assert (home.is_owned, home.last, home.purged, home.not_purged, home.missing) == (True, 9, 3, 6, 0)
    rows = {one.machine_name: one for one in status.neighbors}
    assert rows["Back"].silent_s == pytest.approx(7)
    assert rows["Back"].acknowledgements == ()
    assert rows["Other"].silent_s is None
    site = next(one for one in rows["Other"].acknowledgements if one.partition_id == HOME)
    assert (site.acked, site.unacknowledged, site.holds_purging) == (3, 6, True)
    server.got(acked("Other", 9), "Other")
    rows = {one.machine_name: one for one in server.engine.report_status(server.now).neighbors}
    site = next(one for one in rows["Other"].acknowledgements if one.partition_id == HOME)
    assert (site.acked, site.unacknowledged, site.holds_purging) == (9, 0, False)
