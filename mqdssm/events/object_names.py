"""Checks of the names of new objects and of objects from other directories."""

from mqdssm.errors import GenericDirectoryError
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.names import PathKind, PathName
from mqdssm.model.queuenames import check_stored_name


def parse_stored_path(pathname: str) -> PathName:
    """Return the path name of a queue from another directory (decision M7).

    Any name that a directory can return is accepted.

    Raises:
        ValueError: no path name, or one that no directory can hold.
        GenericDirectoryError: of a private or system queue ([MS-MQDSSM] 3.1.6.20.2).
    """
    path = PathName.parse_stored(pathname)
    if path.kind is not PathKind.PUBLIC:
        raise GenericDirectoryError(
            f"{pathname!r} is no public queue: only these are stored in a directory (3.1.6.20.2)"
        )
    check_stored_name(path.queue)
    return path


def parse_new_path(pathname: str) -> PathName:
    """Return the path name of a new queue, by the grammar of MSMQ 4.0 and later.

    Raises:
        ValueError: a name that no queue may have.
        GenericDirectoryError: of a private or system queue ([MS-MQDSSM] 3.1.6.20.2).
    """
    path = PathName.parse(pathname)
    if path.subqueue is not None:
        raise ValueError(f"Pathname {pathname!r}: subqueues are not stored, and a name has no ';'")
    return parse_stored_path(pathname)


def check_computer(name: str) -> None:
    """Raise ValueError for a computer name that cannot be in a path name.

    See [MS-MQMQ] 2.1.1.

    Raises:
        ValueError: a backslash, a blank, a control or non-ASCII character in its name.
    """
    if "\\" in name:
        raise ValueError(f"computer name {name!r} contains a backslash: its queues could not be named")
    PathName.parse(f"{name}\\q")


def check_new_name(obj: DirectoryObject) -> None:
    """Raise an error for a new object's name that `create` refuses.

    See [MS-MQMQ] 2.1.1.

    Raises:
        ValueError: a name that no such object may have.
        GenericDirectoryError: a queue that no directory holds.
    """
    match obj:
        case Queue():
            parse_new_path(obj.pathname or "")
        case QueueManager():
            check_computer(obj.computer_name or "")
