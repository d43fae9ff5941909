"""Who owns a partition, and how it passes on: [MC-MQDSRP] 3.1.7.2.10, 3.1.7.2.11, decisions R38, R39, R43."""

import pytest
from support.replication.foreign_writes import write_foreign
from support.replication.lone_authority import authority, make_cn
from support.replication.lone_server import Lone, replies
from support.replication.lying_servers import header
from support.replication.network import (
    Net,
    all_equal,
    enterprise,
    guid_of,
    hand_the_enterprise_over,
    with_bsc,
    with_site,
)

from mqdssm.engines.replication.actions import Action, Send
from mqdssm.engines.replication.operations import SavePartition, UpdateObject
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryNotConnected
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import ChangePropagationMessage, ChangeRequestMessage, Command, PSCAckMessage
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.testing.memory_store.store import MemoryStore

SITE1 = guid_of("site Site1")
LONG_S = 1500  # until headers have been sent


def world(**settings) -> Net:
    """PEC, a PSC, and its BSC."""
    net = enterprise(header_s=60.0, **settings)
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    assert net.create_machine("C14", "Site1", "PSC1").status == Hresult.MQ_OK
    net.run(60)
    return net


def hand_over(net: Net, to: str = "BSC1", at: str = "PSC1") -> Hresult:
    """Make another machine of the site its PSC."""
    reply = net.change(
        at,
        Command.UPDATE,
        ObjectType.MACHINE,
        path_name=to,
        partition_id=SITE1,
        properties=((Propid.QM_SERVICE, int(Service.PSC)),),
    )
    return Hresult(reply.status)


def owners(net: Net, partition_id=SITE1) -> list[str]:
    """Which servers own a partition."""
    return [name for name, host in net.hosts.items() if host.engine.read_next_number(partition_id) > 0]


def label(net: Net, name: str) -> object:
    """What a server says of the site's PSC."""
    found = net.content(name, PEC_PARTITION_ID)[SITE1]
    return found[2][Propid.S_PSC]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_a_site_is_handed_to_its_bsc() -> None:
    net = world()
    assert hand_over(net) == Hresult.MQ_OK
    net.run(LONG_S)
    assert owners(net) == ["BSC1"]
    assert {label(net, name) for name in net.hosts} == {"BSC1"}
    for server in ("PEC", "PSC1", "BSC1"):  # whoever is asked, the new authority does it
        assert net.create_queue("C14", f"of {server}", "Site1", server).status == Hresult.MQ_OK
    net.run(LONG_S)
    assert all_equal(net)


def test_nothing_is_lost_when_the_last_number_is() -> None:
    net = world()
    lost = []

    def drop(source: str, send: Send) -> bool:
        if source == "PSC1" and isinstance(send.message, ChangePropagationMessage) and not lost:
            lost.append(send)
        return bool(lost) and net.now < lost_until

    lost_until = net.now + 300
    net.drop = drop
    for n in range(5):
        net.create_queue("C14", f"q{n}", "Site1", "PSC1")
    assert hand_over(net) == Hresult.MQ_OK
    net.run(100)
    assert owners(net) == []  # nobody gives numbers while the successor does not know
    net.run(LONG_S)
    assert lost
    assert owners(net) == ["BSC1"]
    assert len(net.content("BSC1", SITE1)) == 8  # three machines, five queues
    assert all_equal(net)


@pytest.mark.parametrize("who", ["PSC1", "BSC1"])
def test_a_restart_in_the_middle_changes_nothing(who) -> None:
    net = world()
    assert hand_over(net) == Hresult.MQ_OK
    net.restart(who)
    net.run(LONG_S)
    assert owners(net) == ["BSC1"]
    assert {label(net, name) for name in net.hosts} == {"BSC1"}
    net.restart(who)
    net.run(LONG_S)
    assert owners(net) == ["BSC1"]
    assert all_equal(net)


