"""Create ADM Element From LDAP Values: Queue ([MS-MQDSSM] 3.1.6.11.2), from entries made by hand."""

import logging
from uuid import UUID, uuid4

import pytest
from support.enterprises.hand_made import CREATED, CREATED_S, DESCRIPTOR, HandMade

import mqdssm
from mqdssm import PrivacyLevel, Queue
from mqdssm.events.attribute_plan import computer_of
from mqdssm.model.dn import DN


@pytest.fixture
def made(world) -> HandMade:
    return HandMade(world.ldap, world.root)


@pytest.fixture
def computer(world, made) -> str:
    """A computer with a queue manager; upper-case letters in its name."""
    name = world.name("Web")
    made.queue_manager(name)
    return name


def by_guid(guid) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
def test_every_attribute_of_a_queue_made_by_hand(world, made, computer) -> None:
    kind = uuid4()
    queue = made.queue(
        computer,
        "Orders",
        {
            "whenCreated": CREATED,
            "mSMQLabelEx": "Aufträge",
            "mSMQQueueType": kind.bytes_le,
            "mSMQJournal": "TRUE",
            "mSMQQueueQuota": "-2",
            "mSMQQueueJournalQuota": "7",
            "mSMQAuthenticate": "TRUE",
            "mSMQPrivacyLevel": "2",
            "mSMQTransactional": "TRUE",
            "MSMQ-MulticastAddress": "234.1.2.3:8001",
            "mSMQBasePriority": "-5",
            "nTSecurityDescriptor": DESCRIPTOR,
        },
    )
    expected = {
        "Identifier": queue.guid,
        "Label": "Aufträge",
        "CreateTime": world.created(queue.dn),
        "Type": kind,
        "Pathname": f"{computer}\\orders".lower(),
        "QualifiedPathname": f"{computer}.example.com\\orders".lower(),
        "Journaling": True,
        "Quota": 0xFFFF_FFFE,
        "JournalQuota": 7,
        "Authentication": True,
        "PrivacyLevel": PrivacyLevel.BODY,
        "Transactional": True,
        "MulticastAddress": "234.1.2.3:8001",
        "Security": DESCRIPTOR,
        "BasePriority": -5,
    }
    for found in (
        world.directory.read(Queue, by_guid(queue.guid)),
        world.directory.read(Queue, mqdssm.Filter("Label", "==", "aufträge")),
        next(world.directory.search(Queue)),
    ):
        values = world.values(found)
        path = values.pop("FullPath")
        assert path.lower() == queue.dn.lower()
        assert values.pop("DirectoryPath") == f"LDAP://{path}"  # decision M15
        assert values.pop("ModifyTime") > CREATED_S
        assert values == expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
