"""Engine and log-in of the pipeline's commands."""

from typing import TYPE_CHECKING, cast

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.options import EngineName
from mqdssm.cli.run import CommandRun, convert_usage_problems

if TYPE_CHECKING:
    from pathlib import Path

    from mqdssm.pipeline.access import PipelineLogIn
    from mqdssm.pipeline.engines import JobEngine


def engine_of(run: CommandRun, source: str = "") -> "JobEngine":
    """Choose the engine, and check that it could run here.

    ``--engine local`` wins over a master in the environment or the configuration file.

    Args:
        run: of the command.
        source: what is read, if it may be a database, which needs Spark.

    Raises:
        UsageProblem: options of the engine that was not chosen.
        ConfigError: what the engine needs is not installed.
    """
    from mqdssm.pipeline.engines import JobEngine
    from mqdssm.pipeline.spark_options import HERE

    given_options = run.given
    name = given_options.engine
    if name is EngineName.LOCAL and (
        given_options.spark_master or given_options.spark_conf or given_options.spark_shared
    ):
        raise UsageProblem(
            "--engine local needs no Spark: leave --spark-master, --spark-conf and --spark-shared out"
        )
    if source and name is EngineName.AUTO:
        from mqdssm.pipeline.mqis.mapping import is_jdbc

        name = EngineName.SPARK if is_jdbc(source) else name
    on = HERE if name is EngineName.LOCAL else run.spark()
    with convert_usage_problems():
        engine = JobEngine.of(name.value, on, given_options.workers)
    engine.check()
    return engine


def check_targets(html: "Path | None", csv: "Path | None") -> None:
    """Check before hours of work that a page and CSV files can be written.

    Raises:
        UsageProblem: one of them cannot.
    """
    from mqdssm.pipeline.inventory.writers import check_folder
    from mqdssm.pipeline.report import check_page

    with convert_usage_problems():
        if html is not None:
            check_page(html)
        if csv is not None:
            check_folder(csv)


def describe_engine(name: str) -> str:
    """Return the words with which each command names the engine that ran."""
    return f"engine: {name}"


def login_of(run: CommandRun) -> "PipelineLogIn":
    """Return the log-in of a command of the pipeline.

    A password of a file is passed on as the name of the file; on a cluster, a password of the environment is
    passed on as the name of the variable.

    Raises:
        UsageProblem: a setting that cannot be, or one of another kind of command.
    """
    from mqdssm.pipeline.access import PASSWORD_VARIABLE, PipelineLogIn

    settings = run.loaded.settings
    if settings.forest or settings.catalog:
        raise UsageProblem("this reads whole objects, of one domain: leave --forest and --catalog out")
    login = cast("PipelineLogIn", run.log_in())
    password = run.password()  # asked for at a terminal, or found to be missing, before Java starts
    file = run.loaded.password_file()
    if password is None:
        return login
    if file is not None:
        return login | PipelineLogIn(password_file=file)
    if run.spark().is_cluster and run.loaded.stored_password() is not None:
        return login | PipelineLogIn(password_variable=PASSWORD_VARIABLE)
    return login | PipelineLogIn(password=password)
