"""Changes and numbers on their way to neighbours: [MC-MQDSRP] 3.3.2.1, 3.3.6.1, 3.3.7.2, 3.1.7.2.3."""

import pytest
from support.replication.lone_authority import (
    BSC_TIMER,
    PSC_TIMER,
    authority,
    delete,
    label,
    make_cn,
    make_machine,
    make_queue,
    make_site,
    propagated,
    told,
)
from support.replication.lone_server import AWAY, HOME, Lone, kinds, notes, numbered, sends, site, timers
from support.replication.network import guid_of

from mqdssm.engines.replication.settings import Role
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    ChangePropagationMessage,
    Command,
    CompleteSync0,
    PartitionSeqNumbers,
    SeqNumberHeader,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MIN, SequenceNumber


def messages(actions, to: str) -> list[ChangePropagationMessage]:
    """The propagations to a neighbour."""
    return [
        one.message
        for one in sends(actions)
        if one.destination == to and isinstance(one.message, ChangePropagationMessage)
    ]


def header(actions, to: str) -> dict:
    """The numbers that a neighbour is told: last and purged by partition."""
    return {
        one.partition_id: (int(one.last_seq_number), int(one.purged_seq_number))
        for message in messages(actions, to)
        for one in message.seq_number_header.partition_seq_numbers
    }


def psc_with_bsc() -> Lone:
    """A PSC that owns its site, has a BSC in it, and knows another site."""
    server = Lone(Role.PSC)
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    for name, service in (("Me", Service.PSC), ("Back", Service.BSC)):
        make_machine(server, name, service)
    server.fired(BSC_TIMER, 2)
    server.fired(PSC_TIMER, 10)
    return server


@pytest.mark.spec("MC-MQDSRP 3.3.2")
@pytest.mark.spec("MC-MQDSRP 3.3.2.1")
@pytest.mark.spec("MC-MQDSRP 3.3.6")
@pytest.mark.spec("MC-MQDSRP 3.3.6.1")
@pytest.mark.parametrize(("timer", "wait"), [(PSC_TIMER, 10.0), (BSC_TIMER, 2.0)])
def test_the_timer_of_a_neighbour_runs_again_and_again(timer, wait) -> None:
    server = authority()
    for _ in range(3):
        assert timers(server.fired(timer, wait)) == {timer: wait}
    make_queue(server, "q")
    made = server.fired(timer, wait)
    assert timers(made) == {timer: wait}
    assert len(sends(made)) == 1


@pytest.mark.spec("MC-MQDSRP 3.3.2.1")
def test_a_busy_time_does_not_put_the_timers_off() -> None:
    server = authority()
    assert PSC_TIMER not in timers(make_site(server, "Third", "Far"))
    assert timers(make_site(server, "Fourth", "Farther")).keys() & {PSC_TIMER, BSC_TIMER} == set()


