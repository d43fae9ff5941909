"""Write Directory: Queue, Enterprise, Site, RoutingLink, User ([MS-MQDSSM] 3.1.6.7.2-3.1.6.7.6)."""

from uuid import UUID, uuid4

import pytest
from support.wire.certificates import registered

import mqdssm
from mqdssm.wire.dtyp import SecurityDescriptor

DESCRIPTOR = bytes(SecurityDescriptor.build(owner=mqdssm.Sid("S-1-5-18"), dacl=[]))


def by_guid(world, kind, guid: UUID, attributes=None):
    return world.directory.read(kind, mqdssm.Filter("Identifier", "==", guid), attributes=attributes)


def entry_of(world, guid: UUID) -> dict[str, list[bytes]]:
    escaped = "".join(f"\\{byte:02x}" for byte in guid.bytes_le)
    (entry,) = world.ldap.search(world.root, f"(objectGUID={escaped})").values()
    return entry


# -- what a write sends (M45) -------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_only_what_was_assigned_since_the_read_is_sent(world) -> None:
    """Decision M45: defaults that were never stored are not written, nor is Security."""
    guid = world.queue(label="old")
    before = entry_of(world, guid)
    queue = by_guid(world, mqdssm.Queue, guid)
    queue.label = "new"
    world.directory.write(queue)
    assert entry_of(world, guid) == before | {"mSMQLabelEx": [b"new"]}
    trips = world.directory.session.round_trips
    world.directory.write(queue)
    assert world.directory.session.round_trips - trips <= 1, "nothing was assigned since"


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_an_object_that_was_not_read_sends_what_is_populated(world) -> None:
    guid = world.queue(label="old", quota=5)
    before = entry_of(world, guid)
    world.directory.write(mqdssm.Queue(identifier=guid, label="new"))
    assert entry_of(world, guid) == before | {"mSMQLabelEx": [b"new"]}


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_a_list_selects_what_is_sent(world) -> None:
    guid = world.queue(label="old", quota=5)
    before = entry_of(world, guid)
    queue = by_guid(world, mqdssm.Queue, guid)
    queue.label, queue.quota = "new", 9
    world.directory.write(queue, attributes=["Label"])
    assert entry_of(world, guid) == before | {"mSMQLabelEx": [b"new"]}


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
@pytest.mark.parametrize(
    ("change", "attributes", "named"),
    [
        ({"transactional": True}, None, "Transactional"),
        ({"create_time": 5}, None, "CreateTime"),
        ({"pathname": "pc\\other"}, None, "Pathname"),
        ({"label": "new"}, ["Label", "Identifier"], "Identifier"),
        ({"label": "new"}, ["Label", "Labell"], "Labell"),
        ({"label": "new"}, ["Label", "Scope"], "Scope"),
    ],
)
def test_what_cannot_be_written_is_named_and_nothing_is_sent(world, change, attributes, named) -> None:
    """Decision M45."""
    guid = world.queue(label="old")
    before = entry_of(world, guid)
    queue = by_guid(world, mqdssm.Queue, guid)
    queue.label = "new"
    for field, value in change.items():
        setattr(queue, field, value)
    with pytest.raises(mqdssm.GenericDirectoryError, match=named) as failed:
        world.directory.write(queue, attributes=attributes)
    assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
    assert entry_of(world, guid) == before


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_connected_networks_cannot_be_written(world) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError):
        world.directory.write(mqdssm.ConnectedNetwork(identifier=uuid4()))


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.4.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.1")
@pytest.mark.parametrize(
    "nobody",
    [
        mqdssm.Queue(label="x"),
        mqdssm.Site(foreign_site=True),
        mqdssm.RoutingLink(actual_cost=3),
        mqdssm.User(certificates=b""),
        mqdssm.QueueManager(journal_quota=3),
    ],
    ids=lambda obj: obj.element_name,
)
def test_an_object_that_does_not_say_which_one_it_is(world, nobody) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError, match="which object"):
        world.directory.write(nobody)


