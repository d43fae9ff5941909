"""Old copies of directories and halves of copies, whose servers are to own what they hold (R70 to R72)."""

import copy
from dataclasses import replace

import pytest
from support.replication.lone_authority import OK
from support.replication.lone_server import HOME, Lone, machine, replies, site
from support.replication.network import (
    Net,
    all_equal,
    enterprise,
    guid_of,
    hand_the_enterprise_over,
    with_bsc,
    with_site,
)
from support.replication.three_sites import LONG_S, SITE0, SITE1, delete, nothing_lost, owners, world

from mqdssm.engines.replication.actions import Send, TakeOver
from mqdssm.engines.replication.operations import LoadState, SavePartition
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.succession import GAP
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    ChangePropagationMessage,
    Command,
    PartitionSeqNumbers,
    SeqNumberHeader,
    SyncReplyMessage,
    SyncRequestMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import MIN, SequenceNumber


def queues(net: Net, *names: str, at: str = "PSC1") -> None:
    for name in names:
        assert net.create_queue("C14", name, "Site1", at).status == OK


def has(net: Net, server: str, queue: str) -> bool:
    found = net.content(server, SITE1).get(guid_of(f"queue C14\\{queue}"))
    return found is not None and found[1] is not Command.DELETE


def neighbors(net: Net, name: str) -> set[str]:
    return {one.machine_name for one in net.hosts[name].store.perform(LoadState()).neighbors}


def partitions_of(message) -> set:
    if isinstance(message, ChangePropagationMessage):
        return {one.partition_id for one in message.seq_number_header.partition_seq_numbers}
    return {message.partition_id}


def old_copy_with_more(net: Net, *names: str, at: str = "PSC1") -> None:
    """Everybody hears of some queues, and their authority forgets them."""
    old = copy.deepcopy(net.hosts[at].store._kept)
    queues(net, *names, at=at)
    net.run(200)
    net.hosts[at].store._kept = old


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_what_others_know_under_a_number_that_was_given_again_is_not_lost() -> None:
    """Decision R70: an old copy that nobody told the engine of."""
    net = world()
    old_copy_with_more(net, "known1", "known2", "known3")
    net.drop = lambda source, send: "PSC1" in {source, send.destination}
    net.restart("PSC1")
    queues(net, "again")  # with the number of the first one
    net.run(100)
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]
    assert all(has(net, name, f"known{n}") for name in net.hosts for n in (1, 2, 3))
    assert not any(has(net, name, "again") for name in net.hosts)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
@pytest.mark.parametrize("who", ["PSC1", "PEC"])
def test_a_server_that_knows_of_its_old_copy_gives_no_number_before_it_has_asked(who) -> None:
    """Decision R70: an old copy that the operator told the engine of."""
    net = world()
    if who == "PSC1":
        old_copy_with_more(net, "known1", "known2")
    else:
        old = copy.deepcopy(net.hosts[who].store._kept)
        assert net.create_site("X", "").status == OK
        net.run(200)
        net.hosts[who].store._kept = old
    partition_id = SITE1 if who == "PSC1" else PEC_PARTITION_ID
    net.drop = lambda source, send: who in {source, send.destination}
    net.hosts[who].settings = replace(net.hosts[who].settings, restored=True)
    net.restart(who)
    net.run(300)
    assert owners(net, partition_id) == []
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net, partition_id) == [who]
    if who == "PSC1":
        assert has(net, who, "known2")
    else:
        assert guid_of("site X") in net.content(who, PEC_PARTITION_ID)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
def test_an_old_copy_is_not_completed_by_a_server_with_a_lower_number() -> None:
    """Decision R166: replies of a server that has more do not contain what was changed again since."""
    net = world(message_changes_max=1, header_s=5.0)
    old = copy.deepcopy(net.hosts["PEC"].store._kept)
    assert all(net.create_network(name, "PEC").status == OK for name in ("kept", "second", "third"))
    net.run(200)
    net.drop = lambda source, send: send.destination == "PSC2"
    changed = net.change(
        "PEC",
        Command.UPDATE,
        ObjectType.CN,
        identifier=guid_of("network kept"),
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.CN_NAME, "changed"),),
    )
    assert changed.status == OK
    net.run(50)
    net.hosts["PEC"].store._kept = old
    net.hosts["PEC"].settings = replace(net.hosts["PEC"].settings, restored=True)
    reached = net.content("PSC1", PEC_PARTITION_ID)[guid_of("network second")][0]
    net.drop = lambda source, send: (
        source == "PSC1"
        and isinstance(send.message, SyncReplyMessage)
        and send.message.to_seq_number > reached  # meanwhile PSC2 reports its number
    )
    net.restart("PEC")
    net.run(20)
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    network = net.content("PEC", PEC_PARTITION_ID)[guid_of("network kept")]
    assert network[2][Propid.CN_NAME] == "changed"
    assert all_equal(net)


