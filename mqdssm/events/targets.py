"""Which entry an element stands for: by GUID, DN, or the name that [MS-MQDSSM] 2.2.1 makes a DN of."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, Not
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events import forest
from mqdssm.events.attributes import KEYS
from mqdssm.events.context import Context
from mqdssm.events.machines import with_machine
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Enterprise, Queue, QueueManager, Site, User
from mqdssm.model.names import PathKind, PathName
from mqdssm.model.queuenames import lower_each, name_of, rdn_candidates
from mqdssm.tables import TABLES, compute
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.places import DESCRIPTION, PLACEHOLDER, enterprise_dn, queue_manager_of, site_dn
from mqdssm.wire.sid import Sid


def class_filter(ctx: Context, table: ElementTable) -> LdapFilter:
    """What only objects of the element's class match: no other object is ever read or changed.

    Entries that the replication store has for the sake of others below them are no objects (decision R68).
    """
    profile = ctx.session.profile
    of_class = profile.class_filter(table.ldap_class)
    if profile.no_replication or table.ldap_class not in _WITH_PLACEHOLDERS:
        return of_class
    return And((of_class, Not(Equal(DESCRIPTION, PLACEHOLDER.encode()))))


_WITH_PLACEHOLDERS: Final = frozenset(TABLES[element].ldap_class for element in (QueueManager, Site))


def entry_at(ctx: Context, table: ElementTable, dn: str | DN, attributes: Sequence[str]) -> Entry:
    """The entry at a DN, if it is one of the element's class.

    Raises:
        ObjectNotFound: nothing is there, or something else.
    """
    return forest.get(ctx, dn, attributes, class_filter(ctx, table))


def locate(ctx: Context, table: ElementTable, obj: DirectoryObject, attributes: Sequence[str]) -> Entry:
    """The entry that an element stands for ([MS-MQDSSM] 3.1.6.2.x.2, 3.1.6.7.x.2), to be changed.

    Raises:
        GenericDirectoryError: the element does not say which object it is, or it is in another domain (M73).
        ObjectNotFound: there is no such object.
    """
    entry = _located(ctx, table, obj, attributes)
    ctx.session.refuse_elsewhere("change", entry.dn)
    return entry


def _located(ctx: Context, table: ElementTable, obj: DirectoryObject, attributes: Sequence[str]) -> Entry:
    """The same, wherever it is: its GUID counts first."""
    if obj.is_populated("Identifier") and obj.identifier is not None:
        return forest.get(ctx, obj.identifier, attributes, class_filter(ctx, table))
    full_path = getattr(obj, "full_path", None)
    if full_path:
        return entry_at(ctx, table, full_path, attributes)
    match obj:
        case Queue(directory_path=str(path)) if path:
            return entry_at(ctx, table, compute.dn_of_directory_path(path), attributes)
        case Queue(pathname=str(pathname)) if pathname:
            return queue_at(ctx, table, pathname, attributes)
        case QueueManager(computer_name=str(computer)) if computer:
            return queue_manager_at(ctx, table, computer, attributes)
        case Site(name=str(name)) if name:
            return entry_at(ctx, table, site_dn(ctx.forest_root, name), attributes)
        case Enterprise():
            return entry_at(ctx, table, enterprise_dn(ctx.forest_root), attributes)  # decision M60
        case User(security_identifier=str(sid)) if sid:
            return user_of(ctx, table, sid, attributes)
    keys = ", ".join(sorted(KEYS[table.name]))
    raise GenericDirectoryError(
        f"this {table.name} does not say which object it stands for: set one of {keys}"
    )


def queue_manager_at(ctx: Context, table: ElementTable, computer: str, attributes: Sequence[str]) -> Entry:
    """The queue manager of a computer, wherever the computer is (decision M16).

    Raises:
        ObjectNotFound: no such computer, or no MSMQ on it.
    """
    return with_machine(
        ctx,
        computer,
        lambda machine: entry_at(ctx, table, queue_manager_of(machine.dn), attributes),
    )


def queue_at(ctx: Context, table: ElementTable, pathname: str, attributes: Sequence[str]) -> Entry:
    """The queue of a path name: the form that Windows writes first, then the raw one (decision M7).

    Raises:
        ObjectNotFound: no such queue.
        ValueError: no path name.
    """
    path = public_path(pathname)
    return with_machine(
        ctx, path.computer, lambda machine: _queue_below(ctx, table, machine.dn, path, attributes)
    )


def public_path(pathname: str) -> PathName:
    """A path name of a public queue, as a directory may hold it.

    Raises:
        ValueError: no path name, or that of a queue that no directory holds (3.1.6.20.2).
    """
    path = PathName.parse_stored(pathname)
    if path.kind is not PathKind.PUBLIC or path.subqueue is not None:
        raise ValueError(f"{pathname!r} names no public queue: only these are in the directory")
    return path


def _queue_below(
    ctx: Context, table: ElementTable, machine: DN, path: PathName, attributes: Sequence[str]
) -> Entry:
    parent = queue_manager_of(machine)
    wanted = [*attributes, "mSMQQueueNameExt"]
    for rdn in rdn_candidates(path.queue):
        try:
            entry = entry_at(ctx, table, parent.child("CN", rdn.cn), wanted)
        except ObjectNotFound:
            continue
        # two long names may share their first 55 units and the hash: the rest decides which queue it is
        whole = rdn.extension is None and entry.first("mSMQQueueNameExt") is None
        if whole or _is_named(entry, path.queue):
            return entry
    raise ObjectNotFound(
        f"there is no queue {path}",
        dn=str(parent.child("CN", rdn_candidates(path.queue)[0].cn)),
        hint=ctx.session.profile.hidden_hint,
    )


def _is_named(entry: Entry, queue: str) -> bool:
    extension = entry.first("mSMQQueueNameExt")
    text = None if extension is None else extension.decode(errors="replace")
    return name_of(DN.parse(entry.dn).name, text) == lower_each(queue)


def user_of(ctx: Context, table: ElementTable, sid: str, attributes: Sequence[str]) -> Entry:
    """The user of a SID ([MS-MQDSSM] 3.1.6.7.6.2 step 5).

    Raises:
        GenericDirectoryError: no user, or several, have that SID.
    """
    wanted = And((class_filter(ctx, table), Equal("objectSid", bytes(Sid.parse(sid)))))
    session = forest.searched(ctx, table.ldap_class)
    found: Iterator[Entry] = session.find(session.naming.root, wanted, attributes)
    entries = list(found)
    if len(entries) != 1:
        count = "no user has" if not entries else f"{len(entries)} users have"
        raise GenericDirectoryError(f"{count} the SID {sid}")
    return entries[0]
