"""``df.write.format("mqdssm")``: objects of a data frame become objects of a directory, once."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import mqdssm
from mqdssm.pipeline.diff.run import ComparisonRequest, compare_sources
from mqdssm.pipeline.diff.sides import GivenSide
from mqdssm.pipeline.manifest import MANIFEST_NAME, hash_file
from mqdssm.spark.source import read, register
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.timeout(600)


def write(spark, frame, enterprise, element, **options) -> None:
    register(spark)
    given = enterprise.options(object=element, **options)
    frame.write.format("mqdssm").mode("append").options(**given).save()


def journal_of(folder: Path) -> tuple[dict, list[dict]]:
    """The manifest of the newest write, and what became of each row."""
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    manifest = json.loads((newest / MANIFEST_NAME).read_text())
    rows = []
    for file in manifest["files"]:
        path = newest / file["path"]
        assert hash_file(path) == file["sha256"]
        found = pq.read_table(path).to_pylist()
        assert len(found) == file["rows"]
        rows += found
    assert Counter(row["effect"] for row in rows) == manifest["counts"]
    return manifest, rows


def rows_of(spark, count: int, label: str = "Label ", partitions: int = 2):
    number = F.col("id").cast("string")
    return spark.range(0, count, 1, partitions).select(
        F.concat(F.lit("web01\\made"), number).alias("Pathname"),
        F.concat(F.lit(label), number).alias("Label"),
        F.col("id").alias("Quota"),
    )


def test_queues_are_added(spark, enterprise, tmp_path):
    journal = tmp_path / "journal"
    write(spark, rows_of(spark, 12), enterprise, "queue", journal=str(journal))
    manifest, outcomes = journal_of(journal)
    assert (manifest["complete"], manifest["counts"]) == (True, {"added": 12})
    assert sorted((row["partition"], row["row"]) for row in outcomes) == [
        (part, row) for part in range(2) for row in range(6)
    ]
    with enterprise.connect() as directory:
        made = {q.label: q for q in directory.search(mqdssm.Queue) if q.label.startswith("Label ")}
    assert sorted(q.quota for q in made.values()) == list(range(12))
    assert all(q.security is not None for q in made.values())


@pytest.mark.soak
def test_what_was_read_can_be_written_elsewhere(spark, enterprise, tmp_path):
    """All types that can be written, from one directory into another one, and then once more."""
    with OpenLdapServer(durable=False, unique=False) as server:
        for name in ("web01", "web02"):
            server.add_computer(name)
        secret = tmp_path / "other"
        secret.write_text(server.password)
        there = {
            "url": server.url,
            "user": server.user,
            "cafile": server.ca_file,
            "credentialsfile": str(secret),
        }
        for again in (False, True):
            for element in ("site", "queue-manager", "routing-link", "queue"):
                frame = read(spark, element, **enterprise.options())
                journal = tmp_path / f"journal-{element}"
                options = {**there, "object": element, "journal": str(journal)}
                frame.write.format("mqdssm").mode("append").options(**options).save()
                manifest, _ = journal_of(journal)
                assert set(manifest["counts"]) == {"equal" if again else "added"}, element
        login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        a = GivenSide(urls=(enterprise.server.url,), login=enterprise.access)
        b = GivenSide(urls=(server.url,), login=login)
        types = frozenset(("site", "queue-manager", "routing-link", "queue", "settings"))
        with compare_sources(a, b, ComparisonRequest(types=types, ignored=("settings.Identifier",))) as found:
            differing = [(one.type, one.name, one.attributes) for one in found.differences]
        assert [one for one in differing if one[0] != "settings"] == []


@pytest.mark.soak
def test_errors_reach_the_driver(spark, enterprise, tmp_path):
    rows = rows_of(spark, 3)
    write(spark, rows, enterprise, "queue")
    with pytest.raises(Exception, match="3 of 3 rows were not written"):
        write(spark, rows_of(spark, 3, "other "), enterprise, "queue", journal=str(tmp_path / "journal"))
    assert journal_of(tmp_path / "journal")[0]["counts"] == {"conflict": 3}
    write(spark, rows_of(spark, 3, "other "), enterprise, "queue", onconflict="update")
    with enterprise.connect() as directory:
        assert sum(q.label.startswith("other ") for q in directory.search(mqdssm.Queue)) == 3
    with pytest.raises(Exception, match="use mode append"):
        rows.write.format("mqdssm").mode("overwrite").options(**enterprise.options(object="queue")).save()
    with pytest.raises(Exception, match="has no attribute 'Nothing'"):
        write(spark, rows.withColumnRenamed("Label", "Nothing"), enterprise, "queue")
    with pytest.raises(Exception, match="nobody listens there"):
        write(spark, rows, enterprise, "queue", url="ldap://127.0.0.1:1")


def test_tables_are_refused_before_anything_is_written(spark, enterprise, tmp_path):
    """Decision M100; a write within `foreachBatch` is none of these."""
    register(spark)
    rows = rows_of(spark, 3)
    given = enterprise.options(object="queue")
    as_table = rows.write.format("mqdssm").mode("append").options(**given)
    with pytest.raises(Exception, match=r"is no table of a catalog: .* nothing was written; use save\(\)"):
        as_table.saveAsTable("made")
    with pytest.raises(Exception, match="is no table of a catalog"):
        rows.writeTo("made").using("mqdssm").options(**given).create()
    said = ", ".join(f"{name} '{value}'" for name, value in given.items())
    with pytest.raises(Exception, match="is no table of a catalog"):
        spark.sql(f"create table made using mqdssm options ({said}) as select 'web01\\\\made' as Pathname")
    with pytest.raises(Exception, match="use CREATE TEMPORARY VIEW"):
        spark.sql(f"create table made using mqdssm options ({said})")
    assert not spark.catalog.tableExists("made")

    def labels() -> list[str]:
        with enterprise.connect() as directory:
            return [q.label for q in directory.search(mqdssm.Queue) if q.label.startswith("Label ")]

    assert labels() == []
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one").write_text("a line\n")
    stream = spark.readStream.text(str(tmp_path / "in")).writeStream
    query = stream.foreachBatch(lambda _, __: as_table.save()).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    assert len(labels()) == 3


FAILING = """
import os, signal, sys
from pyspark import TaskContext
from pyspark.sql import functions as F
from mqdssm.spark.session import spark_session
from mqdssm.spark.source import MqdssmDataSource
from mqdssm.spark.writer import MqdssmWriter

