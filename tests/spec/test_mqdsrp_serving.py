"""Who answers a synchronization request, and with what: [MC-MQDSRP] 3.2.7.3, 3.2.7.7, 3.2.7.8."""

from dataclasses import replace

import pytest
from support.replication.lone_authority import acked, authority, delete, label, make_cn, make_queue, make_site
from support.replication.lone_server import AWAY, HOME, Lone, kinds, machine, notes, numbered, sends, site
from support.replication.network import guid_of

from mqdssm.engines.replication.actions import Received, Send
from mqdssm.engines.replication.operations import ApplyChanges, SavePartition
from mqdssm.engines.replication.settings import Role
from mqdssm.model.messages import (
    Command,
    CompleteSync0,
    Scope,
    SyncReplyMessage,
    SyncRequestMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber


def question(after: int = 0, partition_id=HOME, sender: str = "Other", **given) -> SyncRequestMessage:
    fields = {
        "site_id": AWAY,
        "partition_id": partition_id,
        "from_seq_number": SequenceNumber(after),
        "to_seq_number": MAX,
        "known_purged_seq_number": MIN,
        "scope": Scope.ENTERPRISE,
        "requester_name": sender,
    }
    return SyncRequestMessage(**(fields | given))


def asked(server: Lone, after: int = 0, partition_id=HOME, sender: str = "Other", **given) -> list:
    """What a server does about a synchronization request."""
    return server.got(question(after, partition_id, sender, **given), sender)


def reply(server: Lone, after: int = 0, partition_id=HOME, **given) -> SyncReplyMessage:
    """The reply to a synchronization request."""
    (sent,) = sends(asked(server, after, partition_id, **given))
    assert isinstance(sent.message, SyncReplyMessage)
    return sent.message


def world(**settings) -> Lone:
    """Queues q1 to q5 have the numbers 4 to 8; then q2 changes (9), and q1 goes (10)."""
    server = authority(**settings)
    for n in range(1, 6):
        make_queue(server, f"q{n}")
    label(server, "q2", "changed")
    delete(server, ObjectType.QUEUE, HOME, path_name="Desk\\q1", scope=Scope.SITE)
    return server


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_all_that_there_is_in_ascending_order() -> None:
    server = world()
    (sent,) = sends(asked(server))
    assert isinstance(sent, Send)
    assert (sent.destination, sent.timeout_s, sent.priority, sent.ack_requested) == ("Other", 1200, 3, False)
    message = sent.message
    assert (message.partition_id, message.site_id) == (HOME, HOME)
    assert (message.from_seq_number, message.to_seq_number, message.purged_seq_number) == (0, 10, 0)
    assert message.complete_sync0 is CompleteSync0.NONE
    chain = [(int(one.previous_seq_number), int(one.seq_number)) for one in message.directory_changes]
    # decision R6: ascending, and the first one continues what the requester has
    assert chain == [(0, 1), (1, 2), (2, 3), (3, 6), (6, 7), (7, 8), (8, 9), (9, 10)]


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_what_the_requester_has_is_left_out() -> None:
    message = reply(world(), after=8)
    assert [(one.previous_seq_number, one.seq_number) for one in message.directory_changes] == [
        (8, 9),
        (9, 10),
    ]
    assert (message.from_seq_number, message.to_seq_number) == (8, 10)
    empty = reply(world(), after=10)
    assert empty.directory_changes == ()
    assert (empty.from_seq_number, empty.to_seq_number) == (10, 10)


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_the_end_of_a_question_bounds_no_answer() -> None:
    message = reply(world(), after=4, to_seq_number=SequenceNumber(6))  # decision R32
    assert message.to_seq_number == 10
    assert message.directory_changes[-1].seq_number == 10


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
@pytest.mark.spec("MC-MQDSRP 2.2.4")
def test_an_object_is_told_whole_by_its_guid() -> None:
    found = next(one for one in reply(world(), after=8).directory_changes if one.seq_number == 9)
    assert (found.command, found.guid_identifier, found.path_name) == (
        Command.SYNC,
        guid_of("queue q2"),
        None,
    )
    assert (found.partition_id, found.object_type) == (HOME, ObjectType.QUEUE)
    values = dict(found.properties)
    assert (values[Propid.Q_LABEL], values[Propid.Q_PATHNAME]) == ("changed", "Desk\\q2")
    # neither identifier nor number nor partition: those are fields of the change
    assert not {Propid.Q_INSTANCE, Propid.Q_SEQNUM, Propid.Q_PARTITIONID} & set(values)


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
def test_a_tombstone_is_told_as_a_deletion() -> None:
    tombstone = reply(world(), after=9).directory_changes[0]
    assert (tombstone.command, tombstone.guid_identifier) == (Command.DELETE, guid_of("queue q1"))
    assert tombstone.properties == ((Propid.D_SCOPE, 0), (Propid.D_OBJTYPE, 1))


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_each_partition_has_its_own_objects_and_tombstones() -> None:
    server = world()
    make_cn(server, "cn")
    delete(server, ObjectType.CN, PEC_PARTITION_ID, path_name="cn")
    enterprise = reply(server, partition_id=PEC_PARTITION_ID).directory_changes
    types = {one.object_type for one in enterprise if one.command is Command.SYNC}
    assert types == {ObjectType.ENTERPRISE, ObjectType.SITE}  # decision R7
    tombstones = [one.guid_identifier for one in enterprise if one.command is Command.DELETE]
    assert tombstones == [guid_of("cn")]  # decision R8
    home = reply(server).directory_changes
    assert {one.object_type for one in home if one.command is Command.SYNC} == {
        ObjectType.MACHINE,
        ObjectType.QUEUE,
    }
    assert [one.guid_identifier for one in home if one.command is Command.DELETE] == [guid_of("queue q1")]
    assert {one.partition_id for one in home} == {HOME}


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
@pytest.mark.parametrize("scope", Scope)
def test_queues_of_every_scope_are_told(scope) -> None:
    server = authority()
    make_queue(server, "wide")
    server.change(
        Command.CREATE,
        ObjectType.QUEUE,
        HOME,
        path_name="Desk\\narrow",
        identifier=guid_of("queue narrow"),
        properties=((Propid.Q_PATHNAME, "Desk\\narrow"), (Propid.Q_SCOPE, int(Scope.SITE))),
    )
    told = {one.guid_identifier for one in reply(server, scope=scope).directory_changes}
    assert {guid_of("queue wide"), guid_of("queue narrow")} <= told  # decision R41


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_a_reply_ends_where_a_message_is_full() -> None:
    server = world(message_changes_max=3)
    numbers, after = [], 0
    for _ in range(4):
        message = reply(server, after=after)
        assert len(message.directory_changes) <= 3
        numbers += [int(one.seq_number) for one in message.directory_changes]
        after = int(message.to_seq_number)
    assert numbers == [1, 2, 3, 6, 7, 8, 9, 10]
    assert after == 10


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_octets_bound_a_reply_but_one_change_is_always_told() -> None:
    server = world(message_bytes_max=1)
    message = reply(server)
    assert [int(one.seq_number) for one in message.directory_changes] == [1]
    assert message.to_seq_number < 3


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_the_sync0_state_is_told() -> None:
    server = world(message_changes_max=3)
    assert reply(server, is_sync0=True).complete_sync0 is CompleteSync0.SOON
    assert reply(server, after=9, is_sync0=True).complete_sync0 is CompleteSync0.NOW
    assert reply(server, after=9).complete_sync0 is CompleteSync0.NONE


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.spec("MC-MQDSRP 3.2.7.7")
def test_what_is_purged_cannot_be_told() -> None:
    server = purged()
    kept = server.partition(HOME)
    assert kept.purged == 9
    (sent,) = sends(asked(server, after=8))
    assert (sent.destination, sent.timeout_s, sent.priority, sent.ack_requested) == ("Other", 1200, 3, False)
    assert (sent.message.partition_id, sent.message.purged_seq_number) == (HOME, 9)
    assert kinds([sent]) == [("AlreadyPurgedMessage", "Other")]
    assert reply(server, after=9).purged_seq_number == 9


def purged() -> Lone:
    """A world that has purged up to number 9."""
    server = world(purge_buffer=1, purge_interval=0)
    server.got(acked("Other", 9), "Other")
    make_queue(server, "more")
    return server


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.parametrize("known", [8, 9])
def test_who_knows_what_is_purged_gets_everything(known) -> None:
    server = purged()
    made = asked(server, known_purged_seq_number=SequenceNumber(known), is_sync0=True)
    kind = "SyncReplyMessage" if known == 9 else "AlreadyPurgedMessage"
    assert kinds(made) == [(kind, "Other")]


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_changes_of_a_reply_carry_the_purged_number() -> None:
    server = purged()
    assert {one.purged_seq_number for one in reply(server, after=9).directory_changes} == {9}


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_who_knows_of_more_purging_is_believed_it() -> None:
    message = reply(purged(), after=9, known_purged_seq_number=SequenceNumber(50), is_sync0=True)
    assert message.purged_seq_number == 50  # decision R45: else a requester in sync0 drops it
    assert {one.purged_seq_number for one in message.directory_changes} == {50}


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_who_lacks_what_is_purged_elsewhere_answers_no_full_synchronization() -> None:
    """Decision R88: it may have objects whose deletion nobody would tell the requester any more."""
    server = replica()
    last = int(server.partition(AWAY).last)
    question = {"partition_id": AWAY, "is_sync0": True, "sender": "Other"}
    made = asked(server, known_purged_seq_number=SequenceNumber(last), **question)
    assert kinds(made) == [("SyncReplyMessage", "Other")]
    made = asked(server, known_purged_seq_number=SequenceNumber(last + 1), **question)
    assert notes(made) == ["dropped: a request of who knows of more purging"]
    assert sends(made) == []


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.spec("MC-MQDSRP 3.1.1.5.3")
def test_who_has_nothing_to_tell_is_silent() -> None:
    server = world()
    made = asked(server, partition_id=guid_of("unheard of"))
    assert notes(made) == ["dropped: a request that cannot be answered now"]
    assert sends(made) == []


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.parametrize("state", [one for one in PurgeState if one is not PurgeState.NORMAL])
def test_who_synchronizes_in_full_is_silent(state) -> None:
    server = replica()
    saved = replace(server.partition(AWAY), purge_state=state)
    server.store.perform(SavePartition(partition=saved))
    again = server.again(role=Role.PSC)
    if state is PurgeState.COMPLETESYNC0:
        assert kinds(asked(again, partition_id=AWAY)) == [("SyncReplyMessage", "Other")]  # it is over at once
    else:
        assert sends(asked(again, partition_id=AWAY)) == []


def replica() -> Lone:
    """A PSC that has two queues and a tombstone of another site."""
    server = Lone(Role.PSC)
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    changes = [machine(n, f"far{n}", AWAY) for n in (1, 2)]
    gone = numbered(
        3,
        partition_id=AWAY,
        command=Command.DELETE,
        guid_identifier=guid_of("machine far1"),
        properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(ObjectType.MACHINE))),
    )
    server.told(*changes, gone, sender="Other")
    return server


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.spec("MC-MQDSRP 4.5")
def test_a_psc_answers_for_the_partitions_of_others() -> None:
    message = reply(replica(), partition_id=AWAY, sender="Back")
    told = [(int(one.seq_number), one.command) for one in message.directory_changes]
    assert told == [(2, Command.SYNC), (3, Command.DELETE)]  # decisions R7 and R9
    assert (message.to_seq_number, message.purged_seq_number) == (3, 0)


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_who_knows_more_than_we_is_not_answered() -> None:
    assert kinds(asked(replica(), after=4, partition_id=AWAY)) == []


