"""Doctor on a domain controller: what the user who is logged in may do, before it is tried."""

from typing import Any
from uuid import UUID

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.diagnostics.directory_checks import check_rights as check
from mqdssm.diagnostics.directory_checks import check_tree
from mqdssm.diagnostics.event_rights import RightsChecker, token_of
from mqdssm.diagnostics.findings import CheckedDirectory, CheckFinding, CheckState
from mqdssm.diagnostics.sample_objects import Samples
from mqdssm.diagnostics.server_checks import check_catalog
from mqdssm.events.facade import Directory
from mqdssm.model.dn import DN
from mqdssm.tables import rights, schema_compare
from mqdssm.testing import SambaDomainController
from mqdssm.wire.acl import Ace, allow, allow_object, deny
from mqdssm.wire.dtyp import SecurityDescriptor, Sid
from mqdssm.wire.masks import READ_CONTROL, WRITE_OWNER, DescriptorControl

DESCRIPTOR = "nTSecurityDescriptor"
LIST_CHILDREN = 0x4
PRINCIPAL_SELF = Sid("S-1-5-10")
PROPERTY_SETS = (
    UUID("77b5b886-944a-11d1-aebd-0000f80367c1"),  # personal information: certificates and digests
    UUID("59ba2f42-79a2-11d0-9020-00c04fc2d3cf"),  # general information: objectSid
)


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def checked(directory: Directory, at: str | None = None) -> CheckedDirectory:
    session = directory.session
    return CheckedDirectory(session.options, session, session.options.endpoints, at)


def examined(directory: Directory, at: str | None = None) -> list[CheckFinding]:
    return list(check(checked(directory, at)))


def again(descriptor: SecurityDescriptor, *more: Ace) -> bytes:
    """The list as it was, with more entries."""
    control = descriptor.control & DescriptorControl.DACL_PROTECTED
    return bytes(SecurityDescriptor.build(dacl=(*descriptor.explicit_aces(), *more), control=control))


def said(found: list[CheckFinding], words: str) -> CheckFinding:
    (one,) = [finding for finding in found if words in finding.text]
    return one


def texts(found: list[CheckFinding], element: str) -> list[tuple[CheckState, str]]:
    """What is said of an element, in order."""
    start = f"{element}: "
    return [(one.state, one.text.removeprefix(start)) for one in found if one.text.startswith(start)]


def test_an_administrator_may_do_everything(domain: Domain) -> None:
    name, _ = domain.queue_manager(routing_server=True)
    domain.directory.create(mqdssm.Queue(pathname=rf"{name}\q"))
    found = examined(domain.directory, rf"{name}\q")
    assert {one.state for one in found} == {CheckState.OK}
    assert found[0].text.startswith(f"logged in as {domain.server.user}, SID S-1-5-21-")
    manager = f"CN=msmq,CN={name},CN=Computers,{domain.root}"
    assert texts(found, "Queue") == [
        (CheckState.OK, f"may create, read, write, delete (by the rights on {manager}; CN=q,{manager})")
    ]
    ((_, managers),) = texts(found, "QueueManager")
    assert managers.startswith("may create, read, write, delete (by the rights on CN=")
    assert f"CN=MSMQ Settings,CN={name},CN=Servers," in managers
    assert "cannot tell" not in managers
    administrator = f"CN=Administrator,CN=Users,{domain.root}"
    assert texts(found, "User") == [(CheckState.OK, f"may read, write (by the rights on {administrator})")]


def test_every_event_is_judged(domain: Domain) -> None:
    """Each of the table is either allowed, or missing something, or there is no object to tell from."""
    domain.queue_manager()
    with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
        found = examined(directory)
    for need in rights.NEEDS:
        told = " ".join(text for _, text in texts(found, need.element))
        assert need.event.value in told


def test_an_ordinary_user_is_told_what_is_missing(domain: Domain) -> None:
    name, _ = domain.queue_manager()
    domain.directory.create(mqdssm.Queue(pathname=rf"{name}\q"))
    computer = f"CN={name},CN=Computers,{domain.root}"
    user = domain.name("u")
    with domain.as_user(*domain.server.add_user(user)) as directory:
        found = examined(directory, name)
    manager, queue = f"CN=msmq,{computer}", f"CN=q,CN=msmq,{computer}"
    attributes = "mSMQLabelEx, mSMQQueueType, mSMQJournal, mSMQQueueQuota and 5 more"
    security = f"if Security is given: RIGHT_WRITE_DAC on {queue}"
    write = f"RIGHT_GENERIC_WRITE (for {attributes}) on {queue}; {security}"
    delete = f"RIGHT_DELETE on {queue}, or RIGHT_DS_DELETE_CHILD for mSMQQueue on {manager}"
    assert texts(found, "Queue") == [
        (CheckState.WARNING, f"may not create; missing: RIGHT_DS_CREATE_CHILD for mSMQQueue on {manager}"),
        (CheckState.WARNING, f"may not write; missing: {write}"),
        (CheckState.WARNING, f"may not delete; missing: {delete}"),
        (CheckState.OK, f"may read (by the rights on {queue})"),
    ]
    assert "may not create; missing: RIGHT_DS_CREATE_CHILD for mSMQConfiguration" in str(
        texts(found, "QueueManager")
    )
    # oneself, by the rights of PRINCIPAL_SELF and by those on sets of properties
    own = f"CN={user},CN=Users,{domain.root}"
    assert texts(found, "User") == [(CheckState.OK, f"may read, write (by the rights on {own})")]
    identifiers = said(found, "bring one along").text
    assert "fSpecifyGUIDOnAdd is not set" in identifiers
    assert f"Add-GUID ({rights.ADD_GUID}) on {domain.root}" in identifiers


