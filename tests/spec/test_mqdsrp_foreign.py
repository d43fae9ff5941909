"""Changes of other programs: the owner numbers them, others tell people, who resynchronize (R112, R113)."""

from dataclasses import replace
from typing import Any

import pytest
from support.replication.foreign_writes import make_foreign, remove_foreign, write_foreign
from support.replication.lone_authority import OK
from support.replication.lone_server import AWAY, Lone, machine, replies, sends, site
from support.replication.lone_server import notes as lone_notes
from support.replication.network import (
    Net,
    all_equal,
    enterprise,
    guid_of,
    objects_equal,
    with_bsc,
    with_site,
)

from mqdssm.engines.actions import StartTimer, TimerFired
from mqdssm.engines.replication import foreign_changes
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import Perform, Performed, Resynchronize
from mqdssm.engines.replication.directory_failures import AGAIN_S
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    Command,
    Properties,
    SyncRequestMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.memory_store.tables import StoredObject

SITE1 = guid_of("site Site1")
QUEUE = guid_of(r"queue C14\q")
MACHINE = guid_of("machine C14")
BY_HAND = ((Propid.Q_LABEL, "by hand"),)
REPLICA = "another program changed a replica"
NO_NUMBER = "another program made an object that has no number"
PUBLISHED = "published a change of another program"
REFUSED = "a change of another program cannot be published"
LOOKS_S = 2 * 60.0
SETTLED_S = 100.0
LONG_S = 3000.0


class LossyStore(MemoryStore):
    """A store whose first answer to each look is lost: the operation is repeated."""

    def perform(self, operation: Any) -> Any:
        if isinstance(operation, ops.FindForeign):
            super().perform(operation)
        return super().perform(operation)


class UnreadyStore(MemoryStore):
    """A store that has no room for changes while it is told so, and cannot read some objects."""

    is_full = False
    unreadable: frozenset[Guid | None] = frozenset()

    def perform(self, operation: Any) -> Any:
        if isinstance(operation, ops.ReadObject) and operation.identifier in self.unreadable:
            return ops.Failed(reason="a damaged entry")
        if self.is_full and isinstance(operation, ops.UpdateObject):
            return ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_IS_FULL)
        return super().perform(operation)


@pytest.fixture
def net() -> Net:
    """PEC, PSC1 with BSC1; a machine C14 with a queue in Site1."""
    net = enterprise(header_s=60.0)
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    assert net.create_machine("C14", "Site1", "PSC1").status == OK
    assert net.create_queue("C14", "q", "Site1", "PSC1").status == OK
    net.run(SETTLED_S)
    assert all_equal(net)
    return net


def notes(net: Net, name: str) -> list[str]:
    return [note.what for note in net.hosts[name].notes]


def told(net: Net, name: str, what: str) -> int:
    return notes(net, name).count(what)


def write(net: Net, name: str, identifier: Guid, properties: Properties = BY_HAND) -> None:
    write_foreign(net.hosts[name].store, identifier, properties)


def label(net: Net, name: str) -> Any:
    found = net.hosts[name].store.perform(ops.ReadObject(object_type=ObjectType.QUEUE, identifier=QUEUE))
    return dict(found.properties)[Propid.Q_LABEL] if found.status == OK else None


def row(net: Net, name: str, partition_id: Guid) -> Any:
    status = net.hosts[name].engine.report_status(net.now)
    return next(one for one in status.partitions if one.partition_id == partition_id)


