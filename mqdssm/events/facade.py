"""Public API: a directory with the events of [MS-MQDSSM] 3.1.6."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Unpack, cast
from uuid import UUID

from mqdssm.directory.log_in import LogInArguments
from mqdssm.directory.options import (
    CONNECT_TIMEOUT_S,
    OPERATION_TIMEOUT_S,
    PAGE_ENTRIES,
    ConnectionOptions,
)
from mqdssm.directory.secret import Secret
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError, DirectoryError
from mqdssm.events import alias, certificates, create, delete, lookup, upsert, write
from mqdssm.events.attributes import look_up_table
from mqdssm.events.bulk_changes import BulkChanges, Created
from mqdssm.events.context import Context
from mqdssm.events.delete import Progress
from mqdssm.events.encode import KEYS_NAME
from mqdssm.events.iterators import Handle, Iterators
from mqdssm.events.pages import SearchPage, read_page
from mqdssm.events.queue_creation import QueueCreation, can_send_ahead
from mqdssm.model.base import DirectoryObject
from mqdssm.model.closeable import Closeable
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, User
from mqdssm.model.expressions import Condition
from mqdssm.model.filters import Filter, SortKey
from mqdssm.model.notice import Notice, Notify
from mqdssm.model.watching import WATCHED_TYPES, ObjectChange

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from mqdssm.directory.watching.hints import Rhythm
    from mqdssm.events.notices import Notices
    from mqdssm.events.watching.watch import Pauses, Watch

E = TypeVar("E", bound=DirectoryObject)
T = TypeVar("T")

Filters: TypeAlias = Filter | Condition[E] | Iterable[Filter | Condition[E]]
"""Filters of a search: one or several, of the specification or conditions on the class searched for."""


class Directory(BulkChanges, Closeable):
    """Directory of MSMQ objects; made by `connect`, thread-safe, a context manager.

    Every method is one event of [MS-MQDSSM] 3.1.6. Attributes are named as the specification names them.
    """

    def __init__(
        self, session: Session, *, create_server_objects: bool = True, notify: Notify | None = None
    ) -> None:
        self._context = Context(session, create_server_objects=create_server_objects)
        self._iterators = Iterators()
        self._notify = notify

    @property
    def session(self) -> Session:
        """LDAP session: the operations of [MS-MQDSSM] 3.1.6.12-3.1.6.19."""
        return self._context.session

    @cached_property
    def _notices(self) -> "Notices":
        """Sender of change notices, loaded on the first change."""
        from mqdssm.events.notices import Notices  # noqa: PLC0415  only who changes something needs it

        return Notices(self._context, self._notify)

    def create(self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None) -> UUID:
        """Create an object ([MS-MQDSSM] 3.1.6.1).

        Afterwards `obj` stands for the new object: it has its Identifier, and what servers make or compute
        (FullPath, DirectoryPath, times) is not populated.

        Args:
            obj: a QueueManager, Queue, Site or RoutingLink.
            attributes: names of the attributes to persist; None: all that are populated.

        Returns:
            objectGUID of the new object; of the existing one, for a queue manager that exists.

        Raises:
            GenericDirectoryError: another kind, or a broken precondition.
            ObjectNotFound: the parent does not exist.
            ObjectAlreadyExists: there is such an object.
            ValueError: a name or value that no directory can hold; nothing was changed.
        """
        with self.session.keep_one_server():
            identifier = create.create(self._context, obj, _check_attribute_names(attributes))
            self._notices.notify_creation(obj, identifier)
        return identifier

    def delete(
        self, obj: DirectoryObject, recursive: bool = False, *, on_progress: Progress | None = None
    ) -> None:
        """Delete an object ([MS-MQDSSM] 3.1.6.2).

        Args:
            obj: says by Identifier, FullPath or name (in this order) which one; all that are set must agree.
            recursive: take the queues of a queue manager along.
            on_progress: called with the number of deleted queues and the total number of queues.

        Raises:
            GenericDirectoryError: a kind that cannot be deleted, objects are below it, or no object or
                several are meant.
            ObjectNotFound: there is no such object.
        """
        with self.session.keep_one_server(), self._notices.notify_deletion(obj, recursive=recursive):
            delete.delete(self._context, obj, recursive=recursive, on_progress=on_progress)

    def read(self, kind: type[E], filters: Filters[E], *, attributes: Sequence[str] | None = None) -> E:
        """Read the first object that satisfies all filters ([MS-MQDSSM] 3.1.6.3).

        Args:
            kind: class of the element.
            filters: `Filter` or conditions as ``Queue.label == "Paid"``, one or several.
            attributes: names of the attributes to read; None: all.

        Raises:
            ObjectNotFound: there is none.
            GenericDirectoryError: an attribute that cannot be read, or is damaged.
            ValueError: a filter value that the attribute cannot have.
        """
        return cast(
            "E",
            lookup.read(
                self._context,
                look_up_table(kind, "read"),
                _list_filters(filters),
                _check_attribute_names(attributes),
            ),
        )

    def search(
        self,
        kind: type[E],
        filters: Filters[E] = (),
        *,
        attributes: Sequence[str] | None = None,
        sort: SortKey | Iterable[SortKey] = (),
        below: str | None = None,
        limit: int | None = None,
    ) -> Generator[E, None, None]:
        """Yield the objects that satisfy all filters.

        This iterator stands for the three events of [MS-MQDSSM] 3.1.6.4-3.1.6.6.

        Memory does not grow with the number of objects, except for a sort. Close the generator to stop early,
        as with `contextlib.closing`: a search in progress keeps a connection.

        Args:
            kind: class of the element.
            filters: `Filter` or conditions as ``Queue.label == "Paid"``; all must hold.
            attributes: names of the attributes to read; None: all.
            sort: keys; keys of a higher priority decide first.
            below: DN; only objects there and below are looked at, as the queues of one queue manager.
            limit: maximum number of objects, the first ones in the order of `sort`; None: all.

        Raises:
            GenericDirectoryError: a name that cannot be asked for.
            ValueError: a filter value that the attribute cannot have, `below` is no DN, or a negative limit.
            DirectoryError: while iterating; a search that breaks off never looks like a short list.
        """
        keys = _list_items((SortKey,), "sort", sort)
        objects = lookup.search(
            self._context,
            look_up_table(kind, "read"),
            _list_filters(filters),
            _check_attribute_names(attributes),
            keys,
            below=_parse_place(below),
            limit=None if limit is None else _check_limit(limit, 0),
        )
        return cast("Generator[E, None, None]", objects)

    def search_page(
        self,
        kind: type[E],
        filters: Filters[E] = (),
        *,
        limit: int,
        token: str | None = None,
        attributes: Sequence[str] | None = None,
        below: str | None = None,
    ) -> SearchPage[E]:
        """Return a page of the objects that satisfy all filters (decision M112).

        The order is that of the Identifiers. An object that exists and satisfies the filters all the time is
        on exactly one page. A token is text that may stand in a URL; it does not expire, and another
        process or server of the directory may go on with it.

        Each page costs a search for the Identifiers of all matching objects: to read all, use `search`.

        Args:
            kind: class of the element.
            filters: as in `search`.
            limit: maximum number of objects; a page can have fewer, also before the last one.
            token: `SearchPage.next_token` of the page before, with equal `kind`, `filters` and `below`;
                None: the first page.
            attributes: names of the attributes to read; None: all.
            below: as in `search`.

        Raises:
            GenericDirectoryError: a name that cannot be asked for.
            ValueError: as `search`; no token, or one of another query.
            DirectoryError: the search failed.
        """
        page = read_page(
            self._context,
            look_up_table(kind, "read"),
            _list_filters(filters),
            _check_attribute_names(attributes),
            limit=_check_limit(limit, 1),
            token=None if token is None else _check_text("token", token),
            below=_parse_place(below),
        )
        return cast("SearchPage[E]", page)

    def count(self, kind: type[E], filters: Filters[E] = (), *, below: str | None = None) -> int:
        """Return the number of objects that satisfy all filters.

        Only what the filters need is read, and the objects' Identifiers.

        Args:
            kind: class of the element.
            filters: as in `search`.
            below: as in `search`.

        Raises:
            GenericDirectoryError: a name that cannot be asked for.
            ValueError: as `search`.
            DirectoryError: the search failed.
        """
        table, conditions = look_up_table(kind, "read"), _list_filters(filters)
        return sum(1 for _ in lookup.search(self._context, table, conditions, (), below=_parse_place(below)))

    def write(
        self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None, if_unchanged: bool = False
    ) -> None:
        """Write attributes of an object ([MS-MQDSSM] 3.1.6.7).

        Args:
            obj: says which object, as for `delete`, and the new values.
            attributes: names of the attributes to write; None: the attributes that were assigned or unset
                since the read.
            if_unchanged: write only if the directory still has the values that `obj` was read with, of all
                attributes that can be written (compare and set; decision M116).

        Raises:
            ObjectChanged: with `if_unchanged`: another program changed the object since; nothing was written.
            GenericDirectoryError: an attribute that cannot be written, or no object or several are meant.
            ObjectNotFound: there is no such object.
            ValueError: a value that no directory can hold; nothing was sent.
        """
        names = _check_attribute_names(attributes)
        with self.session.keep_one_server(), self._notices.notify_write(obj, names):
            write.write(self._context, obj, names, if_unchanged=if_unchanged)

    def upsert(self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None) -> bool:
        """Write an object, or create it if it does not exist.

        An existing object gets all values of `obj`, not only those that were assigned since a read.

        Args:
            obj: a QueueManager, Queue, Site or RoutingLink; says which object, as for `write`.
            attributes: names of the attributes to store; None: all that are populated, or were unset.

        Returns:
            True if the object was created.

        Raises:
            GenericDirectoryError: an attribute that only a create can store has another value; or as for
                `create` and `write`.
            ObjectAlreadyExists: another object has the name, or other programs created and deleted the object
                again and again.
            ObjectNotFound: the parent does not exist.
            ValueError: a name or value that no directory can hold.
        """
        names = _check_attribute_names(attributes)
        with self.session.keep_one_server():
            return upsert.upsert(self._context, self._notices, obj, names)

    def create_ahead(
        self, attributes: Sequence[str] | None, queues: Iterator[Queue], stop_on_error: bool
    ) -> Created | None:
        """Create queues for `create_many`, ahead of the answers.

        Returns:
            The queues, each with the reason why it was not created; None if each needs an event of its own.
        """
        if not can_send_ahead(self._context):
            return None
        names = _check_attribute_names(attributes)
        return QueueCreation(
            self._context,
            self._notices,
            names,
            lambda queue: self.create(queue, attributes=names),
            queues,
            stop_on_error,
        ).collect_outcomes()

    def add_certificate(self, owner: User | QueueManager, certificate: "Certificate | bytes") -> UUID:
        """Register one signing certificate (decision M117).

        Certificates that other programs register at the same time are kept.
        `owner` itself stays as it was read.

        Args:
            owner: says which user or queue manager, as for `write`.
            certificate: of the `cryptography` package, or DER bytes.

        Returns:
            Identifier of the registration; of the existing one, if the certificate is registered already.

        Raises:
            ObjectNotFound: there is no such user or queue manager.
            GenericDirectoryError: what is registered cannot be read.
            ValueError: no certificate, or more bytes than a directory holds.
        """
        with (
            self.session.keep_one_server(),
            self._notices.notify_write(owner, (), changed=frozenset({KEYS_NAME})),
        ):
            return certificates.add_certificate(self._context, owner, certificate)

    def remove_certificate(
        self, owner: User | QueueManager, certificate: "Certificate | bytes | UUID"
    ) -> None:
        """Remove one signing certificate (decision M117).

        Certificates that other programs register at the same time are kept.

        Args:
            owner: as for `add_certificate`.
            certificate: as for `add_certificate`; or its MD5 digest of 16 bytes, or its identifier.

        Raises:
            AttributeNotFound: it is not registered.
            ObjectNotFound: there is no such user or queue manager.
            GenericDirectoryError: what is registered cannot be read.
        """
        with (
            self.session.keep_one_server(),
            self._notices.notify_write(owner, (), changed=frozenset({KEYS_NAME})),
        ):
            certificates.remove_certificate(self._context, owner, certificate)

    def notice_of(self, change: ObjectChange) -> Notice | None:
        """Return the notice for a change ([MS-MQCN] 3.3.4.1).

        A watch of this directory has seen the change.

        Args:
            change: it.

        Returns:
            What a notifier takes, as `connect(notify=…)` would have called it; None: nobody has to know.

        Raises:
            DirectoryError: the directory could not be read: nobody knows whether somebody has to know.
        """
        if not isinstance(change, ObjectChange):
            raise TypeError(f"change={change!r}: give an ObjectChange")
        return self._notices.of_change(change)

    def read_begin(
        self,
        kind: type[E],
        filters: Filters[E] = (),
        *,
        attributes: Sequence[str] | None = None,
        sort: SortKey | Iterable[SortKey] = (),
    ) -> Handle[E]:
        """Begin an iteration ([MS-MQDSSM] 3.1.6.4).

        The arguments are those of `search`. Errors are raised at once.

        Returns:
            A handle for `read_next` and `read_end`.
        """
        return self._iterators.begin(self.search(kind, filters, attributes=attributes, sort=sort))

    def read_next(self, handle: Handle[E]) -> E:
        """Return the next object of an iteration ([MS-MQDSSM] 3.1.6.5).

        Raises:
            EndOfData: there are no more.
            GenericDirectoryError: no such handle.
        """
        return self._iterators.next(handle)

    def read_end(self, handle: Handle[DirectoryObject]) -> None:
        """End an iteration ([MS-MQDSSM] 3.1.6.6).

        Raises:
            GenericDirectoryError: no such handle.
        """
        self._iterators.end(handle)

    def resolve_queue_alias(self, full_path: str) -> str:
        """Return the format name of a queue alias ([MS-MQDSSM] 3.1.6.8).

        Args:
            full_path: DN of the alias.

        Raises:
            ObjectNotFound: nothing is there.
            AttributeNotFound: the object has no format name.
            ValueError: no DN.
        """
        return alias.resolve_queue_alias(self._context, _check_text("full_path", full_path))

    def resolve_distribution_list(self, format_name: str) -> list[str]:
        """Return the format names of a distribution list's queues.

        See [MS-MQDSSM] 3.1.6.9.

        Args:
            format_name: ``DL=<GUID>``.

        Raises:
            ObjectNotFound: there is no such list.
            GenericDirectoryError: a member is neither queue, alias nor list.
            ValueError: no distribution list format name.
        """
        return alias.resolve_distribution_list(self._context, _check_text("format_name", format_name))

    def watch(
        self,
        *kinds: type[DirectoryObject],
        state: str | Path | None = None,
        ignore: Iterable[str] = (),
        events: Iterable[str] = (),
        computers: Iterable[str] = (),
        snapshot: bool = False,
        once: bool = False,
        all_writes: bool = False,
        rhythm: "Rhythm | None" = None,
        pauses: "Pauses | None" = None,
        on_ready: Callable[[str], None] | None = None,
        on_trouble: Callable[[DirectoryError, float], None] | None = None,
        on_quiet: Callable[[], None] | None = None,
    ) -> "Watch":
        """Watch the directory.

        Returns an endless iterator over changes, made by any program.

        The watch has its own connections, and may outlive this object. Close it, or use it in a ``with``
        block; ``async for`` works, too. With a state file call `Watch.commit` after handling changes.

        Args:
            kinds: classes of the elements to watch; none: all that can be.
            state: file that says where to go on, and what was committed: what happened in between is told,
                too. None: what happened before is not told.
            ignore: the specification's names of attributes whose changes are not told.
            events: that are told, as `ChangeEvent` calls them; none: all.
            computers: names of computers: only their queues and queue managers are told of; none: all.
            snapshot: where there is no state yet, tell first what exists, as EXISTING.
            once: end when all that happened before has been told.
            all_writes: tell, too, of objects that were written to and are as they were, as CHANGED without
                changes: for who reads objects himself, and may have seen them as they were in between.
            rhythm: how often to look.
            pauses: how long to wait for a server that is away.
            on_ready: told the URL of the server, each time when all that happened before has been told; with
                `all_writes` also when something came and went unseen, or may have.
            on_trouble: told of each lost connection and of the pause in seconds before the next attempt.
            on_quiet: called now and then while the server is connected and there is nothing to tell.

        Raises:
            ConfigError: options that cannot be watched with, a damaged state, or one that another watch has.
            GenericDirectoryError: objects that no directory keeps.
            DirectoryError: while iterating: the server does not tell of changes, or not to this user.
        """
        from mqdssm.events.watching.watch import Watch  # noqa: PLC0415  only who watches needs it

        names = [look_up_table(kind, "watched").element for kind in kinds]
        return Watch(
            self.session.options,
            [name for name, element in WATCHED_TYPES.items() if element in names],
            state=state,
            ignore=ignore if isinstance(ignore, str) else tuple(ignore),  # refused, and all names
            events=events if isinstance(events, str) else tuple(events),
            computers=computers if isinstance(computers, str) else tuple(computers),
            snapshot=snapshot,
            once=once,
            all_writes=all_writes,
            rhythm=rhythm,
            pauses=pauses,
            on_ready=on_ready,
            on_trouble=on_trouble,
            on_quiet=on_quiet,
        )

    def close(self) -> None:
        """End all iterations and close all connections."""
        self._iterators.end_all()
        self.session.close()


def connect(
    url_or_urls: str | Iterable[str],
    *,
    password: str | Secret | None = None,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    operation_timeout_s: float = OPERATION_TIMEOUT_S,
    page_size: int = PAGE_ENTRIES,
    read_only: bool = False,
    forest: bool = False,
    catalog: str | Iterable[str] | None = None,
    create_server_objects: bool = True,
    check_msmq: bool = True,
    notify: Notify | None = None,
    **login: Unpack[LogInArguments],
) -> Directory:
    """Connect to a directory ([MS-MQDSSM] 3.1.3, 3.1.6.18).

    Certificates are always verified.

    Args:
        url_or_urls: ``ldap://``, ``ldaps://`` or ``ldapi://`` URL, or several, tried in this order.
        password: of the user.
        connect_timeout_s: limit for reaching one server, in seconds.
        operation_timeout_s: limit for one operation or page, in seconds.
        page_size: entries asked for at once.
        read_only: refuse every change before it is sent.
        forest: look for queue managers, queues and users in all domains of a forest of Active Directory,
            through a global catalog (decision M73).
        catalog: URL of the global catalog, or several; None: the ports 3268 and 3269 of the servers.
        create_server_objects: make the ``server`` objects that mSMQSettings needs (decision M6).
        check_msmq: make sure that this is a directory of MSMQ: another one would answer every search with
            nothing.
        notify: is told of every queue that was created, written or deleted and of every queue manager that
            was written, and whom to notify of the change (decision C22).
        login: who logs in and how, as ``user``, ``tls`` and ``ca_file``: the fields of
            `mqdssm.directory.log_in.LogIn`.

    Raises:
        DirectoryNotConnected: no server could be reached, or none let us in.
        GenericDirectoryError: an unknown kind of server, one without the MSMQ schema, or without its
            enterprise object.
        ConfigError: settings that cannot be.
        TypeError: there is no such option.
    """
    if notify is not None and not callable(notify):
        raise ConfigError(f"notify is to be a function of one argument, not {notify!r}")
    # tracebacks that show variables must not show the password
    password = Secret(password) if isinstance(password, str) else password
    options = ConnectionOptions.of(
        url_or_urls,
        password=password,
        connect_timeout_s=connect_timeout_s,
        operation_timeout_s=operation_timeout_s,
        page_size=page_size,
        read_only=read_only,
        forest=forest,
        catalog=catalog,
        **login,
    )
    session = _open_session(options, check_msmq=check_msmq)
    return Directory(session, create_server_objects=create_server_objects, notify=notify)


def _open_session(options: ConnectionOptions, *, check_msmq: bool) -> Session:
    session = Session.open(options)
    try:
        if check_msmq:
            session.check_msmq()
    except BaseException:
        session.close()
        raise
    return session


def _list_filters(filters: Filters[E]) -> tuple[Filter | Condition[E], ...]:
    return _list_items((Filter, Condition), "filters", filters)


def _list_items(kinds: tuple[type[T], ...], name: str, given_items: T | Iterable[T]) -> tuple[T, ...]:
    """Return one or several things as a tuple.

    Raises:
        TypeError: something else is given.
    """
    if isinstance(given_items, kinds):
        return (given_items,)
    items = (
        tuple(given_items)
        if isinstance(given_items, Iterable) and not isinstance(given_items, str | bytes)
        else None
    )
    if items is None or not all(isinstance(item, kinds) for item in items):
        titles = " or a ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name}={given_items!r}: give a {titles}, or a list of them")
    return items


def _parse_place(below: str | None) -> DN | None:
    if below is not None and not isinstance(below, str):
        raise TypeError(f"below={below!r}: give a distinguished name, as text")
    return None if below is None else DN.parse(below)


def _check_limit(limit: int, lowest: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit={limit!r}: give a whole number")
    if limit < lowest:
        raise ValueError(f"limit={limit}: give {lowest} or more")
    return limit


def _check_text(name: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r}: give a text")
    return value


def _check_attribute_names(attributes: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(attributes, str):
        raise TypeError(f"attributes={attributes!r}: give a list of names, not one text")
    return None if attributes is None else _list_items((str,), "attributes", attributes)
