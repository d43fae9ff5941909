"""Streams of entries cut into batches that fit into memory."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

T = TypeVar("T")

CHUNK_ROWS: Final = 250
"""Rows after which the size of a batch is looked at: certificates reach 1 MiB each."""


def row_bytes(row: tuple[Any, ...]) -> int:
    """Octets of the values of an entry."""
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
    """Cut a stream of entries into batches of bounded size.

    Args:
        found: the entries.
        bytes_of: octets of one of them.
        rows_max: entries of a batch.
        bytes_max: octets after which a batch ends early, looked at now and then.
    """
    stream = iter(found)
    kept: list[T] = []
    size = 0
    while chunk := list(islice(stream, min(CHUNK_ROWS, rows_max - len(kept)))):
        kept += chunk
        size += sum(map(bytes_of, chunk))
        if len(kept) >= rows_max or size >= bytes_max:
            yield kept
            kept, size = [], 0
    if kept:
        yield kept
