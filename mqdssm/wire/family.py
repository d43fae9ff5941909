"""Encoding of messages of several layouts that share one header."""

from collections.abc import Mapping
from typing import Any

from mqdssm.wire.layout import Layout


def encode_one(
    layouts: Mapping[type, Layout[Any]], message: object, *, called: str, bytes_max: int, behind: bytes = b""
) -> bytes:
    """Encode a message by the layout of its class ([MC-MQDSRP] 2.2.6, [MS-MQCN] 2.2.4, [MS-MQSD] 2.2).

    Args:
        layouts: the layout of each class.
        message: the message.
        called: name of this family of messages, for the error.
        bytes_max: largest size in bytes.
        behind: bytes behind the message, which count.

    Raises:
        ValueError: naming the field that cannot be encoded, or for a message that is too long.
        TypeError: not a message of this family.
    """
    layout = layouts.get(type(message))
    if layout is None:
        raise TypeError(f"{message!r} is no {called}")
    data = layout.encode(message) + behind
    if len(data) > bytes_max:
        raise ValueError(f"{layout.section}: has {len(data)} bytes, at most {bytes_max}")
    return data
