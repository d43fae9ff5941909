"""References to objects that were not there when they were written (decision R54).

The adapter wants distinguished names. Until the object comes, a stand-in takes its place, a name below
``CN=Missing`` that nothing has; then all that refer to it are written again. The GUIDs of the property never
wait.
"""

from collections.abc import Iterable
from typing import Final

from mqdssm.directory.filters import Equal
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import Request
from mqdssm.directory.session import Session
from mqdssm.model.dn import normalize
from mqdssm.model.guid import Guid
from mqdssm.store.ldap.view import Reader
from mqdssm.tables.property_facts import REFERENCES

ATTRIBUTES: Final = tuple(dict.fromkeys(reference.ldap for reference in REFERENCES))
"""Attributes that hold DNs of other objects."""


def complete(session: Session, reader: Reader, identifiers: Iterable[Guid | None]) -> None:
    """Put the names of objects where stand-ins for them are.

    Raises:
        DirectoryError: the directory cannot be reached.
    """
    stand_ins = {
        normalize(dn): (guid, dn)
        for guid in identifiers
        if guid is not None and (dn := str(reader.places.stand_in(guid)))
    }
    if not stand_ins:
        return
    terms = (Equal(name, dn.encode()) for _, dn in stand_ins.values() for name in ATTRIBUTES)
    waiting = {entry.dn: entry for entry in reader.any_of(terms, attributes=ATTRIBUTES)}
    if not waiting:
        return
    there = {
        held.identifier: held.dn.encode()
        for held in reader.holding(guid for guid, _ in stand_ins.values())
        if held.is_object
    }

    def settled(raw: bytes) -> bytes:
        found = stand_ins.get(normalize(raw.decode()))
        return raw if found is None else there.get(found[0], raw)

    requests = []
    for entry in waiting.values():
        changes = {}
        for name in ATTRIBUTES:
            before = entry.all(name)
            after = tuple(dict.fromkeys(map(settled, before)))
            if set(after) != set(before):
                changes[name] = after
        if changes:
            item = Item(row=0, action=Action.MODIFY, dn=entry.dn, attributes=changes)
            requests.append(Request(item=item))
    for _ in session.loader.send(requests):
        pass  # one that was deleted meanwhile needs none
