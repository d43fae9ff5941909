"""Start and end of a queue manager: twice, again, and cancelled meanwhile."""

import asyncio
import threading

import pytest
from support.messaging.managers import queue

from mqdssm.errors import TransportError
from mqdssm.messaging import DeliveryProof

ORDERS = queue("left")


def test_a_second_start_leaves_the_first_one_alone(managers):
    left = managers.start("left")
    orders = left.open("orders")
    with pytest.raises(TransportError, match="left is started already: close it first"):
        left.start()
    assert left.send(ORDERS, b"a").wait(5) is DeliveryProof.SENT
    assert orders.receive(5).body == b"a"


def test_a_closed_queue_manager_can_be_started_again(managers):
    left = managers.start("left")
    left.send(queue("right"), b"a", recoverable=True)
    left.close(0.0)
    orders = managers.start("right").open("orders")
    with left:
        assert orders.receive(5).body == b"a"


def test_a_block_that_is_cancelled_before_it_begins_is_closed(managers):
    async def exchange() -> None:
        left, may_start, is_starting = managers.make("left"), threading.Event(), threading.Event()
        start = left.start

        def start_late() -> object:
            is_starting.set()
            may_start.wait(5)
            return start()

        left.start = start_late

        async def enter() -> None:
            async with left:
                pytest.fail("the block was cancelled")

        entering = asyncio.create_task(enter())
        await asyncio.to_thread(is_starting.wait, 5)
        entering.cancel()
        await asyncio.sleep(0)
        may_start.set()
        with pytest.raises(asyncio.CancelledError):
            await entering
        async with managers.make("left") as again:
            assert again.listens_on == left.listens_on

    asyncio.run(exchange())


@pytest.mark.parametrize("options", [{}, {"folder": None}])
def test_a_number_is_not_used_again(managers, options):
    left = managers.start("left", **options)
    removed = left.open("orders").number
    left.delete("orders")
    assert left.open("orders").number > removed
    assert left.open("answers").number > removed + 1
