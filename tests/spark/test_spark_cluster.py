"""A stand-alone cluster, a master and two workers: commands run on it as on one machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.enterprises.many_objects import fill
from support.spark.cluster import SparkCluster, spark_cluster
from support.spark.export_command import Command, readers, without_engine
from support.spark.killed_command import content

from mqdssm.pipeline.manifest import MANIFEST_NAME, Manifest
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.soak,
    pytest.mark.timeout(900),
]
__all__ = ["spark_cluster"]

QUEUES = 6_000
WAIT_S = 400.0
WHERE = """
import json, sys
from mqdssm.pipeline.spark_options import SparkOptions
from mqdssm.spark.session import spark_session

def look(batches):
    import mqdssm, pyarrow as pa
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"ours": [mqdssm.__file__]})

on = SparkOptions.of(sys.argv[1], sys.argv[2:])
with spark_session("where", brief=True, on=on) as spark:
    rows = spark.range(0, 8, 1, 8).mapInArrow(look, "ours string").collect()
    print(json.dumps([row["ours"] for row in rows]))
"""
HOPELESS = """
import sys
from mqdssm.pipeline.spark_options import SparkOptions
from mqdssm.spark import cluster
from mqdssm.spark.session import spark_session

cluster.EXECUTOR_WAIT_S = 5.0
on = SparkOptions.of(sys.argv[1], [*sys.argv[2:], "spark.executor.memory=512g"])
with spark_session("hopeless", brief=True, on=on) as spark:
    cluster.probe(spark, on)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False) as made:
        fill(made, QUEUES)
        yield made


@pytest.fixture
def command(server, spark_cluster: SparkCluster, tmp_path) -> Iterator[Command]:
    folder = spark_cluster.shared / tmp_path.name
    made = Command(server, folder, QUEUES, (*spark_cluster.options, "--partitions", "4"))
    yield made
    made.end()


