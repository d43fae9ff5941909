"""Recognition of neighbours that connect from a new address.

A peer claims who it is. So only our own resolver decides if a peer's address is that of a neighbour, and the
answer leads to an attempt to connect at most (decision T141).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

LOOK_UP_S: Final = 5.0
"""Seconds between two look-ups that peers cause: the time between two attempts to connect."""


class PeerRecognition:
    """Look-ups of a neighbour's addresses when peers open sessions.

    Use it in the event loop only.

    Args:
        look_up: returns the IP addresses that the neighbour has now; none if they are not known.
        on_looked_up: called with the IP addresses.
    """

    def __init__(
        self,
        look_up: Callable[[], Awaitable[frozenset[str]]],
        on_looked_up: Callable[[frozenset[str]], object],
    ) -> None:
        self._look_up, self._on_looked_up = look_up, on_looked_up
        self._loop: Final = asyncio.get_running_loop()
        self._next_at = float("-inf")
        self._is_wanted = False
        self._task: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Look the addresses up, `LOOK_UP_S` after the last look-up at the earliest."""
        self._is_wanted = True
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())

    def stop(self) -> None:
        """Give up a look-up that waits."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._is_wanted:
            await asyncio.sleep(max(0.0, self._next_at - self._loop.time()))
            self._is_wanted = False
            self._next_at = self._loop.time() + LOOK_UP_S
            self._on_looked_up(await self._look_up())
