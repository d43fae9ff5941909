"""Rights on a domain controller: nested groups, primary groups, other domains, inherited entries."""

from typing import Any

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.diagnostics.accounts import AccountDirectory, TooMany
from mqdssm.diagnostics.object_rights import AccessReader, Grant, UserRights, find_object_rights
from mqdssm.directory.filters import Equal
from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController
from mqdssm.wire.acl import allow, deny
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import GENERIC_ALL, QueueAccess
from mqdssm.wire.sid import AUTHENTICATED_USERS, EVERYONE, Sid

GLOBAL, LOCAL, DISTRIBUTION = "-2147483646", "-2147483644", "2"
SEND, RECEIVE = int(QueueAccess.WRITE_MESSAGE), int(QueueAccess.RECEIVE_MESSAGE)


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


@pytest.fixture
def accounts(domain: Domain) -> AccountDirectory:
    return AccountDirectory(domain.directory.session)


def user(domain: Domain) -> str:
    name = domain.name("U")
    domain.server.add_user(name)
    return name


def group(domain: Domain, kind: str, *members: str) -> str:
    """A group; returns its DN. Members are DNs."""
    name = domain.name("G")
    dn = f"CN={name},CN=Users,{domain.root}"
    values = {
        "objectClass": [b"group"],
        "sAMAccountName": [name.encode()],
        "groupType": [kind.encode()],
    }
    if members:
        values["member"] = [member.encode() for member in members]
    domain.directory.session.add(dn, values)
    return dn


def token_groups(domain: Domain, dn: str) -> set[str]:
    """The groups as the domain controller computes them."""
    entry = domain.directory.session.get(dn, ["tokenGroups"])
    return {Sid.from_bytes(value).text for value in entry.all("tokenGroups")}


def queue_with(domain: Domain, *entries: Any, owner: Sid | None = None) -> str:
    name, _ = domain.queue_manager()
    image = bytes(SecurityDescriptor.build(owner=owner, dacl=entries))
    queue = mqdssm.Queue(pathname=f"{name}\\q", security=image)
    domain.directory.create(queue)
    return str(domain.directory.read(mqdssm.Queue, [mqdssm.Filter("Pathname", "==", f"{name}\\q")]).full_path)


def grants(domain: Domain, accounts: AccountDirectory, dn: str) -> dict[str, Grant]:
    access = AccessReader(domain.directory.session).read("mSMQQueue", dn)
    return {grant.account.name: grant for grant in find_object_rights(access, accounts).grants}


@pytest.fixture
def nested(domain: Domain) -> dict[str, str]:
    """Groups in groups with a cycle; a distribution group between."""
    names = {"ann": user(domain), "bob": user(domain), "eve": user(domain)}
    session = domain.directory.session
    dns = {}
    for key, name in names.items():
        (entry,) = session.find(domain.root, Equal("sAMAccountName", name.encode()), ["cn"])
        dns[key] = entry.dn
    inner = group(domain, GLOBAL, dns["ann"])
    middle = group(domain, GLOBAL, inner, dns["bob"])
    outer = group(domain, GLOBAL, middle)
    session.modify(inner, {"member": [dns["ann"].encode(), outer.encode()]})  # a cycle
    mail = group(domain, DISTRIBUTION, dns["eve"])
    mailed = group(domain, GLOBAL, mail)
    return {**dns, "inner": inner, "middle": middle, "outer": outer, "mail": mail, "mailed": mailed}


def test_groups_of_a_user_are_those_of_its_token(domain, accounts, nested) -> None:
    for name in ("ann", "bob", "eve"):
        account = accounts.find(nested[name])
        memberships = {one.account.sid.text: one for one in accounts.groups(account)}
        token = token_groups(domain, nested[name])
        assert token <= set(memberships)
        everybody = {"Everyone", "Authenticated Users"}
        for sid in set(memberships) - token:
            assert memberships[sid].path[0].name in everybody, memberships[sid]
    ann = {
        one.account.dn: [step.dn for step in one.path]
        for one in accounts.groups(accounts.find(nested["ann"]))
    }
    assert ann[nested["outer"]] == [nested["inner"], nested["middle"], nested["outer"]]
    assert nested["mailed"] not in {one.account.dn for one in accounts.groups(accounts.find(nested["eve"]))}


