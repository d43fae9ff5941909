"""Delete Directory Object ([MS-MQDSSM] 3.1.6.2)."""

from collections.abc import Sequence
from typing import Final

from mqdssm.directory.filters import Present
from mqdssm.directory.requests import Scope
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events import settings
from mqdssm.events.context import Context
from mqdssm.events.settings import Served
from mqdssm.events.targets import locate
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, Site
from mqdssm.tables import TABLES

DELETABLE: Final = (QueueManager, Queue, Site, RoutingLink)
NOT_ALLOWED_ON_NON_LEAF: Final = 66
NO_ATTRIBUTES: Final = ("1.1",)


def delete(ctx: Context, obj: DirectoryObject, *, recursive: bool = False) -> None:
    """Delete an object from the directory.

    Args:
        ctx: the surroundings.
        obj: says by Identifier, FullPath or its name which object (in this order).
        recursive: take what is below it along, as the queues of a queue manager (an extension, M23).

    Raises:
        GenericDirectoryError: a kind that cannot be deleted (M44), an object that does not say which one it
            is, or one that still has objects below it.
        ObjectNotFound: there is no such object.
    """
    if not isinstance(obj, DELETABLE):
        kinds = ", ".join(kind.element_name for kind in DELETABLE)
        raise GenericDirectoryError(f"{obj.element_name} objects cannot be deleted: {kinds} can")
    table = TABLES[type(obj)]
    manager = isinstance(obj, QueueManager)
    # roles and sites as they are in the directory, not as the caller's object says (M42)
    attributes: Sequence[str] = settings.ATTRIBUTES if manager else NO_ATTRIBUTES
    entry = locate(ctx, table, obj, attributes)
    dn = DN.parse(entry.dn)
    served = Served.of(entry) if manager else None
    if recursive:
        _delete_below(ctx, dn)
    try:
        ctx.session.delete(dn)
    except GenericDirectoryError as error:
        if error.ldap_code != NOT_ALLOWED_ON_NON_LEAF:
            raise
        raise _not_empty(ctx, dn, error) from error
    if served is not None:
        settings.remove_all(ctx, served)


def _delete_below(ctx: Context, dn: DN) -> None:
    """Delete everything below an object, the deepest first."""
    below = [DN.parse(entry.dn) for entry in ctx.session.find(dn, Present("objectClass"), NO_ATTRIBUTES)]
    for child in sorted(below, key=len, reverse=True):
        if child == dn:
            continue
        try:
            ctx.session.delete(child)
        except ObjectNotFound:
            continue  # somebody else was faster


def _not_empty(ctx: Context, dn: DN, error: GenericDirectoryError) -> GenericDirectoryError:
    count = sum(1 for _ in ctx.session.find(dn, Present("objectClass"), NO_ATTRIBUTES, Scope.ONE_LEVEL))
    return GenericDirectoryError(
        f"it cannot be deleted while {count} object{'s are' if count != 1 else ' is'} directly below it",
        dn=str(dn),
        ldap_code=error.ldap_code,
        server_text=error.server_text,
        hint="delete these first, or use recursive=True (--recursive)",
    )
