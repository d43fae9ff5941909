"""Look-ups that precede the decisions about rows: in the source's keys and in the target."""

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from mqdssm.pipeline.migrate.shared_lookups import (
    Computer,
    KnownSite,
    SharedLookups,
    computers_named,
    duplicates_in,
    gates_in,
    machines_in,
    served_in,
    sites_in,
)
from mqdssm.pipeline.migrate.sids import SidMap
from mqdssm.pipeline.migrate.staging import keys_in
from mqdssm.pipeline.migrate.target import (
    accounts_named,
    computers_there,
    empty_classes,
    new_sids,
    sites_there,
)
from mqdssm.tables import places
from mqdssm.tables.mqis import MACHINE

if TYPE_CHECKING:
    from collections.abc import Collection

    from mqdssm.directory.session import Session


def resolved(session: "Session", sids: SidMap) -> SidMap:
    """Return a map of SIDs with names of accounts replaced by their SIDs in the target.

    Raises:
        ConfigError: accounts that it does not have.
    """
    return sids.resolved(accounts_named(session, frozenset(sids.names.values()))) if sids.names else sids


def gather(session: "Session", folder: Path, sids: SidMap, *, create_computers: bool) -> SharedLookups:
    """Collect the look-ups that workers share, except for the sites.

    Args:
        session: to the target.
        folder: of the plan, with the staged source.
        sids: the map of SIDs, resolved.
        create_computers: computers of machines that the target lacks will be made.
    """
    machines, name_key = machines_in(folder), session.profile.name_key
    duplicates = duplicates_in(folder, name_key, sids)
    gone = _of_machines(folder, {number for table, number in duplicates if table == MACHINE.name})
    return SharedLookups(
        machines={guid: name_key(name) for guid, name in machines.items() if guid not in gone},
        computers=_computers(session, folder, machines if create_computers else {}),
        gates=gates_in(folder),
        served=served_in(folder),
        duplicates=duplicates,
        empty=empty_classes(session),
        sids=sids,
    )


def _computers(session: "Session", folder: Path, machines: dict[UUID, str]) -> dict[str, Computer]:
    """Return the computers that exist and those that will be made, by the key of the name."""
    computers = computers_there(session, computers_named(folder, session.profile.name_key))
    named = {session.profile.name_key(name): name for name in machines.values()}
    lacking = {key: name for key, name in named.items() if key not in computers}
    if lacking:
        sids = new_sids(session, lacking)
        root = session.naming.root
        for key, name in lacking.items():
            computers[key] = Computer(name, str(places.computer_dn(root, name)), sids.get(key), exists=False)
    return computers


def _of_machines(folder: Path, numbers: "Collection[int]") -> set[UUID]:
    """Return the GUIDs in some rows of Machine."""
    keys = keys_in(folder, [MACHINE], ["guid"]).to_pylist() if numbers else []
    return {
        UUID(bytes_le=row["guid"]) for row in keys if row["guid"] is not None and row["number"] in numbers
    }


def all_sites(session: "Session", folder: Path, refused: "Collection[UUID]") -> dict[UUID, KnownSite]:
    """Return the sites of the target and the accepted sites of the source, by GUID."""
    there = sites_there(session)
    sites = {site.guid: site for site in there.values() if site.guid is not None}
    forest_root = session.naming.configuration.parent
    for guid, name in sites_in(folder).items():
        if guid not in refused:
            at = there.get(session.profile.name_key(name))
            dn = str(places.site_dn(forest_root, name)) if at is None else at.dn
            sites[guid] = KnownSite(name, dn, None if at is None else at.guid, in_source=True)
    return sites
