"""Identification of an element's object.

Identifier, FullPath and name identify it; they must agree.

The first of them that is set finds the object ([MS-MQDSSM] 3.1.6.2.x.2, 3.1.6.7.x.2), the others are compared
with what was found. No event guesses which of two objects is meant (decision M89).
An entry is read by its DN, or by a name with a DN by [MS-MQDSSM] 2.2.1.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, Not
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events import forest
from mqdssm.events.attributes import KEYS, NO_ATTRIBUTES
from mqdssm.events.context import Context
from mqdssm.events.machines import call_with_machine
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN, fold_case
from mqdssm.model.elements import Enterprise, Queue, QueueManager, Site, User
from mqdssm.model.names import PathKind, PathName
from mqdssm.model.queuenames import list_rdn_candidates, lower_each, name_of
from mqdssm.tables import TABLES, compute
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.places import DESCRIPTION, PLACEHOLDER, enterprise_dn, queue_manager_of, site_dn
from mqdssm.wire.sid import Sid


def build_class_filter(ctx: Context, table: ElementTable) -> LdapFilter:
    """Return the filter for objects of the element's class.

    Placeholder entries of the replication store are no objects (decision R68).
    """
    profile = ctx.session.profile
    of_class = profile.build_class_filter(table.ldap_class)
    if profile.no_replication or table.ldap_class not in _WITH_PLACEHOLDERS:
        return of_class
    return And((of_class, Not(Equal(DESCRIPTION, PLACEHOLDER.encode()))))


_WITH_PLACEHOLDERS: Final = frozenset(TABLES[element].ldap_class for element in (QueueManager, Site))


def read_entry(ctx: Context, table: ElementTable, dn: str | DN, attributes: Sequence[str]) -> Entry:
    """Read the entry at a DN, if it is of the element's class.

    Raises:
        ObjectNotFound: nothing is there, or something else.
    """
    return forest.get(ctx, dn, attributes, build_class_filter(ctx, table))


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
    """Read the queue with a path name (decision M7).

    The name is tried in the form that Windows writes, then in the raw form.

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
    for rdn in list_rdn_candidates(path.queue):
        try:
            entry = read_entry(ctx, table, parent.child("CN", rdn.cn), columns)
        except ObjectNotFound:
            continue
        # two long names may share their first 55 units and the hash: the rest decides which queue it is
        whole = rdn.extension is None and entry.first("mSMQQueueNameExt") is None
        if whole or _has_queue_name(entry, path.queue):
            return entry
    raise ObjectNotFound(
        f"there is no queue {path}",
        dn=str(parent.child("CN", list_rdn_candidates(path.queue)[0].cn)),
        hint=ctx.session.profile.hidden_hint,
    )


def _has_queue_name(entry: Entry, queue: str) -> bool:
    extension = entry.first("mSMQQueueNameExt")
    text = None if extension is None else extension.decode(errors="replace")
    return name_of(entry.name.name, text) == lower_each(queue)


def user_of(ctx: Context, table: ElementTable, sid: str, attributes: Sequence[str]) -> Entry:
    """Read the user with a SID ([MS-MQDSSM] 3.1.6.7.6.2 step 5).

    Raises:
        GenericDirectoryError: no user, or several, have that SID.
    """
    search_filter = And((build_class_filter(ctx, table), Equal("objectSid", bytes(Sid.parse(sid)))))
    session = forest.choose_search_session(ctx, table.ldap_class)
    users: Iterator[Entry] = session.find(session.naming.root, search_filter, attributes)
    entries = list(users)
    if len(entries) != 1:
        count = "no user has" if not entries else f"{len(entries)} users have"
        raise GenericDirectoryError(f"{count} the SID {sid}")
    return entries[0]


NAME_EXTENSION: Final = "mSMQQueueNameExt"
SID: Final = "objectSid"

Find = Callable[[Sequence[str]], Entry]
"""Reads attributes of the object that a key identifies."""
Judge = Callable[[Entry], bool]
"""Returns True if an object certainly has a key; raises ValueError for an invalid name."""


@dataclass(frozen=True, slots=True)
class Key:
    """Attribute by which an element identifies its object.

    Attributes:
        name: the specification's name.
        value: of the element.
        find: the object that the key leads to.
        is_of: a first look, without a request, at an object that another key led to.
        needs: LDAP attributes that this look needs.
    """

    name: str
    value: object
    find: Find
    is_of: Judge
    needs: tuple[str, ...] = ()


