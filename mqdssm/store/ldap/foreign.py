"""Changes of other programs: objects whose properties are not those that they were numbered with (R112).

slapd gives each write an entryCSN. What was written since the last look is listed, our own writes too, and
read; an object that has another digest than its properties was changed by another program. A write is
committed later than it gets its entryCSN, so that the last ten minutes are listed once more; what was found
to be our own is not read again.

The order of entryCSNs is that of the server's clock. Each look begins with a write of our own, whose entryCSN
shows that clock: where it was set back everything is looked at, since what is new has older versions (R182).
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
from mqdssm.store.ldap.stored_entry import Held, content_digest, held_of, values_of
from mqdssm.store.ldap.view import TERMS_MAX, StoreSearches
from mqdssm.tables.ldap_results import is_full
from mqdssm.tables.numbering import DIGEST, NUMBER
from mqdssm.tables.properties import OBJECT_GUID, PROPERTY_TABLES

log = logging.getLogger(__name__)

VERSION: Final = "entryCSN"
SEEN: Final = "mqisSeenChange"
COMMIT_S_MAX: Final = 600.0
"""A write is committed at most so long after it got its entryCSN (`mqdssm.directory.watching.commits`)."""
READ_AT_ONCE: Final = 1000
"""Entries that one operation reads: a quarter of a second, in which the store does nothing else."""
_MADE_TYPES: Final = (ObjectType.QUEUE, ObjectType.MACHINE, ObjectType.ROUTING_LINK)
_TYPES: Final = {PROPERTY_TABLES[one].classes[0]: one for one in _MADE_TYPES}
UNNUMBERED: Final = And(
    (
        any_of(*(Equal("objectClass", name.encode()) for name in _TYPES)),
        Present(OBJECT_GUID),
        Not(Present(NUMBER)),
    )
)
"""Objects that another program made: they have a GUID and no number."""
_OBJECTS: Final = Or((And((Present(NUMBER), Not(TOMBSTONE))), UNNUMBERED))
_EXTENSION: Final = "mSMQQueueNameExt"
_TIME_FORMAT: Final = "%Y%m%d%H%M%S"
_TIME_LENGTH: Final = 14
_REST: Final = ".000000Z#000000#000#000000"
_FIRST: Final = "19700101000000" + _REST
"""A version before all others; slapd finds nothing behind one whose time is none."""


class ForeignChanges:
    """Looks for changes of other programs in one directory."""

    def __init__(self, session: Session, reader: StoreSearches) -> None:
        self._session = session
        self._reader = reader
        self._own: dict[str, str] = {}  # name -> version of entries that are as they were numbered
        self._seen: str | None = None  # versions up to it have been seen to
        self._now = ""  # what the server's clock showed when the look began, as a version; empty: unknown
        self._reached = ""  # how far the last answer went
        self._waiting: list[tuple[str, str]] | None = None  # versions and names to be read, newest first

    def find(self, operation: FindForeign) -> ForeignFound:
        """Find objects that another program has changed or made; see `FindForeign`.

        Raises:
            DirectoryError: the directory cannot be read or written.
        """
        if not operation.after:
            self._acknowledge(operation.seen)
        goes_on = operation.after and operation.after == self._reached  # else the last answer was lost
        waiting = self._waiting if goes_on else None
        self._waiting = None  # where this fails, it is repeated from the beginning
        if waiting is None:
            waiting = self._listed(_before(self._seen or ""), operation.after)
        found: list[ForeignObject] = []
        looked, left = operation.after, READ_AT_ONCE
        while waiting and left > 0 and len(found) < operation.count_max:
            some = waiting[-TERMS_MAX:]
            found += self._judge([dn for _, dn in some])
            del waiting[-TERMS_MAX:]
            left -= len(some)
            looked = max(looked, some[0][0])
        self._reached = looked
        if waiting:
            self._waiting = waiting
            return ForeignFound(objects=tuple(found), reached=looked, newest=looked)
        oldest = _before(self._seen or "")  # older ones are listed no more
        self._own = {dn: version for dn, version in self._own.items() if version >= oldest}
        # versions of the time before the clock was set back are higher
        newest = min(looked, self._now) if self._now else looked
        return ForeignFound(objects=tuple(found), reached="", newest=newest)

    def _listed(self, since: str, after: str) -> list[tuple[str, str]]:
        """List what may be another program's, newest first."""
        listed = self._list(GreaterOrEqual(VERSION, since.encode()))
        return sorted(
            (one for one in listed if one[0] > after and self._own.get(one[1]) != one[0]), reverse=True
        )

    def _acknowledge(self, seen: str) -> None:
        """Note that everything up to a version has been seen to; everything, where the clock was set back."""
        if self._seen is None:
            with suppress(ObjectNotFound):
                raw = self._session.get(self._reader.places.server, [SEEN]).first(SEEN)
                self._seen = (raw or b"").decode(errors="replace")
        self._seen = max(seen, self._seen or "")
        self._now = self._written(self._seen) if self._seen else ""
        if self._now and self._now < _before(self._seen):
            log.warning("the clock of the LDAP server was set back, from %s to %s", self._seen, self._now)
            self._seen = ""

    def _written(self, seen: str) -> str:
        """Write how far we are; return the version of that write, empty where there is none."""
        try:
            self._session.modify(self._reader.places.server, {SEEN: (seen.encode(),)})
            return _version(self._session.get(self._reader.places.server, [VERSION]))
        except ObjectNotFound:  # a directory that nobody owns: it is noted as long as we run
            return ""
        except DirectoryError as error:
            if is_full(error.ldap_code, error.server_text):
                return ""
            raise

    def _list(self, within: LdapFilter) -> Iterator[tuple[str, str]]:
        """List versions and names of objects."""
        for entry in self._reader.find(And((within, _OBJECTS)), (VERSION,)):
            yield _version(entry), entry.dn

    def _judge(self, dns: list[str]) -> Iterator[ForeignObject]:
        """Read some entries, and give those that another program has written."""
        dn_filter = self._session.profile.dn_filter
        terms = [dn_filter(dn) for dn in dns]
        for entry in self._reader.any_of(terms, _OBJECTS, ("*", VERSION)):
            try:
                found = self._foreign(held_of(entry), _version(entry))
            except MappingError as error:  # it is told by whoever needs it, and found when it is mended
                log.info("an entry is damaged, and left out: %s", error)
                found = None
            if found is None:
                self._own[entry.dn] = _version(entry)
            else:
                yield found

    def _foreign(self, held: Held, version: str) -> ForeignObject | None:
        """Return the change of another program that an entry shows; None: there is none."""
        object_type = held.type or next((_TYPES[name] for name in _TYPES if held.has_class(name)), None)
        if object_type is None or held.identifier is None:
            raise MappingError(f"{held.dn} is no object: its class or its GUID is gone")
        partition: Guid | None = None
        number: SequenceNumber | None = None
        properties: Properties = ()
        if held.numbers is None:
            partition, properties = self._creation(held, object_type)
        else:
            partition, number = held.numbers.partition, held.numbers.number
            if number == MIN:
                return None  # a full synchronization writes it anew
            if held.entry.get(DIGEST) in {None, (content_digest(held),)}:
                return None  # without a digest it was numbered by a version of us that wrote none
        return ForeignObject(
            object_type=object_type,
            identifier=held.identifier,
            partition_id=partition,
            seq_number=number,
            name=held.dn,
            version=version,
            properties=properties,
        )

    def _creation(self, held: Held, object_type: ObjectType) -> tuple[Guid | None, Properties]:
        """Return the partition and the properties of a queue that has no number; others say neither."""
        if object_type is not ObjectType.QUEUE:
            return None, ()
        name = parse_name(held.dn)
        above = self._session.profile.dn_filter(str(name.parent))
        machine = next(map(held_of, self._reader.any_of([above])), None)
        if machine is None or machine.numbers is None or machine.type is not ObjectType.MACHINE:
            return None, ()
        computer = values_of(machine, ObjectType.MACHINE).get(Propid.QM_PATHNAME)
        extension = held.entry.get(_EXTENSION, (b"",))[0].decode(errors="replace")
        if not isinstance(computer, str):
            return None, ()
        path = f"{computer}\\{name_of(name.name, extension)}"
        values = {**values_of(held, ObjectType.QUEUE), Propid.Q_PATHNAME: path}
        return machine.numbers.partition, tuple(values.items())


def _version(entry: Entry) -> str:
    return (entry.first(VERSION) or b"").decode(errors="replace")


def _before(version: str) -> str:
    """Return a version that is older than what may have been committed behind another one."""
    try:
        made = datetime.strptime(version[:_TIME_LENGTH], _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:  # there is none yet, or another program wrote it: everything is looked at
        return _FIRST
    return (made - timedelta(seconds=COMMIT_S_MAX)).strftime(_TIME_FORMAT) + _REST
