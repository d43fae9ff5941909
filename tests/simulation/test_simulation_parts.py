"""The parts of the simulation: time, network, ledger, what clients were told."""

from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace

import pytest

from mqdssm.engines.replication.actions import ChangeObject, Nacked, Received, Send
from mqdssm.engines.replication.operations import CreateObject, LookupChanges, SavePartition
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import BSCAckMessage, Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryNeighbor, DirectoryPartition, PurgeState
from mqdssm.model.seqnum import MAX, MIN, SequenceNumber
from mqdssm.samples.seeded_random import SeededRandom, compute_guid
from mqdssm.testing.simulation.delivery_checks import DeliveryChecks
from mqdssm.testing.simulation.ledger import Ledger, NumberedChange
from mqdssm.testing.simulation.losses import Losses
from mqdssm.testing.simulation.network import SimulatedNetwork
from mqdssm.testing.simulation.options import NetworkFaults
from mqdssm.testing.simulation.requests import ClientRequest, RequestBook
from mqdssm.testing.simulation.schedule import Schedule
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.stores import CrashingStore
from mqdssm.testing.simulation.trace import Violation

OBJECT = Guid.of(compute_guid("object"))
OTHER = Guid.of(compute_guid("other"))
ALWAYS = 1000
MESSAGE = BSCAckMessage(site_id=NULL_GUID, bsc_machine_id=NULL_GUID, bsc_name="a")


# -- time


def test_things_happen_in_order_of_time_and_then_of_entry() -> None:
    schedule, seen = Schedule(), []
    schedule.after(2, lambda: seen.append(("c", schedule.now)))
    schedule.after(1, lambda: seen.append(("a", schedule.now)))
    schedule.after(1, lambda: schedule.after(0, lambda: seen.append(("b", schedule.now))))
    schedule.after(9, lambda: seen.append(("d", schedule.now)))
    schedule.run_until(5)
    assert seen == [("a", 1), ("b", 1), ("c", 2)]
    assert (schedule.now, schedule.ran, schedule.waiting) == (5, 4, 1)
    with pytest.raises(ValueError, match="past"):
        schedule.after(-1, seen.clear)


# -- the network


@dataclass(slots=True)
class FakeStation:
    index: int
    name: str
    life: int = 1
    is_up: bool = True
    machine_id: Guid | None = None
    got: list[object] = field(default_factory=list)

    def step(self, event: Received | Nacked) -> None:
        self.got.append(event)


class Net:
    def __init__(self, faults: NetworkFaults) -> None:
        self.schedule = Schedule()
        self.a, self.b = FakeStation(0, "a"), FakeStation(1, "b")
        stations = {"a": self.a, "b": self.b}
        self.network = SimulatedNetwork(self.schedule, SeededRandom("test"), faults, stations.get, None)

    def send(self, **changes: object) -> None:
        sent = Send(destination="b", message=MESSAGE, timeout_s=10, priority=3, ack_requested=True)
        self.network.send(self.a, replace(sent, **changes))

    def kinds(self, station: FakeStation) -> list[str]:
        return [type(one).__name__ for one in station.got]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_a_message_arrives_with_its_senders_name() -> None:
    net = Net(NetworkFaults(coded=True))
    net.send()
    net.schedule.run_until(1)
    assert net.b.got == [Received(message=MESSAGE, sender="a")]
    assert not net.a.got


@pytest.mark.parametrize(
    ("faults", "there", "back"),
    [
        (NetworkFaults(lost=ALWAYS), [], []),
        (NetworkFaults(doubled=ALWAYS), ["Received", "Received"], []),
        (NetworkFaults(refused=ALWAYS), [], ["Nacked"]),
        (NetworkFaults(unsigned=ALWAYS), [], ["Nacked"]),
        (NetworkFaults(late=ALWAYS, late_max_s=9), ["Received"], []),
    ],
)
def test_faults_do_what_they_are_called(faults: NetworkFaults, there: list[str], back: list[str]) -> None:
    net = Net(faults)
    net.send()
    net.schedule.run_until(10)
    assert (net.kinds(net.b), net.kinds(net.a)) == (there, back)


def test_who_is_down_or_cut_off_gets_it_later_or_never() -> None:
    net = Net(NetworkFaults())
    net.b.is_up = False
    net.send()
    net.send(timeout_s=5)
    net.schedule.run_until(6)
    assert net.kinds(net.a) == ["Nacked"]
    net.b.is_up = True
    net.network.retry()
    assert net.kinds(net.b) == ["Received"]
    net.network.divide(frozenset({0}), one_way=False)
    net.send(ack_requested=False)
    net.schedule.run_until(30)
    net.network.heal()
    assert net.kinds(net.b) == ["Received"]
    assert net.kinds(net.a) == ["Nacked"]


