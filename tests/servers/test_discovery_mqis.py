"""What MQIS adds for discovery: protocols of directory servers, connected networks ([MS-MQSD] 3.2.1.1)."""

import re
from collections.abc import Iterator
from itertools import count

import pytest
from support.discovery.client import guid_of
from support.servers.proxy import Proxy

import mqdssm
from mqdssm.directory.options import ConnectionOptions
from mqdssm.drivers.discovery.directory_data import DiscoveryReader
from mqdssm.engines.replication.operations import Applied, ApplyChanges
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store.ldap import LdapStore
from mqdssm.testing import OpenLdapServer

SITE = guid_of("Berlin")
NETS = [guid_of(f"net {number}") for number in range(3)]
IP, IPX = bytes.fromhex("04000100 0a000001"), bytes.fromhex("0a000300") + bytes(10)
_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False, replication=True) as started:
        yield started


def change(partition: Guid, identifier: Guid, properties: Properties) -> DirectoryChange:
    return DirectoryChange(
        command=Command.SYNC,
        guid_identifier=identifier,
        partition_id=partition,
        seq_number=SequenceNumber(next(_numbers)),
        properties=properties,
    )


def machine(name: str, service: Service, addresses: bytes, networks: list[Guid]) -> DirectoryChange:
    return change(
        SITE,
        guid_of(name),
        (
            (Propid.QM_PATHNAME, name),
            (Propid.QM_SITE_ID, SITE),
            (Propid.QM_SERVICE, int(service)),
            (Propid.QM_ADDRESS, addresses),
            (Propid.QM_CNS, tuple(networks)),
        ),
    )


def apply(server: OpenLdapServer, partition: Guid, *changes: DirectoryChange) -> None:
    options = ConnectionOptions.of(server.url, user=server.user, password=server.password, tls="none")
    with LdapStore.open(options) as store:
        applied = store.perform(ApplyChanges(partition_id=partition, changes=list(changes)))
    assert applied == Applied(count=len(changes), status=Hresult.MQ_OK)


@pytest.mark.spec("MS-MQSD 3.2.1.1")
def test_protocols_and_networks_come_from_mqis(server: OpenLdapServer) -> None:
    apply(
        server,
        PEC_PARTITION_ID,
        change(PEC_PARTITION_ID, SITE, ((Propid.S_PATHNAME, "Berlin"),)),
        *(
            change(PEC_PARTITION_ID, net, ((Propid.CN_NAME, f"Net{number}"), (Propid.CN_PROTOCOLID, 1)))
            for number, net in enumerate(NETS)
        ),
    )
    apply(
        server,
        SITE,
        machine("PSC1", Service.PSC, IP + IPX, [NETS[2], NETS[0]]),
        machine("BSC1", Service.BSC, IPX, [NETS[1]]),
        machine("BSC2", Service.BSC, IP, []),
        machine("CLIENT", Service(0), IP, [NETS[1]]),
    )
    with mqdssm.connect(server.ldapi_url) as directory:
        known = {
            name: DiscoveryReader(directory, site="Berlin", computer=name).read()
            for name in ("psc1", "BSC2", "elsewhere")
        }
    assert known["psc1"].site == SITE
    assert known["psc1"].servers == ("11PSC1", "01BSC1", "10BSC2")
    assert known["BSC2"].servers == ("10BSC2", "01BSC1", "11PSC1")
    # its own; where there are none, those of the enterprise (decision S6)
    assert known["psc1"].networks == (NETS[2], NETS[0])
    assert known["BSC2"].networks == known["elsewhere"].networks == tuple(NETS)


@pytest.mark.spec("MS-MQSD 3.2.1.1")
def test_a_name_that_is_damaged_on_the_way_leaves_the_others(server: OpenLdapServer) -> None:
    """Of a computer with a damaged name what MQIS has is not found; no error ends the discovery server."""
    options = {"user": server.user, "password": server.password, "tls": "none"}
    with Proxy("127.0.0.1", server.port) as proxy, mqdssm.connect(proxy.url, **options) as directory:
        site = directory.create(mqdssm.Site(name="Odense"))
        for name in ("DAMAGED", "ODDC1"):
            server.add_computer(name)
            directory.create(
                mqdssm.QueueManager(computer_name=name, site_identifier_list=[site], directory_server=True)
            )
        proxy.damage = lambda data: re.sub(rb",CN=(DAMAGED)", rb",CN;\1", data, flags=re.IGNORECASE)
        known = DiscoveryReader(directory, site="Odense", computer="ODDC1").read()
    assert "ODDC1" in [one.name for one in known.servers]
