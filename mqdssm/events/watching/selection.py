"""Selection of the changes that a watch reports."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from mqdssm.directory.entries import is_name, parse_name
from mqdssm.errors import ConfigError
from mqdssm.events.attribute_plan import COMPUTER_ABOVE
from mqdssm.events.watching.watched_values import FULL_PATH
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.watching import LDAP_MARK, WATCHED_TYPES, ChangeEvent, ObjectChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Types, attributes, events and computers of reported changes (decision W3).

    Attributes:
        types: that are watched.
        ignore: attributes whose changes are not told.
        events: that are told; none: all.
        computers: in lower case; only their queues and queue managers are told of; none: all objects.
    """

    types: tuple[str, ...]
    ignore: frozenset[str]
    events: frozenset[ChangeEvent]
    computers: frozenset[str]

    @classmethod
    def of(
        cls,
        types: Collection[str],
        *,
        ignore: Collection[str] = (),
        events: Collection[str] = (),
        computers: Collection[str] = (),
    ) -> Self:
        """Make a selection from checked names.

        Raises:
            ConfigError: an unknown type, attribute or event; a computer without a name; one text, which
                would be taken for many letters.
        """
        for name, names in (("ignore", ignore), ("events", events), ("computers", computers)):
            if isinstance(names, str):
                raise ConfigError(f"{name} is a list of names: [{names!r}], not {names!r}")
        unknown = set(types) - set(WATCHED_TYPES)
        if unknown:
            raise ConfigError(
                f"{', '.join(sorted(unknown))} cannot be watched: use {', '.join(WATCHED_TYPES)}"
            )
        wrong = set(events) - set(ChangeEvent)
        if wrong:
            raise ConfigError(f"there is no event {', '.join(sorted(wrong))}: use {', '.join(ChangeEvent)}")
        if not all(name.strip() for name in computers):
            raise ConfigError("computers: a name is empty")
        watched = tuple(name for name in WATCHED_TYPES if name in types or not types)
        return cls(
            types=watched,
            ignore=_ignored_names(ignore, watched),
            events=frozenset(map(ChangeEvent, events)),
            computers=frozenset(name.strip().lower() for name in computers),
        )

    def includes(self, change: ObjectChange) -> bool:
        """Return True if a change is reported."""
        if self.events and change.event not in self.events:
            return False
        return not self.computers or not self.computers.isdisjoint(_computers_of(change))


def _ignored_names(names: Collection[str], types: Collection[str]) -> frozenset[str]:
    """Return the attributes whose changes are not reported.

    Raises:
        ConfigError: names that nothing of these types has.
    """
    known_names = {name for type_name in types for name in WATCHED_TYPES[type_name].adm_names()}
    for name in names:
        if name not in known_names and not name.startswith(LDAP_MARK):
            raise ConfigError(
                f"{name!r} cannot be ignored: nothing that is watched has this attribute (of attributes that "
                f"are LDAP's alone: '{LDAP_MARK}NAME')"
            )
    return frozenset(names)


def _computers_of(change: ObjectChange) -> set[str]:
    """Return the names of an object's present and former computers, in lower case."""
    if change.element not in {Queue, QueueManager}:
        return set()
    moved = change.changes.get(FULL_PATH)
    names = [change.dn, *(name for name in moved or () if isinstance(name, str))]
    above = COMPUTER_ABOVE[change.element.element_name]
    # states of earlier versions may have names that a server damaged
    return {parse_name(name).rdns[above][0][1].lower() for name in names if is_name(name, above)}
