"""Context managers that close themselves."""

from abc import ABC, abstractmethod
from typing import Self


class Closeable(ABC):
    """Context manager that is closed when the context ends."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release what the object holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
