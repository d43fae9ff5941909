"""Objects that a search has returned (decision M72).

With them, the search can begin again without repeating any object.

Sixteen octets an object: its objectGUID, which outlives a rename; where it has none that this user may read,
a digest of its name. Only when a search does begin again they are made a set, of some 100 octets an object.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, TypeVar

from mqdssm.model.dn import normalize

KEY_BYTES: Final = 16
IDENTITY: Final = "objectGUID"
"""Attribute that every search requests."""
NOTHING: Final = frozenset({"1.1"})
"""Selector for no attributes ([RFC4511] 4.5.1.8)."""

T = TypeVar("T")


def add_identity(attributes: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the attributes to request, and True if `IDENTITY` was added.

    Args:
        attributes: what the caller wants; ``*`` brings it along.
    """
    names = {name.partition(";")[0].lower() for name in attributes}
    if not names.isdisjoint({IDENTITY.lower(), "*"}):
        return tuple(attributes), False
    return (*(() if names <= NOTHING else attributes), IDENTITY), True


def key_of(dn: str, guid: object) -> bytes:
    """Return the key under which an object is remembered.

    Args:
        dn: its name, as the server wrote it.
        guid: its objectGUID, or the value that came instead.
    """
    if isinstance(guid, list) and guid:
        guid = guid[0]
    if isinstance(guid, bytes) and len(guid) == KEY_BYTES:
        return guid
    try:
        name = normalize(dn)
    except ValueError:
        name = dn.lower()
    return blake2b(name.encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()


class SeenEntries:
    """Objects that a search has returned; not thread-safe."""

    __slots__ = ("_before", "_keys")

    def __init__(self) -> None:
        self._keys = bytearray()
        self._before: set[bytes] = set()

    @property
    def count(self) -> int:
        """Number of objects returned."""
        return len(self._keys) // KEY_BYTES

    def begin_again(self) -> None:
        """Skip the objects returned so far from now on."""
        keys = bytes(self._keys)
        self._before = {keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES)}

    def is_new(self, dn: str, guid: object) -> bool:
        """Remember an object and return True, or return False if it was returned before."""
        key = key_of(dn, guid)
        if key in self._before:
            return False
        self._keys += key
        return True

    def new(self, items: list[T], dns: Iterable[str], guids: Sequence[object]) -> list[T]:
        """Remember and return the objects that were not returned before.

        Args:
            items: one for each object.
            dns: their names, as the server wrote them.
            guids: the objectGUID of each object, or the value that came instead.
        """
        keys = _make_keys(dns, guids)
        if self._before:
            pairs = [pair for pair in zip(items, keys, strict=True) if pair[1] not in self._before]
            items = [item for item, _ in pairs]
            keys = [key for _, key in pairs]
        self._keys += b"".join(keys)
        return items


def _make_keys(dns: Iterable[str], guids: Sequence[object]) -> list[bytes]:
    if set(map(type, guids)) <= {bytes} and set(map(len, guids)) <= {KEY_BYTES}:  # type: ignore[arg-type]  # all are bytes
        return list(guids)  # type: ignore[arg-type]  # as above
    return [key_of(dn, guid) for dn, guid in zip(dns, guids, strict=True)]
