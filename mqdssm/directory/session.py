"""Session with a directory, with the operations of [MS-MQDSSM] 3.1.6.12-3.1.6.19.

Sessions are thread-safe.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Self
from uuid import UUID

from mqdssm.directory import streams
from mqdssm.directory.connect import open_channel
from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import TRUE, Equal, LdapFilter, encode
from mqdssm.directory.identities import Identities
from mqdssm.directory.loading.loader import Loader
from mqdssm.directory.observation import OperationCounts
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.pool import Opener, Pool
from mqdssm.directory.profile import Naming, Profile
from mqdssm.directory.raw_entries import ServerEntry, read_raw_entries
from mqdssm.directory.read_operations import ReadOperations, format_target
from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.requests import (
    MANAGE_DSA_IT_OID,
    ChangeType,
    LdapControl,
    Modification,
    SearchScope,
    encode_add,
    encode_extended,
    encode_modify,
)
from mqdssm.directory.schema_check import check_msmq
from mqdssm.directory.searching import SEARCH_TIME_LIMIT_S, PagedSearch, Search
from mqdssm.directory.server_info import ServerInfo
from mqdssm.directory.write_operations import WriteOperations, name_of
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.model.closeable import Closeable
from mqdssm.model.dn import DN

WHO_AM_I_OID: Final = "1.3.6.1.4.1.4203.1.11.3"


class Session(Closeable):
    """LDAP operations on one directory, over a list of its servers.

    Made by `open`. Every call has a limit: `operation_timeout_s` of the options for what it does, and
    for a change whose answer was lost the time for reading back (`ReadBack.limit_s`) besides.

    Attributes:
        loader: makes many changes in one go.
    """

    def __init__(self, options: ConnectionOptions, *, opener: Opener = open_channel) -> None:
        """Initialize the session without connecting.

        The first operation or `connect` calls `opener`.

        Raises:
            ConfigError: the CA file cannot be used.
        """
        self._options = options
        self._knowledge = ServerInfo(options)
        self._pool = Pool(options, self._knowledge.welcome, opener)
        self._reading = ReadOperations(self._pool, options, self._knowledge)
        self._writing = WriteOperations(self._pool, options, self._knowledge, self._reading)
        self._identities = Identities(self)
        self._sid: tuple[str | None] | None = None
        self._forest = Forest(self)
        self.loader: Final = Loader(self, self._pool, self._writing, self._knowledge)

    @classmethod
    def open(cls, options: ConnectionOptions) -> Self:
        """Connect, log in, and read the server's profile ([MS-MQDSSM] 3.1.3).

        Raises:
            DirectoryNotConnected: no server could be reached, or none let us in.
            GenericDirectoryError: an unknown kind of server.
            ConfigError: options that cannot be.
        """
        session = cls(options)
        try:
            session.connect()
        except BaseException:
            session.close()
            raise
        return session

    def connect(self) -> None:
        """Connect and read the server's profile, unless this was done before.

        A failure leaves the session as it was: the next operation tries again (decision M24).

        Raises:
            DirectoryError: as `open`.
        """
        self._connect_if_needed()

    def close(self) -> None:
        """Unbind all connections ([MS-MQDSSM] 3.1.6.21).

        A later operation raises DirectoryNotConnected.
        """
        self._pool.close()
        self._forest.close()

    def keep_one_server(self) -> AbstractContextManager[None]:
        """Keep an operation of several steps on the server that made its first change."""
        return self._pool.keep_one_server()

    # what is known of the server

    @property
    def options(self) -> ConnectionOptions:
        """Options of the connections."""
        return self._options

    @property
    def profile(self) -> Profile:
        """Profile of this kind of server."""
        return self._connect_if_needed().profile

    @property
    def naming(self) -> Naming:
        """Naming contexts of the directory.

        `Naming.configuration` is CachedConfigurationNamingContext (3.1.1.5).
        """
        return self._connect_if_needed().naming

    @property
    def root_dse(self) -> Entry:
        """Root DSE, as it was read when connecting."""
        return self._connect_if_needed().root_dse

    @property
    def brings_references(self) -> bool:
        """True if the server can return referenced entries with a page."""
        return bool(self.profile.build_references_control(self.root_dse, {"member": ("cn",)}))

    @property
    def keeps_guids(self) -> bool:
        """True if a new object may keep a GUID that it had elsewhere (decision M37)."""
        return self._identities.keeps_guids

    @property
    def is_part_only(self) -> bool:
        """True if the server is a global catalog (decision M73).

        Some attributes of the objects are missing there.
        """
        return self._options.part_only and self.profile.has_catalog

    @property
    def catalog(self) -> "Session | None":
        """Session with the global catalog (decision M73).

        None unless the option `forest` is set.

        Raises:
            DirectoryError: it cannot be reached, or is one of another forest.
        """
        return self._forest.catalog if self._options.forest else None

    def refuse_if_replicated(self, operation: str) -> None:
        """Raise GenericDirectoryError for a replicating server's directory.

        See decision R106.

        Raises:
            GenericDirectoryError: it is one, and `allow_replicated` is not set.
            DirectoryError: the server cannot be asked.
        """
        self._connect_if_needed()
        self._writing.refuse_if_replicated(operation, "")

    def refuse_other_domains(self, operation: str, dn: str) -> None:
        """Raise GenericDirectoryError for a change in another domain.

        The object is in another domain of the forest.

        Raises:
            GenericDirectoryError: naming the domain.
        """
        self._writing.refuse_other_domains(operation, dn)

    @property
    def server_url(self) -> str | None:
        """URL of the server in use; None before the first connection."""
        return self._pool.current_url

    @property
    def references(self) -> int:
        """Number of running operations, CachedLDAPConnection.RefCount.

        See [MS-MQDSSM] 3.1.1.6.
        """
        return self._pool.references

    @property
    def round_trips(self) -> int:
        """Number of requests sent so far.

        Of connecting, only the read of the root DSE counts.
        """
        return self._pool.observer.value

    @property
    def operation_counts(self) -> OperationCounts:
        """Snapshot of the numbers of operations, pages and connections."""
        return self._pool.observer.counts

    @property
    def heard_at(self) -> float:
        """Time when a server sent anything last, in monotonic seconds.

        The time is minus infinity if none did.
        """
        return self._pool.observer.heard_at

    @property
    def read_back(self) -> ReadBack:
        """Time limits of reading back a change whose answer was lost; may be set."""
        return self._writing.read_back

    @read_back.setter
    def read_back(self, limits: ReadBack) -> None:
        self._writing.read_back = limits

    @property
    def read_only(self) -> bool:
        """True if every change is refused before it is sent."""
        return self._options.read_only

    # reading

    def get(
        self,
        target: str | DN | UUID,
        attributes: Sequence[str],
        *,
        object_filter: LdapFilter | None = None,
        only_own: bool = False,
    ) -> Entry:
        """Read one object ([MS-MQDSSM] 3.1.6.14, by GUID 3.1.6.19).

        Args:
            target: its DN or its objectGUID.
            attributes: to return; ``["*"]`` is all, none is none.
            object_filter: condition that the entry must satisfy.
            only_own: a GUID is that of the object itself, not one that it had elsewhere (decision M37).

        Raises:
            ObjectNotFound: no such object, or it does not satisfy the filter.
            DirectoryError: anything else that went wrong.
        """
        self._connect_if_needed()
        entries = self._reading.get_all(target, attributes, object_filter or TRUE, only_own=only_own)
        name = format_target(target)
        if not entries:
            raise ObjectNotFound("there is no such object", dn=name, hint=self.profile.hidden_hint)
        if len(entries) > 1:
            raise GenericDirectoryError(
                f"{len(entries)} objects are found by one GUID",
                dn=name,
                hint=f"{self.profile.twins_hint} " + "; ".join(entry.dn for entry in entries[:5]),
            )
        return self._reading.ranges.complete(entries[0])

    def find(
        self,
        base: str | DN,
        search_filter: LdapFilter,
        attributes: Sequence[str],
        scope: SearchScope = SearchScope.SUBTREE,
        page_size: int | None = None,
    ) -> Iterator[Entry]:
        """Search page by page and yield the entries ([MS-MQDSSM] 3.1.6.15).

        The search has a connection of its own.

        Closing the iterator returns the connection. A search whose connection is lost begins again on any
        server and continues where it was (decision M72); an incomplete search is an error. References to
        other servers are not followed; a warning gives their number.

        Args:
            base: DN where it begins.
            search_filter: what the objects must satisfy.
            attributes: to return; ``["*"]`` is all, none is none.
            scope: how far below the base.
            page_size: entries a page; None: as the options say.

        Raises:
            ValueError: an attribute name that is none.
            DirectoryError: while iterating; ObjectNotFound when the base does not exist.
        """
        begin = self._prepare_paging(base, search_filter, scope, page_size)
        return streams.read_entries(begin, attributes, lambda: self._reading.ranges)

    def find_referrals(self, base: str | DN) -> Iterator[Entry]:
        """Search the entries that refer to other servers ([RFC3296] 3), as `find`.

        Other searches leave out what is below these entries.
        """
        control = LdapControl(MANAGE_DSA_IT_OID, critical=True)
        of_class = Equal("objectClass", b"referral")
        begin = self._prepare_paging(base, of_class, SearchScope.SUBTREE, None, controls=(control,))
        return streams.read_entries(begin, ["1.1"], lambda: self._reading.ranges)

    def find_named(self, dn: str, attribute: str, attributes: Sequence[str]) -> Iterator[Entry] | None:
        """Search the objects named by an attribute, as `find` (decision M76).

        None if the server does not support it.

        Objects that are not on the server in use may be missing.
        """
        controls = self.profile.build_named_controls(self.root_dse, attribute)
        if not controls:
            return None
        begin = self._prepare_paging(dn, TRUE, SearchScope.BASE, None, controls=controls)
        return streams.read_entries(begin, attributes, lambda: self._reading.ranges)

    def rows(
        self,
        base: str | DN,
        search_filter: LdapFilter,
        columns: Sequence[str],
        multi: frozenset[str] = frozenset(),
        *,
        scope: SearchScope = SearchScope.SUBTREE,
        page_size: int | None = None,
        references: Mapping[str, Sequence[str]] | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """Search as `find`, but yield plain tuples, for bulk reading.

        Args:
            base: DN where it begins.
            search_filter: what the objects must satisfy.
            columns: attributes, in the order of the tuple.
            multi: the columns that come as a list of values.
            scope: how far below the base.
            page_size: entries a page; None: as the options say.
            references: DN-valued attribute -> attributes wanted of the objects it names, brought along
                in the same round trip (decision M29).

        Yields:
            ``(dn, value, value, …)``: bytes, None where there is none, a list for columns in `multi`. With
            `references` one item more: lower-case attribute -> list of `Dereferenced`, or None where the
            server cannot bring them (`brings_references`), so that they must be looked up.

        Raises:
            ValueError: an attribute name that is none.
            DirectoryError: while iterating, as `find`.
        """
        profile = self._connect_if_needed().profile
        bring = profile.build_references_control(self.root_dse, references or {})
        brings = None if references is None else bool(bring)
        rows = streams.RowOptions(tuple(columns), multi, profile, brings, lambda: self._reading.ranges)
        return rows.stream(self._prepare_paging(base, search_filter, scope, page_size, controls=bring))

    def read_portions(
        self,
        base: str | DN,
        search_filter: LdapFilter,
        columns: Sequence[str],
        decoder: streams.Decoder[streams.P],
    ) -> Iterator[streams.P]:
        """Search as `rows`, page by page, decoded by the caller: `streams.read_portions`."""
        return streams.read_portions(
            self._prepare_paging(base, search_filter, SearchScope.SUBTREE, None), columns, decoder
        )

    def find_raw(
        self, base: str | DN, search_filter: LdapFilter, attributes: Sequence[str]
    ) -> Iterator[ServerEntry]:
        """Search as `find`, for copies.

        DN and attributes keep the server's spelling and order.
        """
        begin = self._prepare_paging(base, search_filter, SearchScope.SUBTREE, None)
        return read_raw_entries(begin, attributes, lambda: self._reading.ranges)

    # changing

    def add(self, dn: str | DN, attributes: Mapping[str, Sequence[bytes]]) -> None:
        """Create an object ([MS-MQDSSM] 3.1.6.12, in one round trip: decision M30).

        Args:
            dn: its name; the parent must exist.
            attributes: all attributes, objectClass included.

        Raises:
            ObjectNotFound: the parent does not exist.
            ObjectAlreadyExists: an object of that name, or with that objectGUID, exists.
            OutcomeUnknown: the answer was lost, and reading back did not work.
            ValueError: a name that is none, or that no server of this kind should hold.
            DirectoryError: anything else; the object was not created.
        """
        name = str(dn)
        self._writing.refuse_if_read_only("add", name)
        profile = self._connect_if_needed().profile
        profile.check_name(name)
        controls = profile.write_controls(attributes)
        self._writing.send(
            "add",
            name,
            lambda number: encode_add(number, name, attributes, controls),
            lambda end, url: self._writing.was_added(name, attributes, end, url),
        )

    def was_added(self, dn: str, attributes: Mapping[str, Sequence[bytes]]) -> bool:
        """Return True if an add whose answer was lost was made.

        Raises:
            ObjectAlreadyExists: another object has the name, or the objectGUID.
            DirectoryError: the server cannot be asked.
        """
        return self._writing.was_added(dn, attributes, self._reading.compute_deadline(), None)

    def create(
        self,
        dn: str | DN,
        ldap_class: str,
        attributes: Mapping[str, Sequence[bytes]],
        identifier: UUID | None = None,
    ) -> UUID | None:
        """Create an object with a given GUID, as far as this directory allows (M37).

        Args:
            dn: its name; the parent must exist.
            ldap_class: its class.
            attributes: all others but objectGUID.
            identifier: a GUID that it had before; None: it is new.

        Returns:
            Its objectGUID; None where the server made it, so that it must be read.

        Raises:
            DirectoryError: as `add`.
        """
        self._writing.refuse_if_read_only("add", str(dn))
        return self._identities.create(str(dn), ldap_class, attributes, identifier)

    def modify(
        self,
        target: str | DN | Entry,
        replacements: Mapping[str, Sequence[bytes]],
        *,
        unchanged: Sequence[str] = (),
    ) -> None:
        """Replace attributes, all or none ([MS-MQDSSM] 3.1.6.16, 3.1.6.17).

        Args:
            target: DN of the object; an entry that was read with its objectGUID: that object and no other.
            replacements: attribute -> new values; none removes it. An empty mapping sends nothing.
            unchanged: single-valued attributes that must still be as in the entry (decision M92).

        Raises:
            ObjectNotFound: no such object.
            ObjectChanged: the object is not the one that was read, or `unchanged` does not hold.
            OutcomeUnknown: the answer was lost, and reading back did not work.
            DirectoryError: anything else; nothing was changed.
        """
        if not replacements:
            return
        self._writing.refuse_if_read_only("modify", name_of(target))
        self._connect_if_needed()
        self._writing.modify(target, replacements, unchanged)

    def delete(self, target: str | DN | Entry) -> None:
        """Delete an object without children ([MS-MQDSSM] 3.1.6.13).

        `target` is as for `modify`.

        Raises:
            ObjectNotFound: no such object.
            ObjectChanged: the object is not the one that was read.
            GenericDirectoryError: it still has objects below it, among others.
            OutcomeUnknown: the answer was lost, and reading back did not work.
        """
        self._writing.refuse_if_read_only("delete", name_of(target))
        self._connect_if_needed()
        self._writing.delete(target)

    def rename(self, target: str | DN | Entry, new_rdn: str, new_parent: str | DN | None = None) -> None:
        """Rename an object, or move it below another parent.

        Args:
            target: as for `modify`.
            new_rdn: its new name, as ``CN=other`` (RFC 4514, escaped).
            new_parent: where it goes; None: it stays.

        Raises:
            ObjectNotFound: no such object, or no such parent.
            ObjectAlreadyExists: the new name is taken.
            ObjectChanged: the object is not the one that was read.
            OutcomeUnknown: the answer was lost, and reading back did not work.
            ValueError: one of the names is no DN.
        """
        name = name_of(target)
        superior = None if new_parent is None else str(new_parent)
        parent = DN.parse(superior) if superior is not None else DN.parse(name).parent
        new = DN.parse(f"{new_rdn},{parent}")
        self._writing.refuse_if_read_only("rename", name)
        self._connect_if_needed()
        self._writing.rename(target, new, new_rdn, superior)

    def find_deleted(self, search_filter: LdapFilter, attributes: Sequence[str]) -> Iterator[Entry]:
        """Yield deleted objects of the domain that satisfy a filter.

        Args:
            search_filter: what the objects must satisfy.
            attributes: to return.

        Raises:
            GenericDirectoryError: the server keeps no deleted objects, or this user may not see them.
            DirectoryError: while iterating.
        """
        controls = self._require_deleted_controls()
        base = self.naming.default.child("CN", "Deleted Objects")
        begin = self._prepare_paging(base, search_filter, SearchScope.ONE_LEVEL, None, controls=controls)
        return streams.read_entries(begin, attributes, lambda: self._reading.ranges)

    def undelete(self, deleted: str, dn: DN) -> None:
        """Give a deleted object a place again ([MS-ADTS] 3.1.1.5.3.7).

        Args:
            deleted: its present DN, below CN=Deleted Objects.
            dn: its new DN.

        Raises:
            ObjectNotFound: there is no such deleted object, or no such parent.
            ObjectAlreadyExists: the new name is taken.
            GenericDirectoryError: the server keeps no deleted objects, or cannot restore this one.
            OutcomeUnknown: the answer was lost, and reading back did not work.
        """
        self._writing.refuse_if_read_only("undelete", deleted)
        controls = self._require_deleted_controls()
        changes = (
            Modification(ChangeType.DELETE, "isDeleted", ()),
            Modification(ChangeType.REPLACE, "distinguishedName", (str(dn).encode(),)),
        )
        self._writing.send(
            "modify",
            deleted,
            lambda number: encode_modify(number, deleted, changes, controls),
            lambda end, url: self._writing.was_renamed(deleted, dn, end, url),
        )

    def _require_deleted_controls(self) -> tuple[LdapControl, ...]:
        controls = self._connect_if_needed().profile.list_deleted_controls()
        if not controls:
            raise GenericDirectoryError(
                f"{self.profile.title} keeps no deleted objects",
                hint="make the object again, from an export: mqdssm diff EXPORT URL -o ldif",
            )
        return controls

    # bound identity, and check for an MSMQ directory

    def bound_name(self) -> str | None:
        """Return the DN that the connection is bound as (RFC 4532).

        None if it is anonymous or unknown.
        """
        result = self._reading.request_extended(
            "who am I", lambda number: encode_extended(number, WHO_AM_I_OID)
        )
        if result.code != 0 or result.response_value is None:
            return None
        kind, _, name = result.response_value.decode(errors="replace").partition(":")
        return name if kind.lower() == "dn" and name else None

    def bound_sid(self) -> str | None:
        """Return the SID of the bound identity; None if it has none (decision M22).

        The SID is read once a session.
        """
        cached = self._sid
        if cached is None:
            cached = self._sid = (self.profile.bound_sid(self),)
        return cached[0]

    def check_msmq(self) -> None:
        """Check that this directory can hold MSMQ's objects.

        Schema and enterprise object are checked.

        Raises:
            GenericDirectoryError: the schema is not loaded, or ``CN=MsmqServices`` does not exist.
        """
        check_msmq(self)

    def _connect_if_needed(self) -> ServerInfo:
        """Connect if no server was reached yet, and return the server information."""
        if not self._knowledge.is_there:
            connecting = 2 * len(self._options.endpoints) * self._options.connect_timeout_s
            with self._pool.lease(time.monotonic() + connecting):
                pass
        return self._knowledge

    def _prepare_paging(
        self,
        base: str | DN,
        search_filter: LdapFilter,
        scope: SearchScope,
        page_size: int | None,
        *,
        controls: tuple[LdapControl, ...] = (),
    ) -> streams.Begin:
        name = str(base)
        knowledge = self._connect_if_needed()
        profile = knowledge.profile

        def begin(attributes: tuple[str, ...]) -> PagedSearch:
            below = () if self._options.from_the_top else profile.search_controls()  # all naming contexts
            listed = (*profile.read_controls(attributes), *below, *controls)
            search = Search(
                name, scope, encode(search_filter), attributes, listed, time_limit_s=SEARCH_TIME_LIMIT_S
            )
            return PagedSearch(
                self._pool,
                search,
                page_size=page_size or self._options.page_size,
                limit_s=self._options.operation_timeout_s,
                error_of=lambda result: knowledge.error_of(result, "search", name),
            )

        return begin


class Forest:
    """Session with a global catalog that is opened on first use; thread-safe."""

    def __init__(self, session: Session) -> None:
        """Initialize without connecting."""
        self._session = session
        self._lock = threading.Lock()
        self._catalog: Session | None = None
        self._closed = False

    @property
    def catalog(self) -> Session:
        """Session with the global catalog, for searches in all domains.

        Raises:
            DirectoryNotConnected: no global catalog could be reached.
            GenericDirectoryError: it is one of another forest.
        """
        with self._lock:
            if self._catalog is None:
                self._catalog = Session(self._session.options.of_catalog)
                if self._closed:
                    self._catalog.close()
            catalog = self._catalog
        own_dn, other = self._session.naming.configuration, catalog.naming.configuration
        if own_dn != other:
            raise GenericDirectoryError(
                f"{catalog.server_url} is the global catalog of another forest: it has {other}, not {own_dn}",
                hint="name a global catalog of this forest with catalog=",
            )
        return catalog

    def close(self) -> None:
        """Close the session with the global catalog permanently."""
        with self._lock:
            self._closed = True
            if self._catalog is not None:
                self._catalog.close()
