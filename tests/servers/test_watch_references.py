"""A watch of objects that name others, which get other names or go away, whatever the server tells."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS
from support.watching.watchers import watching

import mqdssm
from mqdssm.model.filters import Filter
from mqdssm.testing import OpenLdapServer

KIND = KINDS["openldap"]

pytestmark = pytest.mark.spec("MS-MQCN 3.2.3")


@pytest.fixture
def server() -> Iterator[OpenLdapServer]:
    """One of its own, which forgets by its restart what was deleted."""
    with OpenLdapServer(durable=False) as started:
        yield started


def machine(server: OpenLdapServer, **refers_to: str) -> tuple[str, UUID]:
    """A queue manager below a computer of its own; its DN and GUID."""
    name, guid = f"R{uuid4().hex[:8]}".upper(), uuid4()
    KIND.add_computer(server, name)
    dn = f"CN=msmq,CN={name},CN=Computers,{server.base_dn}"
    PlainLdap(server).add(dn, {"objectClass": "mSMQConfiguration", "objectGUID": guid.bytes_le, **refers_to})
    return dn, guid


def sites_and_link(server: OpenLdapServer, directory: mqdssm.Directory, **more: list[UUID]) -> list[UUID]:
    sites = [directory.create(mqdssm.Site(name=f"S{uuid4().hex[:8]}")) for _ in range(2)]
    link = mqdssm.RoutingLink(site1_identifier=sites[0], site2_identifier=sites[1], actual_cost=1, **more)
    return [*sites, directory.create(link)]


@pytest.mark.parametrize("kinds", [(), (mqdssm.RoutingLink,)], ids=["all", "links"])
def test_a_link_whose_site_went_away_while_nobody_can_say_what_went(server, kinds, tmp_path: Path):
    """slapd was restarted: it tells what is there, and not what is gone ([RFC4533] 3.3.1)."""
    state = tmp_path / "state"
    with KIND.connect(server) as directory:
        *sites, link = sites_and_link(server, directory)
        with watching(directory, *kinds, state=state):
            pass
        place = directory.read(mqdssm.Site, Filter("Identifier", "==", sites[0])).full_path
    PlainLdap(server).delete(place)
    server.stop()
    server.start()
    with KIND.connect(server) as directory, watching(directory, *kinds, state=state) as told:
        changed = told.wait(lambda one: [c for c in one.changes if c.guid == link])[0]
        assert changed.changes["Site1Identifier"] == (sites[0], None)


def test_a_queue_manager_whose_routing_server_has_another_computer_name(server):
    """slapd leaves the old name in what refers to it, and nobody is there."""
    router, guid = machine(server)
    client, _ = machine(server, mSMQOutRoutingServers=router)
    computer = router.partition(",")[2]
    with KIND.connect(server) as directory, watching(directory) as told:
        name, _, place = computer.partition(",")
        directory.session.rename(computer, f"{name}X")
        gone = told.one("changed", client)
        assert gone.changes["OutRoutingServerIdentifierList"] == ((guid,), ())
        directory.session.rename(f"{name}X,{place}", name)
        told.wait(lambda one: one.count(client) == 2)
        back = told.one("changed", client)
        assert back.changes["OutRoutingServerIdentifierList"] == ((), (guid,))


def test_a_link_whose_gate_has_another_computer_name(server):
    router, guid = machine(server)
    computer = router.partition(",")[2]
    with KIND.connect(server) as directory:
        *_, link = sites_and_link(server, directory, site_gate_identifier_list=[guid])
        with watching(directory, mqdssm.RoutingLink) as told:
            directory.session.rename(computer, f"{computer.partition(',')[0]}X")
            changed = told.wait(lambda one: [c for c in one.changes if c.guid == link])[0]
            assert changed.changes["SiteGateIdentifierList"].old == (guid,)


def test_queues_of_a_queue_manager_with_another_name_have_other_names(server):
    """It is known itself, and those below it are not told of."""
    machine_dn, _ = machine(server)
    queue = f"CN=q,{machine_dn}"
    PlainLdap(server).add(queue, {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le})
    with KIND.connect(server) as directory, watching(directory) as told:
        directory.session.rename(machine_dn, "CN=other")
        changed = told.one("changed", queue.replace("CN=msmq", "CN=other"))
        assert changed.changes["FullPath"].old.lower() == queue.lower()


@pytest.mark.parametrize(
    ("name", "other", "values"),
    [
        ("OU=a", "OU=b", {"objectClass": "organizationalUnit"}),
        ("C=NO", "C=SE", {"objectClass": "country"}),
        ("L=a", "L=b", {"objectClass": "locality"}),
        ("O=a", "O=b", {"objectClass": "organization"}),
        ("CN=a", "CN=b", {"objectClass": "container"}),
        ("DC=a", "DC=b", {"objectClass": ["dcObject", "organization"], "o": "a"}),
    ],
)
def test_what_queues_stand_below_gets_another_name(server, name: str, other: str, values: dict[str, str]):
    plain, place = PlainLdap(server), f"{name},{server.base_dn}"
    plain.add(place, values)
    queue = f"CN=q,CN=msmq,CN=W1,{place}"
    for dn, kind in ((f"CN=W1,{place}", "computer"), (f"CN=msmq,CN=W1,{place}", "mSMQConfiguration")):
        plain.add(dn, {"objectClass": kind, "objectGUID": uuid4().bytes_le})
    plain.add(queue, {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le})
    with KIND.connect(server) as directory, watching(directory, mqdssm.Queue) as told:
        directory.session.rename(place, other)
        told.one("changed", queue.replace(name, other))