url, user, ca, secret, journal = sys.argv[1:]

class LateWriter(MqdssmWriter):
    def write(self, iterator):
        message = MqdssmWriter.write(self, iterator)
        attempt = TaskContext.get().attemptNumber()
        if attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if attempt == 1:
            raise RuntimeError("lost when all was written")
        return message

class Late(MqdssmDataSource):
    @classmethod
    def name(cls):
        return "late"

    def writer(self, schema, overwrite):
        return LateWriter(dict(self.options), schema, overwrite=overwrite)

with spark_session("retries", conf={"spark.master": "local[2,4]"}) as spark:
    spark.dataSource.register(Late)
    number = F.col("id").cast("string")
    rows = spark.range(0, 300, 1, 3).select(
        F.concat(F.lit("web01\\\\made"), number).alias("Pathname"), number.alias("Label")
    )
    options = {"url": url, "user": user, "cafile": ca, "credentialsfile": secret, "object": "queue"}
    rows.write.format("late").mode("append").options(journal=journal, **options).save()
"""


@pytest.mark.soak
def test_tasks_that_fail_after_their_writes_twice(enterprise, tmp_path):
    """Once killed, once with an error: nothing is there twice, and files of lost attempts do not count."""
    journal = tmp_path / "journal"
    server = enterprise.server
    arguments = [server.url, server.user, server.ca_file, str(enterprise.password_file), str(journal)]
    done = subprocess.run(
        [sys.executable, "-c", FAILING, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    manifest, outcomes = journal_of(journal)
    assert (manifest["complete"], manifest["counts"]) == (True, {"equal": 300})
    assert len({row["dn"] for row in outcomes}) == 300
    (newest,) = journal.iterdir()
    attempts = list((newest / "outcome").glob("part-*.parquet"))
    assert (len(attempts), len(manifest["files"])) == (9, 3)
    effects = Counter(row["effect"] for path in attempts for row in pq.read_table(path).to_pylist())
    assert effects == {"added": 300, "equal": 600}
    with enterprise.connect() as directory:
        assert sum("made" in q.pathname for q in directory.search(mqdssm.Queue)) == 300
