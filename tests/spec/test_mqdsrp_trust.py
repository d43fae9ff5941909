"""Who is believed about what: servers whose signatures are good and whose words are lies (R105, R107)."""

import pytest
from support.project.source_tree import ROOT
from support.replication.lone_authority import authority, numbers
from support.replication.lone_server import notes, numbered
from support.replication.lying_servers import (
    DENIED,
    FAR,
    LONG_S,
    OK,
    SITE0,
    SITE1,
    SITE2,
    asks,
    claims,
    everything,
    header,
    kept,
    lies,
    machine,
    request,
    results,
    says,
    silenced,
    world,
)
from support.replication.network import Net, all_equal, guid_of, objects
from support.replication.trust_rules import RULES

from mqdssm.engines.replication.actions import Received
from mqdssm.engines.replication.operations import LoadState
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import (
    ChangePropagationMessage,
    ChangeRequestMessage,
    Command,
    DirectoryChange,
    PSCAckMessage,
    make_deletion_properties,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MIN


def relabel(requester: str, identifier: int) -> ChangeRequestMessage:
    """A request for another label of a queue of Site2."""
    queue = guid_of("queue C24\\q0")
    change = asks(SITE2, Command.UPDATE, ((Propid.Q_LABEL, "other"),), guid_identifier=queue)
    return request(requester, change, identifier)


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_nobody_asks_in_another_servers_name() -> None:
    """Else the copy rule (R33) would answer that server's client with what came of the liar's request."""
    net = world()
    number = net.hosts["PSC1"].engine._server.next_request
    assert results(says(net, "BSC1", "PSC2", relabel("PSC1", number))) == [DENIED]
    gone = net.change(
        "PSC1",
        Command.DELETE,
        ObjectType.QUEUE,
        identifier=guid_of("queue C24\\q1"),
        partition_id=SITE2,
    )
    assert gone.status == OK
    assert guid_of("queue C24\\q1") not in objects(net, "PSC2", SITE2)


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize(
    ("sender", "requester", "status"),
    [
        ("PSC1", "PSC1", OK),
        ("PSC1", "BSC1", OK),
        ("PSC1", "BSC2", DENIED),
        ("PSC1", "PEC", DENIED),
        ("PSC1", "PSC2", DENIED),
        ("PSC1", "C14", DENIED),
        ("PSC1", "new", OK),
        ("PSC1", "C24", DENIED),
        ("BSC1", "BSC1", OK),
        ("BSC2", "BSC1", DENIED),
        ("PEC", "BSC1", DENIED),
    ],
)
def test_a_psc_forwards_what_its_own_bscs_ask(sender, requester, status) -> None:
    net = world()
    assert results(says(net, sender, "PSC2", relabel(requester, 77))) == [status]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_what_was_refused_does_not_count_as_executed() -> None:
    net = world()
    assert results(says(net, "BSC1", "PSC2", relabel("PSC1", 77))) == [DENIED]
    assert results(says(net, "PSC1", "PSC2", relabel("PSC1", 77))) == [OK]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.spec("MC-MQDSRP 3.2.7.6")
def test_a_late_copy_of_what_was_refused_is_not_carried_out() -> None:
    """Decision R119: its sender was told that it may not, and may by now."""
    net = world()
    assert results(says(net, "PSC1", "PSC2", relabel("BSC2", 77))) == [DENIED]
    assert (
        net.change("PSC2", Command.DELETE, ObjectType.MACHINE, path_name="BSC2", partition_id=SITE2).status
        == OK
    )
    assert results(says(net, "PSC1", "PSC2", relabel("BSC2", 78))) == [OK], "nobody has that name now"
    assert results(says(net, "PSC1", "PSC2", relabel("BSC2", 77))) == [DENIED]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_a_late_copy_of_what_was_carried_out_is_not_refused() -> None:
    """Decision R119, the other way round: its sender may not ask in that name any more."""
    net = world()
    gone = net.change("PSC2", Command.DELETE, ObjectType.MACHINE, path_name="BSC2", partition_id=SITE2)
    assert gone.status == OK
    assert results(says(net, "PSC1", "PSC2", relabel("BSC2", 78))) == [OK]
    assert net.create_machine("BSC2", "Site2", "PSC2").status == OK
    assert results(says(net, "PSC1", "PSC2", relabel("BSC2", 79))) == [DENIED]
    assert results(says(net, "PSC1", "PSC2", relabel("BSC2", 78))) == [OK]


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.spec("MC-MQDSRP 3.2.7.3")
@pytest.mark.parametrize("partition_id", [PEC_PARTITION_ID, SITE0, SITE1, SITE2])
@pytest.mark.parametrize("target", ["PEC", "PSC1", "PSC2", "BSC2"])
def test_a_bsc_that_claims_a_higher_number_empties_no_partition(target, partition_id) -> None:
    """Decision R107: two such messages emptied all of the enterprise."""
    net = world()
    silenced(net, "BSC1")
    before = everything(net)
    for _ in range(2):
        says(net, "BSC1", target, *claims("BSC1", partition_id))
    net.run(LONG_S)
    assert everything(net) == before
    assert kept(net, target, partition_id).allowed_purge < FAR


@pytest.mark.spec("MC-MQDSRP 3.2.7.1")
@pytest.mark.parametrize("partition_id", [PEC_PARTITION_ID, SITE0, SITE2])
@pytest.mark.parametrize("target", ["PEC", "PSC2", "BSC2"])
def test_a_psc_that_claims_a_higher_number_empties_its_own_partition_only(target, partition_id) -> None:
    net = world()
    silenced(net, "PSC1", "BSC1")
    before = everything(net)
    for _ in range(2):
        says(net, "PSC1", target, *claims("PSC1", partition_id))
    net.run(LONG_S)
    assert everything(net) == before


@pytest.mark.spec("MC-MQDSRP 3.1.5.2")
@pytest.mark.parametrize("liar", ["BSC1", "PSC1"])
def test_a_bsc_overwrites_nothing_of_another_site(liar) -> None:
    """Decision R107: a forged label spread everywhere, its owner included."""
    net = world()
    silenced(net, liar)
    before = everything(net)
    for target in set(net.hosts) - {"BSC1"}:  # which believes its PSC
        last = kept(net, target, SITE2).last
        forged = DirectoryChange(
            command=Command.UPDATE,
            guid_identifier=guid_of("queue C24\\q0"),
            partition_id=SITE2,
            previous_seq_number=last,
            seq_number=last.next(),
            purged_seq_number=MIN,
            properties=((Propid.Q_LABEL, "EVIL"),),
        )
        lie = ChangePropagationMessage(site_id=SITE1, directory_changes=(forged,))
        says(net, liar, target, header(liar, SITE2, last=last.next()), lie)
    net.run(LONG_S)
    assert everything(net) == before


@pytest.mark.spec("MC-MQDSRP 3.2.7.4")
def test_a_psc_acknowledges_for_itself() -> None:
    net = world()
    acked = PSCAckMessage(
        site_id=SITE1,
        psc_site_id=SITE2,
        acked_partition_id=PEC_PARTITION_ID,
        acked_seq_number=FAR,
        psc_name="PSC2",
    )
    says(net, "PSC1", "PEC", acked)
    found = net.hosts["PEC"].store.perform(LoadState()).neighbors
    assert all(one.acked_pec <= kept(net, "PEC", PEC_PARTITION_ID).last for one in found)
    assert "dropped: an acknowledgement of nothing of ours" in [one.what for one in net.hosts["PEC"].notes]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
@pytest.mark.parametrize(
    "lie",
    [
        (Command.DELETE, SITE2, make_deletion_properties(ObjectType.SITE, 1)),
        (Command.SYNC, SITE2, ((Propid.S_PATHNAME, "Site2"), (Propid.S_PSC, "PSC1"))),
        (Command.SYNC, guid_of("enterprise"), ((Propid.E_NAME, "Mine"), (Propid.E_PECNAME, "PSC1"))),
        (Command.SYNC, guid_of("machine PSC2"), machine("PSC2", Service.BSC)),
        (Command.SYNC, guid_of("machine PEC"), machine("PEC", Service.NONE)),
        (Command.SYNC, guid_of("machine BSC1"), machine("PEC", Service.PSC)),
        (Command.SYNC, guid_of("machine BSC1"), machine("PSC2", Service.PSC)),
        (
            Command.SYNC,
            guid_of("queue C24\\q0"),
            ((Propid.Q_PATHNAME, "C14\\mine"), (Propid.Q_LABEL, "EVIL")),
        ),
    ],
)
def test_an_authority_has_no_objects_of_others(lie) -> None:
    """Decision R107: in its own partition it may say what it likes, of types and identifiers, too."""
    net = world()
    silenced(net, "PSC1", "BSC1")
    others = (PEC_PARTITION_ID, SITE0, SITE2)
    before = {
        (name, one): (objects(net, name, one), kept(net, name, one).authority_name)
        for name in net.hosts
        for one in others
    }
    for target in ("PEC", "PSC2"):
        says(net, "PSC1", target, lies(SITE1, lie))
    net.run(LONG_S)
    after = {
        (name, one): (objects(net, name, one), kept(net, name, one).authority_name)
        for name in net.hosts
        for one in others
    }
    assert after == before
    everybody_is_served(net, "now")
    for name in ("PSC2", "PEC"):
        net.restart(name)
    net.run(LONG_S)
    everybody_is_served(net, "later")


def everybody_is_served(net: Net, when: str) -> None:
    """Have clients of all servers change what is not the liar's."""
    for name in net.hosts:
        assert net.create_queue("C24", f"{when} of {name}", "Site2", name).status == OK
        assert net.create_network(f"{when} of {name}", name).status == OK
        changed = net.change(
            name,
            Command.UPDATE,
            ObjectType.QUEUE,
            identifier=guid_of("queue C24\\q0"),
            partition_id=SITE2,
            properties=((Propid.Q_LABEL, name),),
        )
        assert changed.status == OK


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_an_authority_has_no_successor_of_anothers_name() -> None:
    """Decision R107: a machine of its own, called as the PEC is, would be the PEC to all others."""
    net = world()
    silenced(net, "PSC1", "BSC1")
    before = everything(net)["PSC2"][PEC_PARTITION_ID]
    lie = (Command.SYNC, guid_of("machine BSC1"), machine("PEC", Service.PSC))
    says(net, "PSC1", "PSC2", lies(SITE1, lie))
    assert kept(net, "PSC2", SITE1).authority_name == "PSC1"
    last = kept(net, "PSC2", PEC_PARTITION_ID).last
    forged = DirectoryChange(
        command=Command.DELETE,
        guid_identifier=SITE0,
        partition_id=PEC_PARTITION_ID,
        previous_seq_number=last,
        seq_number=last.next(),
        purged_seq_number=MIN,
        properties=make_deletion_properties(ObjectType.SITE, 1),
    )
    message = ChangePropagationMessage(site_id=SITE1, directory_changes=(forged,))
    event = Received(message=message, sender="Renamed", machine_id=guid_of("machine BSC1"))
    net._put("PSC2", event, 0)
    net.run(LONG_S)
    assert everything(net)["PSC2"][PEC_PARTITION_ID] == before


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_the_operator_names_an_authority() -> None:
    """The PEC is lost: nobody else is believed about who comes next (decision R107)."""
    net = world()
    net.stop("PEC")
    assert net.take_over("PSC1", PEC_PARTITION_ID).status == OK
    net.run(LONG_S)
    assert kept(net, "PSC2", PEC_PARTITION_ID).authority_name == "PEC"
    illegal = Hresult.MQ_ERROR_ILLEGAL_OPERATION
    assert net.name_authority("PSC2", PEC_PARTITION_ID, "PSC2").status == illegal  # that is `TakeOver`
    assert net.name_authority("PSC2", guid_of("no partition"), "PSC1").status == illegal
    assert net.name_authority("PSC2", PEC_PARTITION_ID, "PSC1").status == OK
    assert net.create_site("Site3", "PSC3", at="PSC1").status == OK
    net.run(LONG_S)
    assert kept(net, "PSC2", PEC_PARTITION_ID).authority_name == "PSC1"
    assert guid_of("site Site3") in objects(net, "BSC2", PEC_PARTITION_ID)
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 5.1")
@pytest.mark.parametrize("sender", ["Back", "Other"])
def test_an_authority_takes_no_change_of_its_own_partition_from_anybody(sender) -> None:
    server = authority()
    before = numbers(server, PEC_PARTITION_ID)
    change = numbered(max(number for number, _ in before.values()) + 1)
    assert notes(server.told(change, sender=sender)) == ["dropped: changes from a machine that is not asked"]
    server.answered(change, sender=sender)
    assert numbers(server, PEC_PARTITION_ID) == before


def test_the_table_of_the_documentation() -> None:
    page = (ROOT / "docs" / "replication.md").read_text(encoding="utf-8")
    section = page.partition("## Who is believed about what")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert rows == [f"| {one.statement} | {one.believed} | {one.otherwise} |" for one in RULES]
