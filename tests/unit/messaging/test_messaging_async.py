"""Programs that use asyncio send, receive and wait for acknowledgements in an event loop."""

import asyncio

import pytest
from support.messaging.managers import queue

from mqdssm.errors import MessageRejected
from mqdssm.messaging import DeliveryProof
from mqdssm.model.transport import MessageClass

pytestmark = pytest.mark.slow  # waits for threads and sockets

ORDERS = queue("right")


def test_messages_and_acknowledgements_are_awaited(managers):
    async def exchange() -> None:
        async with managers.make("left") as left, managers.make("right") as right:
            orders, answers = right.open("orders"), left.open("answers")
            sent = left.send(ORDERS, b"?", acknowledge="receive", response_queue=queue("left", "answers"))
            receiving = asyncio.create_task(orders.receive_async(5))
            message = await receiving
            answered = right.send(message.response_queue, b"!", correlation=message.identifier)
            assert await asyncio.gather(sent, answered) == [DeliveryProof.RECEIVED, DeliveryProof.SENT]
            async for answer in answers:
                assert (answer.body, answer.correlation) == (b"!", sent.identifier)
                answers.close()
            with pytest.raises(MessageRejected) as raised:
                await left.send(queue("right", "nosuch"), b"", acknowledge="reach")
            assert raised.value.message_class == MessageClass.NACK_BAD_DEST_QUEUE

    asyncio.run(exchange())


def test_awaiting_is_cancelled_without_loss(managers):
    async def exchange() -> None:
        async with managers.make("left") as left:
            waiting = left.send(ORDERS, b"a", recoverable=True)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting, 0.05)
            async with managers.make("right") as right:
                orders = right.open("orders")
                assert await asyncio.wait_for(waiting, 5) is DeliveryProof.SENT
                assert (await orders.receive_async(5)).body == b"a"
                receiving = [asyncio.create_task(orders.receive_async()) for _ in range(20)]
                await asyncio.sleep(0.01)
                for task in receiving[1:]:
                    task.cancel()
                left.send(ORDERS, b"b")
                assert (await asyncio.wait_for(receiving[0], 5)).body == b"b"
                assert await orders.receive_async(0.05) is None

    asyncio.run(exchange())


def test_a_message_is_put_back_if_its_block_fails(managers):
    async def exchange() -> None:
        async with managers.make("left") as left, managers.make("right") as right:
            orders = right.open("orders")
            left.send(ORDERS, b"a", recoverable=True)

            async def handle(*, hangs: bool) -> None:
                async with orders.receiving_async(5) as message:
                    assert message.body == b"a"
                    if hangs:
                        await asyncio.sleep(60)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(handle(hangs=True), 0.3)
            await handle(hangs=False)
            async with orders.receiving_async(0) as message:
                assert message is None

    asyncio.run(exchange())


def test_a_closed_queue_ends_the_loop(managers):
    async def exchange() -> int:
        async with managers.make("right") as right:
            orders = right.open("orders")
            asyncio.get_running_loop().call_later(0.02, orders.close)
            return len([message async for message in orders])

    assert asyncio.run(exchange()) == 0


def test_a_delivery_is_awaited_that_nobody_keeps(managers):
    async def exchange() -> None:
        async with managers.make("left") as left, managers.make("right") as right:
            orders = right.open("orders")

            async def receive_late() -> None:
                assert await asyncio.to_thread(left.flush, 5)
                assert (await orders.receive_async(5)).body == b"a"

            receiving = asyncio.create_task(receive_late())
            async with asyncio.timeout(5):
                assert await left.send(ORDERS, b"a", acknowledge="receive") is DeliveryProof.RECEIVED
            await receiving

    asyncio.run(exchange())
