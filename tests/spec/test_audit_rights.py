"""Descriptors, lists of attributes, keys and places where few tests look ([MS-MQDSSM] 3.1.6)."""

from uuid import UUID, uuid4

import pytest
from support.wire.certificates import registered

import mqdssm
from mqdssm import Filter, Queue, QueueManager, Site
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget
from mqdssm.events.references import References
from mqdssm.model.dn import DN
from mqdssm.model.queuenames import list_rdn_candidates
from mqdssm.tables.equality import find_differences
from mqdssm.wire.acl import allow
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import (
    MQSEC_MACHINE_GENERIC_ALL,
    MQSEC_MACHINE_WORLD_RIGHTS,
    MQSEC_QUEUE_GENERIC_ALL,
    MQSEC_QUEUE_GENERIC_WRITE,
    MQSEC_SITE_GENERIC_ALL,
    MQSEC_SITE_GENERIC_READ,
)

EVERYONE = mqdssm.Sid("S-1-1-0")
ANONYMOUS = mqdssm.Sid("S-1-5-7")
OWNER = mqdssm.Sid("S-1-5-21-1-2-3-1105")
GROUP = mqdssm.Sid("S-1-5-21-1-2-3-1513")


def descriptor(world, dn: str) -> SecurityDescriptor:
    (raw,) = world.ldap.entry(dn)["nTSecurityDescriptor"]
    return SecurityDescriptor.from_bytes(raw)


def granted(found: SecurityDescriptor) -> dict[mqdssm.Sid, int]:
    return {ace.sid: ace.mask for ace in found.explicit_aces()}


@pytest.fixture
def as_user(world):
    """A directory bound as an administrator of MSMQ that has a SID, and that SID."""
    dn, password = world.user(world.name("maker"))
    world.make_administrator(dn)
    sid = mqdssm.Sid.from_bytes(world.ldap.entry(dn)["objectSid"][0])
    server = world.server
    with mqdssm.connect(server.url, user=dn, password=password, ca_file=server.ca_file) as directory:
        yield directory, sid


# -- descriptors --------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
def test_a_supplied_owner_counts_before_the_bound_user(world, as_user) -> None:
    directory, sid = as_user
    computer = world.computer()
    supplied = bytes(SecurityDescriptor.build(owner=OWNER))
    directory.create(QueueManager(computer_name=computer, site_identifier_list=[], security=supplied))
    found = descriptor(world, f"CN=msmq,{world.computer_dn(computer)}")
    assert found.owner == OWNER
    assert granted(found)[OWNER] == MQSEC_MACHINE_GENERIC_ALL
    assert sid not in granted(found)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
def test_a_supplied_list_of_a_queue_manager_is_kept(world) -> None:
    """Decision M90: what was given is what is stored, by create as by the migration."""
    supplied = bytes(SecurityDescriptor.build(owner=OWNER, dacl=[allow(OWNER, MQSEC_MACHINE_GENERIC_ALL)]))
    manager = QueueManager(computer_name=world.computer(), site_identifier_list=[], security=supplied)
    made = maker_of(world).queue_manager(manager, DN.parse(world.computer_dn(manager.computer_name)))
    guid = world.directory.create(manager)
    found = world.directory.read(QueueManager, Filter("Identifier", "==", guid), attributes=["Security"])
    assert granted(SecurityDescriptor.from_bytes(found.security)) == {OWNER: MQSEC_MACHINE_GENERIC_ALL}
    stored = world.directory.session.get(made.dn, ["nTSecurityDescriptor"]).attributes
    assert not find_differences({"nTSecurityDescriptor": made.values["nTSecurityDescriptor"]}, stored)
    assert manager.assigned == frozenset()


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
def test_what_else_a_descriptor_of_a_queue_manager_holds_is_kept(world) -> None:
    """Without a DACL it gets the computed one; EntryBuilder makes the same entry."""
    supplied = bytes(SecurityDescriptor.build(owner=OWNER, group=GROUP))
    manager = QueueManager(computer_name=world.computer(), site_identifier_list=[], security=supplied)
    computer = DN.parse(world.computer_dn(manager.computer_name))
    sid = mqdssm.Sid.from_bytes(world.ldap.entry(str(computer))["objectSid"][0])
    made = maker_of(world).queue_manager(manager, computer, sid)
    world.directory.create(manager)
    found = descriptor(world, f"CN=msmq,{computer}")
    assert (found.owner, found.group) == (OWNER, GROUP)
    assert granted(found)[OWNER] == MQSEC_MACHINE_GENERIC_ALL
    stored = world.directory.session.get(made.dn, ["nTSecurityDescriptor"]).attributes
    assert not find_differences({"nTSecurityDescriptor": made.values["nTSecurityDescriptor"]}, stored)


