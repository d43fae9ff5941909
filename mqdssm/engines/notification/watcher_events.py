"""What a watcher of the directory sees becomes a change of the local state: the entry for its events.

Who watches the directory itself needs no notification, and what it sees need not wait: nobody can forge it.
The object is read once more all the same, since a watcher keeps what it was told to, not all that a queue is.
"""

from mqdssm.engines.notification.actions import Observed
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.watching import ObjectChange


def observed(change: ObjectChange) -> Observed | None:
    """The receiver's event for what a watcher saw ([MS-MQCN] 3.2.5.2 is what becomes of it).

    Returns:
        None for objects that are neither queue nor queue manager, or have no GUID. Those of other machines
        become events all the same: the receiver finds out.
    """
    if change.guid is None or change.element not in {Queue, QueueManager}:
        return None
    return Observed(identifier=change.guid, is_queue=change.element is Queue)
