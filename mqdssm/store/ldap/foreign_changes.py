"""Changes of other programs: objects that do not match their digest (R112).

Somebody changed their properties after the digest was stored.

slapd gives each write an entryCSN. The search lists and reads entries written since the last one, also by
this server. An object whose digest does not match its properties was changed by another program. A write may
be committed some time after it got its entryCSN, so that the last ten minutes are listed again; entries known
to be our own writes are not read again.

The order of entryCSNs is that of the server's clock. Each search begins with a write of our own, whose
entryCSN shows that clock. If the clock was set back, all objects are examined, since new writes have older
versions (R182).
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from mqdssm.directory.entries import Entry, parse_name
from mqdssm.directory.filters import And, Equal, GreaterOrEqual, LdapFilter, Not, Or, Present, any_of
from mqdssm.directory.session import Session
from mqdssm.engines.replication.operations import FindForeign, ForeignFound, ForeignObject
from mqdssm.errors import DirectoryError, MappingError, ObjectNotFound
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.queuenames import name_of
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store.ldap.ranges import TOMBSTONE
from mqdssm.store.ldap.stored_entry import StoredEntry, has_foreign_content, stored_entry_of, values_of
from mqdssm.store.ldap.view import TERMS_MAX, StoreSearches
from mqdssm.tables.ldap_results import is_full
from mqdssm.tables.numbering import NUMBER
from mqdssm.tables.properties import OBJECT_GUID, PROPERTY_TABLES

log = logging.getLogger(__name__)

VERSION: Final = "entryCSN"
SEEN: Final = "mqisSeenChange"
COMMIT_S_MAX: Final = 600.0
"""Longest time between a write's entryCSN and its commit (`mqdssm.directory.watching.commits`)."""
READ_AT_ONCE: Final = 1000
"""Number of entries that one operation reads: a quarter of a second, during which the store is busy."""
_MADE_TYPES: Final = (ObjectType.QUEUE, ObjectType.MACHINE, ObjectType.ROUTING_LINK)
_TYPES: Final = {PROPERTY_TABLES[object_type].classes[0]: object_type for object_type in _MADE_TYPES}
UNNUMBERED: Final = And(
    (
        any_of(*(Equal("objectClass", name.encode()) for name in _TYPES)),
        Present(OBJECT_GUID),
        Not(Present(NUMBER)),
    )
)
"""Objects that another program created: they have a GUID and no number."""
_OBJECTS: Final = Or((And((Present(NUMBER), Not(TOMBSTONE))), UNNUMBERED))
_EXTENSION: Final = "mSMQQueueNameExt"
_TIME_FORMAT: Final = "%Y%m%d%H%M%S"
_TIME_LENGTH: Final = 14
_REST: Final = ".000000Z#000000#000#000000"
_FIRST: Final = "19700101000000" + _REST
"""A version older than all others; slapd finds nothing above a version without a valid time."""


