"""Change requests on their way: [MC-MQDSRP] 3.1.7.1.1, 3.3.7.1, 3.2.7.2, 3.2.7.6, 3.3.7.6, 3.3.7.8-9."""

import pytest
from support.replication.lone_authority import (
    OK,
    authority,
    last,
    make_queue,
    queue_of,
    queue_request,
    request,
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

from mqdssm.engines.replication import outcomes, requests
from mqdssm.engines.replication.actions import Reply, Send, Started
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.engines.replication.settings import Role
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeReplyMessage,
    ChangeRequestMessage,
    Command,
    Scope,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MIN

NO_RSP = Hresult.MQDS_NO_RSP_FROM_OWNER
NOT_REACHED = Hresult.MQDS_OWNER_NOT_REACHED


def psc() -> Lone:
    """A PSC that owns its site, and knows another one."""
    server = Lone(Role.PSC)
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    assert server.partition(HOME).owned
    return server


def bsc() -> Lone:
    """A BSC below "Boss", which knows its own site and another one."""
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), site(2, "Away", "Other"), sender="Boss")
    return server


def asks(server: Lone, partition_id=AWAY) -> list:
    """What the server does when a client wants another label."""
    return server.change(
        Command.UPDATE,
        ObjectType.QUEUE,
        partition_id,
        path_name="Far\\q",
        properties=((Propid.Q_LABEL, "new"),),
    )


def the_request(actions) -> Send:
    """The one change request among actions."""
    (send,) = [one for one in sends(actions) if isinstance(one.message, ChangeRequestMessage)]
    return send


def answer(message: ChangeRequestMessage, status: int = OK) -> ChangeReplyMessage:
    """The reply to a request."""
    return ChangeReplyMessage(
        site_id=AWAY,
        request_identifier=message.request_identifier,
        result=status,
        requester_name=message.requester_name,
    )


def far(identifier: int = 7, requester: str = "Back", boss: str = "Me", partition_id=AWAY):
    """The request of a BSC for an object of another site."""
    properties = ((Propid.Q_LABEL, "new"),)
    return request(
        Command.UPDATE,
        properties,
        partition_id=partition_id,
        requester=requester,
        identifier=identifier,
        psc=boss,
        path_name="Far\\q",
    )


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
@pytest.mark.spec("MC-MQDSRP 3.3.7")
@pytest.mark.spec("MC-MQDSRP 3.3.7.1")
def test_a_psc_asks_the_authority() -> None:
    made = asks(psc())
    sent = the_request(made)
    assert (sent.destination, sent.timeout_s, sent.priority, sent.ack_requested) == ("Other", 10, 8, True)
    message = sent.message
    assert (message.partition_id, message.requester_name, message.psc_name) == (AWAY, "Me", None)
    assert message.request_identifier == 77  # the first number comes from the driver's chance
    change = message.directory_change
    assert (change.command, change.path_name, change.guid_identifier) == (Command.UPDATE, "Far\\q", None)
    assert (change.previous_seq_number, change.seq_number, change.purged_seq_number) == (MIN, MIN, MIN)
    assert change.properties == ((Propid.Q_LABEL, "new"),)
    assert timers(made) == {"request 77 me": 10.0}


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
@pytest.mark.spec("MC-MQDSRP 3.3.7.1")
@pytest.mark.spec("MC-MQDSRP 3.3.1")
@pytest.mark.parametrize(
    ("partition_id", "wait"), [(AWAY, 20.0), (HOME, 10.0), (guid_of("unheard of"), 20.0)]
)
def test_a_bsc_asks_its_psc(partition_id, wait) -> None:
    made = asks(bsc(), partition_id)
    sent = the_request(made)
    assert sent.destination == "Boss"
    assert (sent.message.requester_name, sent.message.psc_name) == ("Me", "Boss")
    assert list(timers(made).values()) == [wait]  # longer where the PSC has to forward it


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
def test_each_request_has_a_number_of_its_own() -> None:
    server = psc()
    numbers = {the_request(asks(server)).message.request_identifier for _ in range(5)}
    assert len(numbers) == 5


