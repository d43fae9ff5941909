"""Many elements created, written and deleted at once (decision M119)."""

import pytest

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


def test_many_queues_are_sent_ahead(world) -> None:
    """More than the library identifies at once, with failures and brought GUIDs in between."""
    queues = made(world, 70)
    world.directory.create(made_again(queues[33:34])[0])
    queues[50].identifier = "5eefd5c9-3f2a-4b6c-9d8e-0123456789ab"
    queues.insert(40, mqdssm.Queue(pathname=r"pc\private$\q"))
    queues.append(mqdssm.Queue(pathname=queues[0].pathname))
    told = []
    outcomes = list(
        world.directory.create_many(iter(queues), on_progress=lambda *counts: told.append(counts))
    )
    assert [outcome.element for outcome in outcomes] == queues
    failed = {number: outcome.error for number, outcome in enumerate(outcomes) if not outcome.succeeded}
    assert failed.keys() == {33, 40, 71}
    assert isinstance(failed[33], mqdssm.ObjectAlreadyExists)
    assert isinstance(failed[40], mqdssm.GenericDirectoryError)
    assert isinstance(failed[71], mqdssm.ObjectAlreadyExists)
    assert told[-1] == (72, 3)
    found = {queue.pathname: queue.identifier for queue in world.directory.search(mqdssm.Queue)}
    for outcome in outcomes:
        if outcome.succeeded:
            assert found[outcome.element.pathname] == outcome.identifier
            assert not outcome.element.assigned - {"Identifier"}


def test_the_first_failure_ends_it_if_asked(world, monkeypatch) -> None:
    monkeypatch.setattr("mqdssm.events.queue_creation.AHEAD_MAX", 20)
    queues = made(world, 60)
    world.directory.create(made_again(queues[:1])[0])
    outcomes = list(world.directory.create_many(queues, stop_on_error=True))
    assert not outcomes[0].succeeded
    assert len(outcomes) < 60
    assert len(stored(world, *queues)) == len(outcomes)


def test_queues_are_taken_as_they_are_created_and_errors_come_last(world, monkeypatch) -> None:
    monkeypatch.setattr("mqdssm.events.queue_creation.AHEAD_MAX", 20)
    queues, taken = made(world, 90), []

    def elements():
        for queue in queues:
            taken.append(queue)
            yield queue
        raise OSError("the file ends here")

    outcomes, ahead = world.directory.create_many(elements()), []
    assert not taken, "nothing is done before it is asked for"
    with pytest.raises(OSError, match="the file ends here"):
        ahead.extend(len(taken) - number for number, _ in enumerate(outcomes, 1))
    assert len(ahead) == len(stored(world, *queues)) == 90
    assert 0 < max(ahead) <= 20


def test_a_session_that_only_reads_refuses_each(world) -> None:
    queues = made(world, 3)
    with world.connect(read_only=True) as directory:
        errors = [outcome.error for outcome in directory.create_many(queues)]
    assert ["read only" in str(error) for error in errors] == [True] * 3


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
