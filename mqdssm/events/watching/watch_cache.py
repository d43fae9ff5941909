"""Last known state of a directory, compared with objects as they are read.

The cache has no I/O.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

from mqdssm.events.watching.watched_values import (
    ABSENT,
    DEFAULT,
    FULL_PATH,
    Body,
    Seen,
    make_attribute_change,
)
from mqdssm.model.watching import AttributeChange, ChangeEvent, ObjectChange

QUIET: Final = frozenset({"ModifyTime"})
"""Attributes that are no change by themselves: a write of equal values changes them, too."""


@dataclass(frozen=True, slots=True)
class KnownObject:
    """Last known state of an object (decision W5).

    Attributes:
        type: of the object; empty: it is none of the watched objects, and only its version is known.
        dn: its name.
        guid: its objectGUID as text, if it has one.
        body: JSON, compact: half a kilobyte instead of several for 100,000 objects each.
        version: of its entry, as `TouchedEntry.version`; empty: unknown, so that it differs from all.
    """

    type: str
    dn: str
    guid: str | None
    body: str
    version: str = ""


class WatchCache:
    """Known objects by their keys (decisions W3, W7, W9).

    Attributes:
        others: versions of entries that are not watched, but matter to watched objects, by their keys.
        is_complete: all of the directory has been seen once: from then on there are changes to tell.
    """

    def __init__(self) -> None:
        """Initialize without objects."""
        self._objects: dict[str, KnownObject] = {}
        self._holders: dict[int, str] = {}  # hash of a name -> key: a third of the memory of the names
        self.others: dict[str, str] = {}
        self.is_complete = False

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[tuple[str, KnownObject]]:
        return iter(self._objects.items())

    def get(self, key: str) -> KnownObject | None:
        """Return the last known state of an object; None if it is unknown."""
        return self._objects.get(key)

    def holder(self, dn: str) -> str | None:
        """Return the key of the known object with a name; None if there is none."""
        key = self._holders.get(_hash_name(dn))
        return key if key is not None and self._objects[key].dn.lower() == dn.lower() else None

    def put(self, key: str, known_object: KnownObject | None) -> None:
        """Record the state of an object; None removes it."""
        self.others.pop(key, None)
        before = self._objects.pop(key, None)
        if before is not None and self._holders.get(_hash_name(before.dn)) == key:
            del self._holders[_hash_name(before.dn)]
        if known_object is None:
            return
        if known_object.type:
            self._objects[key] = known_object
            self._holders[_hash_name(known_object.dn)] = key
        else:
            self.others[key] = known_object.version

    def change(self, key: str, seen: Seen | None, ignore: Collection[str] = ()) -> ObjectChange | None:
        """Return the difference between an object and its last known state.

        The mirror is not changed.

        Args:
            key: of the object.
            seen: as it was found; None: it was not.
            ignore: attributes that are not told.

        Returns:
            None where there is nothing to tell.
        """
        return _change(self._objects.get(key), seen, ignore)


def seen_of(key: str, known_object: KnownObject | None) -> Seen | None:
    """Return a recorded object in the form of a read one, as it is reported (W7)."""
    if known_object is None:
        return None
    return Seen(
        key=key,
        type=known_object.type,
        dn=known_object.dn,
        guid=known_object.guid,
        body=json.loads(known_object.body),
        version=known_object.version,
    )


def known_of(seen: Seen | None) -> KnownObject | None:
    """Return the state of an object to be recorded (decision W5)."""
    if seen is None:
        return None
    body = json.dumps(seen.body, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return KnownObject(seen.type, seen.dn, seen.guid, body, seen.version)


def other_of(version: str) -> KnownObject:
    """Return the state to be recorded of an entry that is not watched (decision W16)."""
    return KnownObject("", "", None, "{}", version)


def make_unchanged(seen: Seen) -> ObjectChange:
    """Return the change of an object that a write did not alter (decision C29)."""
    return _make_object_change(ChangeEvent.CHANGED, seen.type, seen.dn, seen.guid, {})


def _hash_name(dn: str) -> int:
    return hash(dn.lower())


def _change(
    known_object: KnownObject | None, seen: Seen | None, ignore: Collection[str]
) -> ObjectChange | None:
    if seen is None:
        return None if known_object is None else _make_deletion(known_object, ignore)
    if known_object is None:
        return _make_creation(seen, ignore)
    return _make_change(known_object, seen, ignore)


def _make_deletion(known_object: KnownObject, ignore: Collection[str]) -> ObjectChange:
    body: Body = json.loads(known_object.body)
    changes = {
        name: make_attribute_change(known_object.type, name, value, ABSENT, {})
        for name, value in body.items()
        if name not in ignore
    }
    return _make_object_change(
        ChangeEvent.DELETED, known_object.type, known_object.dn, known_object.guid, changes
    )


def _make_creation(seen: Seen, ignore: Collection[str]) -> ObjectChange:
    changes = {
        name: make_attribute_change(seen.type, name, ABSENT, value, seen.whole)
        for name, value in seen.body.items()
        if name not in ignore
    }
    return _make_object_change(ChangeEvent.CREATED, seen.type, seen.dn, seen.guid, changes)


def _make_change(known_object: KnownObject, seen: Seen, ignore: Collection[str]) -> ObjectChange | None:
    body: Body = json.loads(known_object.body)
    changes: dict[str, AttributeChange] = {}
    if known_object.dn != seen.dn and FULL_PATH not in ignore:
        changes[FULL_PATH] = AttributeChange(known_object.dn, seen.dn)
    for name in (*seen.body, *(name for name in body if name not in seen.body)):
        old, new = body.get(name, DEFAULT), seen.body.get(name, DEFAULT)
        if old != new and name not in ignore:
            changes[name] = make_attribute_change(seen.type, name, old, new, seen.whole)
    if QUIET.issuperset(changes):
        return None
    return _make_object_change(ChangeEvent.CHANGED, seen.type, seen.dn, seen.guid, changes)


def _make_object_change(
    event: ChangeEvent, type_name: str, dn: str, guid: str | None, changes: Mapping[str, AttributeChange]
) -> ObjectChange:
    return ObjectChange(
        event=event,
        type=type_name,
        dn=dn,
        guid=None if guid is None else UUID(guid),
        changes=MappingProxyType(dict(changes)),
    )
