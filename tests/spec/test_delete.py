"""Delete Directory Object ([MS-MQDSSM] 3.1.6.2)."""

from uuid import uuid4

import pytest

import mqdssm

NOT_FOUND = mqdssm.DirectoryOperationResult.OBJECT_NOT_FOUND


@pytest.mark.spec("MS-MQDSSM 3.1.6.2")
@pytest.mark.parametrize("kind", [mqdssm.Enterprise, mqdssm.User, mqdssm.ConnectedNetwork])
def test_other_kinds_cannot_be_deleted(world, kind) -> None:
    """Decision M44."""
    before = world.ldap.dns(world.root)
    with pytest.raises(mqdssm.GenericDirectoryError):
        world.directory.delete(kind(identifier=uuid4()))
    assert world.ldap.dns(world.root) == before


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.3.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.4.1")
@pytest.mark.parametrize("kind", [mqdssm.QueueManager, mqdssm.Queue, mqdssm.Site, mqdssm.RoutingLink])
def test_an_object_that_does_not_say_which_one_it_is(world, kind) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError, match="which object"):
        world.directory.delete(kind())


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
@pytest.mark.parametrize("name", ["short", "L" * 63, "L" * 64, "x/y#" + "z" * 120])
@pytest.mark.parametrize("key", ["Identifier", "FullPath", "Pathname"])
def test_a_queue_is_found_by_each_of_its_keys(world, key, name) -> None:
    """Decision M7: the same names as create computes, also when they are long."""
    computer = world.computer_of(world.queue_manager())
    other = world.queue(computer, "other")
    guid = world.queue(computer, name)
    read = world.directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
    doomed = mqdssm.Queue(**{key: getattr(read, mqdssm.Queue.field_name(key))})
    world.directory.delete(doomed)
    (left,) = world.ldap.search(world.root, "(objectClass=mSMQQueue)").values()
    assert left["objectGUID"] == [other.bytes_le]
    with pytest.raises(mqdssm.ObjectNotFound) as failed:
        world.directory.delete(doomed)
    assert failed.value.result is NOT_FOUND


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
def test_the_guid_counts_before_the_path(world) -> None:
    computer = world.computer_of(world.queue_manager())
    named, meant = world.queue(computer, "named"), world.queue(computer, "meant")
    dn = world.directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", meant)).full_path
    with pytest.raises(mqdssm.GenericDirectoryError) as failed:  # decision M89: neither is deleted
        world.directory.delete(mqdssm.Queue(pathname=f"{computer}\\named", identifier=meant))
    assert failed.value.dn == dn
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.delete(mqdssm.Queue(pathname=f"{computer}\\named", identifier=uuid4()))
    left = world.ldap.search(world.root, "(objectClass=mSMQQueue)").values()
    assert {tuple(one["objectGUID"]) for one in left} == {(named.bytes_le,), (meant.bytes_le,)}


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
def test_two_long_names_that_share_cn_are_not_mixed_up(world) -> None:
    """A hash collision in the first 64 characters: the extension decides which queue is meant."""
    computer = world.computer_of(world.queue_manager())
    world.queue(computer, "c" * 70)
    (dn,) = world.ldap.dns(world.root, "(objectClass=mSMQQueue)")
    world.ldap.modify(dn, "replace: mSMQQueueNameExt\nmSMQQueueNameExt: another-ending")
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.delete(mqdssm.Queue(pathname=f"{computer}\\{'c' * 70}"))
    assert world.ldap.exists(dn)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2")