def test_objects_that_do_not_exist_are_told(domain: Domain) -> None:
    name = domain.machine()
    found = examined(domain.directory, name)
    assert {one.state for one in found} == {CheckState.OK}
    untold = (
        "no mSMQConfiguration to be seen: cannot tell of create",
        "no mSMQQueue to be seen: cannot tell of read, write, write if Security is given",
        "no mSMQQueue or mSMQConfiguration to be seen: cannot tell of delete",
    )
    assert texts(found, "Queue") == [(CheckState.OK, "; ".join(untold))]
    with pytest.raises(mqdssm.ObjectNotFound, match="there is no computer named 'nowhere'"):
        examined(domain.directory, "nowhere")
    with pytest.raises(mqdssm.ObjectNotFound):
        examined(domain.directory, rf"{name}\nothing")


def test_who_may_only_take_ownership_may_not_change_the_list(domain: Domain) -> None:
    """sDRightsEffective has a bit for each part of the descriptor."""
    name, _ = domain.queue_manager()
    domain.directory.create(mqdssm.Queue(pathname=rf"{name}\q"))
    dn, session = f"CN=q,CN=msmq,CN={name},CN=Computers,{domain.root}", domain.directory.session
    before = SecurityDescriptor.from_bytes(session.get(dn, [DESCRIPTOR]).all(DESCRIPTOR)[0])
    with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        session.modify(dn, {DESCRIPTOR: [again(before, allow(sid, rights.WRITE.mask | WRITE_OWNER))]})
        assert directory.session.get(dn, ["sDRightsEffective"]).all("sDRightsEffective") == [b"3"]
        found = examined(directory, rf"{name}\q")
    expected = f"may write; missing: if Security is given: RIGHT_WRITE_DAC on {dn}"
    assert (CheckState.WARNING, expected) in texts(found, "Queue")


def test_a_right_on_a_set_of_properties_counts_for_each_of_it(domain: Domain) -> None:
    """As domains grant it on accounts, to the account itself."""
    name, session = domain.name("u"), domain.directory.session
    login = domain.server.add_user(name)
    dn = f"CN={name},CN=Users,{domain.root}"
    with domain.as_user(*login) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        before = SecurityDescriptor.from_bytes(session.get(dn, [DESCRIPTOR]).all(DESCRIPTOR)[0])
        own = SecurityDescriptor.build(
            dacl=[
                allow(Sid("S-1-5-32-544"), 0xF01FF),
                allow(sid, READ_CONTROL),
                *(allow_object(PRINCIPAL_SELF, rights.READ.decides, one) for one in PROPERTY_SETS),
            ],
            control=DescriptorControl.DACL_PROTECTED,
        )
        session.modify(dn, {DESCRIPTOR: [bytes(own)]})
        chosen = {"user": DN.parse(dn)}
        (verdict,) = RightsChecker(directory.session, Samples(directory.session, chosen=chosen)).judge_event(
            "User", rights.Event.READ
        )
        session.modify(dn, {DESCRIPTOR: [again(before)]})
    needed = schema_compare.list_needed_attributes()["user"]
    assert needed == {"mSMQDigests", "mSMQSignCertificates", "objectSid", "objectGUID"}
    assert verdict.missing == f"RIGHT_GENERIC_READ (for objectGUID) on {dn}"


def test_without_its_descriptor_nobody_can_tell_of_deleting(domain: Domain) -> None:
    name, _ = domain.queue_manager()
    domain.directory.create(mqdssm.Queue(pathname=rf"{name}\q"))
    dn, session = f"CN=q,CN=msmq,CN={name},CN=Computers,{domain.root}", domain.directory.session
    with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        shown = [allow(Sid("S-1-5-32-544"), 0xF01FF), allow(sid, rights.READ.decides)]
        hidden = SecurityDescriptor.build(dacl=shown, control=DescriptorControl.DACL_PROTECTED)
        session.modify(dn, {DESCRIPTOR: [bytes(hidden)]})
        found = examined(directory, rf"{name}\q")
    assert texts(found, "Queue")[-1] == (CheckState.OK, "no descriptor to be seen: cannot tell of delete")


