"""Delete Directory Object ([MS-MQDSSM] 3.1.6.2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Present
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions
from mqdssm.directory.requests import SearchScope
from mqdssm.errors import GenericDirectoryError
from mqdssm.events import settings
from mqdssm.events.attributes import table_of_object
from mqdssm.events.contention import IDENTITY, change_located, explain_half_done
from mqdssm.events.context import Context
from mqdssm.events.settings import Served, remove_settings
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, Site
from mqdssm.tables import TABLES

DELETABLE: Final = (QueueManager, Queue, Site, RoutingLink)
NOT_ALLOWED_ON_NON_LEAF: Final = 66
ROUNDS_MAX: Final = 3
"""Maximum rounds of a recursive deletion, since others may add queues meanwhile."""
REPEAT_DELETION: Final = "repeat the deletion when the cause is removed: it goes on with the rest"
NAMED_MAX: Final = 3
"""Maximum number of objects that an error names."""

Progress = Callable[[int, int], None]
"""Called with the number of deleted queues and the total number of queues."""


def delete(
    ctx: Context, obj: DirectoryObject, *, recursive: bool = False, on_progress: Progress | None = None
) -> None:
    """Delete an object from the directory.

    Args:
        ctx: the surroundings.
        obj: says which object: see `locate`.
        recursive: take the queues of a queue manager along (an extension, M23). Nothing else: below a site
            are the servers of its domain controllers (M61). Nothing is deleted while something else is below.
        on_progress: called while queues are deleted.

    Raises:
        GenericDirectoryError: a kind that cannot be deleted (M44), an object that does not say which one it
            is, or one that still has objects below it.
        ObjectNotFound: there is no such object.
    """
    table = table_of_object(obj, DELETABLE, "deleted")
    if not isinstance(obj, QueueManager):
        change_located(ctx, table, obj, IDENTITY, lambda entry: _delete_leaf(ctx, entry))
        return

    def delete_manager(entry: Entry) -> Served:
        # roles and sites as they are in the directory, not as the caller's object says (M42)
        served = Served.of(entry)
        if recursive:
            _delete_with_queues(ctx, entry, on_progress)
        else:
            _delete_leaf(ctx, entry, manager=True)
        return served

    remove_settings(ctx, change_located(ctx, table, obj, settings.ATTRIBUTES, delete_manager))


def _delete_leaf(ctx: Context, entry: Entry, *, manager: bool = False) -> None:
    """Delete an entry without children.

    Raises:
        GenericDirectoryError: something is below it.
    """
    try:
        ctx.session.delete(entry)
    except GenericDirectoryError as error:
        if error.ldap_code != NOT_ALLOWED_ON_NON_LEAF:
            raise
        below = _look_below(ctx, entry)
        advice = ", or use recursive=True for its queues"
        raise GenericDirectoryError(
            f"it cannot be deleted while {_count_text(below.direct)} directly below it",
            dn=entry.dn,
            ldap_code=error.ldap_code,
            server_text=error.server_text,
            hint="delete these first" + advice * (manager and below.queues_only),
        ) from error


@dataclass(slots=True)
class _Below:
    """Objects below an entry.

    Attributes:
        queues: DNs of the queues directly below it.
        others: DNs of all other objects.
        direct: number of objects directly below it.
    """

    queues: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    direct: int = 0

    @property
    def queues_only(self) -> bool:
        """True if there are queues and nothing else."""
        return bool(self.queues) and not self.others


def _look_below(ctx: Context, entry: Entry) -> _Below:
    """Return the objects below an entry, as far as this user may see them."""
    queue_class, top = TABLES[Queue].ldap_class.lower().encode(), entry.name
    below = _Below()
    for child in ctx.session.find(top, Present("objectClass"), ["objectClass"], SearchScope.SUBTREE):
        dn = child.name
        if dn == top:
            continue
        direct = dn.parent == top
        below.direct += direct
        is_queue = direct and any(name.lower() == queue_class for name in child.all("objectClass"))
        (below.queues if is_queue else below.others).append(child.dn)
    return below


@dataclass(slots=True)
class _Tally:
    """Count of the queues that a recursive deletion has deleted.

    Attributes:
        deleted: the number so far.
        total: the number of existing objects, as far as it is known.
        on_progress: called after each.
    """

    on_progress: Progress | None
    deleted: int = 0
    total: int = 0

    def add(self) -> None:
        """Count one more deleted queue."""
        self.deleted += 1
        if self.on_progress is not None:
            self.on_progress(self.deleted, self.total)

    def __str__(self) -> str:
        return f"{self.deleted} of {self.total} queues were deleted" if self.deleted else ""


def _delete_with_queues(ctx: Context, entry: Entry, on_progress: Progress | None) -> None:
    """Delete a queue manager with its queues.

    Nothing is deleted while the queue manager has other entries below it.

    Raises:
        GenericDirectoryError: something else is below it.
        DirectoryError: it says how many queues are deleted already.
    """
    tally = _Tally(on_progress)
    with explain_half_done(lambda: str(tally), REPEAT_DELETION):
        for remaining in range(ROUNDS_MAX, -1, -1):
            below = _look_below(ctx, entry)
            if below.others:
                raise GenericDirectoryError(
                    f"it cannot be deleted while {_count_text(len(below.others))} below it besides queues: "
                    + "; ".join(below.others[:NAMED_MAX])
                    + "; …" * (len(below.others) > NAMED_MAX),
                    dn=entry.dn,
                    hint="delete these first",
                )
            _delete_queues(ctx, below.queues, tally)
            try:
                ctx.session.delete(entry)
            except GenericDirectoryError as error:
                if error.ldap_code != NOT_ALLOWED_ON_NON_LEAF or not remaining:
                    raise
            else:
                return


def _delete_queues(ctx: Context, queues: Sequence[str], tally: _Tally) -> None:
    """Delete queues, many in flight together.

    Raises:
        DirectoryError: one cannot be deleted: no other is begun then.
    """
    tally.total = tally.deleted + len(queues)
    refused: list[str] = []
    items = (Item(row=row, action=Action.DELETE, dn=dn) for row, dn in enumerate(queues))
    options = LoadOptions(reconnect_s=ctx.session.options.operation_timeout_s)
    for outcome in ctx.session.loader.load(items, options, is_enough=lambda: bool(refused)):
        if outcome.effect in {Effect.DELETED, Effect.MISSING}:  # somebody else may have been faster
            tally.add()
        else:
            refused.append(outcome.dn)
    for dn in refused[:1]:
        ctx.session.delete(dn)  # for the error that says why
        tally.add()


def _count_text(count: int) -> str:
    return f"{count} objects are" if count != 1 else "1 object is"
