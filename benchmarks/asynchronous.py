"""The events for asyncio beside threads, over as many connections: [aio]."""

import asyncio
import random
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Final

import mqdssm
from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import OWN_NAMES, SEED, World
from mqdssm.aio import AsyncDirectory

REQUESTS: Final = 1000
"""Concurrent requests of one run."""
CONNECTIONS: Final = 4

AIO: Final = Goal(
    name="aio",
    title=f"{REQUESTS:,} concurrent reads with `mqdssm.aio` over {CONNECTIONS} connections",
    against=f"{CONNECTIONS} threads with one `mqdssm.Directory`",
    goal=0.8,
    direction="at_least",
)


def read_concurrently(world: World, *, quick: bool) -> Outcome:
    chance = random.Random(SEED)
    tasks = AsyncDirectory(world.directory, connections=CONNECTIONS)

    def wanted() -> Iterator[mqdssm.Filter]:
        for guid in chance.choices(world.guids, k=REQUESTS):
            yield mqdssm.Filter("Identifier", "==", guid)

    def check(queue: mqdssm.Queue, expression: mqdssm.Filter) -> None:
        if queue.identifier != expression.value:
            raise AssertionError(f"{queue.identifier} instead of {expression.value}")

    async def read(expression: mqdssm.Filter) -> None:
        check(await tasks.read(mqdssm.Queue, expression, attributes=OWN_NAMES), expression)

    async def gather() -> None:
        await asyncio.gather(*map(read, wanted()))

    def ours() -> None:
        asyncio.run(gather())

    def theirs() -> None:
        waiting: SimpleQueue[mqdssm.Filter | None] = SimpleQueue()
        for expression in wanted():
            waiting.put(expression)
        failures: list[Exception] = []

        def serve() -> None:
            try:
                while (expression := waiting.get()) is not None:
                    check(world.directory.read(mqdssm.Queue, expression, attributes=OWN_NAMES), expression)
            except Exception as error:  # noqa: BLE001  raised by the run
                failures.append(error)

        threads = [threading.Thread(target=serve) for _ in range(CONNECTIONS)]
        for thread in threads:
            waiting.put(None)
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    return interleaved(ours, theirs, 3 if quick else 15).speed(AIO, REQUESTS, "reads")


ROWS: Final = {AIO: read_concurrently}
