"""Conditions on the attributes of classes (decision M111), on every kind of server.

What a condition finds is compared with a plain evaluation in Python of the objects that a search without
filters returned; the property test has more of them, on OpenLDAP.
"""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.directory.condition_strategies import conditions_over
from support.directory.reference_filters import matching, names
from support.enterprises.hand_made import HandMade

import mqdssm
from mqdssm import Queue, QueueManager


@pytest.fixture
def made(world) -> HandMade:
    made = HandMade(world.ldap, world.root)
    for name in (world.name("A"), world.name("b")):
        made.queue_manager(name, {"mSMQSites": UUID(int=1).bytes_le, "mSMQForeign": "TRUE"})
        made.queue(name, "bare")
        made.queue(
            name, "full", {"mSMQLabelEx": "Paid orders", "mSMQQueueQuota": "-2", "mSMQTransactional": "TRUE"}
        )
        made.queue(
            name, "x\\, y", {"mSMQLabelEx": "ZOË", "mSMQQueueQuota": "7", "mSMQTransactional": "FALSE"}
        )
        made.queue(name, "z", {"mSMQLabelEx": "paid  a*b", "mSMQJournal": "TRUE", "mSMQBasePriority": "-5"})
    return made


def labels(world, condition: mqdssm.Condition[Queue]) -> list[str]:
    return sorted(queue.label for queue in world.directory.search(Queue, condition))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_conditions(world, made) -> None:
    paid, other, unset = ["Paid orders"] * 2, ["ZOË"] * 2, [""] * 2
    star = ["paid  a*b"] * 2
    assert labels(world, Queue.label.startswith("PAID")) == paid + star
    assert labels(world, Queue.label.contains("d O")) == paid
    assert labels(world, Queue.label.contains("*")) == star
    assert labels(world, ~Queue.label.contains("a")) == unset + other
    assert labels(world, ~Queue.transactional) == unset + other + star
    assert labels(world, ~Queue.label.exists()) == unset
    found = Queue.label.startswith("paid") & (Queue.quota > 0xFFFF_FFF0) | ~(Queue.quota > 7)
    assert labels(world, found) == paid + other + star
    assert labels(world, ~(Queue.journaling | (Queue.label == "zoë") | Queue.transactional)) == unset
    assert labels(world, Queue.label.in_(["", "x"])) == unset
    assert labels(world, Queue.label.in_([])) == []
    one, *_ = world.directory.search(Queue, Queue.label == "zoë")
    assert world.directory.read(Queue, Queue.identifier == one.identifier) == one
    assert world.directory.read(Queue, (Queue.pathname == one.pathname) & ~Queue.transactional) == one
    by_name = Queue.pathname.in_([one.pathname.upper(), "no\\queue"]) | (Queue.full_path == "CN=none")
    assert list(world.directory.search(Queue, by_name)) == [one]
    with pytest.raises(mqdssm.EndOfData, match=r"no Queue with not \(Queue.Label exists\) and Quota == 5"):
        world.directory.read(Queue, ~Queue.label.exists() & (Queue.quota == 5))


@pytest.mark.parametrize("kind", [Queue, QueueManager])
def test_any_conditions(world, made, kind) -> None:
    objects = list(world.directory.search(kind))

    @settings(max_examples=4)
    @given(st.lists(conditions_over(kind, objects), min_size=10, max_size=10))
    def check(conditions: list[mqdssm.Condition[mqdssm.DirectoryObject]]) -> None:
        for condition in conditions:
            expected = matching(objects, [condition])
            found = list(world.directory.search(kind, condition))
            assert names(found) == names(expected), condition
            assert all(obj in expected for obj in found)

    check()


def test_what_is_no_condition_is_refused(world) -> None:
    for given_filters in (Queue.label, [Queue.label], True, "Label"):
        with pytest.raises(TypeError, match="give a Filter or a Condition, or a list of them"):
            world.directory.search(Queue, given_filters)
    with pytest.raises(mqdssm.GenericDirectoryError, match=r"Queue\.Label is no attribute of QueueManager"):
        world.directory.search(QueueManager, Queue.label == "x")
