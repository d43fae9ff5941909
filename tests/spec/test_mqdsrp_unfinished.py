"""Changes that fail behind their write: the number is given, the rest is done before the next one (R103)."""

from collections.abc import Callable
from typing import Any

import pytest
from support.replication.lone_authority import OK
from support.replication.network import Net, all_equal, enterprise, guid_of, objects, with_bsc, with_site

from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import PropagateChange, Received
from mqdssm.engines.replication.state import FINISH_S
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangeReplyMessage,
    ChangeRequestMessage,
    Command,
    Scope,
    make_deletion_properties,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import Service
from mqdssm.model.seqnum import MIN
from mqdssm.testing.simulation.stores import CrashingStore, copy_to

SITE0 = guid_of("site Site0")
SITE1 = guid_of("site Site1")
LONG_S = 3000
ALL = 100
"""More half writes than any operation has: it is done whole, and fails then."""
UNKNOWN = Hresult.MQDS_NO_RSP_FROM_OWNER
LATER = Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
FAILED = ops.Failed(reason="cn=x: mqisSeqNumber is none")
FULL = ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_IS_FULL)
WRONG = ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_ERROR)

Failure = tuple[Callable[[Any], bool], int, Any]
"""Which operation fails, behind how many half writes, and what is said of it."""


class FailingStore(CrashingStore):
    """A store of which some operations fail, once each."""

    def __init__(self, store: Any) -> None:
        super().__init__()
        self.failures: list[Failure] = []
        copy_to(store, self)

    def perform(self, operation: Any) -> Any:
        if self.failures and self.failures[0][0](operation):
            _, moments, result = self.failures.pop(0)
            self.perform_torn(operation, moments)
            return result
        return super().perform(operation)

    def restart(self) -> "FailingStore":
        return self


def of_type(*types: type) -> Callable[[Any], bool]:
    return lambda operation: isinstance(operation, types)


def of_machine(name: str) -> Callable[[Any], bool]:
    """Reading a machine's object."""
    return lambda operation: (
        isinstance(operation, ops.ReadObject) and operation.identifier == guid_of(f"machine {name}")
    )


def world() -> Net:
    """PEC, PSC1 with BSC1; a machine C14 in Site1."""
    net = enterprise(header_s=60.0)
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    assert net.create_machine("C14", "Site1", "PSC1").status == OK
    assert net.create_queue("C14", "q", "Site1", "PSC1").status == OK
    net.run(100)
    net.hosts["PSC1"].store = FailingStore(net.hosts["PSC1"].store)  # type: ignore[assignment]
    return net


def fail(net: Net, *failures: Failure) -> None:
    net.hosts["PSC1"].store.failures = list(failures)  # type: ignore[attr-defined]


def queue(net: Net, name: str, at: str = "PSC1") -> int:
    return net.create_queue("C14", name, "Site1", at).status


def change(net: Net, command: Command, at: str = "PSC1") -> int:
    """Change the queue C14\\q, or create C14\\new."""
    if command is Command.CREATE:
        return queue(net, "new", at)
    given = {"identifier": guid_of(r"queue C14\q"), "partition_id": SITE1}
    if command is Command.UPDATE:
        given["properties"] = ((Propid.Q_LABEL, "changed"),)
    return net.change(at, command, ObjectType.QUEUE, **given).status


def is_made(net: Net, command: Command) -> bool:
    """Whether the store of the authority has what `change` asks for."""
    found = net.hosts["PSC1"].store.perform(
        ops.ReadObject(
            object_type=ObjectType.QUEUE,
            identifier=guid_of(r"queue C14\new" if command is Command.CREATE else r"queue C14\q"),
        )
    )
    if command is Command.DELETE:
        return found.status != OK
    return found.status == OK and dict(found.properties)[Propid.Q_LABEL] in {"new", "changed"}


def is_sane(net: Net) -> bool:
    """Whether no number stands twice, and all copies are equal."""
    numbers = [number for number, *_ in net.content("PSC1", SITE1).values()]
    return len(set(numbers)) == len(numbers) and all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.parametrize("result", [FULL, WRONG, FAILED], ids=["full", "error", "failed"])
