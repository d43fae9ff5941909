"""References between objects, resolved in batches and remembered for one operation (decision M29)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, any_of
from mqdssm.directory.session import Session
from mqdssm.model.dn import normalize

T = TypeVar("T")

BATCH_TERMS: Final = 100
"""Terms of one OR: slapd tests each candidate against all of them, 500 cost ten times as much."""
REMEMBERED_MAX: Final = 50_000
"""Objects remembered in one operation: then the memory starts anew, so that long lists stay flat."""


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` items, in order."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


class References:
    """What DNs and GUIDs refer to, for the length of one operation; not shared between threads.

    Args:
        session: where to look.
        computer_attributes: what to read of computers.
    """

    def __init__(self, session: Session, computer_attributes: Sequence[str] = ()) -> None:
        self._session = session
        self._computer_attributes = tuple(computer_attributes)
        self._identifiers: dict[str, UUID | None] = {}
        self._computers: dict[str, Entry | None] = {}
        self._as_written: dict[str, Entry | None] = {}  # the same, by DNs as the server writes them

    def learn(self, dn: str, identifier: UUID | None) -> None:
        """Remember what a server told along with something else."""
        self._identifiers[normalize(dn)] = identifier

    def identifier_of(self, dn: str) -> UUID | None:
        """ObjectGUID of the object at a DN; None where nothing is, or nothing that may be seen."""
        key = normalize(dn)
        if key not in self._identifiers:
            self.fetch_identifiers([dn])
        return self._identifiers.get(key)

    def computer(self, dn: str) -> Entry | None:
        """The computer at a DN; None where none is."""
        try:
            return self._as_written[dn]
        except KeyError:
            key = normalize(dn)
        if key not in self._computers:
            self.fetch_computers([dn])
        found = self._as_written[dn] = self._computers.get(key)
        return found

    def fetch_identifiers(self, dns: Iterable[str]) -> None:
        """Look up the objectGUID of many objects at once."""
        _bound(self._identifiers)
        for key, entry in self._fetch(dns, self._identifiers, ["objectGUID"], None):
            raw = None if entry is None else entry.first("objectGUID")
            self._identifiers[key] = UUID(bytes_le=raw) if raw is not None and len(raw) == 16 else None

    def fetch_computers(self, dns: Iterable[str]) -> None:
        """Look up many computers at once."""
        _bound(self._computers)
        _bound(self._as_written)
        of_class = self._session.profile.class_filter("computer")
        attributes = self._computer_attributes or ("objectClass",)
        for key, entry in self._fetch(dns, self._computers, attributes, of_class):
            self._computers[key] = entry

    def dns_of(self, identifiers: Sequence[UUID], ldap_class: str) -> dict[UUID, str]:
        """The DNs of objects of a class by their objectGUID; those that are not there are left out."""
        found: dict[UUID, str] = {}
        of_class = self._session.profile.class_filter(ldap_class)
        for batch in batched(dict.fromkeys(identifiers), BATCH_TERMS):
            wanted = And((of_class, any_of(*(Equal("objectGUID", guid.bytes_le) for guid in batch))))
            for base in self._session.naming.guid_bases:
                for entry in self._session.find(base, wanted, ["objectGUID"]):
                    raw = entry.first("objectGUID")
                    if raw is not None and len(raw) == 16:
                        found[UUID(bytes_le=raw)] = entry.dn
        return found

    def _fetch(
        self,
        dns: Iterable[str],
        known: dict[str, UUID | None] | dict[str, Entry | None],
        attributes: Sequence[str],
        of_class: LdapFilter | None,
    ) -> Iterator[tuple[str, Entry | None]]:
        """Yield each DN that is not known yet, normalised, with its entry."""
        unknown = {key: dn for dn in dns if (key := normalize(dn)) not in known}
        profile = self._session.profile
        for batch in batched(unknown.items(), BATCH_TERMS):
            missing = dict(batch)
            any_dn = any_of(*(profile.dn_filter(dn) for dn in missing.values()))
            wanted = any_dn if of_class is None else And((of_class, any_dn))
            for base in self._session.naming.guid_bases:
                for entry in self._session.find(base, wanted, attributes):
                    key = normalize(entry.dn)
                    if missing.pop(key, None) is not None:
                        yield key, entry
            for key in missing:
                yield key, None


def _bound(memory: dict[str, UUID | None] | dict[str, Entry | None]) -> None:
    if len(memory) > REMEMBERED_MAX:
        memory.clear()
