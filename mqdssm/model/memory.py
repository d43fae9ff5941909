"""Memory of an object in its JSON: attributes changed since it was read.

A changed attribute was assigned or unset (M45).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json

ASSIGNED: Final = "Assigned"
ORIGINAL: Final = "OriginalIdentifier"


@dataclass(frozen=True, slots=True)
class Memory:
    """The stored state of an object that was read, parsed from its JSON form.

    Attributes:
        rest: the JSON form without this state.
        assigned: the specification's names of the attributes assigned or unset since the read: their values
            are validated, the others are accepted as a directory held them.
        original_identifier: see `DirectoryObject`.
    """

    rest: str
    assigned: frozenset[str]
    original_identifier: UUID | None

    @classmethod
    def read_json(cls, text: str | bytes) -> "Memory | None":
        """Return the stored state in a JSON form; None if there is no such state.

        Raises:
            ValueError: no JSON, or an invalid stored state.
        """
        values: Any = from_json(text)  # refuses too deep nesting, too
        if not isinstance(values, dict) or ASSIGNED not in values:
            return None
        names, original = values.pop(ASSIGNED), values.pop(ORIGINAL, None)
        problems = [] if _are_names(names) else [f"{ASSIGNED} must be a list of names, not {names!r}"]
        problems += (
            [] if isinstance(original, str | None) else [f"{ORIGINAL} must be a GUID, not {original!r}"]
        )
        if problems:
            raise ValueError("; ".join(problems))
        return cls(json.dumps(values), frozenset(names), None if original is None else UUID(str(original)))

    @staticmethod
    def add(text: str, assigned: Iterable[str], original_identifier: UUID | None) -> str:
        """Return a JSON form with the stored state of its object."""
        original = {ORIGINAL: str(original_identifier)} if original_identifier is not None else {}
        return json.dumps(json.loads(text) | original | {ASSIGNED: sorted(assigned)}, ensure_ascii=False)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