@pytest.mark.parametrize("command", [Command.CREATE, Command.UPDATE, Command.DELETE])
@pytest.mark.parametrize("moments", [0, 1, ALL])
def test_no_number_is_given_twice_however_much_was_done(moments, command, result) -> None:
    net = world()
    kind = {Command.CREATE: ops.CreateObject, Command.UPDATE: ops.UpdateObject}.get(command, ops.DeleteObject)
    fail(net, (of_type(kind), moments, result))
    status = change(net, command)
    made = is_made(net, command)
    assert made is (moments > 0)
    if result is FAILED:
        assert status == UNKNOWN
    else:
        assert status == (OK if made else result.status)
    assert queue(net, "next") == OK
    net.run(LONG_S)
    assert made is is_made(net, command)
    assert is_sane(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_partition_takes_no_change_until_the_last_one_is_finished() -> None:
    """A full directory takes the tombstone and not the removal: this is tried again until there is room."""
    net = world()
    net.drop = lambda source, _send: source == "BSC1"  # nobody asks
    is_full = ops.Recovered(highest=net.hosts["PSC1"].engine.read_next_number(SITE1), status=FULL.status)
    fail(
        net,
        (of_type(ops.DeleteObject), 2, FULL),
        (of_type(ops.Recover), 0, is_full),
        (of_type(ops.Recover), 0, is_full),
    )
    assert change(net, Command.DELETE) == UNKNOWN
    assert net.hosts["PSC1"].engine.read_next_number(SITE1) == 0
    assert queue(net, "next") == LATER
    net.run(FINISH_S)
    assert queue(net, "next") == LATER
    assert net.create_site("X", "").status == OK, "others go on"
    net.run(FINISH_S)
    assert queue(net, "next") == OK
    assert is_made(net, Command.DELETE)
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert is_sane(net)


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
def test_a_start_leaves_what_cannot_be_finished_yet() -> None:
    net = world()
    number = net.hosts["PSC1"].engine.read_next_number(SITE1)
    net.hosts["PSC1"].store.perform_torn(  # type: ignore[attr-defined]
        ops.DeleteObject(
            object_type=ObjectType.QUEUE,
            path_name=None,
            identifier=guid_of(r"queue C14\q"),
            scope=0,
            partition_id=SITE1,
            seq_number=number,
        ),
        2,
    )
    is_full = ops.Recovered(highest=number, status=FULL.status)
    fail(
        net,
        (lambda one: isinstance(one, ops.Recover) and one.partition_id == SITE1, 0, is_full),
    )
    net.restart("PSC1")
    assert queue(net, "next") == LATER
    net.run(FINISH_S)
    assert queue(net, "next") == OK
    net.run(LONG_S)
    assert is_made(net, Command.DELETE)
    assert is_sane(net)


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.spec("MC-MQDSRP 3.2.7.6")
@pytest.mark.parametrize("result", [FULL, FAILED], ids=["full", "failed"])
def test_a_copy_of_a_request_that_failed_behind_its_write_is_not_carried_out(result) -> None:
    net = world()
    net.run(100)  # the PSC has started long ago (R33)
    fail(net, (of_type(ops.CreateObject), ALL, result))
    assert change(net, Command.CREATE, at="BSC1") == (OK if result is FULL else UNKNOWN)
    sent = [one for _, _, one in net.sent if isinstance(one, ChangeRequestMessage)]
    assert _delete_new(net) == OK
    before = len([one for _, _, one in net.sent if isinstance(one, ChangeReplyMessage)])
    net._put("PSC1", Received(message=sent[-1], sender="BSC1"), 0)
    net.run(10)
    replies = [one for _, _, one in net.sent if isinstance(one, ChangeReplyMessage)]
    assert len(replies) == before + 1
    assert replies[-1].result == (OK if result is FULL else UNKNOWN)
    assert not is_made(net, Command.CREATE)


def _delete_new(net: Net) -> int:
    return net.change(
        "PSC1",
        Command.DELETE,
        ObjectType.QUEUE,
        identifier=guid_of(r"queue C14\new"),
        partition_id=SITE1,
        properties=make_deletion_properties(ObjectType.QUEUE, 0),
    ).status


def hand_over(net: Net) -> int:
    return net.change(
        "PSC1",
        Command.UPDATE,
        ObjectType.MACHINE,
        identifier=guid_of("machine BSC1"),
        partition_id=SITE1,
        properties=((Propid.QM_SERVICE, int(Service.PSC)),),
    ).status


def owners(net: Net) -> list[str]:
    return [
        name
        for name, host in net.hosts.items()
        for one in host.store.perform(ops.LoadState()).partitions
        if one.partition_id == SITE1 and one.owned
    ]


def the_second(wanted: Callable[[Any], bool]) -> Callable[[Any], bool]:
    seen = []

    def is_it(operation: Any) -> bool:
        if wanted(operation):
            seen.append(operation)
        return len(seen) == 2

    return is_it


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.parametrize("again", [0, 1, 3])
def test_who_handed_over_gives_no_number_after_a_failed_read(again) -> None:
    """The read behind the last number fails, and then what finishes the handover, so often."""
    net = world()
    settling = (of_machine("PSC1"), 0, FAILED)
    fail(net, (the_second(of_machine("BSC1")), 0, FAILED), *[settling] * again)
    assert hand_over(net) == UNKNOWN
    failures = net.hosts["PSC1"].store.failures  # type: ignore[attr-defined]
    assert len(failures) == max(0, again - 1)
    assert net.hosts["PSC1"].engine.read_next_number(SITE1) == 0
    assert queue(net, "q1") == (LATER if again else OK)  # the successor has heard of it at once
    net.run(LONG_S)
    assert not failures
    assert owners(net) == ["BSC1"]
    assert queue(net, "q2") == OK
    net.run(LONG_S)
    assert is_sane(net)


def numbers_of(net: Net, name: str) -> dict[Guid, int]:
    return {one: number for one, (number, *_) in net.content(name, SITE1).items()}


@pytest.mark.spec("MC-MQDSRP 3.3.7.2")
def test_neighbors_hear_at_once_of_a_number_that_was_given_up() -> None:
    net = world()
    fail(net, (of_type(ops.CreateObject), ALL, FAILED))
    assert change(net, Command.CREATE) == UNKNOWN
    net.run(5)
    assert numbers_of(net, "BSC1") == numbers_of(net, "PSC1") == numbers_of(net, "PEC")


@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
def test_a_replica_asks_for_changes_that_it_could_not_take() -> None:
    """Without a word from anybody: the next header may be far away."""
    net = world()
    net.hosts["BSC1"].store = FailingStore(net.hosts["BSC1"].store)  # type: ignore[assignment]
    net.hosts["BSC1"].store.failures = [(of_type(ops.ApplyChanges), 0, FAILED)]  # type: ignore[attr-defined]
    assert queue(net, "q1") == OK
    net.drop = lambda source, send: source == "PSC1" and "Propagation" in type(send.message).__name__
    net.run(50)
    assert numbers_of(net, "BSC1") == numbers_of(net, "PSC1")


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
@pytest.mark.spec("MC-MQDSRP 3.1.7.1.3")
@pytest.mark.parametrize("moments", [0, 2])
def test_a_service_says_that_its_write_failed(moments) -> None:
    """Decision R156: a full directory took the tombstone, or nothing; the number is not given again."""
    net = world()
    host = net.hosts["PSC1"]
    number = host.engine.read_next_number(SITE1)
    identifier = guid_of(r"queue C14\q")
    removal = ops.DeleteObject(
        object_type=ObjectType.QUEUE,
        path_name=None,
        identifier=identifier,
        scope=Scope.ENTERPRISE,
        partition_id=SITE1,
        seq_number=number,
    )
    host.store.perform_torn(removal, moments)  # type: ignore[attr-defined]
    event = PropagateChange(
        request=1,
        command=Command.DELETE,
        object_type=ObjectType.QUEUE,
        identifier=identifier,
        partition_id=SITE1,
        seq_number=number,
        status=FULL.status,
    )
    net._put("PSC1", event, 0)
    net.run(1)
    given = moments > 0
    assert host.replies[1].status == (OK if given else FULL.status)
    assert host.engine.read_next_number(SITE1) == number + given
    assert is_made(net, Command.DELETE) is given
    assert queue(net, "next") == OK
    net.run(LONG_S)
    assert is_sane(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_who_takes_over_finishes_a_deletion_first() -> None:
    """Decision R121: the tombstone was written, and the directory had no room for the rest."""
    net = world()
    host = net.hosts["BSC1"]
    store = FailingStore(host.store)
    store.failures = [(of_type(ops.ApplyChanges), 2, ops.Applied(count=0, status=FULL.status))]
    host.store = store  # type: ignore[assignment]
    net.drop = lambda source, send: source == "PSC1" and send.destination == "PEC"
    assert change(net, Command.DELETE) == OK
    net.run(5)
    assert not store.failures
    net.stop("PSC1")
    net.drop = lambda _source, _send: False
    identifier = guid_of(r"queue C14\q")
    read = ops.ReadObject(object_type=ObjectType.QUEUE, identifier=identifier)
    assert store.perform(read).status == OK
    assert net.take_over("BSC1", SITE1).status == OK
    assert store.perform(read).status != OK
    assert net.name_psc("Site1", "BSC1").status == OK
    net.run(LONG_S)
    net.restart("BSC1")  # that finishes all that is left
    net.run(LONG_S)
    assert identifier not in objects(net, "PEC", SITE1)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_a_recovered_replica_says_nothing_about_our_machine() -> None:
    """The PSC took its machine for missing, and handed its site over as a PSC (seed 300007)."""
    net = world()
    is_full = ops.Recovered(highest=MIN, status=FULL.status)
    fail(
        net,
        (
            lambda operation: isinstance(operation, ops.Recover) and operation.partition_id == SITE0,
            0,
            is_full,
        ),
    )
    net.restart("PSC1")
    net.hosts["PSC1"].store.failures.append((the_second(of_machine("PSC1")), 0, FAILED))  # type: ignore[attr-defined]
    net.run(FINISH_S + 1)
    handed_over = net.change(
        "PSC1",
        Command.UPDATE,
        ObjectType.MACHINE,
        identifier=guid_of("machine BSC1"),
        partition_id=SITE1,
        properties=((Propid.QM_SERVICE, int(Service.PSC)),),
    )
    assert handed_over.status == OK
    machine = net.content("PSC1", SITE1)[guid_of("machine PSC1")]
    assert machine[2][Propid.QM_SERVICE] == Service.BSC
