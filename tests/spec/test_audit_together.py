"""Other programs at the same time, interruptions, round trips ([MS-MQDSSM] 3.1.6)."""

import threading
import tracemalloc
from uuid import UUID

import pytest
from support.enterprises.hand_made import HandMade

import mqdssm
from mqdssm import Filter, Queue, QueueManager
from mqdssm.errors import DirectoryError
from mqdssm.events.iterators import Iterators


def settings(world) -> dict[str, dict[str, list[bytes]]]:
    return world.ldap.search(world.root, "(objectClass=mSMQSettings)")


# -- other programs at the same time, and interruptions -----------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_several_programs_create_one_queue_manager(world) -> None:
    """Each gets the same GUID, and one settings object says what the entry says."""
    site, computer = world.site(), world.computer()
    start = threading.Barrier(4)
    found: list[UUID | Exception] = []

    def program() -> None:
        manager = QueueManager(computer_name=computer, site_identifier_list=[site], routing_server=True)
        with world.connect() as directory:
            start.wait(30)
            for _ in range(10):
                try:
                    found.append(directory.create(manager.model_copy()))
                except DirectoryError as error:
                    found.append(error)

    threads = [threading.Thread(target=program) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 40
    assert len(set(found)) == 1
    (place,) = settings(world).values()
    assert place["mSMQQMID"] == [found[0].bytes_le]
    assert place["mSMQRoutingService"] == [b"TRUE"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_settings_that_vanish_during_a_write_are_made_again(world, monkeypatch) -> None:
    site = world.site()
    guid = world.queue_manager(site_identifier_list=[site], routing_server=True)
    place = world.settings_dn(world.site_name(site), world.computer_of(guid))
    session = world.directory.session
    plain = session.modify

    def modify(target: object, changes: object, **conditions: object) -> None:
        if "MSMQ Settings" in str(target) and world.ldap.exists(place):
            world.ldap.delete(place)
        plain(target, changes, **conditions)

    monkeypatch.setattr(session, "modify", modify)
    world.directory.write(QueueManager(identifier=guid, supporting_server=True))
    assert world.ldap.entry(place)["mSMQDependentClientService"] == [b"TRUE"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
@pytest.mark.parametrize("before", ["CN=pc", "CN=MSMQ Settings"])
def test_server_objects_that_others_remove_when_empty_are_made_again(world, monkeypatch, before) -> None:
    """Decision M42: whoever deletes the last settings of a site takes `server` and `Servers` away."""
    site, computer = world.site(), world.computer()
    servers = f"CN=Servers,CN={world.site_name(site)},{world.sites_dn}"
    session = world.directory.session
    plain, once = session.add, iter([True])

    def add(dn: object, attributes: object) -> None:
        if str(dn).startswith(before) and world.ldap.exists(servers) and next(once, False):
            for gone in (f"CN={computer},{servers}", servers):
                if world.ldap.exists(gone):
                    world.ldap.delete(gone)
        plain(dn, attributes)

    monkeypatch.setattr(session, "add", add)
    world.queue_manager(computer, site_identifier_list=[site], routing_server=True)
    assert next(once, None) is None, "they were removed once"
    assert len(settings(world)) == 1


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_a_create_that_was_interrupted_is_finished_by_the_next_one(world, monkeypatch) -> None:
    """Ctrl-C between the entry and its settings: creating it again makes what is missing (M4)."""
    site, computer = world.site(), world.computer()
    manager = QueueManager(computer_name=computer, site_identifier_list=[site], routing_server=True)
    session = world.directory.session
    plain = session.add

    def add(dn: object, attributes: object) -> None:
        if "MSMQ Settings" in str(dn):
            raise KeyboardInterrupt
        plain(dn, attributes)

    with monkeypatch.context() as patched:
        patched.setattr(session, "add", add)
        with pytest.raises(KeyboardInterrupt):
            world.directory.create(manager)
    assert world.ldap.exists(f"CN=msmq,{world.computer_dn(computer)}")
    assert not settings(world)
    assert manager.identifier is not None, "it stands for the entry that was made (M93)"
    assert world.directory.create(manager) == manager.identifier
    (place,) = settings(world).values()
    assert place["mSMQQMID"] == [manager.identifier.bytes_le]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.3")
def test_a_site_that_is_renamed_keeps_its_settings(world) -> None:
    site = world.site()
    guid = world.queue_manager(site_identifier_list=[site], routing_server=True)
    manager = world.directory.read(QueueManager, Filter("Identifier", "==", guid))
    new = world.name("renamed")
    world.directory.session.rename(f"CN={world.site_name(site)},{world.sites_dn}", f"CN={new}")
    manager.supporting_server = True
    world.directory.write(manager)
    ((dn, place),) = settings(world).items()
    assert dn.lower() == world.settings_dn(new, world.computer_of(guid)).lower()
    assert place["mSMQDependentClientService"] == [b"TRUE"]
    world.directory.delete(manager)
    assert not settings(world)


# -- no more round trips than needed (M30) ------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.12")
def test_round_trips_of_creates_and_writes(world) -> None:
    session = world.directory.session
    site = world.site()
    session.bound_sid()

    def trips(work) -> int:
        before = session.round_trips
        work()
        return session.round_trips - before

    names = [world.computer(), world.computer()]
    managers = [QueueManager(computer_name=name, site_identifier_list=[site]) for name in names]
    managers[1].routing_server = True
    queue = Queue(pathname=f"{names[0]}\\q")
    add = world.kind.trips_of_add
    assert trips(lambda: world.directory.create(managers[0])) == 1 + add  # the computer, the entry
    # with its site, Servers, server and settings, the try that shows that they are missing, a look at the end
    assert trips(lambda: world.directory.create(managers[1])) <= 4 + 4 * add
    assert trips(lambda: world.directory.create(queue)) == add
    queue.label = "x"
    assert trips(lambda: world.directory.write(queue)) == 2
    assert trips(lambda: world.directory.delete(queue)) == 2
    managers[1].journal_quota = 1
    assert trips(lambda: world.directory.write(managers[1])) == 2


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
def test_queues_that_others_delete_first_do_not_stop_a_recursive_deletion(world, monkeypatch) -> None:
    guid = world.queue_manager()
    computer = world.computer_of(guid)
    for name in ("q1", "q2"):
        world.queue(computer, name)
    loader = world.directory.session.loader
    plain = loader.load

    def load(*arguments: object, **options: object):
        world.ldap.delete(world.queue_dn(computer, "q1"), world.queue_dn(computer, "q2"))
        yield from plain(*arguments, **options)

    monkeypatch.setattr(loader, "load", load)
    world.directory.delete(QueueManager(identifier=guid), recursive=True)
    assert not world.ldap.dns(world.root, "(objectClass=mSMQConfiguration)")


# -- iterators ----------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
@pytest.mark.parametrize("broken", [KeyboardInterrupt(), mqdssm.MappingError("odd"), MemoryError()])
def test_an_iteration_that_was_interrupted_never_looks_like_its_end(broken) -> None:
    def objects():
        yield Queue(label="one")
        raise broken

    iterators = Iterators()
    handle = iterators.begin(objects())
    assert iterators.next(handle).label == "one"
    with pytest.raises(type(broken)):
        iterators.next(handle)
    for _ in range(2):
        with pytest.raises(mqdssm.GenericDirectoryError, match="broken off") as failed:
            iterators.next(handle)
        assert not isinstance(failed.value, mqdssm.EndOfData)
    iterators.end(handle)


@pytest.fixture
def many(world) -> int:
    """More queues than fit into one page of ten."""
    made = HandMade(world.ldap, world.root)
    name = world.name("pc")
    made.queue_manager(name)
    made.add_many((f"CN=q{i},{made.machine_dn(name)}", "mSMQQueue", {}) for i in range(35))
    return 35


@pytest.mark.spec("MS-MQDSSM 3.1.6.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.21")
@pytest.mark.parametrize("how", ["closed", "forgotten", "failed", "ended", "directory closed"])
def test_a_search_that_is_left_gives_its_connection_back(world, many, how) -> None:
    with world.connect(page_size=10) as directory:
        session = directory.session
        if how in {"ended", "directory closed"}:
            handle = directory.read_begin(Queue)
            directory.read_next(handle)
            assert session.references == 1
            directory.read_end(handle) if how == "ended" else directory.close()
        else:
            found = directory.search(Queue)
            next(found)
            assert session.references == 1
            if how == "closed":
                found.close()
            elif how == "failed":
                with pytest.raises(KeyboardInterrupt):
                    found.throw(KeyboardInterrupt)
            del found
        assert session.references == 0


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_threads_share_one_directory(world, many) -> None:
    """Creates, reads, writes, deletions and iterations of eight threads never meet."""
    computer = world.computer_of(world.queue_manager())
    problems: list[object] = []

    def work(number: int) -> None:
        directory = world.directory
        for turn in range(8):
            path = f"{computer}\\t{number}-{turn}"
            queue = Queue(pathname=path, label=path)
            guid = directory.create(queue)
            queue.label = f"{path}!"
            directory.write(queue)
            found = directory.read(Queue, Filter("Identifier", "==", guid))
            if (found.pathname, found.label) != (path, f"{path}!"):
                problems.append((path, found))
            handle = directory.read_begin(Queue, Filter("Label", "==", f"{path}!"))
            if directory.read_next(handle) != found:
                problems.append((path, "iterator"))
            directory.read_end(handle)
            directory.delete(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not problems
    assert len(world.ldap.dns(world.root, "(objectClass=mSMQQueue)")) == many
    assert world.directory.session.references == 0


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
def test_memory_does_not_grow_with_the_number_of_objects(world) -> None:
    made = HandMade(world.ldap, world.root)
    name = world.name("pc")
    made.queue_manager(name)
    made.add_many((f"CN=q{i},{made.machine_dn(name)}", "mSMQQueue", {}) for i in range(2000))
    peaks = []
    with world.connect(page_size=200) as directory:
        tracemalloc.start()
        try:
            for number, _ in enumerate(directory.search(Queue), 1):
                if number % 500 == 0:
                    peaks.append(tracemalloc.get_traced_memory()[1])
                    tracemalloc.reset_peak()
        finally:
            tracemalloc.stop()
    assert len(peaks) == 4
    assert peaks[-1] < 1.2 * max(peaks[:2]), "a page is held, not the list"
