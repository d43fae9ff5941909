"""An element stands for one object: after a create for the new one, never for two ([MS-MQDSSM] 3.1.6)."""

from uuid import UUID, uuid4

import pytest

import mqdssm
from mqdssm import Filter, Queue, QueueManager, RoutingLink, Site, User

MADE_BY_SERVERS = {
    "FullPath",
    "DirectoryPath",
    "CreateTime",
    "ModifyTime",
    "QualifiedPathname",
    "QualifiedComputerName",
    "Clustered",
    "OperatingSystemVersion",
}


def by_guid(world, kind, guid: UUID, attributes=None):
    return world.directory.read(kind, Filter("Identifier", "==", guid), attributes=attributes)


def stands_for(obj, guid: UUID) -> None:
    """The object says which one it is, and nothing that a server made before."""
    assert obj.identifier == guid
    assert not MADE_BY_SERVERS & obj.populated
    assert (obj.was_read, obj.assigned) == (True, frozenset())


# -- after a create -----------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
def test_a_copy_of_a_queue_is_the_new_queue(world) -> None:
    computer = world.computer_of(world.queue_manager())
    guid = world.queue(computer, "original", label="original")
    original = by_guid(world, Queue, guid)
    copied = original.model_copy(update={"pathname": f"{computer}\\copy"})
    del copied.identifier
    new = world.directory.create(copied)
    stands_for(copied, new)
    assert copied.pathname == f"{computer}\\copy"
    copied.label = "changed"
    world.directory.write(copied)
    assert by_guid(world, Queue, new, ["Label"]).label == "changed"
    world.directory.delete(copied)
    assert by_guid(world, Queue, guid) == original
    with pytest.raises(mqdssm.ObjectNotFound):
        by_guid(world, Queue, new)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
def test_a_copy_of_a_queue_manager_is_the_new_queue_manager(world) -> None:
    guid = world.queue_manager(journal_quota=1)
    queue = world.queue(world.computer_of(guid))
    copied = by_guid(world, QueueManager, guid)
    copied.computer_name = world.computer()
    del copied.identifier
    new = world.directory.create(copied)
    stands_for(copied, new)
    copied.journal_quota = 5
    world.directory.write(copied)
    quotas = {one: by_guid(world, QueueManager, one, ["JournalQuota"]).journal_quota for one in (guid, new)}
    assert quotas == {guid: 1, new: 5}
    world.directory.delete(copied, recursive=True)
    assert by_guid(world, Queue, queue).identifier == queue
    assert by_guid(world, QueueManager, guid).identifier == guid


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
def test_an_existing_queue_manager_is_the_one_that_the_object_stands_for(world) -> None:
    """Decision M4."""
    guid = world.queue_manager()
    again = QueueManager(computer_name=world.computer_of(guid), site_identifier_list=[], create_time=1)
    assert world.directory.create(again) == guid
    assert again.identifier == guid
    assert "CreateTime" not in again.populated
    assert again.assigned == {"SiteIdentifierList"}, "what was not stored does not count as written (M62)"


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.3.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.3.2")
def test_a_copy_of_a_site_is_the_new_site(world) -> None:
    guid = world.site()
    copied = by_guid(world, Site, guid)
    copied.name = world.name("copy")
    del copied.identifier
    new = world.directory.create(copied)
    stands_for(copied, new)
    copied.inter_site_replication_interval = 7
    world.directory.write(copied)
    world.directory.delete(copied)
    assert by_guid(world, Site, guid).inter_site_replication_interval != 7


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.4.2")
def test_a_new_routing_link_can_be_written_and_deleted(world) -> None:
    link = RoutingLink(site1_identifier=world.site(), site2_identifier=world.site(), actual_cost=3)
    guid = world.directory.create(link)
    stands_for(link, guid)
    link.actual_cost = 4
    world.directory.write(link)
    assert by_guid(world, RoutingLink, guid).actual_cost == 4
    world.directory.delete(link)
    assert not list(world.directory.search(RoutingLink))


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
def test_an_identifier_that_the_server_did_not_keep_is_the_original_one(world) -> None:
    """Decision M37; a copy does not inherit it."""
    brought = uuid4()
    queue = Queue(pathname=f"{world.computer_of(world.queue_manager())}\\q", identifier=brought)
    made = world.directory.create(queue)
    assert queue.identifier == made
    assert queue.original_identifier == (None if world.kind.keeps_guids else brought)
    copied = by_guid(world, Queue, made).model_copy(update={"pathname": f"{queue.pathname}2"})
    del copied.identifier
    world.directory.create(copied)
    assert copied.original_identifier is None


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.6")
def test_references_that_were_left_out_do_not_count_as_written(world) -> None:
    """Decision M62: the directory does not hold what the object says."""
    other, missing = world.queue_manager(), uuid4()
    manager = QueueManager(
        computer_name=world.computer(),
        site_identifier_list=[],
        out_routing_server_identifier_list=[other, missing],
        in_routing_server_identifier_list=[other],
    )
    world.directory.create(manager)
    assert manager.assigned == {"OutRoutingServerIdentifierList"}
    world.directory.write(manager)
    assert manager.assigned == {"OutRoutingServerIdentifierList"}
    manager.out_routing_server_identifier_list = [other]
    world.directory.write(manager)
    assert manager.assigned == frozenset()


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
def test_what_only_a_create_stores_is_not_forgotten_either(world) -> None:
    computer = world.computer_of(world.queue_manager())
    queue = Queue(pathname=f"{computer}\\q", transactional=True)
    world.directory.create(queue, attributes=["Pathname"])
    assert queue.assigned == {"Transactional"}
    with pytest.raises(mqdssm.GenericDirectoryError, match="Transactional"):
        world.directory.write(queue)


