"""Create Directory Object: Queue ([MS-MQDSSM] 3.1.6.1.2)."""

from uuid import UUID, uuid4

import pytest

import mqdssm
from mqdssm.model.queuenames import hash_string
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import MQSEC_QUEUE_GENERIC_ALL, MQSEC_QUEUE_GENERIC_WRITE

GENERIC = mqdssm.DirectoryOperationResult.GENERIC_ERROR


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.2")
def test_every_attribute_is_stored_as_active_directory_stores_it(world) -> None:
    computer = world.computer_of(world.queue_manager())
    kind = uuid4()
    guid = world.directory.create(
        mqdssm.Queue(
            pathname=f"{computer}\\Orders",
            label="Aufträge",
            type=kind,
            journaling=True,
            quota=0xFFFF_FFFE,
            journal_quota=7,
            authentication=True,
            privacy_level=mqdssm.PrivacyLevel.BODY,
            transactional=True,
            multicast_address="234.1.2.3:8001",
            base_priority=-5,
        )
    )
    entry = world.ldap.entry(world.queue_dn(computer, "Orders"))
    assert entry.pop("nTSecurityDescriptor")
    assert entry == {
        "objectClass": [b"mSMQQueue"],
        "cn": [b"Orders"],
        "objectGUID": [guid.bytes_le],
        "mSMQLabelEx": ["Aufträge".encode()],
        "mSMQQueueType": [kind.bytes_le],
        "mSMQJournal": [b"TRUE"],
        "mSMQQueueQuota": [b"-2"],
        "mSMQQueueJournalQuota": [b"7"],
        "mSMQAuthenticate": [b"TRUE"],
        "mSMQPrivacyLevel": [b"2"],
        "mSMQTransactional": [b"TRUE"],
        "MSMQ-MulticastAddress": [b"234.1.2.3:8001"],
        "mSMQBasePriority": [b"-5"],
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_what_was_never_set_or_is_empty_is_not_written(world) -> None:
    guid = world.queue(name="bare", label="")
    found = world.ldap.search(world.root, "(&(objectClass=mSMQQueue)(cn=bare))")
    (entry,) = found.values()
    assert set(entry) == {"objectClass", "cn", "objectGUID", "nTSecurityDescriptor"}
    assert entry["objectGUID"] == [guid.bytes_le]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_a_list_of_attributes_selects_and_foreign_names_in_it_are_ignored(world) -> None:
    computer = world.computer_of(world.queue_manager())
    queue = mqdssm.Queue(pathname=f"{computer}\\q", label="kept", quota=5, create_time=1)
    world.directory.create(queue, attributes=["Pathname", "Label", "CreateTime", "Identifier"])
    entry = world.ldap.entry(world.queue_dn(computer, "q"))
    assert entry["mSMQLabelEx"] == [b"kept"]
    assert "mSMQQueueQuota" not in entry
    assert "whenCreated" not in entry


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.1")
@pytest.mark.parametrize(
    ("queue", "attributes"),
    [
        (mqdssm.Queue(label="no path"), None),
        (mqdssm.Queue(pathname="pc\\q", label="x"), ["Label"]),
        (mqdssm.Queue(pathname="pc\\q"), ["Pathname", "Scope"]),
    ],
    ids=["no Pathname", "Pathname not listed", "Scope"],
)
def test_broken_preconditions_are_generic_errors(world, queue, attributes) -> None:
    before = world.ldap.dns(world.root)
    with pytest.raises(mqdssm.GenericDirectoryError) as failed:
        world.directory.create(queue, attributes=attributes)
    assert failed.value.result is GENERIC
    assert world.ldap.dns(world.root) == before


@pytest.mark.spec("MS-MQDSSM 3.1.6.20.2")
@pytest.mark.parametrize("pathname", ["pc\\private$\\q", "pc\\system$;journal"])
def test_only_public_queues_are_stored(world, pathname) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError, match="public"):
        world.directory.create(mqdssm.Queue(pathname=pathname))


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.4")
@pytest.mark.parametrize(
    ("level", "stored"),
    [
        (mqdssm.PrivacyLevel.NONE, b"0"),
        (mqdssm.PrivacyLevel.OPTIONAL, b"1"),
        (mqdssm.PrivacyLevel.BODY, b"2"),
    ],
)
def test_privacy_levels(world, level, stored) -> None:
    computer = world.computer_of(world.queue_manager())
    world.queue(computer, "q", privacy_level=level)
    assert world.ldap.entry(world.queue_dn(computer, "q"))["mSMQPrivacyLevel"] == [stored]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