def test_numbers_stay_within_32_bits() -> None:
    server = psc()
    server.engine = ReplicationEngine(server.settings, first_request=2**32 - 1)
    server.store = server.store.restart()
    server.did(Started())
    assert [the_request(asks(server)).message.request_identifier for _ in range(2)] == [2**32 - 1, 0]


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
def test_a_deletion_says_scope_and_type() -> None:
    server = psc()
    made = server.change(
        Command.DELETE, ObjectType.QUEUE, AWAY, identifier=guid_of("queue far"), scope=Scope.SITE
    )
    change = the_request(made).message.directory_change
    assert change.guid_identifier == guid_of("queue far")
    assert change.properties == ((Propid.D_SCOPE, 0), (Propid.D_OBJTYPE, 1))


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
def test_a_creation_names_the_identifier() -> None:
    server = psc()
    made = server.change(
        Command.CREATE,
        ObjectType.QUEUE,
        AWAY,
        path_name="Far\\q",
        identifier=guid_of("queue q"),
        properties=((Propid.Q_PATHNAME, "Far\\q"),),
    )
    message = the_request(made).message
    assert message.directory_change.get(Propid.Q_INSTANCE) == guid_of("queue q")  # decision R11
    made = server.got(answer(message), "Other")
    assert [(one.status, one.identifier) for one in made if isinstance(one, Reply)] == [
        (OK, guid_of("queue q"))
    ]


@pytest.mark.spec("MC-MQDSRP 3.3.7.1")
def test_a_psc_does_not_know_whom_to_ask() -> None:
    made = asks(psc(), guid_of("unheard of"))
    assert replies(made) == [Hresult.MQDS_UNKNOWN_SOURCE]
    assert sends(made) == []


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
def test_a_change_of_nothing_is_refused() -> None:
    server = psc()
    made = server.change(Command.UPDATE, ObjectType.QUEUE, AWAY, path_name="Far\\q")
    assert replies(made) == [Hresult.MQ_ERROR_INVALID_PARAMETER]  # decision R19: it has no type
    made = server.change(Command.DELETE, ObjectType.QUEUE, AWAY)
    assert replies(made) == [Hresult.MQ_ERROR_INVALID_PARAMETER]


@pytest.mark.spec("MC-MQDSRP 3.3.7.6")
@pytest.mark.spec("MC-MQDSRP 3.3.5")
@pytest.mark.parametrize("status", [OK, Hresult.MQ_ERROR_QUEUE_EXISTS])
def test_the_reply_is_the_clients_answer(status) -> None:
    server = psc()
    message = the_request(asks(server)).message
    assert replies(server.got(answer(message, status), "Other")) == [status]
    assert server.got(answer(message, status), "Other") == []  # it is over
    assert server.fired(f"request {message.request_identifier} me") == []


@pytest.mark.spec("MC-MQDSRP 3.3.7.6")
def test_a_reply_that_nobody_waits_for_is_nothing() -> None:
    server = psc()
    message = the_request(asks(server)).message
    stranger = ChangeReplyMessage(
        site_id=AWAY,
        request_identifier=message.request_identifier + 1,
        result=OK,
        requester_name="Me",
    )
    assert server.got(stranger, "Other") == []
    namesake = ChangeReplyMessage(
        site_id=AWAY, request_identifier=message.request_identifier, result=OK, requester_name="Another"
    )
    assert server.got(namesake, "Other") == []  # decision R10
    assert replies(server.got(answer(message), "Other")) == [OK]


@pytest.mark.spec("MC-MQDSRP 3.3.7.1")
def test_no_reply_in_time() -> None:
    server = psc()
    message = the_request(asks(server)).message
    assert replies(server.fired("request 77 me", 10)) == [NO_RSP]
    assert server.got(answer(message), "Other") == []  # too late


@pytest.mark.spec("MC-MQDSRP 3.3.7.8")
@pytest.mark.parametrize("bad_signature", [True, False])
def test_a_request_that_comes_back(bad_signature) -> None:
    server = psc()
    message = the_request(asks(server)).message
    made = server.nacked(message, "Other", bad_signature=bad_signature)
    assert replies(made) == [NOT_REACHED]
    assert sends(made) == []  # it is not sent again
    assert server.nacked(message, "Other") == []


@pytest.mark.spec("MC-MQDSRP 3.1.1.5.1")
@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.spec("MC-MQDSRP 3.2.7.6")
def test_a_psc_passes_requests_and_replies_on() -> None:
    server = authority()
    message = far()
    made = server.got(message, "Back")
    sent = the_request(made)
    assert (sent.destination, sent.message) == ("Other", message)
    assert (sent.timeout_s, sent.priority, sent.ack_requested) == (10, 8, True)
    assert timers(made) == {"request 7 back": 10.0}
    made = server.got(answer(message, Hresult.MQ_ERROR), "Other")
    (reply,) = sends(made)
    assert (reply.destination, reply.timeout_s, reply.priority, reply.ack_requested) == ("Back", 10, 8, True)
    assert (reply.message.result, reply.message.requester_name) == (Hresult.MQ_ERROR, "Back")
    assert reply.message.request_identifier == 7
    assert replies(made) == []


