"""Create or write, by what exists (decision M118)."""

import threading

import pytest

import mqdssm
from mqdssm.events import create


def read(world, kind, name, value, **options):
    return world.directory.read(kind, mqdssm.Filter(name, "==", value), **options)


def test_a_queue_is_created_then_written(world) -> None:
    computer = world.computer()
    world.queue_manager(computer)
    queue = mqdssm.Queue(pathname=rf"{computer}\orders", label="one", quota=5, transactional=True)
    assert world.directory.upsert(queue)
    created = read(world, mqdssm.Queue, "Pathname", rf"{computer}\orders")
    again = mqdssm.Queue(pathname=rf"{computer}\orders", label="two", transactional=True)
    assert not world.directory.upsert(again)
    written = read(world, mqdssm.Queue, "Pathname", rf"{computer}\orders")
    assert (written.identifier, written.label, written.quota) == (created.identifier, "two", 5)
    assert not world.directory.upsert(written), "as it is"


def test_all_values_count_not_only_those_that_were_assigned(world) -> None:
    guid = world.queue(label="old", quota=5)
    queue = read(world, mqdssm.Queue, "Identifier", guid, attributes=["Identifier", "Label", "Quota"])
    world.directory.write(mqdssm.Queue(identifier=guid, label="theirs"))
    queue.unset("Quota")
    assert not world.directory.upsert(queue)
    found = read(world, mqdssm.Queue, "Identifier", guid)
    assert (found.label, found.quota) == ("old", mqdssm.Queue().quota)


def test_a_list_selects_what_is_stored(world) -> None:
    guid = world.queue(label="old", quota=5)
    queue = mqdssm.Queue(identifier=guid, label="new", quota=6)
    assert not world.directory.upsert(queue, attributes=["Label"])
    found = read(world, mqdssm.Queue, "Identifier", guid)
    assert (found.label, found.quota) == ("new", 5)


def test_what_only_a_create_can_store_must_be_as_it_is(world) -> None:
    guid = world.queue(label="old", transactional=False)
    queue = mqdssm.Queue(identifier=guid, label="new", transactional=True)
    with pytest.raises(mqdssm.GenericDirectoryError, match=r"Queue\.Transactional is False"):
        world.directory.upsert(queue)
    assert read(world, mqdssm.Queue, "Identifier", guid).label == "old"


def test_a_queue_manager_a_site_and_a_link(world) -> None:
    names = [world.name("site") for _ in range(2)]
    sites = [mqdssm.Site(name=name) for name in names]
    assert [world.directory.upsert(site) for site in sites] == [True, True]
    again = mqdssm.Site(name=names[0], intra_site_replication_interval=7)
    assert not world.directory.upsert(again)
    assert read(world, mqdssm.Site, "Name", names[0]).intra_site_replication_interval == 7
    computer = world.computer()
    manager = mqdssm.QueueManager(computer_name=computer, site_identifier_list=[sites[0].identifier])
    assert world.directory.upsert(manager)
    served = mqdssm.QueueManager(
        computer_name=computer,
        site_identifier_list=[site.identifier for site in sites],
        routing_server=True,
    )
    assert not world.directory.upsert(served)
    found = read(world, mqdssm.QueueManager, "ComputerName", computer)
    assert found.routing_server
    assert len(found.site_identifier_list) == 2
    ends = {"site1_identifier": sites[0].identifier, "site2_identifier": sites[1].identifier}
    assert world.directory.upsert(mqdssm.RoutingLink(actual_cost=3, **ends))
    assert not world.directory.upsert(mqdssm.RoutingLink(actual_cost=4, **ends))
    (link,) = world.directory.search(mqdssm.RoutingLink, mqdssm.Filter("ActualCost", "==", 4))
    assert link.site1_identifier == sites[0].identifier


def test_parents_and_kinds_are_those_of_a_create(world) -> None:
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.upsert(mqdssm.Queue(pathname=rf"{world.name('nobody')}\q"))
    with pytest.raises(mqdssm.GenericDirectoryError, match="Enterprise objects cannot be created or written"):
        world.directory.upsert(mqdssm.Enterprise(name="x"))


def test_another_object_of_that_name(world) -> None:
    guid = world.queue(label="theirs")
    other = read(world, mqdssm.Queue, "Identifier", guid)
    strange = mqdssm.Queue(
        pathname=other.pathname, identifier="5eefd5c9-3f2a-4b6c-9d8e-0123456789ab", label="ours"
    )
    with pytest.raises(mqdssm.ObjectAlreadyExists):
        world.directory.upsert(strange)
    assert read(world, mqdssm.Queue, "Identifier", guid).label == "theirs"


@pytest.mark.parametrize("kind", [mqdssm.Queue, mqdssm.QueueManager])
def test_another_program_creates_it_in_between(world, monkeypatch, kind) -> None:
    computer = world.computer()
    if kind is mqdssm.Queue:
        world.queue_manager(computer)
        make = lambda **values: mqdssm.Queue(pathname=rf"{computer}\q", **values)  # noqa: E731
    else:
        site = world.site()
        make = lambda **values: mqdssm.QueueManager(  # noqa: E731
            computer_name=computer, site_identifier_list=[site], **values
        )
    original, waiting = create.create_or_find, [make(journal_quota=1)]
    with world.connect() as second:

        def racing(*args):
            if waiting:
                second.create(waiting.pop())
            return original(*args)

        monkeypatch.setattr("mqdssm.events.upsert.create_or_find", racing)
        assert not world.directory.upsert(make(journal_quota=2))
    assert len(list(world.directory.search(kind, mqdssm.Filter("JournalQuota", "==", 2)))) == 1


def test_exactly_one_of_many_programs_creates_it(world) -> None:
    computer = world.computer()
    world.queue_manager(computer)
    created: list[bool] = []

    def program(number: int) -> None:
        with world.connect() as directory:
            created.append(directory.upsert(mqdssm.Queue(pathname=rf"{computer}\q", label=str(number))))

    threads = [threading.Thread(target=program, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(created) == [False] * 5 + [True]


def test_notices_say_what_happened(world) -> None:
    computer = world.computer()
    world.queue_manager(computer)
    notices: list[mqdssm.Notice] = []
    with world.connect(notify=notices.append) as directory:
        for label in ("one", "two"):
            directory.upsert(mqdssm.Queue(pathname=rf"{computer}\q", label=label))
    assert [(notice.operation.name, set(notice.changed)) for notice in notices] == [
        ("QUEUE_CREATION", set()),
        ("QUEUE_UPDATE", {"Label"}),
    ]
