"""What a server does with changes of others: [MC-MQDSRP] 3.1.5, 3.1.7.2.2-3.1.7.2.8, 3.2.7.1, 3.3.7.5."""

from dataclasses import replace

import pytest
from support.replication.lone_server import (
    AWAY,
    HOME,
    Lone,
    kinds,
    notes,
    numbered,
    sends,
    site,
    timers,
)
from support.replication.network import guid_of

from mqdssm.engines.replication.actions import Reply, TakeOver
from mqdssm.engines.replication.operations import ApplyChanges, MarkPartition, SavePartition
from mqdssm.engines.replication.settings import Role
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    ChangePropagationMessage,
    Command,
    CompleteSync0,
    PartitionSeqNumbers,
    Scope,
    SeqNumberHeader,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition, PurgeState
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber


def number(value: int) -> SequenceNumber:
    return SequenceNumber(value)


def header(last: int, purged: int = 0, partition_id=PEC_PARTITION_ID, name: str = "PEC") -> SeqNumberHeader:
    numbers = PartitionSeqNumbers(
        partition_id=partition_id, last_seq_number=number(last), purged_seq_number=number(purged)
    )
    return SeqNumberHeader(machine_name=name, partition_seq_numbers=(numbers,))


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.3")
@pytest.mark.spec("MC-MQDSRP 3.1.1.3")
@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
def test_a_new_psc_asks_for_the_enterprise() -> None:
    server = Lone()
    assert server.state().partitions == (
        DirectoryPartition(partition_id=PEC_PARTITION_ID, authority_name="PEC", is_new=True),
    )
    (asked,) = sends(server.all)
    assert (asked.destination, asked.timeout_s, asked.priority, asked.ack_requested) == ("PEC", 1200, 3, True)
    request = asked.message
    assert (request.from_seq_number, request.to_seq_number, request.known_purged_seq_number) == (
        MIN,
        MAX,
        MIN,
    )
    assert (request.is_sync0, request.scope, request.requester_name) == (False, Scope.ENTERPRISE, "Me")


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
@pytest.mark.spec("MC-MQDSRP 3.1.1.1")
@pytest.mark.spec("MC-MQDSRP 3.3.3")
def test_a_bsc_asks_its_psc_for_everything() -> None:
    server = Lone(Role.BSC)
    assert kinds(server.all) == [("SyncRequestMessage", "Boss")]
    assert sends(server.all)[0].message.scope is Scope.SITE
    assert timers(server.all)["bscack"] == 5.0
    made = server.answered(site(1, "Away", "Other"), sender="Boss")
    assert ("SyncRequestMessage", "Boss") in kinds(made)