@pytest.mark.spec("MC-MQDSRP 3.3.7.6")
def test_two_requesters_may_use_the_same_number() -> None:
    server = authority()
    own = the_request(asks(server)).message.request_identifier
    first, second = far(own, "Back"), far(own, "Third")
    assert the_request(server.got(first, "Back")).message == first
    assert the_request(server.got(second, "Third")).message == second
    made = server.got(answer(second, Hresult.MQ_ERROR), "Other")  # decision R10
    assert [(one.requester_name, one.result) for one in _replies(made)] == [("Third", Hresult.MQ_ERROR)]
    assert results(server.got(answer(first), "Other")) == [("Back", OK)]
    mine = ChangeReplyMessage(site_id=AWAY, request_identifier=own, result=OK, requester_name="Me")
    assert replies(server.got(mine, "Other")) == [OK]


def _replies(actions) -> list[ChangeReplyMessage]:
    return [one.message for one in sends(actions) if isinstance(one.message, ChangeReplyMessage)]


@pytest.mark.spec("MC-MQDSRP 3.3.7.1")
@pytest.mark.parametrize(("how", "status"), [("late", NO_RSP), ("nack", NOT_REACHED)])
def test_the_requester_hears_that_the_authority_is_not_there(how, status) -> None:
    server = authority()
    message = far()
    server.got(message, "Back")
    made = server.fired("request 7 back", 10) if how == "late" else server.nacked(message, "Other")
    assert results(made) == [("Back", status)]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_a_forwarding_psc_does_not_know_the_partition() -> None:
    server = authority()
    made = server.got(far(partition_id=guid_of("unheard of")), "Back")
    assert results(made) == [("Back", Hresult.MQDS_UNKNOWN_SOURCE)]


@pytest.mark.spec("MC-MQDSRP 3.2.7.6")
@pytest.mark.parametrize(
    ("requester", "boss", "sender"),
    [
        ("Other", None, "Other"),
        ("Back", "Me", "Back"),
        ("Their", "Other", "Other"),
        ("Fresh", None, "Fresh"),
    ],
    ids=["a PSC", "our BSC", "a BSC of another site", "a PSC that is new"],
)
def test_the_reply_goes_to_the_requester_or_its_psc(requester, boss, sender) -> None:
    server = authority()
    their = machine(1, "Their", AWAY, Service.BSC)
    server.got(ChangePropagationMessage(site_id=AWAY, directory_changes=(their,)), "Other")
    made = server.got(queue_request("q", requester=requester, psc=boss), sender)
    assert results(made) == [(sender, OK)]  # who it came from waits for it
    (reply,) = _replies(made)
    assert reply.requester_name == requester


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_a_copy_of_a_request_is_not_executed_again() -> None:
    server = authority()
    first = server.got(queue_request("q"), "Other")
    server.change(
        Command.DELETE, ObjectType.QUEUE, HOME, path_name="Desk\\q"
    )  # what came later must not be undone
    again = server.got(queue_request("q"), "Other", after_s=30)
    assert results(first) == results(again) == [("Other", OK)]  # decision R33
    assert queue_of(server, "q") is None
    assert last(server) == 5
    refused = request(Command.UPDATE, ((Propid.Q_LABEL, "x"),), path_name="Desk\\no", identifier=9)
    assert results(server.got(refused, "Other")) == results(server.got(refused, "Other"))


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_the_same_number_of_another_requester_is_another_request() -> None:
    server = authority()
    server.got(queue_request("one"), "Other")
    server.got(queue_request("two", requester="Back", psc="Me"), "Back")
    assert queue_of(server, "one")
    assert queue_of(server, "two")


