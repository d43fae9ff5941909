"""Who is told of changes: callbacks and async iterators, quick ones and slow ones."""

import asyncio
import logging
import threading
from uuid import UUID

import pytest
from support.notification.receivers import manager, queue

from mqdssm.drivers.notification.subscriptions import MISSED_NAMED_MAX, Missed, Subscriptions
from mqdssm.drivers.threads import EventCounts
from mqdssm.model.owned_objects import QueueChanged, QueueCreated, QueueDeleted, QueueManagerChanged

CREATED = QueueCreated(queue(1))
CHANGED = QueueChanged(queue(1), queue(1, quota=2))
DELETED = QueueDeleted(queue(1, quota=2))
MANAGER = QueueManagerChanged(manager(), manager(journal_quota=1))
ALL = (CREATED, CHANGED, DELETED, MANAGER)


@pytest.fixture
def subscriptions():
    return Subscriptions(EventCounts())


async def taken(stream):
    return [one async for one in stream]


class TestCallbacks:
    def test_each_is_called_for_its_event(self, subscriptions):
        seen = []
        subscriptions.call(
            queue_created=lambda *values: seen.append(("created", values)),
            queue_changed=lambda *values: seen.append(("changed", values)),
            queue_deleted=lambda *values: seen.append(("deleted", values)),
            queue_manager_changed=lambda *values: seen.append(("manager", values)),
        )
        subscriptions.publish(ALL)
        assert seen == [
            ("created", (CREATED.queue,)),
            ("changed", (CHANGED.old, CHANGED.new)),
            ("deleted", (DELETED.queue,)),
            ("manager", (MANAGER.old, MANAGER.new)),
        ]

    def test_what_cannot_be_called_is_refused(self, subscriptions):
        async def later(queue):
            raise AssertionError(queue)

        for one in (3, later):
            with pytest.raises(ValueError, match="give a plain function"):
                subscriptions.call(queue_created=one)

    def test_what_is_not_wanted_is_not_called(self, subscriptions):
        seen = []
        subscriptions.call(queue_deleted=seen.append)
        subscriptions.publish(ALL)
        assert seen == [DELETED.queue]

    def test_until_it_is_ended(self, subscriptions):
        seen = []
        leave = subscriptions.call(queue_created=seen.append)
        subscriptions.publish([CREATED])
        leave()
        leave()
        subscriptions.publish([CREATED])
        assert seen == [CREATED.queue]

    def test_the_same_function_twice_is_two_subscribers(self, subscriptions):
        seen = []
        leave = subscriptions.call(queue_created=seen.append)
        subscriptions.call(queue_created=seen.append)
        leave()
        subscriptions.publish([CREATED])
        assert seen == [CREATED.queue]

    def test_one_that_fails_keeps_nothing_from_the_others(self, caplog):
        counts, seen = EventCounts(), []
        subscriptions = Subscriptions(counts)
        subscriptions.call(queue_created=lambda _: 1 / 0)
        subscriptions.call(queue_created=seen.append)
        with caplog.at_level(logging.ERROR):
            subscriptions.publish([CREATED, CREATED])
        assert seen == [CREATED.queue] * 2
        assert counts.copy() == {"a subscriber failed": 2}
        assert "failed at QueueCreated" in caplog.text


class TestIterators:
    def test_all_events_in_order(self, subscriptions):
        stream = subscriptions.events()
        subscriptions.publish(ALL)
        subscriptions.end()
        assert asyncio.run(taken(stream)) == list(ALL)

    def test_events_of_another_thread_wake_it(self, subscriptions):
        stream = subscriptions.events()
        waits = threading.Event()

        def publish():
            assert waits.wait(5)
            for event in ALL:
                subscriptions.publish([event])
            subscriptions.end()

        async def work():
            waits.set()
            return await asyncio.wait_for(taken(stream), 5)

        thread = threading.Thread(target=publish)
        thread.start()
        assert asyncio.run(work()) == list(ALL)
        thread.join()

    def test_a_slow_one_is_told_what_it_missed(self, subscriptions):
        stream = subscriptions.events(buffer=2)
        subscriptions.publish([QueueCreated(queue(number)) for number in (1, 2, 1, 3, 4)])
        subscriptions.end()
        missed = Missed(3, frozenset({UUID(int=1), UUID(int=2)}), is_all=True)
        assert asyncio.run(taken(stream)) == [missed, QueueCreated(queue(3)), QueueCreated(queue(4))]

    def test_each_time_anew(self, subscriptions):
        stream = subscriptions.events(buffer=1)

        async def work():
            subscriptions.publish([QueueCreated(queue(1)), CHANGED])
            first = [await anext(stream), await anext(stream)]
            subscriptions.publish([MANAGER, DELETED])
            return [*first, await anext(stream), await anext(stream)]

        missed = [frozenset({UUID(int=1)}), frozenset({manager().identifier})]
        assert asyncio.run(work()) == [
            Missed(1, missed[0], is_all=True),
            CHANGED,
            Missed(1, missed[1], is_all=True),
            DELETED,
        ]

    def test_what_is_named_is_bounded(self, subscriptions):
        stream = subscriptions.events(buffer=1)
        subscriptions.publish(QueueCreated(queue(number)) for number in range(5_000))
        subscriptions.end()
        missed, last = asyncio.run(taken(stream))
        assert last == QueueCreated(queue(4_999))
        assert (missed.count, len(missed.objects), missed.is_all) == (4_999, MISSED_NAMED_MAX, False)

    def test_a_quick_one_beside_a_slow_one_misses_nothing(self, subscriptions):
        quick, slow = subscriptions.events(buffer=10_000), subscriptions.events(buffer=1)
        subscriptions.publish([CREATED] * 5_000)
        subscriptions.end()
        assert asyncio.run(taken(quick)) == [CREATED] * 5_000
        assert isinstance(asyncio.run(taken(slow))[0], Missed)

    def test_a_closed_one_hears_no_more(self, subscriptions):
        with subscriptions.events() as stream:
            subscriptions.publish([CREATED])
        subscriptions.publish([CREATED])
        stream.close()
        assert asyncio.run(taken(stream)) == []

    def test_after_the_end_there_are_none(self, subscriptions):
        subscriptions.end()
        assert asyncio.run(taken(subscriptions.events())) == []

    def test_an_iterator_that_was_cancelled_goes_on(self, subscriptions):
        stream = subscriptions.events()

        async def work():
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.01)
            subscriptions.publish([CREATED])
            return await asyncio.wait_for(anext(stream), 5)

        assert asyncio.run(work()) == CREATED

    def test_two_tasks_on_one_are_a_mistake(self, subscriptions):
        stream = subscriptions.events()

        async def work():
            first = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="each needs its own"):
                await anext(stream)
            subscriptions.publish([CREATED])
            return await asyncio.wait_for(first, 5)

        assert asyncio.run(work()) == CREATED

    def test_an_abandoned_loop_harms_nobody(self, subscriptions):
        stream = subscriptions.events()

        async def work():
            task = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.01)
            task.cancel()

        asyncio.run(work())
        subscriptions.publish([CREATED])
        subscriptions.end()
        assert asyncio.run(taken(stream)) == [CREATED]

    def test_a_buffer_holds_one_event_at_least(self, subscriptions):
        with pytest.raises(ValueError, match="at least one"):
            subscriptions.events(buffer=0)
