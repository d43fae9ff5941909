"""Plans of migrations, made by the engine of the test, and carried out; the local one needs no process."""

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import mqdssm
from mqdssm.directory.session import Session
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.migrate import planning
from mqdssm.pipeline.migrate.plan_file import MigrationPlan, PlanAction, PlanOperation, read_operations
from mqdssm.pipeline.migrate.planning import MigrationSource, Planning, PlanRequest, prepare_folder
from mqdssm.pipeline.migrate.target import resolve_sids
from mqdssm.pipeline.runner import Runner
from mqdssm.testing.openldap import OpenLdapServer
from support.spark.engines import chosen_engine, chosen_runner
from support.spark.exports import access_to


def access_for(server: Any, folder: Path) -> DirectoryAccess:
    """How workers get in: with the password in a file."""
    file = folder / "password-of-tests"
    file.write_text(server.password)
    return DirectoryAccess(
        urls=(server.url,), user=server.user, password_file=str(file), ca_file=server.ca_file
    )


def plan_here(
    server: OpenLdapServer, source: Path, to: Path, *, runner: Runner | None = None, **asked: Any
) -> MigrationPlan:
    """Plan as `plan_migration` does; the local engine in this process and with one session."""
    wanted = MigrationSource.of(PlanRequest(source=str(source), **asked))
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        session = directory.session

        def enter() -> AbstractContextManager[Session]:
            return nullcontext(session)

        if chosen_engine() == "spark":
            enter = partial(planning._open_directory_session, access_for(server, to.parent))
        run = Planning(wanted, prepare_folder(to), session, runner or chosen_runner(), enter)
        return run.run(resolve_sids(session, wanted.sids))


def operations_of(plan: MigrationPlan, folder: Path) -> list[PlanOperation]:
    """All operations, in the order in which they are applied."""
    return [operation for file in plan.changes for operation in read_operations(folder / file.path)]


def carry_out(server: OpenLdapServer, plan: MigrationPlan, folder: Path) -> None:
    """Apply a plan as simply as can be, references that wait at the end."""
    operations = operations_of(plan, folder)
    equal = [operation for file in plan.equal for operation in read_operations(folder / file.path)]
    places = {one.guid: one.dn for one in [*operations, *equal] if one.guid is not None}
    with mqdssm.connect(server.url, **access_to(server)) as directory:
        session = directory.session
        for one in operations:
            if one.action == PlanAction.ADD:
                session.add(one.dn, {"objectClass": (one.ldap_class.encode(),), **one.values})
            elif one.action == PlanAction.DELETE:
                session.delete(one.dn)
            else:
                session.modify(one.dn, one.values)
        for one in operations:
            later = {
                name: [places[guid].encode() for guid in map(_guid, texts) if guid in places]
                for name, texts in one.later.items()
            }
            session.modify(one.dn, later)


def _guid(text: str) -> Any:
    from uuid import UUID

    return UUID(text)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The documents in a file of JSON lines; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rejects_of(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rejected rows of a table."""
    return lines_of(folder / "rejects" / f"{table}.jsonl")


def write_rows(folder: Path, table: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write a table as JSON lines; names without their prefix."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({f"PROPID_{name}": value for name, value in row.items()}) for row in rows]
    (folder / f"{table}.jsonl").write_text("".join(line + "\n" for line in lines))
