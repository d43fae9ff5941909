"""What listed objects refer to: brought along with the page by the server, or looked up by us (M29)."""

import logging
import uuid

import pytest

import mqdssm
from mqdssm.directory.responses import Dereferenced
from mqdssm.events.references import References


def listed(directory, kind, attributes=None):
    """Objects by GUID, as a list gives them, and the number of requests."""
    before = directory.session.round_trips
    found = {one.identifier: one for one in directory.search(kind, attributes=attributes)}
    return found, directory.session.round_trips - before


def manager_dn(world, guid):
    return f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"


def test_the_servers_of_this_module_differ_in_what_they_offer(world):
    assert world.directory.session.brings_references is world.kind.brings_references


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.4")
def test_routing_servers_of_a_list(world):
    site = world.site()
    servers = [world.queue_manager(site_identifier_list=[site]) for _ in range(4)]
    expected = {}
    for number in range(6):
        out, into = servers[number % 2 : number % 2 + 3], servers[number % 4 :]
        guid = world.queue_manager(
            site_identifier_list=[site],
            out_routing_server_identifier_list=out,
            in_routing_server_identifier_list=into,
        )
        expected[guid] = (set(out), set(into))
    names = ["Identifier", "OutRoutingServerIdentifierList", "InRoutingServerIdentifierList"]
    found, requests = listed(world.directory, mqdssm.QueueManager, names)
    assert {
        guid: (
            set(found[guid].out_routing_server_identifier_list),
            set(found[guid].in_routing_server_identifier_list),
        )
        for guid in expected
    } == expected
    for server in servers:
        assert found[server].out_routing_server_identifier_list == ()
    # one page; where nothing comes along with it one look-up besides
    assert requests == (1 if world.kind.brings_references else 2)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.3")
def test_requests_grow_with_pages_not_with_objects(world):
    site = world.site()
    managers = [world.queue_manager(site_identifier_list=[site]) for _ in range(12)]
    for number, guid in enumerate(managers):  # everybody has servers of his own
        others = [manager_dn(world, managers[(number + step) % 12]) for step in (1, 5, 7)]
        lines = "\n".join(f"mSMQOutRoutingServers: {dn}" for dn in others)
        world.ldap.modify(manager_dn(world, guid), f"add: mSMQOutRoutingServers\n{lines}")
    with world.connect(page_size=4) as directory:
        found, requests = listed(directory, mqdssm.QueueManager)
    assert all(len(one.out_routing_server_identifier_list) == 3 for one in found.values())
    assert all(one.qualified_computer_name for one in found.values())
    # each of 3 pages: itself, its computers, and where they do not come along the routing servers, which
    # are up to 8 new ones and so two pages themselves; one by one it would be 12 + 36 besides
    limit = 3 * (2 if world.kind.brings_references else 4)
    # the list of 12, and the computers of each of its pages of 4, end with a full page
    assert requests <= limit + (4 if world.kind.ends_with_empty_page else 0)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.3")
def test_a_routing_server_that_is_gone_is_skipped_and_logged(world, caplog):
    site = world.site()
    gone, there = (world.queue_manager(site_identifier_list=[site]) for _ in range(2))
    referring = world.queue_manager(
        site_identifier_list=[site], out_routing_server_identifier_list=[gone, there]
    )
    world.ldap.delete(manager_dn(world, gone))
    with caplog.at_level(logging.WARNING):
        found, _ = listed(world.directory, mqdssm.QueueManager)
    assert found[referring].out_routing_server_identifier_list == (there,)
    name = world.kind.left_behind(f"CN={world.computer_of(gone)}", gone)
    assert name.lower() in caplog.text.lower()


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.3")
def test_what_is_no_queue_manager_or_has_no_guid_is_skipped(world):
    site = world.site()
    there = world.queue_manager(site_identifier_list=[site])
    referring = world.queue_manager(site_identifier_list=[site])
    nameless = f"CN=msmq,{world.computer_dn(world.computer())}"
    world.ldap.add(nameless, {"objectClass": "mSMQConfiguration", "cn": "msmq"})
    computer = world.computer_dn(world.computer())  # it has an objectGUID, but it is none
    lines = "\n".join(
        f"mSMQOutRoutingServers: {dn}" for dn in (nameless, computer, manager_dn(world, there).upper())
    )
    world.ldap.modify(manager_dn(world, referring), f"add: mSMQOutRoutingServers\n{lines}")
    found, _ = listed(world.directory, mqdssm.QueueManager, ["Identifier", "OutRoutingServerIdentifierList"])
    expected = {there}
    if not world.kind.keeps_guids:  # the server has given it one
        expected.add(uuid.UUID(bytes_le=world.ldap.entry(nameless)["objectGUID"][0]))
    assert set(found[referring].out_routing_server_identifier_list) == expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.3")
def test_sites_and_gates_of_links(world):
    sites = [world.site() for _ in range(3)]
    gates = [world.queue_manager(site_identifier_list=[sites[0]]) for _ in range(2)]
    links = {}
    for one, other in ((0, 1), (1, 2)):
        link = mqdssm.RoutingLink(
            site1_identifier=sites[one],
            site2_identifier=sites[other],
            actual_cost=7,
            site_gate_identifier_list=gates,
        )
        links[world.directory.create(link)] = (sites[one], sites[other])
    found, requests = listed(world.directory, mqdssm.RoutingLink)
    assert {guid: (one.site1_identifier, one.site2_identifier) for guid, one in found.items()} == links
    assert all(set(one.site_gate_identifier_list) == set(gates) for one in found.values())
    # without the overlay one look-up of sites and one of gates
    assert requests == (1 if world.kind.brings_references else 3)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.1")
def test_a_link_whose_site_is_gone_stays_in_the_list(world):
    kept, gone = world.site(), world.site()
    link = world.directory.create(
        mqdssm.RoutingLink(site1_identifier=gone, site2_identifier=kept, actual_cost=1)
    )
    world.ldap.delete(f"CN={world.site_name(gone)},{world.sites_dn}")
    found, _ = listed(world.directory, mqdssm.RoutingLink)
    assert not found[link].is_populated("Site1Identifier")
    assert found[link].site2_identifier == kept


def test_what_comes_along_is_believed_only_as_far_as_it_goes(world):
    guid = world.queue_manager()
    dn = manager_dn(world, guid)
    other = uuid.uuid4()
    raw = [other.bytes_le]
    references = References(world.directory.session)
    before = world.directory.session.round_trips
    references.learn(
        [
            Dereferenced("CN=a", {"objectguid": raw, "objectclass": [b"top", b"MSMQConfiguration"]}),
            Dereferenced("CN=b", {}),
            Dereferenced("CN=c", {"objectguid": [b"short"], "objectclass": [b"mSMQConfiguration"]}),
            Dereferenced(dn, {"objectguid": raw, "objectclass": [b"somethingBelowIt"]}),
        ],
        "mSMQConfiguration",
    )
    told = [references.identifier_of(name, "mSMQConfiguration") for name in ("cn=A", "cn=B", "cn=C")]
    assert told == [other, None, None]
    assert world.directory.session.round_trips == before
    # its class is not plain: the server is asked, and has the last word
    assert references.identifier_of(dn, "mSMQConfiguration") == guid
    assert references.identifier_of("CN=a", "site") is None  # of another class nothing was told
