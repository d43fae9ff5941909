"""What waits for other machines: bounded for each of them, and acknowledgements for all of them together."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.replication.queue_managers import guid_of

from mqdssm.drivers.queue_manager.outgoing import Outgoing, OutgoingLimits
from mqdssm.drivers.threads import EventCounts
from mqdssm.model.transport import INFINITE, Message, MessageClass

LIMITS = OutgoingLimits(messages_max=5, bytes_max=100, acknowledgements_max=3, acknowledgement_bytes_max=30)


def ack(body: bytes = b"") -> Message:
    return Message(
        message_class=MessageClass.NACK_BAD_SIGNATURE, body=body, time_to_reach_queue_s=INFINITE, sent_at=1
    )


@pytest.fixture
def counts() -> EventCounts:
    return EventCounts()


@pytest.fixture
def outgoing(counts) -> Outgoing:
    return Outgoing(LIMITS, counts)


def drain(outgoing: Outgoing, address) -> list[bytes]:
    bodies = []
    while (taken := outgoing.take(address, 0.0)[1]) is not None:
        bodies.append(taken.message.body)
        outgoing.release(taken)
    outgoing.settle(address)
    return bodies


def everything(outgoing: Outgoing) -> list[bytes]:
    return [body for address in outgoing.addresses for body in drain(outgoing, address)]


def test_limits_of_messages_are_for_each_machine(outgoing):
    for address in ("one", guid_of("two")):
        assert all(outgoing.put(address, Message(body=b"%d" % n)) for n in range(5))
        assert not outgoing.put(address, Message())
    assert drain(outgoing, "one") == [b"0", b"1", b"2", b"3", b"4"]
    assert outgoing.addresses == [guid_of("two")]


def test_the_oldest_acknowledgements_make_room(outgoing, counts):
    for number in range(10):
        assert outgoing.put(f"machine {number}", ack(b"%d" % number))
    assert counts.copy() == {"given up: acknowledgement": 7}
    assert everything(outgoing) == [b"7", b"8", b"9"]


def test_octets_of_acknowledgements(outgoing, counts):
    for body in (b"a" * 20, b"b" * 10, b"c"):
        assert outgoing.put("one", ack(body))
    assert not outgoing.put("one", ack(bytes(31))), "and nothing is given up for it"
    assert counts.copy() == {"given up: acknowledgement": 2}
    assert everything(outgoing) == [b"b" * 10, b"c"]
    assert outgoing.addresses == []


def test_a_full_queue_takes_no_acknowledgement(outgoing, counts):
    assert all(outgoing.put("one", Message()) for _ in range(5))
    assert not outgoing.put("one", ack())
    assert counts.copy() == {"given up: acknowledgement": 1}


def test_what_was_sent_makes_room_for_others(outgoing, counts):
    for _ in range(10):
        assert outgoing.put("one", ack(bytes(30)))
        assert len(drain(outgoing, "one")) == 1
    assert counts.copy() == {}


def test_one_that_could_not_be_sent_is_the_oldest_again(outgoing, counts):
    for number in range(3):
        outgoing.put(f"machine {number}", ack(b"%d" % number))
    _, taken = outgoing.take("machine 0", 0.0)
    assert outgoing.put_back(taken)
    outgoing.put("one more", ack(b"new"))
    assert everything(outgoing) == [b"1", b"2", b"new"]
    assert counts.copy() == {"given up: acknowledgement": 1}


def test_purge(outgoing, counts):
    outgoing.put("one", ack(bytes(30)))
    outgoing.put("one", Message(body=b"x"))
    assert [len(one.body) for one in outgoing.purge("one")] == [30, 1]
    assert outgoing.purge("nobody") == []
    assert outgoing.put("two", ack(bytes(30)))
    assert counts.copy() == {}


def test_late_ones_come_out_before_the_next(outgoing):
    outgoing.put("one", Message(body=b"late", priority=7, sent_at=10, time_to_reach_queue_s=5))
    outgoing.put("one", Message(body=b"good", sent_at=10, time_to_reach_queue_s=50))
    late, taken = outgoing.take("one", 16.0)
    assert ([one.body for one in late], taken.message.body) == ([b"late"], b"good")
    assert outgoing.put_back(taken)
    assert outgoing.settle("one") == 61.0
    assert outgoing.addresses == ["one"]


def test_messages_in_flight_count(outgoing, counts):
    assert all(outgoing.put("one", Message(body=b"%d" % number)) for number in range(5))
    flying = [outgoing.take("one", 0.0)[1] for _ in range(5)]
    assert not outgoing.put("one", Message()), "all five are in flight"
    outgoing.settle("one")
    assert outgoing.addresses == ["one"], "the queue stays"
    outgoing.release(flying[1])
    assert outgoing.put("one", Message(body=b"new"))
    assert all(outgoing.put_back(flying[number]) for number in (3, 0, 4, 2))
    assert drain(outgoing, "one") == [b"0", b"2", b"3", b"4", b"new"]
    assert (outgoing.addresses, counts.copy()) == ([], {})


def test_acknowledgements_in_flight_are_not_given_up(outgoing, counts):
    for number in range(3):
        assert outgoing.put("one", ack(b"%d" % number))
    flying = [outgoing.take("one", 0.0)[1] for _ in range(3)]
    assert not outgoing.put("two", ack(b"new"))
    assert counts.copy() == {"given up: acknowledgement": 1}
    outgoing.release(flying[0])
    assert outgoing.put("two", ack(b"newer"))
    assert all(map(outgoing.put_back, flying[1:]))
    assert everything(outgoing) == [b"1", b"2", b"newer"]


def test_messages_in_flight_are_purged_when_they_come_back(outgoing):
    outgoing.put("one", Message(body=b"a"))
    outgoing.put("one", ack(b"b"))
    first, second = (outgoing.take("one", 0.0)[1] for _ in range(2))
    outgoing.put("one", Message(body=b"c"))
    assert [one.body for one in outgoing.purge("one")] == [b"c"]
    assert not outgoing.put_back(first)
    outgoing.release(second)
    assert drain(outgoing, "one") == []
    assert all(outgoing.put("two", ack(bytes(10))) for _ in range(3)), "none counts any more"


def test_acknowledgements_of_programs_have_their_time(outgoing, counts):
    """They are messages like others, with the limits of others."""
    for _ in range(5):
        assert outgoing.put("one", replace(ack(), time_to_reach_queue_s=3))
    late, taken = outgoing.take("one", 5.0)
    assert (len(late), taken) == (5, None)
    outgoing.settle("one")
    assert all(outgoing.put("one", ack()) for _ in range(3))
    assert counts.copy() == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ack", "message", "send", "fail", "fly", "land", "purge"]),
            st.sampled_from("abcd"),
            st.integers(0, 12),
        ),
        max_size=100,
    )
)
def test_acknowledgements_never_exceed_their_limits(steps):
    outgoing = Outgoing(LIMITS, EventCounts())
    flying = []
    for what, address, size in steps:
        if what in {"ack", "message"}:
            outgoing.put(address, ack(bytes(size)) if what == "ack" else Message(body=bytes(size)))
        elif what == "purge":
            outgoing.purge(address)
        elif what == "land":
            for landed in flying:
                outgoing.release(landed) if size % 2 else outgoing.put_back(landed)
            flying.clear()
        elif address in outgoing.addresses:
            _, taken = outgoing.take(address, 0.0)
            if taken is not None and what == "fly":
                flying.append(taken)
            elif taken is not None:
                outgoing.put_back(taken) if what == "fail" else outgoing.release(taken)
            outgoing.settle(address)
        waiting = [one for queue in outgoing._queues.values() for _, _, _, one in queue._held.values()]
        acks = [len(one.body) for one in waiting if one.message_class != MessageClass.NORMAL]
        away = [len(one.message.body) for one in flying if one.message.message_class != MessageClass.NORMAL]
        assert len(acks) + len(away) <= LIMITS.acknowledgements_max
        assert sum(acks) == outgoing._octets
        assert sum(away) == outgoing._octets_in_flight
        assert sum(acks) + sum(away) <= LIMITS.acknowledgement_bytes_max


@pytest.mark.parametrize(
    ("reach", "receive", "last"), [(INFINITE, 10, 11), (5, 10, 6), (10, 5, 6), (5, INFINITE, 6)]
)
def test_a_message_that_nobody_may_receive_any_more_is_not_sent(outgoing, reach, receive, last):
    limited = Message(sent_at=0, time_to_reach_queue_s=reach, time_to_be_received_s=receive)
    assert outgoing.put("one", limited)
    late, item = outgoing.take("one", last - 0.1)
    assert (late, item.message) == ([], limited)
    assert outgoing.put_back(item)
    assert outgoing.take("one", last) == ([limited], None)
