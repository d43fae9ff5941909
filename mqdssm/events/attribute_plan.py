"""Attributes that a table needs; computed attributes ([MS-MQDSSM] 3.1.6.11)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from mqdssm.directory.profile import Profile
from mqdssm.directory.responses import Dereferenced
from mqdssm.directory.session import Session
from mqdssm.errors import MappingError
from mqdssm.events.references import BROUGHT, References
from mqdssm.model.dn import DN, first_values
from mqdssm.tables import compute
from mqdssm.tables.references import REFERRED_CLASSES
from mqdssm.tables.row import Computed, Holder, Row
from mqdssm.tables.syntax import BOOLEAN, UINT32

Value: TypeAlias = bytes | list[bytes] | None
"""Values of one LDAP attribute of an entry: one, several, or none."""

ValueMaker: TypeAlias = Callable[[Row, "EntrySource"], Any]

UNSET: Final = object()
"""Marker for a missing LDAP attribute; the row defines its meaning."""

COMPUTER_ABOVE: Final[Mapping[str, int]] = {"QueueManager": 1, "Queue": 2}
"""Number of RDNs between the element and its computer ([MS-MQDSSM] 2.2.1)."""


@dataclass(slots=True)
class EntrySource:
    """LDAP entry from which an element is made.

    Attributes:
        dn: as the server wrote it.
        values: of the LDAP attributes asked for.
        columns: LDAP attribute -> place in `values`.
        references: the memory of this operation.
        session: for what the root DSE says.
        above: how many RDNs above the entry its computer is.
        skipped: descriptions of list items that were left out, since their objects do not exist (M40).
    """

    dn: str
    values: Sequence[Value]
    columns: Mapping[str, int]
    references: References
    session: Session
    above: int
    skipped: list[str] = field(default_factory=list)

    def all(self, name: str) -> list[bytes]:
        """Return all values of an LDAP attribute of the entry."""
        value = self.values[self.columns[name]]
        if value is None:
            return []
        return [value] if isinstance(value, bytes) else value

    def first(self, name: str) -> bytes | None:
        """Return the first value of an LDAP attribute of the entry; None if it has none."""
        values = self.all(name)
        return values[0] if values else None

    def list_computer_values(self, name: str) -> list[bytes]:
        """Return all values of an LDAP attribute of the computer.

        There are none if the attribute is missing or not readable.
        """
        computer = self.references.computer(computer_of(self.dn, self.above))
        return [] if computer is None else computer.all(name)


def computer_of(dn: str, above: int) -> str:
    """Return the DN of the computer to which an element belongs.

    The fast path that cuts at commas is right only if no name contains one (decision M36).

    Raises:
        ValueError: no DN, or one too short.
    """
    if "\\" not in dn and '"' not in dn:
        parts = dn.split(",", above)
        if len(parts) <= above:
            raise ValueError(f"{dn!r} is too short: a computer has to be above the object")
        return parts[above]
    place = DN.parse(dn)
    for _ in range(above):
        place = place.parent
    return str(place)


def text_of(raw: bytes) -> str:
    """Decode UTF-8 text.

    Raises:
        MappingError: no UTF-8.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MappingError(f"is no UTF-8 text: {raw[:40]!r}") from None


def _make_of_computer(row: Row, source: EntrySource) -> Any:
    values = source.list_computer_values(row.ldap[0])
    return row.decode(values) if values else UNSET


def _make_name_of_site(_: Row, source: EntrySource) -> str:
    # the RDN, not any value of cn: a hand-made entry may have two of these
    return first_values(source.dn, 1)[0]


def _read_extension(source: EntrySource) -> str | None:
    raw = source.first("mSMQQueueNameExt")
    return None if raw is None else text_of(raw)


def _make_pathname(_: Row, source: EntrySource) -> str:
    place = compute.read_queue_place(source.dn)
    return compute.build_pathname(place.computer, place.cn, _read_extension(source))


def _make_qualified_pathname(_: Row, source: EntrySource) -> Any:
    computer = source.references.computer(computer_of(source.dn, source.above))
    if computer is None:
        return UNSET
    host = computer.first("dNSHostName")
    cn = first_values(source.dn, 1)[0]
    return compute.build_qualified_pathname(
        None if host is None else text_of(host), cn, _read_extension(source)
    )


def _make_time(names: Sequence[str], row: Row, source: EntrySource) -> Any:
    values, columns = source.values, source.columns
    for name in names:
        raw = values[columns[name]]
        if raw is not None:
            return row.syntax.load(raw if isinstance(raw, bytes) else raw[0])
    return UNSET


def _read_service_bits(source: EntrySource) -> int:
    raw = source.first("mSMQServiceType")
    return 0 if raw is None else UINT32.load(raw)


def _make_directory_server_type(_: Row, source: EntrySource) -> Any:
    raw = source.first("mSMQDsServices")
    serves = raw is not None and BOOLEAN.load(raw)
    server_type = compute.compute_directory_server_type(
        directory_server=serves, service=_read_service_bits(source)
    )
    return UNSET if server_type is None else server_type


