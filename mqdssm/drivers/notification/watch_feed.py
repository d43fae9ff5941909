"""Feed of directory changes to subscribers and owners of objects.

The subscribers are those of this machine.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from mqdssm.drivers.notification.notifier import Notifier
from mqdssm.drivers.threads import EventCounts
from mqdssm.errors import DirectoryError, TransportError
from mqdssm.events.facade import Directory
from mqdssm.events.watching.watch import Pauses, Watch, is_for_people
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue
from mqdssm.model.watching import ChangeEvent, ObjectChange

log: Final = logging.getLogger(__name__)


class LocalReceiver(Protocol):
    """Receiver of changes of the own objects.

    `mqdssm.drivers.notification.receiver.NotificationDriver` is one.
    """

    def refresh(self) -> None:
        """Read all own objects soon."""

    def on_changes(self, changes: Iterable[ObjectChange]) -> None:
        """Read the own objects among the changed ones."""


class WatchFeed:
    """Passes a watch's changes, one by one, to a receiver and a notifier (C25).

    A change is acknowledged after it was passed to the receiver and the notifier. The watch must report all
    writes (``all_writes=True``, decision C29): receivers read the objects themselves, and may read a value
    that is changed back before the watch reads it.

    Args:
        directory: the one that is watched: it says whose an object is.
        receiver: our own state and its subscribers; None: we have none.
        notifier: notifies the owners of all objects ([MS-MQCN] 3.3.4.1); None: nobody does. The program that
            made a change may have notified them already: a second notification changes nothing.
        pauses: between two attempts to read a directory that is away.

    Attributes:
        counts: changes that were passed on, owners that could not be notified, and attempts to read the
            directory that were in vain.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        receiver: LocalReceiver | None = None,
        notifier: Notifier | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self._directory, self._receiver, self._notifier = directory, receiver, notifier
        self._pauses = pauses or Pauses()
        self.counts: Final = EventCounts()

    def on_ready(self, _url: str = "") -> None:
        """Read the own objects once more when the watch begins.

        `Directory.watch` takes this as ``on_ready``.

        The watch does not report changes between the first reading of the own objects and its own start.
        """
        if self._receiver is not None:
            self._receiver.refresh()

    def run(self, changes: Iterable[ObjectChange]) -> None:
        """Pass on changes until the iterable ends; a watch ends by its `stop`.

        An owner that cannot be notified is logged and counted; the next change is taken nevertheless. A
        directory that is away is waited for, since nobody else would notify the owner; a change whose owner
        was not notified when the watch was stopped does not count as handled (decision C28).

        Raises:
            DirectoryError: as the watch.
        """
        for change in changes:
            self.counts.add("changes")
            if self._receiver is not None:
                self._receiver.on_changes((change,))
            if self._notifier is not None:
                rest = changes.rest if isinstance(changes, Watch) else _sleep
                if not self._notify(self._notifier, change, rest):
                    return
            if isinstance(changes, Watch):
                changes.commit()

    def _notify(self, notifier: Notifier, change: ObjectChange, rest: Callable[[float], bool]) -> bool:
        """Notify the owners of a change.

        Returns False if the watch was stopped before all were notified.
        """
        removal = _make_deletion_for_old_owner(change)
        for item in (change,) if removal is None else (removal, change):
            failures = 0
            while not self._try_to_notify(notifier, item):
                failures += 1
                self.counts.add("directory away")
                if not rest(self._pauses.after(failures)):
                    return False
        return True

    def _try_to_notify(self, notifier: Notifier, change: ObjectChange) -> bool:
        """Notify the owner of a change.

        Returns False if the directory is not reachable and a retry is needed.
        """
        try:
            notice = self._directory.notice_of(change)
            if notice is not None:
                notifier(notice)
        except (DirectoryError, TransportError, ValueError) as error:
            away = isinstance(error, DirectoryError) and not is_for_people(error)
            if not away:
                self.counts.add("not notified")
            log.warning("the owner of %s is not notified%s: %s", change.dn, " yet" if away else "", error)
            return not away
        return True


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _make_deletion_for_old_owner(change: ObjectChange) -> ObjectChange | None:
    """Return the deletion to send to the old owner of a moved queue (C27).

    None otherwise.
    """
    moved = change.changes.get("FullPath")
    if change.event is not ChangeEvent.CHANGED or change.element is not Queue or moved is None:
        return None
    if not isinstance(moved.old, str) or _is_beside(moved.old, change.dn):
        return None
    return ObjectChange(event=ChangeEvent.DELETED, type=change.type, dn=moved.old, guid=change.guid)


def _is_beside(dn: str, other: str) -> bool:
    """Return True if two DNs have the same parent; False if one cannot be parsed."""
    try:
        return DN.parse(dn).parent == DN.parse(other).parent
    except ValueError:
        return False
