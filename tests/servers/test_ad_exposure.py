"""Exposure on a domain controller: what it knows of computers beside MSMQ's attributes."""

from datetime import UTC, datetime, timedelta

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools

from mqdssm.events.facade import Directory
from mqdssm.model.dn import normalize
from mqdssm.pipeline.exposure.computers import ComputerFacts, read_computers
from mqdssm.testing import SambaDomainController


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def test_computers(domain) -> None:
    session = domain.directory.session
    known, plain, other = (f"CN={domain.machine()},CN=Computers,{domain.root}" for _ in range(3))
    session.modify(
        known,
        {
            "operatingSystem": [b"Windows Server 2012 R2 Standard"],
            "operatingSystemVersion": [b"6.3 (9600)"],
            "userAccountControl": [b"4098"],
        },
    )
    found = read_computers(session, {normalize(known), normalize(plain)})
    assert found[normalize(known)] == ComputerFacts(
        "Windows Server 2012 R2 Standard", "6.3 (9600)", None, True
    )
    assert found[normalize(plain)].is_disabled is False
    assert normalize(other) not in found


def test_the_controller_itself_has_a_system_and_may_have_a_log_on(domain) -> None:
    session = domain.directory.session
    controllers = f"OU=Domain Controllers,{domain.root}"
    (entry,) = session.find(controllers, session.profile.build_class_filter("computer"), ["cn"])
    (facts,) = read_computers(session, {normalize(entry.dn)}).values()
    assert facts.is_disabled is False
    if facts.last_logon is not None:
        assert abs(facts.last_logon - datetime.now(UTC)) < timedelta(days=400)
