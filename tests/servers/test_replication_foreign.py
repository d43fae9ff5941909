"""Plain LDAP writes beside two directory servers: published by the owner, told by a replica (R112, R113)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from support.replication.live_servers import LiveServer
from support.replication.queue_managers import guid_of, wait_until
from support.replication.replica_pair import AWAY, HOME, Pair, by_hand, done, queue_dn
from support.servers.sessions import options_for

import mqdssm
from mqdssm.directory.session import Session
from mqdssm.engines.replication import directory_failures
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import Resynchronize
from mqdssm.engines.replication.status import PartitionStatus
from mqdssm.errors import MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, DirectoryChange
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store.ldap import LdapStore, Owner, foreign_changes
from mqdssm.tables.places import replication_server_dn
from mqdssm.testing import OpenLdapServer

LOOK_S = 0.2
PUBLISHED = "published a change of another program"
REPLICA = "another program changed a replica"
NO_NUMBER = "another program made an object that has no number"
LOOK = ops.FindForeign(after="", count_max=1000)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        made = Pair(stack, foreign_s=LOOK_S)
        made.found()
        yield made


@pytest.fixture
def pec(pair: Pair) -> Iterator[Session]:
    with by_hand(pair.slapds["PEC"]) as session:
        yield session


@pytest.fixture
def psc(pair: Pair) -> Iterator[Session]:
    with by_hand(pair.slapds["PSC1"]) as session:
        yield session


def labels(text: str) -> dict[str, list[bytes]]:
    return {"mSMQLabel": [text.encode()], "mSMQLabelEx": [text.encode()]}


def label(server: LiveServer, name: str) -> str | None:
    found = server.queue(f"PEC\\{name}")
    return dict(found.properties or ()).get(Propid.Q_LABEL)  # type: ignore[return-value]


def wait_label(server: LiveServer, name: str, text: str) -> None:
    wait_until(lambda: label(server, name) == text, 20)


def told(server: LiveServer, what: str) -> int:
    return server.driver.counts.copy().get(what, 0)


def wait_told(server: LiveServer, what: str, times: int) -> None:
    wait_until(lambda: told(server, what) >= times, 20)


def row(server: LiveServer, partition_id: Guid) -> PartitionStatus:
    return next(one for one in server.driver.status().partitions if one.partition_id == partition_id)


def resynchronize(server: LiveServer, partition_id: Guid) -> int:
    ask = server.driver.ask
    return ask(lambda request: Resynchronize(request=request, partition_id=partition_id)).status


def test_a_change_at_the_owner_reaches_the_replica(pair: Pair, pec: Session) -> None:
    before = row(pair.pec, HOME).last
    pec.modify(queue_dn(pec, "a"), labels("by hand"))
    wait_label(pair.psc, "a", "by hand")
    pair.settle()
    assert row(pair.pec, HOME).last == before + 1
    assert pair.compare()[:2] == (0, [])


def test_what_the_owner_has_published_is_not_published_again(pair: Pair) -> None:
    before = (row(pair.pec, HOME).last, row(pair.pec, PEC_PARTITION_ID).last, row(pair.psc, AWAY).last)
    done(pair.pec.create_queue("PEC\\own", "Home"))
    store = pair.stores["PEC"]
    for _ in range(3):
        assert store.perform(LOOK).objects == ()
    after = (row(pair.pec, HOME).last, row(pair.pec, PEC_PARTITION_ID).last, row(pair.psc, AWAY).last)
    assert after == (before[0] + 1, *before[1:])
    pair.settle()


def test_a_queue_of_the_adapter_gets_a_number(pair: Pair) -> None:
    with mqdssm.connect(pair.slapds["PEC"].ldapi_url, allow_replicated=True) as directory:
        name = "adapter-with-a-name-longer-than-the-sixty-four-characters-that-ldap-has-for-cn"
        made = directory.create(mqdssm.Queue(pathname=f"pec\\{name}", label="of the adapter"))
    read = ops.ReadObject(object_type=ObjectType.QUEUE, identifier=Guid.of(made))
    wait_until(lambda: pair.psc.store.lookup(read).status == 0, 20)  # type: ignore[union-attr]
    properties = dict(pair.psc.store.lookup(read).properties or ())  # type: ignore[union-attr]
    assert properties[Propid.Q_PATHNAME] == f"PEC\\{name}"
    assert properties[Propid.Q_LABEL] == "of the adapter"
    pair.settle()
    assert pair.compare()[:2] == (0, [])


def test_a_change_at_the_replica_is_told_and_mended_by_the_operator(pair: Pair, psc: Session) -> None:
    times = told(pair.psc, REPLICA)
    psc.modify(queue_dn(psc, "b"), labels("at the replica"))
    psc.delete(queue_dn(psc, "c"))
    wait_told(pair.psc, REPLICA, times + 1)
    assert row(pair.psc, HOME).foreign == 1
    assert label(pair.pec, "b") == "label"
    assert len(pair.compare()[1]) == 2
    assert resynchronize(pair.psc, HOME) == 0
    wait_until(lambda: row(pair.psc, HOME).purge_state is PurgeState.NORMAL, 20)
    pair.settle()
    assert label(pair.psc, "b") == "label"
    assert row(pair.psc, HOME).foreign == 0
    assert pair.compare()[:2] == (0, [])
    assert told(pair.psc, REPLICA) == times + 1


def test_a_queue_of_the_adapter_at_the_replica_is_told(pair: Pair, psc: Session) -> None:
    times = told(pair.psc, NO_NUMBER)
    with mqdssm.connect(pair.slapds["PSC1"].ldapi_url, allow_replicated=True) as directory:
        directory.create(mqdssm.Queue(pathname="pec\\nobody"))
    wait_told(pair.psc, NO_NUMBER, times + 1)
    psc.delete(queue_dn(psc, "nobody"))
    assert pair.compare()[:2] == (0, [])


def test_a_machine_without_number_is_told_at_the_owner(pair: Pair, pec: Session) -> None:
    times = told(pair.pec, NO_NUMBER)
    computer = pec.naming.root.child("CN", "Computers").child("CN", "foreign")
    pec.add(computer, {"objectClass": [b"computer"]})
    pec.add(
        computer.child("CN", "msmq"),
        {"objectClass": [b"mSMQConfiguration"], "objectGUID": [bytes(guid_of("foreign"))]},
    )
    wait_told(pair.pec, NO_NUMBER, times + 1)
    pec.delete(computer.child("CN", "msmq"))
    pec.delete(computer)


def test_a_change_whose_object_cannot_be_read_at_first_is_published_later(
    pair: Pair, pec: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when later changes were seen to meanwhile (decision R165)."""
    monkeypatch.setattr(directory_failures, "AGAIN_S", 0.3)
    monkeypatch.setattr(foreign_changes, "COMMIT_S_MAX", 0)
    store = pair.stores["PEC"]
    read, refused, is_damaged = store._performers[ops.ReadObject], [], True

    def fail(operation: ops.ReadObject) -> ops.ObjectRead:
        if is_damaged and operation.identifier == guid_of("PEC\\a"):
            refused.append(operation)
            raise MappingError("CN=a: mqisSeqNumber is none")
        return read(operation)

    monkeypatch.setattr(store, "_performers", {**store._performers, ops.ReadObject: fail})
    pec.modify(queue_dn(pec, "a"), labels("read later"))
    wait_until(lambda: bool(refused), 20)
    time.sleep(1.1)  # what was written in the second of the last look is listed again anyway
    pec.modify(queue_dn(pec, "e"), labels("not held up"))
    wait_label(pair.psc, "e", "not held up")
    looks = len(refused)
    wait_until(lambda: len(refused) > looks, 20)
    is_damaged = False
    wait_label(pair.psc, "a", "read later")
    pair.settle()
    assert pair.compare()[:2] == (0, [])