@pytest.mark.spec("MC-MQDSRP 3.3.2.1")
def test_the_administrator_sets_the_timers() -> None:
    server = authority(intrasite_s=1.0, intersite_s=60.0)
    assert timers(server.fired(PSC_TIMER)) == {PSC_TIMER: 60.0}
    assert timers(server.fired(BSC_TIMER)) == {BSC_TIMER: 1.0}


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
@pytest.mark.spec("MC-MQDSRP 3.1.1.5.2")
def test_what_waits_for_a_neighbour_is_told_once() -> None:
    server = authority()
    make_queue(server, "one")
    make_queue(server, "two")
    made = server.fired(PSC_TIMER, 10)
    (sent,) = sends(made)
    assert (sent.destination, sent.timeout_s, sent.priority, sent.ack_requested) == ("Other", 1200, 3, False)
    message = sent.message
    assert (message.flush, message.site_id) == (False, HOME)
    assert [one.path_name for one in message.directory_changes] == ["Desk\\one", "Desk\\two"]
    assert message.seq_number_header == SeqNumberHeader()  # that was sent a while ago
    assert sends(server.fired(PSC_TIMER, 10)) == []  # nothing is left: decision R42
    assert [one.path_name for one in told(server, BSC_TIMER, "Back")] == ["Desk\\one", "Desk\\two"]


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_a_psc_is_told_the_numbers_of_what_is_ours() -> None:
    server = authority()
    made = server.fired(PSC_TIMER, 1200)
    said = header(made, "Other")
    assert said[PEC_PARTITION_ID] == (3, 0)
    assert said[HOME] == (3, 0)
    assert {one.seq_number_header.machine_name for one in messages(made, "Other")} == {"Me"}


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_a_bsc_is_told_the_numbers_of_all_partitions() -> None:
    server = psc_with_bsc()
    numbers = PartitionSeqNumbers(partition_id=AWAY, last_seq_number=MIN, purged_seq_number=SequenceNumber(0))
    server.told(seq_number_header=_header_of("Other", numbers), sender="Other")
    numbers = PartitionSeqNumbers(
        partition_id=PEC_PARTITION_ID, last_seq_number=SequenceNumber(2), purged_seq_number=SequenceNumber(1)
    )
    server.told(seq_number_header=_header_of("PEC", numbers), sender="PEC")
    made = server.fired(BSC_TIMER, 1200)
    # of others' partitions what may be purged, not what we have purged
    assert header(made, "Back") == {PEC_PARTITION_ID: (2, 1), HOME: (2, 0), AWAY: (0, 0)}
    assert PEC_PARTITION_ID not in header(server.fired(PSC_TIMER), "Other")


def _header_of(name: str, *numbers: PartitionSeqNumbers) -> SeqNumberHeader:
    return SeqNumberHeader(machine_name=name, partition_seq_numbers=numbers)


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_numbers_are_told_every_twenty_minutes() -> None:
    server = authority()
    assert header(server.fired(PSC_TIMER, 1100), "Other") == {}
    assert header(server.fired(PSC_TIMER, 100), "Other") != {}
    assert header(server.fired(PSC_TIMER, 1199), "Other") == {}
    assert header(server.fired(PSC_TIMER, 1), "Other") != {}
    assert header(server.fired(BSC_TIMER), "Back") != {}  # each neighbour has its own time


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_numbers_come_after_the_changes_that_they_count() -> None:
    server = authority(message_changes_max=2)
    for n in range(5):
        make_queue(server, f"q{n}")
    sent = messages(server.fired(PSC_TIMER, 1200), "Other")
    told_numbers = [bool(one.seq_number_header.partition_seq_numbers) for one in sent]
    assert told_numbers.count(True) == 1
    assert told_numbers[-1]
    assert sum(len(one.directory_changes) for one in sent) == 5


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_many_changes_are_several_messages() -> None:
    server = authority(message_changes_max=2)
    for n in range(5):
        make_queue(server, f"q{n}")
    sent = messages(server.fired(PSC_TIMER, 10), "Other")
    assert [len(one.directory_changes) for one in sent] == [2, 2, 1]  # decision R18
    assert [int(one.seq_number) for part in sent for one in part.directory_changes] == [4, 5, 6, 7, 8]


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_large_changes_are_several_messages() -> None:
    server = authority(message_bytes_max=2000)
    for n in range(3):
        make_queue(server, f"q{n}")
        label(server, f"q{n}", "x" * 100)
    sent = messages(server.fired(PSC_TIMER, 10), "Other")
    assert len(sent) > 1
    assert [int(one.seq_number) for part in sent for one in part.directory_changes] == [4, 5, 6, 7, 8, 9]
    server = authority(message_bytes_max=1)
    make_queue(server, "q")
    make_queue(server, "p")
    assert [len(one.directory_changes) for one in messages(server.fired(PSC_TIMER, 10), "Other")] == [1, 1]


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_a_neighbour_for_whom_too_much_waits_has_to_ask() -> None:
    server = authority(available_max=3)
    made = [notes(make_queue(server, f"q{n}")) for n in range(6)]
    assert made[3] == ["forgot changes: too many are waiting"] * 2  # the PSC and the BSC
    changes = told(server)
    assert [int(one.seq_number) for one in changes] == [8, 9]
    assert changes[0].previous_seq_number == 7  # who lacks it sees the gap


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
def test_bscs_hear_of_sites_at_once_and_of_queues_in_time() -> None:
    server = authority()
    assert propagated(make_queue(server, "q"), "Back") == []
    assert propagated(make_cn(server, "cn"), "Back") == []
    made = make_site(server, "Third", "Far")
    assert [one.object_type for one in propagated(made, "Back")] == [
        ObjectType.QUEUE,
        ObjectType.CN,
        ObjectType.SITE,
    ]
    assert propagated(made, "Other") == []
    assert told(server, BSC_TIMER, "Back") == []


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.parametrize("flush", [False, True])
def test_a_psc_passes_changes_on_and_sites_at_once(flush) -> None:
    server = psc_with_bsc()
    assert propagated(server.told(numbered(3)), "Back") == []
    made = server.told(site(4, "Third", "Far"), flush=flush)
    now = [int(one.seq_number) for one in propagated(made, "Back")]
    later = [int(one.seq_number) for one in told(server, BSC_TIMER, "Back")]
    assert (now, later) == (([], [3, 4]) if flush else ([3, 4], []))
    assert propagated(server.fired(PSC_TIMER, 10), "Other") == []  # only the authority tells PSCs


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
def test_what_was_synchronized_is_passed_on_too() -> None:
    server = psc_with_bsc()
    made = server.answered(numbered(3), site(4, "Third", "Far"))
    assert [int(one.seq_number) for one in propagated(made, "Back")] == [3, 4]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
