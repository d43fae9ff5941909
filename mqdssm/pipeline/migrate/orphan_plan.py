"""Plans that delete orphans, and the check before one is applied.

A plan has the form of a migration (`mqdssm.pipeline.migrate.plan_file`), and only deletions. When it is
applied, the directory is searched again before the first change: each object must still be an orphan.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack
from uuid import UUID

from mqdssm.directory.loading.existing_entries import AT_ONCE, guid_of, read_entries_at
from mqdssm.errors import ConfigError, require_packages
from mqdssm.events.references import split_into_batches
from mqdssm.model.dn import normalize
from mqdssm.pipeline.access import PipelineLogIn, open_access, read_variable
from mqdssm.pipeline.migrate.outcome import OutcomeWriter, PlanSummary
from mqdssm.pipeline.migrate.plan_file import (
    CHILDREN,
    PARENTS,
    EntryRole,
    MigrationPlan,
    PlanKind,
    PlanOperation,
    PlanOptions,
    plan_deletion,
    read_operations,
)
from mqdssm.pipeline.migrate.planning import plan_folder, remove_plan, target_of
from mqdssm.pipeline.migrate.progress import Watch, tell
from mqdssm.pipeline.migrate.target import EVERYTHING
from mqdssm.pipeline.orphans import Orphan, OrphanList, search_orphans
from mqdssm.pipeline.orphans.places import LINK_CLASS
from mqdssm.tables.dependent_objects import SETTINGS_CLASS
from mqdssm.tables.schema import MANAGER_CLASS, QUEUE_CLASS

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

MIN_AGE_DAYS: Final = 7
"""Default of the days for which an orphan must be unchanged: replication between sites takes hours."""
SOURCE: Final = "orphans"
TABLE_NAMES: Final[Mapping[str, str]] = {
    QUEUE_CLASS: "Queue",
    SETTINGS_CLASS: "Settings",
    LINK_CLASS: "RoutingLink",
    MANAGER_CLASS: "Machine",
}
"""Object class -> name of its files in a plan, and in its counts of deletions."""
NOT_MADE_AGAIN: Final = (
    "{count} objects are below CN=LostAndFound or CN=LostAndFoundConfig: Active Directory makes no object "
    "there, so that undo.ldif only shows what they were"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanResult:
    """Result of `find_orphans`.

    Attributes:
        listing: the orphans.
        plan: the plan that removes those that can be removed; None: there is none.
        folder: folder of the plan; None: there is none.
    """

    listing: OrphanList
    plan: MigrationPlan | None = None
    folder: Path | None = None


def find_orphans(
    urls: str | Sequence[str],
    to: Path | None = None,
    *,
    min_age_days: int = MIN_AGE_DAYS,
    reads_everything: bool = False,
    watch: Watch | None = None,
    **login: Unpack[PipelineLogIn],
) -> OrphanResult:
    """List the orphans of a directory, and plan to delete those that can be deleted.

    Nothing is changed. `mqdssm.pipeline.migrate.applying.apply_plan` applies the plan.

    Args:
        urls: LDAP servers, tried in turn.
        to: folder of the plan: new or empty; None: only list. If nothing can be deleted, there is no folder.
        min_age_days: days for which an orphan must be unchanged to be deleted; 0: any can be.
        reads_everything: the user states that no object is hidden, where the server does not show it.
        watch: is told what is being done; from another thread, too.
        **login: see `PipelineLogIn`.

    Raises:
        ConfigError: the folder cannot be used.
        DirectoryError: the directory cannot be asked, or does not let itself be searched to the end.
    """
    require_packages("pyarrow", "numpy", extra="pipeline")
    if min_age_days < 0:
        raise ConfigError(f"min_age_days {min_age_days} is less than nothing")
    with open_access(urls, read_variable(login)) as access, access.connect() as directory:
        session = directory.session
        if to is not None:
            session.refuse_if_replicated("plan")
        tell(watch, "searching")
        listing = search_orphans(session, min_age_days, reads_everything=reads_everything)
        if to is None or not listing.removable:
            return OrphanResult(listing=listing)
        is_new = not to.exists()
        with plan_folder(to) as folder:
            tell(watch, "planning")
            plan = _plan(session, listing.removable, folder, reads_everything=reads_everything)
        if not plan.levels:  # others deleted all of them meanwhile
            remove_plan(folder, keep_folder=not is_new)
            return OrphanResult(listing=listing)
    return OrphanResult(listing=listing, plan=plan, folder=to)


def _plan(
    session: "Session", orphans: Sequence[Orphan], folder: Path, *, reads_everything: bool
) -> MigrationPlan:
    """Write the plan that deletes orphans.

    Raises:
        DirectoryError: the orphans cannot be read.
        OSError: the plan cannot be written.
    """
    summary = PlanSummary()
    deletes: dict[str, int] = {}
    for number, (ldap_class, table) in enumerate(TABLE_NAMES.items()):
        writer = OutcomeWriter(folder, table, number)
        level = PARENTS if ldap_class == MANAGER_CLASS else CHILDREN
        some = [orphan for orphan in orphans if orphan.ldap_class == ldap_class]
        for operation in _plan_deletions(session, some):
            writer.write_operation(level, replace(operation, table=table))
            deletes[table] = deletes.get(table, 0) + 1
        summary.add([writer.close()])
    plan = MigrationPlan(
        kind=PlanKind.ORPHANS,
        made=datetime.now(UTC).replace(microsecond=0),
        source=SOURCE,
        target=target_of(session),
        options=PlanOptions(allow_deletes=sum(deletes.values()), reads_everything=reads_everything),
        tables={},
        operations=summary.operations,
        deletes=deletes,
        levels=summary.levels,
        equal=(),
        notes=_list_notes(session, orphans),
        engine="local",
    )
    plan.write(folder)
    return plan


def _list_notes(session: "Session", orphans: Iterable[Orphan]) -> tuple[str, ...]:
    lost = [orphan for orphan in orphans if orphan.rule.is_misplaced]
    if not lost or not session.profile.restricts_parents:
        return ()
    return (NOT_MADE_AGAIN.format(count=len(lost)),)


def _plan_deletions(session: "Session", orphans: Iterable[Orphan]) -> Iterator[PlanOperation]:
    """Yield the deletions of orphans, with all their attributes as they are now."""
    for batch in split_into_batches(orphans, AT_ONCE):
        entries = read_entries_at(session, [orphan.dn for orphan in batch], EVERYTHING)
        for orphan in batch:
            entry = entries.get(normalize(orphan.dn))
            if entry is None or guid_of(entry.attributes) != orphan.guid:
                continue  # it was deleted or replaced meanwhile
            is_settings = orphan.ldap_class == SETTINGS_CLASS
            role = EntryRole.SETTINGS if is_settings else EntryRole.OBJECT
            yield plan_deletion(orphan.type_name, entry, orphan.ldap_class, role)


def check_orphans(plan: MigrationPlan, folder: Path, session: "Session") -> None:
    """Check that all objects of a plan that exist are orphans now.

    Args:
        plan: the plan; its files were checked.
        folder: of the plan.
        session: to the target.

    Raises:
        ConfigError: an object is no orphan (any more), or another one.
        DirectoryError: the directory cannot be searched.
    """
    present = search_orphans(session, reads_everything=plan.options.reads_everything).orphans
    by_dn = {normalize(orphan.dn): orphan for orphan in present if orphan.rule.removes}
    wrong: list[str] = []
    for file in plan.changes:
        for batch in split_into_batches(read_operations(folder / file.path), AT_ONCE):
            entries = read_entries_at(session, [operation.dn for operation in batch], ())
            for operation in batch:
                entry = entries.get(normalize(operation.dn))
                if entry is None:
                    continue  # deleted already
                orphan = by_dn.get(normalize(operation.dn))
                if reason := _explain_why_not(operation, guid_of(entry.attributes), orphan):
                    wrong.append(f"{operation.dn}: {reason}")
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ConfigError(f"the plan would delete what is no orphan now: {wrong[0]}{more}; plan again")


def _explain_why_not(operation: PlanOperation, guid: UUID | None, orphan: Orphan | None) -> str:
    """Return why an existing object may not be deleted; empty: it may."""
    if orphan is None or orphan.ldap_class != operation.ldap_class:
        return "it is in use"
    if guid is None or guid != operation.guid or guid != orphan.guid:
        return "another object has its name now"
    return orphan.obstacle