def test_a_change_while_the_server_is_off_is_found_at_the_next_start(pair: Pair, pec: Session) -> None:
    pair.enterprise.servers.pop("PEC").stop()
    pec.modify(queue_dn(pec, "d"), labels("while it was off"))
    pair.open_store("PEC")
    pair.pec = pair.start_pec()
    wait_label(pair.psc, "d", "while it was off")
    pair.settle()
    assert pair.compare()[:2] == (0, [])


def test_the_first_look_may_find_an_empty_directory() -> None:
    with (
        OpenLdapServer(durable=False, replication=True) as server,
        LdapStore.open(options_for(server)) as store,
        by_hand(server) as session,
    ):
        assert looked(store) == set()
        make_site(store)
        assert looked(store) == set()
        session.modify(queue_dn(session, "Home"), {"mqisPscName": [b"PSC1"]})
        assert looked(store) == {HOME}


def test_a_look_goes_on_until_all_is_found(pair: Pair, pec: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of entries that are read a few at a time none is left out, nor lost that nobody has seen to."""
    monkeypatch.setattr(foreign_changes, "TERMS_MAX", 2)
    monkeypatch.setattr(foreign_changes, "READ_AT_ONCE", 2)
    monkeypatch.setattr(foreign_changes, "COMMIT_S_MAX", 0)
    pair.enterprise.servers.pop("PEC").stop()
    pair.open_store("PEC")
    store = pair.stores["PEC"]
    store.perform(ops.LoadState())
    assert looked(store) == set()
    for name in "aef":
        pec.modify(queue_dn(pec, name), labels("read in pieces"))
        time.sleep(1.1)  # what was written in the second of the last look is listed again anyway
    wanted = {guid_of(f"PEC\\{name}") for name in "aef"}
    first = store.perform(LOOK)
    assert first.reached
    store.perform(ops.LoadState())  # whoever found that has gone
    assert looked(store) == wanted
    pair.pec = pair.start_pec()
    wait_label(pair.psc, "f", "read in pieces")
    pair.settle()
    assert pair.compare()[:2] == (0, [])


def test_what_was_looked_at_is_not_read_again_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenLdapServer(durable=False, replication=True) as server, by_hand(server) as session:
        owner = Owner(machine_id=guid_of("PEC"), machine_name="PEC")
        with LdapStore.open(options_for(server), owner=owner) as store:
            make_site(store)
            found, newest = look(store)
            assert (found, look(store, newest)[0]) == (set(), set())
        site = queue_dn(session, "Home")
        place = replication_server_dn(session.naming.root)
        seen = session.get(place, ["mqisSeenChange"]).first("mqisSeenChange")
        assert seen == session.get(site, ["entryCSN"]).first("entryCSN")
        session.modify(site, {"mqisPscName": [b"PSC1"]})
        time.sleep(1.1)
        session.modify(place, {"mqisSeenChange": [seen]})  # a later write than that of the site
        later = session.get(place, ["entryCSN"]).first("entryCSN")
        session.modify(place, {"mqisSeenChange": [later]})
        with monkeypatch.context() as patched, LdapStore.open(options_for(server), owner=owner) as store:
            patched.setattr(foreign_changes, "COMMIT_S_MAX", 0)
            assert looked(store) == set()
        session.modify(place, {"mqisSeenChange": [seen]})
        with LdapStore.open(options_for(server), owner=owner) as store:
            assert looked(store) == {HOME}


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
def test_a_clock_of_the_server_that_was_set_back_hides_nothing() -> None:
    """Decision R182: what was seen to lies four years ahead of what the server's clock shows now."""
    with OpenLdapServer(durable=False, replication=True) as server, by_hand(server) as session:
        owner = Owner(machine_id=guid_of("PEC"), machine_name="PEC")
        place = replication_server_dn(session.naming.root)
        with LdapStore.open(options_for(server), owner=owner) as store:
            make_site(store)
            _, newest = look(store)
            ahead = f"{int(newest[:4]) + 4}{newest[4:]}"
            assert look(store, ahead)[0] == set(), "nothing has changed"
            session.modify(queue_dn(session, "Home"), {"mqisPscName": [b"PSC1"]})
            found, newest = look(store, ahead)
            assert found == {HOME}
            assert newest < ahead, "from here the clock counts as it is"
            look(store, newest)
            assert session.get(place, ["mqisSeenChange"]).first("mqisSeenChange") == newest.encode()


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_a_partial_update_of_the_owner_hides_no_change_of_another_program() -> None:
    """Decision R204: the digest stays that of the properties before both."""
    with OpenLdapServer(durable=False, replication=True) as server, by_hand(server) as session:
        owner = Owner(machine_id=guid_of("PSC1"), machine_name="PSC1")
        with LdapStore.open(options_for(server), owner=owner) as store:
            make_site(store)
            look(store)
            session.modify(queue_dn(session, "Home"), {"mqisPscName": [b"PSC1"]})
            update = DirectoryChange(
                command=Command.UPDATE,
                path_name=None,
                guid_identifier=HOME,
                partition_id=PEC_PARTITION_ID,
                previous_seq_number=SequenceNumber(1),
                seq_number=SequenceNumber(2),
                purged_seq_number=MIN,
                properties=((Propid.S_INTERVAL1, 7),),
            )
            applied = store.perform(ops.ApplyChanges(partition_id=PEC_PARTITION_ID, changes=(update,)))
            assert (applied.count, applied.status) == (1, 0)
            assert look(store)[0] == {HOME}
            whole = replace(
                update,
                command=Command.SYNC,
                seq_number=SequenceNumber(3),
                properties=((Propid.S_PATHNAME, "Home"), (Propid.S_PSC, "PEC"), (Propid.S_INTERVAL1, 7)),
            )
            store.perform(ops.ApplyChanges(partition_id=PEC_PARTITION_ID, changes=(whole,)))
            assert look(store)[0] == set()


def make_site(store: LdapStore) -> None:
    made = ops.CreateObject(
        object_type=ObjectType.SITE,
        path_name="Home",
        properties=((Propid.S_ID, HOME), (Propid.S_PATHNAME, "Home"), (Propid.S_PSC, "PEC")),
        partition_id=PEC_PARTITION_ID,
        seq_number=SequenceNumber(1),
    )
    assert store.perform(made).status == 0


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
def test_a_look_whose_answer_was_lost_finds_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the store repeats what may not have been done, even if it does so very late."""
    with OpenLdapServer(durable=False, replication=True) as server, by_hand(server) as session:
        owner = Owner(machine_id=guid_of("PEC"), machine_name="PEC")
        with LdapStore.open(options_for(server), owner=owner) as store:
            make_site(store)
            session.modify(queue_dn(session, "Home"), {"mqisPscName": [b"PSC1"]})
            with monkeypatch.context() as late:  # else all of the last ten minutes is looked at anyway
                late.setattr(foreign_changes, "COMMIT_S_MAX", -1)
                answers = [store.perform(LOOK)]
                time.sleep(2)
                answers.append(store.perform(LOOK))
            assert [{one.identifier for one in answer.objects} for answer in answers] == [{HOME}] * 2
            assert look(store, answers[-1].newest)[0] == {HOME}, "of the last ten minutes"


def looked(store: LdapStore) -> set[Guid]:
    """Objects of a whole look."""
    return look(store)[0]


def look(store: LdapStore, seen: str = "") -> tuple[set[Guid], str]:
    """Look once; return the objects, and how far that was."""
    found, after, newest = set(), "", seen
    while True:
        answer = store.perform(ops.FindForeign(after=after, count_max=1, seen=seen))
        found |= {one.identifier for one in answer.objects}
        after, newest = answer.reached, answer.newest or newest
        if not after:
            return found, newest