def test_what_a_crashed_sender_had_not_got_rid_of_is_lost() -> None:
    net = Net(NetworkFaults())
    net.b.is_up = False
    net.a.life += 1  # it crashed while the message was on its way to the outgoing queue
    net.send()
    net.a.life += 1
    net.schedule.run_until(1)
    net.b.is_up = True
    net.network.retry()
    assert not net.b.got


def test_a_one_way_cut_lets_answers_through() -> None:
    net = Net(NetworkFaults())
    net.network.divide(frozenset({1}), one_way=True)
    net.send()
    net.schedule.run_until(1)
    assert net.kinds(net.b) == ["Received"]


# -- the ledger


def entry(number: int, *, giver: int = 0, identifier: Guid = OBJECT, **changes: object) -> NumberedChange:
    made = NumberedChange(
        number=number,
        identifier=identifier,
        object_type=ObjectType.ENTERPRISE,
        command=Command.UPDATE,
        asked=((Propid.E_LONG_LIVE, number),),
        content={Propid.E_LONG_LIVE: number},
        path="enterprise",
        giver=giver,
        at=float(number),
    )
    return replace(made, **changes)


def record(ledger: Ledger, one: NumberedChange) -> None:
    ledger.record(PEC_PARTITION_ID, one, OTHER, "successor")


@pytest.mark.spec("MC-MQDSRP 2.2.2")
def test_numbers_ascend_and_have_one_giver() -> None:
    ledger = Ledger()
    ledger.found(PEC_PARTITION_ID, 0)
    record(ledger, entry(1))
    record(ledger, entry(3))
    for wrong in (entry(3, identifier=OTHER), entry(2), entry(4, giver=1)):
        with pytest.raises(Violation):
            record(ledger, wrong)
    with pytest.raises(Violation, match="unknown partition"):
        ledger.record(OTHER, entry(4), OTHER, "successor")


def test_the_baton_makes_another_giver() -> None:
    ledger = Ledger()
    ledger.found(PEC_PARTITION_ID, 0)
    record(ledger, entry(1, content={Propid.E_PECNAME: "SUCCESSOR"}))
    record(ledger, entry(2, giver=1))
    with pytest.raises(Violation, match="of the partition of server 1"):
        record(ledger, entry(3, giver=0))


# -- what clients were told


def request(number: int, **changes: object) -> ClientRequest:
    change = ChangeObject(
        request=number,
        command=Command.UPDATE,
        object_type=ObjectType.ENTERPRISE,
        path_name=None,
        identifier=OBJECT,
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.E_LONG_LIVE, number),),
    )
    return replace(ClientRequest(change, 0, 1, 0.0), **changes)


def book_of(*requests: ClientRequest) -> RequestBook:
    book = RequestBook(lambda _: False)
    for one in requests:
        book.ask(one)
    return book


def test_a_promise_that_was_not_kept() -> None:
    book = book_of(request(1))
    with pytest.raises(Violation, match="no authority has done it"):
        book.record_answer(1, Hresult.MQ_OK, 9.0)


def test_an_error_that_was_done() -> None:
    book = book_of(request(1))
    book.done(entry(1))
    with pytest.raises(Violation, match="but it was done"):
        book.record_answer(1, Hresult.MQ_ERROR, 9.0)


@pytest.mark.parametrize("status", [Hresult.MQDS_NO_RSP_FROM_OWNER, Hresult.MQ_OK])
def test_what_was_done_twice(status: Hresult) -> None:
    book = book_of(request(1))
    book.done(entry(1))
    book.record_answer(1, status, 9.0)
    book.check()
    book.done(entry(2, asked=((Propid.E_LONG_LIVE, 1),), at=3.0))
    with pytest.raises(Violation, match="more often"):
        book.check()


def test_what_nobody_wanted() -> None:
    book = book_of(request(1))
    with pytest.raises(Violation, match="asked for"):
        book.done(entry(2))
    book.done(entry(3, asked=((Propid.E_PECNAME, "successor"),)))  # authorities do that themselves
    book.check()


def test_two_answers_and_answers_to_nobody() -> None:
    book = book_of(request(1))
    book.record_answer(1, Hresult.MQDS_NO_RSP_FROM_OWNER, 1.0)
    for number in (1, 2):
        with pytest.raises(Violation):
            book.record_answer(number, Hresult.MQ_ERROR, 2.0)


def test_not_reached_is_unsure_where_messages_are_doubled() -> None:
    for unsure in (True, False):
        book = book_of(request(1, unsure=unsure))
        book.done(entry(1))
        if unsure:
            book.record_answer(1, Hresult.MQDS_OWNER_NOT_REACHED, 9.0)
            book.check()
        else:
            with pytest.raises(Violation):
                book.record_answer(1, Hresult.MQDS_OWNER_NOT_REACHED, 9.0)