def maker_of(world) -> EntryBuilder:
    session = world.directory.session
    return EntryBuilder(EntryTarget.of(session), References(session).dns_of)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
def test_a_foreign_system_that_is_not_written_does_not_count(world) -> None:
    """Step 5: ForeignSystem must be among the attributes."""
    computer = world.computer()
    manager = QueueManager(computer_name=computer, site_identifier_list=[], foreign_system=True)
    world.directory.create(manager, attributes=["SiteIdentifierList"])  # ComputerName need not be named
    dn = f"CN=msmq,{world.computer_dn(computer)}"
    assert granted(descriptor(world, dn))[EVERYONE] == MQSEC_MACHINE_WORLD_RIGHTS
    assert "mSMQForeign" not in world.ldap.entry(dn)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_the_creator_of_a_queue_owns_it(world, as_user) -> None:
    """Decisions M22 and M41."""
    directory, sid = as_user
    computer = world.computer_of(world.queue_manager())
    directory.create(Queue(pathname=f"{computer}\\q"))
    found = descriptor(world, world.queue_dn(computer, "q"))
    machine = mqdssm.Sid.from_bytes(world.ldap.entry(world.computer_dn(computer))["objectSid"][0])
    assert found.owner == sid
    assert granted(found) == {
        EVERYONE: MQSEC_QUEUE_GENERIC_WRITE,
        sid: MQSEC_QUEUE_GENERIC_ALL,
        machine: MQSEC_QUEUE_GENERIC_ALL,
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
def test_the_creator_of_a_site_owns_it(world, as_user) -> None:
    directory, sid = as_user
    name = world.name("site")
    directory.create(Site(name=name))
    found = descriptor(world, f"CN={name},{world.sites_dn}")
    assert found.owner == sid
    assert granted(found) == {EVERYONE: MQSEC_SITE_GENERIC_READ, sid: MQSEC_SITE_GENERIC_ALL}


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
def test_an_anonymous_owner_of_a_site_gets_no_rights(world) -> None:
    name = world.name("site")
    world.site(name, security=bytes(SecurityDescriptor.build(owner=ANONYMOUS)))
    assert granted(descriptor(world, f"CN={name},{world.sites_dn}")) == {EVERYONE: MQSEC_SITE_GENERIC_READ}


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
def test_what_else_a_descriptor_without_dacl_holds_is_kept(world) -> None:
    """Step 4.3: its SACL is copied; nothing is said of the group, and nothing is lost."""
    name = world.name("site")
    audit = [allow(EVERYONE, 1)]
    world.site(name, security=bytes(SecurityDescriptor.build(owner=OWNER, group=GROUP, sacl=audit)))
    found = descriptor(world, f"CN={name},{world.sites_dn}")
    assert found.group == GROUP
    assert found.sacl is not None
    assert list(found.sacl.aces) == audit
    assert granted(found)[OWNER] == MQSEC_SITE_GENERIC_ALL


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
def test_a_null_dacl_is_one_that_was_supplied(world) -> None:
    """Present and NULL: it lets everybody do everything, which somebody has asked for."""
    name = world.name("site")
    null = bytes.fromhex("0100048000000000000000000000000000000000")
    world.site(name, security=null)
    assert world.ldap.entry(f"CN={name},{world.sites_dn}")["nTSecurityDescriptor"] == [null]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.4")
def test_a_descriptor_that_is_not_listed_is_not_written(world) -> None:
    name = world.name("site")
    site = Site(name=name, security=bytes(SecurityDescriptor.build(owner=OWNER, dacl=[])))
    world.directory.create(site, attributes=["Name"])
    found = descriptor(world, f"CN={name},{world.sites_dn}")
    assert found.owner == world.creator
    assert granted(found) == {EVERYONE: MQSEC_SITE_GENERIC_READ} | {world.creator: MQSEC_SITE_GENERIC_ALL}


# -- what the list of attributes does to the rest -----------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_an_identifier_that_is_not_listed_is_not_used(world) -> None:
    computer = world.computer_of(world.queue_manager())
    old = uuid4()
    queue = Queue(pathname=f"{computer}\\q", identifier=old)
    assert world.directory.create(queue, attributes=["Pathname"]) != old


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.5")
def test_the_service_type_is_computed_from_all_roles_of_the_object(world) -> None:
    """[MS-MQDSSM] 3.1.6.1.1.5 asks whether they are populated, not whether they are listed."""
    computer = world.computer()
    manager = QueueManager(
        computer_name=computer, site_identifier_list=[], routing_server=True, remote_access_server=True
    )
    world.directory.create(manager, attributes=["SiteIdentifierList", "RoutingServer"])
    entry = world.ldap.entry(f"CN=msmq,{world.computer_dn(computer)}")
    assert entry["mSMQServiceType"] == [b"17"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
def test_one_text_is_no_list_of_attributes(world) -> None:
    with pytest.raises(TypeError, match="Label"):
        world.directory.write(Queue(label="x"), attributes="Label")


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
@pytest.mark.parametrize("pathname", ["pc\\q;sub", "pc\\a\\b", "pc\\", "pc\\" + "x" * 125, "pc"])
def test_path_names_of_no_queue_are_refused(world, pathname) -> None:
    with pytest.raises(ValueError):
        world.directory.create(Queue(pathname=pathname))
    assert not world.ldap.dns(world.root, "(objectClass=mSMQQueue)")


# -- which object -------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
def test_a_queue_of_another_program_under_its_raw_name_is_found(world) -> None:
    """Decision M7: look-up tries the form that Windows writes, then the raw one."""
    computer = world.computer_of(world.queue_manager())
    name = "r" * 10 + "/" + "r" * 60
    raw = list_rdn_candidates(name)[-1]
    assert raw != list_rdn_candidates(name)[0]
    dn = world.ldap.add(
        world.queue_dn(computer, raw.cn),
        {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQQueueNameExt": raw.extension},
    )
    world.directory.write(Queue(pathname=f"{computer}\\{name}", label="found"))
    assert world.ldap.entry(dn)["mSMQLabelEx"] == [b"found"]
    world.directory.delete(Queue(pathname=f"{computer}\\{name}"))
    assert not world.ldap.exists(dn)


@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_what_is_no_computer_is_not_taken_for_one(world) -> None:
    name = world.name("group")
    world.ldap.add(world.computer_dn(name), {"objectClass": "group"})
    with pytest.raises(mqdssm.ObjectNotFound, match="no computer"):
        world.directory.create(QueueManager(computer_name=name, site_identifier_list=[]))


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_a_distribution_list_is_a_group(world) -> None:
    guid = world.queue()
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.resolve_distribution_list(f"DL={guid}")


# -- settings and keys --------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_settings_without_qmid_leave_a_site_that_is_served_no_more(world) -> None:
    old, new = world.site(), world.site()
    guid = world.queue_manager(site_identifier_list=[old], routing_server=True)
    computer = world.computer_of(guid)
    place = world.settings_dn(world.site_name(old), computer)
    world.ldap.modify(place, "delete: mSMQQMID")
    world.directory.write(QueueManager(identifier=guid, site_identifier_list=[new]))
    assert not world.ldap.exists(place)
    assert world.ldap.exists(world.settings_dn(world.site_name(new), computer))


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.9")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.8")
def test_one_certificate_twice_has_one_digest(world) -> None:
    """LDAP refuses the same value twice in one attribute."""
    keys = registered("one", "one", "two")
    guid = world.queue_manager(public_signing_key_list=bytes(keys))
    entry = world.ldap.entry(world.computer_dn(world.computer_of(guid)))
    assert entry["mSMQSignCertificates"] == [bytes(keys)]
    assert sorted(entry["mSMQDigests"]) == sorted(set(keys.digests()))


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
def test_digests_that_are_given_are_written_as_they_are(world) -> None:
    dn, _ = world.user()
    user = world.directory.read(mqdssm.User, Filter("FullPath", "==", dn))
    keys, other = registered("one"), UUID(int=7)
    user.certificates, user.certificate_digest_list = bytes(keys), [other.bytes_le]
    world.directory.write(user)
    assert world.ldap.entry(dn)["mSMQDigests"] == [other.bytes_le]