def test_there_and_back_again() -> None:
    net = world()
    assert hand_over(net) == Hresult.MQ_OK
    net.run(LONG_S)
    assert hand_over(net, "PSC1", "BSC1") == Hresult.MQ_OK
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_the_enterprise_is_handed_to_another_psc() -> None:
    net = world()
    assert hand_the_enterprise_over(net, "BSC1") == Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION  # no PSC
    assert hand_the_enterprise_over(net, "PSC1") == Hresult.MQ_OK
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PSC1"]
    assert net.create_site("Site7", "PSC7", at="PSC1").status == Hresult.MQ_OK
    assert net.create_network("net1", at="PEC").status == Hresult.MQ_OK  # forwarded
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
@pytest.mark.parametrize("is_acknowledgement_lost", [False, True])
def test_the_enterprise_is_not_handed_to_a_psc_that_is_far_behind(*, is_acknowledgement_lost: bool) -> None:
    """Decision R221: it may follow a PEC that is lost, and nobody would own the enterprise.

    An acknowledgement that was lost does not keep it from that: its headers have its number, too.
    """
    net = world(purge_buffer=4, ack_interval=2)
    net.drop = lambda source, send: "PSC1" in {source, send.destination}
    for number in range(7):
        assert net.create_network(f"net{number}", "PEC").status == Hresult.MQ_OK
    assert hand_the_enterprise_over(net, "PSC1") == Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
    net.run(100)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    net.drop = lambda source, send: isinstance(send.message, PSCAckMessage) and is_acknowledgement_lost
    net.run(LONG_S)
    assert hand_the_enterprise_over(net, "PSC1") == Hresult.MQ_OK
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PSC1"]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_numbers_that_a_psc_has_from_another_pec_do_not_count() -> None:
    """Decision R221: what it reports above our own last number is of another owner."""
    server = authority(purge_buffer=1, ack_interval=1)
    for number in range(3):
        make_cn(server, f"cn{number}")
    last = server.engine.read_next_number(PEC_PARTITION_ID) - 1
    server.got(header("Other", PEC_PARTITION_ID, last=last + 1), "Other")
    assert replies(name_pec(server)) == [Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION]
    server.got(header("Other", PEC_PARTITION_ID, last=last), "Other")
    assert replies(name_pec(server)) == [Hresult.MQ_OK]


def name_pec(server: Lone) -> list[Action]:
    """Make Other the PEC."""
    named = ((Propid.E_PECNAME, "Other"),)
    enterprise_id = guid_of("enterprise")
    return server.change(
        Command.UPDATE, ObjectType.ENTERPRISE, PEC_PARTITION_ID, identifier=enterprise_id, properties=named
    )


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_a_handover_of_the_enterprise_that_a_crash_cut_short_is_finished_at_the_next_start() -> None:
    net = world()
    store = net.hosts["PEC"].store
    perform = store.perform

    def cut(operation):
        if isinstance(operation, SavePartition) and operation.partition.partition_id == PEC_PARTITION_ID:
            raise DirectoryNotConnected("the power is gone")
        return perform(operation)

    store.perform = cut
    with pytest.raises(DirectoryNotConnected):
        hand_the_enterprise_over(net, "PSC1")
    store.perform = perform
    net.restart("PEC")
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PSC1"]
    assert all_equal(net)


@pytest.mark.parametrize("who", ["PEC", "PSC1", "BSC1"])
def test_a_renamed_server_goes_on(who) -> None:
    net = world()
    before = owners(net), owners(net, PEC_PARTITION_ID)
    net.restart(who, as_name="Renamed")
    net.run(LONG_S)
    after = owners(net), owners(net, PEC_PARTITION_ID)
    assert after == tuple([name.replace(who, "Renamed") for name in names] for names in before)
    psc = "Renamed" if who == "PSC1" else "PSC1"
    assert {label(net, name) for name in net.hosts} == {psc}
    assert net.create_queue("C14", "later", "Site1", "BSC1" if who != "BSC1" else "PSC1").status == 0
    net.run(LONG_S)
    if who == "BSC1":  # it is called by its machine object, which its PSC has not changed
        renamed = net.change(
            "PSC1",
            Command.UPDATE,
            ObjectType.MACHINE,
            identifier=guid_of("machine BSC1"),
            partition_id=SITE1,
            properties=((Propid.QM_PATHNAME, "Renamed"),),
        )
        assert renamed.status == Hresult.MQ_OK
        net.run(LONG_S)
    assert all_equal(net)


