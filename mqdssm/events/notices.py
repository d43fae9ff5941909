"""Change notices for the events ([MS-MQDMPR] 3.1.7.1.18, 3.1.7.1.19, 3.1.7.1.24).

A notice is made of the object as the server holds it after the change, of a deleted one as it was. It is
raised after the change was made, and never for a failed change or one with an unknown outcome. Errors of the
notice itself are logged and do not affect the change (decision C22).
"""

import logging
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from mqdssm.directory.entries import parse_name
from mqdssm.errors import DirectoryError, ObjectNotFound
from mqdssm.events import lookup
from mqdssm.events.attributes import NO_ATTRIBUTES, select_names_to_write
from mqdssm.events.context import Context
from mqdssm.events.identification import build_class_filter, locate
from mqdssm.events.settings import guid_of
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.filters import Filter
from mqdssm.model.notice import Notice, NotifiedOperation, Notify
from mqdssm.model.owned_objects import QUEUE_ATTRIBUTES, QUEUE_MANAGER_ATTRIBUTES
from mqdssm.model.watching import LDAP_MARK, ChangeEvent, ObjectChange
from mqdssm.tables import TABLES, compute

log: Final = logging.getLogger(__name__)

_READ: Final[dict[type[DirectoryObject], tuple[str, ...]]] = {
    Queue: (*QUEUE_ATTRIBUTES, "FullPath"),
    QueueManager: ("Identifier", "ComputerName", "ForeignSystem", *QUEUE_MANAGER_ATTRIBUTES, "FullPath"),
}
_UPDATES: Final[dict[type[DirectoryObject], NotifiedOperation]] = {
    Queue: NotifiedOperation.QUEUE_UPDATE,
    QueueManager: NotifiedOperation.QUEUE_MANAGER_UPDATE,
}
_SEEN: Final[dict[tuple[type[DirectoryObject], ChangeEvent], NotifiedOperation]] = {
    (Queue, ChangeEvent.CREATED): NotifiedOperation.QUEUE_CREATION,
    (Queue, ChangeEvent.CHANGED): NotifiedOperation.QUEUE_UPDATE,
    (Queue, ChangeEvent.DELETED): NotifiedOperation.QUEUE_DELETION,
    (QueueManager, ChangeEvent.CHANGED): NotifiedOperation.QUEUE_MANAGER_UPDATE,
}


