"""What a watcher of the directory sees: for this machine's subscribers, and for the owners of objects."""

import logging
from collections.abc import Iterable
from typing import Final

from mqdssm.drivers.counts import Counts
from mqdssm.drivers.notification import NotificationDriver
from mqdssm.drivers.notifier import Notifier
from mqdssm.errors import TransportError
from mqdssm.events.facade import Directory
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue
from mqdssm.model.watching import ChangeEvent, ObjectChange

log: Final = logging.getLogger(__name__)


class WatchFeed:
    """Passes changes on, one by one (decision C25).

    Args:
        directory: the one that is watched: it says whose an object is.
        receiver: our own state and its subscribers; None: we have none.
        notifier: notifies the owners of all objects ([MS-MQCN] 3.3.4.1); None: nobody does. Whoever made a
            change may have notified them already: they do what they did once more, and nothing comes of it.

    Attributes:
        counts: changes that were passed on, and owners that could not be notified.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        receiver: NotificationDriver | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._directory, self._receiver, self._notifier = directory, receiver, notifier
        self.counts: Final = Counts()

    def ready(self, _url: str = "") -> None:
        """Begin without a gap: give it to `Directory.watch` as ``on_ready``.

        What happened after our own state was read and before the watch began is told by nobody: it is read
        once more.
        """
        if self._receiver is not None:
            self._receiver.refresh()

    def run(self, changes: Iterable[ObjectChange]) -> None:
        """Pass on changes until there are no more: a watch is ended by its `stop`.

        An owner that cannot be notified is logged and counted; the next change is taken all the same.

        Raises:
            DirectoryError: as the watch.
        """
        for change in changes:
            self.counts.add("changes")
            if self._receiver is not None:
                self._receiver.watched((change,))
            if self._notifier is not None:
                self._notify(self._notifier, change)

    def _notify(self, notifier: Notifier, change: ObjectChange) -> None:
        left = _left(change)
        for told in (change,) if left is None else (left, change):
            notice = self._directory.notice_of(told)
            if notice is None:
                continue
            try:
                notifier(notice)
            except (TransportError, ValueError) as error:
                self.counts.add("not notified")
                log.warning("%s of %s is not notified: %s", notice.operation, told.dn, error)


def _left(change: ObjectChange) -> ObjectChange | None:
    """To the owner that it had before, a queue that has another one now is deleted (decision C27)."""
    moved = change.changes.get("FullPath")
    if change.event is not ChangeEvent.CHANGED or change.element is not Queue or moved is None:
        return None
    if not isinstance(moved.old, str) or DN.parse(moved.old).parent == DN.parse(change.dn).parent:
        return None
    return ObjectChange(event=ChangeEvent.DELETED, type=change.type, dn=moved.old, guid=change.guid)
