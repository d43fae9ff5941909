"""MQIS tables in a real PostgreSQL: what is planned from it is what is planned from the files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.mqis.postgresql import DRIVER, PASSWORD, postgresql, why_none
from support.project.source_tree import ROOT

from mqdssm.pipeline.migrate.plan_file import MigrationPlan, read_operations
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.testing.openldap_start import free_ports

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

MAPPING = f"""
[jdbc]
jars = ["{DRIVER}"]
user = "reader"
password_file = "database-password"
fetch_rows = 100

[tables.Queue]
partition_column = "row_number"
bounds = [1, 400]
partitions = 3
columns = {{ PROPID_Q_LABEL = {{ column = "propid_q_label", code_page = "gb18030" }} }}
"""


def planned(folder: Path, source: str, server: OpenLdapServer, *options: str, code: int = 1) -> str:
    """Run the command as a program of its own: a driver's file must be known before Java starts."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MQDSSM_URL": server.url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD": server.password,
        "MQDSSM_CA_FILE": server.ca_file,
    }
    command = [sys.executable, "-m", "mqdssm.cli.main", "plan", source, "--to", str(folder), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert "Traceback" not in said
    assert PASSWORD not in said
    return said


def contents(folder: Path) -> list[tuple[str, str, str, dict[str, tuple[bytes, ...]]]]:
    plan = MigrationPlan.load(folder)
    files = [file for level in plan.levels for file in level.files]
    return sorted(
        (one.dn, one.role, one.action, dict(sorted(one.values.items())))
        for file in files
        for one in read_operations(folder / file.path)
    )


def test_a_database_is_planned_as_its_files_are(tmp_path):
    if reason := why_none():
        pytest.skip(reason)
    generate(
        EnterprisePlan(sites=3, machines=30, queues=400, users=4, seed=2), tmp_path / "mqis", SampleForm.MQIS
    )
    (tmp_path / "mapping.toml").write_text(MAPPING)
    (tmp_path / "database-password").write_text(PASSWORD + "\n")
    mapping = ["--mapping", str(tmp_path / "mapping.toml"), "--create-computers"]
    with OpenLdapServer(durable=False) as server, postgresql(free_ports(1)[0]) as database:
        database.load(tmp_path / "mqis")
        planned(tmp_path / "files", str(tmp_path / "mqis"), server, "--create-computers")
        tables = "".join(
            f"[tables.{name}]\n" for name in ("Enterprise", "Site", "RoutingLink", "Machine", "User")
        )
        (tmp_path / "mapping.toml").write_text(MAPPING + tables)
        planned(tmp_path / "database", database.url, server, *mapping)
        assert contents(tmp_path / "database") == contents(tmp_path / "files")
        for path in (tmp_path / "database").rglob("*"):
            assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()

        (tmp_path / "mapping.toml").write_text(MAPPING + "[tables.Site]\n[tables.Machine]\n")
        database.run("alter table site rename to places")
        said = planned(tmp_path / "none", database.url, server, *mapping, code=6)
        assert f"{database.url} has no table Site: name it in the --mapping file" in said
        (tmp_path / "mapping.toml").write_text(MAPPING + '[tables.Site]\ntable = "sites"\n')
        said = planned(tmp_path / "a", database.url, server, *mapping, code=6)
        assert f"{database.url}: table sites cannot be read: " in said
        assert 'relation "sites" does not exist' in said
        (tmp_path / "mapping.toml").write_text(MAPPING)
        (tmp_path / "database-password").write_text("wrong")
        said = planned(tmp_path / "b", database.url, server, *mapping, code=6)
        assert 'password authentication failed for user "reader"' in said


@pytest.mark.skipif(not DRIVER.exists(), reason=f"{DRIVER} is missing: .ci/setup test installs it")
def test_a_database_that_is_not_there(tmp_path):
    (tmp_path / "mapping.toml").write_text(f'[jdbc]\njars = ["{DRIVER}"]\n')
    mapping = ["--mapping", str(tmp_path / "mapping.toml")]
    with OpenLdapServer(durable=False) as server:
        for where, words in (
            ("no.such.host.invalid:5432", "there is no host no.such.host.invalid; is its name right?"),
            ("127.0.0.1:1", "Connection refused; is it running, and are host and port right?"),
        ):
            url = f"jdbc:postgresql://{where}/mqis"
            said = planned(tmp_path / "plan", url, server, *mapping, code=3)
            assert f"{url}: the database is not reached: {words}" in said
