"""What the authority does with changes of its objects: [MC-MQDSRP] 3.1.7.1, 3.2.7.2, 3.1.7.2.5-8."""

from dataclasses import replace

import pytest
from support.replication.lone_authority import (
    BSC_TIMER,
    OK,
    PSC_TIMER,
    acked,
    authority,
    delete,
    label,
    last,
    machine_properties,
    make_machine,
    make_queue,
    make_site,
    numbers,
    propagated,
    queue_of,
    queue_request,
    request,
    results,
    told,
)
from support.replication.lone_server import AWAY, HOME, Lone, kinds, replies, timers
from support.replication.network import guid_of

from mqdssm.engines.replication.actions import PropagateChange, Reply
from mqdssm.engines.replication.operations import (
    CreateObject,
    DeleteObject,
    SavePartition,
    UpdateObject,
)
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber


def at_number(server: Lone, number: SequenceNumber) -> Lone:
    """The same server, as if its own site were at a number."""
    kept = replace(server.partition(HOME), last=number)
    server.store.perform(SavePartition(partition=kept))
    again = server.again()
    again.now += 60  # it has been up for a while
    return again


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.3")
def test_the_next_number_of_what_is_ours() -> None:
    server = authority()
    assert server.engine.read_next_number(PEC_PARTITION_ID) == 4
    assert server.engine.read_next_number(HOME) == 4
    make_queue(server, "q")
    assert server.engine.read_next_number(HOME) == 5


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.3")
@pytest.mark.parametrize("partition_id", [AWAY, guid_of("nothing")], ids=["foreign", "unknown"])
def test_no_number_of_what_is_not(partition_id) -> None:
    assert authority().engine.read_next_number(partition_id) == MIN


@pytest.mark.spec("MC-MQDSRP 3.1.7")
@pytest.mark.spec("MC-MQDSRP 3.1.7.1")
@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
def test_a_service_that_writes_itself_has_its_change_propagated() -> None:
    server = authority()
    make_queue(server, "q")
    told(server)
    number = server.engine.read_next_number(HOME)
    written = UpdateObject(
        object_type=ObjectType.QUEUE,
        path_name=None,
        identifier=guid_of("queue q"),
        properties=((Propid.Q_LABEL, "by the service"),),
        partition_id=HOME,
        seq_number=number,
    )
    assert server.store.perform(written).status == OK
    event = PropagateChange(
        request=5,
        command=Command.UPDATE,
        object_type=ObjectType.QUEUE,
        identifier=guid_of("queue q"),
        partition_id=HOME,
        seq_number=number,
    )
    assert replies(server.did(event)) == [OK]
    for timer, to in ((PSC_TIMER, "Other"), (BSC_TIMER, "Back")):
        change = told(server, timer, to)[-1]
        assert (change.previous_seq_number, change.seq_number) == (number - 1, number)
        assert change.get(Propid.Q_LABEL) == "by the service"
    assert last(server) == number


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
@pytest.mark.parametrize("command", [Command.CREATE, Command.DELETE])
def test_a_service_creates_and_deletes(command) -> None:
    server = authority()
    number = server.engine.read_next_number(HOME)
    if command is Command.DELETE:
        make_queue(server, "q")
        told(server)
        number = number.next()
        operation = DeleteObject(
            object_type=ObjectType.QUEUE,
            path_name=None,
            identifier=guid_of("queue q"),
            scope=Scope.SITE,
            partition_id=HOME,
            seq_number=number,
        )
    else:
        operation = CreateObject(
            object_type=ObjectType.QUEUE,
            path_name="Desk\\q",
            properties=((Propid.Q_INSTANCE, guid_of("queue q")), (Propid.Q_PATHNAME, "Desk\\q")),
            partition_id=HOME,
            seq_number=number,
        )
    assert server.store.perform(operation).status == OK
    event = PropagateChange(
        request=5,
        command=command,
        object_type=ObjectType.QUEUE,
        identifier=guid_of("queue q"),
        partition_id=HOME,
        seq_number=number,
        scope=Scope.SITE,
    )
    assert replies(server.did(event)) == [OK]
    (change,) = told(server)
    assert (change.guid_identifier, change.seq_number) == (guid_of("queue q"), number)
    if command is Command.DELETE:
        assert change.command is Command.DELETE
        assert change.properties == ((Propid.D_SCOPE, 0), (Propid.D_OBJTYPE, 1))  # in this order
    else:
        assert change.command is Command.SYNC
        assert change.get(Propid.Q_PATHNAME) == "Desk\\q"


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
@pytest.mark.parametrize(("partition_id", "number"), [(AWAY, 1), (guid_of("nothing"), 1), (HOME, 9)])
def test_what_is_not_ours_or_not_next_is_not_propagated(partition_id, number) -> None:
    server = authority()
    make_queue(server, "q")
    told(server)
    event = PropagateChange(
        request=5,
        command=Command.UPDATE,
        object_type=ObjectType.QUEUE,
        identifier=guid_of("queue q"),
        partition_id=partition_id,
        seq_number=SequenceNumber(number),
    )
    assert replies(server.did(event)) == [Hresult.MQ_ERROR_ILLEGAL_OPERATION]
    assert told(server) == []
    assert last(server) == 4


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2")
def test_changes_form_a_chain_with_the_purged_number_of_the_partition() -> None:
    server = authority(purge_buffer=0, purge_interval=0)
    make_queue(server, "one")
    label(server, "one", "new")
    told(server)
    server.got(acked("Other", 5), "Other")
    make_queue(server, "two")
    make_queue(server, "three")
    chain = [
        (int(one.previous_seq_number), int(one.seq_number), int(one.purged_seq_number))
        for one in told(server)
    ]
    assert chain == [(5, 6, 2), (6, 7, 5)]  # decision R3: not their own numbers