def test_a_change_is_passed_on_with_the_numbers_of_its_authority() -> None:
    server = psc_with_bsc()
    change = numbered(3, purged_seq_number=SequenceNumber(1))
    server.told(change)
    assert told(server, BSC_TIMER, "Back") == [change]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
def test_an_update_of_others_is_passed_on_as_the_whole_object() -> None:
    server = psc_with_bsc()
    server.answered()
    server.told(numbered(3))
    update = numbered(
        4, command=Command.UPDATE, guid_identifier=guid_of("cn3"), properties=((Propid.CN_NAME, "new"),)
    )
    server.told(update)
    passed = told(server, BSC_TIMER, "Back")[-1]
    assert (passed.command, passed.previous_seq_number, passed.seq_number) == (Command.SYNC, 3, 4)
    values = dict(passed.properties)  # decision R31
    assert (values[Propid.CN_NAME], values[Propid.CN_PROTOCOLID]) == ("new", 1)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
def test_bscs_are_told_nothing_of_a_partition_that_is_synchronized_in_full() -> None:
    server = psc_with_bsc()
    purged = AlreadyPurgedMessage(
        site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=SequenceNumber(50)
    )
    server.got(purged)
    given = {"purged_seq_number": SequenceNumber(50)}
    server.answered(numbered(60, 0, **given), complete_sync0=CompleteSync0.SOON, **given)
    assert propagated(server.fired(BSC_TIMER, 2), "Back") == []
    made = server.fired(BSC_TIMER, 1200)
    assert PEC_PARTITION_ID not in header(made, "Back")
    assert AWAY in header(made, "Back")
    server.answered(numbered(61, 60, **given), complete_sync0=CompleteSync0.NOW, **given)
    assert header(server.fired(BSC_TIMER, 1200), "Back")[PEC_PARTITION_ID][0] == 61


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_who_is_no_neighbour_any_more_is_told_why() -> None:
    server = authority()
    make_queue(server, "q")
    made = delete(server, ObjectType.MACHINE, HOME, path_name="Back")
    assert [one.command for one in propagated(made, "Back")] == [Command.CREATE, Command.DELETE]
    assert server.fired(BSC_TIMER, 2) == []


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_a_bsc_tells_nobody() -> None:
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), site(2, "Away", "Other"), sender="Boss")
    assert server.state().neighbors == ()
    made = server.told(numbered(3), sender="Boss")
    assert kinds(made) == []
    assert not any(name.startswith("propagate") for name in timers(server.all))
