"""What we write, seen by Samba's own tools and ldapsearch; what these write, seen by us.

On a controller of its own, so that ``samba-tool dbcheck`` at the end tells about these objects alone.
"""

import os
import subprocess
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from support.servers.ad_world import Domain, own_domain
from support.servers.plain_ldap import Entry, _parse

import mqdssm
from mqdssm.model.enums import PrivacyLevel
from mqdssm.wire.dtyp import SecurityDescriptor, Sid, allow
from mqdssm.wire.masks import QueueAccess

TYPE = UUID("5a2f0e0c-9f3b-4c87-8ac2-6a0f3f3a7d10")
GUIDS = {"mSMQSites", "mSMQQMID", "mSMQQueueType"}
SEND = "06bd3202-df3e-11d1-9c86-006008764d0e"  # the extended right msmq-Send


@pytest.fixture(scope="module")
def domain() -> Iterator[Domain]:
    with own_domain() as made:
        yield made


def ldapsearch(domain: Domain, dn: str, *attributes: str) -> Entry:
    """One entry as OpenLDAP's own client gets it, over LDAPS."""
    server = domain.server
    login = ["-x", "-H", server.ldaps_url, "-D", server.user, "-w", server.password]
    done = subprocess.run(
        [
            "ldapsearch",
            "-LLL",
            "-o",
            "ldif-wrap=no",
            *login,
            "-b",
            dn,
            "-s",
            "base",
            "(objectClass=*)",
            *attributes,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"LDAPTLS_CACERT": server.ca_file},
    )
    (entry,) = _parse(done.stdout).values()
    return entry


def same_everywhere(domain: Domain, dn: str, expected: dict[str, list[bytes]]) -> None:
    """Both programs see exactly these values, in any order."""
    wanted = {name: sorted(values) for name, values in expected.items() if values}
    shown = domain.tools.entry(dn, *expected)
    for name in GUIDS & shown.keys():  # ldbsearch writes them out
        shown[name] = [UUID(value.decode()).bytes_le for value in shown[name]]
    for entry in (shown, ldapsearch(domain, dn, *expected)):
        assert {name: sorted(values) for name, values in entry.items()} == wanted


def raw_guid(domain: Domain, dn: str) -> UUID:
    (value,) = ldapsearch(domain, dn, "objectGUID")["objectGUID"]
    (text,) = domain.tools.entry(dn, "objectGUID")["objectGUID"]
    assert UUID(text.decode()) == UUID(bytes_le=value)
    return UUID(bytes_le=value)


def by_guid(guid: UUID) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


