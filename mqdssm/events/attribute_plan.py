"""Attributes and referenced objects that have to be read to make rows of a table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Protocol, TypeAlias

from mqdssm.directory.responses import Dereferenced
from mqdssm.directory.session import Session
from mqdssm.events.computed_attributes import (
    COMPUTER_ABOVE,
    EntrySource,
    Value,
    ValueMaker,
    computer_of,
    maker_of,
)
from mqdssm.events.references import BROUGHT, References
from mqdssm.tables.references import REFERRED_CLASSES
from mqdssm.tables.row import Holder, Row

Brought: TypeAlias = Mapping[str, Sequence[Dereferenced]] | None
"""Referenced objects that a server returned with an entry; None if not requested or not supported."""
Found: TypeAlias = tuple[str, Sequence[Value], Brought]
"""Entry: its DN, the values of the columns, and the referenced objects."""


class Table(Protocol):
    """Table of rows: that of an element ([MS-MQDSSM] 3.1.6.20), or of settings or computers."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def ldap_class(self) -> str:
        """LDAP class of the entries."""


class AttributePlan:
    """LDAP attributes that rows of a table need, on one kind of server ([MS-MQDSSM] 3.1.6.10).

    Attributes:
        plain: the rows whose value is copied from one LDAP attribute, with its place among the columns.
        made: the others, with how they are made.
        above: how many RDNs above an entry its computer is.
    """

    def __init__(self, table: Table, session: Session) -> None:
        """Initialize without rows; `add` adds them.

        Args:
            table: whose rows they are.
            session: whose profile says where times are, and which is asked for references.
        """
        self._table = table
        self._session = session
        self._columns: dict[str, int] = {}
        self._multi: set[str] = set()
        self._others: list[tuple[str, str]] = []  # LDAP attribute, class of what its DNs name
        self._of_computer: dict[str, None] = {}
        self.plain: list[tuple[Row, int]] = []
        self.made: list[tuple[Row, ValueMaker]] = []
        self.above = COMPUTER_ABOVE.get(table.name, 0)

    def add(self, row: Row) -> tuple[ValueMaker | None, tuple[int, ...]]:
        """Add a row with the LDAP attributes that it needs.

        Returns:
            How it is made, None where its value is copied; and the places of its LDAP attributes.
        """
        maker, attributes = maker_of(row, self._table.ldap_class, self._session.profile)
        places = tuple(map(self.place_of, attributes))
        if row.holder is Holder.COMPUTER:
            self._of_computer.update(dict.fromkeys(row.ldap))
        self._of_computer.update(dict.fromkeys(row.computer_ldap))
        referred = None if row.computed is None else REFERRED_CLASSES.get(row.computed)
        if referred is not None:
            self._others.append((row.ldap[0], referred))
        if row.multi or row.one_of_set:
            self._multi.update(attributes)
        if maker is None:
            self.plain.append((row, places[0]))
        else:
            self.made.append((row, maker))
        return maker, places

    def place_of(self, attribute: str) -> int:
        """Return the position of an LDAP attribute among the columns, adding it if necessary."""
        return self._columns.setdefault(attribute, len(self._columns))

    @property
    def columns(self) -> tuple[str, ...]:
        """LDAP attributes to request."""
        return tuple(self._columns) or ("objectClass",)

    @property
    def multi(self) -> frozenset[str]:
        """Columns whose values are lists."""
        return frozenset(self._multi)

    @property
    def referring(self) -> Mapping[str, Sequence[str]]:
        """Columns that refer to other objects, with the attributes to read of these."""
        return {name: BROUGHT for name, _ in self._others}

    @property
    def looks_elsewhere(self) -> bool:
        """True if other objects have to be read besides the entries, by `prefetch`."""
        return bool(self._others or self._of_computer)

    def references(self) -> References:
        """Return a cache of references for one operation."""
        return References(self._session, tuple(self._of_computer))

    def source(self, dn: str, values: Sequence[Value], references: References) -> EntrySource:
        """Return the source for the makers of one entry; `values` are in the order of the columns."""
        return EntrySource(dn, values, self._columns, references, self._session, self.above)

    def prefetch(self, entries: Sequence[Found], references: References) -> None:
        """Resolve the references of a batch of entries in few round trips (decision M29).

        Objects that the server returned with the entries are used; all others are looked up.
        """
        references.make_room()
        dns_by_class: dict[str, dict[str, None]] = {}
        for name, of_class in self._others:
            column, dns = self._columns[name], dns_by_class.setdefault(of_class, {})
            dereferenced = (brought.get(name.lower(), ()) for *_, brought in entries if brought)
            references.learn(chain.from_iterable(dereferenced), of_class)
            for _, values, _ in entries:
                dns.update((raw.decode(errors="replace"), None) for raw in list_values(values[column]))
        for of_class, dns in dns_by_class.items():
            references.fetch_identifiers(dns, of_class)
        if self._of_computer:
            references.fetch_computers(dict.fromkeys(self._computers_of(dn for dn, *_ in entries)))

    def _computers_of(self, dns: Iterable[str]) -> Iterator[str]:
        """Yield the DNs of the computers of entries, skipping names that cannot be parsed."""
        for dn in dns:
            with suppress(ValueError):
                yield computer_of(dn, self.above)


def list_values(value: Value) -> list[bytes]:
    """Return all values of an LDAP attribute as a list ([MS-MQDSSM] 3.1.6.11)."""
    if value is None:
        return []
    return [value] if isinstance(value, bytes) else value
