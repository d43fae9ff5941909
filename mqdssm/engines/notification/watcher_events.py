"""Events of a directory watcher as events of the receiver.

Nobody can forge the events of a watcher, so that they are processed at once, without a notification. The
object is read again all the same, since a watcher keeps only selected attributes, not a whole queue.
"""

from mqdssm.engines.notification.actions import Observed
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.watching import ObjectChange


def observed(change: ObjectChange) -> Observed | None:
    """Return the receiver's event for a change that a watcher saw (handled as in [MS-MQCN] 3.2.5.2).

    Returns:
        None for objects that are neither queue nor queue manager, or have no GUID. Objects of other machines
        become events, too: the receiver sorts them out.
    """
    if change.guid is None or change.element not in {Queue, QueueManager}:
        return None
    return Observed(identifier=change.guid, is_queue=change.element is Queue)
