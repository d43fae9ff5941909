"""When notifications are processed, and what is done with too many of them ([MS-MQCN] notes <3> and <14>)."""

import math
import random
import tracemalloc
from uuid import UUID

import pytest
from support.notification.receivers import (
    MINUTE,
    START,
    ReceiverBench,
    body,
    deletion,
    queue,
    received,
    updates,
)

from mqdssm.engines.actions import StartTimer, TimerFired
from mqdssm.engines.notification import actions as do
from mqdssm.engines.notification.settings import ReceiverSettings
from mqdssm.model.notification import NotificationEvent
from mqdssm.model.owned_objects import QueueChanged, QueueDeleted

CREATE, CHANGE, DELETE, MANAGER = NotificationEvent
ONE = UUID(int=1)
pytestmark = pytest.mark.spec("MS-MQCN 5.1")


def changes(number=ONE.int):
    return received(body(CHANGE, UUID(int=number)))


def after_processing():
    """A receiver that has just processed a message."""
    bench = ReceiverBench(queue(1))
    bench.directory[ONE] = queue(1, quota=1)
    bench.step(changes())
    bench.advance(MINUTE)
    assert len(bench.take_events()) == 1
    assert not bench.timers
    bench.reads.clear()
    return bench


class TestTimer:
    def test_the_first_message_waits_a_minute_for_others(self):
        bench = ReceiverBench(queue(1))
        del bench.directory[ONE]
        bench.step(received(body(DELETE, ONE)))
        assert bench.timers == {"batch": START + MINUTE}
        bench.advance(math.nextafter(MINUTE, 0) - 1e-3)
        assert not bench.events
        bench.advance(1)
        assert bench.events == [QueueDeleted(queue(1))]

    @pytest.mark.parametrize(
        ("minutes", "due"),
        [
            (0, 15),
            (1, 15),
            (13.99, 15),
            (14, 15),  # 14 or less: the remainder of the 15, which is one
            (14.01, 15.01),  # more than 14: one minute
            (15, 16),
            (1000, 1001),
        ],
    )
    def test_after_a_processing_the_rest_of_the_fifteen_minutes(self, minutes, due):
        bench = after_processing()
        processed = bench.now
        bench.advance(minutes * MINUTE)
        bench.step(changes())
        assert bench.timers["batch"] - processed == pytest.approx(due * MINUTE, abs=1e-3)

    def test_others_do_not_move_it(self):
        bench = ReceiverBench(queue(1))
        bench.step(changes())
        bench.advance(30)
        bench.step(changes())
        assert bench.timers == {"batch": START + MINUTE}

    def test_all_that_came_is_processed_in_order(self):
        bench = ReceiverBench(queue(1), queue(2))
        bench.directory[ONE] = queue(1, quota=1)
        bench.step(updates(deletion(UUID(int=2))))
        bench.advance(30)
        bench.step(changes())
        bench.advance(30)
        assert bench.events == [QueueDeleted(queue(2)), QueueChanged(queue(1), queue(1, quota=1))]

    def test_what_comes_during_a_read_waits_for_the_next_time(self):
        bench = ReceiverBench(queue(1), queue(2))
        bench.step(changes())
        bench.now += MINUTE
        actions = bench.engine.step(TimerFired(name="batch"), bench.now)
        perform = next(action for action in actions if isinstance(action, do.PerformRead))
        during = bench.engine.step(updates(deletion(UUID(int=2))), bench.now)
        assert during == [StartTimer(name="batch", after_s=15 * MINUTE)]
        bench.timers["batch"] = bench.now + 15 * MINUTE
        bench.step(do.ReadPerformed(token=perform.token, result=do.QueueRead(queue=queue(1, quota=1))))
        assert bench.take_events() == [QueueChanged(queue(1), queue(1, quota=1))]
        bench.advance(15 * MINUTE)
        assert bench.events == [QueueDeleted(queue(2))]

    def test_windows_2000_processes_at_once(self):
        bench = ReceiverBench(queue(1), settle_s=0, interval_s=0)
        bench.step(updates(deletion(ONE)))
        assert bench.timers == {"batch": START}

    def test_times_are_settings(self):
        bench = ReceiverBench(queue(1), settle_s=5, interval_s=50)
        bench.directory[ONE] = queue(1, quota=1)
        bench.step(changes())
        assert bench.timers == {"batch": START + 5}
        bench.advance(5)
        bench.step(changes())
        assert bench.timers == {"batch": START + 55}

    @pytest.mark.parametrize(
        "wrong", [{"settle_s": -1}, {"interval_s": -1}, {"messages_max": 0}, {"retry_s": 0}]
    )
    def test_settings_that_cannot_be(self, wrong):
        with pytest.raises(ValueError, match="not below 0"):
            ReceiverSettings(identifier=ONE, computer_name="web01", **wrong)


