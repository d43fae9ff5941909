"""Digest of an object's replicated properties: it shows whether another program has changed the object.

The digest is written together with the object's number, in one operation (decision R112). So it needs no log
of the server, and a crash cannot separate the two.
"""

from hashlib import blake2b
from typing import Final

from mqdssm.model.messages import Properties, PropertyValue

DIGEST_BYTES: Final = 16


def digest_of(properties: Properties) -> bytes:
    """Return the digest of the properties of an object.

    Args:
        properties: the properties in a change of the object, in the order of `mqdssm.store.rules.replicated`.
    """
    parts: list[bytes] = []
    for propid, value in properties:
        parts.append(b"%d" % propid)
        _add(parts, value)
    return blake2b(b"\n".join(parts), digest_size=DIGEST_BYTES).digest()


def _add(parts: list[bytes], value: PropertyValue) -> None:
    """Add a value after its kind and length, so that different values always give different octets."""
    if isinstance(value, int):
        parts.append(b"i%d" % value)
    elif isinstance(value, str):
        octets = value.encode("utf-8", "surrogatepass")
        parts.append(b"t%d" % len(octets))
        parts.append(octets)
    elif isinstance(value, tuple):
        parts.append(b"l%d" % len(value))
        for one in value:
            _add(parts, one)
    else:
        parts.append(b"o%d" % len(value))
        parts.append(value)