@pytest.mark.spec("MC-MQDSRP 3.1.5.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
def test_changes_in_order_are_applied() -> None:
    server = Lone()
    server.told(numbered(1), numbered(2), numbered(3))
    assert server.partition().last == 3
    assert server.has("cn3")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_a_change_that_is_known_is_dropped() -> None:
    server = Lone()
    server.told(numbered(1), numbered(2, name="cn1", guid_identifier=guid_of("cn1")))
    server.told(numbered(1, name="old", guid_identifier=guid_of("cn1")))
    assert dict(server.has("cn1"))[Propid.CN_NAME] == "cn1"
    assert server.partition().last == 2


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.4")
def test_a_change_that_comes_too_early_waits() -> None:
    server = Lone()
    server.answered()
    made = server.told(numbered(3))
    assert server.has("cn3") is None
    assert kinds(made) == [("SyncRequestMessage", "PEC")]
    server.told(numbered(1), numbered(2))
    assert server.has("cn3")
    assert server.partition().last == 3


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.4")
def test_changes_that_wait_are_applied_in_order_whichever_came_first() -> None:
    server = Lone()
    server.answered()
    server.told(numbered(4))
    server.told(numbered(3))
    server.told(numbered(2))
    server.told(numbered(1))
    assert server.partition().last == 4


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_not_more_than_a_hundred_changes_wait() -> None:
    server = Lone()
    server.told(*(numbered(n) for n in range(2, 200)))
    server.told(numbered(1))
    assert server.partition().last == 101


@pytest.mark.spec("MC-MQDSRP 3.1.5.2")
def test_changes_of_an_unknown_partition_are_dropped() -> None:
    server = Lone()
    assert notes(server.told(numbered(1, partition_id=AWAY))) == ["dropped: changes of an unknown partition"]


@pytest.mark.spec("MC-MQDSRP 5.1")
def test_only_the_authority_is_believed() -> None:
    server = Lone()
    assert notes(server.told(numbered(1), sender="Mallory")) == [
        "dropped: changes from a machine that is not asked"
    ]
    assert server.has("cn1") is None
    assert server.answered(numbered(1), sender="Mallory")
    assert server.has("cn1") is None
    server.told(numbered(1), sender="pec")  # names of machines have no case
    assert server.has("cn1")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
def test_an_update_of_what_is_missing_is_synchronized() -> None:
    server = Lone(sync_wait_s=30.0)
    server.answered()
    made = server.told(numbered(5, 0, command=Command.UPDATE, properties=((Propid.CN_NAME, "renamed"),)))
    assert "a change was not taken by the directory" in notes(made)
    assert server.partition().last == MIN
    (timer,) = timers(made)
    assert timer == f"sync {PEC_PARTITION_ID}"
    assert kinds(server.fired(timer)) == [("SyncRequestMessage", "PEC")]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.parametrize("early", [False, True])
def test_an_update_of_what_may_be_older_is_synchronized(*, early: bool) -> None:
    """An answer leaves out what was changed later: here it is older than its next update (decision R31)."""
    server = Lone()
    server.answered(numbered(3, 0, name="cn"))
    server.answered()
    bare = numbered(6, 5, name="cn", command=Command.UPDATE, properties=((Propid.CN_NAME, "renamed"),))
    if early:
        server.told(bare)
    server.answered(numbered(5, 3))  # number 4 was given to cn, which has number 6 by now
    server.told(bare)
    assert server.partition().last == 5
    properties = ((Propid.CN_PROTOCOLID, 4), (Propid.CN_NAME, "renamed"))
    server.answered(numbered(6, 5, name="cn", properties=properties))
    server.answered()
    server.told(numbered(7, 6, name="cn", command=Command.UPDATE, properties=((Propid.CN_NAME, "again"),)))
    found = dict(server.has("cn") or ())
    assert (found[Propid.CN_PROTOCOLID], found[Propid.CN_NAME]) == (4, "again")
    assert server.partition().last == 7


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.parametrize("early", [False, True])
def test_an_update_behind_numbers_that_were_left_out_is_synchronized(*, early: bool) -> None:
    """A PSC passes on to its BSCs what it was answered: cn has a change between 3 and 5 (decision R117)."""
    server = Lone()
    server.answered(numbered(3, 0, name="cn"))
    server.answered()
    bare = numbered(6, 5, name="cn", command=Command.UPDATE, properties=((Propid.CN_NAME, "renamed"),))
    passed_on = numbered(5, 3)
    told = server.told(*((bare, passed_on) if early else (passed_on, bare)))
    assert server.partition().last == 5
    assert ("SyncRequestMessage", "PEC") in kinds(told)
    properties = ((Propid.CN_PROTOCOLID, 4), (Propid.CN_NAME, "renamed"))
    server.answered(numbered(6, 5, name="cn", properties=properties))
    assert dict(server.has("cn") or ())[Propid.CN_PROTOCOLID] == 4


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
@pytest.mark.parametrize("moved_by", ["what the answer has", "a gap"])
def test_an_answer_that_brings_nothing_proves_nothing_of_what_came_since(moved_by: str) -> None:
    """Decision R109: cn has changed behind 2, and nobody told; it is older here than its next update."""
    server = Lone()
    server.answered(numbered(2, 0, name="cn"))
    server.answered()
    server.answered(numbered(5, 2))
    server = server.again()  # asks from 5
    if moved_by == "a gap":  # cn had a number between 5 and 7
        server.told(numbered(7, 5))
        made = server.answered(from_seq_number=number(5), to_seq_number=number(5))
    else:  # the answer is cut: there is more behind it
        server.told(numbered(6), numbered(7))
        made = server.answered(numbered(6), numbered(7), from_seq_number=number(5))
    assert [int(one.message.from_seq_number) for one in sends(made)] == [7]
    server.told(numbered(8, name="cn", command=Command.UPDATE, properties=((Propid.CN_NAME, "renamed"),)))
    assert server.partition().last == 7
    properties = ((Propid.CN_PROTOCOLID, 4), (Propid.CN_NAME, "renamed"))
    server.answered(numbered(8, name="cn", properties=properties))
    server.answered()
    server.told(numbered(9, name="cn", command=Command.UPDATE, properties=((Propid.CN_NAME, "again"),)))
    assert server.partition().last == 9
    assert dict(server.has("cn") or ())[Propid.CN_PROTOCOLID] == 4


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_what_came_in_order_since_the_question_needs_no_other_answer() -> None:
    """Decision R109: a partition that changes all the time becomes whole nevertheless."""
    server = Lone()
    server.answered(numbered(5, 0, name="cn"))
    server = server.again()
    server.told(numbered(6), numbered(7))
    assert kinds(server.answered(from_seq_number=number(5), to_seq_number=number(5))) == []
    server.told(numbered(8, name="cn", command=Command.UPDATE, properties=((Propid.CN_NAME, "renamed"),)))
    assert server.partition().last == 8


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
def test_a_deletion_leaves_a_deleted_object() -> None:
    server = Lone()
    gone = numbered(
        2,
        command=Command.DELETE,
        guid_identifier=guid_of("cn1"),
        properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(ObjectType.CN))),
    )
    server.told(numbered(1), gone)
    assert server.has("cn1") is None
    server.told(numbered(1))
    assert server.has("cn1") is None
    assert server.partition().last == 2


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_asks_until_nothing_comes() -> None:
    server = Lone()
    made = server.answered(numbered(1), numbered(4, 1))
    assert server.partition().last == 4
    (again,) = sends(made)
    assert again.message.from_seq_number == 4
    assert kinds(server.answered()) == []


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_a_reply_may_reach_behind_its_last_change() -> None:
    server = Lone()
    server.answered(numbered(1), to_seq_number=number(9))
    assert server.partition().last == 9


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
@pytest.mark.parametrize(
    "given", [{"from_seq_number": SequenceNumber(7)}, {"partition_id": AWAY}], ids=["later", "unknown"]
)
def test_replies_of_another_state_are_dropped(given) -> None:
    server = Lone()
    server.answered(numbered(8, 7), **given)
    assert server.partition().last == MIN


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.spec("MC-MQDSRP 2.2.5.4")
def test_a_header_tells_of_missed_changes() -> None:
    server = Lone()
    server.answered()
    made = server.told(seq_number_header=header(7, purged=3))
    assert kinds(made) == [("SyncRequestMessage", "PEC")]
    assert server.partition().allowed_purge == 3
    server.answered(numbered(7, 0))
    server.answered()
    assert kinds(server.told(seq_number_header=header(7))) == []


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_a_header_of_the_asked_server_repeats_a_request_without_an_answer() -> None:
    """Decision R184: it had not started yet when it was asked, and sends its numbers when it has."""
    server = Lone(sync_wait_s=30.0, sync_wait_max_s=600.0)
    for _ in range(6):
        assert kinds(server.fired(f"sync {PEC_PARTITION_ID}", after_s=600.0)) == [
            ("SyncRequestMessage", "PEC")
        ]
    made = server.told(seq_number_header=header(7))
    assert kinds(made) == [("SyncRequestMessage", "PEC")]
    assert not timers(made)  # the timer goes on: headers do not put it off
    assert kinds(server.answered(numbered(7, 0))) == [("SyncRequestMessage", "PEC")]
    assert kinds(server.told(seq_number_header=header(7))) == []


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_a_header_in_another_name_is_dropped() -> None:
    server = Lone()
    made = server.told(seq_number_header=header(7, name="PEC"), sender="Mallory")
    assert notes(made) == ["dropped: numbers in another machine's name"]


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_a_bsc_asks_the_pec_who_its_psc_is_when_another_one_says_so() -> None:
    """Decisions R46, R107: its site's object says it, and the PEC alone says what that is."""
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), sender="Boss")
    server.answered(sender="Boss", from_seq_number=number(1), to_seq_number=number(1))
    server.answered(sender="Boss", partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    said = header(7, partition_id=HOME, name="NewBoss")
    made = server.told(seq_number_header=said, sender="NewBoss")
    assert kinds(made) == [("SyncRequestMessage", "Boss"), ("SyncRequestMessage", "PEC")]
    assert notes(server.told(site(2, "Home", "NewBoss"), sender="NewBoss")) == [
        "dropped: changes from a machine that is not asked"
    ]
    made = server.answered(site(2, "Home", "NewBoss"), sender="PEC", from_seq_number=number(1))
    assert notes(made) == ["has another PSC"]
    assert ("SyncRequestMessage", "NewBoss") in kinds(made)


@pytest.mark.spec("MC-MQDSRP 3.3.7.7")
@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.spec("MC-MQDSRP 2.2.6.8")
def test_full_synchronization() -> None:
    server = Lone()
    server.answered(numbered(1), numbered(2))
    purged = AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=number(50))
    made = server.got(purged)
    (asked,) = sends(made)
    assert asked.message.is_sync0
    assert asked.message.known_purged_seq_number == 50
    assert asked.message.from_seq_number == MIN
    assert server.partition().purge_state is PurgeState.NORMAL  # decision R191
    assert server.partition().last == 2
    assert server.got(purged) == []  # told twice, done once
    server.answered(
        numbered(40, 0, name="cn2", guid_identifier=guid_of("cn2"), purged_seq_number=number(50)),
        purged_seq_number=number(50),
        complete_sync0=CompleteSync0.SOON,
    )
    assert server.partition().purge_state is PurgeState.SYNC0
    assert server.has("cn1")
    server.answered(
        numbered(60, 40, purged_seq_number=number(50)),
        purged_seq_number=number(50),
        complete_sync0=CompleteSync0.NOW,
    )
    assert server.partition().purge_state is PurgeState.NORMAL
    assert server.has("cn1") is None  # nobody has it any more
    assert server.has("cn2")
    assert server.has("cn60")