def known_to_bscs(net: Net) -> None:
    """Of the last queues the BSCs have heard, and nobody else."""
    with_bsc(net, "Site1", "BSC2", "PSC1")
    queues(net, "old")
    net.run(200)
    net.drop = lambda source, send: (
        (source == "PSC1" and send.destination.upper() in {"PEC", "PSC2"})
        or (send.destination == "BSC2" and net.now > half)
    )
    half = net.now + 15
    queues(net, "q1", "q2")
    net.run(15)
    queues(net, "q3")
    net.run(15)
    assert has(net, "BSC2", "q2")
    assert not has(net, "BSC2", "q3")
    assert not has(net, "PEC", "q1")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.parametrize("how", ["nothing", "old copy", "old copy, unnoticed"])
def test_what_a_bsc_has_of_its_lost_psc_is_not_lost(how) -> None:
    """Decision R104: the PSC of an empty disk or an old copy asks its BSCs before it goes on."""
    net = world()
    known_to_bscs(net)
    host = net.stop("PSC1")
    net.run(30)
    net.drop = nothing_lost
    if how == "nothing":
        net.server("PSC1", Role.PSC, "Site1")
    else:
        kept = host.store._kept
        for name in ("q1", "q2", "q3"):
            kept.remove(next(one for one in kept.find_objects(guid_of(f"queue C14\\{name}"))))
        host.settings = replace(host.settings, restored=how == "old copy")
        net.hosts["PSC1"] = host
        net.restart("PSC1")
    net.run(LONG_S)
    if how == "old copy, unnoticed":  # but by people, who are warned
        assert "somebody claims to know more of our partition than we do" in [
            one.what for one in net.hosts["PSC1"].notes if one.is_warning
        ]
        assert net.name_authority("PSC1", SITE1, "PEC").status == OK
        net.run(LONG_S)
    assert owners(net) == ["PSC1"]
    assert all(has(net, name, queue) for name in net.hosts for queue in ("old", "q1", "q2", "q3"))
    queues(net, "next")
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.parametrize("counted", [0, 1])
def test_a_psc_that_lost_its_disk_gets_what_the_pec_wrote_before_a_crash(counted) -> None:
    """Decision R188: the PEC wrote the changes of a reply, and crashed before it persisted their number."""
    net = world()
    queues(net, "q1", "q2")
    net.run(200)
    before = net.content("PSC1", SITE1)
    net.stop("PSC1")
    store = net.hosts["PEC"].store
    record = next(one for one in store.perform(LoadState()).partitions if one.partition_id == SITE1)
    store.perform(SavePartition(partition=replace(record, last=SequenceNumber(counted))))
    net.restart("PEC")
    net.server("PSC1", Role.PSC, "Site1")
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]
    assert net.content("PSC1", SITE1).keys() == before.keys()
    queues(net, "next")
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_a_bsc_that_does_not_answer_is_not_waited_for_without_end() -> None:
    net = world()
    known_to_bscs(net)
    net.stop("PSC1")
    net.run(30)
    net.drop = lambda source, send: "BSC1" in {source, send.destination}
    net.server("PSC1", Role.PSC, "Site1")
    net.run(600)
    assert owners(net) == ["PSC1"]
    assert has(net, "PSC1", "q2")
    net.drop = nothing_lost
    net.run(LONG_S)
    assert not has(net, "BSC1", "q3"), "this is what is lost"
    assert all_equal(net)


