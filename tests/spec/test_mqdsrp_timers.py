"""Timers of requests and of failed work: no message puts off or stops one that is needed (R193, R194)."""

from typing import Any

import pytest
from support.replication.lone_authority import make_machine
from support.replication.lone_server import AWAY, HOME, Lone, kinds, machine, notes, numbered, sends, site

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import Event, NameAuthority, Received
from mqdssm.engines.replication.directory_failures import AGAIN_S
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import ReplicaState
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    ChangePropagationMessage,
    CompleteSync0,
    PartitionSeqNumbers,
    SeqNumberHeader,
    SyncRequestMessage,
)
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber
from mqdssm.testing.memory_store.store import MemoryStore

ASK = "SyncRequestMessage"
EVERY_S = 10.0
ROUNDS = 60


class BrokenStore(MemoryStore):
    """A store of which operations of some types fail."""

    broken: tuple[type, ...] = ()

    def perform(self, operation: ops.Operation) -> Any:
        if not isinstance(operation, self.broken):
            return super().perform(operation)
        if isinstance(operation, ops.ApplyChanges):
            return ops.Applied(count=0, status=Hresult.MQ_ERROR_DS_ERROR)
        return ops.Failed(reason="damaged")


def number(value: int) -> SequenceNumber:
    return SequenceNumber(value)


def timer_of(partition_id: Guid) -> str:
    return f"sync {partition_id}"


def claim(name: str, last: int, partition_id: Guid = PEC_PARTITION_ID) -> SeqNumberHeader:
    numbers = PartitionSeqNumbers(
        partition_id=partition_id, last_seq_number=number(last), purged_seq_number=MIN
    )
    return SeqNumberHeader(machine_name=name, partition_seq_numbers=(numbers,))


def backup() -> Lone:
    """A BSC that has its site, and lacks changes of it; its PSC is silent from now on."""
    server = Lone(Role.BSC, foreign_s=0)
    server.answered(site(1, "Home", "Boss"), machine(1, "Boss", HOME), sender="Boss", to_seq_number=number(1))
    return server


def questions(actions: list, name: str, partition_id: Guid) -> int:
    return len(
        [
            sent
            for sent in sends(actions)
            if isinstance(sent.message, SyncRequestMessage)
            and (sent.destination, sent.message.partition_id) == (name, partition_id)
        ]
    )


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.parametrize("claimant", ["Stranger", "PEC"])
@pytest.mark.parametrize("partition_id", [PEC_PARTITION_ID, HOME], ids=["enterprise", "site"])
def test_a_claim_that_is_repeated_keeps_no_replica_from_asking_its_usual_source(
    claimant, partition_id
) -> None:
    """The PEC answers, and has nothing: each answer put the question to the PSC off."""
    server = backup()
    asked = 0
    for n in range(ROUNDS):
        made = server.passed(EVERY_S)
        asked += questions(made, "Boss", PEC_PARTITION_ID)
        made += server.told(seq_number_header=claim(claimant, 100 + n, partition_id), sender=claimant)
        for one in (PEC_PARTITION_ID, HOME):
            if questions(made, "PEC", one):
                last = server.partition(one).last
                server.answered(sender="PEC", partition_id=one, from_seq_number=last, to_seq_number=last)
    assert asked >= ROUNDS * EVERY_S / server.settings.sync_wait_max_s + 3


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_claims_do_not_make_the_wait_for_a_reply_longer() -> None:
    server = backup()
    for n in range(9):
        name = ("PEC", "Boss")[n % 2]
        made = server.told(seq_number_header=claim(name, 100 + n), sender=name)
        assert kinds(made) == [(ASK, name)]
    server.answered(sender="Boss")
    assert server.due[timer_of(PEC_PARTITION_ID)] == server.now + server.settings.sync_wait_s


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_site_that_is_changed_again_and_again_keeps_nobody_from_another_source() -> None:
    """Each change names the same PSC, which is silent: it was asked again, and the PEC never."""
    server = Lone(foreign_s=0)
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    asked = 0
    for n in range(3, ROUNDS):
        asked += questions(server.passed(EVERY_S), "PEC", AWAY)
        server.told(site(n, "Away", "Other"))
    assert asked


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
def test_a_change_that_the_directory_refuses_puts_no_question_off() -> None:
    store = BrokenStore()
    server = Lone(store=store, foreign_s=0)
    server.answered(numbered(1))
    server.answered()
    store.broken = (ops.ApplyChanges,)
    server.told(numbered(2))
    due = server.due[timer_of(PEC_PARTITION_ID)]
    for _ in range(2):
        server.passed(EVERY_S)
        server.told(numbered(2))
    assert server.due[timer_of(PEC_PARTITION_ID)] == due


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
def test_messages_whose_work_fails_do_not_put_off_the_work_that_is_repeated() -> None:
    """Decision R83: a peer sends them, as often as it likes."""
    store = BrokenStore()
    server = Lone(store=store, foreign_s=0)
    server.answered(numbered(1))
    store.broken = (ops.ListObjects,)
    due = []
    for _ in range(3):
        made = server.told(site(2, "Away", "Other"))
        assert "given up: the directory is damaged" in notes(made)
        due.append(server.due["again"])
        server.passed(EVERY_S)
    assert len(set(due)) == 1