class ForeignChanges:
    """Search for changes of other programs in one directory."""

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self._session = session
        self._reader = reader
        self._own: dict[str, str] = {}  # DN -> version of entries that match their digest
        self._seen: str | None = None  # all changes up to this version have been handled
        self._now = ""  # the server's clock at the start of the search, as a version; empty if unknown
        self._reached = ""  # the version up to which the last answer went
        self._waiting: list[tuple[str, str]] | None = None  # versions and DNs to be read, newest first

    def find(self, operation: FindForeign) -> ForeignFound:
        """Find objects that another program has changed or created; see `FindForeign`.

        Raises:
            DirectoryError: the directory cannot be read or written.
        """
        if not operation.after:
            self._acknowledge(operation.seen)
        goes_on = operation.after and operation.after == self._reached  # else the last answer was lost
        waiting = self._waiting if goes_on else None
        self._waiting = None  # if this fails, it is repeated from the beginning
        if waiting is None:
            waiting = self._list_entries(_compute_lowest_version(self._seen or ""), operation.after)
        objects: list[ForeignObject] = []
        looked, remaining = operation.after, READ_AT_ONCE
        while waiting and remaining > 0 and len(objects) < operation.count_max:
            some = waiting[-TERMS_MAX:]
            objects += self._judge([dn for _, dn in some])
            del waiting[-TERMS_MAX:]
            remaining -= len(some)
            looked = max(looked, some[0][0])
        self._reached = looked
        if waiting:
            self._waiting = waiting
            return ForeignFound(objects=tuple(objects), reached=looked, newest=looked)
        oldest = _compute_lowest_version(self._seen or "")  # older ones are no longer listed
        self._own = {dn: version for dn, version in self._own.items() if version >= oldest}
        # versions from before the clock was set back are higher
        newest = min(looked, self._now) if self._now else looked
        return ForeignFound(objects=tuple(objects), reached="", newest=newest)

    def _list_entries(self, since: str, after: str) -> list[tuple[str, str]]:
        """List entries that another program may have written, newest first.

        Each has its version and DN.
        """
        listed = self._list(GreaterOrEqual(VERSION, since.encode()))
        return sorted(
            (item for item in listed if item[0] > after and self._own.get(item[1]) != item[0]), reverse=True
        )

    def _acknowledge(self, seen: str) -> None:
        """Record that changes up to a version are handled.

        The record is dropped if the clock was set back.
        """
        if self._seen is None:
            with suppress(ObjectNotFound):
                raw = self._session.get(self._reader.places.server, [SEEN]).first(SEEN)
                self._seen = (raw or b"").decode(errors="replace")
        self._seen = max(seen, self._seen or "")
        self._now = self._write_version(self._seen) if self._seen else ""
        if self._now and self._now < _compute_lowest_version(self._seen):
            log.warning("the clock of the LDAP server was set back, from %s to %s", self._seen, self._now)
            self._seen = ""

    def _write_version(self, seen: str) -> str:
        """Write the version handled so far, return the version of that write.

        The result is empty if there is none.
        """
        try:
            self._session.modify(self._reader.places.server, {SEEN: (seen.encode(),)})
            return _decode_version(self._session.get(self._reader.places.server, [VERSION]))
        except ObjectNotFound:  # without an owner's entry it is only kept in memory
            return ""
        except DirectoryError as error:
            if is_full(error.ldap_code, error.server_text, error.dn):
                return ""
            raise

    def _list(self, within: LdapFilter) -> Iterator[tuple[str, str]]:
        """List the versions and DNs of objects that match a filter."""
        for entry in self._reader.find(And((within, _OBJECTS)), (VERSION,)):
            yield _decode_version(entry), entry.dn

    def _judge(self, dns: list[str]) -> Iterator[ForeignObject]:
        """Read some entries, and yield the changes of other programs."""
        dn_filter = self._session.profile.build_dn_filter
        terms = [dn_filter(dn) for dn in dns]
        for entry in self._reader.any_of(terms, _OBJECTS, ("*", VERSION)):
            try:
                foreign_object = self._find_foreign_change(stored_entry_of(entry), _decode_version(entry))
            except MappingError as error:  # logged where it is needed, found again after repair
                log.info("an entry is damaged, and left out: %s", error)
                foreign_object = None
            if foreign_object is None:
                self._own[entry.dn] = _decode_version(entry)
            else:
                yield foreign_object

    def _find_foreign_change(self, stored_entry: StoredEntry, version: str) -> ForeignObject | None:
        """Return the change of another program in an entry; None if there is none."""
        object_type = stored_entry.type or next(
            (_TYPES[name] for name in _TYPES if stored_entry.has_class(name)), None
        )
        if object_type is None or stored_entry.identifier is None:
            raise MappingError(f"{stored_entry.dn} is no object: its class or its GUID is gone")
        partition: Guid | None = None
        number: SequenceNumber | None = None
        properties: Properties = ()
        if stored_entry.numbers is None:
            partition, properties = self._build_creation(stored_entry, object_type)
        else:
            partition, number = stored_entry.numbers.partition, stored_entry.numbers.number
            if number == MIN:
                return None  # a full synchronization writes it again
            if not has_foreign_content(stored_entry):
                return None
        return ForeignObject(
            object_type=object_type,
            identifier=stored_entry.identifier,
            partition_id=partition,
            seq_number=number,
            name=stored_entry.dn,
            version=version,
            properties=properties,
        )

    def _build_creation(
        self, stored_entry: StoredEntry, object_type: ObjectType
    ) -> tuple[Guid | None, Properties]:
        """Return the partition and properties of a queue without a number.

        For other types there is nothing to return.
        """
        if object_type is not ObjectType.QUEUE:
            return None, ()
        name = parse_name(stored_entry.dn)
        above = self._session.profile.build_dn_filter(str(name.parent))
        machine = next(map(stored_entry_of, self._reader.any_of([above])), None)
        if machine is None or machine.numbers is None or machine.type is not ObjectType.MACHINE:
            return None, ()
        computer = values_of(machine, ObjectType.MACHINE).get(Propid.QM_PATHNAME)
        extension = stored_entry.entry.get(_EXTENSION, (b"",))[0].decode(errors="replace")
        if not isinstance(computer, str):
            return None, ()
        path = f"{computer}\\{name_of(name.name, extension)}"
        values = {**values_of(stored_entry, ObjectType.QUEUE), Propid.Q_PATHNAME: path}
        return machine.numbers.partition, tuple(values.items())


def _decode_version(entry: Entry) -> str:
    return (entry.first(VERSION) or b"").decode(errors="replace")


def _compute_lowest_version(version: str) -> str:
    """Return the lowest version that may have been committed after another one."""
    try:
        version_time = datetime.strptime(version[:_TIME_LENGTH], _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:  # missing, or written by another program: examine everything
        return _FIRST
    return (version_time - timedelta(seconds=COMMIT_S_MAX)).strftime(_TIME_FORMAT) + _REST
