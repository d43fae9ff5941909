"""Servers that lie about what they do not own any more, or not yet (decisions R136, R137, R139)."""

from collections.abc import Callable

import pytest
from support.replication.lying_servers import (
    DENIED,
    LONG_S,
    OK,
    SITE1,
    SITE2,
    asks,
    claims,
    everything,
    kept,
    lies,
    machine,
    request,
    results,
    says,
    silenced,
    world,
)
from support.replication.network import (
    SETTLE_S,
    Net,
    all_equal,
    enterprise,
    guid_of,
    objects,
    with_bsc,
    with_site,
)

from mqdssm.engines.replication.actions import Received, Send
from mqdssm.engines.replication.operations import LoadState
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeRequestMessage,
    Command,
    DirectoryChange,
    SyncRequestMessage,
    make_deletion_properties,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MAX, MIN

SITE3 = guid_of("site Site3")


def is_claim(source: str, send: Send) -> bool:
    """Return True for the requests of a successor that wants to be named."""
    return source == "BSC1" and isinstance(send.message, ChangeRequestMessage)


def hand_over(net: Net, predecessor: str, successor: str, site: Guid) -> None:
    made = net.change(
        predecessor,
        Command.UPDATE,
        ObjectType.MACHINE,
        path_name=successor,
        partition_id=site,
        properties=((Propid.QM_SERVICE, int(Service.PSC)),),
    )
    assert made.status == OK


def is_unheard(source: str, send: Send) -> bool:
    """Return True for what tells the PEC of the site that was handed over."""
    is_request = isinstance(send.message, SyncRequestMessage)
    return send.destination == "PEC" and source in {"PSC1", "BSC1"} and not is_request


def handed_over(drop: Callable[[str, Send], bool] = is_claim) -> Net:
    """PSC1 handed Site1 over to BSC1, and the enterprise has not heard of it: its claim is lost."""
    net = world()
    net.drop = drop
    hand_over(net, "PSC1", "BSC1", SITE1)
    net.run(SETTLE_S)
    assert owns(net, "BSC1", SITE1)
    silenced(net, "PSC1")
    return net


def owns(net: Net, name: str, partition_id) -> bool:
    return net.hosts[name].engine.read_next_number(partition_id) > 0


def rename_site(net: Net) -> None:
    """Have a client change the site's object: all servers get it whole, with the old PSC's name."""
    changed = net.change(
        "PEC",
        Command.UPDATE,
        ObjectType.SITE,
        identifier=SITE1,
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.S_INTERVAL1, 7),),
    )
    assert changed.status == OK


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("drop", [is_claim, is_unheard])
def test_who_handed_a_site_over_does_not_take_it_back(restarted: bool, first: bool, drop) -> None:
    """Decision R136: the enterprise names the predecessor until it hears of the handover.

    A PEC that has heard nothing of the site names the predecessor in each change of the site's object.
    """
    net = handed_over(drop)
    before = objects(net, "BSC1", SITE1)
    if restarted:
        net.restart("BSC1")
    for change in (first, not first):
        if change:
            rename_site(net)
        else:
            says(net, "PSC1", "BSC1", *claims("PSC1", SITE1))
        net.run(SETTLE_S)
    net.run(LONG_S)
    assert owns(net, "BSC1", SITE1)
    assert objects(net, "BSC1", SITE1) == before
    stepped_down = "somebody knows more of our partition than we do"
    assert stepped_down not in {one.what for one in net.hosts["BSC1"].notes}


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_predecessor_that_the_enterprise_names_anew_is_believed() -> None:
    """Decision R136: once the enterprise has named the successor, its next word is about another change."""
    net = handed_over()
    net.drop = lambda _source, _send: False
    net.run(LONG_S)
    (kept,) = (
        one for one in net.hosts["BSC1"].store.perform(LoadState()).partitions if one.partition_id == SITE1
    )
    assert (kept.owned, kept.predecessor) == (True, "")
    net.drop = is_claim
    assert net.name_psc("Site1", "PSC1").status == OK
    net.run(SETTLE_S)
    says(net, "PSC1", "BSC1", *claims("PSC1", SITE1)[:1])
    assert not owns(net, "BSC1", SITE1)


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize("liar", ["BSC1", "PSC1", "PSC2", "BSC2"])
def test_nobody_asks_in_no_name(liar: str) -> None:
    """Decision R137: the outcome would be remembered, and answers sent to a machine without a name."""
    net = world()
    before = everything(net)
    change = asks(SITE1, Command.UPDATE, ((Propid.Q_LABEL, "x"),), guid_identifier=guid_of("queue C14\\q0"))
    assert results(says(net, liar, "PSC1" if liar != "PSC1" else "PEC", request("", change))) == [DENIED]
    assert everything(net) == before


