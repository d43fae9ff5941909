"""Division of streams of entries into batches that fit into memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def row_bytes(row: tuple[Any, ...]) -> int:
    """Return the number of octets of the values of an entry."""
    size = 0
    for value in row[1:-1]:
        if isinstance(value, bytes):
            size += len(value)
        elif value is not None:
            size += sum(map(len, value))
    return size


def sized(
    found: Iterable[T],
    bytes_of: Callable[[T], int],
    *,
    rows_max: int,
    bytes_max: int,
) -> Iterator[list[T]]:
    """Divide a stream of entries into batches of bounded size.

    Args:
        found: the entries.
        bytes_of: returns the octets of an entry; certificates reach 1 MiB each.
        rows_max: entries of a batch.
        bytes_max: octets after which a batch ends early: it is longer by a part of its last entry at most.
    """
    kept: list[T] = []
    size = 0
    for one in found:
        kept.append(one)
        size += bytes_of(one)
        if size >= bytes_max or len(kept) >= rows_max:
            yield kept
            kept, size = [], 0
    if kept:
        yield kept
