"""The order of changes on their way: whatever waits for whatever, nothing meets and all is done."""

import random
from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.tasks import ChangeTask, TaskQueue

NAMES = ["CN=a", "CN=b,CN=a", "CN=c,CN=b,CN=a", "CN=d,CN=b,CN=a", "CN=e,CN=a", "CN=f"]
CHANGES = st.lists(st.tuples(st.sampled_from(list(Action)), st.sampled_from(NAMES)), min_size=1, max_size=30)
TWO_VALUES = {"mSMQLabelEx": (b"a",), "mSMQQuota": (b"1",)}


def must_wait(later: ChangeTask, earlier: ChangeTask, *, is_there: bool) -> bool:
    """Whether a change may not begin before an earlier one is over.

    Args:
        later: the change.
        earlier: the other one.
        is_there: the object of the other one was found there already: what is below it may go on.
    """
    if earlier.key == later.key or (earlier.key == later.parent and not is_there):
        return True
    return later.action is Action.DELETE and earlier.parent == later.key


class Server:
    """Answers what is under way in any order, and loses, refuses and finds things now and then."""

    def __init__(self, changes: list[tuple[Action, str]], seed: int) -> None:
        self.chance = random.Random(seed)
        self.queue = TaskQueue()
        self.under_way: list[ChangeTask] = []
        self.parked: list[ChangeTask] = []
        self.left: Counter[int] = Counter()  # row -> how many of its requests are not over
        self.tasks: list[ChangeTask] = []
        for row, (action, dn) in enumerate(changes):
            item = Item(row=row, action=action, dn=f"{dn},DC=x", attributes=TWO_VALUES)
            self.tasks.append(ChangeTask.of(item))
            self.queue.put(self.tasks[-1])
            self.left[row] = 1

    def run(self, window: int) -> None:
        while self.left:
            while len(self.under_way) < window and (task := self.queue.take()) is not None:
                self.look(task)
                self.under_way.append(task)
            if self.under_way:
                self.answer(self.under_way.pop(self.chance.randrange(len(self.under_way))))
            else:
                assert self.parked, "what waits, waits for nothing"
            if self.parked and (not self.under_way or self.chance.random() < 0.2):
                self.compare(self.parked.pop())
        assert not len(self.queue)

    def look(self, task: ChangeTask) -> None:
        there = {one.item.row for one in self.parked}
        earlier = [row for row in self.left if row < task.item.row]
        overtaken = [
            row for row in earlier if must_wait(task, self.tasks[row], is_there=row in there)
        ]  # whether it is under way, waits itself, or is to be sent again
        assert not overtaken
        assert all(one.key != task.key for one in self.under_way), "two changes of one object meet"

    def answer(self, task: ChangeTask) -> None:
        queue, chance = self.queue, self.chance.random()
        if chance < 0.1:  # the connection was lost: all is to be sent again
            lost, self.under_way = [task, *self.under_way], []
            for one in lost:
                queue.done(one)
            queue.put_first(lost)
        elif chance < 0.2:  # the server was too busy
            queue.done(task)
            queue.put(task)
        elif chance < 0.4 and task.action is Action.ADD:  # something is there: it is looked at
            queue.park_task(task)
            self.parked.append(task)
        elif chance < 0.4 and task.action is Action.MODIFY and task.split is None:
            queue.done(task)
            self.left[task.item.row] += 1
            for part in task.parts():
                queue.put(part)
        else:
            self.over(task)

    def compare(self, task: ChangeTask) -> None:
        if self.chance.random() < 0.5:
            self.over(task)
            return
        self.queue.done(task)
        self.queue.put(
            ChangeTask(task.item, Action.MODIFY, TWO_VALUES, task.key, task.parent, order=task.order)
        )

    def over(self, task: ChangeTask) -> None:
        self.left[task.item.row] -= 1
        self.left = +self.left
        self.queue.done(task)


@given(CHANGES, st.integers(0, 2**32), st.integers(1, 8))
@example(
    # the second waits for the first, the third for both: released together, it must not go first
    [(Action.ADD, "CN=b,CN=a"), (Action.MODIFY, "CN=b,CN=a"), (Action.DELETE, "CN=a")],
    0,
    8,
)
def test_all_are_done_and_none_meets_or_overtakes_another(changes, seed, window):
    Server(changes, seed).run(window)
