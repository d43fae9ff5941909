"""MQIS tables in a real PostgreSQL: what is planned from it is what is planned from the files.

Bad rows are planned from Derby in memory, which comes with Spark: the session of all tests has it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.mqis.applied_plans import connect, login_to
from support.mqis.plans import lines_of, rejects_of
from support.mqis.postgresql import DRIVER, PASSWORD, postgresql, why_none
from support.project.source_tree import ROOT
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app
from mqdssm.pipeline.migrate.plan_file import MigrationPlan, read_operations
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.testing.openldap_start import free_ports

pytestmark = pytest.mark.timeout(600)

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


@pytest.mark.soak
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


@pytest.mark.soak
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


DERBY = {"url": "jdbc:derby:memory:rejects;create=true", "driver": "org.apache.derby.jdbc.EmbeddedDriver"}
PARIS = "11111111-0000-4000-8000-000000000001"
WEB01 = "22222222-0000-4000-8000-000000000001"
QUEUES = [f"33333333-0000-4000-8000-00000000000{number}" for number in range(1, 5)]
ROWS = {
    "Site": ("PROPID_S_SITEID string, PROPID_S_PATHNAME string", [(PARIS, "Paris")]),
    "Machine": (
        "PROPID_QM_MACHINE_ID string, PROPID_QM_PATHNAME string, PROPID_QM_SITE_ID string",
        [(WEB01, "web01", PARIS)],
    ),
    "Queue": (
        "PROPID_Q_INSTANCE string, PROPID_Q_PATHNAME string, PROPID_Q_LABEL string",
        [
            (QUEUES[0], r"web01\orders", "fine"),
            (QUEUES[1], r"gone\orders", "no machine"),
            (QUEUES[2], r"web01\invoices", "fine, too"),
            ("no GUID", r"web01\letters", "no number"),
        ],
    ),
}
"""Table -> columns as Spark takes them, and rows, of which two queues are bad."""


@pytest.fixture
def mapping(spark, tmp_path) -> Path:
    """Fill Derby, and name its tables."""
    log = str(tmp_path / "derby.log")  # instead of one in the folder where the tests run
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", log)
    for table, (columns, rows) in ROWS.items():
        frame = spark.createDataFrame(rows, columns).coalesce(1)
        frame.write.jdbc(DERBY["url"], f"MQIS_{table}", "overwrite", {"driver": DERBY["driver"]})
    names = "".join(f'[tables.{table}]\ntable = "MQIS_{table}"\n' for table in ROWS)
    (tmp_path / "mapping.toml").write_text(f'[jdbc]\ndriver = "{DERBY["driver"]}"\n{names}')
    return tmp_path / "mapping.toml"


def run(code: int, *words: str, **login: str) -> str:
    done = CliRunner().invoke(app, words, env=login)
    assert done.exit_code == code, done.output
    return done.output


def assert_in_place(reject: dict[str, Any], table: str, number: int) -> None:
    """A reject names the row of the database by table and number, and has its values."""
    place = {"table": table, "row": number, "file": f"MQIS_{table}", "file_row": number}
    assert reject.items() >= place.items()
    assert tuple(reject["values"].values()) == ROWS[table][1][number - 1]


def test_bad_rows_of_a_database_are_named(mapping, tmp_path):
    """By table, row and values: the copy that they were read from is gone when somebody reads this."""
    plan = tmp_path / "plan"
    words = ["plan", DERBY["url"], "--to", str(plan), "--mapping", str(mapping), "--create-computers"]
    run(1, *words, "--to-ldif", str(tmp_path / "ldif"), "--naming-context", "DC=example,DC=com")
    rejects = {one["values"]["PROPID_Q_LABEL"]: one for one in rejects_of(plan, "Queue")}
    assert rejects.keys() == {"no machine", "no number"}
    assert_in_place(rejects["no machine"], "Queue", 2)
    assert_in_place(rejects["no number"], "Queue", 4)
    assert "gone" in rejects["no machine"]["reason"]
    assert rejects["no number"]["reason"] == "'no GUID' is no GUID"
    documents = [path for path in plan.rglob("*.json*") if path.is_file()]
    named = set(re.findall(r"[^\s\"']*\.parquet", "".join(path.read_text() for path in documents)))
    assert [name for name in named if not (plan / name).exists()] == []


def test_rows_of_a_database_that_the_target_refuses_are_named(mapping, tmp_path):
    """When the plan is applied the database is not asked any more."""
    plan = tmp_path / "plan"
    with OpenLdapServer(durable=False) as server:
        login = login_to(server, tmp_path)
        words = ["plan", DERBY["url"], "--to", str(plan), "--mapping", str(mapping), "--create-computers"]
        run(1, *words, **login)
        with connect(server) as directory:
            directory.create(mqdssm.Site(name="Paris"))
        said = run(1, "apply", str(plan), "--engine", "spark", **login)
    assert "6 read, 0 written, 0 equal, 6 rejected, 0 lost" in said
    refused = {(one["table"], one["row"]): one for one in lines_of(plan / "rejects" / "applied.jsonl")}
    # the two other queues were rejected by the plan
    assert refused.keys() == {("Site", 1), ("Machine", 1), ("Queue", 1), ("Queue", 3)}
    for (table, number), reject in refused.items():
        assert_in_place(reject, table, number)
    assert "CN=Paris" in refused["Site", 1]["dn"]
    assert "which was refused" in refused["Queue", 3]["reason"]
