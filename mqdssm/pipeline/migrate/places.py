"""DNs and GUIDs of referenced objects in the target.

References are rewritten by them (decision M37).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import pyarrow.parquet as pq

from mqdssm.directory.loading.existing_entries import AT_ONCE, guid_of, read_entries_at
from mqdssm.events.references import split_into_batches
from mqdssm.model.dn import DN, normalize
from mqdssm.model.elements import QueueManager, RoutingLink, Site
from mqdssm.model.safe_text import format_csv_cell
from mqdssm.pipeline.documents import write_whole
from mqdssm.pipeline.migrate.apply_journal import ApplyJournal
from mqdssm.pipeline.migrate.plan_file import EntryRole, PlanAction
from mqdssm.pipeline.migrate.target import TargetView
from mqdssm.tables import TABLES, compute
from mqdssm.tables.references import REFERENCES

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

GUID_MAP_NAME: Final = "guid-map.csv"
GUID_MAP_COLUMNS: Final = ("type", "old", "new", "dn")
REFERRED: Final = (TABLES[Site].ldap_class, TABLES[QueueManager].ldap_class)
LINK_CLASS: Final = TABLES[RoutingLink].ldap_class
_COLUMNS: Final = ["row_id", "guid", "dn", "class", "role", "action"]


class ObjectPlace(NamedTuple):
    """DN and GUID of an object in the target.

    Attributes:
        dn: its name in the target.
        guid: its objectGUID there.
    """

    dn: str
    guid: UUID


@dataclass(frozen=True, slots=True)
class ReferencedPlaces:
    """Sites and queue managers that other objects refer to.

    The GUIDs of the sites and queue managers in the source are the keys.

    Attributes:
        by_guid: GUID in the source -> place in the target.
    """

    by_guid: Mapping[UUID, ObjectPlace] = field(default_factory=dict)

    def look_up_values(
        self, ldap_class: str, later: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, tuple[bytes, ...]], dict[str, tuple[str, ...]]]:
        """Return the values of references, in the form that each attribute has.

        Args:
            ldap_class: of the object that refers.
            later: attribute -> GUIDs of the source.

        Returns:
            The values; and attribute -> GUIDs in the source of objects that are not known.
        """
        values: dict[str, tuple[bytes, ...]] = {}
        missing: dict[str, tuple[str, ...]] = {}
        for name, texts in later.items():
            reference = REFERENCES[ldap_class][name]
            places = [self.by_guid.get(UUID(text)) for text in texts]
            known_places = [place for place in places if place is not None]
            values[name] = tuple(reference.encode_stored(place.dn, place.guid) for place in known_places)
            if len(known_places) < len(texts):
                missing[name] = tuple(
                    text for text, place in zip(texts, places, strict=True) if place is None
                )
        return values, missing

    def name_of(self, ldap_class: str, dn: str) -> str:
        """Return the DN of a new object.

        The name of a routing link gets the present GUIDs of its sites.
        """
        if ldap_class != LINK_CLASS or not self.by_guid:
            return dn
        name = DN.parse(dn)
        try:
            old = compute.link_sites(name.name)
        except ValueError:
            return dn
        ends = [self.by_guid[guid].guid if guid in self.by_guid else guid for guid in old]
        return str(name.parent.child(name.rdn[0][0], compute.link_name(*ends)))


def find_referred_to(folder: Path, parts: Iterable[str]) -> dict[UUID, str]:
    """Return the referenced sites and queue managers of a plan.

    The result is GUID in the source -> DN, without deleted objects.

    Args:
        folder: of the plan.
        parts: its files of operations and of what is equal.
    """
    return {row.guid: row.dn for row in _list_referred_rows(folder, parts) if row.action != PlanAction.DELETE}


class MadeObject(NamedTuple):
    """An object that a plan makes, and that other objects may be below.

    Attributes:
        guid: its objectGUID: that of the plan, or the one that the server chose; None: nobody asked for it.
        ldap_class: its structural class.
    """

    guid: UUID | None
    ldap_class: str


def find_made_in(folder: Path, parts: Iterable[str], *, keeps_guids: bool) -> dict[str, MadeObject]:
    """Return the sites and queue managers that a plan makes, by their normalised DNs.

    Args:
        folder: of the plan.
        parts: its files of operations.
        keeps_guids: the target has the GUIDs of the plan; else those that were made count.
    """
    objects = {}
    for part in parts:
        journal = {} if keeps_guids else ApplyJournal(folder, part).read()
        for row in _list_referred_rows(folder, (part,)):
            recorded = journal.get(row.row_id)
            if row.action != PlanAction.ADD or (recorded is None and not keeps_guids):
                continue
            guid = row.guid if recorded is None else recorded.guid
            objects[normalize(row.dn)] = MadeObject(guid, row.ldap_class)
    return objects


class _ReferredRow(NamedTuple):
    row_id: int
    guid: UUID
    dn: str
    ldap_class: str
    action: str


def _list_referred_rows(folder: Path, parts: Iterable[str]) -> Iterator[_ReferredRow]:
    """Yield the sites and queue managers that have a GUID in the source."""
    for part in parts:
        table = pq.read_table(folder / part, columns=_COLUMNS)
        rows = zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True)
        for row_id, raw, dn, ldap_class, role, action in rows:
            if raw is not None and role == EntryRole.OBJECT and ldap_class in REFERRED:
                yield _ReferredRow(row_id, UUID(bytes_le=raw), dn, ldap_class, action)


def find_existing_targets(
    session: "Session", folder: Path, parts: Iterable[str], planned: Collection[UUID]
) -> dict[UUID, str]:
    """Return the DNs, by GUID, of referenced objects that only the target has.

    Waiting references name these objects, and the plan does not make them.
    The target had these objects before, or the plan skipped them.

    Args:
        session: to the target.
        folder: of the plan.
        parts: its files of operations and of what is equal.
        planned: the objects of the plan.

    Raises:
        DirectoryError: the look-up failed.
    """
    by_class: dict[str, set[UUID]] = {}
    for part in parts:
        table = pq.read_table(folder / part, columns=["class", "later"])
        rows = zip(table.column("class").to_pylist(), table.column("later").to_pylist(), strict=True)
        for ldap_class, later in rows:
            for name, texts in later or ():
                guids = by_class.setdefault(REFERENCES[ldap_class][name].ldap_class, set())
                guids.update(guid for guid in map(UUID, texts) if guid not in planned)
    view = TargetView(session)
    return {
        guid: entries[0].dn
        for ldap_class, guids in by_class.items()
        for guid, entries in view.by_guid(sorted(guids), ldap_class, ()).items()
        if len(entries) == 1
    }


def look_up(session: "Session", dns: Mapping[UUID, str]) -> ReferencedPlaces:
    """Look up the present DNs and GUIDs of objects.

    Objects that do not exist (yet) are left out.

    Raises:
        DirectoryError: the look-up failed.
    """
    places = {}
    for batch in split_into_batches(dns.items(), AT_ONCE):
        entries = read_entries_at(session, [dn for _, dn in batch], ())
        for guid, dn in batch:
            entry = entries.get(normalize(dn))
            now = None if entry is None else guid_of(entry.attributes)
            if entry is not None and now is not None:
                places[guid] = ObjectPlace(entry.dn, now)
    return ReferencedPlaces(places)


class MapRow(NamedTuple):
    """A line of the GUID map.

    Attributes:
        type: of the object, as on the command line.
        old: its GUID in the source.
        new: its objectGUID in the target.
        dn: its name there.
    """

    type: str
    old: UUID
    new: UUID
    dn: str


def write_guid_map(folder: Path, rows: Iterable[MapRow]) -> None:
    """Write the GUID map atomically."""
    cells = ((row.type, str(row.old), str(row.new), row.dn) for row in rows)
    lines = (",".join(map(format_csv_cell, line)) for line in cells)
    head = ",".join(GUID_MAP_COLUMNS)
    write_whole(folder / GUID_MAP_NAME, (f"{line}\n".encode() for line in chain([head], lines)))
