"""Many changes at once: order, memory, failures, barriers, an early end; without a server."""

import threading
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqdssm
from mqdssm.events.bulk_changes import BEGUN_PER_CONNECTION, BulkOptions, change_many


def queue(number: int) -> mqdssm.Queue:
    return mqdssm.Queue(pathname=rf"pc\q{number}", quota=number)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3))), st.integers(1, 6))
def test_each_element_has_its_outcome_in_order(steps: list[tuple[bool, int]], connections: int) -> None:
    """Whatever fails, and however long a change takes."""
    elements = [queue(number) for number in range(len(steps))]

    def change(element: mqdssm.Queue) -> bool:
        fails, pause = steps[element.quota]
        time.sleep(pause / 5_000)
        if fails:
            raise mqdssm.ObjectNotFound(f"no {element.quota}")
        return element.quota % 2 == 0

    told: list[tuple[int, int]] = []
    options = BulkOptions(connections=connections, on_progress=lambda *counts: told.append(counts))
    outcomes = list(change_many(iter(elements), change, options))
    assert [outcome.element for outcome in outcomes] == elements
    assert [outcome.succeeded for outcome in outcomes] == [not fails for fails, _ in steps]
    assert all(
        outcome.created == (number % 2 == 0) for number, outcome in enumerate(outcomes) if outcome.succeeded
    )
    assert [ended for ended, _ in told] == list(range(1, len(steps) + 1))
    assert [failed for _, failed in told][-1:] == ([sum(fails for fails, _ in steps)] if steps else [])


def test_elements_are_taken_as_they_are_changed() -> None:
    taken: list[int] = []

    def elements():
        for number in range(10_000):
            taken.append(number)
            yield queue(number)

    outcomes = change_many(elements(), lambda _: True, BulkOptions(connections=3))
    assert not taken, "nothing is done before it is asked for"
    for number, _ in zip(range(100), outcomes, strict=False):
        assert len(taken) <= number + 2 + 3 * BEGUN_PER_CONNECTION
    outcomes.close()


def test_no_more_changes_at_a_time_than_connections() -> None:
    running, most, lock = Counter[str](), [0], threading.Lock()

    def change(_: mqdssm.Queue) -> bool:
        with lock:
            running["now"] += 1
            most[0] = max(most[0], running["now"])
        time.sleep(0.002)
        with lock:
            running["now"] -= 1
        return True

    assert len(list(change_many(map(queue, range(40)), change, BulkOptions(connections=3)))) == 40
    assert most[0] == 3


def test_the_first_failure_ends_it_if_asked() -> None:
    begun: list[int] = []

    def change(element: mqdssm.Queue) -> bool:
        begun.append(element.quota)
        if element.quota == 5:
            raise mqdssm.ObjectAlreadyExists("there")
        return True

    outcomes = list(change_many(map(queue, range(1000)), change, BulkOptions(stop_on_error=True)))
    assert [outcome.element.quota for outcome in outcomes] == sorted(begun), "what began has its outcome"
    assert len(begun) < 6 + 4 * BEGUN_PER_CONNECTION


def test_an_early_end_waits_for_what_was_sent_and_begins_nothing() -> None:
    begun, ended, go = [], [], threading.Event()

    def change(element: mqdssm.Queue) -> bool:
        begun.append(element.quota)
        if element.quota:
            go.wait(5)
        ended.append(element.quota)
        return True

    outcomes = change_many(map(queue, range(100)), change, BulkOptions(connections=2))
    assert next(outcomes).element.quota == 0
    threading.Timer(0.05, go.set).start()
    outcomes.close()
    assert sorted(begun) == sorted(ended)
    assert len(ended) <= 4
    before = len(ended)
    time.sleep(0.02)
    assert len(ended) == before


def test_other_kinds_and_known_objects_wait() -> None:
    """A queue waits for its queue manager, and a second change of one object for the first."""
    running, together, lock = set[str](), set[frozenset[str]](), threading.Lock()

    def name_of(element: mqdssm.DirectoryObject) -> str:
        return str(getattr(element, "computer_name", None) or getattr(element, "pathname", ""))

    def change(element: mqdssm.DirectoryObject) -> bool:
        with lock:
            assert name_of(element).lower() not in running
            running.add(name_of(element).lower())
            together.add(frozenset(running))
        time.sleep(0.002)
        with lock:
            running.remove(name_of(element).lower())
        return True

    elements: list[mqdssm.DirectoryObject] = [mqdssm.QueueManager(computer_name=f"pc{n}") for n in range(6)]
    elements += [mqdssm.Queue(pathname=rf"pc\{name}") for name in "aAbBccdD"]
    outcomes = list(change_many(elements, change, BulkOptions(connections=6)))
    assert [outcome.element for outcome in outcomes] == elements
    assert all(outcome.succeeded for outcome in outcomes), [outcome.error for outcome in outcomes]
    assert max(map(len, together)) > 1
    assert not any(
        any("\\" in name for name in group) and any("\\" not in name for name in group) for group in together
    )


def test_errors_of_the_caller_come_after_the_outcomes() -> None:
    def elements():
        yield from map(queue, range(5))
        raise OSError("the file ends here")

    outcomes, seen = change_many(elements(), lambda _: True, BulkOptions()), []
    with pytest.raises(OSError, match="the file ends here"):
        seen.extend(outcome.element.quota for outcome in outcomes)
    assert seen == [0, 1, 2, 3, 4]


def test_none_ends_nothing() -> None:
    """An element that is none has an outcome, and those behind it are changed."""

    def change(element: object) -> bool:
        if element is None:
            raise mqdssm.GenericDirectoryError("no element")
        return True

    elements = [queue(0), None, queue(1)]
    outcomes = change_many(iter(elements), change, BulkOptions())  # type: ignore[type-var]
    assert [outcome.succeeded for outcome in outcomes] == [True, False, True]


def test_a_defect_is_no_outcome() -> None:
    def change(_: mqdssm.Queue) -> bool:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        list(change_many([queue(1)], change, BulkOptions()))


@pytest.mark.parametrize("connections", [0, 33])
def test_numbers_of_connections(connections: int) -> None:
    with pytest.raises(ValueError, match="1 to 32"):
        BulkOptions(connections=connections)