def test_the_operator_replaces_a_lost_psc() -> None:
    net = world()
    net.run(LONG_S)
    net.stop("PSC1")
    assert net.take_over("BSC1", SITE1).status == Hresult.MQ_OK
    net.run(LONG_S)
    assert owners(net) == ["BSC1"]
    assert label(net, "PEC") == "PSC1", "any BSC could say so: the operator confirms it at the PEC (R107)"
    assert net.name_psc("Site1", "BSC1").status == Hresult.MQ_OK
    net.run(LONG_S)
    assert net.create_queue("C14", "after", "Site1", "PEC").status == Hresult.MQ_OK
    net.run(LONG_S)
    assert all_equal(net)


def test_a_psc_that_comes_back_after_its_replacement_steps_down() -> None:
    net = world()
    away = net.stop("PSC1")
    net.take_over("BSC1", SITE1)
    net.name_psc("Site1", "BSC1")
    net.run(LONG_S)
    net.hosts["PSC1"] = away
    net.restart("PSC1")
    net.run(2 * LONG_S)
    assert owners(net) == ["BSC1"]
    assert all_equal(net)


def test_a_psc_with_an_empty_disk_takes_what_the_others_have() -> None:
    net = world()
    for n in range(5):
        assert net.create_queue("C14", f"q{n}", "Site1", "PSC1").status == Hresult.MQ_OK
    net.run(LONG_S)
    net.stop("PSC1")
    net.server("PSC1", Role.PSC, "Site1", store=MemoryStore())
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]
    assert len(net.content("PSC1", SITE1)) == 8
    assert net.create_queue("C14", "later", "Site1", "PSC1").status == Hresult.MQ_OK
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.parametrize(
    ("machine", "service"), [("C14", Service.NONE), ("Second", Service.PSC), ("PSC1", Service.NONE)]
)
def test_a_site_has_one_psc(machine, service) -> None:
    net = world()
    if machine == "C14":  # the PEC's own site is not handed over while it is the PEC
        with_bsc(net, "Site0", "BSC01", "PEC")
        reply = net.change(
            "PEC",
            Command.UPDATE,
            ObjectType.MACHINE,
            path_name="BSC01",
            partition_id=guid_of("site Site0"),
            properties=((Propid.QM_SERVICE, int(Service.PSC)),),
        )
    elif machine == "PSC1":
        reply = net.change(
            "PSC1",
            Command.UPDATE,
            ObjectType.MACHINE,
            path_name="PSC1",
            partition_id=SITE1,
            properties=((Propid.QM_SERVICE, int(service)),),
        )
    else:
        reply = net.create_machine(machine, "Site1", "PSC1", service)
    assert reply.status == Hresult.MQ_ERROR_ILLEGAL_OPERATION
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]


def test_a_site_is_removed_when_it_is_empty() -> None:
    net = world()

    def remove() -> int:
        return net.change(
            "PEC",
            Command.DELETE,
            ObjectType.SITE,
            identifier=SITE1,
            partition_id=PEC_PARTITION_ID,
        ).status

    assert remove() == Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
    assert owners(net) == ["PSC1"]
    net.stop("BSC1")

    def delete(machine: str) -> int:
        return net.change(
            "PSC1", Command.DELETE, ObjectType.MACHINE, path_name=machine, partition_id=SITE1
        ).status

    assert delete("PSC1") == Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
    assert [delete(machine) for machine in ("BSC1", "C14", "PSC1")] == [Hresult.MQ_OK] * 3
    assert net.create_machine("late", "Site1", "PSC1").status == Hresult.MQ_ERROR_ILLEGAL_OPERATION
    assert remove() == Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS  # the PEC has not heard of it
    net.run(LONG_S)
    assert remove() == Hresult.MQ_OK
    net.run(LONG_S)
    assert all(SITE1 not in net.partitions(name) for name in net.hosts)
    assert all_equal(net)


def _name_psc_and_crash(net: Net, name: str) -> None:
    """Have the PEC stop behind the write of a site's new PSC, and start again."""
    host = net.hosts["PEC"]
    written = UpdateObject(
        object_type=ObjectType.SITE,
        path_name=None,
        identifier=SITE1,
        properties=((Propid.S_PSC, name),),
        partition_id=PEC_PARTITION_ID,
        seq_number=host.engine.read_next_number(PEC_PARTITION_ID),
    )
    assert host.store.perform(written).status == Hresult.MQ_OK
    net.restart("PEC")


