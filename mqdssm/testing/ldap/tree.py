"""Entries in memory, which are found by name, by scope and by indexed values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from mqdssm.directory.filters import And, Equal, LdapFilter, Or
from mqdssm.directory.requests import (
    ALL_OPERATIONAL_ATTRIBUTES,
    ALL_USER_ATTRIBUTES,
    SearchScope,
)
from mqdssm.model.dn import DN
from mqdssm.testing.ldap import rules
from mqdssm.testing.ldap.answers import encode_entry_content

Attributes = Mapping[str, Sequence[bytes]]
"""Values by lower-case name."""
_NONE: Final[frozenset[rules.Normal]] = frozenset()
_NO_ENTRIES: Final[dict[int, "TreeEntry"]] = {}


class TreeEntry:
    """An immutable entry; a changed entry is a new object with the same number.

    Attributes:
        number: number in the order of creation, which is the order of search results.
        name: DN of the entry.
        key: its name for comparison.
        attributes: user attributes and operational ones.
    """

    __slots__ = ("_encoded", "_normal", "attributes", "key", "name", "number")

    def __init__(self, number: int, name: DN, attributes: Attributes) -> None:
        self.number = number
        self.name = name
        self.key = name.normalized
        self.attributes = attributes
        self._normal: dict[str, frozenset[rules.Normal]] = {}
        self._encoded: dict[tuple[str, ...], bytes] = {}

    def normalize(self, name: str) -> AbstractSet[rules.Normal]:
        """Return the normalized values of an attribute, by its lower-case name."""
        normalized_values = self._normal.get(name)
        if normalized_values is None:
            if name == rules.ENTRY_DN:
                normalized_values = frozenset({self.key.encode()})
            else:
                values = self.attributes.get(name)
                normalized_values = rules.normalize_values(name, values) if values else _NONE
            self._normal[name] = normalized_values
        return normalized_values

    def encode_selected(self, selection: tuple[str, ...]) -> bytes:
        """Return name and selected attributes, encoded for a SearchResultEntry.

        See [RFC4511] 4.5.2.
        """
        octets = self._encoded.get(selection)
        if octets is None:
            octets = encode_entry_content(rules.format_name(self.name), self._select_attributes(selection))
            self._encoded[selection] = octets
        return octets

    def _select_attributes(self, selection: tuple[str, ...]) -> Iterator[tuple[str, Sequence[bytes]]]:
        requested_names = {attribute.lower() for attribute in selection} or {ALL_USER_ATTRIBUTES}
        users, operational = (
            ALL_USER_ATTRIBUTES in requested_names,
            ALL_OPERATIONAL_ATTRIBUTES in requested_names,
        )
        for name, values in self.attributes.items():
            kind = rules.TYPES[name]
            if name in requested_names or (operational if kind.operational else users):
                yield kind.name, values
        if rules.ENTRY_DN in requested_names or operational:
            yield rules.TYPES[rules.ENTRY_DN].name, [rules.format_name(self.name).encode()]
        if rules.SUBSCHEMA_ENTRY in requested_names or operational:
            yield rules.TYPES[rules.SUBSCHEMA_ENTRY].name, [rules.SUBSCHEMA.encode()]


class EntryTree:
    """All entries of a naming context."""

    def __init__(self) -> None:
        self._entries: dict[str, TreeEntry] = {}
        self._below: dict[str, dict[str, None]] = {}
        self._index: dict[tuple[str, rules.Normal], dict[int, TreeEntry]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: DN) -> TreeEntry | None:
        """Return the entry with a name; None if there is none."""
        return self._entries.get(name.normalized)

    def find_closest(self, name: DN) -> DN:
        """Return the name of the lowest entry at or above a name.

        The empty name if there is none.
        """
        while name:
            entry = self._entries.get(name.normalized)
            if entry is not None:
                return entry.name
            name = name.parent
        return name

    def has_below(self, entry: TreeEntry) -> bool:
        """Return True if an entry has children."""
        return bool(self._below.get(entry.key))

    def add(self, name: DN, attributes: Attributes) -> TreeEntry:
        """Add an entry."""
        self._last += 1
        entry = TreeEntry(self._last, name, attributes)
        self._put(entry)
        return entry

    def replace(self, entry: TreeEntry, attributes: Attributes) -> None:
        """Replace all attributes of an entry."""
        self._take(entry)
        self._put(TreeEntry(entry.number, entry.name, attributes))

    def remove(self, entry: TreeEntry) -> None:
        """Remove an entry that has no children."""
        self._take(entry)

    def move(self, entry: TreeEntry, name: DN, attributes: Attributes) -> None:
        """Rename an entry and all entries below it."""
        below = list(self._below.get(entry.key, ()))
        self._take(entry)
        self._put(TreeEntry(entry.number, name, attributes))
        for key in below:
            child = self._entries[key]
            (kind, value), *_ = child.name.rdn
            self.move(child, name.child(kind, value), child.attributes)

    def _put(self, entry: TreeEntry) -> None:
        self._entries[entry.key] = entry
        self._below.setdefault(_cut_first_rdn(entry.key), {})[entry.key] = None
        for slot in _list_slots(entry):
            self._index.setdefault(slot, {})[entry.number] = entry

    def _take(self, entry: TreeEntry) -> None:
        del self._entries[entry.key]
        del self._below[_cut_first_rdn(entry.key)][entry.key]
        for slot in _list_slots(entry):
            del self._index[slot][entry.number]

    def find_within(self, base: TreeEntry, scope: SearchScope, search_filter: LdapFilter) -> list[TreeEntry]:
        """Return the entries of a scope that may match a filter, in order of number."""
        if scope is SearchScope.BASE:
            return [base]
        candidates = self._find_candidates(search_filter)
        if candidates is None and scope is SearchScope.ONE_LEVEL:
            listed: Iterable[TreeEntry] = [self._entries[key] for key in self._below.get(base.key, ())]
        elif candidates is None:
            listed = self._entries.values()
        else:
            listed = candidates.values()
        suffix = "," + base.key
        if scope is SearchScope.ONE_LEVEL:
            listed = [entry for entry in listed if _cut_first_rdn(entry.key) == base.key]
        else:
            listed = [entry for entry in listed if entry.key.endswith(suffix) or entry is base]
        return sorted(listed, key=_read_number)

    def _find_candidates(self, search_filter: LdapFilter) -> dict[int, TreeEntry] | None:
        """Return the entries that may match a filter, by the indexes; None: all entries."""
        if isinstance(search_filter, Equal):  # most of all: searches for numbers have thousands
            name = search_filter.attribute.lower()
            if name not in rules.INDEXED:
                return None
            normal = rules.TYPES[name].normalize(search_filter.value)
            return _NO_ENTRIES if normal is None else self._index.get((name, normal), _NO_ENTRIES)
        match search_filter:
            case And(operands):
                candidate_sets = [
                    candidates
                    for operand in operands
                    if (candidates := self._find_candidates(operand)) is not None
                ]
                return min(candidate_sets, key=len) if candidate_sets else None
            case Or(operands):
                every: dict[int, TreeEntry] = {}
                for operand in operands:
                    some = self._find_candidates(operand)
                    if some is None:
                        return None
                    if some:
                        every |= some
                return every
        return None


def _cut_first_rdn(key: str) -> str:
    return key.partition(",")[2]


def _read_number(entry: TreeEntry) -> int:
    return entry.number


def _list_slots(entry: TreeEntry) -> Iterator[tuple[str, rules.Normal]]:
    for name in (*entry.attributes, rules.ENTRY_DN):
        if name in rules.INDEXED:
            for normal in entry.normalize(name):
                yield name, normal