class Notices:
    """Calls a callback for changes of queues and queue managers.

    Args:
        ctx: of the directory.
        notify: the callback; None: nobody wants to know, and nothing is read for it.
    """

    def __init__(self, ctx: Context, notify: Notify | None) -> None:
        self._ctx = ctx
        self._notify = notify

    def notify_creation(self, obj: DirectoryObject, identifier: UUID) -> None:
        """Send a notice for a created queue ([MS-MQDMPR] 3.1.7.1.18).

        There is none for queue managers.
        """
        if self._notify is not None and type(obj) is Queue:
            by_identifier = Filter("Identifier", "==", identifier)
            for queue in self._read_elements(Queue, by_identifier):
                self._raise(NotifiedOperation.QUEUE_CREATION, queue)

    @contextmanager
    def notify_write(
        self, obj: DirectoryObject, names: Sequence[str] | None, *, changed: frozenset[str] = frozenset()
    ) -> Iterator[None]:
        """Send a notice for a queue or queue manager that the block writes.

        See [MS-MQDMPR] 3.1.7.1.24.

        Args:
            obj: it.
            names: as `Directory.write` has them.
            changed: attributes that the block writes, whatever `obj` has.
        """
        operation = _UPDATES.get(type(obj)) if self._notify is not None else None
        if operation is None:
            yield
            return
        changed |= select_names_to_write(TABLES[type(obj)], obj, names)
        yield
        for element in self._read_elements(type(obj), self._build_place_filter(obj)):
            self._raise(operation, element, changed)

    @contextmanager
    def notify_deletion(self, obj: DirectoryObject, *, recursive: bool) -> Iterator[None]:
        """Send notices for queues that the block deletes ([MS-MQDMPR] 3.1.7.1.19).

        The block deletes a queue, or a queue manager with its queues.
        """
        elements: list[DirectoryObject] = []
        notices: list[Notice] = []
        if self._notify is not None and type(obj) is Queue:
            elements = self._read_elements(Queue, self._build_place_filter(obj))
        elif self._notify is not None and type(obj) is QueueManager and recursive:
            for manager in self._read_elements(QueueManager, self._build_place_filter(obj)):
                elements += self._read_elements(
                    Queue, None, below=parse_name(str(getattr(manager, "full_path", "")))
                )
        for queue in elements:  # its owner may be gone afterwards
            notice = self._make_notice(NotifiedOperation.QUEUE_DELETION, queue, frozenset())
            notices += [] if notice is None else [notice]
        yield
        for notice in notices:
            self._tell(notice)

    def of_change(self, change: ObjectChange) -> Notice | None:
        """Return the notice for a change seen by a watch, for the owner of the object.

        Returns:
            None for changes of which nobody is notified, and for objects that are gone.

        Raises:
            DirectoryError: the directory could not be read (decision C28).
        """
        guid, kind = change.guid, change.element
        if guid is None or (kind, change.event) not in _SEEN:
            return None
        operation = _SEEN[kind, change.event]
        if change.event is ChangeEvent.DELETED:
            queue = Queue.from_directory({"identifier": guid, "full_path": change.dn})
            return self._make_notice_of_owner(operation, queue, frozenset())
        changed_names = (
            change.changes or _READ[kind]
        )  # something was written, nobody knows what (decision C29)
        names = frozenset(name for name in changed_names if not name.startswith(LDAP_MARK))
        filters = (Filter("Identifier", "==", guid),)
        for element in lookup.search(self._ctx, TABLES[kind], filters, _READ[kind]):
            return self._make_notice_of_owner(operation, element, names)
        return None

    def _build_place_filter(self, obj: DirectoryObject) -> Filter | None:
        """Return the filter that finds the object of an element, as the event does."""
        try:
            dn = locate(self._ctx, TABLES[type(obj)], obj, NO_ATTRIBUTES).dn
        except (DirectoryError, ValueError) as error:
            log.warning("nobody is notified of a change of a %s: %s", obj.element_name, error)
            return None
        return Filter("FullPath", "==", dn)

    def _read_elements(
        self, kind: type[DirectoryObject], expression: Filter | None, *, below: DN | None = None
    ) -> list[DirectoryObject]:
        """Read objects from the directory; return none on an error, which is logged."""
        if expression is None and below is None:
            return []
        filters = () if expression is None else (expression,)
        try:
            return list(lookup.search(self._ctx, TABLES[kind], filters, _READ[kind], below=below))
        except (DirectoryError, ValueError) as error:
            log.warning("nobody is notified of a change of %s: %s", expression or below, error)
            return []

    def _raise(
        self, operation: NotifiedOperation, element: DirectoryObject, changed: frozenset[str] = frozenset()
    ) -> None:
        notice = self._make_notice(operation, element, changed)
        if notice is not None:
            self._tell(notice)

    def _make_notice(
        self, operation: NotifiedOperation, element: DirectoryObject, changed: frozenset[str]
    ) -> Notice | None:
        """Return the notice of a change with its owner.

        None on an error, which is logged.
        """
        try:
            return self._make_notice_of_owner(operation, element, changed)
        except DirectoryError as error:
            _log_failed_notice(operation, element, error)
            return None

    def _make_notice_of_owner(
        self, operation: NotifiedOperation, element: DirectoryObject, changed: frozenset[str]
    ) -> Notice | None:
        """Return the notice of a change with its owner; None if there is no owner.

        Raises:
            DirectoryError: the directory could not be read.
        """
        if not isinstance(element, Queue | QueueManager) or element.full_path is None:
            return None
        place = parse_name(element.full_path)
        owner = place.parent if isinstance(element, Queue) else place
        manager = build_class_filter(self._ctx, TABLES[QueueManager])
        try:
            entry = self._ctx.session.get(owner, ["objectGUID"], object_filter=manager)
            identifier, machine = guid_of(entry), compute.read_computer_name(str(owner))
        except (ObjectNotFound, ValueError) as error:
            _log_failed_notice(operation, element, error)
            return None
        return Notice(
            operation=operation,
            element=element,
            owner=identifier,
            machine=machine,
            server=self._find_server_name(),
            changed=changed,
        )

    def _find_server_name(self) -> str:
        """Return the name of the directory server that made the change.

        For ldapi it is the local machine's name.
        """
        host = urlsplit(self._ctx.session.server_url or "").hostname
        if host and not host.startswith("%"):  # ldapi:// holds a path
            return host
        named = self._ctx.session.root_dse.first("dnsHostName")
        return named.decode(errors="replace") if named else platform.node() or "localhost"

    def _tell(self, notice: Notice) -> None:
        if self._notify is None:
            return
        try:
            self._notify(notice)
        except Exception:
            where = notice.element.full_path or notice.element.identifier
            log.exception("%s of %s was done, but not notified", notice.operation, where)


def _log_failed_notice(operation: NotifiedOperation, element: DirectoryObject, error: Exception) -> None:
    where = getattr(element, "full_path", None) or element.identifier
    log.warning("nobody is notified of %s of %s: %s", operation, where, error)
