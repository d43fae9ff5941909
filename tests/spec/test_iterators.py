"""Read Directory Begin, Next and End ([MS-MQDSSM] 3.1.6.4-3.1.6.6) and their state (3.1.1.2, 3.1.1.3)."""

from collections.abc import Iterator
from threading import Thread

import pytest
from support.enterprises.hand_made import HandMade

import mqdssm
from mqdssm import Filter, Queue, QueueManager, Site, SortKey
from mqdssm.events.iterators import Iterators

RESULT = mqdssm.DirectoryOperationResult


@pytest.fixture
def queues(world) -> list[str]:
    """Path names of ten queues."""
    made = HandMade(world.ldap, world.root)
    name = world.name("pc")
    made.queue_manager(name)
    made.add_many(
        (f"CN=q{i},{made.machine_dn(name)}", "mSMQQueue", {"mSMQQueueQuota": str(100 - i)}) for i in range(10)
    )
    return [f"{name}\\q{i}" for i in range(10)]


def rest_of(directory: mqdssm.Directory, handle: int) -> list[mqdssm.DirectoryObject]:
    found = []
    while True:
        try:
            found.append(directory.read_next(handle))
        except mqdssm.EndOfData:
            return found


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
def test_an_iteration_gives_what_a_search_gives(world, queues) -> None:
    arguments = {"attributes": ["Pathname", "Quota"], "sort": SortKey("Quota")}
    wanted = Filter("Quota", "<", 96)
    handle = world.directory.read_begin(Queue, wanted, **arguments)
    found = rest_of(world.directory, handle)
    assert found == list(world.directory.search(Queue, wanted, **arguments))
    assert [queue.pathname for queue in found] == queues[:4:-1]
    assert {queue.populated for queue in found} == {frozenset({"Pathname", "Quota"})}
    world.directory.read_end(handle)


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
def test_after_the_last_object_there_is_no_more_data(world, queues) -> None:
    handle = world.directory.read_begin(Queue)
    assert len(rest_of(world.directory, handle)) == len(queues)
    for _ in range(3):
        with pytest.raises(mqdssm.EndOfData) as failed:
            world.directory.read_next(handle)
        assert failed.value.result is RESULT.END_OF_DATA
    world.directory.read_end(handle)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_nothing_found_is_an_iterator_without_objects(world, queues) -> None:
    handle = world.directory.read_begin(Queue, Filter("Label", "==", "nobody's"))
    with pytest.raises(mqdssm.EndOfData):
        world.directory.read_next(handle)
    world.directory.read_end(handle)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_connected_networks_and_failures_begin_no_iterator(world) -> None:
    for begin in (
        lambda: world.directory.read_begin(mqdssm.ConnectedNetwork),
        lambda: world.directory.read_begin(QueueManager, attributes=["ConnectedNetworkIdentifierList"]),
        lambda: world.directory.read_begin(Site, attributes=["PublicSigningKey"]),
        lambda: world.directory.read_begin(Queue, sort=SortKey("Scope")),
    ):
        with pytest.raises(mqdssm.GenericDirectoryError) as failed:
            begin()
        assert failed.value.result is RESULT.GENERIC_ERROR
    with pytest.raises(ValueError, match="Quota"):
        world.directory.read_begin(Queue, Filter("Quota", "==", -1))
    assert len(world.directory._iterators) == 0


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_a_search_that_fails_fails_when_it_begins(world, queues) -> None:
    world.directory.session.close()
    with pytest.raises(mqdssm.DirectoryError):
        world.directory.read_begin(Queue)
    assert len(world.directory._iterators) == 0


@pytest.mark.spec("MS-MQDSSM 3.1.1.2")
@pytest.mark.spec("MS-MQDSSM 3.1.1.3")
def test_each_iterator_has_its_own_handle_type_attributes_and_results(world, queues) -> None:
    directory = world.directory
    handles = [
        directory.read_begin(Queue, attributes=["Pathname"], sort=SortKey("Pathname")),
        directory.read_begin(Queue, attributes=["Quota"], sort=SortKey("Quota")),
        directory.read_begin(QueueManager, attributes=["ComputerName"]),
        directory.read_begin(Queue, attributes=["Pathname"], sort=SortKey("Pathname")),
    ]
    assert len(set(handles)) == len(handles) == len(directory._iterators)
    first = [directory.read_next(handle) for handle in handles]
    assert [type(each) for each in first] == [Queue, Queue, QueueManager, Queue]
    assert [set(each.populated) for each in first] == [
        {"Pathname"},
        {"Quota"},
        {"ComputerName"},
        {"Pathname"},
    ]
    assert first[0] == first[3]
    assert directory.read_next(handles[0]).pathname == queues[1]  # the others do not move it
    assert directory.read_next(handles[1]).quota == 92
    assert directory.read_next(handles[3]).pathname == queues[1]
    directory.read_end(handles[1])
    assert len(directory._iterators) == 3
    again = directory.read_begin(Queue)
    assert again not in handles  # never one that was used before
    assert directory.read_next(handles[0]).pathname == queues[2]
    for handle in (handles[0], *handles[2:], again):
        directory.read_end(handle)
    assert len(directory._iterators) == 0


