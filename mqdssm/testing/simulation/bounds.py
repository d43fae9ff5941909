"""Sizes of an engine's collections: each must have a limit (TigerBeetle's “put a limit on everything”)."""

import gc
from collections import deque
from types import FunctionType, GeneratorType, ModuleType
from typing import Final

CONTAINER_MAX: Final = 1_000
"""More than any collection of an engine needs after a run of some hundred changes."""
_OUTSIDE: Final = (type, ModuleType, FunctionType, GeneratorType)


def largest(engine: object) -> int:
    """Return the size of the largest collection that can be reached from an engine."""
    size = 0
    seen = {id(engine)}
    waiting = [engine]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list | set | tuple | deque):
            size = max(size, len(one))
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, _OUTSIDE):
                seen.add(id(other))
                waiting.append(other)
    return size
