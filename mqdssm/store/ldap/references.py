"""References to objects that did not exist when they were written (decision R54).

References in the directory are DNs. Until the object exists, a stand-in replaces its DN: a DN below
``CN=Missing`` that no entry has. Then all entries that refer to it are written again. The property's own
GUIDs are always stored at once.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, Present, any_of
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.result_handling import BUSY_CODES
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.responses import LdapResult
from mqdssm.directory.session import Session
from mqdssm.model.dn import DN, normalize
from mqdssm.model.guid import Guid
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.tables.ldap_results import NO_SUCH_OBJECT, SUCCESS, is_full
from mqdssm.tables.properties import PROPERTY_TABLES
from mqdssm.tables.property_rows import REFERENCES

log = logging.getLogger(__name__)

_DONE: Final = frozenset({SUCCESS, NO_SUCH_OBJECT})
ATTRIBUTES: Final = tuple(dict.fromkeys(reference.ldap for reference in REFERENCES))
"""Attributes that hold DNs of other objects."""
_REFERRING: Final = any_of(
    *(
        Equal("objectClass", PROPERTY_TABLES[kind].classes[0].encode())
        for kind in dict.fromkeys(reference.propid.object_type for reference in REFERENCES)
        if kind is not None
    )
)


def complete(session: Session, reader: StoreSearches, identifiers: Iterable[Guid | None]) -> None:
    """Replace the stand-ins of objects by their DNs.

    Raises:
        DirectoryError: the directory cannot be reached.
    """
    stand_ins = {guid: str(reader.places.stand_in(guid)) for guid in identifiers if guid is not None}
    waiting = _referring(reader, stand_ins.values())
    if waiting:
        dns = {
            stored_entry.identifier: stored_entry.dn
            for stored_entry in reader.holding(stand_ins)
            if stored_entry.is_object
        }
        names = {normalize(dn): dns[guid] for guid, dn in stand_ins.items() if guid in dns}
        _rewrite(session, waiting, names)


def mend(session: Session, reader: StoreSearches) -> None:
    """Replace the stand-ins of objects that exist, after a crash.

    Raises:
        DirectoryError: the directory cannot be reached.
    """
    named = any_of(*(Present(name) for name in ATTRIBUTES))
    missing = reader.places.missing.normalized
    entries = reader.find(And((_REFERRING, named)), ATTRIBUTES)
    raws = (raw for entry in entries for name in ATTRIBUTES for raw in entry.all(name))
    complete(session, reader, {_waited_for(raw, missing): None for raw in raws})


def _waited_for(raw: bytes, missing: str) -> Guid | None:
    """Return the GUID of the object that a stand-in replaces.

    None if the DN is not a stand-in.
    """
    try:
        dn = DN.parse(raw.decode())
        return Guid.parse(dn.name) if dn.parent.normalized == missing else None
    except ValueError:  # another program's
        return None


def follow(session: Session, reader: StoreSearches, old: str, new: str) -> None:
    """Replace the old DN of an object by its new one in all references.

    Raises:
        DirectoryError: the directory cannot be reached.
    """
    _rewrite(session, _referring(reader, [old]), {normalize(old): new})


def _referring(reader: StoreSearches, dns: Iterable[str]) -> list[Entry]:
    """Return the entries that refer to any of some DNs."""
    terms = (Equal(name, dn.encode()) for dn in dns for name in ATTRIBUTES)
    return list({entry.dn: entry for entry in reader.any_of(terms, attributes=ATTRIBUTES)}.values())


def _rewrite(session: Session, entries: Iterable[Entry], names: Mapping[str, str]) -> None:
    """Replace references: normalised old DNs -> new DNs."""

    def renamed(raw: bytes) -> bytes:
        dn = names.get(normalize(raw.decode()))
        return raw if dn is None else dn.encode()

    requests = []
    for entry in entries:
        changes = {}
        for name in ATTRIBUTES:
            before = entry.all(name)
            after = tuple(dict.fromkeys(map(renamed, before)))
            if set(after) != set(before):
                changes[name] = after
        if changes:
            item = Item(row=0, action=Action.MODIFY, dn=entry.dn, attributes=changes)
            requests.append(ChangeInFlight(item=item))
    for request, result in session.loader.send(requests):
        see_to(session, request, result)


def see_to(session: Session, request: ChangeInFlight, result: LdapResult) -> None:
    """Handle the result of follow-up work that may be omitted for a single entry.

    An entry that was deleted meanwhile is ignored. A refusal is logged, as it would be the same the next
    time.

    Raises:
        DirectoryError: the server cannot do it now, and the operation is repeated.
    """
    if result.code in _DONE:
        return
    error = session.loader.error_of(result, request.item.action, request.item.dn)
    if result.code in BUSY_CODES or is_full(result.code, result.text):
        raise error
    log.warning("%s stays as it is: %s", request.item.dn, error)