def handed_over_unheard() -> Net:
    """The PEC alone has the end of PSC1's numbers, which makes BSC1 the PSC; then PSC1 loses its disk."""
    net = world()
    net.drop = lambda source, send: "BSC1" in {source, send.destination}
    successor = {
        "identifier": guid_of("machine BSC1"),
        "partition_id": SITE1,
        "properties": ((Propid.QM_SERVICE, int(Service.PSC)),),
    }
    assert net.change("PSC1", Command.UPDATE, ObjectType.MACHINE, **successor).status == OK
    net.run(30)
    interval = {
        "identifier": SITE1,
        "partition_id": PEC_PARTITION_ID,
        "properties": ((Propid.S_INTERVAL1, 17),),
    }
    assert net.change("PEC", Command.UPDATE, ObjectType.SITE, **interval).status == OK
    net.run(5)
    net.stop("PSC1")
    return net


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
def test_what_the_pec_has_of_a_handover_is_not_lost() -> None:
    """Decision R170: no server of the site has received the handover before its PSC lost its disk."""
    net = handed_over_unheard()
    net.drop = lambda source, send: {source, send.destination} == {"PEC", "BSC1"}
    net.server("PSC1", Role.PSC, "Site1")
    net.run(LONG_S)
    assert owners(net) == ["BSC1"]
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net) == ["BSC1"]
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_a_pec_that_does_not_answer_is_not_waited_for_without_end() -> None:
    """Decision R170: the PEC answers no question about the site; what it alone has is lost."""
    net = handed_over_unheard()
    net.drop = lambda source, send: (
        {source, send.destination} == {"PEC", "BSC1"}
        or (
            source == "PEC"
            and isinstance(send.message, SyncReplyMessage)
            and SITE1 in partitions_of(send.message)
        )
    )
    net.server("PSC1", Role.PSC, "Site1")
    net.run(100)
    assert owners(net) == []
    net.run(200)
    assert owners(net) == ["PSC1"]


@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
def test_a_server_alone_goes_on_with_its_old_copy() -> None:
    """Decision R70: there is nobody to ask."""
    net = enterprise()
    net.hosts["PEC"].settings = replace(net.hosts["PEC"].settings, restored=True)
    net.restart("PEC")
    assert owners(net, PEC_PARTITION_ID) == ["PEC"]
    assert net.create_machine("C1", "Site0", "PEC").status == OK


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_who_is_asked_from_behind_his_own_last_number_asks_back() -> None:
    """Decision R72: the copy knows more than the first one that is asked."""
    net = world()
    net.drop = lambda source, send: source == "PSC1" and send.destination == "PEC"
    queues(net, "q1", "q2", "q3")
    net.run(30)
    assert not has(net, "PEC", "q3")
    net.hosts["PSC1"].settings = replace(net.hosts["PSC1"].settings, restored=True)
    net.drop = lambda source, send: source == "PSC1" and isinstance(send.message, ChangePropagationMessage)
    net.restart("PSC1")
    net.run(LONG_S)
    assert has(net, "PEC", "q3")
    assert owners(net) == ["PSC1"]
    net.drop = nothing_lost
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
@pytest.mark.parametrize("spelling", ["PEC", "Pec"])
def test_a_bsc_that_is_half_a_copy_is_made_whole_by_others_and_takes_over(spelling) -> None:
    """Decision R71: its own PSC is lost in the middle of a full synchronization.

    The PEC's name may be spelled in another way in its site's object (seed 705550).
    """
    net = world()
    assert net.name_psc("Site0", spelling).status == OK
    net.run(100)
    queues(net, *(f"q{n}" for n in range(9)))
    net.run(200)
    store = net.hosts["BSC1"].store
    net.stop("BSC1")
    found = store.perform(LoadState()).partitions
    state = next(one for one in found if one.partition_id == SITE1)
    half = replace(state, last=MIN, purge_state=PurgeState.STARTSYNC0)
    store.perform(SavePartition(partition=half))
    net.stop("PSC1")
    net.server("BSC1", Role.BSC, "Site1", psc="PSC1", store=store)
    assert net.take_over("BSC1", SITE1).status == Hresult.MQ_ERROR_ILLEGAL_OPERATION
    net.run(LONG_S)
    assert net.take_over("BSC1", SITE1).status == Hresult.MQ_OK
    assert net.name_psc("Site1", "BSC1").status == OK
    net.run(LONG_S)
    assert owners(net) == ["BSC1"]
    assert all(has(net, "BSC1", f"q{n}") for n in range(9))
    assert all_equal(net)


