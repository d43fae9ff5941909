"""Plans applied to a domain controller: new GUIDs, a map of them, and every reference rewritten (M37)."""

import itertools
from uuid import UUID

import pytest
from support.mqis.applied_plans import apply_here, connect
from support.mqis.guid_map import read_guid_map
from support.mqis.plans import plan_here
from support.servers.name_pairs import PAIRS, are_one
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.directory.filters import Equal
from mqdssm.model.dn import DN, normalize
from mqdssm.samples import elements
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing import SambaDomainController


@pytest.fixture
def domain():
    with SambaDomainController() as server:
        yield server


def migrated(domain, folder, **numbers):
    sample = EnterprisePlan(**({"users": 0, "seed": 1} | numbers), root=domain.base_dn)
    generate(sample, folder / "mqis", SampleForm.MQIS)
    plan_here(domain, folder / "mqis", folder / "plan", create_computers=True)
    return sample, apply_here(domain, folder / "plan")


def check(domain, folder, sample, report):
    assert report.is_fine, report.model_dump_json(indent=1)[:3000]
    total = report.total
    assert total["read"] == total["written"]
    new = {row.old: row.new for row in read_guid_map(folder / "plan" / "guid-map.csv")}
    assert report.guid_map == len(new) == total["read"]
    with connect(domain) as directory:
        sites = {site.identifier: site for site in directory.search(mqdssm.Site)}
        managers = {one.identifier: one for one in directory.search(mqdssm.QueueManager)}
        links = list(directory.search(mqdssm.RoutingLink))
        assert len(managers) == sample.machines
        assert len(links) == len(list(sample.list_links()))
        for link in links:  # named by the GUIDs that the sites have now
            ends = (link.site1_identifier, link.site2_identifier)
            assert set(ends) <= set(sites)
            assert link.full_path.partition(",")[0].lower() == f"cn={ends[0].hex}{ends[1].hex}"
            assert set(link.site_gate_identifier_list) <= set(managers)
        served = 0
        for number in range(sample.machines):
            wanted = elements.make_machine(sample, number).manager
            manager = managers[new[sample.compute_guid("machine", number)]]
            assert manager.original_identifier == wanted.identifier
            for name in ("site_identifier_list", "out_routing_server_identifier_list"):
                assert set(getattr(manager, name)) == {new[guid] for guid in getattr(wanted, name)}
            served += len(wanted.site_identifier_list) if sample.choose_role(number).has_settings else 0
        settings = directory.session.find(
            directory.session.naming.configuration, Equal("objectClass", b"mSMQSettings"), ["mSMQQMID"]
        )
        owners = [UUID(bytes_le=one.all("mSMQQMID")[0]) for one in settings]
        assert set(owners) <= set(managers)
        assert len(owners) == served
        some = itertools.islice(directory.search(mqdssm.Queue), 20)
        assert all(new[queue.original_identifier] == queue.identifier for queue in some)


@pytest.mark.usefixtures("engine")
def test_an_enterprise_becomes_a_domains(domain, tmp_path):
    sample, report = migrated(domain, tmp_path, sites=2, machines=6, queues=20)
    check(domain, tmp_path, sample, report)
    again = apply_here(domain, tmp_path / "plan")
    assert again.last_line == report.last_line
    anew = plan_here(domain, tmp_path / "mqis", tmp_path / "anew", create_computers=True)
    assert (anew.levels, anew.total["equal"]) == ((), report.total["read"])


def test_what_is_read_back_depends_on_the_objects_of_the_plan(domain, tmp_path):
    """Names and values are as they were sent, but a computer's queue manager is another one by then."""
    sample = EnterprisePlan(sites=2, machines=4, queues=12, users=0, seed=1, root=domain.base_dn)
    generate(sample, tmp_path / "mqis", SampleForm.MQIS)
    plan_here(domain, tmp_path / "mqis", tmp_path / "plan", create_computers=True)
    assert apply_here(domain, tmp_path / "plan", verify=False).is_fine
    with connect(domain) as directory:
        session = directory.session
        queue = DN.parse(next(iter(directory.search(mqdssm.Queue))).full_path)
        manager, computer = queue.parent, queue.parent.parent
        stored = session.get(manager, ["*", "nTSecurityDescriptor"]).attributes
        written = ("msmq", "ntsecuritydescriptor")
        values = {name: raws for name, raws in stored.items() if name.casefold().startswith(written)}
        session.rename(computer, f"CN={computer.name}-old")
        account = f"sAMAccountName: {computer.name}X$\nuserAccountControl: 4096\n"
        SambaTools(domain).add_text(f"dn: {computer}\nobjectClass: computer\n{account}")
        session.add(manager, {"objectClass": [b"mSMQConfiguration"], **values})
        old = computer.parent.child("CN", f"{computer.name}-old")
        session.rename(old.child("CN", "msmq").child("CN", queue.name), str(DN((queue.rdns[0],))), manager)
    report = apply_here(domain, tmp_path / "plan")
    reasons = {(one.role, normalize(one.dn)): one.reason for one in report.lost}
    assert reasons["object", manager.normalized].startswith("it is another object ("), reasons
    assert reasons["object", queue.normalized].startswith(f"it is below {manager}, which is not the object")


@pytest.mark.soak
def test_five_thousand_objects(domain, tmp_path):
    sample, report = migrated(domain, tmp_path, sites=3, machines=200, queues=4_800)
    check(domain, tmp_path, sample, report)


STRICTER = {
    *("case beyond the first plane", "title case", "long s", "no-break space", "NFC and NFD", "ligature"),
    *("full width", "half width", "Kelvin", "Ångström", "micro", "fraction", "circled digit"),
}
"""Pairs that Samba stores as two, and a plan takes for one: Windows ignores width and composition."""


def test_names_that_are_one_to_the_domain_have_one_key(domain):
    """What were planned as two, and stored as one, would lose an object (decision M132)."""
    with connect(domain) as directory:
        session = directory.session
        key = session.profile.name_key
        stored = {title: are_one(session, number, pair) for number, (title, pair) in enumerate(PAIRS.items())}
        planned = {title: key(pair[0]) == key(pair[1]) for title, pair in PAIRS.items()}
    assert [title for title in PAIRS if stored[title] and not planned[title]] == []
    assert {title for title in PAIRS if planned[title] and not stored[title]} == STRICTER
    assert sum(stored.values()) > 8
