"""Applying plans by the engine of the test, the local one in this process; the directory before and after."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mqdssm
from mqdssm.directory.filters import Present
from mqdssm.directory.session import Session
from mqdssm.model.dn import normalize
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.migrate.applying import Applying, ApplyOptions, check_target, refuse
from mqdssm.pipeline.migrate.plan_check import check_files, check_operations
from mqdssm.pipeline.migrate.plan_file import MigrationPlan, PlanOperation
from mqdssm.pipeline.migrate.report import MigrationReport
from mqdssm.pipeline.runner import Calls, Job, Runner, StopRequest
from mqdssm.samples import elements
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer
from support.mqis.plans import access_for, operations_of, plan_here
from support.spark.engines import chosen_runner

SAMPLE = {"sites": 3, "machines": 12, "queues": 60, "users": 3, "seed": 1}
Entries = dict[str, dict[str, list[bytes]]]


class Doing(LocalRunner):
    """The local runner in this process, whose pieces are done by a function of a test."""

    def __init__(self, do: Callable[[Callable[[int, StopRequest], Any], int], list[Any]]) -> None:
        super().__init__(1)
        self._do = do

    def run(self, job: Job, **_: Any) -> list[Any]:
        assert isinstance(job.work, Calls)
        return self._do(job.work.do, len(job.names))


class Preceded:
    """A runner that tells a function of a test what it is about to do."""

    def __init__(self, runner: Runner, tell: Callable[[Any], None]) -> None:
        self._runner, self._tell = runner, tell
        self.concurrency = runner.concurrency

    def run(self, job: Job, **more: Any) -> list[Any]:
        assert isinstance(job.work, Calls)
        self._tell(job.work.do)
        return self._runner.run(job, **more)


def apply_here(
    server: Any,
    folder: Path,
    access: DirectoryAccess | None = None,
    *,
    do: Any = None,
    before: Any = None,
    watch: Any = None,
    **options: Any,
) -> MigrationReport:
    """Apply a plan as `apply_plan` does.

    Args:
        server: where.
        folder: of the plan.
        access: of the workers.
        do: does all pieces of a job, in this process whatever the engine.
        before: is called with the work of each job before it is done.
        watch: is told how far it is.
        **options: of `ApplyOptions`.
    """
    plan, chosen = MigrationPlan.load(folder), ApplyOptions(**options)
    refuse(plan, chosen)
    check_files(folder, [file for level in plan.levels for file in level.files])
    check_operations(plan, folder, chosen.allow_deletes)
    access = access or access_for(server, folder)
    runner: Runner = chosen_runner() if do is None else Doing(do)
    if before is not None:
        runner = Preceded(runner, before)
    with access.connect(read_only=False) as directory:
        check_target(plan, directory.session)
        return Applying(plan, chosen, access, folder, directory.session, runner, watch).run()


def operations_in(folder: Path) -> list[PlanOperation]:
    """All operations of a plan, in their order."""
    return operations_of(MigrationPlan.load(folder), folder)


def sample_plan(server: OpenLdapServer, folder: Path, **numbers: int) -> tuple[MigrationPlan, Path]:
    """A plan to migrate a sample enterprise, whose users are there."""
    sample = EnterprisePlan(**(SAMPLE | numbers), root=server.base_dn)
    generate(sample, folder / "mqis", SampleForm.MQIS)
    lines = []
    for number in range(sample.users):
        server.add_user(elements.make_user_name(sample, number))
        lines.append(f"{sample.make_user_sid(number)},{elements.make_user_name(sample, number)}\n")
    (folder / "sids.csv").write_text("".join(lines))
    plan = plan_here(
        server, folder / "mqis", folder / "plan", create_computers=True, sid_map=folder / "sids.csv"
    )
    return plan, folder / "plan"


def login_to(server: OpenLdapServer, folder: Path) -> dict[str, str]:
    """What the command line's environment says of a server."""
    (folder / "pw").write_text(server.password)
    return {
        "MQDSSM_URL": server.url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD_FILE": str(folder / "pw"),
        "MQDSSM_CA_FILE": server.ca_file,
    }


def tables(server: OpenLdapServer, folder: Path, **numbers: int) -> Path:
    """MQIS tables of a sample enterprise without users."""
    sample = EnterprisePlan(**(SAMPLE | {"users": 0} | numbers), root=server.base_dn)
    generate(sample, folder / "mqis", SampleForm.MQIS)
    return folder / "mqis"


def connect(server: Any) -> mqdssm.Directory:
    return mqdssm.connect(
        server.url, user=server.user, password=server.password, ca_file=server.ca_file, check_msmq=False
    )


def everything(server: Any) -> Entries:
    """All entries with all their attributes, but what a server writes down by itself."""
    with connect(server) as directory:
        return entries_of(directory.session)


def entries_of(session: Session) -> Entries:
    found: Entries = {}
    for base in session.naming.guid_bases:
        for entry in session.find(base, Present("objectClass"), ["*"]):
            found[normalize(entry.dn)] = {name: sorted(raws) for name, raws in entry.attributes.items()}
    return found


def undo(server: OpenLdapServer, folder: Path) -> None:
    """Load the undo file with OpenLDAP's own tool."""
    tool = shutil.which("ldapmodify")
    assert tool is not None
    command = [tool, "-c", "-H", server.url, "-ZZ", "-x", "-D", server.user, "-w", server.password]
    environment = {"LDAPTLS_CACERT": server.ca_file, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, "-f", str(folder / "undo.ldif")],
        capture_output=True,
        env=environment,
        timeout=900,
        check=False,
    )
    assert done.returncode in {0, 32}, done.stderr.decode()
