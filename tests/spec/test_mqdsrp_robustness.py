"""What a single server survives: peers that take [MC-MQDSRP] by the letter, faults, bad input, odd clocks."""

import pytest
from support.replication.lone_authority import (
    OK,
    acked,
    authority,
    make_queue,
    numbers,
    queue_request,
    results,
)
from support.replication.lone_server import (
    AWAY,
    HOME,
    Lone,
    kinds,
    machine,
    notes,
    numbered,
    replies,
    sends,
    site,
    timers,
)
from support.replication.network import guid_of

from mqdssm.engines.actions import StopTimer, TimerFired
from mqdssm.engines.replication.actions import (
    NameAuthority,
    Perform,
    Performed,
    PropagateChange,
    Received,
    Resynchronize,
    Started,
)
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.engines.replication.operations import RemovePartition, UpdateObject
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    ChangePropagationMessage,
    Command,
    CompleteSync0,
    PartitionSeqNumbers,
    Scope,
    SeqNumberHeader,
    SyncRequestMessage,
    make_deletion_properties,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber

SITE1 = guid_of("site Site1")
LONG_S = 3000
BSC_TO_PSC = ((Propid.QM_SERVICE, int(Service.PSC)),)


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_a_server_that_repeats_what_we_have_is_not_asked_again() -> None:
    server = Lone()
    server.answered(numbered(1), numbered(2))
    again = server.answered(
        numbered(2, 1), from_seq_number=SequenceNumber(2), to_seq_number=SequenceNumber(2)
    )
    assert kinds(again) == []  # [PRGE, PROPID_CN_SEQNUM, fromSeqNum] finds the object numbered so, always


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_a_server_that_sends_our_bound_back_ends_no_partition() -> None:
    server = Lone()
    server.answered(numbered(1), numbered(2), to_seq_number=MAX)
    assert server.partition().last == 2
    server.answered(to_seq_number=MAX)
    assert server.partition().last == 2
    server.told(numbered(3))
    assert server.has("cn3")


def test_bad_properties_of_a_client_stop_nothing() -> None:
    server = Lone(Role.BSC)
    twice = ((Propid.CN_NAME, "a"), (Propid.CN_NAME, "b"))
    made = server.change(Command.UPDATE, ObjectType.CN, PEC_PARTITION_ID, path_name="cn", properties=twice)
    assert replies(made) == [Hresult.MQ_ERROR_INVALID_PARAMETER]
    assert kinds(server.fired("bscack")) == [("BSCAckMessage", "Boss")]


def test_a_fault_of_ours_stays_one_events() -> None:
    server = authority()
    perform = server.store.perform
    server.store.perform = lambda _operation: None
    with pytest.raises(TypeError):
        make_queue(server, "q")
    server.store.perform = perform
    assert replies(make_queue(server, "p")) == [OK]


def test_an_object_that_goes_by_another_hand_stops_nothing() -> None:
    server = authority()
    perform = server.store.perform

    def meddle(operation):
        result = perform(operation)
        if type(operation).__name__ == "CreateObject":
            table = server.store._kept.find_table(HOME)
            if guid_of("queue q") in table.objects:
                server.store._kept.remove(table.objects[guid_of("queue q")])
        return result

    server.store.perform = meddle
    made = make_queue(server, "q")
    assert "an object of ours has gone, and nobody deleted it" in notes(made)
    assert replies(make_queue(server, "p")) == [OK]