# -- Queue --------------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.4")
def test_every_writable_attribute_of_a_queue(world) -> None:
    guid, kind = world.queue(), uuid4()
    queue = by_guid(world, mqdssm.Queue, guid, ["Identifier"])
    queue.label, queue.type, queue.journaling, queue.quota = "L", kind, True, 0xFFFF_FFFF
    queue.journal_quota, queue.authentication, queue.privacy_level = 2, True, "None"
    queue.multicast_address, queue.base_priority, queue.security = "234.1.2.3:80", -1, DESCRIPTOR
    world.directory.write(queue)
    expected = {
        "mSMQLabelEx": [b"L"],
        "mSMQQueueType": [kind.bytes_le],
        "mSMQJournal": [b"TRUE"],
        "mSMQQueueQuota": [b"-1"],
        "mSMQQueueJournalQuota": [b"2"],
        "mSMQAuthenticate": [b"TRUE"],
        "mSMQPrivacyLevel": [b"0"],
        "MSMQ-MulticastAddress": [b"234.1.2.3:80"],
        "mSMQBasePriority": [b"-1"],
        "nTSecurityDescriptor": [DESCRIPTOR],
    }
    entry = entry_of(world, guid)
    assert {name: entry.get(name) for name in expected} == expected
    queue.label, queue.multicast_address = "", ""
    world.directory.write(queue)
    assert not {"mSMQLabelEx", "MSMQ-MulticastAddress"} & set(entry_of(world, guid))  # decision M38


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.5")
@pytest.mark.parametrize("name", ["short", "n" * 63, "n" * 64, "x/y#" + "z" * 120, "a" * 54 + "/" + "b" * 30])
@pytest.mark.parametrize("key", ["Identifier", "FullPath", "DirectoryPath", "Pathname"])
def test_a_queue_is_found_by_each_of_its_keys(world, key, name) -> None:
    """Decision M7: write computes the DN that create computed, and M15 for DirectoryPath."""
    computer = world.computer_of(world.queue_manager())
    other = world.queue(computer, "other", label="untouched")
    guid = world.queue(computer, name)
    value = getattr(by_guid(world, mqdssm.Queue, guid), mqdssm.Queue.field_name(key))
    world.directory.write(mqdssm.Queue(**{key: value, "Label": "written"}))
    assert entry_of(world, guid)["mSMQLabelEx"] == [b"written"]
    assert entry_of(world, other)["mSMQLabelEx"] == [b"untouched"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
def test_directory_paths_of_other_programs(world) -> None:
    """Decision M15: with a server's name, and with the third slash."""
    guid = world.queue()
    dn = by_guid(world, mqdssm.Queue, guid).full_path
    for number, path in enumerate((f"LDAP:///{dn}", f"LDAP://dc1.example.com/{dn}", f"ldap://{dn}")):
        world.directory.write(mqdssm.Queue(directory_path=path, label=f"L{number}"))
        assert entry_of(world, guid)["mSMQLabelEx"] == [f"L{number}".encode()]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
def test_the_guid_counts_first_and_other_classes_are_never_written(world) -> None:
    computer = world.computer_of(world.queue_manager())
    named, meant = world.queue(computer, "named"), world.queue(computer, "meant")
    dn = by_guid(world, mqdssm.Queue, meant).full_path
    with pytest.raises(mqdssm.GenericDirectoryError) as failed:  # decision M89: neither is written
        world.directory.write(mqdssm.Queue(pathname=f"{computer}\\named", identifier=meant, label="x"))
    assert failed.value.dn == dn
    for guid in (named, meant):
        assert "mSMQLabelEx" not in entry_of(world, guid)
    site = world.site()
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.write(mqdssm.Queue(identifier=site, label="x"))
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.write(mqdssm.Queue(identifier=uuid4(), label="x"))


# -- Enterprise ---------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.3.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.3.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.3.4")
@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ({"weakened_security": True}, {"mSMQNameStyle": [b"TRUE"]}),
        ({"weakened_security": False}, {"mSMQNameStyle": [b"FALSE"]}),
        ({"non_ldap_capable_queue_manager_notification": True}, {"mSMQCSPName": [b"Y"]}),
        ({"non_ldap_capable_queue_manager_notification": False}, {"mSMQCSPName": [b"N"]}),
        ({"default_time_to_live": 60}, {"mSMQLongLived": [b"60"]}),
        ({"old_directory": True}, {"mSMQVersion": [b"3"]}),
        ({"old_directory": False}, {"mSMQVersion": [b"200"]}),
        ({"security": DESCRIPTOR}, {"nTSecurityDescriptor": [DESCRIPTOR]}),
    ],
)
def test_the_enterprise(world, values, stored) -> None:
    world.directory.write(mqdssm.Enterprise(**values))
    entry = world.ldap.entry(world.services_dn)
    assert {name: entry.get(name) for name in stored} == stored


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.3.2")
def test_the_name_of_the_enterprise_cannot_be_written(world) -> None:
    enterprise = next(world.directory.search(mqdssm.Enterprise))
    enterprise.name = "other"
    with pytest.raises(mqdssm.GenericDirectoryError, match="Name"):
        world.directory.write(enterprise)