def mqdssm(*words: str, server: OpenLdapServer | None = None) -> tuple[int, str, str]:
    """Run the command line; gives exit code, output and errors."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    if server is not None:
        environment |= {
            "MQDSSM_URL": server.url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD_FILE": str(server.folder / "password"),
            "MQDSSM_CA_FILE": server.ca_file,
        }
    ran = subprocess.run(
        [sys.executable, "-m", "mqdssm.cli.main", *words, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        env=environment,
    )
    return ran.returncode, ran.stdout, ran.stderr


def refused(answer: tuple[int, str, str], code: int) -> str:
    """What an error says."""
    assert answer[0] == code, answer
    return str(json.loads(answer[2].splitlines()[-1])["message"])


def program(text: str, cluster: SparkCluster) -> subprocess.CompletedProcess[str]:
    words = [word for word in cluster.options if not word.startswith("--")]
    return subprocess.run(
        [sys.executable, "-c", text, *words],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def test_export_and_validate(command, server, spark_cluster, tmp_path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    conf = ["enabled=true", "compress=false", f"dir={events.as_uri()}"]
    log = [word for one in conf for word in ("--spark-conf", f"spark.eventLog.{one}")]
    code, _, err = command.ended(command.start(*log))
    assert code == 0, err
    command.check()
    assert spark_cluster.worked() == {0, 1}
    options = [*spark_cluster.options, "--spark-shared", str(spark_cluster.shared)]
    there = mqdssm("validate", str(command.folder), *options)
    here = mqdssm("validate", str(command.folder))
    assert (there[0], without_engine(there[1])) == (here[0], without_engine(here[1]))
    assert here[1].count("\n") > 1000
    written = [*events.rglob("*"), *spark_cluster.folder.rglob("*")]
    texts = [path.read_bytes() for path in written if path.is_file()]
    assert any(b"spark.master" in text for text in texts)
    assert not any(server.password.encode() in text for text in texts)
    assert [path.name for path in spark_cluster.shared.iterdir()] == [command.folder.name]


def test_executors_run_the_package_of_the_driver(spark_cluster) -> None:
    ran = program(WHERE, spark_cluster)
    assert ran.returncode == 0, ran.stderr
    places = json.loads(ran.stdout)
    assert places
    assert all("/mqdssm.zip/mqdssm/__init__.py" in place for place in places), places


def test_a_cluster_that_gives_no_executor(spark_cluster) -> None:
    ran = program(HOPELESS, spark_cluster)
    assert ran.returncode == 1
    assert "ConfigError: the cluster gave no executor within 5 s: see whether it has workers" in ran.stderr


def test_inventory_of_a_directory(server, spark_cluster) -> None:
    options = [*spark_cluster.options, "--spark-shared", str(spark_cluster.shared)]
    code, out, err = mqdssm("inventory", *options, server=server)
    assert code == 0, err
    assert out.count("\n") > QUEUES
    before = sorted(path.name for path in spark_cluster.shared.iterdir())
    assert not [name for name in before if name.startswith("mqdssm-")]


def test_mqis_tables(spark_cluster, tmp_path) -> None:
    folder = spark_cluster.shared / "mqis"
    made = mqdssm(
        "generate",
        "--sites",
        "2",
        "--machines",
        "3",
        "--queues",
        "20",
        "--format",
        "mqis",
        "--to",
        str(folder),
    )
    assert made[0] == 0, made
    options = [*spark_cluster.options, "--spark-shared", str(spark_cluster.shared)]
    there = mqdssm("validate", "--mqis", str(folder), *options)
    here = mqdssm("validate", "--mqis", str(folder))
    assert (there[0], without_engine(there[1])) == (here[0], without_engine(here[1])), there[2]


def test_diff(command, server, spark_cluster, tmp_path) -> None:
    """An export is equal to its directory; other tables differ as they do without a cluster."""
    assert command.ended(command.start())[0] == 0
    options = [*spark_cluster.options, "--spark-shared", str(spark_cluster.shared)]
    code, out, err = mqdssm("diff", str(command.folder), server.url, *options, server=server)
    (summary,) = map(json.loads, out.splitlines())
    assert (code, summary["engine"]) == (0, "spark"), err
    assert summary["a"]["objects"] == summary["b"]["objects"] == QUEUES
    folders = [spark_cluster.shared / tmp_path.name / name for name in ("sound", "broken")]
    for folder in folders:
        sample = EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=1)
        generate(sample, folder, SampleForm.MQIS, faults=folder.name == "broken")
    sides = [str(folder) for folder in folders]
    there, here = mqdssm("diff", *sides, *options), mqdssm("diff", *sides, "--engine", "local")
    assert (there[0], content(there[1])) == (here[0], content(here[1])), there[2]
    assert (here[0], here[1].count("\n") > 50) == (1, True)
    assert not [path for path in spark_cluster.shared.iterdir() if path.name.startswith("mqdssm-")]


def test_folders_that_are_not_shared(command, spark_cluster) -> None:
    lonely = spark_cluster.lonely
    if lonely is None:
        pytest.skip("no mounts of our own")
    words = " as this machine does (No such file or directory): use a folder that all machines of the cluster"
    command.folder = lonely / "out"
    said = refused(command.ended(command.start()), 6)
    assert words in said
    assert f"does not see {lonely}/out/.export/plan.json" in said
    command.folder = spark_cluster.shared / "fine"
    assert command.ended(command.start())[0] == 0
    needs = refused(mqdssm("validate", str(command.folder), *spark_cluster.options), 6)
    assert needs.endswith("name one with --spark-shared")
    options = [*spark_cluster.options, "--spark-shared", str(lonely)]
    assert words in refused(mqdssm("validate", str(command.folder), *options), 6)
    shutil.copytree(command.folder, lonely / "copy")
    options[-1] = str(spark_cluster.shared)
    assert words in refused(mqdssm("validate", str(lonely / "copy"), *options), 6)


def test_wrong_credentials_on_executors(command, tmp_path) -> None:
    file = tmp_path / "theirs"
    theirs = ("--spark-conf", f"spark.executorEnv.MQDSSM_PASSWORD_FILE={file}")
    said = refused(command.ended(command.start(*theirs)), 6)
    assert f"the password file {file} cannot be read: No such file or directory (on executor " in said
    file.write_text("s3cr3t-theirs\n")
    answer = command.ended(command.start("--resume", *theirs))
    said = refused(answer, 3)
    assert "unknown user or wrong password" in said
    assert "(on executor " in said
    assert "s3cr3t" not in answer[1] + answer[2]
    assert not (command.folder / MANIFEST_NAME).exists()
    file.write_text((command.server.folder / "password").read_text())
    assert command.ended(command.start("--resume", *theirs))[0] == 0
    command.check()


@pytest.mark.parametrize("what", ["executor", "python", "machine"])
def test_a_part_of_the_cluster_is_killed(command, spark_cluster, what) -> None:
    process = command.start()
    command.in_the_middle(process)
    executors = spark_cluster.executors()
    if what == "machine":
        spark_cluster.lose(0)
    else:
        killed = executors[:1] if what == "executor" else [one for pid in executors for one in readers(pid)]
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
    try:
        code, _, err = command.ended(process)
        assert code == 0, err  # Spark gives the work to another one
        command.check()
    finally:
        if what == "machine":
            spark_cluster.replace(0)


def test_the_program_is_killed(command) -> None:
    process = command.start()
    before = command.in_the_middle(process)
    process.kill()
    process.communicate()
    code, _, err = command.ended(command.start("--resume"))
    assert code == 0, err
    manifest: Manifest = command.check()
    assert manifest.resumed == 1
    assert sum(len(one.files) for one in manifest.types.values()) >= before