def test_the_token_has_what_every_token_has() -> None:
    own = Sid("S-1-5-21-1-2-3-1104")
    assert token_of([bytes(own)]) == {own, Sid("S-1-1-0"), Sid("S-1-5-11")}


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
        assert texts(found, "Site")[-1][1].startswith("may create, read (by the rights on CN=Sites,")
        identifiers = said(found, "bring one along").text
        assert f") on {root}" not in identifiers
        assert f") on {session.naming.configuration}" in identifiers


def _advises(base: CheckFinding, enterprise: str, *, shown: bool) -> None:
    """Nothing of OpenLDAP's: no base tree to load, no descriptor to write."""
    assert (base.name, base.state) == ("enterprise", CheckState.PROBLEM)
    if shown:
        assert (base.text, base.advice) == (
            f"{enterprise} has no objectGUID that this user may read",
            "give the user the right to read",
        )
    else:
        assert base.text.startswith(f"{enterprise} is missing: this is no MSMQ directory, or this user may")
        assert base.advice == (
            "is it the right server? may this user see it? "
            "else restore it: every forest has it from the beginning"
        )


@pytest.mark.parametrize("shown", [True, False])
def test_an_object_that_is_hidden(domain: Domain, *, shown: bool) -> None:
    """Its name may be shown by what is above it, all else is its own question."""
    session = domain.directory.session
    services = f"CN=Services,{session.naming.configuration}"
    enterprise = f"CN=MsmqServices,{services}"
    before = {
        dn: SecurityDescriptor.from_bytes(session.get(dn, [DESCRIPTOR]).all(DESCRIPTOR)[0])
        for dn in (services, enterprise)
    }
    hidden = SecurityDescriptor.build(
        dacl=[allow(Sid("S-1-5-32-544"), 0xF01FF)], control=DescriptorControl.DACL_PROTECTED
    )
    with domain.as_user(*domain.server.add_user(domain.name("u"))) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        try:
            session.modify(enterprise, {DESCRIPTOR: [bytes(hidden)]})
            if not shown:
                closed = SecurityDescriptor.build(
                    dacl=[deny(sid, LIST_CHILDREN), *before[services].explicit_aces()],
                    control=before[services].control & DescriptorControl.DACL_PROTECTED,
                )
                session.modify(services, {DESCRIPTOR: [bytes(closed)]})
            found, (_, base) = examined(directory), list(check_tree(checked(directory)))
        finally:
            for dn, descriptor in before.items():
                session.modify(dn, {DESCRIPTOR: [again(descriptor)]})
    _advises(base, enterprise, shown=shown)
    attributes = "mSMQNameStyle, mSMQCSPName, mSMQLongLived, mSMQVersion"
    read, write, security = (
        (
            "RIGHT_GENERIC_READ (its descriptor is not shown)",
            f"RIGHT_GENERIC_WRITE (for {attributes})",
            "RIGHT_WRITE_DAC",
        )
        if shown
        else ("RIGHT_GENERIC_READ",) * 3
    )
    on = f"on {enterprise}"
    assert texts(found, "Enterprise") == [
        (CheckState.WARNING, f"may not read; missing: {read} {on}"),
        (CheckState.WARNING, f"may not write; missing: {write} {on}; if Security is given: {security} {on}"),
    ]


@pytest.mark.parametrize(
    ("more", "state", "words"),
    [
        ({}, CheckState.OK, ":3269 answers"),
        ({"forest": True}, CheckState.OK, ":3269 answers"),
        ({"catalog": "ldap://127.0.0.1:9"}, CheckState.OK, "none answers at ldap://127.0.0.1:9"),
        ({"catalog": "ldap://127.0.0.1:9", "forest": True}, CheckState.PROBLEM, "none answers"),
    ],
)
def test_whether_a_global_catalog_answers(
    domain: Domain, more: dict[str, Any], state: CheckState, words: str
) -> None:
    server = domain.server
    with domain.as_user(server.user, server.password, connect_timeout_s=2, **more) as directory:
        session = directory.session
        (found,) = check_catalog(CheckedDirectory(session.options, session, ()))
        assert (found.state, words in found.text) == (state, True)


def test_a_catalog_as_the_server(domain: Domain) -> None:
    server = domain.server
    with mqdssm.connect(
        server.gc_url, user=server.user, password=server.password, ca_file=server.ca_file
    ) as directory:
        session = directory.session
        (found,) = check_catalog(CheckedDirectory(session.options, session, ()))
        assert found.state is CheckState.WARNING
        assert "takes no changes" in found.text