def beginning(broken: type) -> tuple[Lone, BrokenStore]:
    """A replica of which a step of a full synchronization has failed."""
    store = BrokenStore()
    server = Lone(store=store, foreign_s=0)
    server.answered(numbered(1))
    store.broken = (broken,)
    server.got(
        AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=number(50))
    )
    server.answered(numbered(60), complete_sync0=CompleteSync0.NOW, purged_seq_number=number(50))
    return server, store


@pytest.mark.spec("MC-MQDSRP 3.3.7.7")
@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize(
    ("broken", "state"),
    [(ops.MarkPartition, PurgeState.STARTSYNC0), (ops.SweepPartition, PurgeState.COMPLETESYNC0)],
)
def test_already_purged_does_not_stop_the_timer_of_a_step_that_failed(broken, state) -> None:
    """Decision R194: the step was never repeated, and the replica was useless until its next start."""
    server, store = beginning(broken)
    assert server.partition().purge_state is state
    due = server.due[timer_of(PEC_PARTITION_ID)]
    made = server.got(
        AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=number(70))
    )
    assert kinds(made) == []
    assert server.due[timer_of(PEC_PARTITION_ID)] == due
    store.broken = ()
    assert (ASK, "PEC") in kinds(server.passed(due - server.now))
    assert server.partition().purge_state is not state


@pytest.mark.spec("MC-MQDSRP 3.3.7.7")
def test_a_step_that_failed_is_repeated_before_another_full_synchronization_begins() -> None:
    """Decision R194: COMPLETESYNC0 is followed by NORMAL."""
    server, _ = beginning(ops.SweepPartition)
    server.got(
        AlreadyPurgedMessage(site_id=AWAY, partition_id=PEC_PARTITION_ID, purged_seq_number=number(70))
    )
    server.answered(
        numbered(80), complete_sync0=CompleteSync0.NOW, purged_seq_number=number(70), from_seq_number=MIN
    )
    assert server.partition().purge_state is PurgeState.COMPLETESYNC0


def displacements() -> dict[str, Event]:
    """What displaces the owner of the site Home."""
    question = SyncRequestMessage(
        site_id=AWAY,
        partition_id=HOME,
        from_seq_number=number(9),
        to_seq_number=MAX,
        known_purged_seq_number=MIN,
        requester_name="PEC",
    )
    header = ChangePropagationMessage(site_id=AWAY, seq_number_header=claim("PEC", 9, HOME))
    return {
        "question": Received(message=question, sender="PEC"),
        "header": Received(message=header, sender="PEC"),
        "operator": NameAuthority(request=1, partition_id=HOME, machine_name="PEC"),
    }


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
@pytest.mark.parametrize("displacement", displacements())
@pytest.mark.parametrize("broken", [ops.MarkPartition, ops.ListObjects])
def test_an_owner_that_is_displaced_goes_on_after_a_step_that_failed(broken, displacement) -> None:
    """Decision R205 (seed 920256): a question was taken for one that only reads, and nothing was repeated."""
    store = BrokenStore()
    server = Lone(store=store, foreign_s=0)
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(partition_id=HOME, from_seq_number=MIN, to_seq_number=MIN)
    for name, service in (("Me", Service.PSC), ("Back", Service.BSC)):
        make_machine(server, name, service)
    assert server.partition(HOME).owned
    assert {one.machine_name for one in server.state().neighbors} == {"Other", "Back"}
    store.broken = (broken,)
    made = server.did(displacements()[displacement])
    assert "given up: the directory is damaged" in notes(made)
    assert not server.partition(HOME).owned
    store.broken = ()
    server.passed(AGAIN_S)
    assert server.partition(HOME).purge_state is PurgeState.SYNC0
    assert questions(server.all, "PEC", HOME)
    assert not server.state().neighbors


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
def test_a_timer_that_is_lost_by_an_error_of_ours_is_started_again(monkeypatch) -> None:
    """The actions of a step that ends with an error are lost."""
    server = backup()
    with monkeypatch.context() as patch:
        patch.setattr(ReplicaState, "send", lambda *_args, **_given: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            server.fired(timer_of(HOME))
    assert timer_of(HOME) not in server.due
    server.told(seq_number_header=claim("PEC", 100, HOME))
    assert timer_of(HOME) in server.due