def purged_up_to(last: int) -> AlreadyPurgedMessage:
    return AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=number(last))


@pytest.mark.spec("MC-MQDSRP 3.3.7.7")
def test_a_copy_stays_as_it_is_until_its_full_synchronization_has_a_reply() -> None:
    """Decision R191: the source may be lost for good, and this copy be the best one."""
    server = Lone()
    server.answered(site(1, "Home", "Me"), numbered(2))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    server.got(purged_up_to(50))
    for _ in range(3):
        (asked,) = sends(server.fired(f"sync {PEC_PARTITION_ID}"))
        assert (asked.message.is_sync0, asked.message.from_seq_number) == (True, MIN)
    made = server.did(TakeOver(request=1, partition_id=PEC_PARTITION_ID))
    assert [one.status for one in made if isinstance(one, Reply)] == [Hresult.MQ_OK]
    assert server.partition().owned
    assert server.has("cn2")
    server.answered(numbered(60), complete_sync0=CompleteSync0.NOW, purged_seq_number=number(50))
    assert server.has("cn60") is None


@pytest.mark.spec("MC-MQDSRP 3.3.7.7")
def test_missed_changes_that_come_after_all_need_no_full_synchronization() -> None:
    server = Lone()
    server.answered(numbered(1))
    server.got(purged_up_to(3))
    server.told(numbered(2, 1), numbered(3, 2))
    (asked,) = sends(server.fired(f"sync {PEC_PARTITION_ID}"))
    assert (asked.message.is_sync0, asked.message.from_seq_number) == (False, 3)


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
@pytest.mark.parametrize("complete", [CompleteSync0.SOON, CompleteSync0.NOW])
def test_a_late_first_reply_begins_no_full_synchronization_if_the_missed_changes_came(complete) -> None:
    """Decision R207 (seed 925168): a deletion came after all; the reply is older, and has the object."""
    server = Lone()
    server.answered(numbered(1))
    server.got(purged_up_to(3))
    properties = ((Propid.D_OBJTYPE, int(ObjectType.CN)), (Propid.D_SCOPE, int(Scope.ENTERPRISE)))
    deletion = numbered(4, name="cn1", command=Command.DELETE, properties=properties)
    server.told(numbered(2), numbered(3), deletion)
    reply = (numbered(1), numbered(2))
    actions = server.answered(*reply, complete_sync0=complete, purged_seq_number=number(3))
    partition = server.partition()
    assert (partition.purge_state, partition.last) == (PurgeState.NORMAL, 4)
    assert (server.has("cn1"), server.has("cn3") is None) == (None, False)
    (asked,) = sends(actions)
    assert (asked.message.is_sync0, asked.message.from_seq_number) == (False, 4)


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_a_reply_of_who_has_purged_less_begins_no_full_synchronization() -> None:
    server = Lone()
    server.answered(numbered(1))
    server.got(purged_up_to(50))
    server.answered(numbered(30), complete_sync0=CompleteSync0.NOW, purged_seq_number=number(20))
    assert server.partition().purge_state is PurgeState.NORMAL
    assert server.has("cn1")
    server.answered(numbered(60), complete_sync0=CompleteSync0.NOW, purged_seq_number=number(55))
    assert server.partition().purge_state is PurgeState.NORMAL
    assert (server.has("cn1"), server.partition().last) == (None, 60)


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.parametrize("complete", [CompleteSync0.SOON, CompleteSync0.NOW])
def test_an_answer_that_brings_nothing_is_asked_again_by_timer(complete) -> None:
    """Decision R81: an endless "more to come" is no endless exchange of messages."""
    server = Lone()
    server.answered(numbered(1))
    purged = number(50)
    server.got(AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=purged))
    nothing = {"purged_seq_number": purged, "complete_sync0": complete}
    timer = f"sync {PEC_PARTITION_ID}"
    for start, further in [(MIN, number(40)), (number(40), number(41))]:
        at = {"from_seq_number": start, "to_seq_number": start}
        made = server.answered(**nothing, **at)
        assert sends(made) == []
        assert server.due[timer] > server.now
        (asked,) = sends(server.fired(timer))
        assert asked.message.is_sync0
        assert asked.message.from_seq_number == start
        change = numbered(further, int(start), purged_seq_number=purged)
        made = server.answered(change, purged_seq_number=purged, complete_sync0=CompleteSync0.SOON)
        assert kinds(made) == [("SyncRequestMessage", "PEC")], "what brings something is asked on at once"
    assert server.partition().purge_state is PurgeState.SYNC0


