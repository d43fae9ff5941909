"""Never the wrong object, never a value lost: what create, write and delete leave ([MS-MQDSSM] 3.1.6)."""

import logging
from uuid import UUID, uuid4

import pytest
from support.wire.certificates import registered

import mqdssm
from mqdssm import Filter, Queue, QueueManager, Site
from mqdssm.wire.dtyp import SecurityDescriptor


def by_guid(world, kind, guid: UUID, attributes=None):
    return world.directory.read(kind, Filter("Identifier", "==", guid), attributes=attributes)


def stored(world, guid: UUID) -> dict[str, list[bytes]]:
    escaped = "".join(f"\\{byte:02x}" for byte in guid.bytes_le)
    (entry,) = world.ldap.search(world.root, f"(objectGUID={escaped})").values()
    return entry


def settings(world) -> dict[str, dict[str, list[bytes]]]:
    return world.ldap.search(world.root, "(objectClass=mSMQSettings)")


def computer_elsewhere(
    world, name: str, *, with_msmq: UUID | None = None, taken: bool = False, **values: bytes
) -> str:
    """A computer in an organizational unit of its own, as administrators keep them; its DN.

    With `taken` another one has its account name.
    """
    unit = world.ldap.add(f"OU={world.name('unit')},{world.root}", {"objectClass": "organizationalUnit"})
    account = {} if taken else {"sAMAccountName": f"{name}$"}
    dn = world.ldap.add(
        f"CN={name},{unit}", {"objectClass": "computer", "objectGUID": uuid4().bytes_le} | account
    )
    if with_msmq is not None:
        world.ldap.add(
            f"CN=msmq,{dn}", {"objectClass": "mSMQConfiguration", "objectGUID": with_msmq.bytes_le} | values
        )
    return dn