def header(name: str, last: int, *, purged: int = 0) -> SeqNumberHeader:
    said = PartitionSeqNumbers(
        partition_id=PEC_PARTITION_ID,
        last_seq_number=SequenceNumber(last),
        purged_seq_number=SequenceNumber(purged),
    )
    return SeqNumberHeader(machine_name=name, partition_seq_numbers=(said,))


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_who_tells_of_more_is_a_reason_to_ask_the_authority() -> None:
    """Decisions R46, R107: else any server could overwrite any partition."""
    server = Lone()
    server.answered(numbered(1))
    server.answered()
    made = server.told(seq_number_header=header("Ahead", 5), sender="Ahead")
    assert kinds(made) == [("SyncRequestMessage", "PEC")]
    assert notes(server.answered(numbered(5, 1), sender="Ahead")) == [
        "dropped: a reply that was not asked for"
    ]
    server.answered(numbered(6, 1), numbered(7))
    assert server.has("cn7")
    assert not server.has("cn5")
    assert server.partition().authority_name == "PEC"


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
def test_the_pec_is_believed_about_sites_while_it_is_asked() -> None:
    """Decisions R46, R107: at every second time without an answer of the authority."""
    server = Lone()
    server.answered(site(1, "Away", "Other"))
    asked = [kinds(server.fired(f"sync {AWAY}", 600)) for _ in range(4)]
    assert asked == [[("SyncRequestMessage", name)] for name in ("Other", "PEC", "Other", "PEC")]
    known = {"partition_id": AWAY, "from_seq_number": MIN}
    server.answered(machine(1, "C1", AWAY), **known, to_seq_number=SequenceNumber(1))
    assert server.partition(AWAY).last == 1
    server.answered(**known | {"from_seq_number": SequenceNumber(1)}, to_seq_number=SequenceNumber(1))
    assert notes(server.told(machine(2, "C2", AWAY))) == ["dropped: changes from a machine that is not asked"]
    server.told(machine(2, "C2", AWAY), sender="Other")
    assert server.partition(AWAY).last == 2


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
def test_the_pec_is_asked_however_its_site_spells_its_name() -> None:
    """Seed 705550: names of machines are compared without regard to case."""
    server = Lone()
    server.answered(site(1, "Home of the PEC", "pEc"), site(2, "Away", "Other"))
    asked = [kinds(server.fired(f"sync {AWAY}", 600)) for _ in range(4)]
    assert [name.casefold() for sent in asked for _, name in sent] == ["other", "pec", "other", "pec"]


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_who_told_of_more_and_is_silent_is_not_asked_for_ever() -> None:
    server = Lone()
    server.answered()
    server.told(seq_number_header=header("Ahead", 5), sender="Ahead")
    made = server.answered()
    assert StopTimer(name=f"sync {PEC_PARTITION_ID}") in made
    assert not timers(made)


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_an_authority_that_knows_less_is_told_at_once() -> None:
    server = Lone()
    server.answered(numbered(5, 0))
    made = server.told(seq_number_header=header("PEC", 3))
    (sent,) = [one for one in sends(made) if isinstance(one.message, ChangePropagationMessage)]
    assert sent.destination == "PEC"
    assert [one.last_seq_number for one in sent.message.seq_number_header.partition_seq_numbers] == [5]
    assert kinds(server.told(seq_number_header=header("PEC", 5))) == []


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_a_question_from_behind_our_last_number_tells_us_the_same() -> None:
    server = authority()
    message = SyncRequestMessage(
        site_id=AWAY,
        partition_id=HOME,
        from_seq_number=SequenceNumber(9),
        to_seq_number=MAX,
        known_purged_seq_number=MIN,
        requester_name="Other",
    )
    made = server.got(message, "Other")
    assert notes(made) == ["somebody claims to know more of our partition than we do"]
    assert notes(server.got(message, "Other")) == []  # told once
    assert server.partition(HOME).owned  # decisions R39, R107
    event = NameAuthority(request=7, partition_id=HOME, machine_name="Other")
    made = server.did(event)
    assert replies(made) == [OK]
    assert ("SyncRequestMessage", "Other") in kinds(made)
    assert not server.partition(HOME).owned