def test_an_object_of_another_class_is_never_deleted(world) -> None:
    site = world.site()
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.delete(mqdssm.Queue(identifier=site))
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.delete(mqdssm.Queue(full_path=f"CN={world.site_name(site)},{world.sites_dn}"))
    assert world.ldap.exists(f"CN={world.site_name(site)},{world.sites_dn}")


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
@pytest.mark.parametrize("key", ["Identifier", "FullPath", "ComputerName"])
def test_a_queue_manager_and_its_settings_go(world, key) -> None:
    """Decision M42: roles and sites are read, not believed from the object that was passed."""
    sites = [world.site(), world.site()]
    guid = world.queue_manager(site_identifier_list=sites, routing_server=True)
    assert len(world.ldap.dns(world.root, "(objectClass=mSMQSettings)")) == 2
    read = world.directory.read(mqdssm.QueueManager, mqdssm.Filter("Identifier", "==", guid))
    world.directory.delete(mqdssm.QueueManager(**{key: getattr(read, mqdssm.QueueManager.field_name(key))}))
    assert not world.ldap.dns(world.root, "(objectClass=mSMQConfiguration)")
    assert not world.ldap.dns(world.root, "(objectClass=mSMQSettings)")
    assert world.ldap.exists(world.computer_dn(world.computer_of(guid)))


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.3")
def test_server_objects_of_ours_go_when_empty_and_those_of_others_stay(world) -> None:
    """Decisions M6 and M42."""
    ours, theirs = world.site(), world.site()
    computer = world.computer()
    servers = world.ldap.add(
        f"CN=Servers,CN={world.site_name(theirs)},{world.sites_dn}", {"objectClass": "serversContainer"}
    )
    server = world.ldap.add(f"CN={computer},{servers}", {"objectClass": "server"})
    guid = world.queue_manager(computer, site_identifier_list=[ours, theirs], directory_server=True)
    world.directory.delete(mqdssm.QueueManager(identifier=guid))
    assert world.ldap.exists(server)
    assert not world.ldap.exists(f"CN=Servers,CN={world.site_name(ours)},{world.sites_dn}")


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.3")
def test_a_site_that_is_gone_and_settings_that_are_gone_do_not_hinder(world) -> None:
    sites = [world.site(), world.site()]
    guid = world.queue_manager(site_identifier_list=[*sites, uuid4()], supporting_server=True)
    world.ldap.delete(world.settings_dn(world.site_name(sites[0]), world.computer_of(guid)))
    world.directory.delete(mqdssm.QueueManager(identifier=guid))
    assert not world.ldap.dns(world.root, "(objectClass=mSMQSettings)")


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.3")
def test_settings_of_a_site_that_is_no_longer_served_go_as_well(world) -> None:
    """They are found by mSMQQMID, whatever the site list says."""
    old, new = world.site(), world.site()
    guid = world.queue_manager(site_identifier_list=[old], routing_server=True)
    configuration = f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"
    world.ldap.delete(world.settings_dn(world.site_name(old), world.computer_of(guid)))
    servers = world.ldap.add(
        f"CN=Servers,CN={world.site_name(new)},{world.sites_dn}", {"objectClass": "serversContainer"}
    )
    server = world.ldap.add(f"CN=other,{servers}", {"objectClass": "server"})
    stray = world.ldap.add(
        f"CN=MSMQ Settings,{server}", {"objectClass": "mSMQSettings", "mSMQQMID": guid.bytes_le}
    )
    world.directory.delete(mqdssm.QueueManager(full_path=configuration))
    assert not world.ldap.exists(stray)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
def test_a_queue_manager_with_queues_stays_unless_told_otherwise(world) -> None:
    """Decision M23."""
    guid = world.queue_manager(routing_server=True)
    computer = world.computer_of(guid)
    for name in ("one", "two"):
        world.queue(computer, name)
    with pytest.raises(mqdssm.GenericDirectoryError, match="2 objects are") as failed:
        world.directory.delete(mqdssm.QueueManager(identifier=guid))
    assert failed.value.ldap_code == 66
    assert len(world.ldap.dns(world.root, "(objectClass=mSMQQueue)")) == 2
    assert len(world.ldap.dns(world.root, "(objectClass=mSMQSettings)")) == 1
    world.directory.delete(mqdssm.QueueManager(identifier=guid), recursive=True)
    for gone in ("mSMQQueue", "mSMQConfiguration", "mSMQSettings"):
        assert not world.ldap.dns(world.root, f"(objectClass={gone})")


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.3.2")
@pytest.mark.parametrize("key", ["Identifier", "FullPath", "Name"])
def test_a_site_is_found_by_each_of_its_keys(world, key) -> None:
    keep, guid = world.site(), world.site()
    read = world.directory.read(mqdssm.Site, mqdssm.Filter("Identifier", "==", guid))
    world.directory.delete(mqdssm.Site(**{key: getattr(read, mqdssm.Site.field_name(key))}))
    assert [site.identifier for site in world.search(mqdssm.Site)] == [keep]


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.4.2")
@pytest.mark.parametrize("key", ["Identifier", "FullPath"])
def test_a_routing_link_is_found_by_each_of_its_keys(world, key) -> None:
    one, two = world.site(), world.site()
    ends = [(one, two), (two, one)]
    keep, guid = (
        world.directory.create(mqdssm.RoutingLink(actual_cost=1, site1_identifier=a, site2_identifier=b))
        for a, b in ends
    )
    read = world.directory.read(mqdssm.RoutingLink, mqdssm.Filter("Identifier", "==", guid))
    world.directory.delete(mqdssm.RoutingLink(**{key: getattr(read, mqdssm.RoutingLink.field_name(key))}))
    assert [link.identifier for link in world.directory.search(mqdssm.RoutingLink)] == [keep]
