"""From hints to changes: what has to be read again, and what is told of it. Pure but for what it reads with.

What is told of an object is in the order in which it was read, and each time it is read it is as new as the
hint or newer: so the order of each object's changes is kept, nothing is told that was not there, and what is
hinted at twice is told once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final, Protocol

from mqdssm.directory.watching.hints import ANCESTORS, Hints, Touched
from mqdssm.events.watching.bodies import Seen
from mqdssm.events.watching.mirror import Known, Mirror, known_of, seen_of, unchanged
from mqdssm.model.watching import WATCHED_TYPES, ObjectChange
from mqdssm.tables import table_of

BATCH_KEYS: Final = 100
"""Objects that are read again in one search: with more, each of them costs slapd more."""

CLASS_OF: Final = {name: table_of(element).ldap_class for name, element in WATCHED_TYPES.items()}
"""The object class of each type."""
_REFERRED: Final = frozenset({"site", "msmqconfiguration"})
_MACHINE: Final = "queue-manager"
"""The type of which objects are referred to, and get other names along with what they stand below."""
_ANCESTORS: Final = frozenset(name.lower() for name in ANCESTORS)
_LENDING: Final = "computer"
"""The class of entries of which the objects below them have attributes."""


class Reader(Protocol):
    """Reads watched objects as they are now (decision W2)."""

    def all(self) -> Iterator[Seen]:
        """Every object of every watched type."""

    def some(self, type_name: str, keys: Sequence[str]) -> Iterator[Seen]:
        """Those of a type that have these keys, and exist."""

    def below(self, dn: str) -> Iterator[Seen]:
        """Those that are at or below an entry."""

    def referring(self) -> Iterator[Seen]:
        """Those that name others, also such as are not there: they may come back."""


def _forget(_key: str, _known: Known | None) -> None:
    """Note nothing: what is told need not survive."""


class Follower:
    """Tells the changes of a directory, and keeps the mirror true (decisions W2, W3, W4)."""

    def __init__(
        self,
        mirror: Mirror,
        reader: Reader,
        types: Collection[str],
        *,
        ignore: Collection[str] = (),
        all_writes: bool = False,
        note: Callable[[str, Known | None], None] = _forget,
    ) -> None:
        """Begin where the mirror is.

        Args:
            mirror: what is known; it is changed.
            reader: reads objects of these types.
            types: that are watched.
            ignore: attributes that are not told.
            all_writes: tell, too, of objects that are hinted at and have not changed (decision C29).
            note: gets key and new state of an object before its change is told: see `Mirror.replay`.
        """
        self._note = note
        self._mirror = mirror
        self._reader = reader
        self._types = tuple(name for name in WATCHED_TYPES if name in types)
        self._ignore = frozenset(ignore)
        self._all_writes = all_writes
        self._is_unseen = False

    def take_unseen(self) -> bool:
        """Whether something came and went since this was asked for, and was never seen."""
        unseen, self._is_unseen = self._is_unseen, False
        return unseen

    def follow(self, hints: Hints) -> Iterator[ObjectChange]:
        """The changes that hints lead to; an object counts as told when the next change is asked for.

        Raises:
            DirectoryError: an object could not be read: nothing is lost, the hints may be followed again.
        """
        yield from self._doubtful()  # before anything else is noted
        if hints.full or not self._mirror.is_complete:
            yield from self._compare_all()
            return
        # before the objects themselves are read again, and known as they are
        below = self._moved(hints.touched)
        # a present phase does not say what is gone: perhaps something that nobody here knows, but refers to
        is_referred = hints.present is not None or any(self._is_referred(one) for one in hints.touched)
        self._is_unseen = self._is_unseen or any(map(self._may_be_unseen, hints.touched))
        yield from self._look_again(self._keys(hints), all_writes=self._all_writes)
        for dn in below:
            for seen in self._reader.below(dn):
                is_referred = is_referred or self._is_called_otherwise(seen)
                yield from self._settle(seen.key, seen)
        if is_referred or (below and _MACHINE not in self._types):
            for seen in self._reader.referring():
                yield from self._settle(seen.key, seen)

    def _compare_all(self) -> Iterator[ObjectChange]:
        found: set[str] = set()
        for seen in self._reader.all():
            found.add(seen.key)
            yield from self._settle(seen.key, seen)
        # a listing may miss what is changed meanwhile: nothing is believed to be gone unless it is looked for
        yield from self._look_again([(known.type, key) for key, known in self._mirror if key not in found])
        self._mirror.is_complete = True

    def _keys(self, hints: Hints) -> list[tuple[str, str]]:
        """Type and key of what has to be read again."""
        wanted: dict[tuple[str, str], None] = {}
        for one in hints.touched:
            known = self._mirror.get(one.key)
            wanted.update(((name, one.key), None) for name in self._types_of(one, known))
        if hints.present is not None:
            touched = {one.key for one in hints.touched}
            wanted.update(
                ((known.type, key), None)
                for key, known in self._mirror
                if key not in hints.present and key not in touched
            )
        return list(wanted)

    def _doubtful(self) -> Iterator[ObjectChange]:
        """What was about to be told when the watcher ended; what became of it since is among the hints."""
        if self._mirror.doubt is not None:
            key, told = self._mirror.doubt
            yield from self._settle(key, seen_of(key, told))

    def _types_of(self, one: Touched, known: Known | None) -> tuple[str, ...]:
        if known is not None:
            return (known.type,)
        if one.gone:
            return ()
        return tuple(name for name in self._types if CLASS_OF[name].lower() in one.classes)

    def _may_be_unseen(self, one: Touched) -> bool:
        """Whether it is gone, nobody here has seen it, and it may have been one of ours."""
        if not one.gone or self._mirror.get(one.key) is not None:
            return False
        return not one.classes or any(CLASS_OF[name].lower() in one.classes for name in self._types)

    def _look_again(
        self, wanted: Iterable[tuple[str, str]], *, all_writes: bool = False
    ) -> Iterator[ObjectChange]:
        for type_name, pairs in groupby(wanted, key=lambda pair: pair[0]):
            rest = (key for _, key in pairs)
            while keys := list(islice(rest, BATCH_KEYS)):
                found = {seen.key: seen for seen in self._reader.some(type_name, keys)}
                for key in keys:
                    seen = found.get(key)
                    if seen is None and self._mirror.get(key) is None:
                        self._is_unseen = True
                    yield from self._settle(key, seen, all_writes=all_writes)

    def _settle(self, key: str, seen: Seen | None, *, all_writes: bool = False) -> Iterator[ObjectChange]:
        """Tell what there is to tell of an object; afterwards it is known as it was seen."""
        change = self._mirror.change(key, seen, self._ignore) if self._mirror.is_complete else None
        known = known_of(seen)
        if change is not None:
            self._note(key, known)
            yield change
        elif all_writes and seen is not None:
            yield unchanged(seen)
        self._mirror.put(key, known)

    def _moved(self, touched: Iterable[Touched]) -> list[str]:
        """Entries below which objects may have other names or attributes now: nobody tells of these."""
        found: dict[str, None] = {}
        for one in touched:
            if one.gone or one.dn is None or not one.classes & _ANCESTORS:
                continue
            known = self._mirror.get(one.key)
            if known is None or known.dn != one.dn or _LENDING in one.classes:
                found[one.dn] = None
        return list(found)

    def _is_called_otherwise(self, seen: Seen) -> bool:
        """Whether others may name it by a name that it has no more."""
        known = self._mirror.get(seen.key)
        return seen.type == _MACHINE and known is not None and known.dn != seen.dn

    def _is_referred(self, one: Touched) -> bool:
        """Whether others may name it, and do it by a name that means something else now."""
        known = self._mirror.get(one.key)
        if known is None:
            return bool(one.classes & _REFERRED) or (one.gone and not one.classes)
        return CLASS_OF[known.type].lower() in _REFERRED and (one.gone or known.dn != one.dn)