def test_tombstones_are_purged_in_short_lives_too() -> None:
    server = Lone(purge_buffer=0, purge_interval=256)
    said = PartitionSeqNumbers(
        partition_id=PEC_PARTITION_ID, last_seq_number=MIN, purged_seq_number=SequenceNumber(10_000)
    )
    server.told(seq_number_header=SeqNumberHeader(machine_name="PEC", partition_seq_numbers=(said,)))
    for day in range(3):  # 200 changes a day, and a restart every night
        server.answered(*(numbered(200 * day + n) for n in range(1, 201)))
        server = server.again()
    assert server.partition().purged > MIN  # 3.1.1.2.3: PreviousPurgedSeqNumber begins at MIN


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_crash_before_a_removed_site_is_forgotten() -> None:
    server = Lone()
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    gone = numbered(
        3,
        command=Command.DELETE,
        guid_identifier=AWAY,
        properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(ObjectType.SITE))),
    )
    message = ChangePropagationMessage(site_id=AWAY, directory_changes=(gone,))
    actions = server.engine.step(Received(message=message, sender="PEC"), server.now)
    while True:
        perform = next(one for one in actions if isinstance(one, Perform))
        if isinstance(perform.operation, RemovePartition):
            break
        result = server.store.perform(perform.operation)
        actions = server.engine.step(Performed(token=perform.token, result=result), server.now)
    again = server.again()
    again.answered(gone)  # it is asked for again
    assert AWAY not in {one.partition_id for one in again.state().partitions}


def test_a_clock_that_is_set_back_stops_no_headers_and_no_requests() -> None:
    server = authority()
    again = server.again()
    again.now -= 86_400
    again.fired("quiet")
    assert any(sends(again.fired("propagate psc other", 600)) for _ in range(3))
    assert results(again.got(queue_request("q"), "Other")) == [("Other", OK)]
    assert guid_of("queue q") in numbers(again)


def test_what_a_service_deletes_is_purged_too() -> None:
    server = authority(purge_interval=0, purge_buffer=0)
    make_queue(server, "q")
    server.got(acked("Other", 4), "Other")
    number = server.engine.read_next_number(HOME)
    written = UpdateObject(
        object_type=ObjectType.QUEUE,
        path_name="Desk\\q",
        identifier=None,
        properties=((Propid.Q_LABEL, "x"),),
        partition_id=HOME,
        seq_number=number,
    )
    server.store.perform(written)
    event = PropagateChange(
        request=5,
        command=Command.UPDATE,
        object_type=ObjectType.QUEUE,
        identifier=guid_of("queue q"),
        partition_id=HOME,
        seq_number=number,
    )
    server.did(event)
    assert server.partition(HOME).purged == 4


@pytest.mark.parametrize("name", ["ack_interval", "message_changes_max", "message_bytes_max", "backlog_max"])
def test_settings_that_would_stop_the_engine_are_refused(name) -> None:
    with pytest.raises(ValueError, match=name):
        Settings(
            machine_name="Me",
            machine_id=guid_of("machine Me"),
            site_id=HOME,
            role=Role.PEC,
            pec_name="Me",
            **{name: 0},
        )


@pytest.mark.spec("MC-MQDSRP 3.1.5.1")
def test_how_many_messages_wait_behind_the_work_is_told() -> None:
    """Others stay in their queue meanwhile (decision R78); timers and what is dropped do not count."""
    server = Lone(backlog_max=4)
    engine, store = ReplicationEngine(server.settings, first_request=9), server.store.restart()
    waiting = engine.step(Started(), 1.0)
    message = Received(
        message=AlreadyPurgedMessage(site_id=HOME, partition_id=HOME, purged_seq_number=MIN), sender="PEC"
    )
    told = []
    for event in (message, TimerFired(name="claim"), message, message, message, message):
        engine.step(event, 1.0)
        told.append(engine.messages_waiting)
    assert told == [1, 1, 2, 3, 3, 3]
    while (work := [one for one in waiting if isinstance(one, Perform)]) and engine.messages_waiting:
        (under_way,) = work
        result = store.perform(under_way.operation)
        waiting = engine.step(Performed(token=under_way.token, result=result), 1.0)
        told.append(engine.messages_waiting)
    assert told[-1] == 0
    assert sorted(told[5:], reverse=True) == told[5:]


