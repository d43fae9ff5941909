"""Many elements created, written and deleted at once (decision M119)."""

import mqdssm


def made(world, count: int) -> list[mqdssm.Queue]:
    computer = world.computer()
    world.queue_manager(computer)
    return [mqdssm.Queue(pathname=rf"{computer}\q{number}", label=str(number)) for number in range(count)]


def stored(world, *queues: mqdssm.Queue) -> dict[str, str]:
    paths = {queue.pathname for queue in queues}
    found = world.directory.search(mqdssm.Queue, attributes=["Pathname", "Label"])
    return {queue.pathname: queue.label for queue in found if queue.pathname in paths}


def test_a_whole_enterprise_at_once(world) -> None:
    """Each kind waits for the kinds before it."""
    site = mqdssm.Site(name=world.name("site"))
    world.directory.create(site)
    computers = [world.computer() for _ in range(3)]
    managers = [
        mqdssm.QueueManager(computer_name=name, site_identifier_list=[site.identifier]) for name in computers
    ]
    queues = [mqdssm.Queue(pathname=rf"{name}\q{number}") for name in computers for number in range(4)]
    outcomes = list(world.directory.create_many([*managers, *queues]))
    assert [outcome.error for outcome in outcomes] == [None] * 15
    assert all(outcome.created for outcome in outcomes)
    assert [outcome.identifier for outcome in outcomes] == [
        world.directory.read(type(one), mqdssm.Filter(name, "==", getattr(one, field))).identifier
        for one, name, field in [
            *((one, "ComputerName", "computer_name") for one in managers),
            *((one, "Pathname", "pathname") for one in queues),
        ]
    ]
    outcomes = list(world.directory.delete_many([*queues, *managers]))
    assert [outcome.error for outcome in outcomes] == [None] * 15
    assert not stored(world, *queues)


def test_failures_are_outcomes_of_their_elements(world) -> None:
    queues = made(world, 6)
    world.directory.create(queues[2].model_copy())
    elements = [*queues[:4], mqdssm.Queue(pathname=r"nobody\q"), mqdssm.User(), *queues[4:]]
    outcomes = list(world.directory.create_many(elements, connections=2))
    assert [type(outcome.error) for outcome in outcomes] == [
        type(None),
        type(None),
        mqdssm.ObjectAlreadyExists,
        type(None),
        mqdssm.ObjectNotFound,
        mqdssm.GenericDirectoryError,
        type(None),
        type(None),
    ]
    assert len(stored(world, *queues)) == 6


def test_writes_send_what_was_assigned(world) -> None:
    queues = made(world, 8)
    list(world.directory.create_many(queues))
    world.directory.write(mqdssm.Queue(identifier=queues[5].identifier, quota=9))
    found = list(world.directory.search(mqdssm.Queue, mqdssm.Filter("Quota", "!=", 3)))
    mine = {queue.identifier for queue in queues}
    found = [queue for queue in found if queue.identifier in mine]
    world.directory.write(mqdssm.Queue(identifier=queues[5].identifier, quota=10))
    for queue in found:
        queue.label = f"new {queue.label}"
    outcomes = list(world.directory.write_many(found, if_unchanged=True))
    lost = [outcome.element.identifier for outcome in outcomes if not outcome.succeeded]
    assert lost == [queues[5].identifier]
    assert [type(outcome.error) for outcome in outcomes].count(mqdssm.ObjectChanged) == 1
    labels = sorted(stored(world, *queues).values())
    assert labels == sorted(["5", *(f"new {number}" for number in range(8) if number != 5)])


def test_created_or_written(world) -> None:
    queues = made(world, 6)
    list(world.directory.create_many(queues[::2]))
    again = [queue.model_copy(update={"label": "again"}) for queue in made_again(queues)]
    outcomes = list(world.directory.upsert_many(again))
    assert [outcome.created for outcome in outcomes] == [False, True] * 3
    assert set(stored(world, *queues).values()) == {"again"}


def made_again(queues: list[mqdssm.Queue]) -> list[mqdssm.Queue]:
    return [mqdssm.Queue(pathname=queue.pathname, label=queue.label) for queue in queues]


def test_queues_are_deleted_with_their_queue_managers(world) -> None:
    queues = made(world, 3)
    list(world.directory.create_many(queues))
    manager = mqdssm.QueueManager(computer_name=queues[0].pathname.partition("\\")[0])
    (refused,) = world.directory.delete_many([manager])
    assert isinstance(refused.error, mqdssm.GenericDirectoryError)
    (deleted,) = world.directory.delete_many([manager], recursive=True)
    assert deleted.succeeded
    assert not stored(world, *queues)


def test_notices_of_each(world) -> None:
    queues, notices = made(world, 3), []
    with world.connect(notify=notices.append) as directory:
        list(directory.create_many(queues))
        list(directory.delete_many(queues))
    assert (
        sorted(notice.operation.name for notice in notices) == ["QUEUE_CREATION"] * 3 + ["QUEUE_DELETION"] * 3
    )
