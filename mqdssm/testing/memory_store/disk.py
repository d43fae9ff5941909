"""The disk of a directory in memory.

Writes are durable, can be followed by a crash, or find the disk full.

`Disk.on_write` is called before and after each write, and may raise to simulate a loss of power.
"""

from collections.abc import Callable
from enum import Enum, StrEnum, auto
from typing import Final, ParamSpec

from mqdssm.errors import GenericDirectoryError

_P = ParamSpec("_P")
_GROWING: Final = frozenset({"put", "write_tombstone"})
"""Names of the methods whose writes may need more room."""


class Moment(Enum):
    """Moment of a write at which `Disk.on_write` is called."""

    BEFORE = auto()
    AFTER = auto()


class DiskSpace(StrEnum):
    """Space left on a disk."""

    PLENTY = "room"
    LITTLE = "no room for what grows"
    NONE = "no room"


class Crash(Exception):  # noqa: N818  part of a simulation, not an error
    """Simulated crash of the machine, raised by `Disk.on_write`."""


class Disk:
    """Disk to which a `mqdssm.testing.memory_store.store.MemoryStore` writes.

    Attributes:
        on_write: called before and after every durable write; None for no call.
        room: the space that is left (decision R66).
    """

    __slots__ = ("on_write", "room")

    def __init__(self) -> None:
        self.on_write: Callable[[Moment], None] | None = None
        self.room = DiskSpace.PLENTY

    def is_full(self, *, grows: bool) -> bool:
        """Return True if there is no space for a write, of entries that grow or not."""
        return self.room is DiskSpace.NONE or (grows and self.room is DiskSpace.LITTLE)

    def write(self, change: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Do one durable write.

        Raises:
            GenericDirectoryError: the disk has no room for it.
        """
        if self.room is not DiskSpace.PLENTY and self.is_full(
            grows=getattr(change, "__name__", "") in _GROWING
        ):
            raise GenericDirectoryError("the disk of the directory in memory is full")
        hook = self.on_write
        if hook is None:
            change(*args, **kwargs)
            return
        hook(Moment.BEFORE)
        change(*args, **kwargs)
        hook(Moment.AFTER)
