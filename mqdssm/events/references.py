"""References between objects, resolved in batches (decision M29).

The resolved references are cached for one operation.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, any_of
from mqdssm.directory.responses import Dereferenced
from mqdssm.directory.session import Session
from mqdssm.model.dn import DN, normalize
from mqdssm.tables.places import is_in_configuration, is_in_usual_place

T = TypeVar("T")

BATCH_TERMS: Final = 100
"""Maximum terms of one OR: slapd tests each candidate against all terms; 500 cost twice as much each."""
DN_TERMS_MAX: Final = 500
"""Maximum DNs in one OR: 500 together cost 1.2 times as much as five times 100."""
REMEMBERED_MAX: Final = 50_000
"""Maximum objects cached in one operation; then the cache is cleared to limit the memory."""

_COMPUTER: Final = "computer"
_NO_DN: Final = "\0"
"""Prefix that no normalized DN has."""
BROUGHT: Final = ("objectGUID", "objectClass")
"""Attributes that a page returns for each referenced object."""


def split_into_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items, in order."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


class References:
    """Cache of referenced objects by DN and GUID, for one operation in one thread.

    Args:
        session: where to look.
        computer_attributes: what to read of computers.
    """

    def __init__(self, session: Session, computer_attributes: Sequence[str] = ()) -> None:
        self._session = session
        self._computer_attributes = tuple(computer_attributes)
        self._identifiers: dict[str, dict[str, UUID | None]] = {}  # by class
        self._computers: dict[str, Entry | None] = {}
        self._as_written: dict[str, Entry | None] = {}  # the same, by DNs as the server writes them

    def identifier_of(self, dn: str, ldap_class: str) -> UUID | None:
        """Return the objectGUID of an object of a class at a DN.

        None if it is missing or not readable.
        """
        key = key_of(dn)
        identifiers = self._identifiers.setdefault(ldap_class, {})
        if key not in identifiers:
            self.fetch_identifiers([dn], ldap_class)
        return identifiers.get(key)

    def computer(self, dn: str) -> Entry | None:
        """Return the computer at a DN; None if there is none."""
        try:
            return self._as_written[dn]
        except KeyError:
            key = key_of(dn)
        if key not in self._computers:
            self.fetch_computers([dn])
        computer = self._as_written[dn] = self._computers.get(key)
        return computer

    def make_room(self) -> None:
        """Clear caches that are too large; call it before a batch, never within one."""
        memories: list[dict[str, Any]] = [*self._identifiers.values(), self._computers, self._as_written]
        for memory in memories:
            if len(memory) > REMEMBERED_MAX:
                memory.clear()

    def learn(self, brought: Iterable[Dereferenced], ldap_class: str) -> None:
        """Cache the referenced objects of a class that a page returned.

        Objects whose class is uncertain are left for a look-up. If a server returns no classes, the place of
        the object determines the class.

        Args:
            brought: with `BROUGHT` of each object.
            ldap_class: class that the entries must have.
        """
        identifiers = self._identifiers.setdefault(ldap_class, {})
        class_name = ldap_class.lower().encode()
        for dereferenced in brought:
            key = key_of(dereferenced.dn)
            if key in identifiers or key.startswith(_NO_DN):
                continue
            classes = dereferenced.attributes.get("objectclass", ())
            if not dereferenced.attributes:  # nothing is there, or nothing that may be seen
                identifiers[key] = None
            elif any(name.lower() == class_name for name in classes) or (
                dereferenced.identity_only and is_in_usual_place(ldap_class, dereferenced.dn)
            ):
                identifiers[key] = _decode_guid(
                    next(iter(dereferenced.attributes.get("objectguid", ())), None)
                )

    def fetch_identifiers(self, dns: Iterable[str], ldap_class: str) -> None:
        """Look up the objectGUID of many objects of a class at once."""
        identifiers = self._identifiers.setdefault(ldap_class, {})
        for key, entry in self._fetch(dns, identifiers, ["objectGUID"], ldap_class):
            identifiers[key] = None if entry is None else _decode_guid(entry.first("objectGUID"))

    def fetch_computers(self, dns: Iterable[str]) -> None:
        """Look up many computers at once."""
        attributes = self._computer_attributes or ("objectClass",)
        for key, entry in self._fetch(dns, self._computers, attributes, _COMPUTER):
            self._computers[key] = entry

    def read_entries_at(
        self, dns: Iterable[str], ldap_class: str, attributes: Sequence[str]
    ) -> dict[str, Entry]:
        """Read many objects of a class by their DNs at once.

        Returns:
            Normalised DN -> entry; missing entries are left out.
        """
        entries = self._fetch(dns, {}, attributes, ldap_class)
        return {key: entry for key, entry in entries if entry is not None}

    def dns_of(self, identifiers: Sequence[UUID], ldap_class: str) -> dict[UUID, str]:
        """Return the DNs of existing objects of a class by objectGUID."""
        dns: dict[UUID, str] = {}
        of_class = self._session.profile.build_class_filter(ldap_class)
        for batch in split_into_batches(dict.fromkeys(identifiers), BATCH_TERMS):
            search_filter = And((of_class, any_of(*(Equal("objectGUID", guid.bytes_le) for guid in batch))))
            session, bases = self._place_of(ldap_class)
            for base in bases:
                for entry in session.find(base, search_filter, ["objectGUID"]):
                    guid = _decode_guid(entry.first("objectGUID"))
                    if guid is not None:
                        dns[guid] = entry.dn
        return dns

    def _place_of(self, ldap_class: str) -> tuple[Session, tuple[DN, ...]]:
        """Return session and bases for searches of a class (decision M73).

        The global catalog is used for other domains.
        """
        session, configuration = self._session, is_in_configuration(ldap_class)
        if session.options.forest and not configuration:
            if ldap_class == _COMPUTER:  # above an object of the own domain, with all its attributes
                return session, (session.naming.default,)
            session = session.catalog or session
        return session, session.naming.list_bases(configuration=configuration)

    def _fetch(
        self,
        dns: Iterable[str],
        identifiers: dict[str, UUID | None] | dict[str, Entry | None],
        attributes: Sequence[str],
        ldap_class: str,
    ) -> Iterator[tuple[str, Entry | None]]:
        """Yield each DN that is not cached yet, normalised, with its entry or None."""
        unknown = {key: dn for dn in dns if (key := key_of(dn)) not in identifiers}
        for key in [key for key in unknown if key.startswith(_NO_DN)]:  # it names nothing, and no request can
            yield key, None
            del unknown[key]
        profile = self._session.profile
        of_class = profile.build_class_filter(ldap_class)
        for batch in split_into_batches(unknown.items(), DN_TERMS_MAX):
            missing = dict(batch)
            search_filter = And((of_class, any_of(*(profile.build_dn_filter(dn) for dn in missing.values()))))
            session, bases = self._place_of(ldap_class)
            for base in bases:
                if not missing:
                    break
                for entry in session.find(base, search_filter, attributes):
                    key = key_of(entry.dn)
                    if missing.pop(key, None) is not None:
                        yield key, entry
            for key in missing:
                yield key, None


def key_of(dn: str) -> str:
    """Return the cache key of a DN, also of a text that is no DN."""
    try:
        return normalize(dn)
    except ValueError:
        return f"{_NO_DN}{dn}"


def _decode_guid(raw: bytes | None) -> UUID | None:
    return UUID(bytes_le=raw) if raw is not None and len(raw) == 16 else None
