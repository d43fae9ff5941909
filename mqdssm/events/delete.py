"""Delete Directory Object ([MS-MQDSSM] 3.1.6.2)."""

from contextlib import suppress
from typing import Final

from mqdssm.directory.filters import Present
from mqdssm.directory.requests import Scope
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events import settings
from mqdssm.events.attributes import NO_ATTRIBUTES
from mqdssm.events.context import Context
from mqdssm.events.settings import Served
from mqdssm.events.targets import locate
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, Site
from mqdssm.tables import TABLES

DELETABLE: Final = (QueueManager, Queue, Site, RoutingLink)
NOT_ALLOWED_ON_NON_LEAF: Final = 66
ROUNDS_MAX: Final = 3
"""How often a recursive deletion looks for queues, which others may add meanwhile."""


def delete(ctx: Context, obj: DirectoryObject, *, recursive: bool = False) -> None:
    """Delete an object from the directory.

    Args:
        ctx: the surroundings.
        obj: says by Identifier, FullPath or its name which object (in this order).
        recursive: take the queues of a queue manager along (an extension, M23). Nothing else: below a site
            are the servers of its domain controllers.

    Raises:
        GenericDirectoryError: a kind that cannot be deleted (M44), an object that does not say which one it
            is, or one that still has objects below it.
        ObjectNotFound: there is no such object.
    """
    if type(obj) not in DELETABLE:
        kinds = ", ".join(kind.element_name for kind in DELETABLE)
        raise GenericDirectoryError(f"{type(obj).__name__} objects cannot be deleted: {kinds} can")
    table = TABLES[type(obj)]
    manager = isinstance(obj, QueueManager)
    # roles and sites as they are in the directory, not as the caller's object says (M42)
    entry = locate(ctx, table, obj, settings.ATTRIBUTES if manager else NO_ATTRIBUTES)
    _delete_entry(ctx, DN.parse(entry.dn), rounds=ROUNDS_MAX if manager and recursive else 0, manager=manager)
    if manager:
        settings.remove_all(ctx, Served.of(entry))


def _delete_entry(ctx: Context, dn: DN, *, rounds: int, manager: bool) -> None:
    """Delete one entry.

    Args:
        ctx: the surroundings.
        dn: where it is.
        rounds: how often to delete the queues below it before giving up: others may add some meanwhile.
        manager: it is a queue manager.

    Raises:
        GenericDirectoryError: something is still below it.
    """
    while True:
        try:
            ctx.session.delete(dn)
        except GenericDirectoryError as error:
            if error.ldap_code != NOT_ALLOWED_ON_NON_LEAF:
                raise
            if not rounds:
                raise _not_empty(ctx, dn, error, manager=manager) from error
            rounds -= 1
            _delete_queues(ctx, dn)
        else:
            return


def _delete_queues(ctx: Context, manager: DN) -> None:
    """Delete the queues of a queue manager, and nothing else that may be there."""
    queues = ctx.session.profile.class_filter(TABLES[Queue].ldap_class)
    for dn in [entry.dn for entry in ctx.session.find(manager, queues, NO_ATTRIBUTES, Scope.ONE_LEVEL)]:
        with suppress(ObjectNotFound):  # somebody else was faster
            ctx.session.delete(dn)


def _not_empty(ctx: Context, dn: DN, error: GenericDirectoryError, *, manager: bool) -> GenericDirectoryError:
    count = sum(1 for _ in ctx.session.find(dn, Present("objectClass"), NO_ATTRIBUTES, Scope.ONE_LEVEL))
    return GenericDirectoryError(
        f"it cannot be deleted while {count} object{'s are' if count != 1 else ' is'} directly below it",
        dn=str(dn),
        ldap_code=error.ldap_code,
        server_text=error.server_text,
        hint="delete these first" + (", or use recursive=True (--recursive) for its queues" * manager),
    )