@pytest.mark.spec("MS-MQDSSM 3.1.1.3")
def test_handles_belong_to_one_directory(world, queues) -> None:
    handle = world.directory.read_begin(Queue)
    with world.connect() as other, pytest.raises(mqdssm.GenericDirectoryError):
        other.read_next(handle)
    assert world.directory.read_next(handle)


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.6")
def test_unknown_and_ended_handles_are_generic_errors(world, queues) -> None:
    handle = world.directory.read_begin(Queue)
    world.directory.read_end(handle)
    for call in (world.directory.read_next, world.directory.read_end):
        for unknown in (handle, handle + 1, 0, -1):
            with pytest.raises(mqdssm.GenericDirectoryError) as failed:
                call(unknown)
            assert failed.value.result is RESULT.GENERIC_ERROR
            assert not isinstance(failed.value, mqdssm.ObjectNotFound)


@pytest.mark.spec("MS-MQDSSM 3.1.6.6")
def test_the_end_discards_what_was_not_fetched_and_frees_the_connection(world, queues) -> None:
    with world.connect(page_size=2) as directory:
        handle = directory.read_begin(Queue)
        directory.read_next(handle)
        assert directory.session.references == 1
        directory.read_end(handle)
        assert directory.session.references == 0
        assert len(directory._iterators) == 0
        assert len(list(directory.search(Queue))) == len(queues)


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
def test_results_are_streamed_page_by_page(world, queues) -> None:
    """Decision M14: paged always, and only as far as the objects are asked for."""
    with world.connect(page_size=2) as directory:
        before = directory.session.round_trips
        handle = directory.read_begin(Queue, attributes=["Pathname"])
        directory.read_next(handle)
        assert directory.session.round_trips - before <= 2  # this page, and the next one ahead
        assert len(rest_of(directory, handle)) == len(queues) - 1
        assert directory.session.round_trips - before >= 5
        directory.read_end(handle)


@pytest.mark.spec("MS-MQDSSM 3.1.6.6")
def test_closing_the_directory_ends_all_iterations(world, queues) -> None:
    with world.connect(page_size=2) as directory:
        for _ in range(3):
            directory.read_next(directory.read_begin(Queue))
        iterators = directory._iterators
        assert len(iterators) == 3
    assert len(iterators) == 0


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
def test_a_search_that_broke_off_never_looks_like_an_end() -> None:
    def breaking() -> Iterator[mqdssm.DirectoryObject]:
        yield Queue(label="first")
        raise mqdssm.DirectoryNotConnected("gone")

    iterators = Iterators()
    handle = iterators.begin(breaking())
    assert iterators.next(handle).label == "first"
    for _ in range(3):
        with pytest.raises(mqdssm.DirectoryNotConnected):
            iterators.next(handle)
    iterators.end(handle)
    assert len(iterators) == 0


class Found(Iterator[mqdssm.DirectoryObject]):
    """A search that never ends by itself."""

    closed = False

    def __next__(self) -> mqdssm.DirectoryObject:
        return Queue()

    def close(self) -> None:
        self.closed = True


@pytest.mark.spec("MS-MQDSSM 3.1.6.6")
def test_the_end_closes_the_search_at_once() -> None:
    """Not whenever the last reference to it happens to go."""
    iterators, searches = Iterators(), [Found(), Found()]
    handles = [iterators.begin(search) for search in searches]
    iterators.end(handles[0])
    assert [search.closed for search in searches] == [True, False]
    iterators.end_all()
    assert searches[1].closed


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
def test_threads_may_share_an_iterator(world, queues) -> None:
    """Each object goes to one of them."""
    handle = world.directory.read_begin(Queue, attributes=["Pathname"])
    shares: list[list[str]] = [[] for _ in range(4)]

    def take(share: list[str]) -> None:
        share.extend(queue.pathname for queue in rest_of(world.directory, handle))

    threads = [Thread(target=take, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(pathname for share in shares for pathname in share) == sorted(queues)
    world.directory.read_end(handle)