@pytest.mark.spec("MC-MQDSRP 3.3.7.7")
def test_what_was_purged_long_ago_does_not_matter() -> None:
    server = Lone()
    server.answered(numbered(60, 0))
    purged = AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=number(50))
    assert server.got(purged) == []


def swept(server: Lone, *sites) -> list:
    """What a server does at the end of a full synchronization that has only these sites."""
    server.got(
        AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=number(50))
    )
    given = {"purged_seq_number": number(50)}
    return server.answered(*sites, to_seq_number=number(50), complete_sync0=CompleteSync0.NOW, **given)


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.parametrize("crashes", [False, True])
def test_a_full_synchronization_removes_the_partitions_of_sites_that_are_gone(crashes) -> None:
    """Decision R189: the deletion of the site was purged before it came here."""
    server = Lone()
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    assert [one.machine_name for one in server.state().neighbors] == ["Other"]
    if crashes:  # after the last reply was written
        server.store.perform(MarkPartition(partition_id=PEC_PARTITION_ID))
        changes = (site(1, "Home", "Me"),)
        server.store.perform(ApplyChanges(partition_id=PEC_PARTITION_ID, changes=changes))
        changed = replace(server.partition(), purge_state=PurgeState.COMPLETESYNC0, last=number(50))
        server.store.perform(SavePartition(partition=changed))
        server = server.again()
    else:
        swept(server, site(1, "Home", "Me"))
    assert {one.partition_id for one in server.state().partitions} == {PEC_PARTITION_ID, HOME}
    assert server.state().neighbors == ()


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_does_not_remove_our_own_site() -> None:
    """Decision R189: a new PEC may never have known it, and ours may be the last copy."""
    server = Lone()
    server.answered(site(1, "Home", "Me"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    made = swept(server)
    assert "the enterprise does not have our site" in notes(made)
    assert server.partition(HOME).owned


@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.parametrize("state", [PurgeState.STARTSYNC0, PurgeState.SYNC0, PurgeState.COMPLETESYNC0])
def test_a_full_synchronization_goes_on_after_a_restart(state) -> None:
    server = Lone()
    server.answered(numbered(1))
    if state is PurgeState.COMPLETESYNC0:
        server.store.perform(MarkPartition(partition_id=PEC_PARTITION_ID))
    changed = replace(server.partition(), purge_state=state, last=MIN, purged=number(50))
    server.store.perform(SavePartition(partition=changed))
    again = server.again()
    (asked,) = sends(again.all)
    finished = state is PurgeState.COMPLETESYNC0
    assert asked.message.is_sync0 is not finished
    assert (again.has("cn1") is None) is finished
    expected = PurgeState.NORMAL if finished else PurgeState.SYNC0
    assert again.partition().purge_state is expected


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.4")
@pytest.mark.parametrize("command", [Command.CREATE, Command.SYNC])
def test_a_new_site_is_a_partition_and_a_neighbour(command) -> None:
    server = Lone()
    server.answered(site(1, "Home", "Me"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)  # the PEC has none of it
    assert server.partition(HOME).owned
    given = {"path_name": "Away", "guid_identifier": None} if command is Command.CREATE else {}
    properties = ((Propid.S_PATHNAME, "Away"), (Propid.S_PSC, "Other"), (Propid.S_SITEID, AWAY))
    made = server.told(
        numbered(2, command=command, **({"guid_identifier": AWAY} | given), properties=properties)
    )
    assert ("SyncRequestMessage", "Other") in kinds(made)
    assert server.partition(AWAY).authority_name == "Other"
    names = {(one.partition_id, one.machine_name) for one in server.state().neighbors}
    assert (AWAY, "Other") in names  # decision R4
    assert timers(made)["propagate psc other"] == 10.0


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
def test_a_site_gets_another_psc() -> None:
    server = Lone()
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    server.answered()
    server.told(
        numbered(3, command=Command.UPDATE, guid_identifier=AWAY, properties=((Propid.S_PSC, "Newer"),))
    )
    assert server.partition(AWAY).authority_name == "Newer"
    assert {one.machine_name for one in server.state().neighbors} == {"Newer"}


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_the_enterprise_gets_another_pec() -> None:
    server = Lone()
    server.told(
        numbered(
            1,
            guid_identifier=guid_of("enterprise"),
            properties=((Propid.E_NAME, "E"), (Propid.E_PECNAME, "Newer")),
        )
    )
    assert server.partition().authority_name == "Newer"


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_removed_site_is_forgotten() -> None:
    server = Lone()
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.told(
        numbered(
            3,
            command=Command.DELETE,
            guid_identifier=AWAY,
            properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(ObjectType.SITE))),
        )
    )
    assert {one.partition_id for one in server.state().partitions} == {PEC_PARTITION_ID, HOME}
    assert server.state().neighbors == ()


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
@pytest.mark.spec("MC-MQDSRP 3.3.7.4")
@pytest.mark.spec("MC-MQDSRP 2.2.6.7")
def test_a_psc_acknowledges_every_256_numbers() -> None:
    server = Lone()
    assert "PSCAckMessage" not in dict(kinds(server.answered(numbered(255, 0))))
    made = server.told(numbered(300, 255))
    (ack,) = [one for one in sends(made) if type(one.message).__name__ == "PSCAckMessage"]
    assert ack.destination == "PEC"
    assert (ack.message.psc_name, ack.message.psc_site_id) == ("Me", HOME)
    assert (ack.message.acked_partition_id, ack.message.acked_seq_number) == (PEC_PARTITION_ID, 300)
    assert (ack.timeout_s, ack.priority, ack.ack_requested) == (1200, 3, True)
    assert "PSCAckMessage" not in dict(kinds(server.told(numbered(301), numbered(302))))


@pytest.mark.spec("MC-MQDSRP 3.3.6.2")
@pytest.mark.spec("MC-MQDSRP 3.3.2.2")
@pytest.mark.spec("MC-MQDSRP 2.2.6.6")
def test_a_bsc_acknowledges_by_timer() -> None:
    server = Lone(Role.BSC)
    made = server.fired("bscack", 5)
    (ack,) = sends(made)
    assert (ack.destination, ack.message.bsc_name) == ("Boss", "Me")
    assert ack.message.bsc_machine_id == guid_of("machine Me")
    assert timers(made) == {"bscack": 43_200.0}
    assert "PSCAckMessage" not in dict(kinds(server.told(numbered(300, 0), sender="Boss")))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.9")
def test_a_replica_purges_what_it_is_allowed_to() -> None:
    server = Lone(purge_interval=1, purge_buffer=3)
    gone = numbered(
        2,
        command=Command.DELETE,
        guid_identifier=guid_of("cn1"),
        properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(ObjectType.CN))),
    )
    server.told(numbered(1), gone, *(numbered(n) for n in range(3, 10)))
    assert server.partition().purged == MIN  # nobody said that it may
    server.told(seq_number_header=header(9, purged=9))
    server.told(numbered(10), numbered(11))
    assert server.partition().purged == 8  # the last three numbers stay


@pytest.mark.spec("MC-MQDSRP 3.1.5.1")
def test_an_empty_propagation_is_nothing() -> None:
    assert Lone().got(ChangePropagationMessage(site_id=AWAY)) == []