def test_what_became_of_a_request_is_known_for_a_minute_and_of_so_many(monkeypatch) -> None:
    server = authority()
    server.got(queue_request("q"), "Other")
    server.fired("forget", after_s=60)
    assert results(server.got(queue_request("q"), "Other")) == [("Other", OK)]
    assert timers(server.fired("forget", after_s=60)) == {}
    made = server.got(queue_request("q"), "Other")
    assert results(made) == [("Other", Hresult.MQ_ERROR_QUEUE_EXISTS)]
    monkeypatch.setattr(outcomes, "REMEMBERED_MAX", 2)
    for n in range(3):
        server.got(queue_request(f"q{n}", identifier=20 + n), "Other")
    assert len(server.engine._server.executed) == 2
    made = server.got(queue_request("q1", identifier=21), "Other")
    assert results(made) == [("Other", OK)]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_one_sender_with_many_requests_has_its_own_forgotten(monkeypatch) -> None:
    """Decision R157: the request of another one is not carried out again."""
    monkeypatch.setattr(outcomes, "REMEMBERED_MAX", 5)
    server = authority()
    server.got(queue_request("q", requester="Back", psc="Me"), "Back")
    for n in range(20):
        server.got(queue_request(f"q{n}", identifier=20 + n), "Other")
    assert len(server.engine._server.executed) == 5
    before = last(server)
    assert results(server.got(queue_request("q19", identifier=39), "Other")) == [("Other", OK)]
    assert results(server.got(queue_request("q", requester="Back", psc="Me"), "Back")) == [("Back", OK)]
    assert last(server) == before


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize("jump_s", [-10_000, 10_000])
def test_a_copy_is_not_executed_again_whatever_the_clock_is_set_to(jump_s: int) -> None:
    server = authority()
    server.got(queue_request("q"), "Other")
    server.got(queue_request("other", identifier=8), "Other", after_s=jump_s)
    assert results(server.got(queue_request("q"), "Other")) == [("Other", OK)]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_a_copy_is_not_forwarded_again() -> None:
    server = authority()
    message = far()
    server.got(message, "Back")
    assert notes(server.got(message, "Back")) == ["dropped: a change request that we forwarded already"]
    server.got(answer(message, Hresult.MQ_ERROR), "Other")
    made = server.got(message, "Back")
    assert results(made) == [("Back", Hresult.MQ_ERROR)]  # from memory
    assert kinds(made) == [("ChangeReplyMessage", "Back")]


def test_a_request_that_comes_round_ends() -> None:
    server = authority()
    message = far()
    server.got(message, "Back")
    assert sends(server.got(message, "Other")) == []  # who we asked believes that it is ours


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_soon_after_a_start_requests_of_others_are_dropped() -> None:
    server = authority()
    server.got(queue_request("q"), "Other")
    again = server.again()  # it has forgotten what it executed: decision R33
    again.now += 10_000  # whatever the clock is set to
    assert notes(again.got(queue_request("q"), "Other", after_s=19)) == [
        "dropped: a change request soon after our start"
    ]
    assert results(again.got(far(identifier=8), "Back")) == []
    assert replies(make_queue(again, "mine")) == [OK]  # our own clients need not wait
    assert timers(again.all)["quiet"] == 20
    again.fired("quiet")
    assert results(again.got(queue_request("late", identifier=9), "Other")) == [("Other", OK)]


def test_a_first_start_has_nothing_to_forget() -> None:
    server = Lone(Role.PEC)
    cn = (Propid.CN_NAME, "cn"), (Propid.CN_PROTOCOLID, 1), (Propid.CN_GUID, guid_of("cn"))
    message = request(Command.CREATE, cn, partition_id=PEC_PARTITION_ID, path_name="cn")
    assert results(server.got(message, "Other")) == [("Other", OK)]


def test_not_too_many_requests_wait(monkeypatch) -> None:
    monkeypatch.setattr(requests, "WAITING_MAX", 2)
    server = psc()
    assert [len(sends(asks(server))) for _ in range(2)] == [1, 1]
    assert replies(asks(server)) == [Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES]


@pytest.mark.spec("MC-MQDSRP 3.3.7.9")
def test_what_was_signed_badly_is_sent_again() -> None:
    server = psc()
    message = ChangePropagationMessage(site_id=HOME, directory_changes=(numbered(1),))
    (sent,) = server.nacked(message, "Other", bad_signature=True)
    assert (sent.destination, sent.message) == ("Other", message)
    assert (sent.timeout_s, sent.priority, sent.ack_requested) == (10, 3, True)


@pytest.mark.spec("MC-MQDSRP 3.3.7.9")
def test_other_nacks_are_nothing() -> None:
    server = psc()
    message = ChangePropagationMessage(site_id=HOME, directory_changes=(numbered(1),))
    assert server.nacked(message, "Other") == []


@pytest.mark.spec("MC-MQDSRP 3.3.7.9")
def test_it_is_sent_three_times_until_a_message_arrives() -> None:
    server = psc()
    message = ChangePropagationMessage(site_id=HOME, directory_changes=(numbered(1),))

    def again(to: str = "Other") -> int:
        return len(sends(server.nacked(message, to, bad_signature=True)))

    assert [again() for _ in range(5)] == [1, 1, 1, 0, 0]  # decision R44
    assert again("PEC") == 1  # machine by machine
    server.got(ChangePropagationMessage(site_id=AWAY), "OTHER")  # it has a key of ours now, or will
    assert [again() for _ in range(4)] == [1, 1, 1, 0]
