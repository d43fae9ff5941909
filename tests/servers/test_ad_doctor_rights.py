"""Doctor on a domain controller: what the user who is logged in may do, before it is tried."""

from typing import Any

import pytest
from ad_world import Domain
from samba_tools import SambaTools

import mqdssm
from mqdssm.cli.checks import Finding, Patient, State
from mqdssm.cli.checks_directory import rights as check
from mqdssm.cli.checks_server import catalog
from mqdssm.cli.settings import Loaded, Settings
from mqdssm.events.facade import Directory
from mqdssm.tables import rights
from mqdssm.testing import SambaDomainController
from mqdssm.wire.acl import Ace, allow, allow_object
from mqdssm.wire.control import Control
from mqdssm.wire.dtyp import SecurityDescriptor, Sid

DESCRIPTOR = "nTSecurityDescriptor"


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def examined(directory: Directory) -> list[Finding]:
    session = directory.session
    loaded = Loaded(Settings(), {})
    return list(check(Patient(loaded, session.options, session, session.options.endpoints)))


def again(descriptor: SecurityDescriptor, *more: Ace) -> bytes:
    """The list as it was, with more entries."""
    control = descriptor.control & Control.DACL_PROTECTED
    return bytes(SecurityDescriptor.build(dacl=(*descriptor.explicit_aces(), *more), control=control))


def said(found: list[Finding], words: str) -> Finding:
    (one,) = [finding for finding in found if words in finding.text]
    return one


def test_an_administrator_may_do_everything(domain: Domain) -> None:
    name, _ = domain.queue_manager()
    domain.directory.create(mqdssm.Queue(pathname=rf"{name}\q"))
    found = examined(domain.directory)
    assert {one.state for one in found} == {State.OK}
    assert found[0].text.startswith(f"logged in as {domain.server.user}, SID S-1-5-21-")
    for event in (
        *("create routing links", "write the enterprise", "create sites", "create queue managers"),
        *("create queues", "delete queue managers", "write queues", "delete queues"),
        *("write Security of queues", "write signing keys of queue managers"),
    ):
        assert said(found, event).state is State.OK


def test_an_ordinary_user_is_told_what_is_missing(domain: Domain) -> None:
    domain.queue_manager()
    with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
        found = examined(directory)
        assert said(found, "create sites").state is State.WARNING
        assert "missing to create sites: RIGHT_DS_CREATE_CHILD for site" in said(found, "create sites").text
        managers = said(found, "create queues").text
        assert "may change nothing" in managers
        for right in ("RIGHT_DS_CREATE_CHILD", "RIGHT_GENERIC_WRITE", "RIGHT_WRITE_DAC", "RIGHT_DELETE"):
            assert right in managers
        identifiers = said(found, "bring one along").text
        assert "fSpecifyGUIDOnAdd is not set" in identifiers
        assert f"Add-GUID ({rights.ADD_GUID}) on {domain.root}" in identifiers


def test_what_is_granted_is_seen(domain: Domain) -> None:
    session = domain.directory.session
    sites, root = f"CN=Sites,{session.naming.configuration}", domain.root
    before = {
        dn: SecurityDescriptor.from_bytes(session.get(dn, [DESCRIPTOR]).all(DESCRIPTOR)[0])
        for dn in (sites, root)
    }
    with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        more = {
            sites: allow_object(sid, rights.CREATE_CHILD.mask, rights.CLASS_GUIDS["site"]),
            root: allow_object(sid, rights.CONTROL.mask, rights.ADD_GUID),
        }
        try:
            for dn, ace in more.items():
                session.modify(dn, {DESCRIPTOR: [again(before[dn], ace)]})
            found = examined(directory)
        finally:
            for dn, descriptor in before.items():
                session.modify(dn, {DESCRIPTOR: [again(descriptor)]})
        assert said(found, "may create sites").state is State.OK
        identifiers = said(found, "bring one along").text
        assert f") on {root}" not in identifiers
        assert f") on {session.naming.configuration}" in identifiers


def test_an_object_that_is_hidden(domain: Domain) -> None:
    session = domain.directory.session
    manager = f"CN=MsmqServices,CN=Services,{session.naming.configuration}"
    before = SecurityDescriptor.from_bytes(session.get(manager, [DESCRIPTOR]).all(DESCRIPTOR)[0])
    hidden = SecurityDescriptor.build(
        dacl=[allow(Sid("S-1-5-32-544"), 0xF01FF)], control=Control.DACL_PROTECTED
    )
    with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
        session.modify(manager, {DESCRIPTOR: [bytes(hidden)]})
        try:
            found = examined(directory)
        finally:
            session.modify(manager, {DESCRIPTOR: [again(before)]})
        assert said(found, manager).state is State.WARNING


@pytest.mark.parametrize(
    ("more", "state", "words"),
    [
        ({}, State.OK, ":3269 answers"),
        ({"forest": True}, State.OK, ":3269 answers"),
        ({"catalog": "ldap://127.0.0.1:9"}, State.OK, "none answers at ldap://127.0.0.1:9"),
        ({"catalog": "ldap://127.0.0.1:9", "forest": True}, State.PROBLEM, "none answers"),
    ],
)
def test_whether_a_global_catalog_answers(
    domain: Domain, more: dict[str, Any], state: State, words: str
) -> None:
    server = domain.server
    with domain.as_user(server.user, server.password, connect_timeout_s=2, **more) as directory:
        session = directory.session
        (found,) = catalog(Patient(Loaded(Settings(), {}), session.options, session, ()))
        assert (found.state, words in found.text) == (state, True)


def test_a_catalog_as_the_server(domain: Domain) -> None:
    server = domain.server
    with mqdssm.connect(
        server.gc_url, user=server.user, password=server.password, ca_file=server.ca_file
    ) as directory:
        session = directory.session
        (found,) = catalog(Patient(Loaded(Settings(), {}), session.options, session, ()))
        assert found.state is State.WARNING
        assert "takes no changes" in found.text