# -- Site ---------------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.4.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.4.3")
@pytest.mark.parametrize("key", ["Identifier", "Name", "FullPath"])
def test_every_writable_attribute_of_a_site(world, key) -> None:
    other, guid = world.site(), world.site()
    untouched = entry_of(world, other)
    value = getattr(by_guid(world, mqdssm.Site, guid), mqdssm.Site.field_name(key))
    site = mqdssm.Site(
        intra_site_replication_interval=4,
        inter_site_replication_interval=5,
        foreign_site=True,
        migrated_from_msmq10=True,
        security=DESCRIPTOR,
        **{key: value},
    )
    world.directory.write(site)
    expected = {
        "mSMQInterval1": [b"4"],
        "mSMQInterval2": [b"5"],
        "mSMQSiteForeign": [b"TRUE"],
        "mSMQNt4Stub": [b"1"],
        "nTSecurityDescriptor": [DESCRIPTOR],
    }
    entry = entry_of(world, guid)
    assert {name: entry.get(name) for name in expected} == expected
    assert entry_of(world, other) == untouched


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.4.1")
@pytest.mark.parametrize("name", ["PrimarySiteController", "PublicSigningKeyList", "PublicSigningKey"])
def test_a_site_has_no_controller_and_no_keys(world, name) -> None:
    """Decision M27."""
    site = by_guid(world, mqdssm.Site, world.site())
    with pytest.raises(mqdssm.GenericDirectoryError, match=name):
        world.directory.write(site, attributes=[name])


# -- RoutingLink --------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.6")
@pytest.mark.parametrize("key", ["Identifier", "FullPath"])
def test_every_writable_attribute_of_a_routing_link(world, key) -> None:
    one, two, three, four = (world.site() for _ in range(4))
    gate = world.queue_manager()
    guid = world.directory.create(
        mqdssm.RoutingLink(actual_cost=1, site1_identifier=one, site2_identifier=two)
    )
    value = getattr(by_guid(world, mqdssm.RoutingLink, guid), mqdssm.RoutingLink.field_name(key))
    link = mqdssm.RoutingLink(
        description="changed",
        actual_cost=77,
        site1_identifier=three,
        site2_identifier=four,
        site_gate_identifier_list=[uuid4(), gate],
        **{key: value},
    )
    world.directory.write(link)
    entry = entry_of(world, guid)
    assert entry["description"] == [b"changed"]
    assert entry["mSMQCost"] == [b"77"]
    for name, target in (("mSMQSite1", three), ("mSMQSite2", four), ("mSMQSiteGates", gate)):
        (dn,) = entry[name]
        assert world.ldap.entry(dn.decode())["objectGUID"] == [target.bytes_le], name


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.5")
@pytest.mark.parametrize("end", ["site1_identifier", "site2_identifier"])
def test_a_link_cannot_be_moved_to_a_site_that_is_not_there(world, end) -> None:
    one, two = world.site(), world.site()
    guid = world.directory.create(
        mqdssm.RoutingLink(actual_cost=1, site1_identifier=one, site2_identifier=two)
    )
    before = entry_of(world, guid)
    with pytest.raises(mqdssm.GenericDirectoryError, match="no site"):
        world.directory.write(mqdssm.RoutingLink(identifier=guid, actual_cost=2, **{end: uuid4()}))
    assert entry_of(world, guid) == before


# -- User ---------------------------------------------------------------------------------------------


def a_user(world) -> mqdssm.User:
    dn, _ = world.user()
    return world.directory.read(mqdssm.User, mqdssm.Filter("FullPath", "==", dn))


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.6")
@pytest.mark.parametrize("key", ["Identifier", "SecurityIdentifier"])
def test_certificates_and_digests_of_a_user(world, key) -> None:
    other, user = a_user(world), a_user(world)
    keys = registered("alice")
    value = getattr(user, mqdssm.User.field_name(key))
    world.directory.write(
        mqdssm.User(certificates=bytes(keys), certificate_digest_list=keys.digests(), **{key: value})
    )
    entry = world.ldap.entry(user.full_path)
    assert entry["mSMQSignCertificates"] == [bytes(keys)]
    assert entry["mSMQDigests"] == list(keys.digests())
    assert "mSMQDigests" not in world.ldap.entry(other.full_path)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.4")
def test_certificates_bring_their_digests_along(world) -> None:
    """Decision M21: the two attributes never fall apart."""
    user = a_user(world)
    for names in (("one", "two"), ("three",), ()):
        keys = registered(*names)
        user.certificates = bytes(keys)
        world.directory.write(user)
        entry = world.ldap.entry(user.full_path)
        assert sorted(entry.get("mSMQDigests", [])) == sorted(keys.digests())


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
def test_a_user_of_an_unknown_sid(world) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError, match="S-1-5-21-9-9-9-9"):
        world.directory.write(mqdssm.User(security_identifier="S-1-5-21-9-9-9-9", certificates=b""))


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
def test_a_computer_is_no_user(world) -> None:
    computer = world.computer()
    guid = UUID(bytes_le=world.ldap.entry(world.computer_dn(computer))["objectGUID"][0])
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.write(mqdssm.User(identifier=guid, certificates=b""))
