"""The order of changes on their way: whatever waits for whatever, nothing meets and all is done."""

import random

from hypothesis import given
from hypothesis import strategies as st

from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.tasks import Queue, Task

NAMES = ["CN=a", "CN=b,CN=a", "CN=c,CN=b,CN=a", "CN=d,CN=b,CN=a", "CN=e,CN=a", "CN=f"]
CHANGES = st.lists(st.tuples(st.sampled_from(list(Action)), st.sampled_from(NAMES)), min_size=1, max_size=30)


def must_wait(later: Task, earlier: Task) -> bool:
    """Whether a change may not begin while an earlier one is under way."""
    if earlier.key in {later.key, later.parent}:
        return True
    return later.action is Action.DELETE and earlier.parent == later.key


@given(CHANGES, st.integers(0, 2**32), st.integers(1, 8))
def test_all_are_done_and_none_meets_another(changes, seed, window):
    chance, queue = random.Random(seed), Queue()
    for row, (action, dn) in enumerate(changes):
        queue.put(Task.of(Item(row=row, action=action, dn=f"{dn},DC=x")))
    under_way: list[Task] = []
    done: list[Task] = []
    while len(queue) or under_way:
        while len(under_way) < window and (task := queue.take()) is not None:
            assert not any(must_wait(task, one) for one in under_way if one.order < task.order)
            under_way.append(task)
        assert under_way, "what waits, waits for nothing"
        task = under_way.pop(chance.randrange(len(under_way)))
        if chance.random() < 0.2:  # the connection was lost: it is to be sent again
            queue.done(task)
            queue.put_first([task])
        else:
            queue.done(task)
            done.append(task)
    assert sorted(task.item.row for task in done) == list(range(len(changes)))
    for dn in NAMES:  # changes of one object in their order
        rows = [task.item.row for task in done if task.item.dn == f"{dn},DC=x"]
        assert rows == sorted(rows)