@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
def test_a_question_in_no_name_is_not_answered() -> None:
    """Decision R137."""
    net = world()
    question = SyncRequestMessage(
        site_id=SITE1,
        partition_id=SITE1,
        from_seq_number=MIN,
        to_seq_number=MAX,
        known_purged_seq_number=MIN,
        requester_name="",
    )
    sent: list[Send] = []
    net.drop = lambda _source, send: sent.append(send) or False  # type: ignore[func-returns-value]
    says(net, "BSC2", "PSC1", question)
    assert "" not in {one.destination for one in sent}


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.parametrize("liar", ["PSC1", "BSC1", "BSC2"])
def test_a_new_site_is_its_pscs(liar: str) -> None:
    """Decision R139: between the creation of a site and the first object in it."""
    net = world()
    assert net.create_site("Site3", "PSC3").status == OK
    net.server("PSC3", Role.PSC, "Site3")
    net.run(SETTLE_S)
    for target in net.hosts:
        if target not in {liar, "BSC1"}:  # which believes its PSC
            says(net, liar, target, *claims(liar, SITE3))
    net.run(SETTLE_S)
    assert net.create_machine("PSC3", "Site3", "PSC3", Service.PSC).status == OK
    net.run(LONG_S)
    assert owns(net, "PSC3", SITE3)
    assert guid_of("machine PSC3") in objects(net, "PEC", SITE3)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize("what", ["key", "name", "site's key"])
def test_what_a_server_passes_on_is_no_word_of_its_own(what: str) -> None:
    """Decision R141: it passes on what strangers ask, of its own roles, names and keys, too."""
    net = world()
    before = everything(net)
    change = asks(
        SITE1, Command.UPDATE, ((Propid.QM_SIGN_PK, b"mine"),), guid_identifier=guid_of("machine BSC1")
    )
    deputy = "BSC1"
    if what == "name":
        change = asks(SITE1, Command.UPDATE, ((Propid.QM_PATHNAME, "Mine"),), path_name="BSC1")
    elif what == "site's key":
        change = asks(PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC_SIGNPK, b"mine"),), path_name="Site1")
        deputy = "PSC1"
    assert results(says(net, "BSC2", deputy, request("nobody", change))) == [DENIED]
    net.run(LONG_S)
    assert everything(net) == before


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_what_a_server_passes_on_in_its_own_name_is_no_word_of_its_own() -> None:
    """Decision R141: PSC2 has a BSC with the name of PSC1, and forwards to PSC1 what that one asks."""
    net = world()
    silenced(net, "PSC2")
    says(
        net, "PSC2", "PSC1", lies(SITE2, (Command.SYNC, guid_of("machine C24"), machine("PSC1", Service.BSC)))
    )
    net.run(LONG_S)
    before = everything(net)
    change = asks(PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC_SIGNPK, b"mine"),), path_name="Site1")
    assert results(says(net, "PSC2", "PSC1", request("PSC1", change))) == [DENIED]
    net.run(LONG_S)
    assert everything(net) == before


def name_successor(net: Net, target: str, name: str) -> None:
    """Let PSC1 say that a machine of its site has a name, and is its PSC."""
    says(
        net, "PSC1", target, lies(SITE1, (Command.SYNC, guid_of("machine BSC1"), machine(name, Service.PSC)))
    )


def forge(net: Net, target: str, partition_id: Guid, kind: ObjectType, identifier: Guid) -> None:
    """Let that machine delete an object of another partition."""
    last = kept(net, target, partition_id).last
    forged = DirectoryChange(
        command=Command.DELETE,
        guid_identifier=identifier,
        partition_id=partition_id,
        previous_seq_number=last,
        seq_number=last.next(),
        purged_seq_number=MIN,
        properties=make_deletion_properties(kind, 1),
    )
    message = ChangePropagationMessage(site_id=SITE1, directory_changes=(forged,))
    event = Received(message=message, sender="Renamed", machine_id=guid_of("machine BSC1"))
    net._put(target, event, 0)
    net.run(2)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_pec_has_no_namesake_in_its_own_site_either() -> None:
    """Decision R142: servers of the PEC's site took a machine of the PEC's name for the PEC."""
    net = world()
    with_bsc(net, "Site0", "BSC0", "PEC")
    silenced(net, "PSC1", "BSC1")
    before = objects(net, "BSC0", PEC_PARTITION_ID)
    name_successor(net, "BSC0", "PEC")
    assert kept(net, "BSC0", SITE1).authority_name == "PSC1"
    forge(net, "BSC0", PEC_PARTITION_ID, ObjectType.SITE, SITE2)
    assert objects(net, "BSC0", PEC_PARTITION_ID) == before


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_name_that_another_site_gave_away_before_is_its_owners() -> None:
    """Decision R142: PSC1 calls its successor as one will be called that is no PSC yet."""
    net = world()
    silenced(net, "PSC1", "BSC1")
    name_successor(net, "PEC", "BSC2")
    hand_over(net, "PSC2", "BSC2", SITE2)
    net.run(LONG_S)
    assert kept(net, "PEC", SITE2).authority_name == "BSC2"
    before = objects(net, "PEC", SITE2)
    forge(net, "PEC", SITE2, ObjectType.MACHINE, guid_of("machine C24"))
    assert objects(net, "PEC", SITE2) == before


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
def test_a_server_whose_name_was_claimed_before_gets_another_one() -> None:
    """Decision R164: PSC1 makes a machine with the name that the PSC of a new site is to get."""
    net = world()
    silenced(net, "PSC1", "BSC1")
    claimed = lies(SITE1, (Command.SYNC, guid_of("machine BSC1"), machine("PSC3", Service.BSC)))
    for target in net.hosts:
        says(net, "PSC1", target, claimed)
    assert net.create_site("Site3", "PSC3").status == OK
    net.server("PSC3", Role.PSC, "Site3")
    net.run(LONG_S)  # it has PSC1's machines from the PEC
    refused = net.create_machine("PSC3", "Site3", "PSC3", Service.PSC)
    assert refused.status == Hresult.MQ_ERROR_MACHINE_EXISTS
    net.stop("PSC3")
    net.server("PSC3B", Role.PSC, "Site3")
    assert net.name_psc("Site3", "PSC3B").status == OK
    net.run(SETTLE_S)
    assert net.create_machine("PSC3B", "Site3", "PSC3B", Service.PSC).status == OK
    net.run(SETTLE_S)
    assert {kept(net, name, SITE3).authority_name for name in net.hosts} == {"PSC3B"}