class TestWrittenByUs:
    """Attribute by attribute; the expected values are what a Windows client would have to find there."""

    @pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
    def test_queue(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        name = "orders/of<the>year=2024#" + "x" * 50
        guid = domain.directory.create(
            mqdssm.Queue(
                pathname=rf"{computer}\{name}",
                label="Übergröße € 𝄞",
                type=TYPE,
                journaling=True,
                quota=0xFFFFFFFF,
                journal_quota=0x80000000,
                authentication=False,
                privacy_level=PrivacyLevel.BODY,
                transactional=True,
                multicast_address="234.1.1.1:8001",
                base_priority=-32768,
            )
        )
        # written out by hand: 5 of the first 55 units are backslashes
        head = "orders/of<the>year=2024#" + "x" * 26
        dn = str(domain.directory.session.get(guid, ["distinguishedName"]).dn)
        assert raw_guid(domain, dn) == guid
        (cn,) = ldapsearch(domain, dn, "cn")["cn"]
        assert (cn[:-9].decode(), cn[-9:-8], len(cn)) == (head, b"-", 59)
        same_everywhere(
            domain,
            dn,
            {
                "objectClass": [b"top", b"mSMQQueue"],
                "mSMQQueueNameExt": [b"x" * 24],
                "mSMQLabelEx": ["Übergröße € 𝄞".encode()],
                "mSMQQueueType": [TYPE.bytes_le],
                "mSMQJournal": [b"TRUE"],
                "mSMQQueueQuota": [b"-1"],
                "mSMQQueueJournalQuota": [b"-2147483648"],
                "mSMQAuthenticate": [b"FALSE"],
                "mSMQPrivacyLevel": [b"2"],
                "mSMQTransactional": [b"TRUE"],
                "MSMQ-MulticastAddress": [b"234.1.1.1:8001"],
                "mSMQBasePriority": [b"-32768"],
                "mSMQOwnerID": [],
            },
        )

    def test_what_is_written_empty_is_gone(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        guid = domain.directory.create(
            mqdssm.Queue(pathname=rf"{computer}\q", label="a", multicast_address="234.1.1.1:8001")
        )
        domain.directory.write(mqdssm.Queue(identifier=guid, label="", multicast_address="", quota=7))
        dn = f"CN=q,CN=msmq,CN={computer},CN=Computers,{domain.root}"
        values = {"mSMQLabelEx": [], "MSMQ-MulticastAddress": [], "mSMQQueueQuota": [b"7"]}
        same_everywhere(domain, dn, values)

    def test_queue_manager_and_its_settings(self, domain: Domain) -> None:
        site_name = domain.name("S")
        site = domain.directory.create(mqdssm.Site(name=site_name))
        router, router_guid = domain.queue_manager(site_identifier_list=[site], routing_server=True)
        computer, guid = domain.queue_manager(
            site_identifier_list=[site],
            out_routing_server_identifier_list=[router_guid],
            queue_manager_quota=0xFFFFFFFF,
        )
        dn = f"CN=msmq,CN={computer},CN=Computers,{domain.root}"
        assert raw_guid(domain, dn) == guid
        same_everywhere(
            domain,
            dn,
            {
                "objectClass": [b"top", b"mSMQConfiguration"],
                "mSMQSites": [site.bytes_le],
                "mSMQOutRoutingServers": [f"CN=msmq,CN={router},CN=Computers,{domain.root}".encode()],
                "mSMQQuota": [b"-1"],
            },
        )
        place = f"CN={router},CN=Servers,CN={site_name},CN=Sites,CN=Configuration,{domain.root}"
        same_everywhere(
            domain,
            f"CN=MSMQ Settings,{place}",
            {
                "objectClass": [b"top", b"mSMQSettings"],
                "mSMQQMID": [router_guid.bytes_le],
            },
        )

    def test_link_and_site(self, domain: Domain) -> None:
        names = [domain.name("S"), domain.name("S")]
        one, two = (
            domain.directory.create(mqdssm.Site(name=name, intra_site_replication_interval=3))
            for name in names
        )
        link = domain.directory.create(
            mqdssm.RoutingLink(site1_identifier=one, site2_identifier=two, actual_cost=999_999)
        )
        sites = [f"CN={name},CN=Sites,CN=Configuration,{domain.root}" for name in names]
        services = f"CN=MsmqServices,CN=Services,CN=Configuration,{domain.root}"
        dn = f"CN={one.hex}{two.hex},{services}"
        assert raw_guid(domain, dn) == link
        same_everywhere(
            domain,
            dn,
            {
                "objectClass": [b"top", b"mSMQSiteLink"],
                "mSMQCost": [b"999999"],
                "mSMQSite1": [sites[0].encode()],
                "mSMQSite2": [sites[1].encode()],
            },
        )
        same_everywhere(domain, sites[0], {"objectClass": [b"top", b"site"], "mSMQInterval1": [b"3"]})

    def test_rights_as_the_domain_knows_them(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        everyone, system = Sid("S-1-1-0"), Sid("S-1-5-18")
        security = SecurityDescriptor.build(
            owner=system,
            dacl=[
                allow(everyone, QueueAccess.WRITE_MESSAGE),
                allow(system, QueueAccess.SET_QUEUE_PROPERTIES),
            ],
        )
        domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", security=bytes(security)))
        dn = f"CN=q,CN=msmq,CN={computer},CN=Computers,{domain.root}"
        sddl = domain.tools.sddl(dn)
        explicit = {ace for ace in sddl.partition("D:")[2].split("(") if "ID;" not in ace.split(";")[1:2]}
        assert sddl.startswith("O:SY")
        assert f"OA;;CR;{SEND};;WD)".lower() in {ace.lower() for ace in explicit}
        writers = [ace for ace in explicit if ace.startswith("A;;") and "WP" in ace]
        assert [ace.rpartition(";")[2].rstrip(")") for ace in writers] == ["SY"]  # never Everyone


class TestWrittenByOthers:
    """Objects made with ldbadd, as Windows writes them."""

    def test_queue(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        dn = f"CN=Orders,CN=msmq,CN={computer},CN=Computers,{domain.root}"
        domain.tools.add(
            dn,
            {
                "objectClass": ["mSMQQueue"],
                "mSMQLabelEx": "Ordres reçus",
                "mSMQQueueType": TYPE.bytes_le,
                "mSMQJournal": "TRUE",
                "mSMQQueueQuota": "-1",
                "mSMQQueueJournalQuota": "2147483647",
                "mSMQAuthenticate": "TRUE",
                "mSMQPrivacyLevel": "0",
                "mSMQTransactional": "FALSE",
                "mSMQBasePriority": "32767",
                "MSMQ-MulticastAddress": "234.1.1.1:8001",
            },
        )
        guid = raw_guid(domain, dn)
        for read in (
            domain.directory.read(mqdssm.Queue, by_guid(guid)),
            *domain.directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", "Ordres reçus")),
        ):
            assert (read.identifier, read.type, read.label) == (guid, TYPE, "Ordres reçus")
            assert (read.quota, read.journal_quota) == (0xFFFFFFFF, 0x7FFFFFFF)
            assert (read.journaling, read.authentication, read.transactional) == (True, True, False)
            assert (int(read.privacy_level), read.base_priority) == (0, 32767)
            assert read.multicast_address == "234.1.1.1:8001"
            assert (read.pathname or "").lower() == rf"{computer}\orders".lower()
            assert (read.full_path or "").lower() == dn.lower()

    def test_queue_with_nothing_but_its_name(self, domain: Domain) -> None:
        computer, _ = domain.queue_manager()
        dn = f"CN=bare,CN=msmq,CN={computer},CN=Computers,{domain.root}"
        domain.tools.add(dn, {"objectClass": ["mSMQQueue"]})
        read = domain.directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", rf"{computer}\bare"))
        assert read.identifier == raw_guid(domain, dn)
        assert (read.label, read.quota, read.journaling) == ("", 0xFFFFFFFF, False)

    def test_queue_manager(self, domain: Domain) -> None:
        site, computer = domain.site(), domain.machine()
        dn = f"CN=msmq,CN={computer},CN=Computers,{domain.root}"
        domain.tools.add(
            dn,
            {
                "objectClass": ["mSMQConfiguration"],
                "mSMQSites": site.bytes_le,
                "mSMQQuota": "-1",
                "mSMQJournalQuota": "1048576",
                "mSMQOSType": "1280",
                "mSMQServiceType": "0",
                "mSMQForeign": "FALSE",
                "mSMQRoutingServices": "TRUE",
                "mSMQDsServices": "FALSE",
                "mSMQDependentClientServices": "TRUE",
                "mSMQComputerTypeEx": "Windows NT 5.2, Build 3790",
            },
        )
        read = domain.directory.read(
            mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", computer.lower())
        )
        assert read.identifier == raw_guid(domain, dn)
        assert (read.site_identifier_list, read.queue_manager_quota) == ((site,), 0xFFFFFFFF)
        assert (read.routing_server, read.directory_server) == (True, False)
        # and we work below it
        domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q", label="ours"))
        (queue,) = domain.directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", "ours"))
        assert (queue.pathname or "").lower() == rf"{computer}\q".lower()
        domain.directory.delete(mqdssm.QueueManager(identifier=read.identifier), recursive=True)
        assert not domain.tools.search(
            "(objectClass=mSMQConfiguration)", base=f"CN={computer},CN=Computers,{domain.root}"
        )

    def test_alias_and_group(self, domain: Domain) -> None:
        name = domain.name("a")
        target = f"PUBLIC={str(uuid4()).upper()}"
        alias = f"CN={name},CN=Users,{domain.root}"
        domain.tools.add(
            alias, {"objectClass": ["msMQ-Custom-Recipient"], "msMQ-Recipient-FormatName": target}
        )
        assert domain.directory.resolve_queue_alias(alias).lower() == target.lower()
        group = f"CN={name}g,CN=Users,{domain.root}"
        domain.tools.add(group, {"objectClass": ["group"], "sAMAccountName": f"{name}g", "member": alias})
        found = domain.directory.resolve_distribution_list(f"DL={raw_guid(domain, group)}")
        assert [one.lower() for one in found] == [target.lower()]