# -- stores


@pytest.mark.parametrize("moments", range(4))
def test_a_torn_operation_is_done_or_not(moments: int) -> None:
    store = CrashingStore()
    store.perform(
        SavePartition(partition=DirectoryPartition(partition_id=PEC_PARTITION_ID, authority_name="a"))
    )
    create = CreateObject(
        object_type=ObjectType.CN,
        path_name="net",
        properties=((Propid.CN_GUID, OBJECT),),
        partition_id=PEC_PARTITION_ID,
        seq_number=SequenceNumber(1),
    )
    store.perform_torn(create, moments)
    found = store.perform(
        LookupChanges(
            partition_id=PEC_PARTITION_ID,
            after=MIN,
            up_to=MAX,
            enterprise_scope=False,
            count_max=9,
            bytes_max=999,
        )
    )
    assert len(found.changes) == (1 if moments > 0 else 0)


# -- servers and their administrator


def simulated(name: str, **state) -> SimulatedServer:
    """A server whose store says this of the enterprise; its engine has nothing to do."""
    settings = Settings(
        machine_name=name, machine_id=OBJECT, site_id=OBJECT, role=Role.PSC, pec_name="PEC", foreign_s=0
    )
    server = SimulatedServer(
        0, settings, CrashingStore(), world=SimpleNamespace(trace=None), rng=SeededRandom(name)
    )
    saved = {"partition_id": PEC_PARTITION_ID, "authority_name": "PEC"} | state
    server.persisted[PEC_PARTITION_ID] = DirectoryPartition(**saved)
    server._engine = SimpleNamespace()
    return server


@pytest.mark.parametrize("state", [PurgeState.STARTSYNC0, PurgeState.SYNC0, PurgeState.COMPLETESYNC0])
def test_a_full_synchronization_without_a_timer_is_found(state: PurgeState) -> None:
    """Decision R194: it would never end."""
    server = simulated("Srv1", purge_state=state)
    with pytest.raises(Violation, match="no timer"):
        server.check_timers()
    server._timers = {"start": 1}
    server.check_timers()  # the start is repeated first
    server._timers = {f"sync {PEC_PARTITION_ID}": 1}
    server.check_timers()


def test_no_server_becomes_the_pec_that_has_nothing_of_this_one() -> None:
    pec = simulated("PEC", owned=True, last=SequenceNumber(900), purged=SequenceNumber(800))
    world = SimpleNamespace(pec=pec, find={"PEC": pec}.get)
    losses = Losses(world, None, None, SeededRandom("x"), remove_machine=None, create_machine=None)
    assert losses.has_followed(simulated("Srv1", last=SequenceNumber(800)))
    assert not losses.has_followed(simulated("Srv1", last=SequenceNumber(799)))
    assert not losses.has_followed(simulated("Srv1", last=SequenceNumber(900), authority_name="Lost"))


# -- checks of delivery


@pytest.mark.parametrize(("name", "must_purge"), [("", True), ("HONEST", True), ("HOSTILE", False)])
def test_an_owner_purges_unless_a_hostile_psc_came_with_another_name(
    monkeypatch: pytest.MonkeyPatch, name: str, *, must_purge: bool
) -> None:
    """Seed 923935: only a new neighbour that is hostile excuses an owner that purges nothing."""
    settings = Settings(
        machine_name="PEC",
        machine_id=OBJECT,
        site_id=OTHER,
        role=Role.PEC,
        pec_name="PEC",
        purge_buffer=2,
        purge_interval=2,
    )
    saved = DirectoryPartition(partition_id=PEC_PARTITION_ID, authority_name="PEC", owned=True)
    number = SequenceNumber(9)
    known = DirectoryNeighbor(partition_id=OTHER, machine_name="PSC", acked_pec=number)
    owner = SimpleNamespace(
        index=0,
        name="PEC",
        settings=settings,
        persisted={PEC_PARTITION_ID: saved},
        neighbors={(False, "PSC"): known},
    )
    monkeypatch.setattr(f"{DeliveryChecks.__module__}.list_members", lambda _: [owner])
    world = SimpleNamespace(
        schedule=Schedule(),
        options=SimpleNamespace(network=NetworkFaults()),
        is_foul_neighbor=lambda neighbor: neighbor.machine_name == "HOSTILE",
    )
    checks = DeliveryChecks(world)
    if name:
        owner.neighbors[False, name] = replace(known, machine_name=name, acked_pec=SequenceNumber(0))
    check = partial(checks._check_purging, owner, PEC_PARTITION_ID, 9, 20)
    if must_purge:
        with pytest.raises(Violation, match="PEC may purge up to 9 of 20, but does not"):
            check()
    else:
        check()
