"""The order, the limits and the deadlines of a queue."""

from hypothesis import given
from hypothesis import strategies as st

from mqdssm.drivers.queue_manager.message_queue import MessageQueue


def queue(messages_max=100, bytes_max=10_000) -> MessageQueue[bytes]:
    return MessageQueue(messages_max, bytes_max, len)


def drain(one: MessageQueue[bytes]) -> list[bytes]:
    taken = []
    while (found := one.take()) is not None:
        taken.append(found[1])
    return taken


def test_priority_then_age():
    one = queue()
    for priority, body in [(3, b"a"), (7, b"b"), (3, b"c"), (0, b"d"), (7, b"e")]:
        assert one.put(body, priority, None)
    assert drain(one) == [b"b", b"e", b"a", b"c", b"d"]


def test_put_back_is_first_again():
    one = queue()
    for body in (b"a", b"b"):
        one.put(body, 3, 10.0)
    number, _ = one.lend()
    assert one.put_back(number)
    assert drain(one) == [b"a", b"b"]


def test_lent_messages_count_until_they_are_released():
    one = queue(messages_max=2, bytes_max=3)
    for body in (b"a", b"bb"):
        one.put(body, 3, None)
    first, second = one.lend(), one.lend()
    assert (first[1], second[1], one.lend(), len(one)) == (b"a", b"bb", None, 2)
    assert one.put(b"", 3, None) is None, "messages"
    one.release(first[0])
    assert one.put(b"cc", 3, None) is None, "octets"
    one.release(second[0])
    assert one.put(b"ccc", 3, None) is not None
    assert len(one) == 1


def test_a_lent_message_expires_when_it_is_back():
    one = queue()
    one.put(b"a", 3, 5.0)
    number, _ = one.lend()
    assert one.remove_expired(6.0) == []
    one.put_back(number)
    assert one.remove_expired(6.0) == [b"a"]
    assert not one


def test_a_cleared_queue_takes_no_lent_message_back():
    one = queue(messages_max=2)
    for body in (b"a", b"b"):
        one.put(body, 3, None)
    number, _ = one.lend()
    assert one.clear() == [b"b"]
    assert not one.put_back(number)
    assert (drain(one), len(one)) == ([], 0)


def test_limits_count_messages_and_octets():
    one = queue(messages_max=2, bytes_max=10)
    assert one.put(b"12345678", 3, None)
    assert not one.put(b"123", 3, None), "octets"
    assert one.put(b"12", 3, None)
    assert not one.put(b"", 3, None), "messages"
    drain(one)
    assert one.put(b"1234567890", 3, None)


def test_expiry():
    one = queue()
    one.put(b"late", 7, 5.0)
    one.put(b"later", 3, 9.0)
    one.put(b"never", 0, None)
    assert one.deadline == 5.0
    assert one.remove_expired(4.9) == []
    assert one.remove_expired(5.0) == [b"late"]
    assert one.deadline == 9.0
    assert one.remove_expired(100.0) == [b"later"]
    assert one.deadline is None
    assert drain(one) == [b"never"]


def test_one_is_removed_by_its_number():
    one = queue(bytes_max=3)
    numbers = [one.put(body, 3, 5.0) for body in (b"a", b"b", b"c")]
    one.remove(numbers[1])
    assert one.put(b"d", 3, None) is not None, "its octets are free"
    assert one.remove_expired(4.0) == []
    assert drain(one) == [b"a", b"c", b"d"]


def test_taken_messages_leave_nothing_behind():
    one = queue()
    for _ in range(10_000):
        one.put(b"x", 3, 1e12)
        one.take()
    assert len(one._deadlines) < 200
    assert len(one._order) < 200
    for _ in range(10_000):
        one.put(b"x", 3, 1.0)
        one.remove_expired(2.0)
    assert len(one._order) < 200


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 7), st.one_of(st.none(), st.floats(0, 20))),
            st.tuples(st.just("take"), st.just(0), st.none()),
            st.tuples(st.just("back"), st.just(0), st.none()),
            st.tuples(st.just("expire"), st.integers(0, 20), st.none()),
            st.tuples(st.just("clear"), st.just(0), st.none()),
        ),
        max_size=150,
    )
)
def test_behaves_like_a_sorted_list(steps):
    one, model = queue(messages_max=20), []
    for count, (what, number, deadline) in enumerate(steps):
        if what == "put":
            body = b"%d" % count
            assert (one.put(body, number, deadline) is not None) is (len(model) < 20)
            if len(model) < 20:
                model.append((-number, count, body, deadline))
        elif what == "expire":
            late = {entry for entry in model if entry[3] is not None and entry[3] <= number}
            assert set(one.remove_expired(number)) == {entry[2] for entry in late}
            model = [entry for entry in model if entry not in late]
        elif what == "clear":
            assert set(one.clear()) == {entry[2] for entry in model}
            model = []
        else:
            model.sort(key=lambda entry: entry[:2])
            found = one.take() if what == "take" else one.lend()
            assert (found and found[1]) == (model[0][2] if model else None)
            if found and what == "back":
                assert one.put_back(found[0])
            else:
                model = model[1:]
        assert len(one) == len(model)
    assert drain(one) == [entry[2] for entry in sorted(model, key=lambda entry: entry[:2])]
