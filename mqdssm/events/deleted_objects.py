"""Deleted queues and queue managers of Active Directory, and their restoration.

With the Recycle Bin a deleted object keeps its attributes, its descriptor among them. Otherwise it keeps
its GUID and little else ([MS-ADTS] 3.1.1.5.5.1).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal
from mqdssm.errors import ConfigError, DirectoryError, MappingError, ObjectNotFound
from mqdssm.events.context import Context
from mqdssm.events.encode import convert_for_server, look_up, values_of
from mqdssm.events.object_names import parse_stored_path
from mqdssm.events.settings import ATTRIBUTES, Served, settle
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.queuenames import rdn_of
from mqdssm.tables import TABLES, compute, places
from mqdssm.tables.row import Access
from mqdssm.tables.syntax import TIME

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

ELEMENTS: Final = (Queue, QueueManager)
"""Types that can be restored."""
_ENDED: Final = ("objectGUID", "lastKnownParent", "msDS-LastKnownRDN", "isRecycled", "whenChanged")
_EXTENSION: Final = "mSMQQueueNameExt"
_STORED: Final = Access.CREATE | Access.WRITE
_NO_SUCH_ATTRIBUTE: Final = 16


@dataclass(frozen=True, slots=True)
class RestorableObject:
    r"""A deleted queue or queue manager.

    Attributes:
        element: its type.
        name: path name, or name of the computer; "?" for a part that nobody knows any more.
        identifier: its GUID, which it keeps.
        deleted: seconds since 1970; None if the server does not say.
        keeps_attributes: the Recycle Bin has its attributes.
        dn: its present DN.
        place: DN that it had; None if its parent is deleted and unknown.
        parent: GUID of the deleted parent; None if the parent exists.
    """

    element: type[DirectoryObject]
    name: str
    identifier: UUID
    deleted: int | None
    keeps_attributes: bool
    dn: str
    place: DN | None
    parent: UUID | None = None


def find_deleted(directory: "Directory", element: type[DirectoryObject]) -> list[RestorableObject]:
    """Return the deleted objects of a type, the last deleted first.

    Raises:
        ConfigError: objects of this type cannot be restored.
        GenericDirectoryError: the server keeps no deleted objects, or this user may not see them.
        DirectoryError: the search failed.
    """
    if element not in ELEMENTS:
        raise ConfigError(f"{element.element_name} objects cannot be restored, queues and queue managers can")
    managers = {entry.name.normalized: entry for entry in _find_entries(directory, QueueManager)}
    if element is QueueManager:
        objects = [_build_deleted_manager(entry) for entry in managers.values()]
    else:
        objects = [_build_deleted_queue(entry, managers) for entry in _find_entries(directory, Queue)]
    return sorted(objects, key=lambda item: (-(item.deleted or 0), item.name))


def restore(
    directory: "Directory", deleted: RestorableObject, saved: DirectoryObject | None = None
) -> tuple[str, ...]:
    """Restore a deleted object at its old place, with its GUID.

    Args:
        directory: the directory.
        deleted: the object, of `find_deleted`.
        saved: the object as it was, as from an export: attributes that the server has lost are written.

    Returns:
        The attributes that were written, by the specification's names.

    Raises:
        ObjectNotFound: its computer or queue manager does not exist.
        ObjectAlreadyExists: another object has its name.
        ConfigError: `saved` is another object, or the old place is not known.
        DirectoryError: the server cannot restore it.
    """
    if saved is not None and (type(saved) is not deleted.element or saved.identifier != deleted.identifier):
        raise ConfigError(f"the saved object is not {deleted.name} ({deleted.identifier})")
    if deleted.place is None:
        raise ConfigError(f"{deleted.name}: its queue manager is deleted and unknown")
    if deleted.parent is not None:
        raise ObjectNotFound(
            f"the queue manager of {deleted.name} is deleted, too: restore it first",
            dn=str(deleted.place.parent),
        )
    session = directory.session
    try:
        session.undelete(deleted.dn, deleted.place)
    except DirectoryError as error:
        if error.ldap_code == _NO_SUCH_ATTRIBUTE:
            error.hint = "Samba cannot restore objects while the Recycle Bin is on; Windows can"
        raise
    context = Context(session)
    written = () if saved is None else _write_lost(context, deleted, saved)
    if deleted.element is QueueManager:
        _restore_settings(context, deleted.place)
    return written


def _find_entries(directory: "Directory", element: type[DirectoryObject]) -> Iterator[Entry]:
    """Yield the deleted entries of a type."""
    of_class = Equal("objectClass", TABLES[element].ldap_class.encode())
    search_filter = And((of_class, Equal("isDeleted", b"TRUE")))
    yield from directory.session.find_deleted(search_filter, [*_ENDED, _EXTENSION])


def _build_deleted_manager(entry: Entry) -> RestorableObject:
    parent = _decode_last_parent(entry)
    return _build_deleted(QueueManager, entry, parent.name or "?", places.queue_manager_of(parent))


def _build_deleted_queue(entry: Entry, managers: Mapping[str, Entry]) -> RestorableObject:
    """Return a deleted queue; its queue manager may be deleted, too."""
    manager = _decode_last_parent(entry)
    cn, extension = _decode_last_name(entry), entry.first(_EXTENSION)
    gone = managers.get(manager.normalized)
    last_place = manager if gone is None else places.queue_manager_of(_decode_last_parent(gone))
    is_known = gone is not None or not _is_deleted(manager)
    computer = last_place.parent.name if is_known and len(last_place) > 1 else "?"
    text = None if extension is None else extension.decode(errors="replace")
    name = compute.build_pathname(computer, cn, text)
    place = last_place.child("CN", cn) if is_known else None
    return _build_deleted(Queue, entry, name, place, None if gone is None else _decode_guid(gone))


def _build_deleted(
    element: type[DirectoryObject], entry: Entry, name: str, place: DN | None, parent: UUID | None = None
) -> RestorableObject:
    raw = entry.first("whenChanged")
    try:
        moment = None if raw is None else TIME.load(raw)
    except MappingError:
        moment = None
    keeps = (entry.first("isRecycled") or b"").upper() != b"TRUE"
    return RestorableObject(element, name, _decode_guid(entry), moment, keeps, entry.dn, place, parent)


def _decode_guid(entry: Entry) -> UUID:
    return UUID(bytes_le=entry.first("objectGUID") or bytes(16))


def _decode_last_parent(entry: Entry) -> DN:
    raw = entry.first("lastKnownParent")
    return DN() if raw is None else DN.parse(raw.decode())


def _decode_last_name(entry: Entry) -> str:
    """Return the RDN that an entry had."""
    raw = entry.first("msDS-LastKnownRDN")
    return entry.name.name.partition(places.DELETED_MARK)[0] if raw is None else raw.decode(errors="replace")


def _is_deleted(dn: DN) -> bool:
    return places.DELETED_MARK in dn.name


def _write_lost(context: Context, deleted: RestorableObject, saved: DirectoryObject) -> tuple[str, ...]:
    """Write the saved attributes that a restored object lacks; return their names."""
    table = TABLES[deleted.element]
    assert deleted.place is not None  # noqa: S101  the caller has looked
    entry = context.session.get(deleted.place, ["*", "nTSecurityDescriptor"])
    values = values_of(table, saved, saved.populated, _STORED, look_up(context))
    if isinstance(saved, Queue) and saved.pathname:
        extension = rdn_of(parse_stored_path(saved.pathname).queue).extension
        values[_EXTENSION] = () if extension is None else (extension.encode(),)
    lost = {
        name: raws
        for name, raws in convert_for_server(context, table.ldap_class, values).items()
        if raws and (not entry.all(name) or _is_always_written(name, deleted))
    }
    context.session.modify(deleted.place, lost)
    rows = {row.ldap[0]: row.adm for row in table.rows if row.computed is None}
    return tuple(_translate_names(lost, rows))


def _is_always_written(name: str, deleted: RestorableObject) -> bool:
    """Return True for a descriptor that the server has replaced by a default one."""
    return name == "nTSecurityDescriptor" and not deleted.keeps_attributes


def _translate_names(values: Iterable[str], rows: Mapping[str, str]) -> Iterator[str]:
    yield from (rows.get(name, name) for name in values)


def _restore_settings(context: Context, manager: DN) -> None:
    """Make the settings objects of a restored queue manager again, if it is a server."""
    served = Served.of(context.session.get(manager, ATTRIBUTES))
    if served.is_server:
        settle(context, served)