# -- keys that name two objects -----------------------------------------------------------------------


def named(world, kind) -> tuple[UUID, UUID]:
    """Two objects of a kind."""
    if kind is Queue:
        computer = world.computer_of(world.queue_manager())
        return world.queue(computer), world.queue(computer)
    if kind is QueueManager:
        return world.queue_manager(), world.queue_manager()
    if kind is Site:
        return world.site(), world.site()
    if kind is RoutingLink:
        here, there = world.site(), world.site()
        ends = [(here, there), (there, here)]
        one, other = (
            world.directory.create(RoutingLink(site1_identifier=a, site2_identifier=b, actual_cost=1))
            for a, b in ends
        )
        return one, other
    one, other = (world.directory.read(User, Filter("FullPath", "==", world.user()[0])) for _ in range(2))
    return one.identifier, other.identifier


WRITTEN = {Queue: "label", QueueManager: "queue_manager_version", RoutingLink: "description"}
PAIRS = [
    (Queue, "Identifier", "FullPath"),
    (Queue, "Identifier", "DirectoryPath"),
    (Queue, "Identifier", "Pathname"),
    (Queue, "FullPath", "Pathname"),
    (Queue, "FullPath", "DirectoryPath"),
    (Queue, "DirectoryPath", "Pathname"),
    (QueueManager, "Identifier", "FullPath"),
    (QueueManager, "Identifier", "ComputerName"),
    (QueueManager, "FullPath", "ComputerName"),
    (Site, "Identifier", "FullPath"),
    (Site, "Identifier", "Name"),
    (Site, "FullPath", "Name"),
    (RoutingLink, "Identifier", "FullPath"),
    (User, "Identifier", "FullPath"),
    (User, "Identifier", "SecurityIdentifier"),
    (User, "FullPath", "SecurityIdentifier"),
]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2")
@pytest.mark.parametrize(
    ("kind", "first", "second"), PAIRS, ids=[f"{k.__name__}-{a}-{b}" for k, a, b in PAIRS]
)
def test_keys_of_two_objects_name_neither(world, kind, first, second) -> None:
    one, other = (by_guid(world, kind, guid) for guid in named(world, kind))
    keys = {
        first: getattr(one, kind.field_name(first)),
        second: getattr(other, kind.field_name(second)),
    }
    mixed = kind(**keys)
    if kind in WRITTEN:
        setattr(mixed, WRITTEN[kind], "changed")
    events = [lambda: world.directory.write(mixed, attributes=[])]
    events += [] if kind is User else [lambda: world.directory.delete(mixed)]
    for event in events:
        with pytest.raises(mqdssm.GenericDirectoryError) as failed:
            event()
        for name, value in keys.items():
            assert f"{name} {value}" in str(failed.value)
        assert other.full_path in str(failed.value)
    assert by_guid(world, kind, one.identifier) == one
    assert by_guid(world, kind, other.identifier) == other
    # each of them alone says it
    for name, value in keys.items():
        world.directory.write(kind(**{name: value}), attributes=[])


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
def test_all_keys_of_one_object_are_one(world) -> None:
    """Spelt as other programs spell them."""
    guid = world.queue(name="x/y#" + "Z" * 100)
    queue = by_guid(world, Queue, guid)
    queue.pathname = queue.pathname.upper()
    queue.full_path = queue.full_path.replace("CN=", "cn = ").replace(",", " , ")
    queue.directory_path = f"ldap:///{queue.full_path.upper()}"
    queue.label = "found"
    world.directory.write(queue, attributes=["Label"])
    assert by_guid(world, Queue, guid, ["Label"]).label == "found"


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
def test_a_guid_of_nothing_is_not_replaced_by_a_name(world) -> None:
    """An object that was deleted and made anew is another one."""
    computer = world.computer_of(world.queue_manager())
    queue = by_guid(world, Queue, world.queue(computer, "q"))
    world.directory.delete(Queue(identifier=queue.identifier))
    again = world.queue(computer, "q")
    queue.label = "of the old one"
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.write(queue)
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.delete(queue)
    assert by_guid(world, Queue, again, ["Label"]).label == ""


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
def test_a_path_of_nothing_is_named(world) -> None:
    """Another program renamed the object meanwhile."""
    queue = by_guid(world, Queue, world.queue(name="before"))
    world.directory.session.rename(queue.full_path, "CN=after")
    queue.label = "x"
    with pytest.raises(mqdssm.GenericDirectoryError) as failed:
        world.directory.write(queue)
    assert f"FullPath {queue.full_path} is no object" in str(failed.value)
    assert "after" in str(failed.value.dn)
    queue = by_guid(world, Queue, queue.identifier)
    queue.label = "x"
    world.directory.write(queue)
    assert by_guid(world, Queue, queue.identifier).label == "x"