def with_uncounted(*numbers: int, **settings) -> Lone:
    """A replica that crashed after it wrote changes and before it counted them."""
    server = replica()
    changes = tuple(machine(number, f"far{number}", AWAY) for number in numbers)
    server.store.perform(ApplyChanges(partition_id=AWAY, changes=changes))
    return server.again(**settings)


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_nobody_is_told_what_we_may_not_have_all() -> None:
    message = reply(with_uncounted(9), partition_id=AWAY, sender="Back")
    assert [int(one.seq_number) for one in message.directory_changes] == [2, 3]
    assert message.to_seq_number == 3


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_an_authority_that_lost_its_copy_is_told_what_we_did_not_count() -> None:
    """Decision R188: else its own machine may be missing, and it never owns its site again."""
    message = reply(with_uncounted(9), partition_id=AWAY)
    assert [int(one.seq_number) for one in message.directory_changes] == [2, 3, 9]
    assert message.to_seq_number == 9


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_an_authority_is_told_that_more_comes_of_what_we_did_not_count() -> None:
    """Decision R188: a full synchronization does not end before the last change."""
    server = with_uncounted(4, 9, message_changes_max=2)
    first = reply(server, partition_id=AWAY, is_sync0=True)
    assert (first.to_seq_number, first.complete_sync0) == (3, CompleteSync0.SOON)
    second = reply(server, 3, partition_id=AWAY, is_sync0=True)
    assert (second.to_seq_number, second.complete_sync0) == (9, CompleteSync0.NOW)


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_a_question_in_another_machines_name_is_not_answered() -> None:
    server = world()
    made = asked(server, requester_name="Desk")  # decision R105
    assert sends(made) == []
    assert notes(made) == ["dropped: a question in another's name"]
    (sent,) = sends(asked(server, requester_name="Renamed"))  # it may have another name now
    assert sent.destination == "Renamed"


