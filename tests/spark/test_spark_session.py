"""The session: quiet, joined where there is one, and nothing left behind."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from support.project.source_tree import ROOT

from mqdssm.errors import ConfigError, ObjectNotFound
from mqdssm.pipeline.failures import SparkFailed, pack
from mqdssm.spark.session import spark_session

pytestmark = [pytest.mark.spark]

PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from support.mqis.comparison import KilledOnce
from mqdssm.pipeline.export.run import export
from mqdssm.pipeline.spark_options import SparkOptions
from mqdssm.pipeline.validate.run import validation
from mqdssm.spark.runner import SparkRunner
from mqdssm.spark.session import BRIEF_JAVA, spark_session

real = SparkRunner.run

def run(self, job, **more):  # the first piece of all kills its worker
    return real(self, replace(job, work=KilledOnce(job.work, Path(sys.argv[3]))), **more)

SparkRunner.run = run
on = SparkOptions(conf={"spark.driver.extraJavaOptions": BRIEF_JAVA})
manifest = export(sys.argv[1], ["queue"], sys.argv[2], engine="spark", on=on)
with validation(sys.argv[2], engine="spark") as found:
    print(manifest.types["queue"].rows, found.summary.count, manifest.started.tzname())
    with spark_session() as spark:  # Spark itself imports packages whose names begin with pyspark_
        try:
            spark.read.format("MQDSSM").load()
        except Exception as error:
            print("option object is missing" in str(error))
"""


MORTAL = """
import os, signal, time
from pyspark import SparkContext
from mqdssm.pipeline.failures import SparkFailed
from mqdssm.spark.session import spark_session

def kill():
    os.kill(SparkContext._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)

def count(session):
    counter = session.sparkContext.accumulator(0)  # for which Java keeps a connection to us
    session.sparkContext.parallelize([1, 2]).foreach(counter.add)
    return counter.value

try:
    with spark_session("dies", cores=1, memory="1g", brief=True) as session:
        print(count(session))
        kill()
        count(session)
except SparkFailed as error:
    print(str(error).partition(";")[0])
never_left = spark_session("is not stopped", cores=1, memory="1g", brief=True)
print(count(never_left.__enter__()))
"""


@pytest.mark.soak  # two more JVMs
def test_a_java_that_dies_is_told_in_words_and_another_one_started(tmp_path) -> None:
    """Nothing of it is printed: neither when it dies, nor at the end of the program."""
    ran = subprocess.run(
        [sys.executable, "-c", MORTAL],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    words = "Spark failed: its Java was killed, as a machine does that has no memory left"
    assert (ran.stdout.splitlines(), ran.stderr, ran.returncode) == (["3", words, "3"], "", 0)
    assert [one.name.rpartition("-")[0] for one in tmp_path.iterdir()] == ["mqdssm-spark"]  # with its log


def test_a_session_of_somebody_elses_is_joined_and_neither_changed_nor_stopped(spark) -> None:
    key = "spark.sql.session.timeZone"
    spark.conf.set(key, "Asia/Tokyo")
    try:
        with spark_session("other", conf={"spark.sql.shuffle.partitions": "3"}) as joined:
            assert joined.sparkContext is spark.sparkContext
            assert joined.conf.get(key) == "UTC"
            assert joined.conf.get("spark.sql.shuffle.partitions") == "3"
            assert joined.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"
        assert spark.conf.get(key) == "Asia/Tokyo"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
        assert SparkSession.getActiveSession() is spark
        assert spark.range(3).count() == 3
    finally:
        spark.conf.set(key, "UTC")


def test_settings_of_the_session_that_we_start(spark) -> None:
    conf = dict(spark.sparkContext.getConf().getAll())
    assert conf["spark.master"] == "local[2]"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    # what is kept for the web pages that there are not
    assert conf["spark.ui.retainedStages"] == conf["spark.sql.ui.retainedExecutions"] == "20"
    assert conf["spark.sql.maxPlanStringLength"] == "65536"
    assert conf["spark.buffer.pageSize"] == "4m"  # what a sort takes at least


def test_the_environment_is_as_it_was(spark) -> None:
    assert "PYSPARK_PYTHON" not in os.environ
    assert "SPARK_LOCAL_IP" not in os.environ


def test_workers_run_our_python_and_find_our_modules(spark) -> None:
    def look(batches):
        import sys

        import pyarrow as pa

        import mqdssm

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable], "ours": [mqdssm.__file__]})

    import mqdssm

    found = spark.range(1).mapInArrow(look, "python string, ours string").collect()
    assert [tuple(row) for row in found] == [(sys.executable, mqdssm.__file__)]


def test_errors_of_our_workers_come_back_as_they_were(spark) -> None:
    def fail(batches):
        raise pack(ObjectNotFound("gone", dn="CN=q"))

    with pytest.raises(ObjectNotFound, match="gone; object: CN=q"), spark_session() as joined:
        joined.range(1).mapInArrow(fail, "id long").collect()


def test_other_errors_of_sparks_are_one_of_ours(spark) -> None:
    with pytest.raises(SparkFailed, match=r"Spark failed: .*no_such_table"), spark_session() as joined:
        joined.sql("select * from no_such_table")
    with pytest.raises(SparkFailed, match=r"Spark failed: .*division by zero"), spark_session() as joined:
        joined.range(1).mapInArrow(lambda batches: iter([1 / 0]), "id long").collect()


def test_errors_of_ours_are_left_alone(spark) -> None:
    with pytest.raises(ConfigError, match="mine"), spark_session():
        raise ConfigError("mine")


@pytest.mark.soak
@pytest.mark.server
@pytest.mark.timeout(300)
def test_a_program_of_its_own_is_quiet_and_leaves_nothing(enterprise, tmp_path) -> None:
    """Though a worker is killed once. Its Spark knows the data source by the package of the wheel."""
    temporary, installed = tmp_path / "tmp", tmp_path / "installed"
    temporary.mkdir()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    (source,) = [path for path, target in included.items() if target == "pyspark_mqdssm/__init__.py"]
    (installed / "pyspark_mqdssm").mkdir(parents=True)
    shutil.copy(ROOT / source, installed / "pyspark_mqdssm" / "__init__.py")
    python_path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", installed)))
    arguments = enterprise.server.ldapi_url, str(tmp_path / "out"), str(tmp_path / "killed")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": python_path, "TZ": "Asia/Tokyo"},
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("3 0 UTC\nTrue\n", "", 0)
    assert not list(temporary.iterdir())
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["installed", "killed", "out", "password", "tmp"]


def test_what_spark_refuses_is_not_printed(spark, capfd) -> None:
    """Neither with Java's stack nor as JSON: whoever catches it says it in words."""
    with pytest.raises(AnalysisException, match="nothing"):
        spark.range(1).selectExpr("nothing(id)")
    assert capfd.readouterr() == ("", "")
