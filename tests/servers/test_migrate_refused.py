"""Rows that a target refuses while a plan is applied take along the rows that depend on them."""

import base64
from uuid import UUID, uuid4

import pytest
from support.mqis.applied_plans import apply_here, connect, everything
from support.mqis.plans import lines_of, plan_here, rejects_of, write_rows
from support.servers.name_pairs import PAIRS, are_one
from support.servers.plain_ldap import PlainLdap
from support.spark import LOCAL_ENGINE

import mqdssm
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]

PARIS = "11111111-0000-4000-8000-000000000001"
OSLO = "11111111-0000-4000-8000-000000000002"
MACHINES = 4


def machine_guid(number: int) -> str:
    return f"22222222-0000-4000-8000-{number:012}"


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        yield started


@pytest.fixture
def source(tmp_path):
    """Two sites, a link between them, machines in both, each with a queue, and one that routes."""
    folder = tmp_path / "mqis"
    write_rows(
        folder,
        "Site",
        [{"S_SITEID": PARIS, "S_PATHNAME": "Paris"}, {"S_SITEID": OSLO, "S_PATHNAME": "Oslo"}],
    )
    write_rows(
        folder,
        "RoutingLink",
        [
            {
                "L_ID": "44444444-0000-4000-8000-000000000001",
                "L_NEIGHBOR1": PARIS,
                "L_NEIGHBOR2": OSLO,
                "L_COST": 1,
            }
        ],
    )
    write_rows(
        folder,
        "Machine",
        [
            {
                "QM_MACHINE_ID": machine_guid(number),
                "QM_PATHNAME": f"web{number}",
                "QM_SITE_IDS": [(PARIS, OSLO)[number % 2]],
                "QM_SERVICE": 8 * (number < 2),  # routing servers have settings objects
                "QM_OUTFRS": [machine_guid(0)] if number == 3 else [],
            }
            for number in range(MACHINES)
        ],
    )
    write_rows(
        folder,
        "Queue",
        [
            {"Q_INSTANCE": f"33333333-0000-4000-8000-{number:012}", "Q_PATHNAME": f"web{number}\\orders"}
            for number in range(MACHINES)
        ],
    )
    return folder


def refused_lines(folder) -> dict[tuple[str, int], str]:
    """Table and row of what was refused while applying -> first reason."""
    found: dict[tuple[str, int], str] = {}
    for line in lines_of(folder / "rejects" / "applied.jsonl"):
        found.setdefault((line["table"], line["row"]), line["reason"])
    return found


def test_a_site_that_somebody_made_meanwhile_takes_its_machines_along(server, source, tmp_path):
    folder = tmp_path / "plan"
    plan_here(server, source, folder, create_computers=True)
    with connect(server) as directory:
        made = directory.create(mqdssm.Site(name="Paris"))
    report = apply_here(server, folder)
    refused = refused_lines(folder)
    # web3 is in Oslo and routes through web0, which is in Paris: it is there without that reference
    assert set(refused) == {
        ("Site", 1),
        ("RoutingLink", 1),
        *(("Machine", number) for number in (1, 3, 4)),
        *(("Queue", number) for number in (1, 3)),
    }
    depends = "it depends on CN=Paris,CN=Sites,CN=Configuration,dc=example,dc=com, which was refused"
    assert {refused[one].casefold() for one in (("RoutingLink", 1), ("Machine", 1), ("Machine", 3))} == {
        depends.casefold()
    }
    assert "CN=msmq,CN=web0" in refused["Queue", 1]
    assert report.total["lost"] == 0
    assert report.last_line == "11 read, 4 written, 0 equal, 7 rejected, 0 lost"
    entries = everything(server)
    sites = {raw for entry in entries.values() for raw in entry.get("msmqsites", [])}
    assert sites == {UUID(OSLO).bytes_le}
    assert not [dn for dn in entries if "cn=servers,cn=paris" in dn and "cn=web" in dn]
    with connect(server) as directory:
        assert directory.read(mqdssm.Site, mqdssm.Filter("Identifier", "==", made)).name == "Paris"


