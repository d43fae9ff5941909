"""Who is believed about what: servers whose signatures are good and whose words are lies (decision R105)."""

import pytest
from lone_authority import OK, authority, numbers
from lone_server import notes, numbered
from replication_net import SETTLE_S, Net, enterprise, guid_of, objects, with_bsc, with_site
from source_tree import ROOT

from mqdssm.engines.replication.actions import Received
from mqdssm.engines.replication.trust import RULES
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import ChangeReplyMessage, ChangeRequestMessage, Command, DirectoryChange
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID

SITE1 = guid_of("site Site1")
SITE2 = guid_of("site Site2")
DENIED = Hresult.MQ_ERROR_ACCESS_DENIED


def world() -> Net:
    """PEC, PSC1 with BSC1, PSC2 with BSC2; a machine and queues in each site."""
    net = enterprise(header_s=60.0)
    for site in ("1", "2"):
        with_site(net, f"Site{site}", f"PSC{site}")
        with_bsc(net, f"Site{site}", f"BSC{site}", f"PSC{site}")
        assert net.create_machine(f"C{site}4", f"Site{site}", f"PSC{site}").status == OK
        for number in range(4):
            assert net.create_queue(f"C{site}4", f"q{number}", f"Site{site}", f"PSC{site}").status == OK
    net.run(SETTLE_S)
    return net


def says(net: Net, liar: str, target: str, *messages) -> list:
    """Let a machine say something with its own signature; what the target sends it then."""
    before = len(net.sent)
    for message in messages:
        net._put(target, Received(message=message, sender=liar), 0)
    net.run(2)
    return [sent for source, to, sent in net.sent[before:] if source == target and to == liar]


def relabel(requester: str, identifier: int, queue: str = "C24\\q0") -> ChangeRequestMessage:
    """A request for another label of a queue of Site2."""
    change = DirectoryChange(
        command=Command.UPDATE,
        guid_identifier=guid_of(f"queue {queue}"),
        partition_id=SITE2,
        properties=((Propid.Q_LABEL, "other"),),
    )
    return ChangeRequestMessage(
        site_id=SITE1,
        partition_id=SITE2,
        request_identifier=identifier,
        requester_name=requester,
        psc_name=None,
        directory_change=change,
    )


def results(sent: list) -> list[int]:
    return [one.result for one in sent if isinstance(one, ChangeReplyMessage)]


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
