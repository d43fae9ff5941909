"""Computation of changes from hints.

Objects are read again and compared with their last state.

Changes of an object are reported in the order in which it was read, and each reading is as new as its hint or
newer. So the order of changes is kept, only existing states are reported, and a repeated hint gives one
change.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, Protocol

from mqdssm.directory.entries import is_name
from mqdssm.directory.watching.hints import ANCESTORS, Hints, TouchedEntry
from mqdssm.events.watching.journal import ObjectNote
from mqdssm.events.watching.watch_cache import (
    KnownObject,
    WatchCache,
    known_of,
    make_unchanged,
    other_of,
    seen_of,
)
from mqdssm.events.watching.watched_values import Seen, has_digest
from mqdssm.model.watching import WATCHED_TYPES, ObjectChange
from mqdssm.tables import table_of

BATCH_KEYS: Final = 100
"""Maximum objects read again in one search: with more, each costs slapd more."""

CLASS_OF: Final = {name: table_of(element).ldap_class for name, element in WATCHED_TYPES.items()}
"""The object class of each type."""
_REFERRED: Final = frozenset({"site", "msmqconfiguration"})
_MACHINE: Final = "queue-manager"
"""Type whose objects are referred to, and are renamed together with their parents."""
_ANCESTORS: Final = frozenset(name.lower() for name in ANCESTORS)
_LENDING: Final = "computer"
"""Class of entries whose attributes are shown by the objects below them."""
BELOW_MAX: Final = 1000
"""Maximum changed parents below which objects are read again; beyond it all objects are."""


class ObjectReader(Protocol):
    """Reads watched objects as they are now (decision W2)."""

    def all(self) -> Iterator[Seen]:
        """Read every object of every watched type."""

    def read_some(self, type_name: str, keys: Sequence[str]) -> Iterator[Seen]:
        """Read the objects of a type that have these keys and exist."""

    def read_below(self, dn: str) -> Iterator[Seen]:
        """Read the objects at and below an entry."""

    def read_referring(self) -> Iterator[Seen]:
        """Read the objects that refer to others.

        The others include missing objects, which may come back.
        """


def _forget(_key: str, _known: KnownObject | None, change: ObjectChange | None) -> ObjectChange | None:
    """Record nothing, for a watch without a state file."""
    return change


class Follower:
    """Yields a directory's changes, updates the mirror (decisions W2, W3, W4)."""

    def __init__(
        self,
        mirror: WatchCache,
        reader: ObjectReader,
        types: Collection[str],
        *,
        ignore: Collection[str] = (),
        all_writes: bool = False,
        note: Callable[[str, KnownObject | None, ObjectChange | None], ObjectChange | None] = _forget,
    ) -> None:
        """Initialize with the known objects.

        Args:
            mirror: the known objects; the follower changes it.
            reader: reads objects of these types.
            types: that are watched.
            ignore: attributes that are not told.
            all_writes: tell, too, of objects that are hinted at and have not changed (decision C29).
            note: gets key and new state of an object that is another one now, and its change. Returns the
                change that is told; None: none is.
        """
        self._note = note
        self._mirror = mirror
        self._reader = reader
        self._types = tuple(name for name in WATCHED_TYPES if name in types)
        self._ignore = frozenset(ignore)
        self._all_writes = all_writes
        self._is_unseen = False
        self._out_of_turn: set[str] = set()

    def take_unseen(self) -> bool:
        """Return True if an object was added and deleted unread since the last call."""
        unseen, self._is_unseen = self._is_unseen, False
        return unseen

    def follow(self, hints: Hints) -> Iterator[ObjectChange]:
        """Yield the changes behind hints; each is recorded before it is yielded.

        Raises:
            DirectoryError: an object could not be read: nothing is lost, the hints may be followed again.
        """
        self._out_of_turn.clear()
        if hints.is_empty:
            return  # also while nothing is known: a full comparison follows when the server is ready
        if hints.full or not self._mirror.is_complete:
            yield from self._compare_all()
            self._note_others(self._list_others(hints))
            return
        differing = self._find_differing(hints)
        touched = (*hints.touched, *differing)
        other_entries = (*filter(self._is_other, hints.touched), *differing)
        # before the objects are read again and their new state is recorded
        below = self._find_moved(touched)
        if len(below) > BELOW_MAX or not all(map(is_name, below)):
            yield from self._compare_all()
            self._note_others(other_entries)
            return
        is_referred = any(self._is_referred(change) for change in touched)
        self._is_unseen = self._is_unseen or any(map(self._may_be_unseen, touched))
        yield from self._look_again(self._list_keys(touched), all_writes=self._all_writes)
        for dn in below:
            for seen in self._reader.read_below(dn):
                is_referred = is_referred or self._is_called_otherwise(seen)
                yield from self._report_change(seen.key, seen)
        if is_referred or (below and _MACHINE not in self._types):
            for seen in self._reader.read_referring():
                yield from self._report_change(seen.key, seen)
        self._note_others(other_entries)

    def _find_differing(self, hints: Hints) -> list[TouchedEntry]:
        """Return the entries that differ between a listing and the known objects.

        Entries in hints are left out. Others differ without a hint: the directory was restored from a backup,
        or the rights of this user changed.
        """
        if hints.listing is None:
            return []
        changes: list[TouchedEntry] = []
        hinted = {change.key for change in hints.touched}
        listed: set[str] = set()
        for change in hints.listing():
            listed.add(change.key)
            if change.key not in hinted and not self._is_as_known(change):
                changes.append(change)
        passed = (*(key for key, _ in self._mirror), *self._mirror.others)
        changes += [TouchedEntry(key, gone=True) for key in passed if key not in listed and key not in hinted]
        return changes

    def _is_as_known(self, change: TouchedEntry) -> bool:
        known_object = self._mirror.get(change.key)
        if known_object is None:
            return self._mirror.others.get(change.key) == change.version
        return (known_object.version, known_object.dn) == (change.version, change.dn)

    def _is_other(self, change: TouchedEntry) -> bool:
        """Return True if the version of an entry that is not watched has to be recorded."""
        return (
            change.gone
            or change.key in self._mirror.others
            or bool(change.classes & (_ANCESTORS | _REFERRED))
        )

    def _list_others(self, hints: Hints) -> Iterator[TouchedEntry]:
        if hints.listing is not None:
            listed = set()
            for change in hints.listing():
                listed.add(change.key)
                yield change
            yield from [TouchedEntry(key, gone=True) for key in self._mirror.others if key not in listed]

    def _note_others(self, touched: Iterable[TouchedEntry]) -> None:
        """Record the versions of entries that are not watched."""
        for change in touched:
            version = None if change.gone else change.version
            if self._mirror.get(change.key) is None and self._mirror.others.get(change.key) != version:
                known_object = None if version is None else other_of(version)
                self._note(change.key, known_object, None)
                self._mirror.put(change.key, known_object)

    def repeat_unacknowledged(self, doubts: deque[ObjectNote]) -> Iterator[tuple[ObjectNote, ObjectChange]]:
        """Yield unacknowledged changes again, and remove them from the doubts.

        Raises:
            DirectoryError: an object could not be read; the doubts that are left may be told again.
        """
        while doubts:
            batch = tuple(islice(doubts, BATCH_KEYS))
            as_read = self._read_noted(batch)
            for note in batch:
                seen = seen_of(note.key, note.known_object)
                if seen is not None and known_of(as_read.get(note.key)) == note.known_object:
                    seen = as_read[note.key]  # with values of which only a digest is kept
                change = self._mirror.change(note.key, seen, self._ignore)
                if change is None and seen is not None:
                    change = make_unchanged(seen)
                self._mirror.put(note.key, note.known_object)
                doubts.popleft()
                if note.is_change and change is not None:
                    yield note, change

    def _read_noted(self, notes: Sequence[ObjectNote]) -> Mapping[str, Seen]:
        """Read the objects of notes that have a digest."""
        keys_by_type: dict[str, list[str]] = {}
        for note in notes:
            known_object = note.known_object
            if (
                note.is_change
                and known_object is not None
                and known_object.type in self._types
                and has_digest(known_object.body)
            ):
                keys_by_type.setdefault(known_object.type, []).append(note.key)
        return {
            seen.key: seen
            for name, keys in keys_by_type.items()
            for seen in self._reader.read_some(name, keys)
        }

    def _compare_all(self) -> Iterator[ObjectChange]:
        seen_keys: set[str] = set()
        for seen in self._reader.all():
            seen_keys.add(seen.key)
            yield from self._report_change(seen.key, seen)
        # a listing may miss objects that change meanwhile: each missing object is read by its key
        yield from self._look_again(
            [(known_object.type, key) for key, known_object in self._mirror if key not in seen_keys]
        )
        self._mirror.is_complete = True

    def _list_keys(self, touched: Iterable[TouchedEntry]) -> list[tuple[str, str]]:
        """Return type and key of the objects that have to be read again."""
        pairs: dict[tuple[str, str], None] = {}
        for change in touched:
            known_object = self._mirror.get(change.key)
            pairs.update(((name, change.key), None) for name in self._types_of(change, known_object))
        return list(pairs)

    def _types_of(self, change: TouchedEntry, known_object: KnownObject | None) -> tuple[str, ...]:
        if known_object is not None:
            return (known_object.type,)
        if change.gone:
            return ()
        return tuple(name for name in self._types if CLASS_OF[name].lower() in change.classes)

    def _may_be_unseen(self, change: TouchedEntry) -> bool:
        """Return True if a deleted entry was never read and may have been watched."""
        if not change.gone or self._mirror.get(change.key) is not None:
            return False
        return not change.classes or any(CLASS_OF[name].lower() in change.classes for name in self._types)

    def _look_again(
        self, pairs_to_read: Iterable[tuple[str, str]], *, all_writes: bool = False
    ) -> Iterator[ObjectChange]:
        for type_name, pairs in groupby(pairs_to_read, key=lambda pair: pair[0]):
            keys_left = (key for _, key in pairs)
            while keys := list(islice(keys_left, BATCH_KEYS)):
                seen_by_key = {seen.key: seen for seen in self._reader.read_some(type_name, keys)}
                for key in keys:
                    seen = seen_by_key.get(key)
                    if seen is None and self._mirror.get(key) is None:
                        self._is_unseen = True
                    yield from self._report_change(key, seen, all_writes=all_writes)

    def _report_change(
        self, key: str, seen: Seen | None, *, all_writes: bool = False
    ) -> Iterator[ObjectChange]:
        """Yield the change of an object.

        The change of the object that had its name before comes first.
        """
        if key in self._out_of_turn:
            seen = self._read(key, seen)  # it was read after this batch
        waiting = [(key, seen)]
        requested = {key}
        while waiting:
            key, seen = waiting[-1]
            holder = None if seen is None else self._mirror.holder(seen.dn)
            if holder is None or holder in requested:
                waiting.pop()
                yield from self._tell(key, seen, all_writes=all_writes)
            else:
                requested.add(holder)
                self._out_of_turn.add(holder)
                waiting.append((holder, self._read(holder, None)))

    def _read(self, key: str, seen: Seen | None) -> Seen | None:
        """Read one object as it is now."""
        before = self._mirror.get(key) or seen
        return None if before is None else next(self._reader.read_some(before.type, [key]), None)

    def _tell(self, key: str, seen: Seen | None, *, all_writes: bool) -> Iterator[ObjectChange]:
        """Yield the change of an object, if any, and record its new state.

        The recorded state of an object with a damaged name does not change (decision W19).
        """
        if seen is not None and seen.is_damaged:
            return
        change = self._mirror.change(key, seen, self._ignore) if self._mirror.is_complete else None
        if change is None and all_writes and seen is not None:
            change = make_unchanged(seen)
        known_object = known_of(seen)
        if change is not None or known_object != self._mirror.get(key):
            change = self._note(key, known_object, change)
        self._mirror.put(key, known_object)
        if change is not None:
            yield change

    def _find_moved(self, touched: Iterable[TouchedEntry]) -> list[str]:
        """Return the entries below which objects may have changed without a hint.

        Such objects may have new names or attributes.
        """
        keys: dict[str, None] = {}
        for change in touched:
            if change.gone or change.dn is None or not change.classes & _ANCESTORS:
                continue
            known_object = self._mirror.get(change.key)
            if known_object is None or known_object.dn != change.dn or _LENDING in change.classes:
                keys[change.dn] = None
        return list(keys)

    def _is_called_otherwise(self, seen: Seen) -> bool:
        """Return True if an object is a renamed queue manager.

        References to it have to be read again.
        """
        known_object = self._mirror.get(seen.key)
        is_renamed = known_object is not None and known_object.dn != seen.dn and not seen.is_damaged
        return is_renamed and seen.type == _MACHINE

    def _is_referred(self, change: TouchedEntry) -> bool:
        """Return True if references to an entry may have another meaning now."""
        known_object = self._mirror.get(change.key)
        if known_object is None:
            return bool(change.classes & _REFERRED) or (change.gone and not change.classes)
        return CLASS_OF[known_object.type].lower() in _REFERRED and (
            change.gone or known_object.dn != change.dn
        )