def test_what_is_read_back_depends_on_the_objects_of_the_plan(server, source, tmp_path):
    """Values alone are as they were sent: what they refer to, and the parent, are other objects by then."""
    folder = tmp_path / "plan"
    plan_here(server, source, folder, create_computers=True)
    assert apply_here(server, folder, verify=False).is_fine
    plain = PlainLdap(server)
    site, manager = "cn=Paris,cn=Sites,cn=Configuration,dc=example,dc=com", "cn=msmq,cn=web1,cn=Computers"
    for dn in (site, f"{manager},dc=example,dc=com"):
        changed = base64.b64encode(uuid4().bytes_le).decode()
        plain.modify(dn, f"replace: objectGUID\nobjectGUID:: {changed}")
    report = apply_here(server, folder)
    reasons = {(one.table, one.row, one.role): one.reason for one in report.lost}
    assert reasons["Site", 1, "object"] == reasons["Machine", 2, "object"] == "it differs in objectGUID"
    assert reasons["Machine", 3, "object"] == f"mSMQSites refers to {PARIS}, which is not there"
    assert reasons["Queue", 2, "object"].startswith("it is below CN=msmq,CN=web1,")
    assert reasons["Machine", 1, "settings"].startswith("it is below CN=Paris,")
    assert ("Queue", 4, "object") not in reasons


def test_rejects_name_the_row_of_its_own_file(server, source, tmp_path):
    """Values are those of the row, also where a table has several files."""
    (source / "Queue.jsonl").unlink()
    (source / "Queue").mkdir()
    for part in range(2):
        rows = [
            {
                "Q_INSTANCE": f"33333333-0000-4000-8000-{2 * part + number:012}",
                "Q_PATHNAME": f"web{part}\\q{number}",
            }
            for number in range(2)
        ]
        write_rows(tmp_path / f"part-{part}", "Queue", rows)
        (tmp_path / f"part-{part}" / "Queue.jsonl").rename(source / "Queue" / f"part-{part}.jsonl")
    folder = tmp_path / "plan"
    plan_here(server, source, folder, create_computers=True)
    with connect(server) as directory:
        directory.create(mqdssm.Site(name="Oslo"))  # where web1 is
    apply_here(server, folder)
    lines = [one for one in lines_of(folder / "rejects" / "applied.jsonl") if one["table"] == "Queue"]
    assert [
        (one["row"], one["file"], one["file_row"], one["values"]["PROPID_Q_PATHNAME"]) for one in lines
    ] == [(3, "part-1.jsonl", 1, "web1\\q0"), (4, "part-1.jsonl", 2, "web1\\q1")]


NAMES = [
    pytest.param("Zürich", "Zu\u0308rich", id="NFC and NFD"),
    pytest.param("New York", "New  York", id="double blanks"),
    pytest.param("\ufb01x", "fix", id="ligature"),
    pytest.param("\uff2d15", "M15", id="full width"),
    pytest.param("\u0130x", "ix", id="dotted I"),
]


@pytest.mark.parametrize(("one", "other"), NAMES)
def test_sites_that_are_one_to_the_server_are_duplicates(server, tmp_path, one, other):
    source = tmp_path / "mqis"
    write_rows(
        source,
        "Site",
        [{"S_SITEID": PARIS, "S_PATHNAME": one}, {"S_SITEID": OSLO, "S_PATHNAME": other}],
    )
    plan = plan_here(server, source, tmp_path / "plan")
    assert plan.tables["Site"].rejected == 2
    reasons = [line["reason"] for line in rejects_of(tmp_path / "plan", "Site")]
    assert reasons == ["the same name as Site row 2", "the same name as Site row 1"]


@pytest.mark.parametrize(("one", "other"), [pair for pair in NAMES if pair.id != "double blanks"])
def test_machines_that_are_one_to_the_server_are_duplicates(server, tmp_path, one, other):
    """Their queues go with them, and do not land on the other machine."""
    source = tmp_path / "mqis"
    write_rows(source, "Site", [{"S_SITEID": PARIS, "S_PATHNAME": "Paris"}])
    machines = [
        {"QM_MACHINE_ID": machine_guid(number), "QM_PATHNAME": name, "QM_SITE_IDS": [PARIS]}
        for number, name in enumerate((one, other))
    ]
    write_rows(source, "Machine", machines)
    queues = [
        {"Q_INSTANCE": f"33333333-0000-4000-8000-{number:012}", "Q_PATHNAME": f"{name}\\q{number}"}
        for number, name in enumerate((one, other))
    ]
    write_rows(source, "Queue", queues)
    plan = plan_here(server, source, tmp_path / "plan", create_computers=True)
    assert (plan.tables["Machine"].rejected, plan.tables["Queue"].rejected) == (2, 2)


@LOCAL_ENGINE
def test_the_keys_of_names_are_those_of_slapd(server):
    """Each pair is one name to slapd where it is one key to us, and only there."""
    with connect(server) as directory:
        session = directory.session
        key = session.profile.name_key
        for number, (title, pair) in enumerate(PAIRS.items()):
            assert (key(pair[0]) == key(pair[1])) is are_one(session, number, pair), title
