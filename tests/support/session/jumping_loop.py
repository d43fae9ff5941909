"""Event loop of asyncio in simulated time."""

import asyncio
from typing import Any


class JumpingLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock jumps to the next timer. Nothing in it may wait for a socket or a thread."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        selector: Any = getattr(self, "_selector")  # noqa: B009  an attribute of the base class
        self._poll, selector.select = selector.select, self._jump

    def time(self) -> float:
        """Return the simulated time in monotonic seconds."""
        return self._now

    def _jump(self, timeout: float | None) -> Any:
        assert timeout is not None, "all wait for ever"
        self._now += timeout
        return self._poll(0)
