"""Read Directory ([MS-MQDSSM] 3.1.6.3), for every element."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.enterprises.hand_made import DESCRIPTOR, HandMade, Made

import mqdssm
from mqdssm import Enterprise, Filter, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.dn import DN
from mqdssm.tables import table_of

RESULT = mqdssm.DirectoryOperationResult
NEVER_UNSET = {"DirectoryServerType"}


@pytest.fixture
def made(world) -> HandMade:
    return HandMade(world.ldap, world.root)


def by_guid(guid) -> Filter:
    return Filter("Identifier", "==", guid)


def a_queue_manager(world, made) -> Made:
    return made.queue_manager(world.name("qm"), {"nTSecurityDescriptor": DESCRIPTOR})


def a_queue(world, made) -> Made:
    name = world.name("pc")
    made.queue_manager(name)
    return made.queue(name, world.name("q"), {"nTSecurityDescriptor": DESCRIPTOR})


def a_site(world, made) -> Made:
    return made.site(world.name("site"), {"nTSecurityDescriptor": DESCRIPTOR})


def a_link(world, made) -> Made:
    site = a_site(world, made)
    return made.link(site.dn, site.dn)


def a_user(world, made) -> Made:
    return made.user(world.name("ann"), {"objectSid": b"\x01\x01\0\0\0\0\0\x05\x07\0\0\0"})


def check_read(
    world, kind: type[mqdssm.DirectoryObject], make: Callable[[Any, HandMade], Made], *, ask: str
) -> None:
    """What the read of one kind has to do, whatever the kind.

    Args:
        world: the enterprise.
        kind: of the element.
        make: adds an object of that kind by hand.
        ask: one of its attributes.
    """
    made = HandMade(world.ldap, world.root)
    one, other = make(world, made), make(world, made)
    before = world.ldap.search(world.root, "(objectClass=*)", "*", "+")
    everything = set(table_of(kind).names())
    for wanted in (one, other):
        for target in (by_guid(wanted.guid), Filter("FullPath", "==", wanted.dn.upper())):
            whole = world.directory.read(kind, target)
            assert type(whole) is kind
            assert whole.identifier == wanted.guid
            assert DN.parse(whole.full_path) == DN.parse(wanted.dn)
            assert everything - whole.populated <= NEVER_UNSET
            some = world.directory.read(kind, target, attributes=[ask])
            assert some.populated == {ask}
            assert getattr(some, kind.field_name(ask)) == getattr(whole, kind.field_name(ask))
            assert world.directory.read(kind, target, attributes=[]).populated == set()  # decision M39
    stranger = world.ldap.entry(world.services_dn)["objectGUID"][0]
    for missing in (
        Filter("FullPath", "==", f"CN=nobody,{one.dn}"),
        Filter("FullPath", "==", world.services_dn),
        Filter("Identifier", "==", uuid4()),
        Filter("Identifier", "==", UUID(bytes_le=stranger)),
    ):
        with pytest.raises(mqdssm.ObjectNotFound) as failed:
            world.directory.read(kind, missing)
        assert failed.value.result is RESULT.OBJECT_NOT_FOUND
    assert world.ldap.search(world.root, "(objectClass=*)", "*", "+") == before  # nothing was modified


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.2.2")
def test_queue_manager(world) -> None:
    check_read(world, QueueManager, a_queue_manager, ask="QueueManagerQuota")


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.3.2")
def test_queue(world) -> None:
    check_read(world, Queue, a_queue, ask="Pathname")


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.5.2")
def test_site(world) -> None:
    check_read(world, Site, a_site, ask="Name")


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.6.2")
def test_routing_link(world) -> None:
    check_read(world, RoutingLink, a_link, ask="Site1Identifier")


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.7.2")
def test_user(world) -> None:
    check_read(world, User, a_user, ask="SecurityIdentifier")


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.4.2")
def test_enterprise(world) -> None:
    world.directory.session.modify(world.services_dn, {"nTSecurityDescriptor": [DESCRIPTOR]})
    found = world.directory.read(Enterprise, [])
    assert found.populated == set(table_of(Enterprise).names())
    again = world.directory.read(Enterprise, by_guid(found.identifier), attributes=["OldDirectory"])
    assert again.populated == {"OldDirectory"}
    assert again.old_directory is found.old_directory
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.read(Enterprise, by_guid(a_site(world, HandMade(world.ldap, world.root)).guid))


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.2.2")
@pytest.mark.parametrize(
    ("asked", "more"),
    [
        ("QualifiedComputerName", "FullPath"),
        ("PublicSigningKeyList", "FullPath"),
        ("OperatingSystemVersion", "FullPath"),
        ("Clustered", "FullPath"),
        ("DirectoryServerType", "DirectoryServer"),
    ],
)
def test_attributes_that_bring_another_one_along(world, made, asked, more) -> None:
    """Steps 2 and 3."""
    queue_manager = made.queue_manager(world.name("qm"), {"mSMQDsServices": "TRUE"})
    for target in (by_guid(queue_manager.guid), Filter("RoutingServer", "==", False)):
        found = world.directory.read(QueueManager, target, attributes=[asked])
        assert found.populated == {asked, more}


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.2.1")
@pytest.mark.parametrize("asked", [["ConnectedNetworkIdentifierList"], ["FullPath", "NoSuchName"]])
def test_queue_manager_attributes_that_no_directory_keeps(world, made, asked) -> None:
    queue_manager = a_queue_manager(world, made)
    for target in (by_guid(queue_manager.guid), Filter("RoutingServer", "==", False)):
        with pytest.raises(mqdssm.GenericDirectoryError, match=r"not kept|NoSuchName") as failed:
            world.directory.read(QueueManager, target, attributes=asked)
        assert failed.value.result is RESULT.GENERIC_ERROR


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.5.1")
@pytest.mark.parametrize("asked", ["PrimarySiteController", "PublicSigningKey", "PublicSigningKeyList"])
def test_site_attributes_that_no_directory_keeps(world, made, asked) -> None:
    """Decision M27: both spellings of the signing key."""
    site = a_site(world, made)
    for target in (by_guid(site.guid), Filter("ForeignSite", "==", False)):
        with pytest.raises(mqdssm.GenericDirectoryError, match=f"{asked} is not kept") as failed:
            world.directory.read(Site, target, attributes=["Name", asked])
        assert failed.value.result is RESULT.GENERIC_ERROR


@pytest.mark.spec("MS-MQDSSM 3.1.6.3")
def test_connected_networks_cannot_be_read(world) -> None:
    """Decision M44."""
    for target in (by_guid(world.site()), Filter("Name", "==", "net"), ()):
        with pytest.raises(mqdssm.GenericDirectoryError) as failed:
            world.directory.read(mqdssm.ConnectedNetwork, target)
        assert failed.value.result is RESULT.GENERIC_ERROR


@pytest.mark.spec("MS-MQDSSM 3.1.6.3")
def test_one_identifier_or_full_path_is_one_request(world, made) -> None:
    """The two forms of the table in step 1 are read directly."""
    queue = a_queue(world, made)
    for target in (by_guid(queue.guid), Filter("FullPath", "==", queue.dn)):
        before = world.directory.session.round_trips
        world.directory.read(Queue, target, attributes=["Label", "Quota", "Pathname"])
        assert world.directory.session.round_trips - before == 1


@pytest.mark.spec("MS-MQDSSM 3.1.6.3")
@pytest.mark.parametrize("sign", ["!=", "<", "<=", ">", ">="])
def test_other_operators_on_these_two_are_searched_for(world, made, sign) -> None:
    queues = [a_queue(world, made) for _ in range(2)]
    for name, values in (
        ("Identifier", [queue.guid for queue in queues]),
        ("FullPath", [queue.dn for queue in queues]),
    ):
        expected = [each.identifier for each in world.directory.search(Queue, Filter(name, sign, values[0]))]
        if expected:
            found = world.directory.read(Queue, Filter(name, sign, values[0]))
            assert found.identifier == expected[0]
        else:
            with pytest.raises(mqdssm.EndOfData):
                world.directory.read(Queue, Filter(name, sign, values[0]))


@pytest.mark.spec("MS-MQDSSM 3.1.6.3")
def test_all_filters_must_hold(world, made) -> None:
    name = world.name("pc")
    made.queue_manager(name)
    queues = [
        made.queue(name, f"q{i}", {"mSMQLabelEx": f"label {i % 2}", "mSMQQueueQuota": f"{i}"})
        for i in range(4)
    ]
    both = [Filter("Label", "==", "Label 1"), Filter("Quota", ">", 1)]
    assert world.directory.read(Queue, both).identifier == queues[3].guid
    for one in (by_guid(queues[3].guid), Filter("FullPath", "==", queues[3].dn)):
        assert world.directory.read(Queue, [one, *both]).identifier == queues[3].guid
        with pytest.raises(mqdssm.EndOfData):
            world.directory.read(Queue, [one, Filter("Quota", "<", 3)])
    with pytest.raises(mqdssm.EndOfData):
        world.directory.read(Queue, [by_guid(queues[3].guid), by_guid(queues[2].guid)])
    paths = [Filter("FullPath", "==", queue.dn) for queue in queues[:2]]
    with pytest.raises(mqdssm.EndOfData):
        world.directory.read(Queue, paths)
    assert world.directory.read(Queue, [paths[0], paths[0]]).identifier == queues[0].guid


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.1")
def test_a_search_for_one_ends_with_the_first(world, made) -> None:
    """Decision M18: the search is ended, whatever comes of it."""
    name = world.name("pc")
    made.queue_manager(name)
    made.add_many((f"CN=q{i},{made.machine_dn(name)}", "mSMQQueue", {}) for i in range(30))
    session = world.directory.session
    first = next(world.directory.search(Queue)).identifier
    with world.connect(page_size=5) as directory:
        assert directory.read(Queue, Filter("Journaling", "==", False)).identifier == first
        assert directory.read(Queue, []).identifier == first
        assert directory.session.references == 0
        with pytest.raises(mqdssm.EndOfData):
            directory.read(Queue, Filter("Journaling", "==", True))
        if not world.kind.makes_descriptors:
            with pytest.raises(mqdssm.GenericDirectoryError):
                directory.read(Queue, Filter("Journaling", "==", False), attributes=["Security"])
        assert directory.session.references == 0
    assert session.references == 0


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.1")
def test_a_search_for_one_that_finds_none(world) -> None:
    for kind, wanted in (
        (Queue, Filter("Label", "==", "nobody's")),
        (Queue, Filter("Pathname", "==", "nobody\\q")),
        (QueueManager, Filter("ComputerName", "==", "nobody")),
        (QueueManager, Filter("ComputerName", "==", "*)(objectClass=*")),
        (Site, Filter("Name", "==", "nowhere")),
        (User, Filter("SecurityIdentifier", "==", "S-1-5-32-544")),
    ):
        with pytest.raises(mqdssm.EndOfData) as failed:
            world.directory.read(kind, wanted)
        assert failed.value.result is RESULT.END_OF_DATA
        assert isinstance(failed.value, mqdssm.ObjectNotFound)


@pytest.mark.spec("MS-MQDSSM 3.1.6.3.1")
def test_a_search_for_one_that_cannot_begin(world) -> None:
    """Step 2: the status of Read Directory Begin is the status of the read."""
    world.site()
    with pytest.raises(mqdssm.GenericDirectoryError, match="no site"):
        world.directory.read(RoutingLink, Filter("Site1Identifier", "==", uuid4()))
    with pytest.raises(ValueError, match="Quota"):
        world.directory.read(Queue, Filter("Quota", "==", -1))


@pytest.mark.spec("MS-MQDSSM 3.1.6.3")
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (Queue, "Identifier", "no guid"),
        (Queue, "Identifier", None),
        (Queue, "FullPath", "no name"),
        (Queue, "FullPath", 5),
        (Queue, "Pathname", "no backslash"),
        (Queue, "Pathname", "pc\\private$\\q"),
        (Queue, "DirectoryPath", "http://x"),
        (Queue, "DirectoryPath", None),
        (Queue, "Quota", 2**32),
        (Queue, "Journaling", 1),
        (Queue, "PrivacyLevel", "Everything"),
        (Queue, "CreateTime", "yesterday"),
        (QueueManager, "ComputerName", 5),
        (QueueManager, "ComputerName", ""),
        (QueueManager, "SiteIdentifierList", "no guid"),
        (User, "SecurityIdentifier", "S-1"),
        (User, "CertificateDigestList", b"short"),
    ],
)
def test_values_that_an_attribute_cannot_have(world, kind, name, value) -> None:
    """Refused before anything is sent, by a read and by the beginning of a search."""
    before = world.directory.session.round_trips
    for sign in ("==", "!=", "<"):
        with pytest.raises(ValueError):
            world.directory.read(kind, Filter(name, sign, value))
        with pytest.raises(ValueError):
            world.directory.search(kind, [by_guid(uuid4()), Filter(name, sign, value)])
    assert world.directory.session.round_trips == before