@pytest.mark.spec("MC-MQDSRP 3.3.7.4")
def test_nobody_acknowledges_to_no_machine() -> None:
    """The operator took a hostile PSC away: its site names nobody any more."""
    net = enterprise(header_s=60.0, ack_interval=1)
    with_site(net, "Site1", "PSC1")
    net.stop("PSC1")
    assert net.name_psc("Site1", "").status == OK
    with_site(net, "Site2", "PSC2")
    net.run(LONG_S)
    assert objects(net, "PSC2", SITE1)
    assert "" not in {to for _, to, _ in net.sent}


def unnamed() -> Net:
    """The operator took PSC1 away: its site names nobody, and all know that."""
    net = world()
    assert net.name_psc("Site1", "").status == OK
    net.run(SETTLE_S)
    return net


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.parametrize("target", ["PEC", "PSC2", "BSC2"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_psc_that_its_site_names_no_more_is_believed_no_more(target: str, restarted: bool) -> None:
    """Decision R186: AuthorityName is the PSC of the site's object, also if that is nobody."""
    net = unnamed()
    silenced(net, "PSC1")
    if restarted:
        net.restart(target)
    before = objects(net, target, SITE1)
    forged = lies(SITE1, (Command.SYNC, guid_of("machine C14"), machine("Mine", Service.NONE)))
    for message in (*claims("PSC1", SITE1), forged):
        says(net, "PSC1", target, message)
    assert kept(net, target, SITE1).authority_name == ""
    assert objects(net, target, SITE1) == before


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_psc_that_its_site_names_no_more_is_no_neighbour() -> None:
    """Decision R186: nothing is sent to it, and no tombstone kept for it."""
    net = unnamed()
    net.sent.clear()
    for number in range(4):
        assert net.create_queue("C24", f"new {number}", "Site2", "PSC2").status == OK
    net.run(SETTLE_S)
    propagated = (one for one in net.sent if isinstance(one[2], ChangePropagationMessage))
    assert "PSC1" not in {to for _, to, message in propagated if message.directory_changes}


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_a_psc_that_its_site_names_no_more_does_not_name_itself() -> None:
    """Decision R186: the operator names the next PSC; the old one asked for its name again, and got it."""
    net = unnamed()
    net.run(LONG_S)
    silenced(net, "PSC1")
    for name in ("PSC1", "Renamed"):
        claim = asks(PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC, name),), guid_identifier=SITE1)
        event = Received(message=request(name, claim), sender=name, machine_id=guid_of("machine PSC1"))
        net._put("PEC", event, 0)
        net.run(2)
    assert kept(net, "PEC", SITE1).authority_name == ""
    assert net.take_over("BSC1", SITE1).status == OK
    assert net.name_psc("Site1", "BSC1").status == OK
    net.run(LONG_S)
    assert {kept(net, name, SITE1).authority_name for name in net.hosts if name != "PSC1"} == {"BSC1"}


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_a_machine_does_not_make_itself_the_psc_of_a_site_that_names_nobody() -> None:
    """Decision R186: a new copy of the site has the machine with its old role, from the PEC."""
    net = unnamed()
    silenced(net, "PSC1", "BSC1")
    with_site(net, "Site3", "PSC3")
    net.run(LONG_S)
    assert guid_of("machine PSC1") in objects(net, "PSC3", SITE1)
    assert kept(net, "PSC3", SITE1).authority_name == ""
