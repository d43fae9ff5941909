"""Layouts without compiled code: the reference that the compiled form is compared with."""

from typing import Any, TypeVar

from mqdssm.wire import walk
from mqdssm.wire.codecs import finish
from mqdssm.wire.layout import Layout

T = TypeVar("T")


def decode_interpreted(layout: Layout[T], data: bytes) -> T:
    """Decode like `Layout.decode`.

    Raises:
        DecodeError: as there.
    """
    data = bytes(data)
    structure: T
    structure, end = walk.read(layout, data, 0, len(data))
    finish(layout.section, end, len(data))
    return structure


def encode_interpreted(layout: Layout[Any], structure: object) -> bytes:
    """Encode like `Layout.encode`.

    Raises:
        ValueError: as there.
    """
    return walk.write(layout, structure)