def ahead_in_purging() -> Lone:
    """A replica that has purged up to number 8."""
    server = Lone(purge_interval=1, purge_buffer=3)
    server.answered()
    server.told(seq_number_header=header("PEC", 0, purged=9))
    server.told(*(numbered(n, purged_seq_number=SequenceNumber(9)) for n in range(1, 12)))
    assert server.partition().purged == 8
    return server


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_a_change_of_who_purged_less_is_taken() -> None:
    server = ahead_in_purging()
    server.told(numbered(12, purged_seq_number=SequenceNumber(3)))  # a successor of the authority
    assert server.has("cn12")  # decision R45
    server.told(numbered(14, purged_seq_number=SequenceNumber(3)))  # too early, and later in order
    server.told(numbered(13, purged_seq_number=SequenceNumber(3)))
    assert server.has("cn14")


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_numbers_and_replies_of_who_purged_less_are_taken() -> None:
    server = ahead_in_purging()
    assert kinds(server.told(seq_number_header=header("PEC", 12, purged=3))) == [
        ("SyncRequestMessage", "PEC")
    ]
    server.answered(numbered(12, purged_seq_number=SequenceNumber(3)), purged_seq_number=SequenceNumber(3))
    assert server.has("cn12")  # decision R45


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_what_was_sent_before_a_full_synchronization_is_dropped() -> None:
    server = Lone()
    server.answered(numbered(1), numbered(2))
    server.got(
        AlreadyPurgedMessage(
            site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=SequenceNumber(50)
        )
    )
    given = {"purged_seq_number": SequenceNumber(50), "complete_sync0": CompleteSync0.SOON}
    server.answered(from_seq_number=MIN, to_seq_number=MIN, **given)
    server.told(numbered(3, 0, purged_seq_number=SequenceNumber(4)))
    server.answered(numbered(4, 0), purged_seq_number=SequenceNumber(4))
    assert server.has("cn3") is server.has("cn4") is None
    assert server.partition().last == MIN


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_a_bsc_takes_partial_updates_from_its_psc_alone() -> None:
    """Decision R198 (seed 860375): the PSC said that nothing is missing, and lacked changes itself."""
    server = Lone(Role.BSC)
    server.answered(numbered(1), sender="Boss")
    server.answered(sender="Boss")
    update = numbered(2, name="cn1", command=Command.UPDATE, properties=((Propid.CN_NAME, "new"),))
    made = server.told(update, sender="PEC")
    assert kinds(made) == [("SyncRequestMessage", "Boss")]
    assert dict(server.has("cn1") or ())[Propid.CN_NAME] == "cn1"
    server.told(update, sender="Boss")
    assert dict(server.has("cn1") or ())[Propid.CN_NAME] == "new"


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_a_change_that_we_had_before_a_full_synchronization_comes_with_its_replies_alone(
    *, restarts: bool
) -> None:
    """Decisions R197 (seed 851195), R220: its late copy brought an object back that was deleted since."""
    server = Lone()
    properties = make_deletion_properties(ObjectType.CN, Scope.ENTERPRISE)
    server.answered(
        numbered(1), numbered(2, name="cn1", command=Command.DELETE, properties=properties), numbered(3)
    )
    server.did(Resynchronize(request=1, partition_id=PEC_PARTITION_ID))
    if restarts:
        server = server.again()
    server.told(numbered(1))
    server.told(numbered(3))
    assert server.partition().last == MIN
    assert server.has("cn1") is None
    server.answered(
        numbered(3, 0),
        from_seq_number=MIN,
        complete_sync0=CompleteSync0.SOON,
        to_seq_number=SequenceNumber(3),
    )
    server.told(numbered(4))
    assert server.partition().last == 4
    given = {"from_seq_number": SequenceNumber(3), "to_seq_number": SequenceNumber(4)}
    server.answered(complete_sync0=CompleteSync0.NOW, **given)
    assert server.partition().purge_state is PurgeState.NORMAL
    assert server.has("cn3") is not None
    assert server.has("cn4") is not None


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_an_answer_that_lacks_deletions_which_we_may_not_know_is_dropped() -> None:
    """Decision R85: we asked in a full synchronization, and start from an older copy when it comes."""
    server = Lone()
    server.answered(numbered(1), numbered(2))
    server.answered(numbered(4, 2), purged_seq_number=SequenceNumber(3))
    assert server.has("cn4") is None
    assert server.partition().last == SequenceNumber(2)
    server.answered(numbered(3, 2), numbered(4, 3), purged_seq_number=SequenceNumber(2))
    assert server.has("cn4") is not None
    assert server.partition().last == SequenceNumber(4)
