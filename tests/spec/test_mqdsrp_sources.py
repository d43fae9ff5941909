"""Sources of a full synchronization and of a lost partition: several, removed and renamed (R166 to R168)."""

import copy
from dataclasses import replace

import pytest
from support.replication.full_synchronizations import (
    asked_in_turn,
    asked_of,
    begun_anew_with_heir,
    begun_with_other,
    part,
)
from support.replication.lone_authority import OK, authority
from support.replication.lone_server import AWAY, HOME, Lone, kinds, machine, numbered, sends, site
from support.replication.lying_servers import asks, header, request
from support.replication.network import Net, all_equal, guid_of, hand_the_enterprise_over
from support.replication.three_sites import LONG_S, SITE0, SITE2, delete, nothing_lost, owners, world

from mqdssm.engines.replication import trust
from mqdssm.engines.replication.actions import Received, Resynchronize, Send
from mqdssm.engines.replication.operations import LoadState, ObjectRead, ReadObject
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import key_of
from mqdssm.engines.replication.succession import GAP
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    ChangePropagationMessage,
    Command,
    CompleteSync0,
    PartitionSeqNumbers,
    Scope,
    SeqNumberHeader,
    SyncReplyMessage,
    SyncRequestMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition, PurgeState, Service
from mqdssm.model.seqnum import MIN, SequenceNumber


def interval_of(net: Net, server: str, site_id=SITE2) -> object:
    found = net.content(server, PEC_PARTITION_ID).get(site_id)
    return None if found is None or found[1] is Command.DELETE else found[2][Propid.S_INTERVAL1]


def change_interval(net: Net, seconds: int) -> None:
    given = {"identifier": SITE2, "partition_id": PEC_PARTITION_ID}
    changed = net.change(
        "PEC", Command.UPDATE, ObjectType.SITE, properties=((Propid.S_INTERVAL1, seconds),), **given
    )
    assert changed.status == OK


