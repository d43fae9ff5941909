"""Migration in one step: make a plan and apply it, with one session of Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from mqdssm.pipeline.access import PipelineLogIn, access_to
from mqdssm.pipeline.migrate.applying import ApplyOptions, apply_plan
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.pipeline.migrate.planning import MigrationSource, PlanRequest, plan_migration
from mqdssm.pipeline.migrate.progress import Watch
from mqdssm.pipeline.mqis.mapping import spark_settings
from mqdssm.pipeline.spark_options import HERE, SparkOptions

if TYPE_CHECKING:
    from mqdssm.pipeline.migrate.report import MigrationReport


class Migrated(NamedTuple):
    """Plan and report of a migration.

    Attributes:
        plan: what was to be done.
        report: what became of it; None: the plan could not be applied (`MigrationPlan.refused`).
    """

    plan: MigrationPlan
    report: "MigrationReport | None"


def migrate(
    asked: PlanRequest,
    urls: str | Sequence[str],
    to: Path,
    options: ApplyOptions | None = None,
    *,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
    watch: Watch | None = None,
    **login: Unpack[PipelineLogIn],
) -> Migrated:
    """Plan a migration and apply the plan.

    If it is interrupted after the plan was made, `apply_plan` resumes it.

    Args:
        asked: what for.
        urls: LDAP servers, tried in turn.
        to: a new or empty folder for the plan.
        options: how it is applied.
        engine: ``local``, ``spark`` or ``auto``, as for `mqdssm.pipeline.export.run.export`; a database needs
            Spark.
        workers: processes of the local engine; None: one a core, as far as there is memory.
        on: where Spark runs.
        watch: is told what is being done, and how far it is; from another thread, too.
        **login: see `PipelineLogIn`.

    Raises:
        ConfigError: something that was given cannot be used; with what, and what is expected.
        DirectoryError: the target cannot be asked, or is gone.
        SparkFailed: Spark itself failed.
    """
    source = MigrationSource.of(asked)  # invalid requests are refused before Java starts
    chosen = source.engine(engine, on, workers)
    with access_to(urls, login, on) as access, access.connect() as directory:
        directory.session.check_msmq()
    where = chosen.arguments()
    with chosen.runner("mqdssm migrate", conf=spark_settings(source.mapping)):  # one session for both
        plan = plan_migration(asked, urls, to, **where, watch=watch, **login)
        if plan.refused is not None:
            return Migrated(plan, None)
        report = apply_plan(to, urls, options, **where, watch=watch, **login)
        return Migrated(plan, report)