@pytest.mark.spec("MS-MQDSSM 2.2.5")
@pytest.mark.parametrize(
    ("name", "cn", "extension"),
    [
        ("a" * 63, "a" * 63, None),
        ("a" * 64, "a" * 55 + "-" + hash_string("a" * 64), "a" * 9),
        ("b" * 124, "b" * 55 + "-" + hash_string("b" * 124), "b" * 69),
        ("a/b#c<d>e=f", "a/b#c<d>e=f", None),
        # backslashes are inserted before length and hash are taken: 10 letters + slash + 60 letters
        (
            "c" * 10 + "/" + "c" * 60,
            "c" * 10 + "/" + "c" * 43 + "-" + hash_string("c" * 10 + "\\/" + "c" * 60),
            "c" * 17,
        ),
    ],
    ids=["63", "64", "124", "special characters", "special and long"],
)
def test_names_are_split_as_windows_splits_them(world, name, cn, extension) -> None:
    computer = world.computer_of(world.queue_manager())
    guid = world.queue(computer, name)
    (entry,) = world.ldap.search(world.root, "(objectClass=mSMQQueue)").values()
    assert entry["cn"] == [cn.encode()]
    assert entry.get("mSMQQueueNameExt") == (None if extension is None else [extension.encode()])
    queue = world.directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
    assert queue.pathname == f"{computer}\\{name}".lower()
    by_name = world.directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", f"{computer}\\{name}"))
    assert by_name.identifier == guid


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.12")
def test_missing_queue_manager_and_existing_queue(world) -> None:
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.create(mqdssm.Queue(pathname=f"{world.computer()}\\q"))
    with pytest.raises(mqdssm.ObjectNotFound, match="computer"):
        world.directory.create(mqdssm.Queue(pathname="nobody\\q"))
    computer = world.computer_of(world.queue_manager())
    first = world.queue(computer, "q", label="first")
    with pytest.raises(mqdssm.ObjectAlreadyExists):
        world.queue(computer, "Q", label="second")
    kept = world.directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", first))
    assert kept.label == "first"


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_a_queue_without_descriptor_gets_one_that_lets_nobody_else_receive(world) -> None:
    """Decision M41."""
    computer = world.computer_of(world.queue_manager())
    world.queue(computer, "q")
    raw = world.ldap.entry(world.queue_dn(computer, "q"))["nTSecurityDescriptor"][0]
    machine = world.ldap.entry(world.computer_dn(computer))["objectSid"][0]
    descriptor = SecurityDescriptor.from_bytes(raw)
    granted = {bytes(ace.sid): ace.mask for ace in descriptor.explicit_aces()}
    everyone = mqdssm.Sid("S-1-1-0")
    full = dict.fromkeys((machine, bytes(world.creator)), MQSEC_QUEUE_GENERIC_ALL)
    assert granted == {bytes(everyone): MQSEC_QUEUE_GENERIC_WRITE} | full
    assert descriptor.owner == world.creator


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_a_descriptor_that_is_given_is_kept_byte_for_byte(world) -> None:
    computer = world.computer_of(world.queue_manager())
    given = bytes(SecurityDescriptor.build(owner=mqdssm.Sid("S-1-5-18"), dacl=[]))
    world.queue(computer, "q", security=given)
    assert world.ldap.entry(world.queue_dn(computer, "q"))["nTSecurityDescriptor"] == [given]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_a_guid_that_the_object_brings_is_kept_once(world) -> None:
    """Decision M37: OpenLDAP takes the old GUID; a second object cannot have it."""
    computer = world.computer_of(world.queue_manager())
    old = UUID("5eefd5c9-1111-4222-8333-444455556666")
    assert world.queue(computer, "first", identifier=old) == old
    assert world.ldap.entry(world.queue_dn(computer, "first"))["objectGUID"] == [old.bytes_le]
    with pytest.raises(mqdssm.ObjectAlreadyExists):
        world.queue(computer, "second", identifier=old)
    assert not world.ldap.exists(world.queue_dn(computer, "second"))


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
@pytest.mark.parametrize("kind", [mqdssm.Enterprise, mqdssm.User, mqdssm.ConnectedNetwork])
def test_other_kinds_cannot_be_created(world, kind) -> None:
    """Decision M44."""
    with pytest.raises(mqdssm.GenericDirectoryError) as failed:
        world.directory.create(kind())
    assert failed.value.result is GENERIC


@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_a_computer_that_was_moved_is_found(world) -> None:
    """Decision M16: first where 2.2.1 says, then by one search."""
    world.ldap.add(f"OU=Lab{world.name()},{world.root}", {"objectClass": "organizationalUnit"})
    (unit,) = world.ldap.dns(world.root, "(ou=Lab*)")
    computer = world.name("moved")
    world.ldap.add(
        f"CN={computer},{unit}",
        {"objectClass": "computer", "objectGUID": uuid4().bytes_le, "sAMAccountName": f"{computer}$"},
    )
    manager = world.queue_manager(computer)
    guid = world.queue(computer, "q")
    queue = world.directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", f"{computer}\\q"))
    assert queue.identifier == guid
    assert queue.full_path.lower() == f"cn=q,cn=msmq,cn={computer},{unit}".lower()
    assert world.directory.read(
        mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", computer)
    ).identifier == (manager)


@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_two_computers_of_one_name_are_an_error(world) -> None:
    computer = world.name("twin")
    for part in ("A", "B"):
        unit = world.ldap.add(f"OU={part}{computer},{world.root}", {"objectClass": "organizationalUnit"})
        world.ldap.add(f"CN={computer},{unit}", {"objectClass": "computer", "objectGUID": uuid4().bytes_le})
    with pytest.raises(mqdssm.GenericDirectoryError, match="2 computers"):
        world.directory.create(mqdssm.Queue(pathname=f"{computer}\\q"))