def believed(net: Net, name: str = "PEC", partition_id=SITE1) -> str:
    """Who a server takes for the owner of the site, or of another partition."""
    found = net.hosts[name].engine.report_status(net.now).partitions
    return next(one.authority_name for one in found if one.partition_id == partition_id)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_pec_that_crashed_behind_the_name_of_a_psc_follows_that_psc() -> None:
    """Decision R127: the PSC has another name, and the PEC heard of it from its administrator alone."""
    net = world()
    net.drop = lambda source, _send: source in {"PSC1", "PSC9"}
    net.restart("PSC1", as_name="PSC9")
    net.run(100)
    _name_psc_and_crash(net, "PSC9")
    assert believed(net) == "PSC9"
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert net.create_queue("C14", "q", "Site1", "PEC").status == Hresult.MQ_OK
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_pec_that_crashed_when_a_site_got_no_psc_knows_it() -> None:
    """Decision R186: its start follows the site's object (R127), also one that names nobody."""
    net = world()
    _name_psc_and_crash(net, "")
    assert believed(net) == ""


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_an_older_name_in_a_sites_object_is_not_followed_at_a_start() -> None:
    """Decision R127: the site was handed over since, and its object does not say so yet."""
    net = world()
    assert net.name_psc("Site1", "PSC1").status == Hresult.MQ_OK
    net.drop = lambda _source, send: isinstance(send.message, ChangeRequestMessage)
    assert hand_over(net) == Hresult.MQ_OK
    net.run(20)
    assert (believed(net), label(net, "PEC")) == ("BSC1", "PSC1")
    net.restart("PEC")
    assert believed(net) == "BSC1"
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert {label(net, name) for name in net.hosts} == {"BSC1"}
    assert all_equal(net)


def touch_site(net: Net) -> Hresult:
    """Change a property of the site at the PEC that does not say who its PSC is."""
    reply = net.change(
        "PEC",
        Command.UPDATE,
        ObjectType.SITE,
        identifier=SITE1,
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.S_INTERVAL1, 17),),
    )
    return Hresult(reply.status)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_an_update_of_a_site_does_not_bring_its_old_psc_back() -> None:
    """Decision R181: the PEC knows of the handover from the machine's object, the site's object is older."""
    net = world()
    with_site(net, "Site2", "PSC2")
    net.drop = lambda _source, send: isinstance(send.message, ChangeRequestMessage)
    assert hand_over(net) == Hresult.MQ_OK
    net.run(20)
    assert {believed(net, name) for name in net.hosts} == {"BSC1"}
    assert label(net, "PEC") == "PSC1"
    assert touch_site(net) == Hresult.MQ_OK
    net.run(20)
    assert {believed(net, name) for name in net.hosts} == {"BSC1"}
    assert {label(net, name) for name in net.hosts} == {"BSC1"}
    net.restart("PEC")
    assert believed(net) == "BSC1"


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_pec_that_lags_behind_a_handover_delays_it_and_nothing_more() -> None:
    """Decision R181: others hear the old name from the PEC until it has heard of the handover itself."""
    net = world()
    with_site(net, "Site2", "PSC2")
    net.drop = lambda source, send: "PEC" in {source, send.destination.upper()} and source != "PEC"
    assert hand_over(net) == Hresult.MQ_OK
    net.run(20)
    assert (believed(net), believed(net, "PSC2")) == ("PSC1", "BSC1")
    assert touch_site(net) == Hresult.MQ_OK
    net.run(20)
    assert believed(net, "PSC2") == "PSC1"
    assert net.create_queue("C14", "q", "Site1", "PSC2").status == Hresult.MQ_OK, "the old PSC passes it on"
    net.drop = lambda _source, _send: False
    net.run(120)
    assert {believed(net, name) for name in net.hosts} == {"BSC1"}
    assert owners(net) == ["BSC1"]
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_the_operator_may_name_the_old_psc_again() -> None:
    """A name that an update says counts, whatever the PEC knows of a handover."""
    net = world()
    net.drop = lambda _source, send: isinstance(send.message, ChangeRequestMessage)
    assert hand_over(net) == Hresult.MQ_OK
    net.run(20)
    assert believed(net) == "BSC1"
    assert net.name_psc("Site1", "PSC1").status == Hresult.MQ_OK
    assert believed(net) == "PSC1"


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_site_changed_by_another_program_brings_no_old_psc_back() -> None:
    """Decisions R112, R181: what is published has the PSC that the PEC knows, not the one of the object."""
    net = world()
    with_site(net, "Site2", "PSC2")
    net.drop = lambda _source, send: isinstance(send.message, ChangeRequestMessage)
    assert hand_over(net) == Hresult.MQ_OK
    net.run(20)
    assert label(net, "PEC") == "PSC1"
    write_foreign(net.hosts["PEC"].store, SITE1, ((Propid.S_INTERVAL1, 77),))
    net.run(2 * 60.0)
    assert {believed(net, name) for name in net.hosts} == {"BSC1"}
    assert {label(net, name) for name in net.hosts} == {"BSC1"}