def _told_by_header(server: Lone, number: SequenceNumber, purged: SequenceNumber = MIN) -> Lone:
    numbers = PartitionSeqNumbers(partition_id=HOME, last_seq_number=number, purged_seq_number=purged)
    header = SeqNumberHeader(machine_name="Boss", partition_seq_numbers=(numbers,))
    server.told(seq_number_header=header, sender="Boss")
    return server


def _told_by_change(server: Lone, number: SequenceNumber) -> Lone:
    server.told(machine(number, "C14", HOME), sender="Boss")
    return server


def _told_by_already_purged(server: Lone, number: SequenceNumber) -> Lone:
    server.got(AlreadyPurgedMessage(site_id=HOME, partition_id=HOME, purged_seq_number=number), "Boss")
    return server


def _told_before_its_start(server: Lone, number: SequenceNumber) -> Lone:
    return _told_by_header(server, number, purged=number).again()


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.parametrize(
    "told",
    [_told_by_header, _told_by_change, _told_by_already_purged, _told_before_its_start],
)
def test_who_takes_over_gives_no_number_that_the_lost_owner_may_have_given(told) -> None:
    """Decision R196 (seed 800015): the lost owner took over itself, and went on behind a gap."""
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), sender="Boss")
    server.answered(
        machine(1, "Me", HOME, Service.BSC), sender="Boss", partition_id=HOME, from_seq_number=MIN
    )
    assert server.partition(HOME).last == 1
    far = SequenceNumber(GAP + 7)
    server = told(server, far)
    made = server.did(TakeOver(request=1, partition_id=HOME))
    assert replies(made) == [OK]
    assert server.partition(HOME).purged == far + GAP


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
@pytest.mark.parametrize("unheard", [SITE0, SITE1])
def test_a_new_bsc_whose_psc_is_lost_is_made_whole_by_others_and_takes_over(unheard) -> None:
    """Decision R71 (seed 12043): it had nothing yet of its site, or had not even heard of it.

    It would wait for the lost PSC without end, and own the site, empty, once it was told to take over.
    """
    net = world(message_changes_max=1)
    queues(net, *(f"q{n}" for n in range(9)))
    assert net.create_machine("BSC5", "Site1", "PSC1", Service.BSC).status == OK
    net.run(200)

    def nothing_of_it(_source: str, sent: Send) -> bool:
        about = {one.partition_id for one in getattr(sent.message, "directory_changes", ())}
        new = sent.destination == "BSC5"
        return new and (SITE1 in about or (unheard == SITE0 and PEC_PARTITION_ID in about))

    net.drop = nothing_of_it
    net.server("BSC5", Role.BSC, "Site1", psc="PSC1")
    net.run(20)
    assert (SITE1 in net.partitions("BSC5")) == (unheard == SITE1)
    net.stop("PSC1")
    net.stop("BSC1")
    net.drop = nothing_lost
    assert net.take_over("BSC5", SITE1).status == Hresult.MQ_ERROR_ILLEGAL_OPERATION
    net.run(LONG_S)
    assert net.take_over("BSC5", SITE1).status == OK
    assert net.name_psc("Site1", "BSC5").status == OK
    net.run(LONG_S)
    assert owners(net) == ["BSC5"]
    assert all(has(net, "BSC5", f"q{n}") for n in range(9))
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_a_new_bsc_learns_from_others_that_its_psc_has_another_name() -> None:
    """Decision R71 (seed 2249): its administrator gave it the old name."""
    net = world()
    net.restart("PSC1", as_name="PSC9")
    net.run(200)
    assert net.create_machine("BSC5", "Site1", "PSC9", Service.BSC).status == OK
    net.drop = lambda source, sent: source == "PSC9" and sent.destination == "BSC5"
    net.server("BSC5", Role.BSC, "Site1", psc="PSC1")
    net.run(LONG_S)
    net.drop = nothing_lost
    queues(net, "q", at="BSC5")


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_a_psc_whose_machine_nobody_had_heard_of_has_it_made_again() -> None:
    """Decisions R43, R80: its disk is lost before the first number of its site was told to anybody."""
    net = enterprise(header_s=60.0)
    with_site(net, "Site2", "PSC2")
    assert net.create_site("Site1", "PSC1").status == OK
    net.server("PSC1", Role.PSC, "Site1")
    net.run(60)
    net.drop = lambda source, _send: source == "PSC1"
    assert net.create_machine("PSC1", "Site1", "PSC1", Service.PSC).status == OK
    net.stop("PSC1")
    net.drop = nothing_lost
    net.server("PSC1", Role.PSC, "Site1")  # its disk is empty
    net.run(LONG_S)
    assert owners(net) == ["PSC1"], "the site's object names it"
    assert not any(net.content(name, SITE1) for name in net.hosts)
    assert neighbors(net, "PEC") == neighbors(net, "PSC2") ^ {"PEC", "PSC2"} == {"PSC1", "PSC2"}
    refused = net.create_machine("C14", "Site1", "PSC1")
    assert refused.status != OK, "the first object of a site is its controller's machine (R34)"
    assert net.create_machine("PSC1", "Site1", "PSC1", Service.PSC).status == OK
    assert net.create_machine("C14", "Site1", "PSC2").status == OK
    net.run(LONG_S)
    assert len(net.content("PEC", SITE1)) == 2
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
def test_a_step_down_is_a_full_synchronization_that_a_crash_does_not_end() -> None:
    net = world()
    old_copy_with_more(net, "known1", "known2")
    net.drop = lambda source, send: isinstance(send.message, SyncReplyMessage)
    net.restart("PSC1")
    net.run(100)
    found = net.hosts["PSC1"].store.perform(LoadState()).partitions
    state = next(one for one in found if one.partition_id == SITE1)
    assert (state.owned, state.purge_state) == (False, PurgeState.SYNC0)
    net.restart("PSC1")
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net) == ["PSC1"]
    assert has(net, "PSC1", "known2")
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
@pytest.mark.parametrize("machine_is_there", [True, False])
def test_who_takes_a_site_over_from_the_pec_is_not_the_pec_by_its_name(machine_is_there) -> None:
    """Decision R87: the enterprise names the lost machine, and so does the site, until there is a PEC."""
    net = world()
    with_bsc(net, "Site0", "BSC01", "PEC")
    net.run(200)
    net.drop = lambda source, _send: source == "PEC"
    assert net.create_site("X", "").status == OK  # a number that nobody hears of
    net.stop("PEC")
    net.drop = nothing_lost
    assert net.take_over("BSC01", SITE0).status == Hresult.MQ_OK
    if not machine_is_there:
        assert delete(net, ObjectType.MACHINE, guid_of("machine PEC"), SITE0, "BSC01") == OK
    net.restart("BSC01")
    assert net.name_authority("BSC01", PEC_PARTITION_ID, "PSC1").status == OK
    net.run(LONG_S)  # it has all that PSC1 has
    if machine_is_there:
        assert owners(net, PEC_PARTITION_ID) == []
        assert net.take_over("BSC01", PEC_PARTITION_ID).status == Hresult.MQ_OK
    for name in ("PSC1", "PSC2"):
        assert net.name_authority(name, PEC_PARTITION_ID, "BSC01").status == OK
    net.run(LONG_S)
    assert owners(net, PEC_PARTITION_ID) == ["BSC01"]
    assert net.hosts["BSC01"].engine.read_next_number(PEC_PARTITION_ID) > GAP
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_a_new_psc_follows_the_pec_to_its_successor() -> None:
    """Decision R89: it has asked the old one about its site, and had no answer yet."""
    net = world()
    site3 = guid_of("site Site3")
    asked = SyncRequestMessage | SyncReplyMessage | ChangePropagationMessage
    net.drop = lambda source, send: (
        source == "PSC3" and isinstance(send.message, asked) and partitions_of(send.message) == {site3}
    )
    assert net.create_site("Site3", "PSC3").status == OK
    net.server("PSC3", Role.PSC, "Site3")
    net.run(200)
    assert site3 in net.partitions("PSC3")
    assert hand_the_enterprise_over(net, "PSC2") == OK
    net.run(LONG_S)
    assert owners(net, site3) == []
    net.drop = nothing_lost
    net.run(LONG_S)
    assert owners(net, site3) == ["PSC3"]
    assert net.create_machine("PSC3", "Site3", "PSC3", Service.PSC).status == OK
    net.run(LONG_S)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
