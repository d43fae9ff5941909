"""What a server knows when it starts: [MC-MQDSRP] 3.1.1, 3.1.3, 3.2.3."""

import pytest
from support.replication.lone_authority import (
    BSC_TIMER,
    OK,
    PSC_TIMER,
    acked,
    authority,
    delete,
    last,
    make_cn,
    make_enterprise,
    make_machine,
    make_queue,
    make_site,
    numbers,
    propagated,
    told,
)
from support.replication.lone_server import HOME, Lone, replies, sends, timers
from support.replication.network import guid_of

from mqdssm.engines.replication.operations import (
    RemoveNeighbor,
)
from mqdssm.engines.replication.settings import Role
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import ChangePropagationMessage, Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_the_controllers_machine_is_the_first_of_its_site_and_the_last() -> None:
    server = Lone(Role.PEC)
    make_enterprise(server)
    make_site(server, "Home", "Me")
    assert replies(make_machine(server, "Desk")) == [Hresult.MQ_ERROR_ILLEGAL_OPERATION]
    assert replies(make_machine(server, "Me", Service.PEC)) == [OK]
    assert replies(make_machine(server, "Desk")) == [OK]
    assert replies(make_machine(server, "Second", Service.PSC)) == [Hresult.MQ_ERROR_ILLEGAL_OPERATION]

    def remove(name: str) -> list[int]:
        return replies(delete(server, ObjectType.MACHINE, HOME, path_name=name))

    assert remove("Me") == [Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS]
    assert remove("Desk") == [OK]
    assert remove("Me") == [OK]
    assert replies(make_machine(server, "Desk")) == [Hresult.MQ_ERROR_ILLEGAL_OPERATION]


@pytest.mark.spec("MC-MQDSRP 3.1.3")
@pytest.mark.spec("MC-MQDSRP 3.2.3")
@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
def test_numbers_go_on_behind_the_newest_object_after_a_restart() -> None:
    server = authority()
    make_queue(server, "q")
    assert server.partition(HOME).last < 4  # it is not persisted with each change: decision R15
    again = server.again()
    assert last(again) == 4
    make_queue(again, "next")
    assert numbers(again)[guid_of("queue next")] == (5, Command.SYNC)
    delete(again, ObjectType.QUEUE, HOME, path_name="Desk\\next")
    assert last(again.again()) == 6  # a tombstone counts as well


@pytest.mark.spec("MC-MQDSRP 3.1.1.1")
@pytest.mark.spec("MC-MQDSRP 3.2.1")
def test_who_owns_a_partition_is_not_told_by_names() -> None:
    server = authority()
    renamed = server.again(machine_name="Renamed")  # decision R30
    assert {one.authority_name for one in renamed.state().partitions if one.owned} == {"Renamed"}
    assert replies(make_queue(renamed, "q")) == [OK]
    assert replies(make_cn(renamed, "cn")) == [OK]


@pytest.mark.spec("MC-MQDSRP 3.1.3.2")
@pytest.mark.spec("MC-MQDSRP 3.1.1.3")
def test_neighbours_follow_from_the_objects_at_each_start() -> None:
    server = authority()
    server.got(acked("Other", 3), "Other")
    server.store.perform(RemoveNeighbor(machine_name="Back", is_bsc=True))  # a crash before it was saved
    again = server.again()
    kept = {one.machine_name: one for one in again.state().neighbors}
    assert set(kept) == {"Other", "Back"}
    assert kept["Other"].acked == 3  # and what is persisted adds what they acknowledged: decision R36
    assert timers(again.all)[PSC_TIMER] == 10.0
    assert timers(again.all)[BSC_TIMER] == 2.0
    again.store.perform(RemoveNeighbor(machine_name="Other", is_bsc=False))
    assert {one.machine_name for one in again.again().state().neighbors} == {"Other", "Back"}


@pytest.mark.spec("MC-MQDSRP 3.1.3.2")
def test_what_was_to_be_propagated_before_a_crash_is_told_by_the_header() -> None:
    server = authority()
    make_queue(server, "q")
    again = server.again()  # decision R16
    assert propagated(again.all, "Other") == propagated(again.fired(PSC_TIMER, 10), "Other") == []
    headers = [
        one.message.seq_number_header
        for one in sends(again.all)
        if one.destination == "Other" and isinstance(one.message, ChangePropagationMessage)
    ]
    said = {one.partition_id: one.last_seq_number for one in headers[0].partition_seq_numbers}
    assert said[HOME] == 4


def test_a_site_that_is_called_by_another_psc_is_claimed_back() -> None:
    server = authority()
    server.change(
        Command.UPDATE,
        ObjectType.SITE,
        PEC_PARTITION_ID,
        identifier=HOME,
        properties=((Propid.S_PSC, "Usurper"),),
    )
    psc = [one.get(Propid.S_PSC) for one in told(server) if one.guid_identifier == HOME]
    assert psc == ["Usurper", "Me"]
    assert server.partition(HOME).owned
