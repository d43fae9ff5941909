"""Replacement of a server: checks, plan, path names, and steps of people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack
from uuid import UUID

from mqdssm.errors import require_packages
from mqdssm.model.dn import DN
from mqdssm.model.safe_text import format_csv_cell
from mqdssm.pipeline.access import PipelineLogIn, open_access, read_variable
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.pipeline.migrate.planning import plan_folder
from mqdssm.pipeline.replacement import references
from mqdssm.pipeline.replacement.checks import CheckedServers, check_servers, read_guid
from mqdssm.pipeline.replacement.planning import ReplacementPlanner
from mqdssm.pipeline.replacement.steps import (
    STEPS_NAME,
    StepFacts,
    format_document,
    list_steps_after,
    list_steps_before,
)
from mqdssm.tables import compute
from mqdssm.tables.dependent_objects import ACCOUNT_DISABLED
from mqdssm.tables.syntax import UINT32
from mqdssm.wire.sid import Sid

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

PATHNAMES_NAME: Final = "pathnames.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedQueue:
    """A queue that gets another path name.

    Attributes:
        guid: its objectGUID, which stays.
        old: path name.
        new: path name after the plan was applied.
    """

    guid: UUID
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Planned replacement of a server.

    Attributes:
        plan: the plan; without operations if the computer keeps its name.
        folder: folder of the plan.
        guid: objectGUID of the queue manager, which stays.
        queues: the queues, with old and new path names; empty if the computer keeps its name.
        before: steps of people before the plan is applied.
        after: steps of people afterwards.
        notes: facts that people should know.
    """

    plan: MigrationPlan
    folder: Path
    guid: UUID
    queues: tuple[RenamedQueue, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    notes: tuple[str, ...]


def replace_server(
    old: str,
    new: str,
    urls: str | Sequence[str],
    to: Path,
    *,
    delete_empty: bool = False,
    **login: Unpack[PipelineLogIn],
) -> Replacement:
    """Plan to move a queue manager, with its queues, to another computer.

    The objects keep their GUIDs. Nothing is changed: `mqdssm.pipeline.migrate.applying.apply_plan` applies
    the plan. If both names are those of one computer, the plan has no operations.

    Args:
        old: name of the computer that has the queue manager.
        new: name of the computer that gets it.
        urls: LDAP servers, tried in turn.
        to: a new or empty folder for the plan.
        delete_empty: delete a queue manager without queues that the new computer has.
        **login: see `PipelineLogIn`.

    Raises:
        ConfigError: the queue manager cannot be moved, and why.
        DirectoryError: the directory cannot be asked.
    """
    require_packages("pyarrow", "numpy", extra="pipeline")
    with open_access(urls, read_variable(login)) as access, access.connect() as directory:
        session = directory.session
        session.refuse_if_replicated("replace-server")
        servers = check_servers(session, old, new, delete_empty=delete_empty)
        with plan_folder(to) as folder:
            return _plan(session, servers, folder)


def _plan(session: "Session", servers: CheckedServers, folder: Path) -> Replacement:
    planner = ReplacementPlanner(session, servers, folder)
    if servers.is_same:
        planner.notes.append(
            f"{servers.old.name} keeps its name: nothing is to be moved. The queue manager and its queues "
            "stay if the computer account is reset, not deleted"
        )
    plan = planner.run()
    queues = () if servers.is_same else tuple(_find_renamed_queues(servers))
    facts = _gather_facts(session, servers, tuple(planner.by_address))
    before, after, notes = list_steps_before(facts), list_steps_after(facts), tuple(planner.notes)
    (folder / STEPS_NAME).write_text(format_document(facts, before, after, notes), encoding="utf-8")
    _write_pathnames(folder / PATHNAMES_NAME, queues)
    return Replacement(
        plan=plan, folder=folder, guid=servers.guid, queues=queues, before=before, after=after, notes=notes
    )


def _gather_facts(session: "Session", servers: CheckedServers, by_address: tuple[str, ...]) -> StepFacts:
    old, new = servers.old, servers.new
    facts = StepFacts(old=old.name, new=new.name, guid=servers.guid, queues=len(servers.queues))
    if servers.is_same:
        return facts
    has_already = references.groups_of(session, new.dn)
    groups = {key: dn for key, dn in references.groups_of(session, old.dn).items() if key not in has_already}
    rights: list[str] = []
    if old.sid is not None:
        rights = sorted(references.find_objects_with_rights(session, Sid(old.sid), servers.manager.name))
    return StepFacts(
        old=old.name,
        new=new.name,
        guid=servers.guid,
        queues=len(servers.queues),
        is_disabled=_is_disabled(session, new.dn),
        has_empty=servers.existing is not None,
        is_directory_server=servers.is_directory_server,
        undo_makes_guid=not session.keeps_guids,
        aliases=by_address,
        groups=tuple(sorted(groups.values())),
        rights=tuple(rights),
    )


def _is_disabled(session: "Session", computer: str) -> bool:
    raw = session.get(computer, ["userAccountControl"]).first("userAccountControl")
    return raw is not None and bool(UINT32.load(raw) & ACCOUNT_DISABLED)


def _find_renamed_queues(servers: CheckedServers) -> Iterator[RenamedQueue]:
    computer = DN.parse(servers.new.dn).name
    for entry in servers.queues:
        raw = entry.first("mSMQQueueNameExt")
        extension = None if raw is None else raw.decode(errors="replace")
        place = compute.read_queue_place(entry.dn)
        old, new = (compute.build_pathname(name, place.cn, extension) for name in (place.computer, computer))
        yield RenamedQueue(guid=read_guid(entry), old=old, new=new)


def _write_pathnames(path: Path, queues: Sequence[RenamedQueue]) -> None:
    lines = [("guid", "old", "new"), *((str(queue.guid), queue.old, queue.new) for queue in queues)]
    text = "".join(",".join(map(format_csv_cell, line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