@pytest.mark.spec("MC-MQDSRP 3.2.7")
@pytest.mark.spec("MC-MQDSRP 3.2.5")
@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_a_request_creates_an_object() -> None:
    server = authority()
    made = server.got(queue_request("q"), "Other")
    assert results(made) == [("Other", OK)]
    assert queue_of(server, "q") is not None  # under the GUID that the requester gave: decision R11
    assert last(server) == 4
    for timer, to in ((PSC_TIMER, "Other"), (BSC_TIMER, "Back")):
        (change,) = told(server, timer, to)
        assert (change.command, change.path_name, change.seq_number) == (Command.CREATE, "Desk\\q", 4)
        assert change.get(Propid.Q_INSTANCE) == guid_of("queue q")


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.parametrize(
    "named", [{"path_name": "Desk\\q"}, {"guid_identifier": guid_of("queue q")}], ids=["path", "guid"]
)
def test_a_request_updates_an_object(named) -> None:
    server = authority()
    make_queue(server, "q")
    told(server)
    made = server.got(request(Command.UPDATE, ((Propid.Q_LABEL, "new"),), **named), "Other")
    assert results(made) == [("Other", OK)]
    assert queue_of(server, "q")[Propid.Q_LABEL] == "new"
    (change,) = told(server)
    # the whole object, not the difference: decision R31
    assert (change.command, change.guid_identifier) == (Command.SYNC, guid_of("queue q"))
    assert (change.get(Propid.Q_LABEL), change.get(Propid.Q_PATHNAME)) == ("new", "Desk\\q")


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
@pytest.mark.parametrize("remote", [True, False], ids=["a request", "a client"])
def test_a_deletion_by_path_name_leaves_a_tombstone_with_the_guid(remote) -> None:
    server = authority()
    make_queue(server, "q")
    told(server)
    if remote:
        properties = ((Propid.D_SCOPE, int(Scope.SITE)), (Propid.D_OBJTYPE, int(ObjectType.QUEUE)))
        made = server.got(request(Command.DELETE, properties, path_name="Desk\\q"), "Other")
        assert results(made) == [("Other", OK)]
    else:
        made = delete(server, ObjectType.QUEUE, HOME, path_name="Desk\\q", scope=Scope.SITE)
        assert replies(made) == [OK]
    assert queue_of(server, "q") is None
    assert numbers(server)[guid_of("queue q")] == (5, Command.DELETE)  # decision R21
    (change,) = told(server)
    assert (change.command, change.guid_identifier) == (Command.DELETE, guid_of("queue q"))
    assert change.properties == ((Propid.D_SCOPE, 0), (Propid.D_OBJTYPE, 1))


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.8")
def test_a_request_synchronizes_an_object_that_is_there_or_not() -> None:
    server = authority()
    properties = (
        (Propid.Q_PATHNAME, "Desk\\q"),
        (Propid.Q_LABEL, "first"),
        (Propid.Q_INSTANCE, guid_of("queue q")),
    )
    assert results(server.got(request(Command.SYNC, properties, path_name="Desk\\q"), "Other")) == [
        ("Other", OK)
    ]
    assert queue_of(server, "q")[Propid.Q_LABEL] == "first"
    changed = ((Propid.Q_LABEL, "second"),)
    again = request(Command.SYNC, changed, path_name="Desk\\q", identifier=8)
    assert results(server.got(again, "Other")) == [("Other", OK)]
    assert queue_of(server, "q")[Propid.Q_LABEL] == "second"
    assert [one.seq_number for one in told(server)] == [4, 5]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize(
    ("message", "status"),
    [
        (request(Command.UPDATE, ((Propid.Q_LABEL, "x"),), path_name="Desk\\no"), "MQDS_OBJECT_NOT_FOUND"),
        (
            request(
                Command.DELETE,
                ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 1)),
                guid_identifier=guid_of("queue no"),
            ),
            "MQDS_OBJECT_NOT_FOUND",
        ),
        (
            request(Command.CREATE, ((Propid.Q_PATHNAME, "Desk\\q"),), path_name="Desk\\q"),
            "MQ_ERROR_PROPERTY",
        ),
        (
            request(
                Command.CREATE,
                ((Propid.CN_NAME, "cn"), (Propid.CN_PROTOCOLID, 1), (Propid.CN_GUID, guid_of("cn"))),
                path_name="cn",
            ),
            "MQDS_WRONG_OBJ_TYPE",
        ),
        (queue_request("q", partition_id=PEC_PARTITION_ID), "MQDS_WRONG_OBJ_TYPE"),
        (queue_request("known"), "MQ_ERROR_QUEUE_EXISTS"),
        (
            request(Command.DELETE, ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 99)), path_name="Desk\\known"),
            "MQ_ERROR",
        ),
    ],
    ids=["no object", "no object to delete", "no GUID", "CN in a site", "queue in none", "taken", "no type"],
)
def test_what_cannot_be_done_takes_no_number(message, status) -> None:
    server = authority()
    make_queue(server, "known")
    told(server)
    before = numbers(server), numbers(server, PEC_PARTITION_ID)
    made = server.got(message, "Other")
    assert results(made) == [("Other", Hresult[status])]
    assert (numbers(server), numbers(server, PEC_PARTITION_ID)) == before
    assert (last(server), last(server, PEC_PARTITION_ID)) == (4, 3)
    assert told(server) == []


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_there_is_no_number_behind_the_last_one() -> None:
    server = at_number(authority(), MAX)
    made = make_queue(server, "q")
    assert replies(made) == [Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES]
    assert queue_of(server, "q") is None


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.1.2.4")
def test_a_new_site_gets_a_partition_a_neighbour_and_a_question() -> None:
    server = authority()
    made = make_site(server, "Third", "Far")
    third = guid_of("site Third")
    kept = server.partition(third)
    assert (kept.authority_name, kept.owned, kept.last) == ("Far", False, MIN)
    found = next(one for one in server.state().neighbors if one.machine_name == "Far")
    assert (found.partition_id, found.acked, found.acked_pec) == (third, MIN, MIN)  # decision R4
    assert timers(made)["propagate psc far"] == 10.0
    assert ("SyncRequestMessage", "Far") in kinds(made)
    assert [one.get(Propid.S_PSC) for one in propagated(made, "Back")] == ["Far"]  # rNeedFlush


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_bscs_come_and_go_with_their_machines() -> None:
    server = authority()

    def bscs() -> set[str]:
        return {one.machine_name for one in server.state().neighbors if one.is_bsc}

    made = make_machine(server, "New", Service.BSC)
    assert bscs() == {"Back", "New"}
    assert timers(made)["propagate bsc new"] == 2.0
    assert server.state().neighbors[-1].last_acked_time == 0
    delete(server, ObjectType.MACHINE, HOME, path_name="New")
    assert bscs() == {"Back"}

    def serve(machine: str, service: Service) -> None:
        server.change(
            Command.UPDATE,
            ObjectType.MACHINE,
            HOME,
            path_name=machine,
            properties=((Propid.QM_SERVICE, int(service)),),
        )

    serve("Desk", Service.BSC)
    assert bscs() == {"Back", "Desk"}
    serve("Back", Service.NONE)
    assert bscs() == {"Desk"}
    serve("Desk", Service.BSC)
    assert len(server.state().neighbors) == 2  # Desk once, and Other


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_a_machine_that_keeps_its_service_changes_no_neighbour() -> None:
    server = authority()
    before = server.state().neighbors
    server.change(
        Command.UPDATE, ObjectType.MACHINE, HOME, path_name="Desk", properties=((Propid.QM_QUOTA, 5),)
    )
    assert server.state().neighbors == before


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_deleted_site_is_forgotten_with_its_psc() -> None:
    server = authority()
    empty = {"partition_id": AWAY, "from_seq_number": MIN}
    server.answered(to_seq_number=SequenceNumber(9), sender="Other", **empty)
    server.answered(
        to_seq_number=SequenceNumber(9), sender="Other", **(empty | {"from_seq_number": SequenceNumber(9)})
    )
    made = delete(server, ObjectType.SITE, PEC_PARTITION_ID, identifier=AWAY)
    assert replies(made) == [OK]
    assert AWAY not in {one.partition_id for one in server.state().partitions}
    assert {one.machine_name for one in server.state().neighbors} == {"Back"}
    assert Command.DELETE in {one.command for one in propagated(made, "Back")}  # rNeedFlush


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_site_that_may_have_objects_is_not_deleted() -> None:
    server = authority()

    def remove() -> list[int]:
        return replies(delete(server, ObjectType.SITE, PEC_PARTITION_ID, identifier=AWAY))

    assert remove() == [Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS]  # we never heard of its PSC
    assert replies(delete(server, ObjectType.SITE, PEC_PARTITION_ID, identifier=HOME)) == [
        Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
    ]
    assert AWAY in {one.partition_id for one in server.state().partitions}
    assert last(server, PEC_PARTITION_ID) == 3


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
def test_a_machine_stays_in_its_site_and_the_enterprise_stays() -> None:
    server = authority()
    moved = server.change(
        Command.UPDATE, ObjectType.MACHINE, HOME, path_name="Desk", properties=((Propid.QM_SITE_ID, AWAY),)
    )
    assert replies(moved) == [Hresult.MQ_ERROR_ILLEGAL_OPERATION]
    same = server.change(
        Command.UPDATE, ObjectType.MACHINE, HOME, path_name="Desk", properties=((Propid.QM_SITE_ID, HOME),)
    )
    assert replies(same) == [OK]
    gone = delete(server, ObjectType.ENTERPRISE, PEC_PARTITION_ID, identifier=guid_of("enterprise"))
    assert replies(gone) == [Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_the_client_chooses_no_identifier_that_is_missing() -> None:
    server = authority()
    made = server.change(
        Command.CREATE,
        ObjectType.MACHINE,
        HOME,
        path_name="NoId",
        properties=machine_properties("NoId", HOME),
    )
    assert replies(made) == [Hresult.MQ_ERROR_PROPERTY]  # decision R11
    made = make_queue(server, "q")
    assert [one.identifier for one in made if isinstance(one, Reply)] == [guid_of("queue q")]