# -- what was not sent is not forgotten (M45) ---------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_a_write_of_some_attributes_leaves_the_others_to_the_next_one(world) -> None:
    guid = world.queue(label="old", quota=1)
    queue = by_guid(world, Queue, guid)
    queue.label, queue.quota = "new", 9
    world.directory.write(queue, attributes=["Label"])
    assert stored(world, guid)["mSMQQueueQuota"] == [b"1"]
    world.directory.write(queue)
    assert stored(world, guid)["mSMQQueueQuota"] == [b"9"]
    assert queue.assigned == frozenset()


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_the_same_for_an_object_that_was_never_read(world) -> None:
    guid = world.queue()
    queue = Queue(identifier=guid, label="new", quota=9)
    world.directory.write(queue, attributes=["Label"])
    assert queue.assigned == {"Quota"}, "the key is no change"
    world.directory.write(queue)
    assert stored(world, guid)["mSMQQueueQuota"] == [b"9"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_a_write_that_failed_is_sent_again(world) -> None:
    guid = world.queue(label="old")
    queue = by_guid(world, Queue, guid)
    queue.label, queue.create_time = "new", 5
    with pytest.raises(mqdssm.GenericDirectoryError, match="CreateTime"):
        world.directory.write(queue)
    queue.unset("CreateTime")
    world.directory.write(queue)
    assert stored(world, guid)["mSMQLabelEx"] == [b"new"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
def test_a_create_of_some_attributes_leaves_the_others_to_a_write(world) -> None:
    computer = world.computer_of(world.queue_manager())
    queue = Queue(pathname=f"{computer}\\q", label="later", create_time=1)
    guid = world.directory.create(queue, attributes=["Pathname"])
    assert "mSMQLabelEx" not in stored(world, guid)
    assert queue.assigned == {"Label"}, "neither the key nor what the server makes"
    world.directory.write(queue)
    assert stored(world, guid)["mSMQLabelEx"] == [b"later"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
def test_what_an_existing_queue_manager_did_not_take_can_be_written(world) -> None:
    """Decision M47: its entry is not changed by a create, apart from its computer's keys."""
    guid = world.queue_manager()
    keys = registered("one")
    again = QueueManager(
        computer_name=world.computer_of(guid),
        site_identifier_list=[],
        journal_quota=7,
        public_signing_key_list=bytes(keys),
    )
    assert world.directory.create(again) == guid
    assert stored(world, guid).get("mSMQJournalQuota") is None
    assert world.ldap.entry(world.computer_dn(world.computer_of(guid)))["mSMQDigests"] == list(keys.digests())
    assert again.assigned == {"JournalQuota", "SiteIdentifierList"}
    world.directory.write(again)
    assert stored(world, guid)["mSMQJournalQuota"] == [b"7"]
    assert "mSMQSites" not in stored(world, guid)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
def test_bits_of_the_service_type_that_have_no_name_are_kept(world) -> None:
    """Decision M46."""
    guid = world.queue_manager(routing_server=True)
    dn = f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"
    world.ldap.modify(dn, "replace: mSMQServiceType\nmSMQServiceType: 69")  # 0x40, controller, routing
    world.directory.write(QueueManager(identifier=guid, remote_access_server=True))
    assert stored(world, guid)["mSMQServiceType"] == [b"85"]
    world.directory.write(QueueManager(identifier=guid, routing_server=False))
    assert stored(world, guid)["mSMQServiceType"] == [b"84"]
    world.directory.write(QueueManager(identifier=guid, directory_server=False))
    assert stored(world, guid)["mSMQServiceType"] == [b"80"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
def test_a_role_alone_is_enough_where_the_service_type_was_never_set(world) -> None:
    guid = uuid4()
    name = world.name("byhand")
    computer_elsewhere(world, name, with_msmq=guid, mSMQRoutingServices=b"TRUE")
    manager = by_guid(world, QueueManager, guid, ["Identifier", "RemoteAccessServer"])
    manager.remote_access_server = True
    world.directory.write(manager)
    assert stored(world, guid)["mSMQServiceType"] == [b"17"]
    assert stored(world, guid)["mSMQRoutingServices"] == [b"TRUE"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.7")
def test_a_reference_that_is_left_out_is_told(world, caplog) -> None:
    caplog.set_level(logging.WARNING)
    missing, other = uuid4(), uuid4()
    guid = world.queue_manager(in_routing_server_identifier_list=[missing])
    world.directory.write(QueueManager(identifier=guid, out_routing_server_identifier_list=[other]))
    assert str(missing) in caplog.text
    assert str(other) in caplog.text


# -- never the wrong object ---------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.5.1")
def test_sites_whose_names_only_look_alike_are_two(world) -> None:
    """The server tells ß from ss: a link to one of them never shows the other."""
    number = world.name("")
    one, two = world.site(f"Gasse{number}"), world.site(f"Gaße{number}")
    world.directory.create(mqdssm.RoutingLink(actual_cost=1, site1_identifier=one, site2_identifier=two))
    world.directory.create(mqdssm.RoutingLink(actual_cost=2, site1_identifier=two, site2_identifier=one))
    ends = {link.actual_cost: link.site1_identifier for link in world.directory.search(mqdssm.RoutingLink)}
    assert ends == {1: one, 2: two}


@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_computers_whose_names_only_look_alike_are_two(world) -> None:
    """What is remembered of one computer is never used for another one."""
    number = world.name("")
    plain, sharp = f"strasse{number}", f"straße{number}"
    for name in (plain, sharp):
        guid = uuid4()
        computer_elsewhere(world, name, with_msmq=guid)
        found = world.directory.read(QueueManager, Filter("ComputerName", "==", name))
        assert (found.identifier, found.computer_name) == (guid, name)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.3.2")
def test_the_enterprise_that_was_read_is_the_one_that_is_written(world) -> None:
    """[MS-MQDSSM] 2.2.3 allows no second one; where there is one, it is not mixed up with the first."""
    first = world.ldap.entry(world.services_dn)
    guid = uuid4()
    world.ldap.add(
        f"CN=Other,CN=Services,CN=Configuration,{world.root}",
        {"objectClass": "mSMQEnterpriseSettings", "objectGUID": guid.bytes_le},
    )
    (other,) = (one for one in world.directory.search(mqdssm.Enterprise) if one.identifier == guid)
    other.default_time_to_live = 77
    world.directory.write(other)
    assert world.ldap.entry(world.services_dn) == first
    assert stored(world, guid)["mSMQLongLived"] == [b"77"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
def test_an_object_that_was_renamed_is_found_by_its_guid(world) -> None:
    computer = world.computer_of(world.queue_manager())
    guid = world.queue(computer, "before")
    queue = by_guid(world, Queue, guid)
    world.directory.session.rename(queue.full_path, "CN=after")
    other = world.queue(computer, "before", label="other")
    queue.label = "mine"
    with pytest.raises(mqdssm.GenericDirectoryError, match="FullPath"):  # decision M89
        world.directory.write(queue)
    with pytest.raises(mqdssm.GenericDirectoryError, match="FullPath"):
        world.directory.delete(queue)
    assert "mSMQLabelEx" not in stored(world, guid)
    queue = by_guid(world, Queue, guid)
    queue.label = "mine"
    world.directory.write(queue)
    assert stored(world, other)["mSMQLabelEx"] == [b"other"]
    assert stored(world, guid)["mSMQLabelEx"] == [b"mine"]
    world.directory.delete(Queue(identifier=guid))
    assert stored(world, other)["mSMQLabelEx"] == [b"other"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
def test_a_name_that_reads_otherwise_is_not_the_queue(world) -> None:
    """A short name beside mSMQQueueNameExt, as no program should make it: it is read as another name."""
    computer = world.computer_of(world.queue_manager())
    dn = world.ldap.add(
        world.queue_dn(computer, "abc-0123abcd"),
        {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le, "mSMQQueueNameExt": "def"},
    )
    (queue,) = world.directory.search(Queue, attributes=["Pathname"])
    assert queue.pathname == f"{computer}\\abcdef"
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.delete(Queue(pathname=f"{computer}\\abc-0123abcd"))
    assert world.ldap.exists(dn)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
def test_a_sid_that_two_users_have_names_neither(world) -> None:
    (one, _), (two, _) = (world.user() for _ in range(2))
    sid = world.ldap.entry(one)["objectSid"][0]
    world.directory.session.modify(two, {"objectSid": [sid]})
    keys = registered("one")
    with pytest.raises(mqdssm.GenericDirectoryError, match="2 users"):
        world.directory.write(
            mqdssm.User(security_identifier=str(mqdssm.Sid.from_bytes(sid)), certificates=bytes(keys))
        )
    assert not any("mSMQSignCertificates" in world.ldap.entry(dn) for dn in (one, two))


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
def test_certificates_that_are_none_change_nothing(world) -> None:
    dn, _ = world.user()
    before = world.ldap.entry(dn)
    user = world.directory.read(mqdssm.User, Filter("FullPath", "==", dn))
    user.certificates, user.certificate_digest_list = b"\1\0\0\0x", [bytes(16)]
    with pytest.raises(mqdssm.DecodeError, match="MS-MQMQ"):
        world.directory.write(user)
    assert world.ldap.entry(dn) == before


class MyQueue(Queue):
    """A kind of the caller's own."""


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
@pytest.mark.parametrize("event", ["create", "delete", "write"])
@pytest.mark.parametrize("what", [MyQueue(pathname="pc\\q", label="x"), "pc\\q"], ids=["MyQueue", "str"])
def test_what_is_no_element_is_refused(world, event, what) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError, match=type(what).__name__):
        getattr(world.directory, event)(what)


# -- computers of one name, and computers made anew ---------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_settings_of_a_computer_of_the_same_name_are_left_alone(world) -> None:
    """Two computers of one name, in two domains or two units, would share one place in a site."""
    site = world.site()
    first = world.queue_manager(site_identifier_list=[site], routing_server=True)
    before = settings(world)
    second = uuid4()
    name = world.computer_of(first)
    computer_elsewhere(world, name, with_msmq=second, taken=True, mSMQSites=site.bytes_le)
    with pytest.raises(mqdssm.GenericDirectoryError, match="another queue manager") as failed:
        world.directory.write(QueueManager(identifier=second, supporting_server=True))
    assert world.computer_dn(name).lower() in failed.value.hint.lower()
    assert settings(world) == before
    world.directory.write(QueueManager(identifier=second, supporting_server=False))
    world.directory.write(QueueManager(identifier=second, site_identifier_list=[]))
    assert settings(world) == before
    world.directory.delete(QueueManager(identifier=second))
    assert settings(world) == before


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_settings_that_an_earlier_queue_manager_left_are_replaced(world) -> None:
    site, computer = world.site(), world.computer()
    first = world.queue_manager(computer, site_identifier_list=[site], routing_server=True)
    world.ldap.delete(f"CN=msmq,{world.computer_dn(computer)}")
    place = world.settings_dn(world.site_name(site), computer)
    world.ldap.modify(place, "add: mSMQMigrated\nmSMQMigrated: TRUE")
    old = world.ldap.entry(place)
    assert old["mSMQQMID"] == [first.bytes_le]
    second = world.queue_manager(computer, site_identifier_list=[site], supporting_server=True)
    new = world.ldap.entry(place)
    assert new["mSMQQMID"] == [second.bytes_le]
    assert new["mSMQDependentClientService"] == [b"TRUE"]
    assert not {"mSMQMigrated", "mSMQRoutingService"} & set(new)
    assert new["objectGUID"] != old["objectGUID"], "deleted and made anew"


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_a_computer_that_was_made_anew_gets_the_rights_of_its_new_sid(world) -> None:
    """It is remembered where it was; the descriptor must not be that of the computer that is gone."""
    computer = world.name("anew")
    world.computer(computer)
    world.queue_manager(computer, site_identifier_list=[])
    world.queue(computer, "q")
    old = world.ldap.entry(world.computer_dn(computer))
    world.ldap.delete(
        world.queue_dn(computer, "q"), f"CN=msmq,{world.computer_dn(computer)}", world.computer_dn(computer)
    )
    moved = computer_elsewhere(world, computer, with_msmq=uuid4())
    sid = mqdssm.Sid("S-1-5-21-7-7-7-7777")
    world.directory.session.modify(moved, {"objectSid": [bytes(sid)]})
    raw = stored(world, world.queue(computer, "q"))["nTSecurityDescriptor"][0]
    holders = {ace.sid for ace in SecurityDescriptor.from_bytes(raw).explicit_aces()}
    assert holders == {mqdssm.Sid("S-1-1-0"), sid, world.creator}  # M41: the owner, too
    assert mqdssm.Sid.from_bytes(old["objectSid"][0]) not in holders


# -- deletion -----------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.3.2")
def test_a_site_never_takes_its_servers_along(world) -> None:
    """On Active Directory these are the domain controllers."""
    name = world.name("site")
    guid = world.site(name)
    servers = world.ldap.add(f"CN=Servers,CN={name},{world.sites_dn}", {"objectClass": "serversContainer"})
    server = world.ldap.add(f"CN=DC1,{servers}", {"objectClass": "server"})
    for recursive in (False, True):
        with pytest.raises(mqdssm.GenericDirectoryError, match="1 object is") as failed:
            world.directory.delete(Site(identifier=guid), recursive=recursive)
        assert "recursive" not in failed.value.hint
    assert world.ldap.exists(server)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
def test_a_queue_manager_takes_its_queues_along_and_nothing_else(world) -> None:
    guid = world.queue_manager()
    computer = world.computer_of(guid)
    world.queue(computer, "q")
    other = world.ldap.add(world.queue_dn(computer, "other"), {"objectClass": "group"})
    with pytest.raises(mqdssm.GenericDirectoryError, match="1 object is"):
        world.directory.delete(QueueManager(identifier=guid), recursive=True)
    assert world.ldap.exists(other)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
def test_a_queue_that_is_added_during_the_deletion_goes_as_well(world, monkeypatch) -> None:
    guid = world.queue_manager()
    computer = world.computer_of(guid)
    world.queue(computer, "q")
    session = world.directory.session
    plain, late = session.delete, iter(["late1", "late2"])

    def delete(target: object) -> None:
        if name := next(late, None):
            world.ldap.add(
                world.queue_dn(computer, name), {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le}
            )
        plain(target)

    monkeypatch.setattr(session, "delete", delete)
    world.directory.delete(QueueManager(identifier=guid), recursive=True)
    assert not world.ldap.dns(world.root, "(objectClass=mSMQQueue)")
    assert not world.ldap.dns(world.root, "(objectClass=mSMQConfiguration)")


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.3")
def test_one_settings_object_that_resists_does_not_save_the_others(world) -> None:
    sites = [world.site(), world.site(), world.site()]
    guid = world.queue_manager(site_identifier_list=sites, routing_server=True)
    stuck = next(iter(settings(world)))
    world.ldap.add(f"CN=x,{stuck}", {"objectClass": "group"})
    with pytest.raises(mqdssm.GenericDirectoryError, match="queue manager was deleted, then") as failed:
        world.directory.delete(QueueManager(identifier=guid))
    assert failed.value.dn is not None
    assert failed.value.dn.lower() == stuck.lower()
    assert list(settings(world)) == [stuck]


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
def test_a_queue_manager_made_by_hand_without_guid_can_be_deleted(world) -> None:
    site, computer = world.site(), world.computer()
    servers = world.ldap.add(
        f"CN=Servers,CN={world.site_name(site)},{world.sites_dn}", {"objectClass": "serversContainer"}
    )
    world.ldap.add(f"CN={computer},{servers}", {"objectClass": "server"})
    place = world.ldap.add(
        world.settings_dn(world.site_name(site), computer),
        {"objectClass": "mSMQSettings", "mSMQServices": "1"},
    )
    dn = world.ldap.add(
        f"CN=msmq,{world.computer_dn(computer)}",
        {"objectClass": "mSMQConfiguration", "mSMQSites": site.bytes_le},
    )
    world.directory.delete(QueueManager(computer_name=computer))
    assert not world.ldap.exists(dn)
    assert not world.ldap.exists(place)
