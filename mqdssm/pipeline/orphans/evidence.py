"""Evidence that an object does not exist anywhere.

A search proves that only if it covers all domains of the forest, and if nothing is hidden from the user.
A search that is cut off is an error of the session, never a short answer.
"""

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, LdapFilter, any_of
from mqdssm.directory.session import Forest
from mqdssm.errors import DirectoryError, ObjectNotFound
from mqdssm.events.references import BATCH_TERMS, split_into_batches
from mqdssm.model.dn import DN
from mqdssm.tables import places
from mqdssm.tables.schema import MANAGER_CLASS

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

GUID: Final = "objectGUID"
_IS_DOMAIN: Final = 0x2
"""FLAG_CR_NTDS_DOMAIN in systemFlags of a crossRef ([MS-ADTS] 2.2.10)."""


def guids_of(entry: Entry, *names: str | None) -> frozenset[UUID]:
    """Return the GUIDs in some attributes of an entry; damaged values are left out."""
    raws = [raw for name in names if name is not None for raw in entry.all(name)]
    return frozenset(UUID(bytes_le=raw) for raw in raws if len(raw) == 16)


class Evidence:
    """Look-ups of queue managers in the whole forest, and what they prove.

    Args:
        session: to a server of the directory.
        reads_everything: the user states that no object is hidden.
    """

    def __init__(self, session: "Session", *, reads_everything: bool) -> None:
        self._session = session
        self._reads_everything = reads_everything
        self._forest = Forest(session)
        self._objects: dict[str, bool] = {}

    def close(self) -> None:
        """Close the connection to the global catalog, if there is one."""
        self._forest.close()

    @cached_property
    def other_domains(self) -> tuple[DN, ...]:
        """Domains of the forest that the server does not hold.

        Raises:
            DirectoryError: the list of domains cannot be read.
        """
        session = self._session
        if not session.profile.has_catalog:
            return ()
        partitions = session.naming.configuration.child("CN", "Partitions")
        of_class = Equal("objectClass", b"crossRef")
        domains = set()
        for entry in session.find(partitions, of_class, ["nCName", "systemFlags"]):
            flags, name = entry.first("systemFlags"), entry.first("nCName")
            if name is not None and (flags is None or int(flags) & _IS_DOMAIN):
                domains.add(DN.parse(name.decode()))
        return tuple(sorted(domains - {session.naming.default}, key=str))

    @cached_property
    def doubt(self) -> str:
        """Reason why an object that was not found may exist; empty if it cannot."""
        try:
            others = self.other_domains
            if others:
                _ = self._searched  # the catalog must be reached
        except DirectoryError as error:
            return f"other domains of the forest cannot be searched: {error.message}"
        if referral := self._referral:
            return f"what is below {referral} is on another server, and was not searched"
        if self._reads_everything:
            return ""
        return self._session.profile.explain_hidden(self._session, other_domains=bool(others))

    @property
    def _referral(self) -> str | None:
        """DN of an entry that refers to another server; None if there is none.

        Searches of a domain controller never leave out a part of its domain.
        """
        session = self._session
        if session.profile.has_catalog:
            return None
        for base in session.naming.guid_bases:
            try:
                for entry in session.find_referrals(base):
                    return entry.dn
            except ObjectNotFound:
                continue  # there is no such base, so nothing is below it
        return None

    @cached_property
    def _searched(self) -> "tuple[Session, tuple[DN, ...]]":
        """Session and bases that cover all domains."""
        session = self._session
        if not session.profile.has_catalog:
            return session, session.naming.list_bases(configuration=False)
        if not self.other_domains:
            return session, (session.naming.default,)
        catalog = self._forest.catalog
        return catalog, (catalog.naming.root,)

    def find_managers(self, guids: Collection[UUID]) -> frozenset[UUID]:
        """Return the GUIDs, among some, that queue managers of the forest have.

        The GUID that a queue manager had elsewhere counts, too (decision M37).

        Raises:
            DirectoryError: the search failed.
        """
        profile = self._session.profile
        names = (GUID, profile.original_guid)
        existing: set[UUID] = set()
        for batch in split_into_batches(sorted(guids), BATCH_TERMS):
            search_filter = any_of(*(profile.build_identifier_filter(MANAGER_CLASS, guid) for guid in batch))
            for entry in self._find(search_filter, [name for name in names if name is not None]):
                existing |= guids_of(entry, *names)
        return frozenset(existing & set(guids))

    def manager_of(self, computer: str) -> str | None:
        """Return the DN of the queue manager of a computer; None if there is none.

        Raises:
            DirectoryError: the search failed.
        """
        profile = self._session.profile
        session, _ = self._searched
        of_class = profile.build_class_filter(MANAGER_CLASS)
        for entry in self._find(profile.build_computer_filter(computer), [GUID]):
            place = places.queue_manager_of(entry.name)
            try:
                return session.get(place, [GUID], object_filter=of_class).dn
            except ObjectNotFound:
                continue
        return None

    def exists(self, dn: str) -> bool:
        """Return True if the server of the session has an entry at a DN.

        Raises:
            DirectoryError: the look-up failed.
        """
        if dn not in self._objects:
            try:
                self._session.get(dn, ["objectClass"])
                self._objects[dn] = True
            except ObjectNotFound:
                self._objects[dn] = False
        return self._objects[dn]

    def _find(self, search_filter: LdapFilter, attributes: list[str]) -> Iterator[Entry]:
        session, bases = self._searched
        for base in bases:
            yield from session.find(base, search_filter, attributes)
