"""Estimated sizes on the wire, rather too high than too low, for splitting messages."""

from typing import Final

from mqdssm.model.messages import DirectoryChange, PropertyValue

_CHANGE_BYTES: Final = 100  # of a change without names and properties, at most
_PROPERTY_BYTES: Final = 12  # of a property's number, and its length
_NUMBER_BYTES: Final = 8


def size_of_change(change: DirectoryChange) -> int:
    """Estimate the octets of a directory change ([MC-MQDSRP] 2.2.4)."""
    name = 2 * len(change.path_name or "")
    return _CHANGE_BYTES + name + sum(_PROPERTY_BYTES + size_of(value) for _, value in change.properties)


def size_of(value: PropertyValue) -> int:
    """Estimate the octets of a property's value ([MS-MQCN] 2.2.3)."""
    if isinstance(value, int):
        return _NUMBER_BYTES
    if isinstance(value, str):
        return 2 * len(value) + 2
    if isinstance(value, tuple):
        return sum(map(size_of, value))
    return len(value)
