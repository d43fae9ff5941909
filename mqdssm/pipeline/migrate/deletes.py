"""Planned deletions of objects that the target has and the source lacks.

Objects are deleted only if that is allowed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.directory.entries import Entry
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.migrate.outcome import OutcomeWriter, TaskResult
from mqdssm.pipeline.migrate.plan_file import (
    CHILDREN,
    PARENTS,
    EntryRole,
    PlanFile,
    PlanOperation,
    plan_deletion,
)
from mqdssm.pipeline.migrate.rows import link_ends, link_key, make_queue_key
from mqdssm.pipeline.migrate.shared_lookups import KnownSite
from mqdssm.pipeline.migrate.staging import read_keys
from mqdssm.pipeline.migrate.target import EVERYTHING, find_of_class
from mqdssm.tables import TABLES, compute
from mqdssm.tables.dependent_objects import SETTINGS_CLASS
from mqdssm.tables.mqis import MACHINE, MQIS_TABLES, QUEUE, ROUTING_LINK, MqisTable

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

FILE_NUMBER: Final = 2**20 - 1
"""Number of the file of deletions: no staged file has it."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The rest of a plan: its operations, equal objects and sites.

    Attributes:
        folder: of the plan.
        files: its operations, and what is equal.
        sites: GUID in the source -> site.
    """

    folder: Path
    files: Sequence[PlanFile]
    sites: Mapping[UUID, KnownSite]

    def look_up_target_guid(self, site: UUID) -> UUID:
        """Return the GUID that a site of the source has in the target."""
        known_site = self.sites.get(site)
        return site if known_site is None or known_site.guid is None else known_site.guid

    def list_dns(self, type_name: str | None) -> frozenset[str]:
        """Return the normalised DNs of the objects of a type that have rows.

        GUIDs of the objects do not matter.
        """
        dns: set[str] = set()
        for file in self.files:
            table = pq.read_table(
                self.folder / file.path,
                columns=["dn"],
                filters=[("type", "=", type_name), ("role", "=", EntryRole.OBJECT)],
            )
            dns.update(map(normalize, table.column("dn").to_pylist()))
        return frozenset(dns)


def plan_deletes(
    session: "Session", folder: Path, allowed: int, planned: Planned
) -> tuple[str | None, list[TaskResult]]:
    """Plan to delete queues, links and queue managers that the source does not have.

    Sites, users, computers and the enterprise are never deleted: other programs use them as well. If a table
    is empty or missing in the source, no object of its type is deleted.

    Args:
        session: to the target.
        folder: of the plan.
        allowed: how many entries may be deleted, related ones included; 0: none is looked for.
        planned: the rest of the plan.

    Returns:
        Why the plan cannot be applied (None: it can), and the results of what was written.
    """
    if not allowed:
        return None, []
    count = 0
    results: list[TaskResult] = []
    for table in (QUEUE, ROUTING_LINK, MACHINE):
        keys = read_keys(folder, [table], ["guid", "name"])
        if nameless := _count_nameless(table, keys):
            words = f"{nameless} rows of {table.name} do not tell which objects they are"
            return f"{words}: nothing can be deleted for not being in it (--allow-deletes)", results
        writer = OutcomeWriter(folder, table.name, FILE_NUMBER - len(results))
        for level, operation in _plan_deletions(session, keys, table, planned):
            writer.write_operation(level, operation)
            count += 1
        results.append(writer.close())
    if count > allowed:
        return f"{count} objects would be deleted, {allowed} are allowed (--allow-deletes)", results
    return None, results


def _count_nameless(table: MqisTable, keys: pa.Table) -> int:
    """Count the rows without a usable key.

    The GUID of a link does not suffice (decision M37).
    """
    rows = zip(keys.column("guid").to_pylist(), keys.column("name").to_pylist(), strict=True)
    return sum(name is None and (guid is None or table is ROUTING_LINK) for guid, name in rows)


def _plan_deletions(
    session: "Session", keys: pa.Table, table: MqisTable, planned: Planned
) -> Iterator[tuple[int, PlanOperation]]:
    if table.element is None or not keys.num_rows:
        return
    guids = {UUID(bytes_le=raw) for raw in keys.column("guid").to_pylist() if raw is not None}
    key = session.profile.name_key
    names = {key(name) for name in keys.column("name").to_pylist() if name is not None}
    if table is ROUTING_LINK:
        names = {link_key(map(planned.look_up_target_guid, link_ends(name))) for name in names}
    planned_dns = planned.list_dns(MQIS_TABLES[table.name].type_name)
    ldap_class = TABLES[table.element].ldap_class
    settings = list(find_of_class(session, SETTINGS_CLASS, EVERYTHING)) if table is MACHINE else []
    for entry in find_of_class(session, ldap_class, EVERYTHING):
        entry_guids = _read_guids(session, entry)
        if (
            entry_guids & guids
            or _read_name(session, table, entry) in names
            or normalize(entry.dn) in planned_dns
        ):
            continue
        level = PARENTS if table is MACHINE else CHILDREN
        yield level, _deletion_of(table, entry, ldap_class, EntryRole.OBJECT)
        if table is MACHINE:
            computer = DN.parse(entry.dn).parent.name
            for settings_entry in settings:
                if DN.parse(settings_entry.dn).parent.name.lower() == computer.lower():
                    yield CHILDREN, _deletion_of(table, settings_entry, SETTINGS_CLASS, EntryRole.SETTINGS)


def _read_guids(session: "Session", entry: Entry) -> set[UUID]:
    original = session.profile.original_guid
    raws = [entry.first("objectGUID"), None if original is None else entry.first(original)]
    return {UUID(bytes_le=raw) for raw in raws if raw is not None and len(raw) == 16}


def _read_name(session: "Session", table: MqisTable, entry: Entry) -> str | None:
    """Return the name that `rows.key_of` gives an object.

    The name has the form that the target compares.
    """
    key = session.profile.name_key
    if table is MACHINE:
        return key(compute.read_computer_name(entry.dn))
    if table is QUEUE:
        place = compute.read_queue_place(entry.dn)
        return key(make_queue_key(place.computer, place.cn))
    if table is ROUTING_LINK:
        return _link_key(DN.parse(entry.dn).name)
    return None


def _link_key(name: str) -> str | None:
    try:
        return link_key(compute.link_sites(name))
    except ValueError:
        return None  # made by hand


def _deletion_of(table: MqisTable, entry: Entry, ldap_class: str, role: str) -> PlanOperation:
    type_name = MQIS_TABLES[table.name].type_name or ""
    return replace(plan_deletion(type_name, entry, ldap_class, role), table=table.name)
