"""Roles of directory servers behind a handover of the enterprise, and a server whose key is another one."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from support.replication.live_servers import Enterprise, pec_with_site, site_of, with_controller
from support.replication.queue_managers import guid_of, key_of, wait_until

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, GenericDirectoryError
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.server.admission import Admission
from mqdssm.server.config import ServerConfig, ServerSection, TransportSection, encode_keys
from mqdssm.server.control_protocol import AdmissionRequest, SiteRequest
from mqdssm.server.current_roles import (
    identity_of_running,
    read_current_identity,
    role_of,
    role_of_running,
)
from mqdssm.server.hosts import HostTable
from mqdssm.server.new_sites import build_new_site
from mqdssm.server.snapshot_reader import SnapshotReader

SITES = {"PEC": "Site0", "PSC1": "Site1", "BSC1": "Site1"}


def section(name: str, role: Role, pec_name: str, psc_name: str = "") -> ServerSection:
    return ServerSection(
        machine_name=name,
        machine_id=guid_of(name).uuid,
        role=role,
        enterprise="Fabrikam",
        site=SITES[name],
        site_id=site_of(SITES[name]).uuid,
        pec_name=pec_name,
        psc_name=psc_name,
    )


def keys_of(name: str) -> bytes:
    return bytes(key_of(name).public_keys())


@pytest.fixture(scope="module")
def handed_over() -> Iterator[Enterprise]:
    """An enterprise whose PEC is PSC1 now; PEC was it before."""
    made = Enterprise()
    pec_with_site(made)
    with_controller(made)
    outcome = made.servers["PEC"].driver.change(
        command=Command.UPDATE,
        object_type=ObjectType.ENTERPRISE,
        partition_id=PEC_PARTITION_ID,
        path_name=None,
        identifier=guid_of("enterprise"),
        properties=((Propid.E_PECNAME, "PSC1"),),
    )
    assert outcome.status == Hresult.MQ_OK
    wait_until(lambda: role_of_running(made.servers["PSC1"].server) is Role.PEC)
    made.wait_equal("PEC", "PSC1", partition_id=PEC_PARTITION_ID)
    made.wait_equal("PEC", "PSC1", partition_id=site_of("Site1"))
    yield made
    made.close()


def admission_at(enterprise: Enterprise, name: str, role: Role, folder: Path) -> Admission:
    """Admission with a configuration from before the handover."""
    config = ServerConfig(server=section(name, role, "PEC"), transport=TransportSection(listen="127.0.0.1:9"))
    hosts = HostTable(folder / f"{name}.json", {}, {}, None)  # type: ignore[arg-type]
    return Admission(enterprise.servers[name].server, config, key_of(name).public_keys(), hosts)


def request(role: Role, site: str, name: str) -> AdmissionRequest:
    return AdmissionRequest(
        machine_name=name,
        machine_id=uuid4(),
        role=role,
        site=site,
        site_id=uuid4(),
        public_keys=encode_keys(key_of(name).public_keys()),
        address="127.0.0.1:1801",
    )


def test_the_enterprise_says_who_is_its_pec():
    both = Service.PEC | Service.PSC
    assert role_of(Service.PEC, "A", "B") is role_of(both, "A", "B") is Role.PSC
    assert role_of(Service.PSC, "STRASSE", "Straße") is Role.PEC
    assert (role_of(Service.BSC, "A", "A"), role_of(Service.NONE, "A", "A")) == (Role.BSC, None)
    assert (role_of(Service.PEC, "A", ""), role_of(Service.PSC, "A", "")) == (Role.PEC, Role.PSC)


def test_the_role_follows_the_enterprise(handed_over: Enterprise, tmp_path: Path):
    """Decisions T111, T133: at the next start, and while the servers run."""
    before = {"PEC": section("PEC", Role.PEC, "PEC"), "PSC1": section("PSC1", Role.PSC, "PEC")}
    after = {"PEC": section("PEC", Role.PSC, "PSC1"), "PSC1": section("PSC1", Role.PEC, "PSC1")}
    for name, live in handed_over.servers.items():
        store = live.store._store
        for configured in before[name], after[name]:
            assert read_current_identity(store, configured, keys_of(name), tmp_path) == after[name]
            assert identity_of_running(live.server, configured) == after[name]


def test_another_key_is_refused(handed_over: Enterprise, tmp_path: Path):
    """Other servers would refuse all messages of the server."""
    store = handed_over.servers["PEC"].store._store
    with pytest.raises(ConfigError, match=r"key\.pem .* is not the key"):
        read_current_identity(store, section("PEC", Role.PSC, "PSC1"), keys_of("LEFT"), tmp_path)


def test_servers_are_shown_with_their_current_roles(handed_over: Enterprise):
    snapshot = SnapshotReader(handed_over.servers["PSC1"].server).read()
    servers = [server for site in snapshot.sites for server in site.servers]
    assert {server.machine_name: server.role for server in servers} == {"PEC": Role.PSC, "PSC1": Role.PEC}


def test_only_the_pec_adds_a_site(handed_over: Enterprise):
    """Decision T157: the old PEC is a PSC now."""
    with pytest.raises(ValueError, match="PEC is a PSC: only the PEC adds a site"):
        build_new_site(SiteRequest(attributes={"Name": "Lima"}), handed_over.servers["PEC"].server)


def test_a_pec_with_an_empty_directory_admits_nobody(tmp_path: Path):
    """A new site would get a number of the enterprise that others have for another object."""
    enterprise = Enterprise()
    try:
        enterprise.server("PEC", Role.PEC, "Site0")
        wait_until(lambda: role_of_running(enterprise.servers["PEC"].server) is Role.PEC)
        admission = admission_at(enterprise, "PEC", Role.PEC, tmp_path)
        with pytest.raises(GenericDirectoryError, match="has no enterprise"):
            admission.admit(request(Role.PSC, "Site7", "PSC7"))
        assert enterprise.servers["PEC"].content(PEC_PARTITION_ID) == ()
    finally:
        enterprise.close()


def test_the_current_pec_admits_servers_and_the_former_one_names_it(handed_over: Enterprise, tmp_path: Path):
    former = admission_at(handed_over, "PEC", Role.PEC, tmp_path)
    current = admission_at(handed_over, "PSC1", Role.PSC, tmp_path)
    with pytest.raises(ValueError, match="PEC is a PSC"):
        former.admit(request(Role.PSC, "Site7", "PSC7"))
    reply = current.admit(request(Role.PSC, "Site7", "PSC7"))
    assert (reply.pec_name, [(key.machine_name, key.role) for key in reply.keys]) == (
        "PSC1",
        [("PSC1", Role.PEC)],
    )
    reply = former.admit(request(Role.BSC, "Site0", "BSC0"))
    assert (reply.pec_name, reply.psc_name) == ("PSC1", "PEC")
    assert [(key.machine_name, key.role) for key in reply.keys] == [("PEC", Role.PSC), ("PSC1", Role.PEC)]
    assert reply.keys[1].public_keys == encode_keys(key_of("PSC1").public_keys())


def test_a_handover_of_a_site_makes_its_psc_a_bsc(tmp_path: Path):
    """Decision T133: at both servers. A machine that is demoted later does not start."""
    enterprise = Enterprise()
    try:
        pec_with_site(enterprise)
        with_controller(enterprise)
        psc = enterprise.servers["PSC1"]
        assert psc.create_machine("BSC1", "Site1", Service.BSC).status == Hresult.MQ_OK
        bsc = enterprise.server("BSC1", Role.BSC, "Site1", psc="PSC1")
        enterprise.wait_equal("PSC1", "BSC1", partition_id=site_of("Site1"))
        outcome = psc.driver.change(
            command=Command.UPDATE,
            object_type=ObjectType.MACHINE,
            partition_id=site_of("Site1"),
            identifier=guid_of("BSC1"),
            properties=((Propid.QM_SERVICE, Service.PSC.value),),
        )
        assert outcome.status == Hresult.MQ_OK
        wait_until(lambda: role_of_running(bsc.server) is Role.PSC)
        wait_until(lambda: role_of_running(psc.server) is Role.BSC)
        enterprise.wait_equal("PSC1", "BSC1", partition_id=site_of("Site1"))
        before = {"PSC1": section("PSC1", Role.PSC, "PEC"), "BSC1": section("BSC1", Role.BSC, "PEC", "PSC1")}
        after = {"PSC1": section("PSC1", Role.BSC, "PEC", "BSC1"), "BSC1": section("BSC1", Role.PSC, "PEC")}
        for name, live in enterprise.servers.items():
            if name in before:
                assert identity_of_running(live.server, before[name]) == after[name]
                store = live.store._store
                assert read_current_identity(store, before[name], keys_of(name), tmp_path) == after[name]
        demoted = bsc.driver.change(
            command=Command.UPDATE,
            object_type=ObjectType.MACHINE,
            partition_id=site_of("Site1"),
            identifier=guid_of("PSC1"),
            properties=((Propid.QM_SERVICE, Service.NONE.value),),
        )
        assert demoted.status == Hresult.MQ_OK
        with pytest.raises(ConfigError, match="without a role"):
            read_current_identity(bsc.store._store, before["PSC1"], keys_of("PSC1"), tmp_path)
    finally:
        enterprise.close()