def resynchronize(net: Net, name: str, partition_id: Guid) -> int:
    request = 77_000
    net.hosts[name].replies.pop(request, None)
    return net._asked(name, Resynchronize(request=request, partition_id=partition_id)).status


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
class TestOwner:
    """The server that gives the numbers."""

    def test_a_change_gets_a_number_and_reaches_all(self, net: Net) -> None:
        last = row(net, "PSC1", SITE1).last
        write(net, "PSC1", QUEUE)
        net.run(LOOKS_S)
        assert told(net, "PSC1", PUBLISHED) == 1
        assert row(net, "PSC1", SITE1).last == last + 1
        assert {label(net, name) for name in net.hosts} == {"by hand"}
        assert all_equal(net)

    def test_without_changes_of_others_no_number_is_given(self, net: Net) -> None:
        last = row(net, "PSC1", SITE1).last
        net.run(LONG_S)
        assert row(net, "PSC1", SITE1).last == last
        assert told(net, "PSC1", PUBLISHED) == 0

    def test_what_was_changed_while_we_were_not_there(self, net: Net) -> None:
        store = net.stop("PSC1")
        write_foreign(store.store, QUEUE, BY_HAND)
        net.hosts["PSC1"] = store
        net.restart("PSC1")
        net.run(LOOKS_S)
        assert {label(net, name) for name in net.hosts} == {"by hand"}

    def test_a_change_of_a_client_carries_it(self, net: Net) -> None:
        write(net, "PSC1", QUEUE)
        changed = net.change(
            "PSC1",
            Command.UPDATE,
            ObjectType.QUEUE,
            identifier=QUEUE,
            partition_id=SITE1,
            properties=((Propid.Q_QUOTA, 7),),
        )
        assert changed.status == OK
        net.run(LOOKS_S)
        assert told(net, "PSC1", PUBLISHED) == 0  # it has a number already
        assert {label(net, name) for name in net.hosts} == {"by hand"}

    def test_an_object_without_a_number_is_created(self, net: Net) -> None:
        made = StoredObject(
            guid_of("new"),
            ObjectType.QUEUE,
            SITE1,
            net.hosts["PSC1"].engine.report_status(net.now).partitions[0].last,
            {Propid.Q_PATHNAME: r"C14\new", Propid.Q_LABEL: "by hand"},
        )
        make_foreign(net.hosts["PSC1"].store, made)
        net.run(LOOKS_S)
        assert guid_of("new") in net.content("BSC1", SITE1)
        assert all_equal(net)

    def test_one_that_cannot_be_created_is_told_once(self, net: Net) -> None:
        made = StoredObject(
            guid_of("new"), ObjectType.QUEUE, SITE1, row(net, "PSC1", SITE1).last, {Propid.Q_LABEL: "no path"}
        )
        make_foreign(net.hosts["PSC1"].store, made)
        net.run(LONG_S)
        assert told(net, "PSC1", REFUSED) == 1
        assert row(net, "PSC1", SITE1).foreign == 1

    def test_what_clients_may_not_do_is_not_published(self, net: Net) -> None:
        last = row(net, "PSC1", SITE1).last
        write(net, "PSC1", MACHINE, ((Propid.QM_SITE_ID, guid_of("site elsewhere")),))
        net.run(LOOKS_S)
        assert told(net, "PSC1", REFUSED) == 1
        assert row(net, "PSC1", SITE1).last == last
        write(net, "PSC1", MACHINE, ((Propid.QM_SITE_ID, SITE1),))
        net.run(LOOKS_S)
        assert row(net, "PSC1", SITE1).foreign == 0
        assert all_equal(net)

    def test_another_psc_is_a_handover(self, net: Net) -> None:
        write(net, "PSC1", guid_of("machine BSC1"), ((Propid.QM_SERVICE, int(Service.PSC)),))
        net.run(LONG_S)
        assert row(net, "BSC1", SITE1).is_owned
        assert not row(net, "PSC1", SITE1).is_owned
        assert all_equal(net)

    def test_a_full_directory_has_it_published_later(self, net: Net) -> None:
        store = UnreadyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        store.is_full = True
        write(net, "PSC1", QUEUE)
        net.run(LONG_S)
        assert label(net, "PEC") == "q"
        store.is_full = False
        net.run(LOOKS_S)
        assert label(net, "PEC") == "by hand"
        assert all_equal(net)

    def test_a_change_that_a_client_has_published_meanwhile_is_not_published_again(self, net: Net) -> None:
        """Decision R200: it waited, since the directory was full; the client's change carried it."""
        store = UnreadyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        store.is_full = True
        write(net, "PSC1", QUEUE)
        net.run(LOOKS_S)
        store.is_full = False
        last = row(net, "PSC1", SITE1).last
        changed = net.change(
            "PSC1",
            Command.UPDATE,
            ObjectType.QUEUE,
            identifier=QUEUE,
            partition_id=SITE1,
            properties=((Propid.Q_QUOTA, 17),),
        )
        assert changed.status == OK
        net.run(LONG_S)
        assert (row(net, "PSC1", SITE1).last, told(net, "PSC1", PUBLISHED)) == (last + 1, 0)
        assert {label(net, name) for name in net.hosts} == {"by hand"}
        assert all_equal(net)

    def test_what_was_found_before_the_end_is_found_again(self, net: Net) -> None:
        store = UnreadyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        store.is_full = True
        write(net, "PSC1", QUEUE)
        net.run(LONG_S)
        net.restart("PSC1")  # the store is one with room now
        net.run(LOOKS_S)
        assert label(net, "PEC") == "by hand"
        assert all_equal(net)

    def test_what_was_given_up_is_found_again_and_holds_nothing_else_up(self, net: Net) -> None:
        """Decision R165: an entry that could not be read once was never looked at again."""
        assert net.create_queue("C14", "r", "Site1", "PSC1").status == OK
        store = UnreadyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        store.unreadable = frozenset({QUEUE})
        write(net, "PSC1", QUEUE)
        write(net, "PSC1", guid_of(r"queue C14\r"))
        net.run(LONG_S)
        assert told(net, "PSC1", "given up: the directory is damaged")
        assert told(net, "PSC1", PUBLISHED) == 1
        assert label(net, "PEC") == "q"
        store.unreadable = frozenset()
        net.run(LOOKS_S)
        assert told(net, "PSC1", PUBLISHED) == 2
        assert label(net, "PEC") == "by hand"
        assert all_equal(net)

    def test_what_is_found_again_with_an_unreadable_entry_is_told_once(self, net: Net) -> None:
        """Searches begin at the same place again as long as the entry is unreadable (R165)."""
        store = UnreadyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        store.unreadable = frozenset({QUEUE})
        write(net, "PSC1", QUEUE)
        write(net, "PSC1", MACHINE, ((Propid.QM_SITE_ID, guid_of("site elsewhere")),))
        net.run(LONG_S)
        assert told(net, "PSC1", "given up: the directory is damaged") > 10
        assert told(net, "PSC1", REFUSED) == 1

    @pytest.mark.parametrize("count", [1, 5, 20])
    def test_many_unreadable_entries_delay_no_new_change(self, net: Net, count: int) -> None:
        """Decision R165: each cost a pause, and no search began while the others waited."""
        queues = [f"hurt{number}" for number in range(count)]
        for queue in queues:
            assert net.create_queue("C14", queue, "Site1", "PSC1").status == OK
        store = UnreadyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        identifiers = [guid_of(rf"queue C14\{queue}") for queue in queues]
        store.unreadable = frozenset(identifiers)
        for identifier in identifiers:
            write(net, "PSC1", identifier)
        net.run(AGAIN_S * count + LOOKS_S)  # each was given up once
        write(net, "PSC1", QUEUE)
        net.run(LOOKS_S)
        assert label(net, "PEC") == "by hand"
        *others, mended = identifiers
        store.unreadable = frozenset(others)
        net.run(AGAIN_S * count + LOOKS_S)  # they take turns
        assert net.content("PEC", SITE1)[mended][2][Propid.Q_LABEL] == "by hand"
        store.unreadable = frozenset()
        net.run(2 * LOOKS_S)
        assert told(net, "PSC1", PUBLISHED) == count + 1
        assert all_equal(net)

    def test_a_look_whose_answer_was_lost_is_repeated(self, net: Net) -> None:
        store = LossyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        write(net, "PSC1", QUEUE)
        net.run(LOOKS_S)
        assert {label(net, name) for name in net.hosts} == {"by hand"}

    def test_a_clock_that_is_set_stops_no_look(self) -> None:
        """A search seems to have taken a day."""
        server = Lone()
        (asked,) = server.engine.step(TimerFired(name="foreign"), server.now)
        assert isinstance(asked, Perform)
        found = Performed(token=asked.token, result=ops.ForeignFound(objects=(), reached=""))
        (timer,) = server.engine.step(found, server.now + 86_400)
        assert isinstance(timer, StartTimer)
        assert (timer.name, timer.after_s) == ("foreign", foreign_changes.PAUSE_S_MAX)

    def test_many_changes_let_other_work_in(self, net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(foreign_changes, "FOUND_MAX", 5)
        monkeypatch.setattr(foreign_changes, "PUBLISHED_AT_ONCE", 2)
        names = [f"many{at}" for at in range(12)]
        for name in names:
            assert net.create_queue("C14", name, "Site1", "PSC1").status == OK
        net.run(SETTLED_S)
        last = row(net, "PSC1", SITE1).last
        for name in names:
            write(net, "PSC1", guid_of(rf"queue C14\{name}"))
        while row(net, "PSC1", SITE1).last == last:
            net.run(0.1)
        assert row(net, "PSC1", SITE1).last == last + 2
        net.run(30)
        assert row(net, "PSC1", SITE1).last == last + len(names)
        net.run(LOOKS_S)
        assert told(net, "PSC1", PUBLISHED) == len(names)
        assert all_equal(net)

    def test_never_where_the_administrator_says_so(self) -> None:
        net = enterprise(foreign_s=0.0)
        assert net.create_queue("PEC", "q", "Site0", "PEC").status == OK
        write(net, "PEC", guid_of(r"queue PEC\q"))
        net.run(LONG_S)
        assert told(net, "PEC", PUBLISHED) == 0


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
class TestReplica:
    """A server that owns nothing of it."""

    def test_a_change_is_told_and_counted_and_published_by_nobody(self, net: Net) -> None:
        write(net, "PEC", QUEUE)
        net.run(LONG_S)
        assert told(net, "PEC", REPLICA) == 1
        assert [note.is_warning for note in net.hosts["PEC"].notes if note.what == REPLICA] == [True]
        assert row(net, "PEC", SITE1).foreign == 1
        assert label(net, "PSC1") == "q"

    def test_the_next_change_of_the_owner_mends_it(self, net: Net) -> None:
        write(net, "PEC", QUEUE)
        net.run(LOOKS_S)
        write(net, "PSC1", QUEUE, ((Propid.Q_LABEL, "of the owner"),))
        net.run(LOOKS_S)
        assert row(net, "PEC", SITE1).foreign == 0
        assert all_equal(net)

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
    @pytest.mark.parametrize("is_known", [False, True], ids=["before a look", "after a look"])
    def test_a_partial_update_of_the_owner_hides_nothing(self, is_known: bool) -> None:
        """Decision R204: the update has another base, and only its own properties would be equal."""
        server = Lone()
        server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
        given = {"partition_id": AWAY, "from_seq_number": MIN, "sender": "Other"}
        server.answered(machine(1, "m1", AWAY), machine(2, "m2", AWAY), **given)
        server.answered(partition_id=AWAY, from_seq_number=SequenceNumber(2), sender="Other")
        name = guid_of("machine m1")
        server.store.write_foreign(name, ((Propid.QM_QUOTA, 99),))
        if is_known:
            server.fired("foreign")
        fields = {
            "guid_identifier": name,
            "command": Command.UPDATE,
            "previous_seq_number": SequenceNumber(2),
        }
        update = replace(machine(3, "m1", AWAY), properties=((Propid.QM_MACHINE_TYPE, "new"),), **fields)
        actions = server.told(update, sender="Other")
        if is_known:
            (asked,) = [
                send.message for send in sends(actions) if isinstance(send.message, SyncRequestMessage)
            ]
            assert (asked.partition_id, asked.from_seq_number) == (AWAY, 2)
            given = {"partition_id": AWAY, "from_seq_number": SequenceNumber(2), "sender": "Other"}
            server.answered(replace(machine(3, "m1", AWAY), previous_seq_number=SequenceNumber(2)), **given)
        server.fired("foreign")
        assert lone_notes(server.all).count(REPLICA) == 1
        read = ops.ReadObject(object_type=ObjectType.MACHINE, identifier=name)
        assert (dict(server.store.perform(read).properties)[Propid.QM_QUOTA] == 99) is not is_known
        partitions = server.engine.report_status(server.now).partitions
        row = next(one for one in partitions if one.partition_id == AWAY)
        assert row.foreign == (not is_known)

    def test_an_object_without_a_number_is_told(self, net: Net) -> None:
        made = StoredObject(
            guid_of("new"),
            ObjectType.QUEUE,
            SITE1,
            row(net, "PEC", SITE1).last,
            {Propid.Q_PATHNAME: r"C14\new"},
        )
        make_foreign(net.hosts["PEC"].store, made)
        net.run(LONG_S)
        assert told(net, "PEC", NO_NUMBER) == 1
        assert guid_of("new") not in net.content("PSC1", SITE1)


@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
class TestResynchronization:
    """The operator has a replica made anew."""

    @pytest.mark.parametrize("name", ["PEC", "BSC1"])
    def test_it_has_again_what_the_owner_has(self, net: Net, name: str) -> None:
        write(net, name, QUEUE)
        remove_foreign(net.hosts[name].store, MACHINE)
        net.run(LOOKS_S)
        assert not all_equal(net)
        assert resynchronize(net, name, SITE1) == OK
        net.run(SETTLED_S)
        assert row(net, name, SITE1).purge_state is PurgeState.NORMAL
        assert row(net, name, SITE1).foreign == 0
        assert all_equal(net)

    def test_what_another_program_deleted_at_the_owner_goes(self, net: Net) -> None:
        remove_foreign(net.hosts["PSC1"].store, QUEUE)
        net.run(LONG_S)
        assert label(net, "PEC") == "q"  # nobody has noticed
        for name in ("PEC", "BSC1"):
            assert resynchronize(net, name, SITE1) == OK
        net.run(SETTLED_S)
        assert label(net, "PEC") is None
        assert all_equal(net)

    def test_it_has_all_of_it_all_the_time(self, net: Net) -> None:
        there = set(net.content("PEC", SITE1))
        net.stop("PSC1")
        assert resynchronize(net, "PEC", SITE1) == OK
        net.run(LONG_S)  # nobody answers
        read = net.hosts["PEC"].store.perform(
            ops.ListObjects(object_type=ObjectType.QUEUE, partition_id=SITE1)
        )
        assert {one.identifier for one in read.objects} == {QUEUE} <= there
        assert row(net, "PEC", SITE1).purge_state is PurgeState.SYNC0

    def test_it_goes_on_after_purging(self) -> None:
        net = enterprise(header_s=60.0, purge_buffer=0, purge_interval=1, ack_interval=1)
        with_site(net, "Site1", "PSC1")
        for name in "abcd":
            assert net.create_queue("PSC1", name, "Site1", "PSC1").status == OK
            gone = {"identifier": guid_of(rf"queue PSC1\{name}"), "partition_id": SITE1}
            assert net.change("PSC1", Command.DELETE, ObjectType.QUEUE, **gone).status == OK
        net.run(LONG_S)
        assert row(net, "PSC1", SITE1).purged > 0
        assert resynchronize(net, "PEC", SITE1) == OK
        net.run(LONG_S)
        assert row(net, "PEC", SITE1).purge_state is PurgeState.NORMAL
        assert objects_equal(net)

    def test_asked_twice_it_is_done_once(self, net: Net) -> None:
        assert resynchronize(net, "PEC", SITE1) == OK
        assert resynchronize(net, "PEC", SITE1) == OK
        net.run(SETTLED_S)
        assert all_equal(net)

    @pytest.mark.parametrize("partition_id", [SITE1, guid_of("nowhere")])
    def test_an_owner_refuses(self, net: Net, partition_id: Guid) -> None:
        assert resynchronize(net, "PSC1", partition_id) == Hresult.MQ_ERROR_ILLEGAL_OPERATION
        assert all_equal(net)

    def test_who_is_to_own_it_refuses(self, net: Net) -> None:
        """A restored PSC owns nothing until others have answered: it would forget that it is to (R70)."""
        net.hosts["PSC1"].settings = replace(net.hosts["PSC1"].settings, restored=True)
        net.drop = lambda source, send: "PSC1" in {source, send.destination}
        net.restart("PSC1")
        assert not row(net, "PSC1", SITE1).is_owned
        assert resynchronize(net, "PSC1", SITE1) == Hresult.MQ_ERROR_ILLEGAL_OPERATION
        assert told(net, "PSC1", "refused to synchronize in full") == 1
        net.drop = lambda source, send: False
        net.run(LONG_S)
        assert row(net, "PSC1", SITE1).is_owned
        assert all_equal(net)

    def test_who_knows_nobody_to_ask_refuses(self) -> None:
        server = Lone()
        server.answered(site(1, "Away", psc=""))
        asked = server.did(Resynchronize(request=1, partition_id=AWAY))
        assert replies(asked) == [Hresult.MQ_ERROR_ILLEGAL_OPERATION]
        assert server.partition(AWAY).purge_state is PurgeState.NORMAL

    def test_an_unreadable_entry_delays_no_synchronization_of_another_partition(self, net: Net) -> None:
        """Decisions R83, R193: work that is given up each minute restarted the timer of the request.

        The request waits longer than a minute. The PEC's numbers, which repeat it as well (R184), are lost.
        """
        net.hosts["PSC1"].settings = replace(net.hosts["PSC1"].settings, sync_wait_s=150.0)
        net.restart("PSC1")
        net.run(SETTLED_S)
        store = UnreadyStore()
        store._kept = net.hosts["PSC1"].store._kept
        net.hosts["PSC1"].store = store
        store.unreadable = frozenset({QUEUE})
        write(net, "PSC1", QUEUE)
        net.run(LOOKS_S)
        net.drop = lambda source, send: source == "PEC"
        assert resynchronize(net, "PSC1", PEC_PARTITION_ID) == OK
        net.run(100)
        assert row(net, "PSC1", PEC_PARTITION_ID).purge_state is PurgeState.SYNC0
        net.drop = lambda source, send: source == "PEC" and isinstance(send.message, ChangePropagationMessage)
        net.run(3600)
        net.drop = lambda source, send: False
        assert told(net, "PSC1", "given up: the directory is damaged") > 10
        assert row(net, "PSC1", PEC_PARTITION_ID).purge_state is PurgeState.NORMAL
        store.unreadable = frozenset()
        net.run(LOOKS_S)
        assert all_equal(net)

    def test_the_enterprise_too(self, net: Net) -> None:
        assert resynchronize(net, "PSC1", PEC_PARTITION_ID) == OK
        net.run(SETTLED_S)
        assert row(net, "PSC1", PEC_PARTITION_ID).purge_state is PurgeState.NORMAL
        assert all_equal(net)
