"""The disk of a directory in memory: a write is durable, may be the last before a crash, or finds no room.

`Disk.on_write` is called before and after each write, and may raise, as a machine that loses its power.
"""

from collections.abc import Callable
from enum import Enum, StrEnum, auto
from typing import Final, ParamSpec

from mqdssm.errors import GenericDirectoryError

_P = ParamSpec("_P")
_GROWING: Final = frozenset({"put", "bury"})
"""Writes that may need more room than there was."""


class Moment(Enum):
    """Where a write is when `Disk.on_write` is called."""

    BEFORE = auto()
    AFTER = auto()


class DiskSpace(StrEnum):
    """How much a disk takes."""

    PLENTY = "room"
    LITTLE = "no room for what grows"
    NONE = "no room"


class Crash(Exception):  # noqa: N818  it is no error, it is what a simulation wants
    """What `Disk.on_write` may raise: the machine stops here."""


class Disk:
    """Where the writes of a `mqdssm.store.memory.MemoryStore` go.

    Attributes:
        on_write: called around every durable write; None: nobody.
        room: how much it takes (decision R66).
    """

    __slots__ = ("on_write", "room")

    def __init__(self) -> None:
        self.on_write: Callable[[Moment], None] | None = None
        self.room = DiskSpace.PLENTY

    def write(self, change: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Make one durable write.

        Raises:
            GenericDirectoryError: there is no room for it.
        """
        if self.room is not DiskSpace.PLENTY:
            grows = getattr(change, "__name__", "") in _GROWING
            if grows or self.room is DiskSpace.NONE:
                raise GenericDirectoryError("the disk of the directory in memory is full")
        hook = self.on_write
        if hook is None:
            change(*args, **kwargs)
            return
        hook(Moment.BEFORE)
        change(*args, **kwargs)
        hook(Moment.AFTER)
