"""Log-in of the pipeline's commands, from their settings."""

from typing import TYPE_CHECKING

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.run import CommandRun

if TYPE_CHECKING:
    from mqdssm.pipeline.access import PipelineLogIn


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
    login = PipelineLogIn(
        user=settings.user,
        tls=settings.tls,
        ca_file=settings.ca_file,
        profile=settings.profile,
        naming_context=settings.naming_context,
        allow_clear_text=settings.allow_clear_text,
        allow_replicated=settings.allow_replicated,
        authentication=settings.authentication,
        keytab=settings.keytab,
        kerberos_host=settings.kerberos_host,
    )
    password = run.password()  # asked for at a terminal, or found to be missing, before Java starts
    file = run.loaded.password_file()
    if password is None:
        return login
    if file is not None:
        return login | PipelineLogIn(password_file=file)
    if run.spark().is_cluster and run.loaded.stored_password() is not None:
        return login | PipelineLogIn(password_variable=PASSWORD_VARIABLE)
    return login | PipelineLogIn(password=password)
