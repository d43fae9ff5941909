"""Synchronization of a directory with a declaration: compare, plan and apply."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from mqdssm.errors import ConfigError, require_packages
from mqdssm.pipeline.access import PipelineLogIn, open_access, read_variable
from mqdssm.pipeline.engines import EngineKind
from mqdssm.pipeline.migrate.applying import ApplyOptions, apply_plan
from mqdssm.pipeline.migrate.planning import plan_folder, remove_plan
from mqdssm.pipeline.migrate.progress import Watch, tell
from mqdssm.pipeline.sync.declaration import Declaration, load_declaration
from mqdssm.pipeline.sync.planning import Compared, SyncPlanner

if TYPE_CHECKING:
    from mqdssm.pipeline.diff.fields import ObjectDifference
    from mqdssm.pipeline.migrate.plan_file import MigrationPlan
    from mqdssm.pipeline.migrate.report import MigrationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """Result of `sync`.

    Attributes:
        differences: between the declaration (A) and the directory (B), as they were before.
        plan: the plan; its `refused` says why it could not be applied.
        folder: folder of the plan with the undo file; None if nothing was to be done, or the folder was
            temporary.
        report: results of the changes; None if nothing was changed.
    """

    differences: "tuple[ObjectDifference, ...]"
    plan: "MigrationPlan"
    folder: Path | None
    report: "MigrationReport | None"

    @property
    def is_equal(self) -> bool:
        """True if the directory was as it is declared."""
        return not self.differences and self.plan.refused is None

    @property
    def is_fine(self) -> bool:
        """True if the directory is as it is declared now."""
        return self.is_equal or (self.report is not None and self.report.is_fine)


def sync(
    declaration: Declaration | Path,
    urls: str | Sequence[str],
    to: Path | None = None,
    *,
    check: bool = False,
    prune: bool = False,
    allow_deletes: int = 0,
    watch: Watch | None = None,
    **login: Unpack[PipelineLogIn],
) -> SyncResult:
    """Make a directory equal to a declaration.

    Objects and attributes that the declaration does not name stay as they are.
    A second call finds nothing to do. The file ``undo.ldif`` in the folder of the plan undoes the changes.

    Args:
        declaration: the declaration, or its file.
        urls: LDAP servers, tried in turn.
        to: folder of the plan: new or empty; None: named by the time, in the current folder. Without
            differences there is no folder. With `check` and None the folder is temporary.
        check: compare only; with a folder, write the plan for ``mqdssm apply``.
        prune: delete the queues that are not declared, of machines whose queues are.
        allow_deletes: how many queues may be deleted.
        watch: is told what is being done, and how far it is; from another thread, too.
        **login: see `PipelineLogIn`.

    Raises:
        ConfigError: the declaration cannot be used, or the plan cannot be applied: why.
        DirectoryError: the directory cannot be asked, or is gone; ``mqdssm apply`` continues the plan.
    """
    require_packages("pyarrow", "numpy", "yaml", extra="pipeline")
    declared = load_declaration(declaration) if isinstance(declaration, Path) else declaration
    credentials = read_variable(login)
    compare = partial(
        _compare, declared, urls, prune=prune, allow_deletes=allow_deletes, watch=watch, login=credentials
    )
    if check and to is None:
        with tempfile.TemporaryDirectory(prefix="mqdssm-") as scratch:
            compared = compare(Path(scratch))
        return SyncResult(differences=compared.differences, plan=compared.plan, folder=None, report=None)
    folder = to or choose_unused_folder()
    is_new = not folder.exists()
    compared = compare(folder)
    refused = compared.plan.refused
    if refused is not None or not compared.plan.levels:
        remove_plan(folder, keep_folder=not is_new)
        if refused is not None and not check:
            raise ConfigError(f"nothing was changed: {refused}")
        return SyncResult(differences=compared.differences, plan=compared.plan, folder=None, report=None)
    report = None
    if not check:
        engine = EngineKind.LOCAL.value
        report = apply_plan(folder, urls, ApplyOptions(), engine=engine, watch=watch, **credentials)
    return SyncResult(differences=compared.differences, plan=compared.plan, folder=folder, report=report)


def choose_unused_folder() -> Path:
    """Return the default folder of a plan, an unused name with the time in it."""
    name = f"sync-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(path for path in map(Path, names) if not path.exists())


def _compare(
    declaration: Declaration,
    urls: str | Sequence[str],
    to: Path,
    *,
    prune: bool,
    allow_deletes: int,
    watch: Watch | None,
    login: PipelineLogIn,
) -> Compared:
    """Compare a declaration with a directory, and write the plan to a folder."""
    with open_access(urls, login) as access, access.connect() as directory, plan_folder(to) as folder:
        tell(watch, "comparing")
        planner = SyncPlanner(
            directory.session, declaration, folder, prune=prune, allow_deletes=allow_deletes
        )
        return planner.run()