def restored_pec(*, answers: int, unheard_s: float = 0) -> Net:
    """A restored PEC synchronizes in full with PSC1, which stops to answer; PSC2 has less than PSC1.

    The change that PSC2 lacks is one of Site2, so that PSC1 sends that site last, and PSC2 before.
    """
    net = world(message_changes_max=1, purge_buffer=0, purge_interval=1, ack_interval=1, sync_wait_s=20.0)
    change_interval(net, 11)
    old = copy.deepcopy(net.hosts["PEC"].store._kept)
    for number in range(6):
        assert net.create_site(f"Gone{number}", "").status == OK
        assert delete(net, ObjectType.SITE, guid_of(f"site Gone{number}"), PEC_PARTITION_ID, "PEC") == OK
        assert net.create_network(f"net{number}", "PEC").status == OK
    net.run(300)
    net.drop = lambda source, send: "PSC2" in {source, send.destination}
    change_interval(net, 22)
    net.run(100)
    assert (interval_of(net, "PSC1"), interval_of(net, "PSC2")) == (22, 11)
    net.hosts["PEC"].store._kept = old
    sent = []

    def silent_after_some(source: str, send: Send) -> bool:
        if source != "PSC1" or send.destination != "PEC":
            return False
        if isinstance(send.message, SyncReplyMessage) and send.message.partition_id == PEC_PARTITION_ID:
            sent.append(send)
        return len(sent) > answers

    net.hosts["PEC"].settings = replace(net.hosts["PEC"].settings, restored=True)
    if unheard_s:
        net.drop = lambda source, send: send.destination == "PEC"
        net.restart("PEC")
        net.run(unheard_s)
        net.drop = silent_after_some
    else:
        net.drop = silent_after_some
        net.restart("PEC")
    return net


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize("answers", [5, 12])
def test_a_source_with_less_does_not_end_a_full_synchronization(answers) -> None:
    """Decision R166 (seed 705662): objects that changes of the first source had moved would be swept."""
    net = restored_pec(answers=answers)
    net.run(100)
    assert owners(net, PEC_PARTITION_ID) == []
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert interval_of(net, "PEC") == 22
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize("answers", [1, 5])
def test_questions_before_a_full_synchronization_are_not_counted(answers) -> None:
    """Decision R166: a server that heard nobody for an hour begins anew only after six more questions."""
    net = restored_pec(answers=answers, unheard_s=3600)
    net.run(300)
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert interval_of(net, "PEC") == 22
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_a_trusted_server_that_reports_and_sends_nothing_does_not_hold_up_a_restored_pec() -> None:
    """Decision R166: each report redirects the question, and may not put off its timer."""
    net = restored_pec(answers=5)
    net.run(100)
    for number in range(400):
        records = net.hosts["PEC"].store.perform(LoadState()).partitions
        record = next(one for one in records if one.partition_id == PEC_PARTITION_ID)
        if record.owned:
            break
        claim = PartitionSeqNumbers(
            partition_id=PEC_PARTITION_ID,
            last_seq_number=record.last.plus(100_000 + number),
            purged_seq_number=record.purged,
        )
        header = SeqNumberHeader(machine_name="PSC2", partition_seq_numbers=(claim,))
        report = ChangePropagationMessage(site_id=SITE2, seq_number_header=header)
        lacking = SyncReplyMessage(
            site_id=SITE2,
            partition_id=PEC_PARTITION_ID,
            from_seq_number=record.last,
            to_seq_number=max(record.last.plus(1_000), record.purged),
            purged_seq_number=min(record.last, record.purged),
            complete_sync0=CompleteSync0.NOW,
        )
        for message in (report, lacking):
            net._put("PEC", Received(message=message, sender="PSC2"), 0)
            net.run(2.5)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_who_reported_more_is_asked_before_a_lost_partition_is_owned() -> None:
    """Decision R166: the server that answered first and last has less than another that is only slow."""
    net = world()
    old = copy.deepcopy(net.hosts["PEC"].store._kept)
    change_interval(net, 11)
    net.run(200)
    net.drop = lambda source, send: "PSC2" in {source, send.destination}
    change_interval(net, 22)
    net.run(100)
    net.hosts["PEC"].store._kept = old
    ended = []

    def silent_until_the_other_has_no_more(source: str, send: Send) -> bool:
        is_reply = send.destination == "PEC" and isinstance(send.message, SyncReplyMessage)
        if is_reply and source == "PSC2" and not send.message.directory_changes:
            ended.append(send)
        return is_reply and source == "PSC1" and not ended

    net.drop = silent_until_the_other_has_no_more
    net.hosts["PEC"].settings = replace(net.hosts["PEC"].settings, restored=True)
    net.restart("PEC")
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert interval_of(net, "PEC") == 22
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize("answers", [5, 12])
def test_a_source_that_is_silent_for_ever_does_not_hold_up_a_full_synchronization(answers) -> None:
    """Decision R166: it begins anew, and what only the silent server has is lost."""
    net = restored_pec(answers=answers)
    net.run(2 * LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert interval_of(net, "PEC") == 11
    net.drop = nothing_lost
    net.run(LONG_S)
    assert all_equal(net)


def report_of(sender: str, number: SequenceNumber) -> Received:
    """A header in which a server says that it has a number of the enterprise."""
    claim = PartitionSeqNumbers(partition_id=PEC_PARTITION_ID, last_seq_number=number, purged_seq_number=MIN)
    header = SeqNumberHeader(machine_name=sender, partition_seq_numbers=(claim,))
    return Received(message=ChangePropagationMessage(site_id=SITE2, seq_number_header=header), sender=sender)


def enterprise_of(net: Net, name: str) -> DirectoryPartition:
    """What a server keeps about the enterprise partition."""
    records = net.hosts[name].store.perform(LoadState()).partitions
    return next(record for record in records if record.partition_id == PEC_PARTITION_ID)


def questions(net: Net, since: int = 0) -> list[tuple[str, SyncRequestMessage]]:
    """Questions of the PEC about the enterprise, and whom it asked."""
    return [
        (destination, message)
        for source, destination, message in net.sent[since:]
        if source == "PEC"
        and isinstance(message, SyncRequestMessage)
        and message.partition_id == PEC_PARTITION_ID
    ]


def without_site2(*, full: bool) -> Net:
    """Site2 is removed, and its only server goes on. The PEC has an older copy, which still knows Site2.

    The server did not receive the removal. With `full` the PEC needs a full synchronization.
    """
    net = world(message_changes_max=1, purge_buffer=0, purge_interval=1, ack_interval=1, sync_wait_s=20.0)
    old = copy.deepcopy(net.hosts["PEC"].store._kept)
    for number in range(6 if full else 0):
        assert net.create_site(f"Gone{number}", "").status == OK
        assert delete(net, ObjectType.SITE, guid_of(f"site Gone{number}"), PEC_PARTITION_ID, "PEC") == OK
        assert net.create_network(f"net{number}", "PEC").status == OK
    net.run(300)
    for name in ("more", "last"):
        assert net.create_network(name, "PEC").status == OK  # it has the others purge
        net.run(100)
    assert delete(net, ObjectType.MACHINE, guid_of("machine PSC2"), SITE2, "PSC2") == OK
    net.run(100)
    net.drop = lambda source, send: send.destination == "PSC2"
    assert delete(net, ObjectType.SITE, SITE2, PEC_PARTITION_ID, "PEC") == OK
    net.run(100)
    net.hosts["PEC"].store._kept = old
    net.hosts["PEC"].settings = replace(net.hosts["PEC"].settings, restored=True)
    net.drop = lambda source, send: send.destination == "PEC"
    net.restart("PEC")
    return net


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_a_removed_server_is_not_asked_before_a_lost_partition_is_owned() -> None:
    """Decision R167: it had reported more, to an old copy in which it was still a PSC."""
    net = without_site2(full=False)
    number = enterprise_of(net, "PEC").last.plus(100_000)
    net._put("PEC", report_of("PSC2", number), 0)
    net.run(1)
    assert "PSC2" in [destination for destination, _ in questions(net)]
    net.drop = lambda source, send: source == "PSC2"
    while SITE2 in net.partitions("PEC"):
        net.run(0.01)
    sent = len(net.sent)
    net.run(100)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert "PSC2" not in [destination for destination, _ in questions(net, sent)]


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_number_of_a_removed_server_does_not_hold_up_a_full_synchronization() -> None:
    """Decision R167: it had reported more, to an old copy in which it was still a PSC."""
    net = without_site2(full=True)
    number = enterprise_of(net, "PEC").last.plus(100_000)
    net._put("PEC", report_of("PSC2", number), 0)
    net.run(1)
    net.drop = lambda source, send: source == "PSC2"
    net.run(150)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert (
        len([message for _, message in questions(net) if message.is_sync0 and not message.from_seq_number])
        == 1
    )


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_whose_source_was_removed_begins_anew_at_once() -> None:
    """Decision R167: nobody can say whether another server lacks changes that it had."""
    net = without_site2(full=True)
    sent = []

    def silent_after_some(source: str, send: Send) -> bool:
        if source == "PSC2" and isinstance(send.message, SyncReplyMessage):
            sent.append(send)
        is_report = isinstance(send.message, ChangePropagationMessage)
        return (source == "PSC2" and (is_report or len(sent) > 5)) or (source == "PSC1" and len(sent) < 5)

    net.drop = silent_after_some
    while len(sent) < 5:
        net.run(1)
    net.run(150)
    assert SITE2 not in net.partitions("PEC")
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_what_a_removed_server_reported_is_forgotten() -> None:
    """Decision R167: another server would ask for it without end. The old PEC is removed."""
    net = world()
    number = enterprise_of(net, "PSC1").last.plus(100_000)
    net._put("PSC1", report_of("PEC", number), 0)
    net.run(1)
    assert hand_the_enterprise_over(net, "PSC2") == OK
    net.run(100)
    assert delete(net, ObjectType.MACHINE, guid_of("machine PEC"), SITE0, "PEC") == OK
    net.run(100)
    rows = net.hosts["PSC1"].engine.report_status(net.now).partitions
    assert max(row.missing for row in rows) > 90_000
    assert delete(net, ObjectType.SITE, SITE0, PEC_PARTITION_ID, "PSC2") == OK
    net.stop("PEC")
    net.run(100)
    rows = net.hosts["PSC1"].engine.report_status(net.now).partitions
    assert {row.missing for row in rows} == {0}


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_reporter_is_looked_up_by_the_name_that_it_wrote() -> None:
    """Decision R167: the store compares letters one by one, so that strasse does not find STRAßE."""
    server, name = Lone().engine._server, "STRAßE"
    partition = server.partitions[PEC_PARTITION_ID]
    partition.reporters[key_of(name)] = (name, SequenceNumber(9))
    partition.change(first_source=name)
    partition.hint = name
    job = trust.forget_removed_servers(server, [partition])
    assert next(job) == ReadObject(object_type=ObjectType.MACHINE, path_name=name)
    bsc = ((Propid.QM_SERVICE, int(Service.BSC)),)
    machine = ObjectRead(status=OK, properties=bsc, partition_id=partition.id)
    with pytest.raises(StopIteration):
        job.send(machine)
    assert key_of(name) in partition.reporters
    job = trust.forget_removed_servers(server, [partition])
    next(job)
    with pytest.raises(StopIteration):
        job.send(ObjectRead(status=Hresult.MQDS_OBJECT_NOT_FOUND))
    assert (partition.reporters, partition.hint, partition.is_first_source_removed) == ({}, "", True)


def renamed_source(*, answers: int) -> tuple[Net, int]:
    """A restored PEC, and how many messages were sent before its silent source PSC1 got the name PSC9.

    PSC1 has sent replies only, so that its number is not known.
    """
    net = restored_pec(answers=answers)
    silent_after_some = net.drop
    net.drop = lambda source, send: (
        silent_after_some(source, send)
        or (
            (source, send.destination) == ("PSC1", "PEC")
            and not isinstance(send.message, SyncReplyMessage | AlreadyPurgedMessage)
        )
    )
    net.run(30)
    sent = len(net.sent)
    net.drop = nothing_lost
    net.restart("PSC1", as_name="PSC9")
    return net, sent


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_source_that_is_renamed_goes_on_with_a_full_synchronization() -> None:
    """Decision R168: it has all changes of the source before it, which had another name."""
    net, sent = renamed_source(answers=5)
    net.run(200)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert interval_of(net, "PEC") == 22
    assert MIN not in [message.from_seq_number for _, message in questions(net, sent)], "it began anew"
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
@pytest.mark.parametrize("is_told", [True, False], ids=["by a header", "by its timer"])
@pytest.mark.parametrize("named_by", ["its PSC", "the operator"])
def test_a_pec_asks_the_psc_of_its_own_directory_though_an_older_change_names_another_one(
    named_by: str, *, is_told: bool
) -> None:
    """Decision R187: an early change waited for the one before it; its machine has another name by now."""
    server = authority(sync_wait_s=30.0, sync_wait_max_s=30.0)
    server.told(machine(1, "Other", AWAY, Service.PSC), sender="Other")
    server.told(machine(3, "Other", AWAY, Service.PSC), sender="Other")
    renamed = ((Propid.S_PSC, "New"),)
    if named_by == "its PSC":
        change = asks(PEC_PARTITION_ID, Command.UPDATE, renamed, guid_identifier=AWAY)
        made = server.did(
            Received(message=request("New", change), sender="New", machine_id=guid_of("machine Other"))
        )
    else:
        made = server.change(
            Command.UPDATE, ObjectType.SITE, PEC_PARTITION_ID, identifier=AWAY, properties=renamed
        )
    assert ("SyncRequestMessage", "New") in kinds(made)
    given = {"partition_id": AWAY, "from_seq_number": SequenceNumber(1)}
    made = server.answered(machine(2, "Desk2", AWAY), sender="New", **given)
    assert server.partition(AWAY).authority_name == "Other"  # as the change that waited says
    assert kinds(made)[-1] == ("SyncRequestMessage", "Other")
    if is_told:
        made = server.got(header("New", AWAY, last=5), "New")
    else:
        assert kinds(server.fired(f"sync {AWAY}", after_s=30)) == [("SyncRequestMessage", "Other")]
        made = server.fired(f"sync {AWAY}", after_s=30)
    assert kinds(made) == [("SyncRequestMessage", "New")]
    given = {"guid_identifier": guid_of("machine Other"), "previous_seq_number": SequenceNumber(3)}
    last = replace(machine(5, "New", AWAY, Service.PSC), **given)
    server.answered(last, sender="New", partition_id=AWAY, from_seq_number=SequenceNumber(3))
    record = server.partition(AWAY)
    assert (record.authority_name, record.last) == ("New", 5)


def handed_over_in_between() -> Lone:
    """A full synchronization of Away began with Other, which handed the site over to Heir since."""
    server = Lone()
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=AWAY, from_seq_number=MIN, to_seq_number=MIN, sender="Other")
    purged = SequenceNumber(50)
    server.got(AlreadyPurgedMessage(site_id=AWAY, partition_id=AWAY, purged_seq_number=purged), "Other")
    first = replace(
        machine(51, "Other", AWAY, Service.BSC), previous_seq_number=MIN, purged_seq_number=purged
    )
    given = {"partition_id": AWAY, "purged_seq_number": purged, "from_seq_number": MIN}
    server.answered(first, sender="Other", complete_sync0=CompleteSync0.SOON, **given)
    assert server.partition(AWAY).purge_state is PurgeState.SYNC0
    server.told(site(3, "Away", "Heir"))
    assert server.partition(AWAY).authority_name == "Heir"
    return server


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_goes_on_with_its_first_source_after_a_handover() -> None:
    """Decision R192 (seed 816883): the heir is empty, waits for others itself, and never answers."""
    server = handed_over_in_between()
    asked = set()
    for _ in range(6):
        asked |= {one.destination for one in sends(server.fired(f"sync {AWAY}"))}
        if server.partition(AWAY).purge_state is PurgeState.SYNC0 and "Other" in asked:
            break
    assert asked == {"Heir", "PEC", "Other"}
    server.answered(
        replace(machine(52, "m52", AWAY), purged_seq_number=SequenceNumber(50)),
        sender="Other",
        partition_id=AWAY,
        from_seq_number=SequenceNumber(51),
        purged_seq_number=SequenceNumber(50),
        complete_sync0=CompleteSync0.NOW,
    )
    assert server.partition(AWAY).purge_state is PurgeState.NORMAL
    assert server.partition(AWAY).last == 52


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_does_not_go_on_with_a_removed_first_source() -> None:
    """Decisions R167 and R192."""
    server = handed_over_in_between()
    server.engine._server.partitions[AWAY].is_first_source_removed = True
    asked = {one.destination for _ in range(8) for one in sends(server.fired(f"sync {AWAY}"))}
    assert asked == {"Heir", "PEC"}


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_begins_anew_with_the_source_that_ended_it() -> None:
    """Decision R192 (seed 816772): our PSC has less, and would bring deleted objects back."""
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), site(2, "Away", "Other"), sender="Boss")
    purged = SequenceNumber(50)
    already = AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=purged)
    server.got(already, "Boss")
    given = {"purged_seq_number": purged, "from_seq_number": MIN}
    server.answered(numbered(60, 0), sender="Boss", complete_sync0=CompleteSync0.SOON, **given)
    assert server.partition().purge_state is PurgeState.SYNC0
    for _ in range(6):
        server.fired(f"sync {PEC_PARTITION_ID}")
    made = server.answered(
        numbered(61), sender="PEC", purged_seq_number=purged, complete_sync0=CompleteSync0.NOW
    )
    (asked,) = sends(made)
    assert (asked.message.from_seq_number, asked.message.is_sync0, asked.destination) == (MIN, True, "PEC")


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_does_not_begin_anew_with_a_source_that_has_less_than_we() -> None:
    """Decision R201 (seed 890431): the source would bring back what a newer propagated change deleted."""
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), site(2, "Away", "Other"), sender="Boss")
    purged = SequenceNumber(50)
    already = AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=purged)
    server.got(already, "Boss")
    given = {"purged_seq_number": purged, "from_seq_number": MIN}
    server.answered(numbered(60, 0), sender="Boss", complete_sync0=CompleteSync0.SOON, **given)
    gone = ((Propid.D_SCOPE, int(Scope.ENTERPRISE)), (Propid.D_OBJTYPE, int(ObjectType.CN)))
    deleted = {"guid_identifier": guid_of("cn60"), "command": Command.DELETE, "properties": gone}
    server.told(numbered(62, purged_seq_number=purged, **deleted), sender="Boss")
    for _ in range(6):
        server.fired(f"sync {PEC_PARTITION_ID}")
    last = {"purged_seq_number": purged, "complete_sync0": CompleteSync0.NOW}
    server.answered(numbered(61, purged_seq_number=purged), sender="PEC", **last)
    record = server.partition()
    assert (record.purge_state, record.last) == (PurgeState.SYNC0, 62)
    assert server.has("cn60") is None
    server.fired(f"sync {PEC_PARTITION_ID}")
    server.answered(numbered(63, purged_seq_number=purged), sender="Boss", **last)
    assert server.partition().purge_state is PurgeState.NORMAL


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize("sender", ["Heir", "Other"], ids=["taken over", "restored"])
def test_a_full_synchronization_that_crosses_a_gap_begins_anew(sender) -> None:
    """Decision R202: Other had given m12 the number 65, which the history behind the gap lacks."""
    server = begun_with_other(purged=50)
    server.got(header("Other", AWAY, last=65), "Other")
    if sender != "Other":
        server.told(site(3, "Away", sender))
    new = 60 + GAP
    (asked,) = part(server, new, "new", after=60, sender=sender, is_last=True)
    assert (asked.message.from_seq_number, asked.message.is_sync0, asked.destination) == (MIN, True, sender)
    part(server, 12, "m12", after=0, sender=sender)
    part(server, new, "new", after=12, sender=sender, is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.NORMAL
    m12 = ReadObject(object_type=ObjectType.MACHINE, identifier=guid_of("machine m12"))
    assert server.store.perform(m12).status == OK


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_crosses_an_old_gap_of_one_source() -> None:
    """Decision R202: the number behind the gap was known when the full synchronization began."""
    new = 60 + GAP
    server = begun_with_other(purged=new)
    part(server, new, "new", after=60, sender="Other", purged=new, is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.NORMAL


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize("parts", [0, 1])
def test_a_full_synchronization_that_began_anew_waits_for_its_source(parts) -> None:
    """Decision R206 (seed 921794): our PSC lacks a deletion that we had: the object came back."""
    server = begun_anew_with_heir()
    if parts:
        part(server, 60, "Heir", after=0, sender="PEC")
    assert asked_in_turn(server, 3) == ["PEC"] * 3
    assert kinds(server.got(header("Boss", AWAY, last=60 + GAP), "Boss")) == []
    assert asked_in_turn(server, 4) == ["PEC", "PEC", "PEC", "Boss"]


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_first_part_that_names_another_psc_came_from_the_one_before() -> None:
    """Decision R206: the other PSC sent the rest, and counted as the sender of all: no gap was seen."""
    new = SequenceNumber(60 + GAP)
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), sender="Boss")
    server.answered(machine(12, "m12", HOME), partition_id=HOME, from_seq_number=MIN, sender="Boss")
    server.got(AlreadyPurgedMessage(site_id=HOME, partition_id=HOME, purged_seq_number=new), "Boss")
    given = {"partition_id": HOME, "purged_seq_number": new}
    first = replace(machine(60, "Heir", HOME, Service.PSC), previous_seq_number=MIN, purged_seq_number=new)
    made = server.answered(
        first, sender="Boss", from_seq_number=MIN, complete_sync0=CompleteSync0.SOON, **given
    )
    assert (HOME, 60, "Heir") in asked_of(made)
    last = replace(machine(new, "new", HOME), previous_seq_number=first.seq_number, purged_seq_number=new)
    made = server.answered(
        last, sender="Heir", from_seq_number=first.seq_number, complete_sync0=CompleteSync0.NOW, **given
    )
    assert asked_of(made) == [(HOME, MIN, "Heir")]


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_a_full_synchronization_that_began_anew_takes_another_source_that_has_as_much() -> None:
    """Decision R206: the other one has heard of all that we had."""
    server = begun_anew_with_heir()
    made = server.got(header("Boss", AWAY, last=61 + GAP), "Boss")
    assert kinds(made) == [("SyncRequestMessage", "Boss")]
    part(server, 60, "Heir", after=0, sender="Boss")
    part(server, 61 + GAP, "new", after=60, sender="Boss", is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.NORMAL


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_full_synchronization_that_another_source_began_ends_with_it() -> None:
    """Decision R203: the usual source sent no part, and so need not be heard."""
    server = begun_with_other(purged=50)
    part(server, 61, "m61", after=60, sender="Other", is_last=True)
    server.did(Resynchronize(request=1, partition_id=AWAY))
    assert asked_in_turn(server, 6)[-1] == "PEC"
    part(server, 61, "m61", after=0, sender="PEC", is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.NORMAL