def _make_queue_managers(row: Row, source: EntrySource) -> tuple[UUID, ...]:
    # gates and routing servers that are gone are skipped (3.1.6.11.1.3, decision M40)
    of_class = REFERRED_CLASSES[Computed.QUEUE_MANAGERS]
    guids = []
    for raw in source.all(row.ldap[0]):
        guid = source.references.identifier_of(text_of(raw), of_class)
        if guid is None:
            source.skipped.append(f"{row.ldap[0]} names {text_of(raw)!r}, where no queue manager is")
        else:
            guids.append(guid)
    return tuple(guids)


def _make_site(row: Row, source: EntrySource) -> Any:
    raw = source.first(row.ldap[0])
    if raw is None:
        return UNSET
    identifier = source.references.identifier_of(text_of(raw), REFERRED_CLASSES[Computed.SITE])
    if identifier is None:
        raise MappingError(f"{row.ldap[0]} names {text_of(raw)!r}, where no site is")
    return identifier


def _make_clustered(row: Row, source: EntrySource) -> Any:
    names = source.list_computer_values(row.ldap[0])
    return compute.is_clustered(text_of(name) for name in names) if names else UNSET


_MAKERS: Final[Mapping[Computed, ValueMaker]] = {
    Computed.COMPUTER_NAME: lambda _, source: compute.read_computer_name(source.dn),
    Computed.FULL_PATH: lambda _, source: source.dn,
    Computed.DIRECTORY_PATH: lambda _, source: compute.build_directory_path(source.dn),
    Computed.PATHNAME: _make_pathname,
    Computed.QUALIFIED_PATHNAME: _make_qualified_pathname,
    Computed.DIRECTORY_SERVER_TYPE: _make_directory_server_type,
    Computed.REMOTE_ACCESS_SERVER: lambda _, source: compute.is_remote_access_server(
        _read_service_bits(source)
    ),
    Computed.QUEUE_MANAGERS: _make_queue_managers,
    Computed.SITE: _make_site,
    Computed.CLUSTERED: _make_clustered,
    Computed.SIGNING_KEYS: _make_of_computer,
    Computed.ENTERPRISE_NAME: lambda _, source: str(source.session.naming.forest),
}
_ABSTRACT: Final = frozenset(("distinguishedName",))


def guid_of(value: Value) -> UUID | None:
    """Decode a GUID as the directory stores it; None for any other value."""
    raw = value[0] if isinstance(value, list) and value else value
    return UUID(bytes_le=raw) if isinstance(raw, bytes) and len(raw) == 16 else None


def _make_security(
    translate: Callable[[str, bytes], bytes], ldap_class: str, row: Row, source: EntrySource
) -> Any:
    raw = source.first(row.ldap[0])
    return UNSET if raw is None else translate(ldap_class, raw)


def maker_of(row: Row, ldap_class: str, profile: Profile) -> tuple[ValueMaker | None, tuple[str, ...]]:
    """Return the maker of a row's value, and the LDAP attributes that it needs.

    The attributes are those of the entry.

    Args:
        row: of an element, or of settings or computers.
        ldap_class: of the entries.
        profile: of the server.

    Returns:
        None for the maker where the value is copied from the one LDAP attribute.
    """
    if row.ldap == ("whenCreated",):
        return partial(_make_time, profile.create_time_attributes), profile.create_time_attributes
    if row.ldap == ("whenChanged",):
        return partial(_make_time, profile.modify_time_attributes), profile.modify_time_attributes
    if row.adm == "Security" and profile.translates_security:
        return partial(_make_security, profile.decode_security, ldap_class), row.ldap
    if row.ldap == ("cn",):
        return _make_name_of_site, ()
    if row.computed is None and row.holder is Holder.OWN:
        return None, row.ldap
    maker = _make_of_computer if row.computed is None else _MAKERS[row.computed]
    return maker, () if row.holder is Holder.COMPUTER else tuple(n for n in row.ldap if n not in _ABSTRACT)


Brought: TypeAlias = Mapping[str, Sequence[Dereferenced]] | None
"""Referenced objects that a server returned with an entry; None if not requested or not supported."""
Found: TypeAlias = tuple[str, Sequence[Value], Brought]
"""Entry: its DN, the values of the columns, and the referenced objects."""


class Table(Protocol):
    """Table of rows of an element ([MS-MQDSSM] 3.1.6.20), settings or computers."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def ldap_class(self) -> str:
        """LDAP class of the entries."""


class AttributePlan:
    """LDAP attributes that rows of a table need, by the kind of server.

    See [MS-MQDSSM] 3.1.6.10.

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
        """Return the position of an LDAP attribute among the columns.

        The attribute is added if necessary.
        """
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
        """Return the source for the makers of one entry.

        `values` are in the order of the columns.
        """
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
        """Yield the DNs of the computers of entries.

        Names that cannot be parsed are skipped.
        """
        for dn in dns:
            with suppress(ValueError):
                yield computer_of(dn, self.above)


def list_values(value: Value) -> list[bytes]:
    """Return all values of an LDAP attribute as a list ([MS-MQDSSM] 3.1.6.11)."""
    if value is None:
        return []
    return [value] if isinstance(value, bytes) else value