def test_members_of_a_group_with_their_paths(domain, accounts, nested) -> None:
    members = {one.account.dn: one.words for one in accounts.members(accounts.find(nested["outer"]))}
    name = {key: dn.partition(",")[0].removeprefix("CN=") for key, dn in nested.items()}
    assert members[nested["ann"]] == f"{name['inner']} in {name['middle']} in {name['outer']}"
    assert members[nested["bob"]] == f"{name['middle']} in {name['outer']}"
    assert set(members) == {nested[key] for key in ("ann", "bob", "inner", "middle")}
    few = AccountDirectory(domain.directory.session, members_max=2)
    with pytest.raises(TooMany, match="more than 2 members"):
        few.members(few.find(nested["outer"]))


def test_members_by_primary_group(accounts, nested) -> None:
    users = accounts.find("Domain Users")
    members = {one.account.dn for one in accounts.members(users)}
    assert {nested["ann"], nested["bob"]} <= members


def test_who_may_send(domain, accounts, nested) -> None:
    sids = {name: accounts.find(dn).sid for name, dn in nested.items()}
    foreign = Sid("S-1-5-21-9-8-7-1105")
    queue = queue_with(
        domain,
        deny(sids["bob"], SEND),
        allow(sids["outer"], SEND | RECEIVE),
        allow(sids["mailed"], SEND),
        allow(foreign, SEND),
        owner=sids["eve"],
    )
    by_name = grants(domain, accounts, queue)
    name = {key: dn.partition(",")[0].removeprefix("CN=") for key, dn in nested.items()}
    ann, bob, eve = (by_name[name[key]] for key in ("ann", "bob", "eve"))
    assert {"Send", "Receive", "Peek"} <= set(ann.rights)
    assert ann.by["Send"] == f"a member of {name['inner']} in {name['middle']} in {name['outer']}"
    assert "Send" not in bob.rights
    assert bob.refused == {"Send": "an entry for the account"}
    assert "Receive" in bob.rights
    assert eve.by["ChangePermissions"].startswith("it is the owner")
    assert "Send" not in eve.rights  # the distribution group gives no right
    assert by_name[foreign.text].rights == ("Send",)
    inherited = [
        reason for grant in by_name.values() for reason in grant.by.values() if reason.endswith("(inherited)")
    ]
    assert inherited  # entries of the domain's root, as those of Enterprise Admins


def test_what_a_user_may(domain, accounts, nested) -> None:
    sids = {name: accounts.find(dn).sid for name, dn in nested.items()}
    queue = queue_with(domain, allow(sids["middle"], SEND), allow(AUTHENTICATED_USERS, RECEIVE))
    access = AccessReader(domain.directory.session).read("mSMQQueue", queue)
    may = {key: UserRights(accounts.find(nested[key]), accounts).on(access) for key in ("ann", "bob", "eve")}
    assert [("Send" in one.rights, "Receive" in one.rights) for one in may.values()] == [
        (True, True),
        (True, True),
        (False, True),
    ]
    assert may["eve"].by["Receive"] == "an entry for Authenticated Users"
    admin = UserRights(accounts.find("Administrator"), accounts).on(access)
    assert {"Send", "Delete", "ChangePermissions"} <= set(admin.rights)
    everyone = UserRights(accounts.find("Anonymous"), accounts).on(access)
    assert "Receive" not in everyone.rights


def test_a_queue_for_all(domain, accounts) -> None:
    queue = queue_with(domain, allow(EVERYONE, GENERIC_ALL))
    by_name = grants(domain, accounts, queue)
    assert by_name["Everyone"].by["Send"] == "an entry for the account"
    assert "Delete" in by_name["Everyone"].rights


def test_names_of_other_domains(domain, accounts, nested) -> None:
    foreign = Sid("S-1-5-21-9-8-7-1106")
    local = group(domain, LOCAL, f"<SID={foreign}>")
    (member,) = accounts.members(accounts.find(local))
    assert (member.account.sid, member.account.kind) == (foreign, "foreign")
    assert member.account.dn.startswith(f"CN={foreign},CN=ForeignSecurityPrincipals,")
    (above,) = [one for one in accounts.groups(member.account) if one.account.dn == local]
    assert above.path == (above.account,)
    assert accounts.by_sid(Sid("S-1-5-21-9-8-7-512")).name == "Domain Admins"


def test_names_with_a_domain_in_front(domain, accounts) -> None:
    name = user(domain)
    sid = accounts.find(name).sid
    for own in (domain.server.domain, domain.server.realm.lower()):
        assert accounts.find(f"{own}\\{name}").sid == sid
    with pytest.raises(mqdssm.ObjectNotFound, match="is not the domain of this directory"):
        accounts.find(f"FABRIKAM\\{name}")
