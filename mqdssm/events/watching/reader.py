"""Reader of watched objects; selection of the changes to report."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID

from mqdssm.directory.entries import is_name, parse_name
from mqdssm.directory.filters import Equal, LdapFilter, Present, all_of, any_of
from mqdssm.directory.session import Session
from mqdssm.directory.watching.hints import version_of
from mqdssm.errors import ConfigError, ObjectNotFound
from mqdssm.events.attribute_plan import COMPUTER_ABOVE, guid_of
from mqdssm.events.lookup import BATCH_ENTRIES, ServerView
from mqdssm.events.references import References, split_into_batches
from mqdssm.events.watching.watched_values import FULL_PATH, Seen, add_ldap, body_of
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.watching import LDAP_MARK, WATCHED_TYPES, ChangeEvent, ObjectChange
from mqdssm.tables import schema, table_of
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.places import is_in_configuration, search_base
from mqdssm.tables.row import Access


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
            ignore=_check_ignored_names(ignore, watched),
            events=frozenset(map(ChangeEvent, events)),
            computers=frozenset(name.strip().lower() for name in computers),
        )

    def accepts(self, change: ObjectChange) -> bool:
        """Return True if a change is reported."""
        if self.events and change.event not in self.events:
            return False
        return not self.computers or not self.computers.isdisjoint(_computers_of(change))


def _check_ignored_names(names: Collection[str], types: Collection[str]) -> frozenset[str]:
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


log: Final = logging.getLogger(__name__)

_MSMQ: Final = "msmq"
"""Prefix of the names of MSMQ's attributes, in lower case."""
_USED_BY_MSMQ: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("mSMQSignCertificates", "mSMQDigests", "mSMQSignCertificatesMig", "mSMQDigestsMig")
}
"""Class of which only some objects belong to MSMQ -> attributes of which such objects have at least one."""
_REFERRING: Final[Mapping[str, tuple[str, ...]]] = {
    "routing-link": (),
    "queue-manager": ("mSMQOutRoutingServers", "mSMQInRoutingServers"),
}
"""Types whose elements name others by GUID, which are DNs in the directory -> the attributes that do;
none: all of these objects refer to something."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Search for the objects of one type.

    Attributes:
        name: of the type.
        table: of its element.
        view: decodes entries.
        others: MSMQ's attributes that the model does not have.
        columns: all requested columns: columns of the view, others, the key.
        key: where the key stands in a row.
        versions: where the attributes of the version stand.
        multi: columns that come as lists.
        wanted: what only its objects match.
        base: where they are.
    """

    name: str
    table: ElementTable
    view: ServerView
    others: tuple[str, ...]
    columns: tuple[str, ...]
    key: int
    versions: tuple[int, ...]
    multi: frozenset[str]
    class_filter: LdapFilter
    base: DN