def test_a_site_without_objects_can_be_removed_though_its_psc_has_forgotten_it() -> None:
    """Decision R86: not even the machine is there that would say whose the partition is."""
    net = world()
    site2 = guid_of("site Site2")
    assert delete(net, ObjectType.MACHINE, guid_of("machine PSC2"), site2, "PSC2") == OK
    net.run(LONG_S)
    net.stop("PSC2")
    net.restart("PEC")
    net.run(200)
    refused = delete(net, ObjectType.SITE, site2, PEC_PARTITION_ID, "PEC")
    assert refused == Hresult.MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS  # it cannot know that it has everything
    net.server("PSC2", Role.PSC, "Site2")
    net.run(LONG_S)
    assert owners(net, site2) == ["PSC2"]
    assert delete(net, ObjectType.SITE, site2, PEC_PARTITION_ID, "PEC") == OK
    net.run(LONG_S)
    assert not any(site2 in net.partitions(name) for name in net.hosts)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_new_bsc_is_told_who_the_pec_is_if_it_knows_a_removed_one_alone() -> None:
    """Decision R118 (seed 924308): its PSC was the PEC, handed both over, and was removed."""
    net = world()
    assert hand_the_enterprise_over(net, "PSC1") == OK
    net.run(LONG_S)
    net.drop = lambda source, send: "BSC3" in {source, send.destination}
    assert net.create_machine("BSC3", "Site1", "PSC1", Service.BSC).status == OK
    net.server("BSC3", Role.BSC, "Site1", psc="PSC1", pec="PSC1")
    assert hand_the_enterprise_over(net, "PEC", at="PSC1") == OK
    net.run(LONG_S)
    service = ((Propid.QM_SERVICE, int(Service.PSC)),)
    given = {"identifier": guid_of("machine BSC1"), "partition_id": SITE1, "properties": service}
    assert net.change("PSC1", Command.UPDATE, ObjectType.MACHINE, **given).status == OK
    net.run(LONG_S)
    assert delete(net, ObjectType.MACHINE, guid_of("machine PSC1"), SITE1, "BSC1") == OK
    net.run(LONG_S)
    net.stop("PSC1")
    net.drop = nothing_lost
    net.run(LONG_S)
    assert net.hosts["BSC3"].engine.report_status(net.now).psc_name == "PSC1"
    assert not all_equal(net)
    assert net.name_authority("BSC3", PEC_PARTITION_ID, "PEC").status == OK
    net.run(LONG_S)
    assert net.hosts["BSC3"].engine.report_status(net.now).psc_name == "BSC1"
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_bsc_that_takes_its_lost_psc_for_the_pec_is_told_who_the_pec_is() -> None:
    """Decision R118: it knows nobody who is left, and so believes nobody; the operator names the PEC."""
    net = world()
    with_bsc(net, "Site1", "BSC3", "PSC1")
    assert hand_the_enterprise_over(net, "PSC1") == OK
    net.run(LONG_S)
    net.drop = lambda source, send: "BSC3" in {source, send.destination}
    assert hand_the_enterprise_over(net, "PEC", at="PSC1") == OK
    net.run(100)
    net.stop("PSC1")
    net.drop = nothing_lost
    assert net.take_over("BSC1", SITE1).status == OK
    net.run(LONG_S)
    assert net.hosts["BSC3"].engine.report_status(net.now).psc_name == "PSC1"
    assert net.name_authority("BSC3", PEC_PARTITION_ID, "PEC").status == OK
    properties = ((Propid.S_PSC, "BSC1"),)
    given = {"identifier": SITE1, "partition_id": PEC_PARTITION_ID, "properties": properties}
    assert net.change("PEC", Command.UPDATE, ObjectType.SITE, **given).status == OK
    net.run(LONG_S)
    assert net.hosts["BSC3"].engine.report_status(net.now).psc_name == "BSC1"
    assert all_equal(net)
