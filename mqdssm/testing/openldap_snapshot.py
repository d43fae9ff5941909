"""Snapshot of the entries of a private directory, which can be restored."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from mqdssm.model.dn import DN
from mqdssm.testing.accounts import Connection, bind, connect_as_owner

if TYPE_CHECKING:
    from mqdssm.testing.openldap import OpenLdapServer

PAGE_ENTRIES: Final = 1000

Entries = Mapping[str, Mapping[str, list[bytes]]]
"""DN -> names and values of the attributes that users may write."""


@contextlib.contextmanager
def undo_changes(server: "OpenLdapServer") -> Iterator[None]:
    """Undo all changes of the block at its end: adds, changes and deletions.

    Args:
        server: a server that runs, now and at the end.
    """
    with bind(connect_as_owner(server.ldapi_url)) as connection:
        before = _read_entries(connection, server.base_dn)
    yield
    with bind(connect_as_owner(server.ldapi_url)) as connection:
        _restore(connection, before, _read_entries(connection, server.base_dn))


def _read_entries(connection: Connection, base_dn: str) -> Entries:
    entries = connection.extend.standard.paged_search(
        base_dn, "(objectClass=*)", attributes=["*"], paged_size=PAGE_ENTRIES, generator=True
    )
    return {entry["dn"]: dict(entry["raw_attributes"]) for entry in entries}


def _restore(connection: Connection, before: Entries, after: Entries) -> None:
    for dn in sorted(after.keys() - before.keys(), key=_measure_depth, reverse=True):
        connection.delete(dn)
    for dn in sorted(before.keys() - after.keys(), key=_measure_depth):
        connection.add(dn, attributes=before[dn])
    for dn in before.keys() & after.keys():
        if changes := _list_replacements(before[dn], after[dn]):
            connection.modify(dn, changes)


def _measure_depth(dn: str) -> int:
    return len(DN.parse(dn).rdns)


def _list_replacements(before: Mapping[str, list[bytes]], after: Mapping[str, list[bytes]]) -> dict[str, Any]:
    return {
        name: [("MODIFY_REPLACE", before.get(name, []))]
        for name in before.keys() | after.keys()
        if sorted(before.get(name, [])) != sorted(after.get(name, []))
    }
