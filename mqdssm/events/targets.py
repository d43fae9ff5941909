"""Reads of entries by DN, or by a name with a DN by [MS-MQDSSM] 2.2.1."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, Not
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events import forest
from mqdssm.events.context import Context
from mqdssm.events.machines import call_with_machine
from mqdssm.model.dn import DN
from mqdssm.model.elements import QueueManager, Site
from mqdssm.model.names import PathKind, PathName
from mqdssm.model.queuenames import lower_each, name_of, rdn_candidates
from mqdssm.tables import TABLES
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.places import DESCRIPTION, PLACEHOLDER, queue_manager_of
from mqdssm.wire.sid import Sid


def class_filter(ctx: Context, table: ElementTable) -> LdapFilter:
    """Return the filter for objects of the element's class.

    Placeholder entries of the replication store are no objects (decision R68).
    """
    profile = ctx.session.profile
    of_class = profile.class_filter(table.ldap_class)
    if profile.no_replication or table.ldap_class not in _WITH_PLACEHOLDERS:
        return of_class
    return And((of_class, Not(Equal(DESCRIPTION, PLACEHOLDER.encode()))))


_WITH_PLACEHOLDERS: Final = frozenset(TABLES[element].ldap_class for element in (QueueManager, Site))


def read_entry(ctx: Context, table: ElementTable, dn: str | DN, attributes: Sequence[str]) -> Entry:
    """Read the entry at a DN, if it is of the element's class.

    Raises:
        ObjectNotFound: nothing is there, or something else.
    """
    return forest.get(ctx, dn, attributes, class_filter(ctx, table))


def read_queue_manager(ctx: Context, table: ElementTable, computer: str, attributes: Sequence[str]) -> Entry:
    """Read the queue manager of a computer, at any place (decision M16).

    Raises:
        ObjectNotFound: no such computer, or no MSMQ on it.
    """
    return call_with_machine(
        ctx,
        computer,
        lambda machine: read_entry(ctx, table, queue_manager_of(machine.dn), attributes),
    )


def read_queue(ctx: Context, table: ElementTable, pathname: str, attributes: Sequence[str]) -> Entry:
    """Read the queue with a path name: in the form that Windows writes, else in the raw form (decision M7).

    Raises:
        ObjectNotFound: no such queue.
        ValueError: no path name.
    """
    path = parse_public_path(pathname)
    return call_with_machine(
        ctx, path.computer, lambda machine: _read_queue_below(ctx, table, machine.dn, path, attributes)
    )


def parse_public_path(pathname: str) -> PathName:
    """Parse the path name of a public queue, as a directory may hold it.

    Raises:
        ValueError: no path name, or that of a queue that no directory holds (3.1.6.20.2).
    """
    path = PathName.parse_stored(pathname)
    if path.kind is not PathKind.PUBLIC or path.subqueue is not None:
        raise ValueError(f"{pathname!r} names no public queue: only these are in the directory")
    return path


def _read_queue_below(
    ctx: Context, table: ElementTable, machine: DN, path: PathName, attributes: Sequence[str]
) -> Entry:
    parent = queue_manager_of(machine)
    columns = [*attributes, "mSMQQueueNameExt"]
    for rdn in rdn_candidates(path.queue):
        try:
            entry = read_entry(ctx, table, parent.child("CN", rdn.cn), columns)
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
    return name_of(entry.name.name, text) == lower_each(queue)


def user_of(ctx: Context, table: ElementTable, sid: str, attributes: Sequence[str]) -> Entry:
    """Read the user with a SID ([MS-MQDSSM] 3.1.6.7.6.2 step 5).

    Raises:
        GenericDirectoryError: no user, or several, have that SID.
    """
    search_filter = And((class_filter(ctx, table), Equal("objectSid", bytes(Sid.parse(sid)))))
    session = forest.session_for_search(ctx, table.ldap_class)
    users: Iterator[Entry] = session.find(session.naming.root, search_filter, attributes)
    entries = list(users)
    if len(entries) != 1:
        count = "no user has" if not entries else f"{len(entries)} users have"
        raise GenericDirectoryError(f"{count} the SID {sid}")
    return entries[0]