class WatchedObjectReader:
    """Reader of watched objects, as `follower.ObjectReader`; users as in decision W8."""

    def __init__(self, session: Session, types: Sequence[str]) -> None:
        """Initialize with a session to one server.

        Args:
            session: to be read with.
            types: that are watched.
        """
        self._session = session
        self._kinds = {name: self._build_kind(name) for name in types}

    def all(self) -> Iterator[Seen]:
        """Read every object of every watched type."""
        for kind in self._kinds.values():
            yield from self._read(kind, kind.base, kind.class_filter)

    def read_some(self, type_name: str, keys: Sequence[str]) -> Iterator[Seen]:
        """Read the objects of a type that have these keys and exist."""
        kind = self._kinds[type_name]
        key = self._session.profile.watch_key
        named = any_of(*(Equal(key, _encode_key(key, value)) for value in keys))
        yield from self._read(kind, kind.base, all_of(kind.class_filter, named))

    def read_below(self, dn: str) -> Iterator[Seen]:
        """Read the objects at and below an entry, which need not exist."""
        place = parse_name(dn)
        for kind in self._kinds.values():
            if is_in_configuration(kind.table.ldap_class):
                continue  # nothing that they stand below can get another name
            if place.is_at_or_below(kind.base):
                yield from self._read(kind, place, kind.class_filter)
            elif kind.base.is_below(place):
                yield from self._read(kind, kind.base, kind.class_filter)

    def read_referring(self) -> Iterator[Seen]:
        """Read the objects that refer to others.

        The others include missing objects, which may come back.
        """
        for name, marks in _REFERRING.items():
            kind = self._kinds.get(name)
            if kind is not None:
                named = (any_of(*map(Present, marks)),) if marks else ()
                yield from self._read(kind, kind.base, all_of(kind.class_filter, *named))

    def _read(self, kind: _Kind, base: DN, search_filter: LdapFilter) -> Iterator[Seen]:
        decoder = kind.view.decoder
        references = decoder.plan.references()  # anew: computers change, too
        rows = self._session.rows(
            base, search_filter, kind.columns, multi=kind.multi, references=decoder.plan.referring
        )
        try:
            for batch in split_into_batches(rows, min(BATCH_ENTRIES, self._session.options.page_size)):
                yield from self._make_seen(kind, batch, references)
        except ObjectNotFound:
            return  # there is no such base, so nothing is below it

    def _make_seen(
        self, kind: _Kind, rows: Sequence[tuple[Any, ...]], references: References
    ) -> Iterator[Seen]:
        """Make objects from rows of DN, columns and referenced objects."""
        decoder = kind.view.decoder
        columns_end = len(decoder.plan.columns) + 1
        decoder.plan.prefetch([(row[0], row[1:columns_end], row[-1]) for row in rows], references)
        for row in rows:
            key = _key_of(self._session.profile.watch_key, row[kind.key])
            if key is None:
                continue  # hidden from this user
            if not is_name(row[0], COMPUTER_ABOVE.get(kind.table.name, 0)):
                log.warning("%r is no distinguished name: no change of this object is told", row[0])
                yield Seen(key=key, type=kind.name, dn=row[0], guid=None, body={}, is_damaged=True)
                continue
            element = decoder.element(row[0], row[1:columns_end], references)
            body, whole = body_of(element)
            add_ldap(body, whole, kind.others, row[columns_end : columns_end + len(kind.others)])
            guid = element.identifier
            yield Seen(
                key=key,
                type=kind.name,
                dn=row[0],
                guid=None if guid is None else str(guid),
                body=body,
                version=version_of(row[place] for place in kind.versions),
                whole=whole,
            )

    def _build_kind(self, name: str) -> _Kind:
        session = self._session
        table = table_of(WATCHED_TYPES[name])
        view = ServerView.of(table, table.names(Access.READ), session, frozenset(), strict=False)
        decoder = view.decoder
        requested = {column.lower() for column in decoder.plan.columns}
        other_attributes = tuple(
            sorted(
                attribute
                for attribute in schema.list_allowed_attributes(table.ldap_class)
                if attribute.lower().startswith(_MSMQ) and attribute.lower() not in requested
            )
        )
        key, versions = session.profile.watch_key, session.profile.watch_versions
        # a column may be named once: objectGUID, the key of some servers, is among the decoder's anyway
        watch_columns = [name for name in (key, *versions) if name.lower() not in requested]
        columns = (*decoder.plan.columns, *other_attributes, *watch_columns)
        places = [column.lower() for column in columns]
        return _Kind(
            name=name,
            table=table,
            view=view,
            others=other_attributes,
            columns=columns,
            key=1 + places.index(key.lower()),
            versions=tuple(1 + places.index(name.lower()) for name in versions),
            multi=decoder.plan.multi | frozenset(other_attributes),
            class_filter=_build_class_filter(session, table.ldap_class),
            base=search_base(table.ldap_class, session.naming.root, session.naming.configuration),
        )


def build_listed_filter(session: Session, classes: Iterable[str]) -> LdapFilter:
    """Return the filter for entries of some classes, users as in decision W8."""
    return any_of(*(_build_class_filter(session, ldap_class) for ldap_class in classes))


def _build_class_filter(session: Session, ldap_class: str) -> LdapFilter:
    of_class = session.profile.build_class_filter(ldap_class)
    marks = _USED_BY_MSMQ.get(ldap_class)
    return of_class if marks is None else all_of(of_class, any_of(*map(Present, marks)))


def _encode_key(attribute: str, key: str) -> bytes:
    """Encode a key for the server.

    entryUUID is text ([RFC4530] 2.3), objectGUID sixteen octets.
    """
    return key.encode() if attribute == "entryUUID" else UUID(key).bytes_le


def _key_of(attribute: str, value: object) -> str | None:
    if not isinstance(value, bytes):
        return None
    if attribute == "entryUUID":
        return value.decode(errors="replace").lower()
    guid = guid_of(value)
    return None if guid is None else str(guid)