def locate(ctx: Context, table: ElementTable, obj: DirectoryObject, attributes: Sequence[str]) -> Entry:
    """Read the entry of an element, for a change.

    Raises:
        GenericDirectoryError: the element does not say which object it is, its keys disagree, or the object
            is in another domain (M73).
        ObjectNotFound: there is no such object.
    """
    keys = list(_keys_of(ctx, table, obj))
    if not keys:
        names = ", ".join(sorted(KEYS[table.name]))
        raise GenericDirectoryError(
            f"this {table.name} does not say which object it stands for: set one of {names}"
        )
    first, *other_keys = keys
    needed = dict.fromkeys(name for key in other_keys for name in key.needs)
    entry = first.find(
        [*(name for name in attributes if name not in NO_ATTRIBUTES), *needed] or NO_ATTRIBUTES
    )
    ctx.session.refuse_other_domains("change", entry.dn)
    against = [problem for key in other_keys if (problem := _describe_disagreement(key, entry))]
    if against:
        raise GenericDirectoryError(
            f"this {table.name} does not say which object it stands for: {first.name} {first.value} is "
            f"{entry.dn}, but {', '.join(against)}",
            dn=entry.dn,
            hint="nothing was changed: read the object again, or unset what is not meant",
        )
    return entry


def _describe_disagreement(key: Key, entry: Entry) -> str | None:
    """Describe the object that another key identifies; None if it is the same object."""
    try:
        if key.is_of(entry):
            return None
        # only the server knows whether two spellings are equal
        other_entry = key.find(NO_ATTRIBUTES)
    except (ObjectNotFound, ValueError):
        return f"{key.name} {key.value} is no object"
    except GenericDirectoryError as error:
        return f"of {key.name} {key.value}: {error.message}"
    return None if other_entry.name == entry.name else f"{key.name} {key.value} is {other_entry.dn}"


def _keys_of(ctx: Context, table: ElementTable, obj: DirectoryObject) -> Iterator[Key]:
    """Yield the keys of an element in order of precedence."""
    identifier, full_path = obj.identifier, getattr(obj, "full_path", None)
    if identifier is not None:

        def by_guid(attributes: Sequence[str]) -> Entry:
            return forest.get(ctx, identifier, attributes, build_class_filter(ctx, table))

        yield Key("Identifier", identifier, by_guid, lambda _: False)
    if full_path:
        yield _make_path_key("FullPath", full_path, partial(read_entry, ctx, table, full_path), full_path)
    match obj:
        case Queue():
            yield from _list_queue_keys(ctx, table, obj)
        case QueueManager(computer_name=str(computer)) if computer:
            find = partial(read_queue_manager, ctx, table, computer)
            yield Key(
                "ComputerName", computer, find, lambda entry: _are_same_name(entry.name.parent.name, computer)
            )
        case Site(name=str(name)) if name:
            find = partial(read_entry, ctx, table, site_dn(ctx.forest_root, name))
            yield Key("Name", name, find, lambda entry: _are_same_name(entry.name.name, name))
        case Enterprise() if identifier is None:  # decision M60
            place = enterprise_dn(ctx.forest_root)
            yield _make_path_key("FullPath", place, partial(read_entry, ctx, table, place), str(place))
        case User(security_identifier=str(sid)) if sid:
            find = partial(user_of, ctx, table, sid)
            yield Key(
                "SecurityIdentifier",
                sid,
                find,
                lambda entry: entry.first(SID) == bytes(Sid.parse(sid)),
                (SID,),
            )


def _list_queue_keys(ctx: Context, table: ElementTable, queue: Queue) -> Iterator[Key]:
    if path := queue.directory_path:

        def by_path(attributes: Sequence[str]) -> Entry:
            return read_entry(ctx, table, compute.dn_of_directory_path(path), attributes)

        yield Key(
            "DirectoryPath", path, by_path, lambda entry: compute.dn_of_directory_path(path) == entry.name
        )
    if pathname := queue.pathname:
        find = partial(read_queue, ctx, table, pathname)
        yield Key("Pathname", pathname, find, lambda entry: _is_named(entry, pathname), (NAME_EXTENSION,))


def _make_path_key(name: str, value: object, find: Find, dn: str) -> Key:
    return Key(name, value, find, lambda entry: DN.parse(dn) == entry.name)


def _is_named(entry: Entry, pathname: str) -> bool:
    """Return True if a path name is the one that a read of the queue returns.

    See [MS-MQDSSM] 3.1.6.11.2.1.
    """
    place, extension = compute.read_queue_place(entry.dn), entry.first(NAME_EXTENSION)
    text = None if extension is None else extension.decode(errors="replace")
    return compute.build_pathname(place.computer, place.cn, text) == lower_each(pathname)


def _are_same_name(first: str, second: str) -> bool:
    return fold_case(first) == fold_case(second)
