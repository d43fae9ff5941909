"""Refusals that all decoders share: a field that does not fit, and bytes left over."""

from mqdssm.errors import DecodeError


def need(section: str, field: str, offset: int, size: int, end: int) -> None:
    """Refuse a field of `size` bytes at `offset` that does not fit before `end`.

    Raises:
        DecodeError: naming section, field, offset, bytes needed and bytes left.
    """
    if size > end - offset:
        raise DecodeError(section, field, offset, f"needs {size} bytes, {max(end - offset, 0)} left")


def finish(section: str, offset: int, end: int) -> None:
    """Refuse bytes behind the last field.

    Raises:
        DecodeError: naming the number of bytes left over.
    """
    if offset != end:
        raise DecodeError(section, "end", offset, f"{end - offset} bytes left over")