def brings_the_enterprise(send: Send) -> bool:
    """Return True for a message with changes of the enterprise."""
    changes = getattr(send.message, "directory_changes", ())
    return any(change.partition_id == PEC_PARTITION_ID for change in changes)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_who_gets_the_site_of_an_old_pec_is_not_the_pec() -> None:
    """Decision R171: PSC2 has not heard that the enterprise was handed over before the PEC's site was."""
    net = world()
    with_site(net, "Site2", "PSC2")
    with_bsc(net, "Site0", "BSC01", "PEC")
    net.drop = lambda _source, send: send.destination.upper() == "PSC2" and brings_the_enterprise(send)
    assert hand_the_enterprise_over(net, "PSC1") == Hresult.MQ_OK
    net.run(20)
    assert owners(net, PEC_PARTITION_ID) == ["PSC1"]
    handed_over = net.change(
        "PEC",
        Command.UPDATE,
        ObjectType.MACHINE,
        path_name="BSC01",
        partition_id=guid_of("site Site0"),
        properties=((Propid.QM_SERVICE, int(Service.PSC)),),
    )
    assert handed_over.status == Hresult.MQ_OK
    net.run(20)
    assert believed(net, "PSC2", guid_of("site Site0")) == "BSC01"
    assert believed(net, "PSC2", PEC_PARTITION_ID) == "PEC"
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert {believed(net, name, PEC_PARTITION_ID) for name in net.hosts} == {"PSC1"}
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_who_lost_its_disk_after_a_handover_does_not_take_its_successor_for_the_pec() -> None:
    """Decision R171: the PEC's name is that of its site's owner until it has asked (R43)."""
    net = world()
    net.drop = lambda _source, send: isinstance(send.message, ChangeRequestMessage)
    assert hand_over(net) == Hresult.MQ_OK
    net.run(20)
    assert (believed(net), label(net, "PEC")) == ("BSC1", "PSC1")
    net.stop("PSC1")
    net.server("PSC1", Role.PSC, "Site1", store=MemoryStore())
    net.run(20)
    assert believed(net, "PSC1") == "BSC1"
    assert believed(net, "PSC1", PEC_PARTITION_ID) == "PEC"


def brings(send: Send, *identifiers: Guid) -> bool:
    """Return True for a message with changes of one of some objects."""
    changes = getattr(send.message, "directory_changes", ())
    return any(change.guid_identifier in identifiers for change in changes)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.parametrize("crashes", [False, True])
def test_a_renamed_pec_is_known_by_its_site_alone(crashes) -> None:
    """Decision R172: when its machine's new name comes, it has handed the enterprise over already."""
    net = world(message_changes_max=1)
    machine = guid_of("machine PEC")
    net.drop = lambda _source, send: (
        send.destination.upper() == "PSC1" and (brings_the_enterprise(send) or brings(send, machine))
    )
    net.restart("PEC", as_name="Renamed")
    assert hand_the_enterprise_over(net, "PSC1", at="Renamed") == Hresult.MQ_OK
    net.run(20)
    net.drop = lambda _source, send: (
        send.destination.upper() == "PSC1" and brings(send, machine, guid_of("enterprise"))
    )
    net.run(LONG_S)
    assert believed(net, "PSC1", guid_of("site Site0")) == "Renamed"
    assert owners(net, PEC_PARTITION_ID) == []
    if crashes:
        net.restart("PSC1")
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PSC1"]
    assert all_equal(net)