def test_a_bare_queue_has_the_defaults(world, made, computer) -> None:
    """The right-hand column of the table; decisions M38 and M41."""
    queue = made.queue(computer, "bare")
    found = world.values(world.directory.read(Queue, by_guid(queue.guid)))
    for name in ("CreateTime", "ModifyTime", "FullPath", "DirectoryPath", "QualifiedPathname"):
        assert found.pop(name)
    assert found == {
        "Identifier": queue.guid,
        "Label": "",
        "Type": UUID(int=0),
        "Pathname": f"{computer}\\bare".lower(),
        "Journaling": False,
        "Quota": 0xFFFF_FFFF,
        "JournalQuota": 0xFFFF_FFFF,
        "Authentication": False,
        "PrivacyLevel": PrivacyLevel.OPTIONAL,
        "Transactional": False,
        "MulticastAddress": "",
        "BasePriority": 0,
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
@pytest.mark.parametrize("way", ["Identifier", "Label"])
def test_security_must_be_there_when_asked_for_by_name(world, made, computer, way) -> None:
    """Decision M41: OpenLDAP makes no descriptor; the objects of others must still be readable."""
    queue = made.queue(computer, "bare", {"mSMQLabelEx": "bare"})
    wanted = mqdssm.Filter(way, "==", queue.guid if way == "Identifier" else "bare")
    with pytest.raises(mqdssm.GenericDirectoryError, match="Security"):
        world.directory.read(Queue, wanted, attributes=["Label", "Security"])
    (found,) = world.directory.search(Queue, wanted, attributes=["Label", "Security"])
    assert found.populated == {"Label"}


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
def test_an_error_for_one_queue_is_none_for_another(world, made, computer) -> None:
    """A read that searches judges what it found, not what it passed on the way."""
    made.queue(computer, "a", {"mSMQQueueType": b"short", "mSMQQueueQuota": "1"})
    good = made.queue(computer, "b", {"mSMQQueueQuota": "2", "nTSecurityDescriptor": DESCRIPTOR})
    found = world.directory.read(Queue, mqdssm.Filter("Quota", ">", 1), attributes=["Security", "Type"])
    assert (found.security, found.type) == (DESCRIPTOR, UUID(int=0))
    assert found == world.directory.read(Queue, by_guid(good.guid), attributes=["Security", "Type"])
    with pytest.raises(mqdssm.GenericDirectoryError, match="Type"):
        world.directory.read(Queue, mqdssm.Filter("Quota", "<", 2), attributes=["Type"])


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
@pytest.mark.parametrize(
    ("ldap_name", "damage", "attribute"),
    [
        ("mSMQQueueType", b"fifteen bytes..", "Type"),
        ("mSMQQueueQuota", "4294967296", "Quota"),
        ("mSMQBasePriority", "2147483648", "BasePriority"),
        ("objectGUID", None, "Identifier"),
        ("objectGUID", b"seventeen bytes..", "Identifier"),
    ],
)
def test_damage_is_an_error_of_a_read_and_a_gap_in_a_list(
    world, made, computer, caplog, ldap_name, damage, attribute
) -> None:
    queue = made.queue(computer, "damaged", {ldap_name: damage})
    with pytest.raises(mqdssm.GenericDirectoryError, match=attribute) as failed:
        world.directory.read(Queue, mqdssm.Filter("FullPath", "==", queue.dn))
    assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
    assert failed.value.dn.lower() == queue.dn.lower()
    with caplog.at_level(logging.WARNING, logger="mqdssm"):
        (found,) = world.directory.search(Queue)
    assert not found.is_populated(attribute)
    assert found.pathname == f"{computer}\\damaged".lower()
    assert attribute in caplog.text


STEM = "Abc" * 18 + "D"  # 55 characters


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.2")
@pytest.mark.parametrize(
    ("cn", "extension", "name"),
    [
        ("Orders", None, "orders"),
        (f"{STEM}-0a1b2c3d", "Rest", f"{STEM}rest".lower()),
        (f"{STEM}-0a1b2c3d", "r\\/e\\=st", f"{STEM}r/e=st".lower()),
        (f"{STEM}-0a1b2c3d", None, f"{STEM}-0a1b2c3d".lower()),
        (f"{STEM}-no hash!", "Rest", f"{STEM}-no hash!".lower()),
        ("x\\, y\\+z", None, "x, y+z"),
        ("\\23hash\\22 \\C3\\84", None, '#hash" ä'),
    ],
    ids=["plain", "long", "backslashes", "no extension", "no hash", "DN escapes", "hexadecimal escapes"],
)
def test_path_names_out_of_the_dn_and_the_extension(world, made, computer, cn, extension, name) -> None:
    """Decision M7."""
    queue = made.queue(computer, cn, {"mSMQQueueNameExt": extension})
    found = world.directory.read(Queue, by_guid(queue.guid), attributes=["Pathname", "QualifiedPathname"])
    assert found.pathname == f"{computer.lower()}\\{name}"
    assert found.qualified_pathname == f"{computer.lower()}.example.com\\{name}"
    assert found.populated == {"Pathname", "QualifiedPathname"}
    (listed,) = world.directory.search(Queue, attributes=["QualifiedPathname", "Pathname"])
    assert listed == found


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
def test_qualified_path_name_is_empty_without_dns_name(world, made) -> None:
    """Step 5 of 3.1.6.11.2, decision M26."""
    name = world.name("nodns")
    made.queue_manager(name, dNSHostName=None)
    queue = made.queue(name, "q")
    for attributes in (None, ["QualifiedPathname"]):
        found = world.directory.read(Queue, by_guid(queue.guid), attributes=attributes)
        assert found.is_populated("QualifiedPathname")
        assert found.qualified_pathname == ""


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
@pytest.mark.parametrize("cn", ["q", "x\\, y", "x\\2C y", '"x, y"', "x\\\\"])
def test_the_computer_of_a_queue_however_the_server_writes_its_dn(cn) -> None:
    """Step 4; decision M36: slapd writes ``\\2C`` where Active Directory writes ``\\,``."""
    computer = DN.parse("CN=pc,CN=Computers,DC=example,DC=com")
    assert DN.parse(computer_of(f"CN={cn},CN=msmq,{computer}", 2)) == computer
    assert DN.parse(computer_of(f"CN=msmq,{computer}", 1)) == computer


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.3")
@pytest.mark.parametrize(
    ("stored", "expected"),
    [("0", PrivacyLevel.NONE), ("1", PrivacyLevel.OPTIONAL), ("2", PrivacyLevel.BODY)],
)
def test_privacy_levels(world, made, computer, stored, expected) -> None:
    queue = made.queue(computer, "q", {"mSMQPrivacyLevel": stored})
    assert world.directory.read(Queue, by_guid(queue.guid)).privacy_level is expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.3")
def test_a_number_that_is_no_privacy_level(world, made, computer) -> None:
    queue = made.queue(computer, "q", {"mSMQPrivacyLevel": "3"})
    with pytest.raises(mqdssm.GenericDirectoryError, match="PrivacyLevel"):
        world.directory.read(Queue, by_guid(queue.guid))


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("0", 0),
        ("2147483647", 2**31 - 1),
        ("-2147483648", 2**31),
        ("-1", 2**32 - 1),
        ("4294967295", 2**32 - 1),
    ],
)
def test_quotas_are_unsigned(world, made, computer, stored, expected) -> None:
    """Decision M11."""
    queue = made.queue(computer, "q", {"mSMQQueueQuota": stored, "mSMQQueueJournalQuota": stored})
    found = world.directory.read(Queue, by_guid(queue.guid))
    assert (found.quota, found.journal_quota) == (expected, expected)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
def test_many_queues_of_many_computers_in_a_handful_of_requests(world, made) -> None:
    names = [world.name("host") for _ in range(40)]
    made.add_many((made.computer_dn(name), "computer", {"dNSHostName": f"{name}.x"}) for name in names)
    made.add_many((made.machine_dn(name), "mSMQConfiguration", {}) for name in names)
    made.add_many((f"CN=q{i},{made.machine_dn(name)}", "mSMQQueue", {}) for name in names for i in range(3))
    before = world.directory.session.round_trips
    found = {queue.qualified_pathname for queue in world.directory.search(Queue)}
    assert world.directory.session.round_trips - before <= 2  # the queues, their computers
    assert found == {f"{name}.x\\q{i}" for name in names for i in range(3)}