class TestTooMany:
    @pytest.mark.parametrize(("count", "reads"), [(99, 99), (100, 1), (101, 1), (1000, 1)])
    def test_a_hundred_are_not_looked_at(self, count, reads):
        bench = ReceiverBench(queue(1))
        for number in range(1, count + 1):
            bench.step(received(body(CREATE, UUID(int=0xC0DE0000 + number))))
        bench.advance(MINUTE)
        assert len(bench.reads) == reads
        assert (bench.reads == [do.ReadAll()]) is (reads == 1)

    def test_the_directory_tells_instead(self):
        bench = ReceiverBench(queue(1), queue(2))
        for _ in range(99):
            bench.step(updates(deletion(ONE)))
        bench.step(changes(2))
        bench.directory = {ONE: queue(1), UUID(int=2): queue(2, quota=3), UUID(int=3): queue(3)}
        bench.advance(MINUTE)
        assert bench.queues == bench.directory  # the deletion was not believed
        assert bench.notes["refreshed: too many messages"] == 1

    def test_it_takes_no_more_often_than_every_fifteen_minutes(self):
        bench = ReceiverBench(queue(1))
        for _ in range(120):  # two hours: one hundred messages each minute
            for _ in range(100):
                bench.step(changes())
            bench.advance(MINUTE)
        assert bench.reads == [do.ReadAll()] * 8

    def test_afterwards_messages_count_again(self):
        bench = ReceiverBench(queue(1))
        for _ in range(200):
            bench.step(changes())
        bench.advance(MINUTE)
        bench.directory[ONE] = queue(1, quota=9)
        bench.step(changes())
        bench.advance(15 * MINUTE)
        assert bench.reads == [do.ReadAll(), do.ReadQueue(identifier=ONE)]
        assert bench.queues[ONE].quota == 9

    def test_so_do_messages_that_are_too_long_together(self):
        bench = ReceiverBench(queue(1), waiting_bytes_max=10_000)
        large = updates(*[deletion(ONE)] * 100)
        assert large.size < 10_000
        bench.step(large)
        assert not bench.notes
        bench.step(large)
        assert bench.notes == {"not looked at: too many messages wait": 1}
        bench.advance(MINUTE)
        assert bench.reads == [do.ReadAll()]

    def test_what_is_not_believed_does_not_count(self):
        bench = ReceiverBench(queue(1), queue(2))
        for _ in range(1000):
            bench.step(updates(deletion(ONE), from_directory_server=False))
            bench.step(received(body(MANAGER, UUID(int=5))))
        bench.step(updates(deletion(UUID(int=2))))
        bench.advance(MINUTE)
        assert bench.events == [QueueDeleted(queue(2))]
        assert not bench.reads

    def test_a_directory_that_is_away_is_tried_again(self):
        bench = ReceiverBench(queue(1))
        bench.broken = {None}
        for _ in range(100):
            bench.step(changes())
        bench.advance(MINUTE)
        assert bench.queues == {ONE: queue(1)}
        bench.broken, bench.directory = set(), {}
        bench.advance(MINUTE)
        assert bench.events == [QueueDeleted(queue(1))]


def forged(rng: random.Random) -> do.NotificationReceived:
    """A message that anybody can send."""
    identifier = ONE if rng.random() < 0.5 else UUID(int=rng.getrandbits(128))
    if rng.random() < 0.3:
        return updates(deletion(identifier), from_directory_server=False)
    return received(body(rng.choice(list(NotificationEvent)), identifier, f"dc{rng.randrange(99)}"))


def flood(count: int, minutes: float, refreshes: int) -> None:
    """Forged messages, evenly over some minutes of a simulated clock."""
    rng = random.Random(8)
    bench = ReceiverBench(queue(1), queue(2))
    before = bench.queues
    samples = [forged(rng) for _ in range(1000)]
    sizes = []
    tracemalloc.start()
    try:
        for number in range(count):
            bench.step(samples[rng.randrange(len(samples))])
            bench.advance(minutes * MINUTE / count)
            if number % (count // 10) == 0:
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    bench.advance(3600)
    assert bench.queues == before
    assert not bench.events
    assert bench.reads == [do.ReadAll()] * refreshes  # after 1, 16, 31, … minutes
    assert max(sizes[2:]) - sizes[2] < 50_000


def test_a_flood_changes_nothing():
    flood(5_000, minutes=17, refreshes=3)


@pytest.mark.soak
def test_a_flood_of_a_hundred_thousand():
    flood(100_000, minutes=60, refreshes=5)
