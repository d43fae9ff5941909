"""``mqdssm demo``: the life of an enterprise in a private directory.

The enterprise is migrated, changed, exported and validated.
The local engine does everything. Where Java is, export and validation run once more on Spark, and
are compared.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqdssm.cli.demo import steps
from mqdssm.cli.demo.stage import DemoStage, login_of
from mqdssm.cli.exits import ExitCode
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
from mqdssm.cli.sandbox import import_testing_module

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.samples.plan import EnterprisePlan
    from mqdssm.testing.openldap import OpenLdapServer

SEED: Final = 1
USERS_A_MACHINE: Final = 4
REPORT: Final = "report.html"
ENTERPRISE: Final = "enterprise"


def demo(
    run: CommandRun,
    *,
    sites: Annotated[int, typer.Option("--sites", metavar="N", min=1, help="Number of sites.")] = 3,
    machines: Annotated[
        int, typer.Option("--machines", metavar="N", min=1, help="Number of machines.")
    ] = 200,
    queues: Annotated[int, typer.Option("--queues", metavar="N", min=0, help="Number of queues.")] = 5000,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark",
            help="Export and validate a second time on Spark. Default: if Java is installed.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Keep the directory, the export and the report in this folder.",
        ),
    ] = None,
) -> int:
    """Demonstrate migration, export, validation and report on a private server.

    A synthetic enterprise is migrated into a private OpenLDAP.
    The MQIS tables of the enterprise contain planted defects. Exit code 1 if a defect is neither rejected nor
    found, or if something else is. Java and pyspark are not needed; if they are installed, Spark must give
    the same files and findings. The demo uses a temporary folder and no server of yours.
    """
    from mqdssm.errors import require_packages

    plan = _plan(sites, machines, queues)
    require_packages("pyarrow", "numpy", "sqlglot", "jinja2", extra="pipeline")
    with_spark = _has_spark(is_asked=bool(spark)) if spark is not False else False
    import_testing_module("openldap_config").require_software()
    stage = DemoStage(run.output)
    with _open_folder(keep) as folder, contextlib.ExitStack() as stack:
        stage.text("A demonstration of mqdssm: MSMQ's objects in an LDAP directory, as [MS-MQDSSM] has it.\n")
        server = _start(stage, stack, folder / "directory")
        report = _place_of_report(keep)
        is_right = _migrate_enterprise(stage, server, plan, folder, report, with_spark=with_spark)
    _suggest_next(stage, keep)
    stage.end(report)
    return ExitCode.FINE if is_right else ExitCode.FINDINGS


def _migrate_enterprise(
    stage: DemoStage,
    server: "OpenLdapServer",
    plan: "EnterprisePlan",
    folder: Path,
    report: Path,
    *,
    with_spark: bool,
) -> bool:
    """Migrate, export and validate the enterprise of the demonstration.

    Returns True if every planted defect is accounted for.
    """
    tables, exported = folder / ENTERPRISE, folder / "export"
    users = steps.make(stage, plan, tables).objects["User"]
    steps.make_accounts(stage, server, plan, users, folder / steps.SID_MAP)
    with contextlib.ExitStack() as stack:
        migrated = steps.migrate(stage, server, folder, tables)
        _look(stage, stack, server, plan)
        steps.export(stage, server, exported)
        validation = stack.enter_context(steps.validate_export(stage, exported, report))
        is_right = steps.compare_with_planted(stage, migrated, validation, folder, tables)
        if with_spark:
            is_right &= steps.is_same_on_spark(stage, server, exported, validation)
    return is_right


def _look(
    stage: DemoStage, stack: contextlib.ExitStack, server: "OpenLdapServer", plan: "EnterprisePlan"
) -> None:
    """Search and change objects, leaving the migrated ones as they were."""
    directory = _connect(stage, stack, server)
    steps.search(stage, directory)
    steps.change(stage, directory, plan.name_machine(0))


def _plan(sites: int, machines: int, queues: int) -> "EnterprisePlan":
    from mqdssm.samples.plan import EnterprisePlan

    with convert_usage_problems():
        return EnterprisePlan(
            sites=sites, machines=machines, queues=queues, users=machines // USERS_A_MACHINE, seed=SEED
        )


def _has_spark(*, is_asked: bool) -> bool:
    """Return True if Spark can be used, for one of the steps.

    Args:
        is_asked: its lack is an error.

    Raises:
        ConfigError: no Java or pyspark, and it was asked for.
    """
    from mqdssm.errors import ConfigError
    from mqdssm.spark.session import check_spark

    try:
        check_spark()
    except ConfigError as error:
        if is_asked:
            raise ConfigError(f"{error}; or see all the rest: mqdssm demo --no-spark") from error
        return False
    return True


@contextlib.contextmanager
def _open_folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mqdssm-demo-") as name:
            yield Path(name)
        return
    from mqdssm.errors import ConfigError, convert_folder_errors

    with convert_folder_errors(f"{keep} cannot be used"):
        keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise ConfigError(f"{keep} is not empty: the demonstration needs a folder of its own")
    yield keep.absolute()


def _place_of_report(keep: Path | None) -> Path:
    """Return the path of the report.

    The report is in the kept folder, or in a new folder that stays.
    """
    folder = Path(tempfile.mkdtemp(prefix="mqdssm-demo-report-")) if keep is None else keep.absolute()
    return folder / REPORT


def _start(stage: DemoStage, stack: contextlib.ExitStack, folder: Path) -> "OpenLdapServer":
    from mqdssm.testing.openldap import OpenLdapServer

    with stage.step("A private OpenLDAP with the MSMQ schema"):
        stage.call("server = OpenLdapServer()      # from mqdssm.testing")
        server = stack.enter_context(OpenLdapServer(folder, durable=False))
        stage.result(f"{server.url}, StartTLS offered, root {server.base_dn}; nobody else can see it")
    return server


def _connect(stage: DemoStage, stack: contextlib.ExitStack, server: "OpenLdapServer") -> "Directory":
    import mqdssm

    with stage.step("Connect"):
        stage.call(
            "directory = mqdssm.connect(server.url, user=server.user, password=…, ca_file=server.ca_file)"
        )
        directory = stack.enter_context(mqdssm.connect(server.url, **login_of(server)))
        session = directory.session
        stage.result(f"{session.profile.title}, certificate verified, root {session.naming.root}")
    return directory


def _suggest_next(stage: DemoStage, keep: Path | None) -> None:
    with stage.step("What to try next"):
        if keep is None:
            stage.command(
                "mqdssm sandbox start ~/msmq --computer web01      # a private directory that stays"
            )
        else:
            stage.command(f"mqdssm sandbox start {keep / 'directory'}      # what you just saw, kept")
        stage.command("mqdssm doctor      # once MQDSSM_URL and the others are set as the sandbox says")
        if keep is None:
            stage.command("mqdssm demo --keep ~/msmq-demo      # tables, plan and rejects stay")
        stage.command("mqdssm inventory --html inventory.html      # who has what, who may do what")
        stage.command("mqdssm --help")
        stage.result("docs/README.md says what to read; in Python: import mqdssm; help(mqdssm.Directory)")


app = declare_command(
    demo,
    connects=False,
    examples=("mqdssm demo", "mqdssm demo --no-spark", "mqdssm demo --keep ~/msmq-demo"),
)
