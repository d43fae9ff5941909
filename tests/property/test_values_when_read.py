"""An element knows what it was read with, whatever was assigned, unset, forgotten or written since."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mqdssm.model.elements import Queue

VALUES = {"Label": "abc", "Quota": 5, "Journaling": True, "BasePriority": -1}
NAMES = st.sampled_from(sorted(VALUES))
STEPS = st.lists(
    st.tuples(st.sampled_from(["assign", "unset", "forget", "written", "copy"]), NAMES, st.integers(0, 9)),
    max_size=12,
)


def values_of(queue: Queue) -> dict[str, Any]:
    return {name: getattr(queue, Queue.field_name(name)) for name in queue.populated}


@given(st.sets(NAMES), STEPS)
def test_what_was_read_is_remembered(read: set[str], steps: list[tuple[str, str, int]]) -> None:
    queue = Queue.from_directory({Queue.field_name(name): VALUES[name] for name in read})
    expected: dict[str, Any] = {name: VALUES[name] for name in read}
    for step, name, number in steps:
        match step:
            case "assign":
                new = {"Label": str(number), "Journaling": bool(number % 2)}.get(name, number)
                setattr(queue, Queue.field_name(name), new)
                expected.setdefault(name, None)
            case "unset":
                queue.unset(name)
                expected.setdefault(name, None)
            case "forget":
                queue.forget(name)
                expected.pop(name, None)
            case "written":
                queue.mark_written()
                expected = values_of(queue)
            case _:
                queue = queue.model_copy()
    assert queue.values_when_read() == expected