def test_sites_are_told_to_whoever_asks() -> None:
    server = authority()
    make_site(server, "Third", "Far")
    message = reply(server, partition_id=PEC_PARTITION_ID, sender="Stranger")
    assert message.directory_changes[-1].guid_identifier == guid_of("site Third")


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_of_the_questions_that_wait_the_newest_is_answered() -> None:
    """Decision R163: who has no answer asks again, and a slow server would answer each copy in vain."""
    server = world()
    under_way, *waiting = (
        ("Other", question(0)),
        ("Other", question(2)),
        ("Boss", question(1, sender="Boss")),
        ("Other", question(3, PEC_PARTITION_ID)),
        ("Other", question(1)),
        ("Other", question(4, sender="nobody knows it")),
        ("Other", question(6)),
    )
    events = [Received(message=one, sender=sender) for sender, one in (under_way, *waiting)]
    sent = sends(server.did_together(*events))
    answers = [(one.destination, one.message.partition_id, int(one.message.from_seq_number)) for one in sent]
    assert answers == [
        ("Other", HOME, 0),
        ("Other", HOME, 6),  # in the place of the first one that waits
        ("Boss", HOME, 1),
        ("Other", PEC_PARTITION_ID, 3),
        ("nobody knows it", HOME, 4),
    ]
    assert server.engine.messages_waiting == 0
    again = sends(server.did_together(*events[:2]))
    assert [int(one.message.from_seq_number) for one in again] == [0, 2]
